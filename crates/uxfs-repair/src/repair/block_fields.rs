//! Blocks of files whose checksum is right, and of which a single field is wrong: the field gets the value that the rest of the file
//! system tells.
//!
//! Every block says what it is, where it lies, whose it is, and of which file system. One of the four that contradicts the others, in a
//! block that is sound otherwise, is a wrong field. Two are another block: an old one, or one that was written to the wrong place. A block
//! whose place alone is wrong may have been swapped with another one of its file: it is left alone where the other place says so.

use uxfs_block::engine::unreadable::has_filler;
use uxfs_format::{
    attribute::{leaf::LeafBlock, remote},
    btree::extent_map::Extent,
    checksum,
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{Fork, symlink},
    seal::checksum_offset_of,
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{attribute::AttributeValue, error::Result, volume::Volume};

use super::{
    action::Action,
    identity::{Field, field, kinds_of, of_file_block, owner_of},
    log_copies::{DamagedBlock, is_in_one_piece, length_bytes},
    owned_blocks::OwnedBlocks,
    stage::Stage,
};
use crate::{
    attribute::{
        leaf::{self, Done, LeafWitnesses},
        stored_values::{SearchBudget, StoredValues},
    },
    symlink::extent as symlink_extent,
};

/// The longest value of an attribute.
const MOST_VALUE_BYTES: u32 = 64 << 10;

/// Corrects fields. Gives whether there were any.
///
/// # Errors
/// The device.
pub(super) fn mend(
    volume: &Volume,
    stage: &Stage,
    blocks: &[DamagedBlock],
    budget: &SearchBudget,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let mut values = Pieces::new(volume);
    let mut stored = LastStored { volume, stage, budget, last: None, owners: OwnedBlocks::new(volume) };
    write_each(stage, blocks, actions, |block| {
        let length = length_of(volume, stage.geometry(), block);
        if length > stage.geometry().block_size() && !is_in_one_piece(volume, block, length) {
            return None;
        }
        let bytes = bytes_of(stage, block, length)?;
        let candidates = kinds_of(block.structure).iter();
        let mended = candidates
            .copied()
            .filter(|structure| is_sealed(*structure, &bytes))
            .find_map(|structure| mend_as(stage, &mut values, &mut stored, block, structure, &bytes));
        let Mended { structure, bytes, done: Done { removed, guessed } } = mended?;
        let DamagedBlock { inode, sector, .. } = *block;
        Some((bytes, Action::BlockField { structure, inode, sector, removed, guessed }))
    })
}

/// Targets of symbolic links, values of attributes and leaves of attributes whose checksum alone is wrong: they are kept, with a right
/// one. Nothing repeats them, and what is given up is lost for sure. An access control list that is gone gives its mask to the group.
///
/// # Errors
/// The device.
pub(super) fn seal_again(
    volume: &Volume,
    stage: &Stage,
    blocks: &[DamagedBlock],
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let mut values = Pieces::new(volume);
    write_each(stage, blocks, actions, |block| {
        let is_kept = match block.structure {
            Structure::Symlink => true,
            Structure::AttributeRemoteValue => values.of_value(block).is_some(),
            Structure::AttributeLeaf | Structure::AttributeAnyIndex => true,
            _ => false,
        };
        if !is_kept {
            return None;
        }
        let mut bytes = bytes_of(stage, block, length_of(volume, stage.geometry(), block))?;
        let structure = match block.structure {
            Structure::AttributeAnyIndex => Structure::AttributeLeaf,
            structure => structure,
        };
        if is_sealed(structure, &bytes) {
            return None;
        }
        checksum::seal(&mut bytes, checksum_offset_of(structure)?);
        let block = DamagedBlock { structure, ..*block };
        if !is_whole(stage, &mut values, &block, &bytes) {
            return None;
        }
        if structure == Structure::AttributeLeaf {
            let leaf = LeafBlock::parse(&bytes, stage.geometry()).ok()?;
            leaf::verify_free_regions(&leaf).ok()?;
        }
        let DamagedBlock { inode, sector, .. } = block;
        Some((bytes, Action::BlockChecksum { structure, inode, sector }))
    })
}

/// Writes each block of which `mended` has better bytes. Gives whether there were any.
fn write_each(
    stage: &Stage,
    blocks: &[DamagedBlock],
    actions: &mut Vec<Action>,
    mut mended: impl FnMut(&DamagedBlock) -> Option<(Vec<u8>, Action)>,
) -> Result<bool> {
    let before = actions.len();
    for block in &single_blocks(stage, blocks) {
        if let Some((bytes, action)) = mended(block) {
            stage.write_at(block.sector, &bytes)?;
            actions.push(action);
        }
    }
    Ok(actions.len() > before)
}

/// Bytes of a block of a file, or of all blocks that have one checksum.
pub(super) fn length_of(volume: &Volume, geometry: &Geometry, block: &DamagedBlock) -> usize {
    symlink_length(volume, block).unwrap_or_else(|| length_bytes(block.structure, geometry))
}

/// `None` if a sector is unreadable: its contents must not be guessed.
fn bytes_of(stage: &Stage, block: &DamagedBlock, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    stage.read_at(block.sector, &mut bytes).ok()?;
    (!has_filler(&bytes)).then_some(bytes)
}

/// Whether a block with a right checksum says all that others say of it.
fn is_whole(stage: &Stage, pieces: &mut Pieces<'_>, block: &DamagedBlock, bytes: &[u8]) -> bool {
    let geometry = stage.geometry();
    let fields = of_file_block(block.structure, (block.inode, block.sector), geometry)
        .zip(pieces.of(block, block.structure));
    let Some((identity, pieces)) = fields else { return false };
    let mut wanted = bytes.to_vec();
    let is_changed = identity.iter().chain(pieces.iter().flatten()).any(|field| field.put(&mut wanted));
    // A target has no zero bytes.
    let length = pieces[1].map_or(0, |length| usize::try_from(length.value).unwrap_or(0));
    let target = bytes.get(symlink::SymlinkHeader::SIZE_BYTES..).and_then(|target| target.get(..length));
    let is_text = target.is_some_and(|target| !target.contains(&0));
    !is_changed
        && (block.structure != Structure::Symlink || is_text)
        && verify(block.structure, bytes, &VerifyContext::new(geometry, block.sector)).is_ok()
}

/// Several blocks of a value are read and found damaged at once: each is looked at by itself.
fn single_blocks(stage: &Stage, blocks: &[DamagedBlock]) -> Vec<DamagedBlock> {
    let geometry = stage.geometry();
    let sectors = u64::from(geometry.sectors_per_block());
    let mut single: Vec<DamagedBlock> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let count = match block.structure {
            Structure::AttributeRemoteValue => remote::block_count(geometry, MOST_VALUE_BYTES),
            _ => 1,
        };
        let all = (0..u64::from(count)).map(|index| DamagedBlock {
            sector: Sector::new(block.sector.get().saturating_add(index.saturating_mul(sectors))),
            ..*block
        });
        single.extend(all);
    }
    single
}

fn is_sealed(structure: Structure, bytes: &[u8]) -> bool {
    checksum_offset_of(structure).is_some_and(|offset_bytes| checksum::check(bytes, offset_bytes).is_ok())
}

/// What the attribute fork holds of the inode that was asked for last.
struct LastStored<'s> {
    volume: &'s Volume,
    stage: &'s Stage,
    budget: &'s SearchBudget,
    last: Option<(InodeNumber, Option<StoredValues<'s>>)>,
    owners: OwnedBlocks<'s>,
}

impl<'s> LastStored<'s> {
    fn of(&mut self, inode: InodeNumber) -> Option<&StoredValues<'s>> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != inode) {
            self.last = Some((inode, StoredValues::new(self.volume, self.stage, inode, self.budget)));
        }
        self.last.as_ref().and_then(|(_, values)| values.as_ref())
    }

    /// Whether the inode that a block names has it as well: then the map that leads here is wrong, not the block.
    fn is_of_other(&mut self, structure: Structure, bytes: &[u8], sector: Sector) -> bool {
        let owner = owner_of(structure, bytes).map(InodeNumber::new);
        owner.is_some_and(|owner| self.owners.has(owner, sector))
    }
}

struct Mended {
    structure: Structure,
    bytes: Vec<u8>,
    /// To the attributes of a leaf.
    done: Done,
}

fn mend_as(
    stage: &Stage,
    pieces: &mut Pieces<'_>,
    stored: &mut LastStored<'_>,
    block: &DamagedBlock,
    structure: Structure,
    found: &[u8],
) -> Option<Mended> {
    let geometry = stage.geometry();
    let checksum_offset = checksum_offset_of(structure)?;
    let mut bytes = found.to_vec();
    let [magic, uuid_high, uuid_low, owner, place] =
        of_file_block(structure, (block.inode, block.sector), geometry)?;
    let claimed = own_place(&bytes, &place);
    let wrong_uuid = uuid_high.put(&mut bytes) | uuid_low.put(&mut bytes);
    let wrong_place = place.put(&mut bytes);
    let wrong_owner = owner.put(&mut bytes);
    if wrong_owner && stored.is_of_other(structure, found, block.sector) {
        return None;
    }
    let wrong = [magic.put(&mut bytes), wrong_uuid, wrong_owner, wrong_place];
    let mut wrong = wrong.iter().filter(|is_wrong| **is_wrong).count();
    if wrong_place && is_elsewhere(stage, found, &place, claimed?, block.sector) {
        return None;
    }
    for field in pieces.of(block, structure)?.into_iter().flatten() {
        wrong += usize::from(field.put(&mut bytes));
    }
    if wrong > 1 {
        return None;
    }
    checksum::seal(&mut bytes, checksum_offset);
    let context = VerifyContext::new(geometry, block.sector);
    if structure == Structure::AttributeLeaf {
        let witnesses = LeafWitnesses::new(stored.of(block.inode), &bytes);
        let done = leaf::mend(&mut bytes, &context, &witnesses)?;
        return (bytes != found).then_some(Mended { structure, bytes, done });
    }
    let is_sound = verify(structure, &bytes, &context).is_ok();
    (is_sound && bytes != found).then_some(Mended { structure, bytes, done: Done::default() })
}

fn own_place(bytes: &[u8], place: &Field) -> Option<Sector> {
    let found = bytes.get(place.offset_bytes..)?.first_chunk::<8>()?;
    Some(Sector::new(u64::from_be_bytes(*found)))
}

/// Whether the place that a block claims holds the same block, or one that claims the place of this one.
fn is_elsewhere(stage: &Stage, found: &[u8], place: &Field, claimed: Sector, own: Sector) -> bool {
    let mut there = vec![0; found.len()];
    if claimed.get() >= stage.geometry().data_size_bytes() / 512
        || stage.read_at(claimed, &mut there).is_err()
    {
        return false;
    }
    there == found || own_place(&there, place) == Some(own)
}

/// First byte and length of the piece of a target that an extent holds.
fn symlink_piece(volume: &Volume, block: &DamagedBlock) -> Option<(u64, u64)> {
    let (geometry, inode) = (volume.geometry(), volume.inode(block.inode).ok()?);
    let map = volume.extent_map(&inode, Fork::Data).ok()?;
    let mut start = 0;
    for extent in map.iter() {
        let room = extent.length_blocks.saturating_mul(geometry.block_size() as u64);
        let room = room.saturating_sub(remote::HEADER_BYTES.into());
        let length = room.min(inode.size_bytes().saturating_sub(start));
        if geometry.sector_of_block(extent.start) == Some(block.sector) {
            return Some((start, length));
        }
        start = start.saturating_add(length);
    }
    None
}

/// Bytes of the whole extent of a symbolic link, which has one header.
fn symlink_length(volume: &Volume, block: &DamagedBlock) -> Option<usize> {
    if block.structure != Structure::Symlink {
        return None;
    }
    let (geometry, inode) = (volume.geometry(), volume.inode(block.inode).ok()?);
    let map = volume.extent_map(&inode, Fork::Data).ok()?;
    let mut extents = map.iter();
    let extent = extents.find(|extent| geometry.sector_of_block(extent.start) == Some(block.sector))?;
    symlink_extent::length_bytes(extent.length_blocks, geometry)
}

/// The part of a value that a block of an attribute fork holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValuePiece {
    /// First byte.
    start: u64,
    /// Bytes.
    length: u64,
}

/// A value in blocks of its own.
#[derive(Debug, Clone, Copy)]
struct Value {
    first_block: u64,
    length_bytes: u32,
}

/// Which parts of targets and values blocks hold. Values of the inode that was asked for last are kept.
pub(super) struct Pieces<'v> {
    volume: &'v Volume,
    inode: Option<InodeNumber>,
    extents: Vec<Extent>,
    /// By their first block.
    values: Vec<Value>,
}

impl<'v> Pieces<'v> {
    pub(super) fn new(volume: &'v Volume) -> Self {
        Self { volume, inode: None, extents: Vec::new(), values: Vec::new() }
    }

    /// First byte and length of what a block holds, as fields: nothing for other structures; `None` where it is not known.
    pub(super) fn of(&mut self, block: &DamagedBlock, structure: Structure) -> Option<[Option<Field>; 2]> {
        let (start, length) = match structure {
            Structure::Symlink => symlink_piece(self.volume, block)?,
            Structure::AttributeRemoteValue => {
                let ValuePiece { start, length } = self.of_value(block)?;
                (start, length)
            }
            _ => return Some([None, None]),
        };
        Some([Some(field(4, 4, start)), Some(field(8, 4, length))])
    }

    /// The part of a value that a block of an attribute fork holds; `None` where it holds none.
    pub(super) fn of_value(&mut self, block: &DamagedBlock) -> Option<ValuePiece> {
        if self.inode != Some(block.inode) {
            (self.extents, self.values) = values_of(self.volume, block.inode).unwrap_or_default();
            self.inode = Some(block.inode);
        }
        let geometry = self.volume.geometry();
        let sectors = u64::from(geometry.sectors_per_block()).max(1);
        let file_block = self.extents.iter().find_map(|extent| {
            let first = geometry.sector_of_block(extent.start)?;
            let skipped = block.sector.get().checked_sub(first.get())? / sectors;
            (skipped < extent.length_blocks).then(|| extent.file_block.get().saturating_add(skipped))
        })?;
        let next = self.values.partition_point(|value| value.first_block <= file_block);
        let value = self.values.get(next.checked_sub(1)?)?;
        let skipped = file_block.saturating_sub(value.first_block);
        if skipped >= u64::from(remote::block_count(geometry, value.length_bytes)) {
            return None;
        }
        let part = u64::from(remote::part_size_bytes(geometry));
        let start = skipped.saturating_mul(part);
        let length = part.min(u64::from(value.length_bytes).saturating_sub(start));
        Some(ValuePiece { start, length })
    }
}

/// The extents of the attribute fork, and the values in blocks of their own.
fn values_of(volume: &Volume, inode: InodeNumber) -> Option<(Vec<Extent>, Vec<Value>)> {
    let inode = volume.inode(inode).ok()?;
    let extents = volume.extent_map(&inode, Fork::Attribute).ok()?.iter().collect();
    let mut values = Vec::new();
    let reader = volume.attributes(&inode).ok()?;
    let _ = reader.visit(|attribute| {
        if let AttributeValue::Remote { first_block, length_bytes } = attribute.value {
            values.push(Value { first_block: first_block.get(), length_bytes });
        }
        Ok(std::ops::ControlFlow::Continue(()))
    });
    values.sort_by_key(|value| value.first_block);
    Some((extents, values))
}

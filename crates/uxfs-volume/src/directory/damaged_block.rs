//! A damaged block with entries: the entries of it that a tolerant volume gives.
//!
//! The header must say that the block belongs to the directory. The entries must pass all checks of an entry, and the index of the
//! directory must allow them, so that names which were removed do not come back.

use uxfs_format::{
    directory::{
        DataPointer,
        leaf::{LeafBlock, SINGLE_MAGIC},
        name_hash::NameRule,
        salvage::{SalvagedEntries, SalvagedIndex, is_block_of},
    },
    fault::Structure,
    geometry::Geometry,
    name_tree::header::magic_of,
    units::{FileBlock, InodeNumber, Sector},
};

use crate::{
    error::Result,
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
};

/// Leaves that are asked about one entry: names with one hash may fill more.
const MOST_LEAVES: u32 = 8;
/// Entries behind damage that one walk over a directory looks up in the index. Further ones are left out.
pub(super) const MOST_LOOKUPS: u32 = 100_000;

/// The bytes of a damaged block, and where its entries begin.
#[derive(Debug)]
pub(super) struct DamagedBlock {
    pub(super) bytes: Box<[u8]>,
    pub(super) entries: std::vec::IntoIter<u32>,
}

impl DamagedBlock {
    /// Reads the block at `place`, of a single-block directory or of one with an index elsewhere. `None` where its header does not
    /// say that it belongs to the directory.
    pub(super) fn read(
        blocks: &ForkBlocks<'_>,
        directory: InodeNumber,
        structure: Structure,
        place: FileBlock,
        lookups: &mut u32,
    ) -> Option<Self> {
        let geometry = blocks.geometry();
        let pieces = blocks.pieces(structure, place, geometry.directory_block_size_bytes).ok()?;
        let bytes = read_pieces(blocks, &pieces);
        let (sector, _) = *pieces.first()?;
        if !is_block_of(&bytes, directory, sector, geometry) {
            return None;
        }
        let entries: Vec<u32> = match structure {
            Structure::DirectoryBlock => entries_of_single(&bytes, geometry),
            _ => entries_of_data(blocks, &bytes, place, lookups),
        };
        Some(Self { bytes: bytes.into(), entries: entries.into_iter() })
    }
}

/// All bytes that can be read; zeros for the others.
fn read_pieces(blocks: &ForkBlocks<'_>, pieces: &[(Sector, u32)]) -> Vec<u8> {
    let device = blocks.volume.device();
    let mut bytes = Vec::new();
    for (sector, length_bytes) in pieces {
        let mut piece = vec![0; *length_bytes as usize];
        let start_bytes = Geometry::byte_of_sector(*sector);
        if device.read(start_bytes, &mut piece).is_err() {
            let sector_bytes = u64::from(blocks.geometry().sector_size_bytes);
            for (part, place) in piece.chunks_mut(sector_bytes as usize).zip(0..) {
                if device.read(start_bytes.saturating_add(place * sector_bytes), part).is_err() {
                    part.fill(0);
                }
            }
        }
        bytes.append(&mut piece);
    }
    bytes
}

fn entries_of_single(bytes: &[u8], geometry: &Geometry) -> Vec<u32> {
    let index = SalvagedIndex::new(bytes, geometry);
    let rule = NameRule::of(geometry);
    SalvagedEntries::new(bytes, index.data_end_bytes, geometry)
        .filter(|salvaged| index.allows(salvaged, rule.hash(salvaged.entry.name)))
        .map(|salvaged| salvaged.entry.offset_bytes)
        .collect()
}

fn entries_of_data(blocks: &ForkBlocks<'_>, bytes: &[u8], place: FileBlock, lookups: &mut u32) -> Vec<u32> {
    let geometry = blocks.geometry();
    let rule = NameRule::of(geometry);
    let start_bytes = place.get() << geometry.block_log;
    let mut is_indexed = |name: &[u8], offset_bytes: u32| {
        let Some(left) = lookups.checked_sub(1) else { return false };
        *lookups = left;
        let pointer = DataPointer::of_byte(start_bytes + u64::from(offset_bytes));
        // Without an index at this hash nothing contradicts the entry.
        pointer.is_some_and(|pointer| indexed(blocks, rule.hash(name), pointer).unwrap_or(true))
    };
    SalvagedEntries::new(bytes, geometry.directory_block_size_bytes, geometry)
        .map(|salvaged| (salvaged.is_behind_damage, salvaged.entry))
        .filter(|(is_behind_damage, entry)| !is_behind_damage || is_indexed(entry.name, entry.offset_bytes))
        .map(|(_, entry)| entry.offset_bytes)
        .collect()
}

/// Whether the leaves of the index lead to an entry.
fn indexed(blocks: &ForkBlocks<'_>, hash: u32, pointer: DataPointer) -> Result<bool> {
    let geometry = blocks.geometry();
    let place = geometry.directory_leaf_start();
    let root = blocks.read_tree_block(place)?;
    let corrupt = |place, fault| blocks.corruption(blocks.index_structure(), place, None, fault);
    if magic_of(&root) == Some(SINGLE_MAGIC) {
        let leaf = LeafBlock::parse(&root, geometry).map_err(|fault| corrupt(place, fault))?;
        return Ok(leaf.pointers_of(hash).any(|found| found == pointer));
    }
    let Some(mut walk) = LeafWalk::descend(blocks, root, Start::Hash(hash))? else { return Ok(false) };
    for _ in 0..MOST_LEAVES {
        let last = {
            let leaf = LeafBlock::parse(&walk.leaf, geometry).map_err(|fault| corrupt(walk.block, fault))?;
            if leaf.pointers_of(hash).any(|found| found == pointer) {
                return Ok(true);
            }
            leaf.last_hash()
        };
        if last.is_some_and(|last| last > hash) || !walk.next(last)? {
            break;
        }
    }
    Ok(false)
}

//! Blocks of an extent map that belong to another inode now: contents were exchanged by exchanging the roots, and the
//! blocks below still name the inode that they came from.

use std::collections::{BTreeMap, HashSet};

use uxfs_format::{
    btree::extent_map::ExtentMapRoot,
    convert::long_to_usize,
    fault::Structure,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{ForkFormat, InodeCore},
    log::{inode_change::is_inode, inode_item::InodeItemFields},
    units::{FsBlock, InodeNumber},
};

use super::buffers::{Buffers, Treatment};
use crate::error::Result;

const OWNER: std::ops::Range<usize> = 56..64;
const LEVEL: std::ops::Range<usize> = 4..6;
const COUNT: std::ops::Range<usize> = 6..8;
const HEADER_BYTES: usize = 72;
/// No tree of extents is higher.
const MAX_LEVEL: u16 = 20;

/// Where an inode lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct InodePlace {
    /// First sector of its cluster.
    pub sector: u64,
    /// How many the cluster has.
    pub sectors: u32,
    /// Its first byte in the cluster.
    pub start: usize,
}

/// Inodes whose trees are to get them as owner. What counts is what they are when all has been replayed: so each tree is
/// walked once, however often the log says it.
#[derive(Debug, Default)]
pub(super) struct OwnerChanges(BTreeMap<InodeNumber, (InodePlace, InodeItemFields)>);

impl OwnerChanges {
    /// An item of an inode may say that blocks of its trees name another.
    pub fn note(&mut self, number: InodeNumber, place: InodePlace, fields: InodeItemFields) {
        let fields = fields & (InodeItemFields::DATA_OWNER | InodeItemFields::ATTRIBUTE_OWNER);
        if !fields.is_empty() {
            let entry = self.0.entry(number).or_insert((place, fields));
            *entry = (place, entry.1 | fields);
        }
    }

    /// Gives the blocks of all these trees their owners.
    ///
    /// # Errors
    /// The device failed; a block cannot be sealed.
    pub fn make(self, buffers: &mut Buffers<'_>, geometry: &Geometry) -> Result<()> {
        // No block is in two trees, whatever hostile inodes say.
        let mut walked = HashSet::new();
        for (number, (place, fields)) in self.0 {
            let held = buffers.open(place.sector, place.sectors, geometry)?;
            let inode = held.bytes.get(place.start..).and_then(|rest| rest.get(..geometry.inode_size()));
            let is_this = |inode: &&[u8]| {
                let core = InodeCore::prefix_of(inode).filter(|_| is_inode(inode));
                core.is_some_and(|core| core.mode.get() != 0 && core.inode_number() == number)
            };
            if let Some(inode) = inode.filter(is_this).map(<[u8]>::to_vec) {
                change(buffers, geometry, &inode, (number, fields), &mut walked)?;
            }
        }
        Ok(())
    }
}

/// Gives the blocks of the trees of the inode in `inode` the owner `number`.
#[doc(alias = "xfs_recover_inode_owner_change")]
fn change(
    buffers: &mut Buffers<'_>,
    geometry: &Geometry,
    inode: &[u8],
    (number, fields): (InodeNumber, InodeItemFields),
    walked: &mut HashSet<FsBlock>,
) -> Result<()> {
    let Some(core) = InodeCore::prefix_of(inode) else { return Ok(()) };
    let literal = inode.get(INODE_CORE_SIZE_BYTES as usize..).unwrap_or_default();
    let split = match core.fork_offset {
        0 => literal.len(),
        offset => usize::from(offset) * 8,
    };
    let (data, attribute) = literal.split_at_checked(split).unwrap_or((literal, &[]));
    let forks = [
        (InodeItemFields::DATA_OWNER, core.format, data),
        (InodeItemFields::ATTRIBUTE_OWNER, core.attribute_format, attribute),
    ];
    for (field, format, fork) in forks {
        if !fields.contains(field) || format != ForkFormat::Btree.code() {
            continue;
        }
        let Ok(root) = ExtentMapRoot::parse(fork) else { continue };
        let children = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        // No tree has more blocks than the inode says.
        let budget = core.blocks.get().min(geometry.data_blocks);
        change_below(buffers, geometry, (children, root.level()), (number, budget), walked)?;
    }
    Ok(())
}

fn change_below(
    buffers: &mut Buffers<'_>,
    geometry: &Geometry,
    (mut children, level): (Vec<FsBlock>, u16),
    (number, mut budget): (InodeNumber, u64),
    walked: &mut HashSet<FsBlock>,
) -> Result<()> {
    let sectors = geometry.sectors_per_block();
    for level in (0..level.min(MAX_LEVEL)).rev() {
        let mut next = Vec::new();
        for child in children {
            if !walked.insert(child) {
                continue;
            }
            let Some(left) = budget.checked_sub(1) else { return Ok(()) };
            budget = left;
            let Some(sector) = geometry.sector_of_block(child) else { return Ok(()) };
            let held = buffers.open(sector.get(), sectors, geometry)?;
            let is_node =
                uxfs_format::seal::structure_of(&held.bytes, geometry) == Some(Structure::ExtentMap);
            let word = |range: std::ops::Range<usize>| {
                held.bytes.get(range).and_then(|bytes| bytes.first_chunk::<2>())
            };
            let found_level = word(LEVEL).map(|bytes| u16::from_be_bytes(*bytes));
            if !is_node || found_level != Some(level) {
                continue;
            }
            if level > 0 {
                let count = word(COUNT).map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
                let capacity = (held.bytes.len() - HEADER_BYTES) / 16;
                let pointers = held.bytes.get(HEADER_BYTES + capacity * 8..).unwrap_or_default();
                let pointers = pointers.as_chunks::<8>().0.iter().take(count.min(capacity));
                next.extend(pointers.map(|pointer| FsBlock::new(u64::from_be_bytes(*pointer))));
            }
            if let Some(owner) = held.bytes.get_mut(OWNER)
                && owner != number.get().to_be_bytes()
            {
                owner.copy_from_slice(&number.get().to_be_bytes());
                held.is_changed = true;
                held.treatment = Treatment::Seal(Structure::ExtentMap);
            }
        }
        // As many as the budget at most, whatever the blocks say.
        next.truncate(long_to_usize(budget));
        children = next;
    }
    Ok(())
}

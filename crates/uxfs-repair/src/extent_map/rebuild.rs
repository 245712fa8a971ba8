//! Extent maps from the reverse map, which says of each block which file block of which fork it is, and from what can be read of the
//! map itself.
//!
//! Where blocks of a reverse map are damaged as well, the block count of the inode decides whether anything is missing. A regular file of
//! which something is missing reads as zeros there: it is told to the caller, and leaves its name for one in `lost+found`.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::{
        extent_map::{Extent, ExtentMapRoot, ExtentRecord},
        reverse_map::Owner,
    },
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags2, verify_inode},
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};
use zerocopy::IntoBytes;

use super::spare::SpareBlocks;
use crate::{
    btree::build::{BelowRoot, build_extent_map},
    inode::gather::{change_core, read_inode},
    repair::{action::Action, stage::Stage},
    reverse_map::read::visit_group,
};

/// The longest extent of a map.
const MOST_EXTENT_BLOCKS: u64 = (1 << 21) - 1;

/// What the reverse map says of a fork.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owned {
    pub extents: Vec<Extent>,
    /// Blocks of the old btree: the new one goes there. Starts and lengths: a record that lies may be as long as a group.
    pub btree_runs: Vec<(FsBlock, u64)>,
}

/// What the reverse maps of all groups say of some inodes.
#[derive(Debug, Default)]
pub(crate) struct OwnedByInode {
    /// By inode, and whether it is the attribute fork.
    pub forks: BTreeMap<(InodeNumber, bool), Owned>,
    /// There is nothing else.
    pub is_complete: bool,
}

/// A fork that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub extents: u64,
    /// Nothing of the fork is missing.
    pub is_whole: bool,
}

/// Rebuilds the extent maps of these inodes. Returns the regular files that lost blocks. Inodes that cannot be read are left
/// out. `unread`: inodes of which the reverse map does not say all.
pub(crate) fn rebuild(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    unread: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<BTreeSet<InodeNumber>> {
    let OwnedByInode { forks: mut owned, is_complete } = gather(volume, inodes);
    let (mut partial, spare) = (BTreeSet::new(), SpareBlocks::new(volume));
    for number in inodes {
        for fork in [Fork::Data, Fork::Attribute] {
            // The other fork may have been changed in the stage.
            let Some(inode) = staged_inode(stage, *number)? else { continue };
            if !is_damaged(volume, &inode, fork) {
                continue;
            }
            let mut owned = owned.remove(&(*number, fork == Fork::Attribute)).unwrap_or_default();
            if let Ok(map) = volume.extent_map(&inode, fork) {
                owned.extents.extend(map.iter());
            }
            let is_complete = is_complete && !unread.contains(number);
            let Some(written) = write_fork(&spare, stage, &inode, fork, owned, is_complete)? else {
                continue;
            };
            actions.push(Action::ExtentMap { inode: *number, fork, extents: written.extents });
            let is_file = fork == Fork::Data && inode.file_type() == Some(FileType::Regular);
            if is_file && !written.is_whole {
                partial.insert(*number);
            }
        }
    }
    Ok(partial)
}

/// An inode as it lies in the stage, where it is sound and in use.
pub(crate) fn staged_inode(stage: &Stage, number: InodeNumber) -> Result<Option<Inode>> {
    let (bytes, geometry) = (read_inode(stage, number)?, stage.geometry());
    let core = verify_inode(&bytes, number, geometry).ok().filter(|core| !core.is_free());
    Ok(core.and_then(|core| Inode::decode(&bytes, core, geometry)))
}

fn is_damaged(volume: &Volume, inode: &Inode, fork: Fork) -> bool {
    let is_mapped = matches!(inode.fork_format(fork), Some(ForkFormat::Extents | ForkFormat::Btree));
    let options = ScanOptions::in_order();
    is_mapped && super::check::blocks_or_fault(volume, inode, fork, options).is_none()
}

/// All mappings of these inodes, by inode and fork, and whether there are no others.
pub(crate) fn gather(volume: &Volume, inodes: &BTreeSet<InodeNumber>) -> OwnedByInode {
    let geometry = volume.geometry();
    let mut all: BTreeMap<(InodeNumber, bool), Owned> = BTreeMap::new();
    let mut is_complete = true;
    for group in geometry.groups() {
        is_complete &= visit_group(volume, group, &mut |mapping| {
            let Owner::Inode(inode) = mapping.owner else { return };
            let Some(start) = geometry.fs_block(group, mapping.start).filter(|_| inodes.contains(&inode))
            else {
                return;
            };
            let owned = all.entry((inode, mapping.is_attribute_fork)).or_default();
            if mapping.is_extent_map_block {
                owned.btree_runs.push((start, mapping.length_blocks.into()));
            } else {
                owned.add(mapping.file_block, start, mapping.length_blocks.into(), mapping.is_unwritten);
            }
        });
    }
    OwnedByInode { forks: all, is_complete }
}

impl Owned {
    /// Adds a mapping, which may be longer than an extent can be.
    fn add(&mut self, file_block: FileBlock, start: FsBlock, length_blocks: u64, is_unwritten: bool) {
        let mut done = 0;
        while done < length_blocks {
            let length_blocks = (length_blocks - done).min(MOST_EXTENT_BLOCKS);
            self.extents.push(Extent {
                file_block: FileBlock::new(file_block.get().saturating_add(done)),
                start: FsBlock::new(start.get().saturating_add(done)),
                length_blocks,
                is_unwritten,
            });
            done += length_blocks;
        }
    }

    /// Blocks of the file and of the btree.
    pub fn blocks(&self) -> u64 {
        let mapped: u64 = self.extents.iter().map(|extent| extent.length_blocks).sum();
        mapped.saturating_add(self.btree_blocks())
    }

    /// Blocks of the btree.
    fn btree_blocks(&self) -> u64 {
        self.btree_runs.iter().map(|(_, length_blocks)| length_blocks).sum()
    }

    /// The first of these blocks: a btree has at most one for each extent.
    fn blocks_for_btree(&self, extents: usize) -> Vec<FsBlock> {
        let runs = self.btree_runs.iter();
        let blocks = runs.flat_map(|(start, length_blocks)| (start.get()..).take(*length_blocks as usize));
        blocks.map(FsBlock::new).take(extents).collect()
    }

    /// The extents in their order, each part of the file once, and whether no two say different things. Of two that do, the one that begins
    /// first in the file is kept.
    pub fn union(&mut self) -> (Vec<Extent>, bool) {
        self.extents.sort_unstable_by_key(|extent| (extent.file_block, extent.start));
        let (mut union, mut is_consistent): (Vec<Extent>, bool) = (Vec::new(), true);
        for extent in &self.extents {
            let Some(last) = union.last_mut().filter(|last| last.end() >= extent.file_block) else {
                union.push(*extent);
                continue;
            };
            let shift = |of: &Extent| of.start.get().wrapping_sub(of.file_block.get());
            let is_same = shift(last) == shift(extent) && last.is_unwritten == extent.is_unwritten;
            let end = last.end();
            if !is_same {
                is_consistent &= end <= extent.file_block;
                union.extend(behind(extent, end));
                continue;
            }
            let length_blocks = extent.end().max(end).get().saturating_sub(last.file_block.get());
            if length_blocks <= MOST_EXTENT_BLOCKS {
                last.length_blocks = length_blocks;
            } else {
                union.extend(behind(extent, end));
            }
        }
        (union, is_consistent)
    }
}

/// What of an extent lies behind a block of the file.
fn behind(extent: &Extent, file_block: FileBlock) -> Option<Extent> {
    let done = file_block.get().saturating_sub(extent.file_block.get());
    let length_blocks = extent.length_blocks.checked_sub(done).filter(|length| *length > 0)?;
    Some(Extent {
        file_block: FileBlock::new(extent.file_block.get().saturating_add(done)),
        start: FsBlock::new(extent.start.get().saturating_add(done)),
        length_blocks,
        is_unwritten: extent.is_unwritten,
    })
}

/// Writes a fork. `is_complete`: nothing else belongs to it. `None` where it has extents that cannot be, or no blocks for its btree.
pub(crate) fn write_fork(
    spare: &SpareBlocks<'_>,
    stage: &Stage,
    inode: &Inode,
    fork: Fork,
    mut owned: Owned,
    is_complete: bool,
) -> Result<Option<Written>> {
    let geometry = stage.geometry();
    let (extents, is_consistent) = owned.union();
    let mapped: u64 = extents.iter().map(|extent| extent.length_blocks).sum();
    let other = if fork == Fork::Data { Fork::Attribute } else { Fork::Data };
    let other_blocks = super::check::count_blocks(spare.volume(), inode, other);
    let known = mapped.saturating_add(owned.btree_blocks()).saturating_add(other_blocks);
    let is_whole = is_consistent && (is_complete || known == inode.blocks());
    let records: Option<Vec<ExtentRecord>> = extents.iter().map(ExtentRecord::new).collect();
    let Some(records) = records else { return Ok(None) };
    let room = inode.fork_room_bytes(fork, geometry) as usize;
    let data_room = inode.fork_room_bytes(Fork::Data, geometry) as usize;
    let is_inline = records.len() * size_of::<ExtentRecord>() <= room;
    let mut blocks = owned.blocks_for_btree(records.len());
    let below = if is_inline {
        None
    } else {
        let entries = ExtentMapRoot::capacity(room) as usize;
        loop {
            let below = build_extent_map(stage, inode.number, &records, &blocks, entries)?;
            if below.is_some() {
                break below;
            }
            let Some(block) = spare.take(stage) else { return Ok(None) };
            let is_in = |extent: &Extent| {
                (extent.start.get()..extent.start.get() + extent.length_blocks).contains(&block.get())
            };
            blocks.extend((!extents.iter().any(is_in)).then_some(block));
        }
    };
    let own_blocks = mapped + below.as_ref().map_or(0, |below| below.blocks);
    let count = records.len() as u64;
    change_core(stage, inode.number, |core, forks| {
        let bytes = match fork {
            Fork::Data => forks.get_mut(..room),
            Fork::Attribute => forks.get_mut(data_room..),
        };
        let bytes = bytes.unwrap_or_default();
        bytes.fill(0);
        let format = match &below {
            None => {
                let slots = bytes.chunks_exact_mut(size_of::<ExtentRecord>());
                slots.zip(&records).for_each(|(slot, record)| slot.copy_from_slice(record.as_bytes()));
                ForkFormat::Extents
            }
            Some(below) => {
                put_root(bytes, below);
                ForkFormat::Btree
            }
        };
        core.blocks.set(own_blocks.saturating_add(other_blocks));
        set_count(core, fork, format, count);
    })?;
    Ok(Some(Written { extents: count, is_whole }))
}

fn set_count(core: &mut InodeCore, fork: Fork, format: ForkFormat, count: u64) {
    set_extent_count(core, fork, count);
    match fork {
        Fork::Data => core.format = format.code(),
        Fork::Attribute => core.attribute_format = format.code(),
    }
}

/// Sets the number of extents of a fork in its field.
pub(crate) fn set_extent_count(core: &mut InodeCore, fork: Fork, count: u64) {
    let has_large_counts = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
    let small = u32::try_from(count).unwrap_or(u32::MAX);
    match (fork, has_large_counts) {
        (Fork::Data, true) => core.large_extent_count.set(count),
        (Fork::Data, false) | (Fork::Attribute, true) => core.extent_count.set(small),
        (Fork::Attribute, false) => {
            core.attribute_extent_count.set(u16::try_from(count).unwrap_or(u16::MAX));
        }
    }
}

/// The root as it lies in the inode: the pointers behind room for all keys that the fork could hold.
fn put_root(bytes: &mut [u8], below: &BelowRoot) {
    let capacity = ExtentMapRoot::capacity(bytes.len()) as usize;
    let count = u16::try_from(below.children.len()).unwrap_or(u16::MAX);
    let Some((level, rest)) = bytes.split_first_chunk_mut() else { return };
    *level = below.level.to_be_bytes();
    let Some((place, rest)) = rest.split_first_chunk_mut() else { return };
    *place = count.to_be_bytes();
    let Some((keys, pointers)) = rest.split_at_mut_checked(capacity * 8) else { return };
    for (slot, (key, _)) in keys.chunks_exact_mut(8).zip(&below.children) {
        slot.copy_from_slice(key.as_bytes());
    }
    for (slot, (_, block)) in pointers.chunks_exact_mut(8).zip(&below.children) {
        slot.copy_from_slice(&block.get().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that lies about a length costs no memory.
    #[test]
    fn a_btree_takes_no_more_blocks_than_it_has_extents() {
        let btree_runs = vec![(FsBlock::new(7), 2), (FsBlock::new(1 << 40), u64::from(u32::MAX))];
        let owned = Owned { extents: Vec::new(), btree_runs };
        let blocks = [7, 8, 1 << 40, (1 << 40) + 1].map(FsBlock::new);
        assert_eq!(owned.blocks_for_btree(4), blocks);
        assert_eq!(owned.blocks(), u64::from(u32::MAX) + 2);
    }
}

//! Extent maps from the reverse map: it says of each block which file block of which fork it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use uxfs_format::{
    btree::{
        extent_map::{Extent, ExtentMapRoot, ExtentRecord},
        reverse_map::Owner,
    },
    inode::{Fork, ForkFormat, InodeCore, InodeFlags2},
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_volume::{
    btree::BlockEvent,
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};
use zerocopy::IntoBytes;

use crate::{
    btree::build::{BelowRoot, build_extent_map},
    inode::gather::change_core,
    repair::{action::Action, stage::Stage},
};

/// The longest extent of a map.
const MOST_EXTENT_BLOCKS: u64 = (1 << 21) - 1;

/// What the reverse map says of a fork.
#[derive(Debug, Default)]
struct Owned {
    extents: Vec<Extent>,
    /// Blocks of the old btree: the new one goes there.
    btree_blocks: Vec<FsBlock>,
}

/// Makes the extent maps of these inodes anew. Those that the reverse map does not tell stay as they are.
pub(crate) fn rebuild(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let Some(mut owned) = gather(volume, inodes) else { return Ok(()) };
    for number in inodes {
        let Ok(inode) = volume.inode(*number) else { continue };
        for fork in [Fork::Data, Fork::Attribute] {
            if !is_damaged(volume, &inode, fork) {
                continue;
            }
            let owned = owned.remove(&(*number, fork == Fork::Attribute)).unwrap_or_default();
            if let Some(extents) = write_fork(volume, stage, &inode, fork, owned)? {
                actions.push(Action::ExtentMap { inode: *number, fork, extents });
            }
        }
    }
    Ok(())
}

fn is_damaged(volume: &Volume, inode: &Inode, fork: Fork) -> bool {
    let is_mapped = matches!(inode.fork_format(fork), Some(ForkFormat::Extents | ForkFormat::Btree));
    let options = ScanOptions::in_order();
    is_mapped && super::check::blocks_or_fault(volume, inode, fork, options).is_none()
}

/// All mappings of these inodes, by inode and fork; `None` where some reverse map cannot be read to its end.
fn gather(volume: &Volume, inodes: &BTreeSet<InodeNumber>) -> Option<BTreeMap<(InodeNumber, bool), Owned>> {
    let geometry = volume.geometry();
    let mut all: BTreeMap<(InodeNumber, bool), Owned> = BTreeMap::new();
    for group in geometry.groups() {
        let tree = volume.group(group).reverse_map().ok().flatten()?;
        let mut is_complete = true;
        let _ = tree.visit_blocks(&mut |event| {
            let BlockEvent::Block { view, .. } = event else {
                is_complete = false;
                return ControlFlow::Continue(());
            };
            for mapping in view.records().iter().map(|record| record.get()) {
                let Owner::Inode(inode) = mapping.owner else { continue };
                let Some(start) = geometry.fs_block(group, mapping.start).filter(|_| inodes.contains(&inode))
                else {
                    continue;
                };
                let owned = all.entry((inode, mapping.is_attribute_fork)).or_default();
                if mapping.is_extent_map_block {
                    let blocks = start.get()..start.get() + u64::from(mapping.length_blocks);
                    owned.btree_blocks.extend(blocks.map(FsBlock::new));
                } else {
                    owned.add(mapping.file_block, start, mapping.length_blocks.into(), mapping.is_unwritten);
                }
            }
            ControlFlow::Continue(())
        });
        if !is_complete {
            return None;
        }
    }
    Some(all)
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

    /// The records in their order; `None` where extents overlap or cannot be.
    fn records(&mut self) -> Option<Vec<ExtentRecord>> {
        self.extents.sort_unstable_by_key(|extent| extent.file_block);
        let overlaps = self.extents.windows(2).any(|pair| match pair {
            [one, next] => one.end() > next.file_block,
            _ => false,
        });
        if overlaps {
            return None;
        }
        self.extents.iter().map(ExtentRecord::new).collect()
    }
}

/// Writes a fork. Gives how many extents it has; `None` where it cannot be told.
fn write_fork(
    volume: &Volume,
    stage: &Stage,
    inode: &Inode,
    fork: Fork,
    mut owned: Owned,
) -> Result<Option<u64>> {
    let geometry = stage.geometry();
    let Some(records) = owned.records() else { return Ok(None) };
    let room = inode.fork_room_bytes(fork, geometry) as usize;
    let data_room = inode.fork_room_bytes(Fork::Data, geometry) as usize;
    let is_inline = records.len() * size_of::<ExtentRecord>() <= room;
    let below = if is_inline {
        None
    } else {
        let entries = ExtentMapRoot::capacity(room) as usize;
        match build_extent_map(stage, inode.number, &records, &owned.btree_blocks, entries)? {
            Some(below) => Some(below),
            None => return Ok(None),
        }
    };
    let mapped: u64 = owned.extents.iter().map(|extent| extent.length_blocks).sum();
    let own_blocks = mapped + below.as_ref().map_or(0, |below| below.blocks);
    let other = if fork == Fork::Data { Fork::Attribute } else { Fork::Data };
    let other_blocks = super::check::count_blocks(volume, inode, other);
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
    Ok(Some(count))
}

fn set_count(core: &mut InodeCore, fork: Fork, format: ForkFormat, count: u64) {
    let has_large_counts = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
    let small = u32::try_from(count).unwrap_or(u32::MAX);
    match (fork, has_large_counts) {
        (Fork::Data, true) => core.large_extent_count.set(count),
        (Fork::Data, false) | (Fork::Attribute, true) => core.extent_count.set(small),
        (Fork::Attribute, false) => {
            core.attribute_extent_count.set(u16::try_from(count).unwrap_or(u16::MAX));
        }
    }
    match fork {
        Fork::Data => core.format = format.code(),
        Fork::Attribute => core.attribute_format = format.code(),
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

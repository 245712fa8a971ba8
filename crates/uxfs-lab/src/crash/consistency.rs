//! Whether the structures of a file system agree with each other: a small part of what `xfs_repair` looks at, quick enough
//! to be asked for every crash state.
//!
//! Every block of a group is free or somebody's, and never both; both trees of free space say the same; headers count what
//! trees hold; the owners and counts of blocks are those that the files' extent maps show; every inode in use has a name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use uxfs_format::{
    btree::{free_space::FreeExtent, reverse_map::Owner},
    units::{AgNumber, InodeNumber},
};
use uxfs_volume::inode::{FileType, Fork, ForkFormat};
use uxfs_volume::volume::Volume;

use super::tree::Tree;

/// Inodes in use that no name leads to: bitmap and summary of the realtime section.
const INTERNAL_INODES: u64 = 2;

/// What is known of a block of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    is_free: bool,
    /// By the free list.
    is_listed: bool,
    /// Extents of files that cover it.
    uses: u16,
    /// Files that own it, by the reverse map.
    owners: u16,
    /// By the reverse map, anybody.
    is_owned: bool,
    /// By the reference count tree; 1 for blocks that are not in it.
    references: u32,
}

/// Compares everything with everything; `tree` is what names lead to. Gives the number of allocated blocks.
///
/// # Errors
/// The first contradiction.
pub fn check(file_system: &Volume, tree: &Tree) -> Result<u64> {
    let geometry = file_system.geometry();
    let mut groups: Vec<Vec<Block>> = Vec::new();
    let mut sums = Sums::default();
    for group in geometry.groups() {
        let blocks = check_group(file_system, group, &mut sums);
        groups.push(blocks.with_context(|| format!("group {}", group.get()))?);
    }
    let superblock = file_system.superblock();
    let counted = (sums.inodes, sums.free_inodes, sums.free_blocks);
    let said =
        (superblock.inode_count.get(), superblock.free_inodes.get(), superblock.free_data_blocks.get());
    ensure!(counted == said, "the superblock counts {said:?}, the groups {counted:?}");
    let named = tree.files.len() as u64 + INTERNAL_INODES;
    ensure!(sums.in_use.len() as u64 == named, "{} inodes in use, {named} that are known", sums.in_use.len());
    for number in tree.files.keys() {
        ensure!(sums.in_use.contains(number), "inode {number} has a name and is free");
    }
    count_uses(file_system, tree, &mut groups)?;
    let has_owners = geometry.features.has_reverse_map();
    let mut allocated = 0;
    for (group, blocks) in groups.iter().enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            let place = || format!("block {index} of group {group}: {block:?}");
            ensure!(!(block.is_free && (block.uses > 0 || block.is_owned)), "free and in use, {}", place());
            ensure!(!has_owners || block.is_free != block.is_owned, "nobody's, {}", place());
            ensure!(!has_owners || block.uses == block.owners, "owners are wrong, {}", place());
            let references = u32::from(block.uses).max(1);
            ensure!(block.references == references, "the count of owners is wrong, {}", place());
            ensure!(!block.is_listed || !block.is_free && block.uses == 0, "on the free list, {}", place());
            allocated += u64::from(!block.is_free);
        }
    }
    Ok(allocated)
}

/// Over all groups.
#[derive(Debug, Default)]
struct Sums {
    inodes: u64,
    free_inodes: u64,
    free_blocks: u64,
    in_use: BTreeSet<u64>,
}

fn check_group(file_system: &Volume, group: AgNumber, sums: &mut Sums) -> Result<Vec<Block>> {
    let length = file_system.geometry().group_length_blocks(group).context("no such group")?;
    let fresh = Block { references: 1, ..Block::default() };
    let mut blocks = vec![fresh; length as usize];
    let headers = file_system.group(group).headers()?;
    check_free_space(file_system, group, &mut blocks)?;
    for block in &headers.free_list {
        let block = blocks.get_mut(block.get() as usize).context("a free list beyond the group")?;
        ensure!(!block.is_listed, "a block twice on the free list");
        block.is_listed = true;
    }
    let space = headers.free_space;
    ensure!(space.free_list_count.get() as usize == headers.free_list.len(), "length of the free list");
    for count in [space.free_blocks, space.free_list_count, space.btree_blocks] {
        sums.free_blocks += u64::from(count.get());
    }
    for mapping in file_system.group(group).reverse_mappings()? {
        let mapping = mapping?;
        let start = mapping.start.get() as usize;
        let covered = blocks.get_mut(start..start + mapping.length_blocks as usize);
        let is_contents = matches!(mapping.owner, Owner::Inode(_)) && !mapping.is_extent_map_block;
        for block in covered.context("an owner beyond the group")? {
            block.is_owned = true;
            block.owners += u16::from(is_contents);
        }
    }
    for shared in file_system.group(group).shared_extents()? {
        let shared = shared?;
        ensure!(!shared.is_cow_staging, "space for a copy on write that nobody will finish");
        let start = shared.start.get() as usize;
        let covered = blocks.get_mut(start..start + shared.length_blocks as usize);
        covered.context("a count beyond the group")?.iter_mut().for_each(|b| b.references = shared.count);
    }
    check_inodes(file_system, group, sums)?;
    Ok(blocks)
}

fn check_free_space(file_system: &Volume, group: AgNumber, blocks: &mut [Block]) -> Result<()> {
    let header = file_system.group(group).free_space_header()?;
    let mut by_block: Vec<FreeExtent> = file_system.group(group).free_extents()?.collect::<Result<_, _>>()?;
    let by_length = file_system.group(group).free_space_by_length()?.records();
    let mut by_length: Vec<FreeExtent> =
        by_length.map(|record| record.map(|record| record.get())).collect::<Result<_, _>>()?;
    for extent in &by_block {
        let start = extent.start.get() as usize;
        let covered = blocks.get_mut(start..start + extent.length_blocks as usize);
        for block in covered.context("free space beyond the group")? {
            ensure!(!block.is_free, "free twice");
            block.is_free = true;
        }
    }
    let free: u64 = by_block.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    ensure!(free == u64::from(header.free_blocks.get()), "{free} blocks free, {}", header.free_blocks);
    let longest = by_block.iter().map(|extent| extent.length_blocks).max().unwrap_or(0);
    ensure!(longest == header.longest_blocks.get(), "longest {longest}, {}", header.longest_blocks);
    let key = |extent: &FreeExtent| (extent.start.get(), extent.length_blocks);
    by_block.sort_by_key(key);
    by_length.sort_by_key(key);
    let equal = by_block.iter().map(key).eq(by_length.iter().map(key));
    ensure!(equal, "the trees of free space differ: {by_block:?}, {by_length:?}");
    Ok(())
}

fn check_inodes(file_system: &Volume, group: AgNumber, sums: &mut Sums) -> Result<()> {
    let geometry = file_system.geometry();
    let header = file_system.group(group).inode_header()?;
    let (mut count, mut free) = (0, 0);
    let mut with_free = BTreeMap::new();
    for chunk in file_system.group(group).inode_chunks()? {
        let chunk = chunk?;
        count += u64::from(chunk.count);
        free += u64::from(chunk.free_count);
        if chunk.free_count > 0 {
            with_free.insert(chunk.start.get(), chunk);
        }
        for inode in chunk.allocated_inodes() {
            sums.in_use.insert(geometry.inode_number(group, inode).get());
        }
    }
    ensure!(count == u64::from(header.count.get()), "{count} inodes, {}", header.count);
    ensure!(free == u64::from(header.free_count.get()), "{free} free inodes, {}", header.free_count);
    if let Some(index) = file_system.group(group).free_inode_index()? {
        for record in index.records() {
            let chunk = record?.get(geometry);
            let other = with_free.remove(&chunk.start.get());
            ensure!(other == Some(chunk), "the trees of inodes differ: {chunk:?}, {other:?}");
        }
        ensure!(with_free.is_empty(), "chunks missing in the tree of free inodes: {with_free:?}");
    }
    let bucket = header.unlinked.iter().find(|first| first.get() != u32::MAX);
    ensure!(bucket.is_none(), "an inode without a name: {bucket:?}");
    sums.inodes += count;
    sums.free_inodes += free;
    Ok(())
}

/// Counts which extents of files cover each block.
fn count_uses(file_system: &Volume, tree: &Tree, groups: &mut [Vec<Block>]) -> Result<()> {
    let geometry = file_system.geometry();
    for number in tree.files.keys() {
        let inode = file_system.inode(InodeNumber::new(*number))?;
        let mut mapped = 0;
        for fork in [Fork::Data, Fork::Attribute] {
            if !inode.has_extents(fork) {
                continue;
            }
            for extent in file_system.extent_map(&inode, fork)?.iter() {
                let (group, start) = geometry.split_fs_block(extent.start).context("no such block")?;
                let blocks = groups.get_mut(group.get() as usize).context("no such group")?;
                let start = start.get() as usize;
                let covered = blocks.get_mut(start..start + extent.length_blocks as usize);
                for block in covered.context("an extent beyond the group")? {
                    ensure!(!block.is_free, "inode {number} has a free block: {extent:?}");
                    block.uses += 1;
                }
                mapped += extent.length_blocks;
            }
        }
        ensure!(
            mapped <= inode.blocks(),
            "inode {number}: {mapped} blocks mapped, {} counted",
            inode.blocks()
        );
        let has_no_btree = [Fork::Data, Fork::Attribute]
            .iter()
            .all(|fork| inode.fork_format(*fork) != Some(ForkFormat::Btree));
        ensure!(!has_no_btree || mapped == inode.blocks(), "inode {number}: {mapped} of {}", inode.blocks());
        let is_empty = inode.file_type() == Some(FileType::Fifo) && inode.size_bytes() != 0;
        ensure!(!is_empty, "inode {number}: a fifo with a size");
    }
    Ok(())
}

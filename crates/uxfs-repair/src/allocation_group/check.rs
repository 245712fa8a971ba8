//! One allocation group: its headers, the log if it lies there, and its btrees in turn.

use uxfs_format::{
    allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
    btree::reverse_map::Owner,
    features::RoCompatible,
    units::{AgBlock, AgNumber},
};

use crate::{
    check::Context,
    finding::GroupCounter,
    free_space, inode_index,
    observed::{groups::GroupState, inodes::InodeTable},
    reference_count, reverse_map, unlinked,
};

/// Looks at a group, and adds its inode chunks to `inodes`.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, inodes: &mut InodeTable) -> GroupState {
    let mut state = GroupState { is_complete: true, ..GroupState::default() };
    add_fixed_blocks(context, group, &mut state);
    inodes.begin_group();
    match context.volume.group(group).free_space_header() {
        Ok(header) => check_space(context, group, &header, &mut state),
        Err(error) => {
            context.sink.add_error(error);
            state.is_complete = false;
        }
    }
    match context.volume.group(group).inode_header() {
        Ok(header) => check_inodes(context, group, &header, inodes, &mut state),
        Err(error) => {
            context.sink.add_error(error);
            inodes.miss_unlinked(group);
            inodes.miss_index(group);
            state.is_complete = false;
        }
    }
    state
}

/// Headers and log; all blocks of the group are subtracted.
fn add_fixed_blocks(context: &Context<'_>, group: AgNumber, state: &mut GroupState) {
    let geometry = context.volume.geometry();
    let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
    state.sums.subtract_all(context, length_blocks);
    let headers = (AgBlock::new(0), geometry.group_header_blocks());
    state.sums.add_own(context, group, headers, Owner::GroupHeaders);
    let log = geometry.log_start.and_then(|start| geometry.split_fs_block(start));
    if let Some((_, start)) = log.filter(|(of_log, _)| *of_log == group) {
        state.sums.add_own(context, group, (start, geometry.log_blocks), Owner::Log);
    }
}

fn check_space(context: &Context<'_>, group: AgNumber, header: &FreeSpaceHeader, state: &mut GroupState) {
    let list = context.volume.group(group).free_list_of(header).unwrap_or_else(|error| {
        context.sink.add_error(error);
        state.is_complete = false;
        Vec::new()
    });
    for block in &list {
        state.sums.add_own(context, group, (*block, 1), Owner::GroupBtrees);
    }
    let free_space = free_space::check::check(context, group, state);
    let reverse_map = reverse_map::check::check(context, group, state);
    let reference_counts = reference_count::check::check(context, group, state);
    let count = |counter, found: u32, expected: u64| context.count(group, counter, found.into(), expected);
    if state.is_complete {
        count(GroupCounter::FreeListBlocks, header.free_list_count.get(), list.len() as u64);
    }
    if let Some(found) = &free_space {
        state.free_extent_blocks = found.free_blocks;
        count(GroupCounter::FreeBlocks, header.free_blocks.get(), found.free_blocks);
        count(GroupCounter::LongestFreeExtent, header.longest_blocks.get(), found.longest_blocks.into());
        let below_roots = found.btree_blocks + reverse_map.map_or(0, |blocks| blocks.saturating_sub(1));
        if state.has_sound_reverse_map || !context.volume.geometry().features.has_reverse_map() {
            count(GroupCounter::FreeSpaceBtreeBlocks, header.btree_blocks.get(), below_roots);
            state.free_blocks = found.free_blocks + list.len() as u64 + below_roots;
        }
    }
    if let Some(blocks) = reverse_map {
        count(GroupCounter::ReverseMapBlocks, header.reverse_map_blocks.get(), blocks);
    }
    if let Some(blocks) = reference_counts {
        count(GroupCounter::ReferenceCountBlocks, header.reference_count_blocks.get(), blocks);
    }
}

fn check_inodes(
    context: &Context<'_>,
    group: AgNumber,
    header: &InodeHeader,
    inodes: &mut InodeTable,
    state: &mut GroupState,
) {
    let geometry = context.volume.geometry();
    let blocks = inode_index::check::check(context, group, inodes, state);
    unlinked::check::check_lists(context, group, header, inodes);
    let count = |counter, found: u32, expected: u64| context.count(group, counter, found.into(), expected);
    let is_counted = geometry.features.ro_compatible.contains(RoCompatible::INODE_BTREE_COUNTS);
    if let Some(blocks) = blocks.index {
        count(GroupCounter::Inodes, header.count.get(), state.inodes);
        count(GroupCounter::FreeInodes, header.free_count.get(), state.free_inodes);
        if is_counted {
            count(GroupCounter::InodeIndexBlocks, header.blocks.get(), blocks);
        }
    }
    if let (Some(blocks), true) = (blocks.free_index, is_counted) {
        count(GroupCounter::FreeInodeIndexBlocks, header.free_blocks.get(), blocks);
    }
}

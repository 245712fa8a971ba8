//! Both free space btrees against each other.

use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByBlock, FreeExtent, FreeSpaceRecord},
        reverse_map::Owner,
    },
    fault::Structure,
    units::AgNumber,
};
use uxfs_volume::btree::Tree;

use crate::{
    btree::{TreeOwner, records_without_equal, walk},
    check::Context,
    finding::Finding,
    observed::groups::GroupState,
    sum::Sum,
};

/// Contents of the free-space btrees of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FreeSpaceFound {
    pub free_blocks: u64,
    pub longest_blocks: u32,
    /// Blocks of both btrees without their roots.
    pub btree_blocks: u64,
}

/// Adds free blocks and btree blocks to the group's sums. `None` where a btree could not be read to its end.
pub(crate) fn check(
    context: &Context<'_>,
    group: AgNumber,
    state: &mut GroupState,
) -> Option<FreeSpaceFound> {
    let by_block = context.read(context.volume.group(group).free_space_by_block());
    let by_length = context.read(context.volume.group(group).free_space_by_length());
    let (Some(by_block), Some(by_length)) = (by_block, by_length) else {
        state.is_complete = false;
        return None;
    };
    let keys = &context.keys;
    let mut found = FreeSpaceFound::default();
    let mut differ = Sum::default();
    let blocks_of_first = walk_tree(context, group, &by_block, state, &mut |state, extent| {
        differ.add(keys.of((extent.start, extent.length_blocks)));
        state.sums.add_free(context, group, (extent.start, extent.length_blocks));
        found.free_blocks += u64::from(extent.length_blocks);
        found.longest_blocks = found.longest_blocks.max(extent.length_blocks);
    });
    let blocks_of_second = walk_tree(context, group, &by_length, state, &mut |_, extent| {
        differ.subtract(keys.of((extent.start, extent.length_blocks)));
    });
    let (Some(first), Some(second)) = (blocks_of_first, blocks_of_second) else {
        state.is_complete = false;
        return None;
    };
    if !differ.is_zero() {
        let report = |record: &FreeSpaceRecord, only_in| {
            context.sink.add(Finding::FreeExtent { group, extent: record.get(), only_in });
        };
        let is_equal = |first: &FreeSpaceRecord, second: &FreeSpaceRecord| first == second;
        records_without_equal(context, &by_block, &by_length, is_equal, |record| {
            report(record, Structure::FreeSpaceByBlock);
        });
        records_without_equal(context, &by_length, &by_block, is_equal, |record| {
            report(record, Structure::FreeSpaceByLength);
        });
    }
    found.btree_blocks = first.saturating_sub(1) + second.saturating_sub(1);
    Some(found)
}

/// The blocks of a tree, if it could be read to its end.
fn walk_tree<K: BtreeKind<Record = FreeSpaceRecord, Header = <ByBlock as BtreeKind>::Header>>(
    context: &Context<'_>,
    group: AgNumber,
    tree: &Tree<'_, K>,
    state: &mut GroupState,
    on_extent: &mut dyn FnMut(&mut GroupState, FreeExtent),
) -> Option<u64> {
    let mut own = GroupState::default();
    let found = walk(
        context,
        tree,
        TreeOwner::Group(group),
        &mut |block| own.sums.add_own(context, group, (block, 1), Owner::GroupBtrees),
        &mut |records| records.iter().for_each(|record| on_extent(state, record.get())),
    );
    state.sums.merge(&own.sums);
    found.is_complete.then_some(found.blocks)
}

//! Differences block by block, in groups whose sums are not zero.
//!
//! All extents of such groups are gathered, by a second walk over their structures and over all inodes, and sorted. What does not fit into
//! memory is sorted in temporary files.

use uxfs_block::spill::SpillError;
use uxfs_format::units::AgNumber;

use super::{
    edges::Edges,
    list::UseList,
    sweep::{Known, compare_owners, compare_space},
};
use crate::{
    allocation_group,
    check::Context,
    finding::Finding,
    inode,
    observed::{groups::Groups, inodes::InodeTable},
};

/// Compares all groups whose sums are not zero.
pub(crate) fn compare(context: &Context<'_>, groups: &Groups, are_files_complete: bool) {
    let has_reverse_map = context.volume.geometry().features.has_reverse_map();
    let differ = groups.iter().filter(|(_, state)| match has_reverse_map {
        true => !state.sums.are_zero(),
        false => !state.sums.space.is_zero(),
    });
    let differ: Vec<u32> = differ.map(|(group, _)| group.get()).collect();
    if differ.is_empty() || context.sink.is_stopped() {
        return;
    }
    if let Err(error) = compare_groups(context, groups, are_files_complete, &differ) {
        report_uncompared(context, &differ, error);
    }
}

/// Groups that differ, where nothing can tell in which blocks.
fn report_uncompared(context: &Context<'_>, differ: &[u32], error: SpillError) {
    for group in differ {
        context.sink.add(Finding::SpaceSum { group: AgNumber::new(*group) });
    }
    context.sink.add(Finding::NotCompared { error });
}

/// Compares these groups, which ascend.
fn compare_groups(
    context: &Context<'_>,
    groups: &Groups,
    are_files_complete: bool,
    differ: &[u32],
) -> Result<(), SpillError> {
    let list = UseList::to_compare(differ.to_vec(), context.memory.sort_bytes());
    context.again(&list, |context| {
        for group in differ {
            allocation_group::check::check(context, AgNumber::new(*group), &mut InodeTable::of_nothing());
        }
        inode::check::gather_extents(context);
    });
    let mut edges = list.into_edges()?;
    for group in differ {
        compare_group(context, groups, are_files_complete, AgNumber::new(*group), &mut edges)?;
    }
    Ok(())
}

fn compare_group(
    context: &Context<'_>,
    groups: &Groups,
    are_files_complete: bool,
    group: AgNumber,
    edges: &mut Edges,
) -> Result<(), SpillError> {
    let geometry = context.volume.geometry();
    let Some(state) = groups.get(group) else { return Ok(()) };
    let known = Known {
        group,
        are_structures_complete: state.is_complete,
        are_files_complete,
        is_reverse_map_complete: state.has_sound_reverse_map,
        has_reference_counts: geometry.features.has_reflink(),
    };
    if !state.sums.space.is_zero() {
        let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
        compare_space(&context.sink, &known, &mut edges.space, length_blocks)?;
    }
    if geometry.features.has_reverse_map() && !state.sums.owners.is_zero() {
        compare_owners(&context.sink, &known, &mut edges.owners)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;

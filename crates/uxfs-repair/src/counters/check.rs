//! The counters of the superblock beside what all groups hold.

use uxfs_volume::tolerant::Findings;

use crate::{
    check::Context,
    finding::{Finding, SuperblockCounter},
    observed::groups::Groups,
};

/// Compares the counters, if every group could be counted.
pub(crate) fn check(context: &Context<'_>, groups: &Groups) {
    let geometry = context.volume.geometry();
    // Nothing keeps the counters of a copy up to date.
    if context.volume.findings().is_some_and(Findings::uses_copy) {
        return;
    }
    let are_all_counted = groups.iter().all(|(_, state)| state.is_complete);
    if !are_all_counted || groups.len() != geometry.ag_count as usize {
        return;
    }
    let superblock = context.volume.superblock();
    let sum = |count: fn(&crate::observed::groups::GroupState) -> u64| {
        groups.iter().fold(0_u64, |sum, (_, state)| sum.saturating_add(count(state)))
    };
    let counters = [
        (SuperblockCounter::Inodes, superblock.inode_count.get(), sum(|state| state.inodes)),
        (SuperblockCounter::FreeInodes, superblock.free_inodes.get(), sum(|state| state.free_inodes)),
        (SuperblockCounter::FreeBlocks, superblock.free_data_blocks.get(), sum(|state| state.free_blocks)),
    ];
    for (counter, found, expected) in counters {
        if found != expected {
            context.sink.add(Finding::SuperblockCount { counter, found, expected });
        }
    }
}

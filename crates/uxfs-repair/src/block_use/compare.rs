//! Differences block by block, in groups whose sums are not zero.
//!
//! All extents of such a group are gathered, by a second walk over its structures and over all inodes. Where several groups together
//! have more than [`MOST_EXTENTS`], half of them are gathered at a time; a single group with more is only reported as such.

use uxfs_format::units::AgNumber;

use super::{
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

/// Extents that are kept at once: 48 bytes each, and as much again to sort them.
pub const MOST_EXTENTS: usize = 1 << 20;

/// Compares all groups whose sums are not zero.
pub(crate) fn compare(context: &Context<'_>, groups: &Groups, are_files_complete: bool) {
    let has_reverse_map = context.volume.geometry().features.has_reverse_map();
    let differ = groups.iter().filter(|(_, state)| match has_reverse_map {
        true => !state.sums.are_zero(),
        false => !state.sums.space.is_zero(),
    });
    let differ: Vec<u32> = differ.map(|(group, _)| group.get()).collect();
    if !differ.is_empty() {
        Comparison { context, groups, are_files_complete, most_extents: MOST_EXTENTS }.compare(&differ);
    }
}

pub(super) struct Comparison<'w, 'c> {
    pub context: &'w Context<'c>,
    pub groups: &'w Groups,
    pub are_files_complete: bool,
    pub most_extents: usize,
}

impl Comparison<'_, '_> {
    /// Compares these groups, which ascend. It calls itself with half of them, so 32 times at most.
    pub fn compare(&self, groups: &[u32]) {
        if groups.is_empty() || self.context.sink.is_stopped() {
            return;
        }
        let list = self.gather(groups);
        if !list.is_full() {
            return self.compare_list(groups, list);
        }
        drop(list);
        match groups {
            [group] => self.context.sink.add(Finding::SpaceSum { group: AgNumber::new(*group) }),
            _ => {
                let (low, high) = groups.split_at(groups.len() / 2);
                self.compare(low);
                self.compare(high);
            }
        }
    }

    fn gather(&self, groups: &[u32]) -> UseList {
        let list = UseList::of(groups.to_vec(), self.most_extents);
        self.context.again(&list, |context| {
            for group in groups {
                let mut inodes = InodeTable::default();
                allocation_group::check::check(context, AgNumber::new(*group), &mut inodes);
            }
            inode::check::gather_extents(context);
        });
        list
    }

    fn compare_list(&self, groups: &[u32], list: UseList) {
        let mut uses = list.into_uses();
        // A stable order, whatever the order in which threads found them.
        uses.sort_unstable_by_key(|one| (one.group, one.start, one.end, one.kind, one.owner));
        for of_group in uses.chunk_by_mut(|one, next| one.group == next.group) {
            let Some(group) = of_group.first().map(|one| one.group) else { continue };
            if groups.binary_search(&group).is_ok() {
                self.compare_group(AgNumber::new(group), of_group);
            }
        }
    }

    fn compare_group(&self, group: AgNumber, uses: &mut [super::list::BlockUse]) {
        let geometry = self.context.volume.geometry();
        let Some(state) = self.groups.get(group) else { return };
        let known = Known {
            group,
            are_structures_complete: state.is_complete,
            are_files_complete: self.are_files_complete,
            is_reverse_map_complete: state.has_sound_reverse_map,
            has_reference_counts: geometry.features.has_reflink(),
        };
        if !state.sums.space.is_zero() {
            compare_space(&self.context.sink, &known, uses, geometry.group_length_blocks(group).unwrap_or(0));
        }
        if geometry.features.has_reverse_map() && !state.sums.owners.is_zero() {
            compare_owners(&self.context.sink, &known, uses);
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;

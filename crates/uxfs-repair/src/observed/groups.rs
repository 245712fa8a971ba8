//! Sums and counts of each allocation group.
//!
//! Two sums of a group are zero where everything agrees:
//!
//! - **space**: each block counts once where it is free, once for each structure and file that uses it, and less by one for each
//!   reference beyond the first in the reference count btree; all blocks of the group are subtracted.
//! - **owners**: each block counts as its owner has it (owner, fork, file block, written or not); the records of the reverse mapping
//!   btree are subtracted.

use std::collections::HashMap;

use uxfs_format::{
    btree::{
        reference_count::SharedExtent,
        reverse_map::{Mapping, Owner},
    },
    units::{AgBlock, AgNumber},
};

use crate::{
    block_use::list::{UseKind, UseOwner},
    check::Context,
    observed::block_kinds::BlockKind,
    sum::{Keys, Sum},
};

/// Differences of a group so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupSums {
    pub space: Sum,
    pub owners: Sum,
}

/// The observations about a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupState {
    pub sums: GroupSums,
    /// All structures of the group could be read to their ends.
    pub is_complete: bool,
    /// Its reverse mapping btree could.
    pub has_sound_reverse_map: bool,
    /// In the free space btrees.
    pub free_extent_blocks: u64,
    /// Free for files, and kept for the group's own btrees.
    pub free_blocks: u64,
    pub inodes: u64,
    pub free_inodes: u64,
}

impl GroupState {
    /// Of a group that is not looked at: nothing in it is in use.
    pub fn left_out(length_blocks: Option<u32>) -> Self {
        Self { free_extent_blocks: length_blocks.unwrap_or(0).into(), ..Self::default() }
    }
}

impl GroupSums {
    /// Blocks that are used once, and what uses them.
    pub fn add_use(&mut self, context: &Context<'_>, group: AgNumber, mapping: &Mapping) {
        if let Some(list) = context.uses {
            return list.add(group, UseKind::Shown, mapping);
        }
        self.space.add(space(&context.keys, mapping.start, mapping.length_blocks));
        self.owners.add(of_mapping(&context.keys, mapping));
    }

    /// Blocks of one of the group's own structures.
    pub fn add_own(
        &mut self,
        context: &Context<'_>,
        group: AgNumber,
        (start, length_blocks): (AgBlock, u32),
        owner: Owner,
    ) {
        context.see_blocks(group, (start, length_blocks), BlockKind::of_owner(owner));
        self.add_use(context, group, &Mapping::of_group(start, length_blocks, owner));
    }

    /// Free blocks.
    pub fn add_free(
        &mut self,
        context: &Context<'_>,
        group: AgNumber,
        (start, length_blocks): (AgBlock, u32),
    ) {
        if let Some(list) = context.uses {
            return list.add(
                group,
                UseKind::Free,
                &Mapping::of_group(start, length_blocks, Owner::GroupBtrees),
            );
        }
        context.see_blocks(group, (start, length_blocks), BlockKind::Free);
        self.space.add(space(&context.keys, start, length_blocks));
    }

    /// A record of the reverse mapping btree.
    pub fn subtract_mapping(&mut self, context: &Context<'_>, group: AgNumber, mapping: &Mapping) {
        if let Some(list) = context.uses {
            return list.add(group, UseKind::Mapped, mapping);
        }
        self.owners.subtract(of_mapping(&context.keys, mapping));
    }

    /// A record of the reference count btree.
    pub fn subtract_shared(&mut self, context: &Context<'_>, group: AgNumber, extent: &SharedExtent) {
        if let Some(list) = context.uses {
            let blocks = Mapping::of_group(extent.start, extent.length_blocks, Owner::ReferenceCountBtree);
            return list.add(group, UseKind::Counted(extent.count), &blocks);
        }
        let more = extent.count.saturating_sub(1);
        self.space.subtract(space(&context.keys, extent.start, extent.length_blocks).times(more));
    }

    /// All blocks of a group.
    pub fn subtract_all(&mut self, context: &Context<'_>, length_blocks: u32) {
        self.space.subtract(space(&context.keys, AgBlock::new(0), length_blocks));
    }

    pub fn merge(&mut self, other: &Self) {
        self.space.add(other.space);
        self.owners.add(other.owners);
    }

    pub fn are_zero(&self) -> bool {
        self.space.is_zero() && self.owners.is_zero()
    }
}

/// The sum of blocks, whatever uses them.
fn space(keys: &Keys, start: AgBlock, length_blocks: u32) -> Sum {
    let start = u64::from(start.get());
    keys.of_extent(0_u8, start..start.saturating_add(length_blocks.into()))
}

/// The sum of blocks as an owner has them. It is the same for a mapping and for the parts that it is divided into.
fn of_mapping(keys: &Keys, mapping: &Mapping) -> Sum {
    let start = u64::from(mapping.start.get());
    let tag = (1_u8, UseOwner::of(mapping));
    keys.of_extent(tag, start..start.saturating_add(mapping.length_blocks.into()))
}

/// Sums of several groups, of one thread.
#[derive(Debug, Default)]
pub(crate) struct SumsByGroup {
    sums: HashMap<u32, GroupSums>,
}

impl SumsByGroup {
    pub fn of(&mut self, group: AgNumber) -> &mut GroupSums {
        self.sums.entry(group.get()).or_default()
    }
}

/// All groups that were looked at, from group 0 on.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    states: Vec<GroupState>,
}

impl Groups {
    pub fn push(&mut self, state: GroupState) {
        self.states.push(state);
    }

    pub fn get(&self, group: AgNumber) -> Option<&GroupState> {
        self.states.get(group.get() as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = (AgNumber, &GroupState)> {
        (0..).map(AgNumber::new).zip(&self.states)
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn merge(&mut self, other: &SumsByGroup) {
        for (group, sums) in &other.sums {
            if let Some(state) = self.states.get_mut(*group as usize) {
                state.sums.merge(sums);
            }
        }
    }
}

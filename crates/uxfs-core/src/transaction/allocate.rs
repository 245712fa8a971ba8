//! Allocating blocks wherever there are some.
//!
//! Groups are tried in ascending order from the one that is wanted, then from the first; in a first round only those that
//! can give all that is wanted, then those that can give enough. Groups that give nothing are unlocked again.

use std::sync::atomic::Ordering::Relaxed;

use uxfs_format::units::{AgBlock, AgNumber, FsBlock};

use super::Transaction;
use crate::{
    allocation_group::free_space::{Purpose, choose::GroupRequest},
    error::{OperationError, Result},
};

/// Where blocks are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    /// At this block or as near to it as can be, in its group first.
    Near(FsBlock),
    /// From this block on, or nowhere.
    Exact(FsBlock),
    /// In this group first.
    Group(AgNumber),
    /// Only in this group.
    GroupOnly(AgNumber),
    /// In any group: those that ask like this go to one after the other.
    Anywhere,
}

/// What is wanted.
#[doc(alias = "xfs_alloc_arg")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationRequest {
    /// Where.
    pub goal: Goal,
    /// Fewer are of no use.
    pub min_blocks: u32,
    /// More are not wanted.
    pub max_blocks: u32,
    /// The first block in its group is to be a multiple of this; 0 and 1 do not matter.
    pub alignment_blocks: u32,
    /// Blocks that must be left in the group for what comes of this (splits of the tree that will hold the extent).
    #[doc(alias = "minleft")]
    pub spare_blocks: u32,
    /// What for.
    pub purpose: Purpose,
}

impl AllocationRequest {
    /// So many blocks for the contents of files.
    pub fn data(goal: Goal, blocks: u32) -> Self {
        Self {
            goal,
            min_blocks: blocks,
            max_blocks: blocks,
            alignment_blocks: 1,
            spare_blocks: 0,
            purpose: Purpose::Data,
        }
    }

    /// So many blocks for metadata.
    pub fn metadata(goal: Goal, blocks: u32) -> Self {
        Self { purpose: Purpose::Metadata, ..Self::data(goal, blocks) }
    }
}

/// Blocks that were allocated. Who owns them is for the caller to note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Allocated {
    /// The first.
    pub start: FsBlock,
    /// How many.
    pub length_blocks: u32,
}

impl Transaction<'_> {
    /// Allocates blocks in one piece.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`]; damage; the device.
    #[doc(alias = "xfs_alloc_vextent")]
    pub fn allocate(&mut self, request: &AllocationRequest) -> Result<Allocated> {
        let geometry = self.file_system().geometry();
        let count = geometry.ag_count.max(1);
        let (first, near, is_only) = match request.goal {
            Goal::Near(block) | Goal::Exact(block) => {
                let (group, block) = geometry.split_fs_block(block).ok_or(OperationError::NoSpace)?;
                (group.get(), Some(block), matches!(request.goal, Goal::Exact(_)))
            }
            Goal::Group(group) => (group.get(), None, false),
            Goal::GroupOnly(group) => (group.get(), None, true),
            Goal::Anywhere => (self.file_system().next_group_in_turn(), None, false),
        };
        let is_exact = matches!(request.goal, Goal::Exact(_));
        for is_last_round in [false, true] {
            let groups = if is_only { 1 } else { count };
            for step in 0..groups {
                let number =
                    AgNumber::new((u64::from(first) + u64::from(step)).rem_euclid(count.into()) as u32);
                let request = GroupRequest {
                    near: near.filter(|_| step == 0),
                    is_exact,
                    min_blocks: if is_last_round { request.min_blocks } else { request.max_blocks },
                    max_blocks: request.max_blocks,
                    alignment_blocks: request.alignment_blocks,
                    spare_blocks: request.spare_blocks,
                    purpose: request.purpose,
                };
                if let Some((start, length_blocks)) = self.allocate_in(number, &request)? {
                    let start = geometry.fs_block(number, start).ok_or(OperationError::NoSpace)?;
                    return Ok(Allocated { start, length_blocks });
                }
            }
        }
        Err(OperationError::NoSpace.into())
    }

    fn allocate_in(&mut self, number: AgNumber, request: &GroupRequest) -> Result<Option<(AgBlock, u32)>> {
        let held = self.groups.len();
        let Some(mut group) = self.try_group(number)? else { return Ok(None) };
        if group.most_blocks(request)?.is_none() {
            // Nothing has been changed in it.
            self.groups.truncate(held);
            return Ok(None);
        }
        group.allocate(request)
    }
}

impl crate::filesystem::FileSystem {
    /// The group whose turn it is.
    fn next_group_in_turn(&self) -> u32 {
        let count = self.geometry().ag_count.max(1);
        self.group_rotor().fetch_add(1, Relaxed) % count
    }
}

//! Allocating blocks wherever there are some.
//!
//! Right at the wanted block half of much is better than all of it elsewhere. Then groups are tried in ascending
//! order from the one that is wanted, then from the first: for all that is wanted, for a quarter of it, and so on, so that
//! the pieces are large wherever they lie. Groups that give nothing are unlocked again.
//!
//! A group below one that the transaction holds is not waited for (invariant 2 of [`transaction`](super)): another
//! transaction that holds it counts as a group without space.

use std::sync::atomic::Ordering::Relaxed;

use uxfs_format::units::{AgBlock, AgNumber, FsBlock};

use super::Transaction;
use crate::{
    allocation_group::free_space::{Purpose, choose::GroupRequest},
    engine::Engine,
};
use uxfs_volume::error::{OperationError, Result};

/// From so many blocks on, a part right at the wanted block is better than all of them elsewhere.
const LARGE_BLOCKS: u32 = 16;

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

/// A request for blocks.
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
    /// Blocks that must stay free in the group for splits of the tree that will hold the extent.
    #[doc(alias = "minleft")]
    pub spare_blocks: u32,
    /// Their use.
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

/// Blocks that were allocated. The caller adds their reverse-map record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Allocated {
    /// The first.
    pub start: FsBlock,
    /// Their number.
    pub length_blocks: u32,
}

impl Transaction<'_> {
    /// Allocates blocks in one piece.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`]; damage; the device.
    #[doc(alias = "xfs_alloc_vextent")]
    pub fn allocate(&mut self, request: &AllocationRequest) -> Result<Allocated> {
        let (first, near) = start_of_goal(self.engine(), request.goal);
        let wanted = GroupRequest {
            near,
            is_exact: true,
            min_blocks: request.max_blocks.div_ceil(2).max(request.min_blocks),
            max_blocks: request.max_blocks,
            alignment_blocks: request.alignment_blocks,
            spare_blocks: request.spare_blocks,
            purpose: request.purpose,
        };
        let is_exact = matches!(request.goal, Goal::Exact(_));
        if is_exact {
            let wanted = GroupRequest { min_blocks: request.min_blocks, ..wanted };
            let found = if near.is_some() { self.allocate_in(first, &wanted)? } else { None };
            return found.ok_or_else(|| OperationError::NoSpace.into());
        }
        if near.is_some()
            && request.max_blocks >= LARGE_BLOCKS
            && let Some(found) = self.allocate_in(first, &wanted)?
        {
            return Ok(found);
        }
        let mut min_blocks = request.max_blocks.max(request.min_blocks);
        loop {
            let wanted = GroupRequest { is_exact: false, min_blocks, ..wanted };
            if let Some(found) = self.allocate_in_groups(first, request.goal, &wanted)? {
                return Ok(found);
            }
            if min_blocks <= request.min_blocks.max(1) {
                return Err(OperationError::NoSpace.into());
            }
            min_blocks = (min_blocks / 4).max(request.min_blocks).max(1);
        }
    }

    fn allocate_in_groups(
        &mut self,
        first: AgNumber,
        goal: Goal,
        request: &GroupRequest,
    ) -> Result<Option<Allocated>> {
        if let Goal::GroupOnly(_) = goal {
            return self.allocate_in(first, request);
        }
        let count = self.engine().geometry().ag_count;
        let first = first.get().min(count.saturating_sub(1));
        for number in (first..count).chain(0..first) {
            let near = request.near.filter(|_| number == first);
            let found = self.allocate_in(AgNumber::new(number), &GroupRequest { near, ..*request })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn allocate_in(&mut self, number: AgNumber, request: &GroupRequest) -> Result<Option<Allocated>> {
        let held = self.held_groups();
        let Some(mut group) = self.try_group(number)? else { return Ok(None) };
        if group.most_blocks(request)?.is_none() {
            self.give_back_untouched(held);
            return Ok(None);
        }
        let Some((start, length_blocks)) = group.allocate(request)? else { return Ok(None) };
        let start = self.engine().geometry().fs_block(number, start).ok_or(OperationError::NoSpace)?;
        Ok(Some(Allocated { start, length_blocks }))
    }
}

/// The group that a goal begins with, and the block in it.
fn start_of_goal(engine: &Engine, goal: Goal) -> (AgNumber, Option<AgBlock>) {
    let geometry = engine.geometry();
    match goal {
        Goal::Near(block) | Goal::Exact(block) => match geometry.split_fs_block(block) {
            Some((group, block)) => (group, Some(block)),
            // Behind the last block of a group: where what lies there would have gone on.
            None => {
                let group = u32::try_from(block.get() >> geometry.ag_block_log).unwrap_or(0);
                (AgNumber::new(group.min(geometry.ag_count.saturating_sub(1))), None)
            }
        },
        Goal::Group(group) | Goal::GroupOnly(group) => (group, None),
        Goal::Anywhere => (engine.next_group_in_turn(), None),
    }
}

impl Engine {
    /// The group whose turn it is.
    fn next_group_in_turn(&self) -> AgNumber {
        let count = self.geometry().ag_count.max(1);
        AgNumber::new(self.group_rotor().fetch_add(1, Relaxed) % count)
    }
}

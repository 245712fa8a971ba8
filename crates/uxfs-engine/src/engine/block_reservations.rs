//! Free blocks that are reserved for operations under way, and those that each group keeps for its own trees.
//!
//! Only a file system with a journal reserves: what an operation has changed there has no way back, so it must not run
//! out of space in the middle.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::{Engine, LoggedEngine};
use crate::allocation_group::state::{GroupState, keeps_blocks_for_trees};
use uxfs_volume::error::{OperationError, Result};

/// Of more groups than these the headers are read when they are needed, and not kept from mount on: a file system may have
/// millions of groups.
const MOST_KEPT_GROUPS: u32 = 1024;

impl Engine {
    /// Free blocks that operations may take: without those that groups keep for their trees and free lists. In bulk mode
    /// the trees keep none.
    #[doc(alias = "xfs_fdblocks_unavailable")]
    pub fn available_blocks(&self) -> i64 {
        let for_free_lists = i64::from(self.geometry().ag_count) * 8;
        let hidden = self.counters.ag_reservation_blocks.load(Relaxed);
        self.free_blocks().cast_signed() - for_free_lists - hidden
    }
}

impl LoggedEngine {
    /// Reserves blocks for an operation, which leaves `kept_blocks` to those that are more important. Waits for freed
    /// blocks whose checkpoint is not stable yet.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`]; the device failed, now or before.
    pub(crate) fn reserve_blocks(&self, blocks: u64, kept_blocks: u64) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let counters = &*self.counters;
        let wanted = i64::try_from(blocks).map_err(|_| OperationError::NoSpace)?;
        let may_reserve =
            |reserved: i64| self.available_blocks().saturating_sub_unsigned(kept_blocks) >= reserved;
        if counters.take_cached(blocks) {
            if may_reserve(counters.reserved_blocks.load(Acquire)) {
                return Ok(());
            }
            counters.reserved_blocks.fetch_sub(wanted, AcqRel);
        }
        for _ in 0..3 {
            counters.reserved_blocks.fetch_add(wanted, AcqRel);
            let reserved = || counters.reserved_blocks.load(Acquire);
            if may_reserve(reserved()) || counters.reclaim_cached() && may_reserve(reserved()) {
                return Ok(());
            }
            counters.reserved_blocks.fetch_sub(wanted, AcqRel);
            if !self.wait_for_freed_blocks()? {
                break;
            }
        }
        Err(OperationError::NoSpace.into())
    }

    /// Returns blocks that an operation reserved and did not take.
    pub(crate) fn release_blocks(&self, blocks: u64) {
        if blocks > 0 {
            self.counters.cache_unused(blocks);
        }
    }

    /// Reads the headers of all groups: each keeps blocks for its own trees, which must not be reserved for operations.
    pub(super) fn count_ag_reservations(&self) -> Result<()> {
        if !keeps_blocks_for_trees(self.geometry()) {
            return Ok(());
        }
        let keeps_all = self.geometry().ag_count <= MOST_KEPT_GROUPS;
        for group in self.groups().with_headers() {
            let mut state = GroupState::new(group);
            state.load(self)?;
            self.add_ag_reservation_blocks(state.ag_reservation_blocks().into());
            if keeps_all || state.has_unlinked() {
                *GroupState::lock(self.group_state(group)?, group) = state;
            }
        }
        Ok(())
    }

    /// The blocks that groups keep for their own trees have become more, or fewer.
    pub fn add_ag_reservation_blocks(&self, change: i64) {
        self.counters.ag_reservation_blocks.fetch_add(change, Relaxed);
    }
}

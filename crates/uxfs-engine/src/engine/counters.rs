//! The superblock's counters as they are now, and the reservations of free blocks.
//!
//! Nearly every operation reserves blocks, of which it mostly takes few, and takes or frees an inode. Shards of threads have
//! counters of their own, so that these do not travel between the processors. Blocks that an operation did not take stay in
//! its shard's [`CachedReservation`] for the next one. Where blocks get scarce, all cached reservations are taken back.

use std::sync::atomic::{
    AtomicI64,
    Ordering::{AcqRel, Relaxed},
};

use uxfs_block::thread_shards::{CachedReservation, ThreadShards, take_all};
use uxfs_format::superblock::Superblock;
use zerocopy::big_endian::U64;

use crate::allocation_group::group_edit::CounterChanges;

/// The most that a shard keeps: the reservation of the largest usual operation.
const MOST_CACHED_BLOCKS: u64 = 1 << 10;

/// Superblock counters of a file system that is mounted for changes.
#[derive(Debug, Default)]
pub(super) struct Counters {
    shards: ThreadShards<Shard>,
    inodes: AtomicI64,
    free_blocks: AtomicI64,
    /// Blocks that transactions under way may still take, and all cached reservations.
    pub reserved_blocks: AtomicI64,
    /// Blocks that groups keep for their own trees.
    pub ag_reservation_blocks: AtomicI64,
    /// Blocks that were freed and are not back yet.
    pub freed_blocks: AtomicI64,
}

/// Counters that the operations of a few threads write.
#[derive(Debug, Default)]
struct Shard {
    /// A part of the sum; may be negative.
    free_inodes: AtomicI64,
    cached_blocks: CachedReservation,
}

impl Counters {
    pub fn of(superblock: &Superblock) -> Self {
        let counters = Self {
            inodes: AtomicI64::new(superblock.inode_count.get().cast_signed()),
            free_blocks: AtomicI64::new(superblock.free_data_blocks.get().cast_signed()),
            ..Self::default()
        };
        let free_inodes = superblock.free_inodes.get().cast_signed();
        counters.shards.mine().free_inodes.store(free_inodes, Relaxed);
        counters
    }

    pub fn inodes(&self) -> u64 {
        self.inodes.load(Relaxed).max(0).cast_unsigned()
    }

    pub fn free_inodes(&self) -> u64 {
        let parts = self.shards.iter().map(|shard| shard.free_inodes.load(Relaxed));
        let sum = parts.fold(0_i64, i64::wrapping_add);
        sum.max(0).cast_unsigned()
    }

    #[inline]
    pub fn free_blocks(&self) -> u64 {
        self.free_blocks.load(Relaxed).max(0).cast_unsigned()
    }

    pub fn store_in(&self, superblock: &mut Superblock) {
        superblock.inode_count = U64::new(self.inodes());
        superblock.free_inodes = U64::new(self.free_inodes());
        superblock.free_data_blocks = U64::new(self.free_blocks());
    }

    #[inline]
    pub fn apply(&self, changes: CounterChanges) {
        if changes.free_inodes != 0 {
            self.shards.mine().free_inodes.fetch_add(changes.free_inodes, Relaxed);
        }
        for (counter, change) in [(&self.inodes, changes.inodes), (&self.free_blocks, changes.free_blocks)] {
            if change != 0 {
                counter.fetch_add(change, Relaxed);
            }
        }
    }

    /// Takes blocks that are reserved already, if there are so many.
    #[inline]
    pub fn take_cached(&self, blocks: u64) -> bool {
        self.shards.mine().cached_blocks.take(blocks)
    }

    /// Gives back reserved blocks that were not taken.
    #[inline]
    pub fn cache_unused(&self, blocks: u64) {
        let too_many = self.shards.mine().cached_blocks.add_up_to(MOST_CACHED_BLOCKS, blocks);
        if too_many > 0 {
            self.reserved_blocks.fetch_sub(too_many.cast_signed(), AcqRel);
        }
    }

    /// Takes all cached reservations back. Gives whether there were any.
    #[cold]
    pub fn reclaim_cached(&self) -> bool {
        let cached_blocks = take_all(self.shards.iter().map(|shard| &shard.cached_blocks));
        self.reserved_blocks.fetch_sub(cached_blocks.cast_signed(), AcqRel);
        cached_blocks > 0
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering::Acquire, thread};

    use super::*;

    #[test]
    fn what_is_given_back_is_reserved_for_the_next() {
        let counters = Counters::default();
        counters.reserved_blocks.fetch_add(60, AcqRel);
        assert!(!counters.take_cached(1), "no transaction has given anything back");
        counters.cache_unused(50);
        assert!(!counters.take_cached(51));
        assert!(counters.take_cached(30));
        assert_eq!(counters.reserved_blocks.load(Acquire), 60);
        thread::scope(|scope| {
            scope.spawn(|| assert!(counters.reclaim_cached(), "of all threads"));
        });
        assert_eq!(counters.reserved_blocks.load(Acquire), 40);
        assert!(!counters.reclaim_cached());
    }

    #[test]
    fn much_is_not_kept() {
        let counters = Counters::default();
        counters.reserved_blocks.fetch_add(3000, AcqRel);
        counters.cache_unused(MOST_CACHED_BLOCKS);
        assert_eq!(counters.reserved_blocks.load(Acquire), 3000);
        counters.cache_unused(7);
        assert_eq!(counters.reserved_blocks.load(Acquire), 2993);
    }
}

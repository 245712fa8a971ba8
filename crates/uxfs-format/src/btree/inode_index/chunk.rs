//! Inode chunks that change: inodes taken and given back, parts added to sparse chunks, records packed.

use zerocopy::big_endian::{U16, U32, U64};

use super::{INODES_PER_HOLE_BIT, InodeChunk, InodeIndexRecord};
use crate::{
    convert::{low_u8, low_u16},
    geometry::{Geometry, INODES_PER_CHUNK},
    units::{AgBlock, AgInode},
};

impl InodeChunk {
    /// 64 inodes from `start`, all of them free.
    pub fn new(start: AgInode) -> Self {
        let (count, free_count) = (INODES_PER_CHUNK, INODES_PER_CHUNK);
        Self { start, hole_mask: 0, count, free_count, free: u64::MAX }
    }

    /// A chunk of which only `count` inodes from index `first` exist, all of them free. `None` where these are not
    /// what a hole mask can say.
    pub fn sparse(start: AgInode, first: u32, count: u32) -> Option<Self> {
        let end = first.checked_add(count)?;
        let is_whole = |index: u32| index & INODES_PER_HOLE_BIT.wrapping_sub(1) == 0;
        if count == 0 || end > INODES_PER_CHUNK || !is_whole(first) || !is_whole(count) {
            return None;
        }
        let mut hole_mask = u16::MAX;
        for bit in 0..16u32 {
            let index = bit.wrapping_mul(INODES_PER_HOLE_BIT);
            if (first..end).contains(&index) {
                hole_mask &= !1u16.wrapping_shl(bit);
            }
        }
        Some(Self { start, hole_mask, count, free_count: count, free: u64::MAX })
    }

    /// This chunk and another part of the same one. `None` where they are not parts of one chunk, or some inodes exist
    /// in both.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let exist_twice = self.existing() & other.existing() != 0;
        if self.start != other.start || exist_twice {
            return None;
        }
        Some(Self {
            start: self.start,
            hole_mask: self.hole_mask & other.hole_mask,
            count: self.count.checked_add(other.count)?,
            free_count: self.free_count.checked_add(other.free_count)?,
            // Free is what is free in its part; a part's holes have their bits set.
            free: self.free & other.free,
        })
    }

    /// The blocks that hold existing inodes, as runs of first block and number of blocks. A block that existing inodes share
    /// with a hole counts.
    pub fn blocks(&self, geometry: &Geometry) -> Vec<(AgBlock, u32)> {
        let block_of = |inode: AgInode| {
            AgBlock::new(inode.get().checked_shr(geometry.inodes_per_block_log).unwrap_or(0))
        };
        let mut runs: Vec<(AgBlock, u32)> = Vec::new();
        for index in (0..INODES_PER_CHUNK).filter(|index| self.exists(*index)) {
            let block = block_of(self.inode(index));
            match runs.last_mut() {
                Some((start, length)) => match block.checked_distance_from(*start) {
                    Some(distance) if distance < *length => {}
                    Some(distance) if distance == *length => *length = length.saturating_add(1),
                    _ => runs.push((block, 1)),
                },
                None => runs.push((block, 1)),
            }
        }
        runs
    }

    /// Index of the first inode that exists and is free.
    #[inline]
    pub fn first_free(&self) -> Option<u32> {
        let free = self.free & self.existing();
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Takes a free inode. `false` where it is not one.
    #[inline]
    pub fn take(&mut self, index: u32) -> bool {
        if index >= INODES_PER_CHUNK || self.free & self.existing() & 1u64.wrapping_shl(index) == 0 {
            return false;
        }
        self.free &= !1u64.wrapping_shl(index);
        self.free_count = self.free_count.saturating_sub(1);
        true
    }

    /// Makes an inode in use free. `false` where it is not one.
    pub fn give_back(&mut self, index: u32) -> bool {
        if !self.is_allocated(index) {
            return false;
        }
        self.free |= 1u64.wrapping_shl(index);
        self.free_count = self.free_count.saturating_add(1);
        true
    }

    /// Whether every inode that exists is free.
    pub fn is_unused(&self) -> bool {
        self.free_count == self.count
    }

    /// The record, in the form that the file system has.
    pub fn pack(&self, geometry: &Geometry) -> InodeIndexRecord {
        let (start, free) = (U32::new(self.start.get()), U64::new(self.free));
        if geometry.features.has_sparse_inodes() {
            return InodeIndexRecord {
                start,
                hole_mask: U16::new(self.hole_mask),
                count: low_u8(self.count.into()),
                free_count: low_u8(self.free_count.into()),
                free,
            };
        }
        // One number in the same four bytes.
        let [a, b, count, free_count] = self.free_count.to_be_bytes();
        let hole_mask = U16::new(low_u16(u16::from_be_bytes([a, b]).into()));
        InodeIndexRecord { start, hole_mask, count, free_count, free }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{btree::golden, features::Incompatible};

    fn geometry(is_sparse: bool) -> Geometry {
        let mut geometry = golden::geometry();
        geometry.features.incompatible.set(Incompatible::SPARSE_INODES, is_sparse);
        geometry
    }

    proptest! {
        #[test]
        fn records_unpack_to_what_was_packed(hole_mask: u16, free: u64, start: u32) {
            for is_sparse in [false, true] {
                let hole_mask = if is_sparse { hole_mask } else { 0 };
                let mut chunk = InodeChunk { start: AgInode::new(start), hole_mask, count: 0, free_count: 0, free };
                chunk.count = chunk.existing().count_ones();
                chunk.free_count = (chunk.free & chunk.existing()).count_ones();
                prop_assert_eq!(chunk.pack(&geometry(is_sparse)).unpack(is_sparse), chunk);
            }
        }

        #[test]
        fn parts_of_a_chunk_join(parts in proptest::collection::btree_set(0..4u32, 1..=4)) {
            let mut whole: Option<InodeChunk> = None;
            for part in &parts {
                let part = InodeChunk::sparse(AgInode::new(128), part * 16, 16).unwrap();
                whole = match whole {
                    Some(whole) => {
                        prop_assert_eq!(whole.joined(&whole), None);
                        Some(whole.joined(&part).unwrap())
                    }
                    None => Some(part),
                };
            }
            let whole = whole.unwrap();
            prop_assert_eq!(whole.count as usize, parts.len() * 16);
            prop_assert_eq!(whole.existing().count_ones(), whole.count);
            prop_assert!(whole.is_unused());
            prop_assert_eq!(parts.len() == 4, whole == InodeChunk::new(AgInode::new(128)));
        }

        #[test]
        fn inodes_are_taken_once_and_given_back_once(parts in 1..4u32, order in Just((0..64u32).collect::<Vec<_>>()).prop_shuffle()) {
            let mut chunk = InodeChunk::sparse(AgInode::new(64), 0, parts * 16).unwrap();
            let mut taken = 0;
            while let Some(index) = chunk.first_free() {
                prop_assert!(chunk.take(index));
                prop_assert!(!chunk.take(index));
                taken += 1;
            }
            prop_assert_eq!((taken, chunk.free_count), (parts * 16, 0));
            for index in order {
                prop_assert_eq!(chunk.give_back(index), index < parts * 16);
                prop_assert!(!chunk.give_back(index));
            }
            prop_assert!(chunk.is_unused());
        }
    }

    #[test]
    fn hole_masks_know_groups_of_four_only() {
        let start = AgInode::new(0);
        assert_eq!(InodeChunk::sparse(start, 2, 16), None);
        assert_eq!(InodeChunk::sparse(start, 0, 6), None);
        assert_eq!(InodeChunk::sparse(start, 56, 16), None);
        assert_eq!(InodeChunk::sparse(start, 0, 0), None);
        assert_eq!(InodeChunk::sparse(start, 16, 32).unwrap().hole_mask, 0xf00f);
    }
}

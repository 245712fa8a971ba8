//! Inode clusters of which nothing is left. In a chunk that only its other inodes show, they look like the holes of a sparse chunk.
//!
//! Invariant: no cluster comes back over blocks that a file has, and none that no witness names an inode of: a hole stays a hole.

use std::collections::BTreeSet;

use uxfs_format::{
    btree::inode_index::InodeChunk,
    geometry::{Geometry, INODES_PER_CHUNK},
    units::{AgBlock, AgNumber, InodeNumber},
};

use super::holes::Taken;
use crate::inode_index::gather::ChunksFound;

/// The inodes of all parts that may be lost clusters.
pub(super) fn inodes(geometry: &Geometry, found: &[ChunksFound]) -> BTreeSet<InodeNumber> {
    let mut inodes = BTreeSet::new();
    for (group, found) in geometry.groups().zip(found) {
        for chunk in found.chunks.iter().filter(|chunk| found.doubtful.contains(&chunk.start)) {
            let holes = (0..INODES_PER_CHUNK).filter(|index| !chunk.exists(*index));
            inodes.extend(holes.map(|index| geometry.inode_number(group, chunk.inode(index))));
        }
    }
    inodes
}

/// Gives back to a chunk the clusters that `is_named` has an inode of. They hold free inodes then. Gives these, one bit each.
pub(super) fn give_back(
    geometry: &Geometry,
    (group, chunk): (AgNumber, &mut InodeChunk),
    taken: &Taken,
    is_named: &dyn Fn(InodeNumber) -> bool,
) -> u64 {
    let inodes_per_block = 1 << geometry.inodes_per_block_log;
    let unit = geometry.inodes_per_sparse_unit();
    let mut given_back = 0;
    for first in (0..INODES_PER_CHUNK).step_by(unit as usize) {
        let of_unit = (u64::MAX >> (64 - unit)) << first;
        let start = chunk.inode(first).get();
        let blocks = (start / inodes_per_block, start.saturating_add(unit).div_ceil(inodes_per_block));
        let is_lost = chunk.existing() & of_unit == 0
            && (first..first + unit).any(|index| is_named(geometry.inode_number(group, chunk.inode(index))))
            && !taken.is_taken(geometry, group, (AgBlock::new(blocks.0), AgBlock::new(blocks.1)));
        if is_lost {
            given_back |= of_unit;
        }
    }
    let holes = (0..16).filter(|bit| given_back & (0b1111 << (bit * 4)) != 0);
    chunk.hole_mask = holes.fold(chunk.hole_mask, |mask, bit| mask & !(1 << bit));
    chunk.free |= given_back;
    chunk.count = chunk.existing().count_ones();
    chunk.free_count = (chunk.free & chunk.existing()).count_ones();
    given_back
}

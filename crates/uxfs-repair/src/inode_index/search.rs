//! The inode btree of a group whose headers are lost: its blocks are still there.
//!
//! Inodes of a chunk that was freed look as if in use, for Linux does not write them then. A group without headers has nothing else that
//! tells them from others: neither free space nor a reverse map can be read.
//!
//! 1. A tree counts if it is whole from a block without siblings on. Of several the one that has the block written last is the
//!    inode btree: every inode that is made or removed changes a leaf.
//! 2. A chunk that it lacks was freed if no inode there was written after the leaf where the chunk would stand. Of a chunk that was made
//!    after that leaf was written, every inode in use is newer.

use uxfs_format::{
    btree::{
        block_header::BlockHeader,
        inode_index::{InodeChunk, InodeIndex},
    },
    geometry::Geometry,
    units::{AgInode, Lsn},
};
use uxfs_volume::btree::Tree;

use super::gather::as_chunk;
use crate::btree::{search::Roots, visit_sound_blocks};

/// An inode btree that no header leads to.
#[derive(Debug, Default)]
pub(super) struct FoundIndex {
    /// In order.
    pub chunks: Vec<InodeChunk>,
    /// The first inode of each leaf that has a record, and when the leaf was written. In order.
    leaves: Vec<(AgInode, Lsn)>,
    /// When the block that is the newest was written.
    written: Lsn,
}

impl FoundIndex {
    /// The newest of the whole trees.
    pub fn newest(roots: Roots<'_, InodeIndex>, geometry: &Geometry) -> Option<Self> {
        roots
            .trees()
            .filter_map(|tree| Self::read(&tree, geometry))
            .reduce(|newest, other| if other.written > newest.written { other } else { newest })
    }

    fn read(tree: &Tree<'_, InodeIndex>, geometry: &Geometry) -> Option<Self> {
        let mut found = Self::default();
        let is_whole = visit_sound_blocks(tree, &mut |view| {
            // A block that was never logged is as old as the file system.
            let written = Some(view.header().lsn()).filter(|lsn| *lsn != Lsn::NULL).unwrap_or_default();
            found.written = found.written.max(written);
            let records = view.records();
            found.leaves.extend(records.first().map(|first| (first.get(geometry).start, written)));
            found.chunks.extend(records.iter().map(|record| as_chunk(record, geometry)));
        });
        is_whole.then_some(found)
    }

    /// Whether a chunk from this inode on, which the tree lacks, was freed: `newest` is the newest of its inodes.
    pub fn denies(&self, start: AgInode, newest: Lsn) -> bool {
        let behind = self.leaves.partition_point(|(first, _)| *first <= start);
        // A chunk between two leaves may have stood at the end of the one or at the beginning of the other.
        let beside = [behind.checked_sub(1), Some(behind)];
        let written = beside.iter().flatten().filter_map(|index| self.leaves.get(*index)).map(|leaf| leaf.1);
        newest <= written.max().unwrap_or(self.written)
    }
}

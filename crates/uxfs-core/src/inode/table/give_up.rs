//! Giving up inodes with very many extents that nobody has open, where memory is short.

use super::{InodeTable, shard::Shard};
use crate::{
    filesystem::FileSystem,
    inode::{Fork, edit::EditInode},
};

impl FileSystem {
    /// Where extents in memory take much of the cache's budget, gives up those of inodes that nobody has open, and buffers.
    #[cold]
    pub(crate) fn make_way_for_extents(&self) {
        if self.cache().memory_account().is_short() {
            self.inode_table().give_up_large();
        }
        self.cache().make_way();
    }
}

impl InodeTable {
    /// Gives up all inodes that nobody has open and whose extents take memory that is counted.
    fn give_up_large(&self) {
        self.shards.iter().for_each(Shard::give_up_large);
    }
}

/// Whether the extents of an inode take memory that is counted.
pub(super) fn is_large(inode: &EditInode) -> bool {
    [Fork::Data, Fork::Attribute].into_iter().any(|fork| inode.extents(fork).is_large())
}

//! Giving up inodes with very many extents that nobody has open, where memory is short.

use super::shard::Shard;
use crate::{
    filesystem::FileSystem,
    inode::{Fork, edit::EditInode},
};

impl FileSystem {
    /// Where extents in memory take much of the cache's budget, gives up those of inodes that nobody has open, and buffers.
    #[cold]
    pub(crate) fn make_way_for_extents(&self) {
        let account = self.cache().memory_account();
        let shards = &self.inode_table().shards;
        shards.iter().take_while(|_| account.is_short()).for_each(Shard::give_up_large);
        self.cache().make_way();
    }
}

/// Whether the extents of an inode take memory that is counted.
pub(super) fn is_large(inode: &EditInode) -> bool {
    [Fork::Data, Fork::Attribute].into_iter().any(|fork| inode.extents(fork).is_large())
}

//! Evicting idle inodes with very many extents when memory is short.

use uxfs_block::cache::Cache;
use uxfs_engine::inode::edit::EditInode;
use uxfs_format::inode::Fork;

use super::{InodeTable, shard::Shard};

impl InodeTable {
    /// Where extents in memory take much of the cache's budget, evicts those of idle inodes.
    #[cold]
    pub(crate) fn make_way_for_extents(&self, cache: &Cache) {
        let account = cache.memory_account();
        self.shards.iter().take_while(|_| account.is_short()).for_each(Shard::give_up_large);
    }
}

/// Whether the extents of an inode take memory that is counted.
pub(super) fn is_large(inode: &EditInode) -> bool {
    [Fork::Data, Fork::Attribute].into_iter().any(|fork| inode.extents(fork).is_large())
}

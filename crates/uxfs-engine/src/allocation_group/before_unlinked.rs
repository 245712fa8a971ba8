//! Where unlinked inodes are in the lists of their group.

use std::collections::HashMap;

use uxfs_format::{allocation_group::inode_header::UNLINKED_BUCKETS, units::AgInode};

/// Which inode is before another in a list. What is not known is found by going through the list.
#[doc(alias = "i_prev_unlinked")]
#[derive(Debug, Default)]
pub struct BeforeUnlinked(HashMap<AgInode, AgInode>);

impl BeforeUnlinked {
    /// The inode before another, if it is known.
    pub fn get(&self, inode: AgInode) -> Option<AgInode> {
        self.0.get(&inode).copied()
    }

    /// `before` is null for the head of a list; `inode` is where a list ends.
    pub fn set(&mut self, inode: AgInode, before: AgInode) {
        if inode.is_null() {
            return;
        }
        if before.is_null() {
            self.forget(inode);
        } else {
            self.0.insert(inode, before);
        }
    }

    /// An inode leaves its list.
    pub fn forget(&mut self, inode: AgInode) {
        self.0.remove(&inode);
        if self.0.is_empty() {
            self.0 = HashMap::new();
        }
    }

    /// A list is empty from now on.
    pub fn forget_list(&mut self, bucket: usize) {
        self.0.retain(|inode, _| bucket_of(*inode) != bucket);
    }
}

/// Which of the group's lists an inode belongs to.
pub fn bucket_of(inode: AgInode) -> usize {
    (inode.get() % UNLINKED_BUCKETS) as usize
}

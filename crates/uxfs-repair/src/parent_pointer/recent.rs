//! Inodes that a thread has looked at last.

use std::sync::Arc;

use uxfs_format::{inode::Fork, units::InodeNumber};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

/// Inodes whose extents lie in a btree: one that is kept keeps its extent map, which takes long to read where it is large.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<Arc<Inode>>);

/// Files rarely have names in more directories, and neighbouring names rarely belong to more files with so many.
const MOST_RECENT: usize = 16;

impl Recent {
    /// An inode of which a fork will be read.
    ///
    /// # Errors
    /// As [`Volume::inode`].
    pub fn inode(&mut self, volume: &Volume, number: InodeNumber, fork: Fork) -> Result<Arc<Inode>> {
        let known = self.0.iter().rposition(|inode| inode.number == number);
        let inode = match known {
            Some(index) => self.0.remove(index),
            None => volume.inode(number)?,
        };
        if inode.has_extent_tree(fork) {
            if self.0.len() >= MOST_RECENT {
                self.0.remove(0);
            }
            self.0.push(Arc::clone(&inode));
        }
        Ok(inode)
    }
}

//! From the disk to an inode that is to be changed.

use uxfs_format::units::InodeNumber;
use uxfs_volume::error::Result;

use super::EditInode;
use crate::engine::Engine;

impl Engine {
    /// As [`load_edit_inode`](Self::load_edit_inode), and verifies the trees of its extents whole: keys against children,
    /// siblings, order. Changing them relies on that, and an inode whose trees cannot be changed must be refused before its
    /// last link goes: afterwards not even recovery could free it.
    pub fn load_inode_to_change(&self, number: InodeNumber) -> Result<EditInode> {
        self.load(number, true)
    }

    /// Reads an inode in use, and the extents of its forks.
    pub fn load_edit_inode(&self, number: InodeNumber) -> Result<EditInode> {
        self.load(number, false)
    }

    fn load(&self, number: InodeNumber, trees: bool) -> Result<EditInode> {
        let (mut inode, cluster) = self.inode_and_cluster(number)?;
        self.read_forks(&mut inode, trees)?;
        let place = (cluster.sector, cluster.length_bytes);
        Ok(EditInode::of(inode, true, self.commit_sequences_of(place, cluster.offset_bytes)))
    }
}

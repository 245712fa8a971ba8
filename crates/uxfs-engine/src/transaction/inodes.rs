//! Loading the inodes that a transaction changes, and storing them.

use uxfs_format::{
    fault::{Corruption, Location, Structure},
    inode::verify_inode_fields,
    units::InodeNumber,
};
use uxfs_journal::journal::items::inode::InodeChange;

use super::Transaction;
use crate::inode::edit::{EditInode, commit_sequences::CoreChange};
use uxfs_volume::error::Result;

impl Transaction<'_> {
    /// Reads an inode in use, to be changed. Only for callers that know that it is not open: others open it
    /// through the inode table.
    ///
    /// # Errors
    /// As for reading it, and its extents.
    pub fn load_inode(&mut self, number: InodeNumber) -> Result<EditInode> {
        self.engine().load_edit_inode(number)
    }

    /// Writes an inode into the buffer of its cluster; from then on others see it as it is now.
    ///
    /// # Errors
    /// Contents that do not fit the fork; fields that a reader would refuse, which a change of a damaged inode can lead to;
    /// damage of the cluster; the device.
    pub fn store_inode(&mut self, inode: &mut EditInode) -> Result<()> {
        inode.update_core();
        let (place, cluster) = self.engine().inode_cluster(inode.number)?;
        let geometry = self.engine().geometry();
        // Recovery verifies inodes as readers do: one that it refuses in the log would lock the image.
        verify_inode_fields(&inode.core, geometry).map_err(|fault| {
            let location = Location {
                sector: Some(cluster.sector),
                group: Some(place.group),
                group_block: Some(place.block),
                ..Location::of_inode(inode.number)
            };
            Corruption::new(Structure::Inode, location, fault)
        })?;
        let mut buffer =
            self.buffers().edit(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let mut edit = buffer.edit();
        let changes = inode.encode(edit.unmarked(cluster.offset_bytes, geometry.inode_size()), geometry)?;
        inode.note_stored();
        let marks = [
            (true, InodeChange::Core),
            (changes.has_data, InodeChange::Data),
            (changes.has_attribute, InodeChange::Attribute),
        ];
        for (has_changed, change) in marks {
            if has_changed {
                edit.mark(cluster.offset_bytes + change.offset_bytes() as usize);
            }
        }
        let has_written_contents = self.has_written_contents;
        if let Some(ticket) = self.buffers().ticket() {
            let is_data = changes.has_data
                || changes.has_attribute
                || changes.core == CoreChange::Other
                || inode.has_data_elsewhere();
            inode.commits.note(ticket.sequence(), is_data, has_written_contents);
            ticket.reserve(inode.raise_log_reservation(ticket.sequence(), changes));
        }
        Ok(())
    }
}

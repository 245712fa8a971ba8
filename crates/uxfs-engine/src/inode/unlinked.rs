//! The AGI unlinked lists: inodes that have no name any more and are not free yet.
//!
//! Each group has 64 lists that begin in its header; an inode is in the one of its number. Recovery frees the inodes that
//! are in a list after a crash; an image that is closed cleanly has none.
//!
//! On the disk each inode names the next one of its list. To remove one from the middle takes the one before it: the group
//! remembers these in memory, behind its lock.

use uxfs_format::{
    allocation_group::inode_header::InodeHeaderFault,
    checksum,
    fault::{Corruption, Location, Structure},
    field_table::OnDisk,
    inode::{InodeCore, core::CHECKSUM_OFFSET_BYTES},
    units::{AgInode, AgNumber, InodeNumber},
};
use uxfs_journal::journal::items::inode::{InodeChange, NEXT_UNLINKED_LOG_BYTES};
use zerocopy::big_endian::U32;

use super::edit::next_unlinked_of;
use crate::allocation_group::before_unlinked::bucket_of;
use crate::transaction::Transaction;
use uxfs_volume::error::{Error, OperationError, Result};

/// A list: which group's, and which of the 64.
#[derive(Debug, Clone, Copy)]
struct List {
    group: AgNumber,
    bucket: usize,
}

/// Changes the AGI unlinked lists.
#[derive(Debug)]
pub struct UnlinkedLists<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change the AGI unlinked lists.
    #[inline]
    pub fn unlinked_inodes(&mut self) -> UnlinkedLists<'_, 'fs> {
        UnlinkedLists { transaction: self }
    }
}

impl UnlinkedLists<'_, '_> {
    /// Puts an inode at the head of its list.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_iunlink")]
    pub fn add_unlinked(&mut self, number: InodeNumber) -> Result<()> {
        let (list, inode) = self.unlinked_list_of(number)?;
        let head = self.unlinked_head(list)?;
        if head == inode {
            return Err(self.damaged_list(list, inode));
        }
        self.set_next_unlinked(number, head)?;
        self.set_unlinked_head(list, inode)?;
        self.note_before(list, inode, AgInode::NULL)?;
        self.note_before(list, head, inode)
    }

    /// Takes an inode out of its list, wherever it is in it.
    ///
    /// # Errors
    /// It is not there; damage; the device.
    #[doc(alias = "xfs_iunlink_remove")]
    pub fn remove_unlinked(&mut self, number: InodeNumber) -> Result<()> {
        let (list, inode) = self.unlinked_list_of(number)?;
        // The group is locked before anything of the list is read: the next one may be leaving it, too.
        let before = self.before_unlinked(list, inode)?;
        let next = self.next_unlinked(number)?;
        if before.is_null() {
            self.set_unlinked_head(list, next)?;
        } else {
            let before = self.transaction.engine().geometry().inode_number(list.group, before);
            self.set_next_unlinked(before, next)?;
        }
        self.transaction.group(list.group)?.state.before_unlinked.forget(inode);
        self.note_before(list, next, before)?;
        self.set_next_unlinked(number, AgInode::NULL)
    }

    /// Whether an inode is in its list.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn is_in_unlinked_list(&mut self, number: InodeNumber) -> Result<bool> {
        let (list, inode) = self.unlinked_list_of(number)?;
        match self.before_unlinked(list, inode) {
            Ok(_) => Ok(true),
            Err(Error::Operation(OperationError::NoSuchInode)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The inode before another in its list, null where that is the head.
    fn before_unlinked(&mut self, list: List, inode: AgInode) -> Result<AgInode> {
        let head = self.unlinked_head(list)?;
        if head == inode {
            return Ok(AgInode::NULL);
        }
        let geometry = self.transaction.engine().geometry();
        if let Some(before) = self.transaction.group(list.group)?.state.before_unlinked.get(inode)
            && self.next_unlinked(geometry.inode_number(list.group, before))? == inode
        {
            return Ok(before);
        }
        // A list that a crash left. No list is longer than there are inodes in the group.
        let budget = self.transaction.group(list.group)?.state.headers()?.inodes.count.get();
        let mut at = head;
        for _ in 0..budget {
            if at.is_null() {
                return Err(OperationError::NoSuchInode.into());
            }
            let next = self.next_unlinked(geometry.inode_number(list.group, at))?;
            self.note_before(list, next, at)?;
            if next == inode {
                return Ok(at);
            }
            at = next;
        }
        Err(self.damaged_list(list, at))
    }

    fn note_before(&mut self, list: List, inode: AgInode, before: AgInode) -> Result<()> {
        self.transaction.group(list.group)?.state.before_unlinked.set(inode, before);
        Ok(())
    }

    /// The first inode of a list.
    pub fn unlinked_head_of(&mut self, group: AgNumber, bucket: usize) -> Result<AgInode> {
        self.unlinked_head(List { group, bucket })
    }

    /// Empties a list that leads to something else than unlinked inodes. Its inodes are lost until a checker finds them.
    #[doc(alias = "xlog_recover_clear_agi_bucket")]
    pub fn truncate_unlinked_list(&mut self, group: AgNumber, bucket: usize) -> Result<()> {
        self.transaction.group(group)?.state.before_unlinked.forget_list(bucket);
        self.set_unlinked_head(List { group, bucket }, AgInode::NULL)
    }

    /// The first inode of the first list of a group that has any.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn first_unlinked(&mut self, group: AgNumber) -> Result<Option<InodeNumber>> {
        let geometry = self.transaction.engine().geometry();
        let edit = self.transaction.group(group)?;
        let heads = edit.state.headers()?.inodes.unlinked;
        let head = heads.iter().map(|head| AgInode::new(head.get())).find(|head| !head.is_null());
        Ok(head.map(|head| geometry.inode_number(group, head)))
    }

    fn unlinked_list_of(&self, number: InodeNumber) -> Result<(List, AgInode)> {
        let (group, inode) = self
            .transaction
            .engine()
            .geometry()
            .split_inode_number(number)
            .ok_or(OperationError::NoSuchInode)?;
        Ok((List { group, bucket: bucket_of(inode) }, inode))
    }

    fn unlinked_head(&mut self, list: List) -> Result<AgInode> {
        let group = self.transaction.group(list.group)?;
        let head = group.state.headers()?.inodes.unlinked.get(list.bucket);
        Ok(head.map_or(AgInode::NULL, |head| AgInode::new(head.get())))
    }

    fn set_unlinked_head(&mut self, list: List, inode: AgInode) -> Result<()> {
        let group = self.transaction.group(list.group)?;
        if let Some(head) = group.state.inodes_mut()?.unlinked.get_mut(list.bucket) {
            *head = U32::new(inode.get());
        }
        Ok(())
    }

    fn next_unlinked(&mut self, number: InodeNumber) -> Result<AgInode> {
        let engine = self.transaction.engine();
        let cluster = engine.inode_cluster(number)?.1;
        let buffer = engine.metadata().read(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let bytes = buffer.get(cluster.offset_bytes..).unwrap_or_default();
        let core = InodeCore::prefix_of(bytes).ok_or(OperationError::NoSuchInode)?;
        Ok(AgInode::new(core.next_unlinked.get()))
    }

    fn set_next_unlinked(&mut self, number: InodeNumber, next: AgInode) -> Result<()> {
        let engine = self.transaction.engine();
        let (cluster, geometry) = (engine.inode_cluster(number)?.1, engine.geometry());
        let mut buffer =
            self.transaction.buffers().edit(Structure::InodeCluster, cluster.sector, cluster.length_bytes)?;
        let mut edit = buffer.edit();
        edit.mark(cluster.offset_bytes + InodeChange::NextUnlinked.offset_bytes() as usize);
        let bytes = edit.unmarked(cluster.offset_bytes, geometry.inode_size());
        if let Some(field) = next_unlinked_of(bytes) {
            *field = next.get().to_be_bytes();
        }
        checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
        if let Some(ticket) = self.transaction.buffers().ticket() {
            ticket.reserve(NEXT_UNLINKED_LOG_BYTES);
        }
        Ok(())
    }

    #[cold]
    fn damaged_list(&self, list: List, inode: AgInode) -> Error {
        let location = Location { group: Some(list.group), ..Location::default() };
        let fault = InodeHeaderFault::Unlinked { bucket: list.bucket as u32, inode };
        Corruption::new(Structure::InodeHeader, location, fault).into()
    }
}

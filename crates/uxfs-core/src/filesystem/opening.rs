//! What is looked at before the first change of a file system: whatever recovery would refuse after a crash is refused now, while
//! the image can still be read, and nothing has been written.
//!
//! | what recovery needs | looked at |
//! |---|---|
//! | features that it knows | [`refuse_unwritable`], by every way to write |
//! | a log whose head it finds | [`check_before_changes`] |
//! | headers of all groups, for the counters | all of them |
//! | records of space set aside for copies on write | their end of each group's tree |
//! | lists of inodes without names | lists that are not empty |
//! | no log sequence number ahead of the log | superblock, headers, and whatever is read later |
//!
//! In a file system that was closed in good order these are three sectors and a block for each group.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    allocation_group::inode_header::InodeHeaderFault,
    fault::{Corruption, HeaderFault, Location, Structure},
    quota::QuotaFlags,
    superblock::Superblock,
    units::{AgInode, AgNumber, InodeNumber, Lsn, Sector},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    recovery::{
        before_changes::{check_before_changes, clear_empty_log},
        stale::clear_ahead_of_clean,
    },
};
use zerocopy::big_endian::U16;

use super::FileSystem;
use crate::{
    error::{Error, OperationError, Result},
    identity::finish_change,
    recovery::leftovers::staging_extents,
};

/// Where a log begins that was never written.
pub(super) const FIRST_LSN: Lsn = Lsn::from_parts(1, 0);

/// The one question that every way to write asks first: may this be written to at all?
///
/// # Errors
/// The device is read-only; the superblock has feature bits that forbid it.
pub(crate) fn refuse_unwritable(device: &dyn BlockDevice, superblock: &Superblock) -> Result<()> {
    if device.is_read_only() {
        return Err(OperationError::ReadOnly.into());
    }
    Ok(superblock.feature_words().judge()?.write?)
}

impl FileSystem {
    /// Checks a file system whose log is clean, makes what lies ahead of its head fit to be written over, and finishes what
    /// was cut off without a log.
    ///
    /// # Errors
    /// Damage that recovery would not pass over; the device.
    pub(super) fn check_before_changes(&self, state: &LogState) -> Result<()> {
        let device = self.device().as_ref();
        let area = LogArea::new(device, self.geometry())?;
        check_before_changes(&area, state)?;
        self.begin_log_at(state.head().unwrap_or(FIRST_LSN))?;
        self.check_groups()?;
        for group in self.geometry().groups() {
            self.check_unlinked(group)?;
        }
        match state {
            LogState::Empty => clear_empty_log(&area, device)?,
            LogState::Clean(log) => clear_ahead_of_clean(&area, log, device)?,
            LogState::Dirty(_) => {}
        }
        finish_change(device, self.geometry(), self.superblock())
    }

    /// From now on no metadata is read that has a log sequence number ahead of `head`.
    ///
    /// # Errors
    /// The superblock has one.
    #[doc(alias = "xfs_log_check_lsn")]
    pub(crate) fn begin_log_at(&self, head: Lsn) -> Result<()> {
        let found = Lsn::new(self.superblock().lsn.get());
        if found > head && found != Lsn::NULL {
            let location = Location::at_sector(Sector::new(0));
            let fault = HeaderFault::AheadOfLog { found, head };
            return Err(Corruption::new(Structure::Superblock, location, fault).into());
        }
        self.newest_lsn.set(head);
        Ok(())
    }

    /// Reads of every group what recovery reads.
    pub(crate) fn check_groups(&self) -> Result<()> {
        self.prefetch_group_headers();
        for group in self.geometry().groups() {
            self.group_headers(group)?;
            staging_extents(self, group)?.try_for_each(|extent| extent.map(drop))?;
        }
        Ok(())
    }

    /// That what is in the lists of inodes without names belongs there: they are empty but for what a crash left.
    fn check_unlinked(&self, group: AgNumber) -> Result<()> {
        let header = self.inode_header(group)?;
        let mut budget = header.count.get();
        for (bucket, head) in (0..).zip(header.unlinked.iter()) {
            let mut inode = AgInode::new(head.get());
            while !inode.is_null() {
                let next = match budget.checked_sub(1) {
                    Some(left) => {
                        budget = left;
                        self.next_of_unlinked(group, bucket, inode)?
                    }
                    None => None,
                };
                inode = next.ok_or_else(|| {
                    let location = Location { group: Some(group), ..Location::default() };
                    let fault = InodeHeaderFault::NotUnlinked { bucket, inode };
                    Corruption::new(Structure::InodeHeader, location, fault)
                })?;
            }
        }
        Ok(())
    }

    /// The inode behind one in a list, if that belongs there.
    fn next_of_unlinked(&self, group: AgNumber, bucket: u32, inode: AgInode) -> Result<Option<AgInode>> {
        let geometry = self.geometry();
        if inode.get() % 64 != bucket || !geometry.group_may_hold_inode(group, inode) {
            return Ok(None);
        }
        let number: InodeNumber = geometry.inode_number(group, inode);
        match self.inode_from_outside(number) {
            Ok(found) if found.link_count == 0 => Ok(Some(found.next_unlinked.unwrap_or(AgInode::NULL))),
            Err(Error::Io(error)) => Err(error.into()),
            _ => Ok(None),
        }
    }

    /// As [`forget_quota_counts`], in what will be written as the superblock.
    pub(super) fn forget_quota_counts(&mut self) -> bool {
        forget_quota_counts(&mut self.superblock)
    }
}

/// Changes of quota usage are not counted here: the superblock must not say any longer that the counts are right. Gives whether it
/// did.
pub(crate) fn forget_quota_counts(superblock: &mut Superblock) -> bool {
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags.get());
    let left = flags.uncounted(superblock.feature_words().has_metadata_directory());
    superblock.quota_flags = U16::new(left.bits());
    left != flags
}

//! What is looked at before the first change of a file system: whatever recovery would refuse after a crash is refused now, while
//! the image can still be read, and nothing has been written.
//!
//! | what recovery needs | looked at |
//! |---|---|
//! | features that it knows | [`refuse_unwritable`](uxfs_volume::superblock::refuse_unwritable), by every way to write |
//! | a log whose head it finds | [`check_before_changes`] |
//! | headers of all groups, for the counters | all of them |
//! | records of space set aside for copies on write | their end of each group's tree |
//! | lists of inodes without names | lists that are not empty |
//! | no log sequence number ahead of the log | superblock, headers, and whatever is read later |
//!
//! The cycles of the whole log are not read. Blocks of a wrong cycle in the middle of the log cannot come from a crash, only from
//! somebody who makes an image; what could mislead recovery is around the head and at the ends, and that is read. All of a log
//! is up to 2 GiB, for each small edit. Linux does not read it, either; recovery refuses such blocks when it comes upon them.
//!
//! In a file system that was closed in good order these are three sectors and a block for each group.

use uxfs_format::{
    allocation_group::inode_header::InodeHeaderFault,
    fault::{Corruption, Location, Structure},
    units::{AgInode, AgNumber, InodeNumber, Lsn},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    recovery::{
        before_changes::{check_before_changes, clear_empty_log},
        stale::clear_ahead_of_clean,
    },
};

use uxfs_volume::{
    error::{Error, Result},
    volume::Volume,
};

use crate::{identity::finish_change, recovery::leftovers::staging_extents};

/// Where a log begins that was never written.
pub(crate) const FIRST_LSN: Lsn = Lsn::from_parts(1, 0);

/// Checks a file system whose log is clean, makes what lies ahead of its head fit to be written over, and finishes what
/// was cut off without a log.
///
/// # Errors
/// Damage that recovery would not pass over; the device.
pub(crate) fn check_volume(volume: &Volume, state: &LogState) -> Result<()> {
    let device = volume.device().as_ref();
    let area = LogArea::new(device, volume.geometry())?;
    check_before_changes(&area, state)?;
    volume.begin_log_at(state.head().unwrap_or(FIRST_LSN))?;
    check_groups(volume)?;
    for group in volume.groups().with_headers() {
        check_unlinked(volume, group)?;
    }
    match state {
        LogState::Empty => clear_empty_log(&area, device)?,
        LogState::Clean(log) => clear_ahead_of_clean(&area, log, device)?,
        LogState::Dirty(_) => {}
    }
    finish_change(device, volume.geometry(), volume.superblock())
}

/// Reads of every group what recovery reads.
pub(crate) fn check_groups(volume: &Volume) -> Result<()> {
    for group in volume.groups().with_headers() {
        volume.group(group).headers()?;
        staging_extents(volume, group)?.try_for_each(|extent| extent.map(drop))?;
    }
    Ok(())
}

/// That what is in the lists of inodes without names belongs there: they are empty but for what a crash left.
fn check_unlinked(volume: &Volume, group: AgNumber) -> Result<()> {
    let header = volume.group(group).inode_header()?;
    let mut budget = header.count.get();
    for (bucket, head) in (0..).zip(header.unlinked.iter()) {
        let mut inode = AgInode::new(head.get());
        while !inode.is_null() {
            let next = match budget.checked_sub(1) {
                Some(left) => {
                    budget = left;
                    next_of_unlinked(volume, group, bucket, inode)?
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
fn next_of_unlinked(
    volume: &Volume,
    group: AgNumber,
    bucket: u32,
    inode: AgInode,
) -> Result<Option<AgInode>> {
    let geometry = volume.geometry();
    if inode.get() % 64 != bucket || !geometry.group_may_hold_inode(group, inode) {
        return Ok(None);
    }
    let number: InodeNumber = geometry.inode_number(group, inode);
    match volume.inode_from_outside(number) {
        Ok(found) if found.link_count() == 0 => Ok(Some(found.next_unlinked().unwrap_or(AgInode::NULL))),
        Err(Error::Io(error)) => Err(error.into()),
        _ => Ok(None),
    }
}

//! Checks before the first change of a file system. Anything that recovery would refuse after a crash is refused now, before
//! the first write, while the image can still be read.
//!
//! | what recovery needs | what is read |
//! |---|---|
//! | features that it knows | [`refuse_unwritable`](uxfs_volume::superblock::refuse_unwritable), by every way to write |
//! | a log whose head it finds | [`check_before_changes`] |
//! | a log over no other structure | [`check_log_extent`] |
//! | a root that is a directory, which Linux wants | the root inode |
//! | headers of all groups, for the counters | all of them |
//! | CoW staging records | the end of each group's reference count btree |
//! | unlinked lists | those that are not empty |
//! | no log sequence number ahead of the log | superblock, headers, and all metadata that is read later |
//!
//! The cycles are read around the head and at both ends of the log, where wrong ones could mislead recovery. Elsewhere a crash
//! cannot leave wrong cycles, only the author of a hostile image; recovery refuses them when it reaches them. Reading the whole
//! log, up to 2 GiB, would be too slow for a small edit, and Linux does not do so either.
//!
//! In a clean file system the checks read three sectors and a block of each group, and two blocks of the log's group.

use uxfs_format::{
    allocation_group::inode_header::InodeHeaderFault,
    fault::{Corruption, Location, Structure},
    inode::FileType,
    superblock::SuperblockFault,
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
    error::{Error, OperationError, Result},
    volume::Volume,
};

use crate::{identity::finish_change, log_extent::check_log_extent, recovery::leftovers::staging_extents};

/// The first LSN of a log that was never written.
pub(crate) const FIRST_LSN: Lsn = Lsn::from_parts(1, 0);

/// Checks a file system whose log is clean, clears stale log blocks ahead of the head, and finishes an interrupted change of
/// label or uuid.
///
/// # Errors
/// Damage that recovery would refuse; the device.
pub(crate) fn check_volume(volume: &Volume, state: &LogState) -> Result<()> {
    let device = volume.device().as_ref();
    let area = LogArea::new(device, volume.geometry())?;
    check_before_changes(&area, state)?;
    // Metadata that is read before this is in the cache, and its numbers are not compared.
    volume.begin_log_at(state.head().unwrap_or(FIRST_LSN))?;
    check_root(volume)?;
    check_groups(volume)?;
    check_log_extent(volume)?;
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

/// Refuses a superblock that names a file as the root directory, as Linux does. One that cannot be read is told by its first use.
fn check_root(volume: &Volume) -> Result<()> {
    let inode = volume.geometry().root_inode;
    let is_none = match volume.inode(inode) {
        Ok(root) => root.file_type() != Some(FileType::Directory),
        Err(error) => matches!(error, Error::Operation(OperationError::NoSuchInode)),
    };
    if is_none {
        let fault = SuperblockFault::RootDirectory { inode: inode.get() };
        return Err(Corruption::new(Structure::Superblock, Location::default(), fault).into());
    }
    Ok(())
}

/// Reads the headers and CoW staging records of every group.
pub(crate) fn check_groups(volume: &Volume) -> Result<()> {
    for group in volume.groups().with_headers() {
        volume.group(group).headers()?;
        staging_extents(volume, group)?.try_for_each(|extent| extent.map(drop))?;
    }
    Ok(())
}

/// Checks that every inode on the unlinked lists of a group belongs there. Only a crash leaves lists that are not empty.
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

/// The next inode of an unlinked list, if this one belongs on it.
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

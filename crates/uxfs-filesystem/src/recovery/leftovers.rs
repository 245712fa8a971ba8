//! Leftovers of a crash that no intent covers: unlinked inodes, and blocks that were staged for
//! copies on write.

use uxfs_format::{
    allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
    btree::reference_count::SharedExtent,
    log::reference_count::ReferenceCountOperation,
    units::{AgInode, AgNumber},
};

use super::{Purpose, RecoveryReport, Work};
use crate::operations::inactivate::{contradicts_unlinked, truncate_half_freed_attributes};
use crate::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_engine::{
    extent_map::refuse_realtime_blocks,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{Error, OperationError, Result};
use uxfs_volume::volume::Volume;

/// Whether there is anything of the kind.
pub(super) fn are_there(volume: &Volume) -> Result<bool> {
    for group in volume.groups().with_headers() {
        if volume.group(group).inode_header()?.has_unlinked() {
            return Ok(true);
        }
        if staging_extents(volume, group)?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Blocks of a group that were set aside, or an error. They are the last records of the tree: nothing else of it is read.
pub(crate) fn staging_extents(
    volume: &Volume,
    group: AgNumber,
) -> Result<impl Iterator<Item = Result<SharedExtent>> + use<'_>> {
    let group = volume.group(group);
    Ok(group.staging_extents_of(&group.free_space_header()?))
}

/// AGF and AGI of a group: of one that has been changed they are newer in memory. Others are not kept there.
fn headers_now(file_system: &FileSystem, group: AgNumber) -> Result<(FreeSpaceHeader, InodeHeader)> {
    if !file_system.is_group_loaded(group) {
        let group = file_system.group(group);
        return Ok((group.free_space_header()?, group.inode_header()?));
    }
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let edit = transaction.group(group)?;
    let headers = edit.state.headers()?;
    Ok((headers.free_space, headers.inodes))
}

/// Frees it all.
pub(super) fn free(file_system: &FileSystem, purpose: Purpose, report: &mut RecoveryReport) -> Result<()> {
    report.freed_staging_blocks = free_staging(file_system)?;
    free_unlinked(file_system, purpose, report)
}

/// Frees blocks that were set aside for copies on write: only memory knew for which files. Gives how many there were.
#[doc(alias = "xfs_reflink_recover_cow")]
fn free_staging(file_system: &FileSystem) -> Result<u64> {
    let mut freed = 0;
    for group in file_system.geometry().groups() {
        // Read to the end before anything changes. The tree's size bounds the list. Intents may have given it another root.
        let header = headers_now(file_system, group)?.0;
        let extents: Vec<_> = file_system.group(group).staging_extents_of(&header).collect::<Result<_>>()?;
        for extent in extents {
            let start =
                file_system.geometry().fs_block(group, extent.start).ok_or(OperationError::NoSuchGroup)?;
            let length_blocks = extent.length_blocks.into();
            let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
            transaction.defer_reference_count(ReferenceCountOperation::FreeCow, start, length_blocks)?;
            transaction.defer_free(start, length_blocks)?;
            transaction.commit()?;
            freed += length_blocks;
        }
    }
    Ok(freed)
}

/// Frees the inodes in the lists of those without names. A list that leads to something else is cut off there, as Linux
/// does: what was behind is lost until a checker finds it.
#[doc(alias = "xlog_recover_process_iunlinks")]
fn free_unlinked(file_system: &FileSystem, purpose: Purpose, report: &mut RecoveryReport) -> Result<()> {
    for group in file_system.geometry().groups() {
        let header = headers_now(file_system, group)?.1;
        // Each turn takes one inode out of a list, or ends a list: no more turns than inodes.
        let mut budget = u64::from(header.count.get()) + 1;
        for (bucket, head) in header.unlinked.iter().enumerate() {
            let mut head = AgInode::new(head.get());
            while !head.is_null() {
                budget = budget.saturating_sub(1);
                let number = file_system.geometry().inode_number(group, head);
                let is_given_up = budget == 0 || report.given_up.inodes.contains(&number);
                match open_unlinked(file_system, group, bucket, head)?.filter(|_| !is_given_up) {
                    // Its blocks cannot be freed. A file system that is only read does without that.
                    Some(handle)
                        if purpose == Purpose::Read && refuse_realtime_blocks(&handle.read()).is_err() =>
                    {
                        let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
                        transaction.unlinked_inodes().remove_unlinked(number)?;
                        transaction.commit()?;
                    }
                    Some(handle) => {
                        report.current = Some(Work::Inode(number));
                        let is_in_use = contradicts_unlinked(file_system, &handle)?;
                        if !is_in_use {
                            truncate_half_freed_attributes(file_system, &handle)?;
                        }
                        drop(handle);
                        file_system.inactivate_pending()?;
                        report.current = None;
                        *(if is_in_use { &mut report.kept_inodes } else { &mut report.freed_inodes }) += 1;
                    }
                    None => {
                        let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
                        transaction.unlinked_inodes().truncate_unlinked_list(group, bucket)?;
                        transaction.commit()?;
                        report.broken_lists += 1;
                    }
                }
                head = Transaction::begin_for(file_system, Operation::Release)?
                    .unlinked_inodes()
                    .unlinked_head_of(group, bucket)?;
            }
        }
    }
    Ok(())
}

/// The inode at the head of a list, if it belongs there.
fn open_unlinked(
    file_system: &FileSystem,
    group: AgNumber,
    bucket: usize,
    head: AgInode,
) -> Result<Option<InodeHandle>> {
    let geometry = file_system.geometry();
    if head.get() as usize % 64 != bucket || !geometry.group_may_hold_inode(group, head) {
        return Ok(None);
    }
    let number = geometry.inode_number(group, head);
    let opened = file_system.inode_from_outside(number).and_then(|_| file_system.open(number));
    match opened {
        Ok(handle) => {
            let is_unlinked = handle.read().link_count() == 0;
            Ok(is_unlinked.then_some(handle))
        }
        Err(Error::Io(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

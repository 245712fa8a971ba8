//! Mounting a file system for changes, in bulk mode or through the log.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_engine::{
    engine::{AnyEngine, BulkEngine, LoggedEngine, unfinished::Unfinished},
    options::MountOptions,
};
use uxfs_journal::{LogState, journal::LogStart};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    superblock::{read_superblock, refuse_unwritable},
    volume::Volume,
};

use crate::{
    before_changes::{FIRST_LSN, check_volume},
    filesystem::FileSystem,
    log_extent::check_log_extent,
    mount,
    recovery::{self, RecoveryReport},
};

/// Mounts for changes that survive a crash at any moment. A dirty log is replayed first, and the image is recovered: the report says how.
///
/// # Errors
/// As for [`open_volume`](mount::open_volume); the device is read-only; features that uxfs cannot write.
pub fn mount_recovered(
    device: Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<(Arc<FileSystem>, Option<RecoveryReport>)> {
    let mut report = None;
    let (volume, log_state) = match mount::open_examined(Arc::clone(&device), options) {
        Err(Error::Operation(OperationError::DirtyLog { .. })) => {
            if let Some(recovered) = recovery::recover(&device, options, &mut ())? {
                report = Some(recovered.write()?);
            }
            mount::open_examined(device, options)?
        }
        result => result?,
    };
    refuse_unwritable(volume.device().as_ref(), volume.superblock())?;
    let state = log_state.ok_or(OperationError::ReadOnly)?;
    check_volume(&volume, &state)?;
    let previous_block = match state {
        LogState::Clean(log) => log.newest.block(),
        _ => u32::MAX,
    };
    let head = state.head().unwrap_or(FIRST_LSN);
    let start = LogStart { head, previous_block, recovered_tail: None };
    Ok((Arc::new(FileSystem::with_log(volume, options, start)?), report))
}

impl FileSystem {
    /// Mounts for changes in bulk mode: nothing is logged, so that the image is of use only after [`close`](Self::close).
    /// From the first write until then its superblock says that it is not finished: uxfs and Linux refuse it.
    ///
    /// # Errors
    /// As for [`open_volume`](mount::open_volume); the device is read-only or fails; features that uxfs cannot write.
    pub fn mount_bulk(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        if options.is_unfinished {
            return Self::mount_bulk_unmarked(device, options);
        }
        let superblock = read_superblock(device.as_ref(), false)?;
        let volume = mount::open_volume(Arc::new(Unfinished::new(device, &superblock)), options)?;
        check_log_extent(&volume)?;
        in_bulk_mode(volume, options)
    }

    /// As [`mount_bulk`](Self::mount_bulk), on a device whose contents only this process sees before the file system is
    /// closed.
    pub(crate) fn mount_bulk_unmarked(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        in_bulk_mode(mount::open_volume(device, options)?, options)
    }

    /// As [`mount_recovered`], without the report.
    ///
    /// # Errors
    /// As there.
    pub fn mount_logged(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Arc<Self>> {
        mount_recovered(device, options).map(|(file_system, _)| file_system)
    }

    /// Goes on from a volume to a file system mounted for changes, with the log at `start`.
    pub(crate) fn with_log(volume: Volume, options: &MountOptions, start: LogStart) -> Result<Self> {
        Ok(Self::of(AnyEngine::Logged(LoggedEngine::new(volume, *options, start)?)))
    }
}

fn in_bulk_mode(volume: Volume, options: &MountOptions) -> Result<FileSystem> {
    Ok(FileSystem::of(AnyEngine::Bulk(Box::new(BulkEngine::new(volume, *options)?))))
}

//! Opening a volume whose log is clean.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
pub use uxfs_engine::options::{Clock, Generations, LogOptions, MountOptions};
use uxfs_format::geometry::Geometry;
use uxfs_journal::recovery::find_head_tail::{DirtyLog, LogState};
use uxfs_volume::volume::{Volume, VolumeOptions};

use uxfs_volume::error::{OperationError, Result};

use crate::filesystem::FileSystem;
pub use crate::mount_for_changes::mount_recovered;

/// Reads and verifies the superblock of `device`, and examines its log unless the options ignore it.
///
/// # Errors
/// Not an XFS V5 file system, a damaged one, one with unknown features, or a device error; a log that is dirty,
/// damaged or external, unless the options ignore it.
pub fn open_volume(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Volume> {
    open_examined(device, options).map(|(volume, _)| volume)
}

/// As [`open_volume`], with the state of the log, which is never dirty; `None` where the options ignore it.
///
/// # Errors
/// As there.
pub fn open_examined(
    device: Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<(Volume, Option<LogState>)> {
    let &MountOptions { cache_budget_bytes, is_unfinished, .. } = options;
    let volume = Volume::open(device, &VolumeOptions { cache_budget_bytes, is_unfinished })?;
    let log_state = examine_log(volume.device().as_ref(), volume.geometry(), options)?;
    Ok((volume, log_state))
}

/// Mounts what lies on the device, and leaves the log aside, whatever its state. `device` is one whose changes are thrown away, such as an
/// overlay: nothing is to be kept of a file system that lacks what its log holds.
///
/// # Errors
/// The superblock; features that uxfs cannot read.
#[doc(alias = "norecovery")]
pub fn mount_without_log(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<FileSystem> {
    let options = MountOptions { ignore_dirty_log: true, is_thrown_away: true, ..*options };
    FileSystem::mount_bulk_unmarked(device, &options)
}

/// The state of the log; `None` where the options ignore it. A dirty log is an error, because the device lacks changes that
/// users of the file system have seen.
fn examine_log(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    options: &MountOptions,
) -> Result<Option<LogState>> {
    if options.ignore_dirty_log {
        return Ok(None);
    }
    match uxfs_journal::examine(device, geometry)? {
        LogState::Dirty(log) => {
            let DirtyLog { records, tail, head, .. } = log;
            Err(OperationError::DirtyLog { records, tail, head }.into())
        }
        state => Ok(Some(state)),
    }
}

//! From a device to a [`FileSystem`]: read and judge the superblock, see whether the log was closed in good order.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::{geometry::Geometry, inode::Timestamp};
use uxfs_journal::recovery::find_head_tail::{DirtyLog, LogState};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::{
    error::{OperationError, Result},
    filesystem::FileSystem,
};

/// How to mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// Read on whatever the log holds: changes that are not in place yet, nonsense, or nothing because it is external.
    pub ignore_dirty_log: bool,
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// What new inodes get as their generation.
    pub generations: Generations,
    /// What time it is for changes that do not bring their own.
    pub clock: Clock,
    /// Take an image that says that it is not finished, to finish it: [`FileSystem::close`] then says so.
    pub is_unfinished: bool,
    /// How changes go through the log.
    pub log: LogOptions,
}

/// How changes go through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogOptions {
    /// Every step of every transaction is a checkpoint of its own.
    pub is_immediate: bool,
    /// Size of the buffers that records are built in: 32, 64, 128 or 256 KiB; 0 for 32 KiB.
    #[doc(alias = "logbsize")]
    pub record_size_bytes: u32,
    /// A thread writes checkpoints while others go on; else those do who find that it is time.
    pub has_background: bool,
}

/// Where the generations of new inodes come from. They tell apart the successive files that have one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generations {
    /// Unpredictable, as file handles want them.
    #[default]
    Random,
    /// Always the same: images that are to be reproduced.
    Fixed(u32),
}

impl Generations {
    /// What `mkfs.xfs` takes where its `DETERMINISTIC_SEED` is set.
    pub const REPRODUCIBLE: Self = Self::Fixed(0x5345_4544);
}

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The system's.
    #[default]
    System,
    /// Always the same: images that are to be reproduced.
    Fixed(Timestamp),
}

impl FileSystem {
    /// Reads and verifies the superblock of `device`, and examines its log unless that is to be ignored.
    ///
    /// # Errors
    /// Not an XFS V5 file system, a damaged one, one with unknown features, or a device error; a log that is dirty,
    /// damaged or external, unless it is to be ignored.
    pub fn mount(device: Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Self> {
        let &MountOptions { cache_budget_bytes, is_unfinished, .. } = options;
        let volume = Volume::open(device, &VolumeOptions { cache_budget_bytes, is_unfinished })?;
        let log_state = examine_log(volume.device().as_ref(), volume.geometry(), options)?;
        Ok(Self::new(volume, log_state, *options))
    }
}

/// What the log says, or `None` where nobody wants to know. A dirty log is an error: what lies on the device is then
/// not what users of the file system last saw.
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

//! The paths of the inodes that findings and actions are about.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::units::InodeNumber;
use uxfs_volume::{parent_pointer::paths::PathLimits, tolerant::TolerantOptions, volume::Volume};

/// Paths of one inode.
const MOST_PATHS: usize = 8;
/// Parent pointers that are followed for one inode.
const MOST_STEPS: u64 = 10_000;
/// Inodes whose paths are looked for, so that a wreck is not searched for longer than it is checked.
const MOST_INODES: u32 = 10_000;
/// The cache for it.
const CACHE_BYTES: u64 = 8 << 20;

/// Looks for paths by parent pointers, on a volume of its own: what that passes over is no finding of the check.
#[derive(Debug, Default)]
pub struct Paths {
    device: Option<Arc<dyn BlockDevice>>,
    volume: Option<Volume>,
    inodes: u32,
}

impl Paths {
    /// On the device that is checked.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self { device: Some(device), volume: None, inodes: 0 }
    }

    /// Paths that lead to an inode; none where no parent pointer tells.
    pub fn of(&mut self, inode: InodeNumber) -> Vec<Vec<u8>> {
        if self.inodes >= MOST_INODES {
            return Vec::new();
        }
        self.inodes += 1;
        if let Some(device) = self.device.take() {
            let options =
                TolerantOptions { cache_budget_bytes: Some(CACHE_BYTES), ..TolerantOptions::default() };
            self.volume = Volume::open_tolerantly(device, &options).ok();
        }
        let Some(volume) = &self.volume else { return Vec::new() };
        let limits = PathLimits { paths: MOST_PATHS, steps: MOST_STEPS, ..PathLimits::default() };
        let found = volume.inode_from_outside(inode).and_then(|inode| volume.paths_of(&inode, &limits));
        found.map(|found| found.paths).unwrap_or_default()
    }
}

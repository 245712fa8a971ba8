//! A file system that is mounted.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use uxfs_block::words::in_words;

use super::{
    connection,
    device::FuseDevice,
    direct::{self, DirectError},
    fusermount::{self, FusermountError},
    guardian::Guardian,
    mount_id::unique_id_at,
    mount_table::{DeviceNumber, MountEntry, MountTable, wait_until_gone},
    programs,
};

/// Why a file system stays mounted.
#[derive(Debug, Error)]
pub enum UnmountError {
    /// Another file system is mounted on top.
    #[error("another file system is mounted over {} (unmount that one first)", .0.display())]
    Covered(PathBuf),
    /// The kernel's.
    #[error(transparent)]
    Direct(#[from] DirectError),
    /// That of fusermount3.
    #[error(transparent)]
    Fusermount(#[from] FusermountError),
    /// The table of mounts cannot be read.
    #[error("/proc/self/mountinfo cannot be read: {}", in_words(.0))]
    Table(io::Error),
}

/// How the file system was mounted, and is unmounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the kernel.
    Direct {
        /// With the type `fuseblk`.
        is_block_device: bool,
    },
    /// By fusermount3.
    Fusermount,
}

/// A mounted file system: its end of `/dev/fuse`, and where it is.
///
/// Dropping it closes the device, if it was not taken, and leaves the mount, unless the option `auto_unmount` was given or
/// [`set_unmounted_on_drop`](Self::set_unmounted_on_drop) was called.
#[derive(Debug)]
pub struct Mounted {
    device: Option<FuseDevice>,
    entry: MountEntry,
    /// The number that no other mount gets.
    unique_id: Option<u64>,
    way: Way,
    warnings: String,
    /// The process that unmounts when this one ends, if there is one.
    guardian: Option<Guardian>,
    is_mounted: bool,
    is_unmounted_on_drop: bool,
}

impl Mounted {
    pub(super) fn new(device: FuseDevice, entry: MountEntry, way: Way, warnings: String) -> Self {
        let unique_id = unique_id_at(&entry.mount_point);
        Self {
            device: Some(device),
            entry,
            unique_id,
            way,
            warnings,
            guardian: None,
            is_mounted: true,
            is_unmounted_on_drop: false,
        }
    }

    /// Starts the process that unmounts when this one ends.
    ///
    /// # Errors
    /// The program that unmounts is not installed; the system.
    pub fn guard(&mut self) -> io::Result<()> {
        let missing =
            |name: &str| io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed"));
        let find = |name| programs::find(name).ok_or_else(|| missing(name));
        let mount_point = &self.entry.mount_point;
        self.guardian = Some(match self.way {
            Way::Direct { .. } => Guardian::by_umount(&find("umount")?, mount_point)?,
            Way::Fusermount => Guardian::by_fusermount(&find(fusermount::NAME)?, mount_point)?,
        });
        Ok(())
    }

    /// The mount as the kernel's table of mounts showed it at first.
    #[must_use]
    pub fn entry(&self) -> &MountEntry {
        &self.entry
    }

    /// The server's end of `/dev/fuse`, until it is taken.
    #[must_use]
    pub fn device(&self) -> Option<&FuseDevice> {
        self.device.as_ref()
    }

    /// Gives the device to the server, once.
    pub fn take_device(&mut self) -> Option<FuseDevice> {
        self.device.take()
    }

    /// The canonical path.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.entry.mount_point
    }

    /// The device number that files of the mount show.
    #[must_use]
    pub fn device_number(&self) -> DeviceNumber {
        self.entry.device
    }

    /// Whether it has the type `fuseblk`: syncfs(2) arrives at the server, and umount(2) waits for its answer to DESTROY.
    #[must_use]
    pub fn is_block_device(&self) -> bool {
        matches!(self.way, Way::Direct { is_block_device: true })
    }

    /// Whether the kernel was asked directly, and not fusermount3.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        matches!(self.way, Way::Direct { .. })
    }

    /// What fusermount3 complained of, such as options that it ignored; empty if of nothing.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }

    /// Whether dropping this unmounts lazily.
    pub fn set_unmounted_on_drop(&mut self, is_unmounted: bool) {
        self.is_unmounted_on_drop = is_unmounted;
    }

    /// The number that no other mount gets, where the kernel has one.
    #[must_use]
    pub fn unique_id(&self) -> Option<u64> {
        self.unique_id
    }

    /// Unmounts. Lazily: the mount vanishes now, and ends when it is no longer used. A mount that has gone already is fine, and what was mounted
    /// in its place stays.
    ///
    /// The server must go on answering meanwhile, in another thread: with `fuseblk` the kernel waits for it.
    ///
    /// # Errors
    /// Files are in use, or another file system is mounted over it.
    pub fn unmount(&mut self, is_lazy: bool) -> Result<(), UnmountError> {
        if !self.is_mounted {
            return Ok(());
        }
        if self.is_there()? {
            match &self.way {
                Way::Direct { .. } if is_lazy => {
                    direct::detach(&self.entry.mount_point, self.unique_id, false)?
                }
                Way::Direct { .. } => direct::unmount(&self.entry.mount_point, false)?,
                Way::Fusermount => fusermount::unmount(&self.entry.mount_point, is_lazy)?,
            }
        }
        self.is_mounted = false;
        drop(self.guardian.take());
        Ok(())
    }

    /// Takes it away where its server answers nothing any more: all that wait for it get an error. What was mounted in its place stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn abort(&mut self) -> Result<(), UnmountError> {
        if !self.is_mounted || !self.is_there()? {
            return Ok(());
        }
        match &self.way {
            Way::Direct { .. } => direct::detach(&self.entry.mount_point, self.unique_id, true)?,
            Way::Fusermount => {
                // The user may end the connection; without the folder of the kernel only what waits in calls that can be ended ends.
                let _ = connection::abort(self.entry.device);
                fusermount::unmount(&self.entry.mount_point, true)?;
            }
        }
        self.is_mounted = false;
        drop(self.guardian.take());
        Ok(())
    }

    /// Waits until it is unmounted, here or by another program. Gives whether that happened within `limit`.
    ///
    /// # Errors
    /// The table of mounts cannot be read.
    pub fn wait_until_gone(&self, limit: Option<Duration>) -> io::Result<bool> {
        wait_until_gone(&self.entry, limit)
    }

    /// Whether this mount, and no other one, would be unmounted at its path.
    fn is_there(&self) -> Result<bool, UnmountError> {
        let table = MountTable::read().map_err(UnmountError::Table)?;
        if !table.holds(&self.entry) {
            return Ok(false);
        }
        let uppermost = table.at(&self.entry.mount_point);
        if uppermost.is_some_and(|entry| entry.is_same_mount(&self.entry)) {
            // A later mount of the same image may have got all that the table shows.
            return Ok(self.unique_id.is_none() || self.unique_id == unique_id_at(&self.entry.mount_point));
        }
        Err(UnmountError::Covered(self.entry.mount_point.clone()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A device that no server took answers nothing: unmounting must not wait for it.
        drop(self.device.take());
        if self.is_unmounted_on_drop {
            // There is no way to tell an error; the dead mount tells by itself.
            let _ = self.unmount(true);
        }
    }
}

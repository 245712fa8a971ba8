//! A loop mount that goes away again, whatever happens in between.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    mount::{UnmountFlags, unmount},
};
use tempfile::TempDir;

/// How an image is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read-only; a dirty log would be replayed in memory only if the device allowed it, so the image must be clean.
    ReadOnly,
    /// Read-only without looking at the log: the only way to mount a damaged image.
    ReadOnlyNoRecovery,
    /// Read-write. Never for a damaged image: it can wedge the kernel.
    ReadWrite,
}

impl Access {
    fn options(self) -> &'static str {
        match self {
            Self::ReadOnly => "loop,nouuid,ro",
            Self::ReadOnlyNoRecovery => "loop,nouuid,ro,norecovery",
            Self::ReadWrite => "loop,nouuid",
        }
    }
}

/// The kernel's view of an image. Dropping it unmounts; the loop device detaches itself then.
#[derive(Debug)]
pub struct LoopMount {
    mount_point: TempDir,
    is_mounted: bool,
}

impl LoopMount {
    /// Mounts `image` under a fresh temporary folder.
    ///
    /// # Errors
    /// `mount` says no, with its words.
    pub fn new(image: &Path, access: Access) -> Result<Self> {
        Self::with_options(image, access, "")
    }

    /// As [`new`](Self::new), with more options as `mount -o` takes them.
    ///
    /// # Errors
    /// `mount` says no, with its words.
    pub fn with_options(image: &Path, access: Access, more: &str) -> Result<Self> {
        // `mount` takes a loop device that is there already; that of a read-only mount which has just gone may be.
        for _ in 0..100 {
            let mount = Self::once(image, access, more)?;
            let is_read_only = statvfs(mount.path())?.f_flag.contains(StatVfsMountFlags::RDONLY);
            if access != Access::ReadWrite || !is_read_only {
                return Ok(mount);
            }
            mount.unmount()?;
            thread::sleep(Duration::from_millis(50));
        }
        bail!("{} can only be mounted for reading", image.display());
    }

    fn once(image: &Path, access: Access, more: &str) -> Result<Self> {
        let separator = if more.is_empty() { "" } else { "," };
        let options = format!("{}{separator}{more}", access.options());
        let mount_point = tempfile::Builder::new().prefix("uxfs-mount-").tempdir()?;
        let output = Command::new("mount")
            .args(["-t", "xfs", "-o", &options])
            .arg(image)
            .arg(mount_point.path())
            .output()
            .context("cannot run mount")?;
        if !output.status.success() {
            bail!("mount {}: {}", image.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self { mount_point, is_mounted: true })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount_point.path()
    }

    /// A path inside the mount.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// Unmounts, and says whether that went well; changes are in the image afterwards.
    ///
    /// # Errors
    /// It stayed busy.
    pub fn unmount(mut self) -> Result<()> {
        self.try_unmount()
    }

    fn try_unmount(&mut self) -> Result<()> {
        if !self.is_mounted {
            return Ok(());
        }
        let mut attempts = 0;
        while let Err(error) = unmount(self.path(), UnmountFlags::empty()) {
            attempts += 1;
            if error != rustix::io::Errno::BUSY || attempts > 50 {
                return Err(error).with_context(|| format!("cannot unmount {}", self.path().display()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.is_mounted = false;
        Ok(())
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        if let Err(error) = self.try_unmount() {
            eprintln!("{error:#}; detaching it");
            // The temporary folder must not be removed through a live mount.
            let _ = unmount(self.path(), UnmountFlags::DETACH);
        }
    }
}

/// The kernel's release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

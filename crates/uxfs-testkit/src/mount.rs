//! A loop mount that goes away again, whatever happens in between.

use std::{
    fs,
    os::unix::fs::MetadataExt,
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
    access: Access,
    device: Device,
    is_mounted: bool,
}

/// The loop device of a mount.
#[derive(Debug)]
struct Device {
    /// Its attribute in sysfs; missing while no file is attached.
    backing_file: PathBuf,
    image: PathBuf,
}

impl Device {
    fn of(mount_point: &Path, image: &Path) -> Result<Self> {
        let number = fs::metadata(mount_point)?.dev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let backing_file = format!("/sys/dev/block/{major}:{minor}/loop/backing_file").into();
        Ok(Self { backing_file, image: image.canonicalize()? })
    }

    /// A new mount namespace copies every mount. While its process runs, the file system stays active after umount(2), and the image is
    /// incomplete.
    fn wait_until_free(&self) -> Result<()> {
        for _ in 0..1500 {
            let file = fs::read_to_string(&self.backing_file).unwrap_or_default();
            if Path::new(file.trim_end_matches('\n')) != self.image {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("{} stays mounted in another mount namespace", self.image.display());
    }
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
        let device = Device::of(mount_point.path(), image)?;
        Ok(Self { mount_point, access, device, is_mounted: true })
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
        if self.access == Access::ReadWrite { self.device.wait_until_free() } else { Ok(()) }
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

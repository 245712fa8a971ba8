//! Which mount it is: the kernel gives the number in its table to the next mount once one has gone, and another number to no other mount.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, fstatvfs, openat, statx},
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount_remount, unmount},
};

/// By its number: rustix has no name for it with musl.
#[doc(alias = "AT_STATX_DONT_SYNC")]
const DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);

/// The number that no other mount gets, since Linux 6.8.
#[doc(alias = "STATX_MNT_ID_UNIQUE")]
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The root of a mount, held by a descriptor: what is mounted in its place meanwhile is another one. Asks no server anything.
#[derive(Debug)]
pub(super) struct MountRoot(OwnedFd);

impl MountRoot {
    /// The uppermost mount at a canonical path.
    ///
    /// # Errors
    /// The path cannot be reached.
    pub fn open(mount_point: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, mount_point, flags, Mode::empty())?))
    }

    /// The number that no other mount gets; `None` where the kernel has none, or where a library was preloaded: that of fakeroot(1) asks for
    /// attributes, too, and so waits for a server that does not answer yet.
    pub fn unique_id(&self) -> Option<u64> {
        if std::env::var_os("LD_PRELOAD").is_some_and(|libraries| !libraries.is_empty()) {
            return None;
        }
        // The server is not asked: it may be gone, or not there yet.
        let flags = AtFlags::EMPTY_PATH | DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let found = statx(&self.0, "", flags, UNIQUE).ok()?;
        StatxFlags::from_bits_retain(found.stx_mask).contains(UNIQUE).then_some(found.stx_mnt_id)
    }

    /// A path that leads to the mount that was opened, whatever lies over it or has taken its place.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Changes its flags. The server gets no message.
    ///
    /// # Errors
    /// The kernel's; `EINVAL` where it is not mounted any more.
    pub fn remount(&self, flags: MountFlags) -> Result<(), Errno> {
        mount_remount(self.path(), flags, "")
    }

    /// Whether its server answers.
    ///
    /// # Errors
    /// It does not: its number says why.
    pub fn ask_server(&self) -> Result<(), Errno> {
        fstatvfs(&self.0).map(drop)
    }

    /// Unmounts it lazily, with further flags. This descriptor keeps it busy: else than lazily it cannot be.
    ///
    /// # Errors
    /// The kernel's.
    pub fn detach(&self, flags: UnmountFlags) -> Result<(), Errno> {
        unmount(self.path(), flags | UnmountFlags::DETACH)
    }
}

/// The number that no other mount gets, of the uppermost mount at a canonical path.
#[must_use]
pub fn unique_id_at(mount_point: &Path) -> Option<u64> {
    MountRoot::open(mount_point).ok()?.unique_id()
}

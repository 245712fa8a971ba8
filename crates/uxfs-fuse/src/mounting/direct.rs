//! Mounting by mount(2): as root, or in a user namespace with its own mounts.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::makedev,
    io::Errno,
    mount::{MountFlags, UnmountFlags},
    thread::{CapabilitySet, capabilities},
};
use thiserror::Error;
use uxfs_block::words::in_words;

use super::{
    device::{DeviceError, FuseDevice},
    mount_id::MountRoot,
    mount_table::MountTable,
    options::{FuseMountOptions, kernel::MountOwner},
};

/// What `/proc/self/ns/user` leads to outside any user namespace: the kernel gives the first one a fixed number.
#[doc(alias = "PROC_USER_INIT_INO")]
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// Why the kernel does not mount, remount or unmount.
#[derive(Debug, Error)]
pub enum DirectError {
    /// This process may not.
    #[error("mounting is not permitted (it needs root or CAP_SYS_ADMIN)")]
    NotPermitted,
    /// This process may not, nor does fusermount3.
    #[error("remounting is not permitted (it needs root): unmount it (uxfs umount), and mount it again")]
    RemountNotPermitted,
    /// The kernel has no FUSE.
    #[error("the kernel does not know the file system type {0} (load the kernel module: modprobe fuse)")]
    NoFileSystem(String),
    /// The block device is mounted, or open exclusively.
    #[error("{} is in use: it is mounted, or another program has it open exclusively", .0.display())]
    DeviceBusy(PathBuf),
    /// Files of the mount are in use.
    #[error("{} is busy: a program has a file or its working directory there", .0.display())]
    Busy(PathBuf),
    /// Nothing is mounted there.
    #[error("nothing is mounted on {}", .0.display())]
    NotMounted(PathBuf),
    /// Anything else.
    #[error("{}: {}", .path.display(), in_words(.source))]
    System {
        /// The mount point.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Whether mount(2) may be tried. It can still be refused: the mounts may belong to another user namespace.
#[must_use]
pub fn may_mount() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Whether an image is to be mounted with the type `fuseblk`, which makes syncfs(2) and umount(2) wait for the server and
/// marks the device as mounted. The kernel permits it for block devices, and in the first user namespace. It claims the device: so a mount that
/// takes changes cannot have this type, because its server has claimed the device before it reads the first byte, and keeps the claim.
#[must_use]
pub fn is_block_device_mount(image: &Path, options: &FuseMountOptions) -> bool {
    let is_whole_device = options.offset_bytes.unwrap_or(0) == 0 && options.partition.is_none();
    options.may_claim_block_device
        && options.is_read_only
        && is_whole_device
        && fs::metadata(image).is_ok_and(|metadata| metadata.file_type().is_block_device())
        && fs::read_link("/proc/self/ns/user").is_ok_and(|link| link.as_os_str() == FIRST_USER_NAMESPACE)
        && may_mount()
}

/// Mounts what the server at the other end of `device` serves on a canonical path.
///
/// The call returns before the server has answered INIT, unless [`FuseDevice::wait_for_init`] was called.
/// `is_block_device` selects the type `fuseblk`; `image` is then the device, which must not be open exclusively.
///
/// # Errors
/// The kernel's.
pub fn mount(
    device: &FuseDevice,
    image: &OsStr,
    mount_point: &Path,
    options: &FuseMountOptions,
    is_block_device: bool,
) -> Result<(), DirectError> {
    let source = if is_block_device { image.to_owned() } else { options.source_text(image) };
    let kind = options.file_system_type(is_block_device);
    let data = options.kernel_data(device.as_fd(), MountOwner::of_this_process(), is_block_device);
    if is_block_device && is_mounted(image) {
        return Err(DirectError::DeviceBusy(image.into()));
    }
    let mounted = rustix::mount::mount(&source, mount_point, &kind, options.mount_flags(), data.as_c_str());
    mounted.map_err(|error| match error {
        Errno::PERM => DirectError::NotPermitted,
        Errno::NODEV => DirectError::NoFileSystem(kind),
        Errno::BUSY if is_block_device => DirectError::DeviceBusy(image.into()),
        error => system(mount_point, error),
    })?;
    if is_block_device && matches!(device.connect_another(), Err(DeviceError::Connect(_))) {
        // Another server has mounted it meanwhile, or in other mounts than those that are seen here.
        drop(unmount(mount_point, true));
        return Err(DirectError::DeviceBusy(image.into()));
    }
    Ok(())
}

/// Whether a block device is mounted already. The kernel would mount its file system a second time, served by the first
/// server, and leave the new one without requests.
fn is_mounted(image: &OsStr) -> bool {
    let number = fs::metadata(image).map(|metadata| metadata.rdev());
    let table = MountTable::read();
    let (Ok(number), Ok(table)) = (number, table) else { return false };
    table.entries().any(|entry| makedev(entry.device.major, entry.device.minor) == number)
}

/// Changes whether a mount takes changes. Its other flags stay as they are. The server gets no message.
///
/// # Errors
/// [`DirectError::Busy`] where files are open for writing; nothing is mounted there; the kernel's.
pub fn remount(mount_point: &Path, is_read_only: bool) -> Result<(), DirectError> {
    let root = MountRoot::open(mount_point).map_err(|error| system(mount_point, error))?;
    remount_root(&root, mount_point, is_read_only)
}

/// As [`remount`], of a mount that is held by its root, and no other one.
pub(super) fn remount_root(
    root: &MountRoot,
    mount_point: &Path,
    is_read_only: bool,
) -> Result<(), DirectError> {
    let table = MountTable::read().map_err(|source| system(mount_point, source))?;
    let entry = table.at(mount_point).ok_or_else(|| DirectError::NotMounted(mount_point.to_path_buf()))?;
    let mut flags = entry.flags();
    flags.set(MountFlags::RDONLY, is_read_only);
    root.remount(flags).map_err(|error| match error {
        Errno::PERM => DirectError::RemountNotPermitted,
        error => of_mounted(mount_point, error),
    })
}

/// Unmounts. Lazily: the mount vanishes now, and ends when it is no longer used.
///
/// # Errors
/// [`DirectError::Busy`]; nothing is mounted there; the kernel's.
pub fn unmount(mount_point: &Path, is_lazy: bool) -> Result<(), DirectError> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    let unmounted = rustix::mount::unmount(mount_point, flags | UnmountFlags::NOFOLLOW);
    unmounted.map_err(|error| of_mounted(mount_point, error))
}

/// Takes the uppermost mount away though its server does not answer: all that wait for it get an error.
///
/// # Errors
/// Nothing is mounted there; the kernel's.
pub fn abort(mount_point: &Path) -> Result<(), DirectError> {
    detach(mount_point, None, true)
}

/// Unmounts lazily one mount and no other one: that with the number that no other one gets. Where it has gone, nothing is done. `is_dead`: all
/// that wait for its server get an error.
///
/// # Errors
/// The kernel's.
pub(super) fn detach(mount_point: &Path, unique_id: Option<u64>, is_dead: bool) -> Result<(), DirectError> {
    let flags = if is_dead { UnmountFlags::FORCE } else { UnmountFlags::empty() };
    let root = MountRoot::open(mount_point).map_err(|error| system(mount_point, error))?;
    if unique_id.is_some() && root.unique_id() != unique_id {
        return Ok(());
    }
    match root.detach(flags) {
        // There is no /proc to go through.
        Err(Errno::NOENT) => {
            let flags = flags | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            rustix::mount::unmount(mount_point, flags).map_err(|error| of_mounted(mount_point, error))
        }
        detached => detached.map_err(|error| of_mounted(mount_point, error)),
    }
}

fn of_mounted(mount_point: &Path, error: Errno) -> DirectError {
    match error {
        Errno::PERM => DirectError::NotPermitted,
        Errno::BUSY => DirectError::Busy(mount_point.to_path_buf()),
        Errno::INVAL => DirectError::NotMounted(mount_point.to_path_buf()),
        error => system(mount_point, error),
    }
}

fn system(path: &Path, error: impl Into<io::Error>) -> DirectError {
    DirectError::System { path: path.to_path_buf(), source: error.into() }
}

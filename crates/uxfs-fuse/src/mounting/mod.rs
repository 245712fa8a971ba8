//! Options, `/dev/fuse`, mount(2) and fusermount3, unmounting.
//!
//! [`mount`] asks the kernel where this process may, and fusermount3 elsewhere:
//!
//! | process | image | way | type |
//! |---|---|---|---|
//! | root | block device, for reading | mount(2) | `fuseblk.uxfs` |
//! | root, or root of a user namespace with its own mounts | any other | mount(2) | `fuse.uxfs` |
//! | ordinary user | any | fusermount3 | `fuse.uxfs` |
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | the options of a mount |
//! | [`connection`] | ending the connection between the kernel and a server |
//! | [`device`] | `/dev/fuse` |
//! | [`direct`] | mount(2), umount(2), remounting |
//! | [`ending`] | how a mount ended, for those that wait |
//! | [`fusermount`] | the program that mounts for ordinary users |
//! | [`mount_point`] | checks of the directory that is mounted on |
//! | [`mount_id`] | telling a mount from the next one in its place |
//! | [`mount_table`] | the kernel's table of mounts, waiting for the end of a mount |
//! | [`mounted`] | a mounted file system |
//! | `guardian` | the process that unmounts when the server ends |
//! | `programs` | finding fusermount3 and umount |
//! | [`kernel_limits`] | how far the kernel reads ahead, how much written data it keeps |

pub mod connection;
pub mod device;
pub mod direct;
pub mod ending;
pub mod fusermount;
mod guardian;
pub mod kernel_limits;
pub mod mount_id;
pub mod mount_point;
pub mod mount_table;
pub mod mounted;
pub mod options;
mod programs;

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use thiserror::Error;
use uxfs_block::words::in_words;

use self::{
    device::{DeviceError, FuseDevice},
    direct::DirectError,
    fusermount::FusermountError,
    mount_id::MountRoot,
    mount_point::MountPointError,
    mount_table::{MountEntry, MountTable},
    mounted::{Mounted, Way},
    options::FuseMountOptions,
};
use crate::statistics::query;

/// Why an image is not mounted.
#[derive(Debug, Error)]
pub enum MountError {
    /// The directory.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// `/dev/fuse`.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The kernel.
    #[error(transparent)]
    Direct(#[from] DirectError),
    /// fusermount3.
    #[error(transparent)]
    Fusermount(#[from] FusermountError),
    /// Neither way is open.
    #[error("mount(2) is not permitted here, nor does fusermount3 mount: {0}")]
    NeitherWay(FusermountError),
    /// A mount that is there is to be changed.
    #[error("the option remount changes a mount that is there; it mounts nothing")]
    IsRemount,
    /// It was mounted for reading, and stays so.
    #[error(transparent)]
    StaysReadOnly(#[from] StaysReadOnly),
    /// The server of a mount that is to be changed has ended.
    #[error("its server has ended: unmount it (uxfs umount), and mount it again")]
    ServerEnded,
    /// The server of a mount that is to be changed does not say whether it takes changes.
    #[error("its server cannot be asked: {}", in_words(.0))]
    NotAsked(io::Error),
    /// It takes no changes any more, but its log is not clean.
    #[error("it is read-only now, but not all is written back: {}", in_words(.0))]
    Rest(io::Error),
    /// The process that is to unmount cannot be started.
    #[error("auto_unmount: no process can be started that unmounts: {}", in_words(.0))]
    Guardian(io::Error),
    /// It was mounted, but cannot be found again; it is unmounted.
    #[error("{} was mounted, but /proc/self/mountinfo does not show it (is /proc mounted?)", .0.display())]
    NotShown(PathBuf),
    /// It was mounted, but cannot be found again; it is unmounted.
    #[error("/proc/self/mountinfo cannot be read: {}", in_words(.0))]
    Table(io::Error),
}

/// Why a mount for reading does not take changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StaysReadOnly {
    /// It was opened for reading.
    #[error(
        "it was mounted with ro, and its server cannot write the image: unmount it (uxfs umount), and mount it without ro"
    )]
    OpenedToRead,
    /// The log is left aside.
    #[error(
        "it was mounted with norecovery, and changes need the log: unmount it (uxfs umount), and mount it without"
    )]
    WithoutLog,
    /// What recovery or changes need does not pass its verifier.
    #[error(
        "it was mounted with ro, and what changes need is damaged: unmount it (uxfs umount); uxfs repair mends it"
    )]
    Damaged,
    /// Others have the image open.
    #[error(
        "it was mounted with ro, and another program has the image open: it takes changes once that one has ended"
    )]
    InUse,
    /// Another program changed the image, or had the chance to, since it was read.
    #[error(
        "it was mounted with ro, and another program may have changed the image since: unmount it (uxfs umount), and mount it again"
    )]
    Changed,
    /// Features that uxfs does not know.
    #[error(
        "it was mounted with ro, and uxfs does not know all features of the file system: it can only be read"
    )]
    Features,
    /// The image or its device.
    #[error("it was mounted with ro, and its image has failed: unmount it (uxfs umount)")]
    Failed,
}

impl StaysReadOnly {
    /// Every reason.
    const ALL: [Self; 7] = [
        Self::OpenedToRead,
        Self::WithoutLog,
        Self::Damaged,
        Self::InUse,
        Self::Changed,
        Self::Features,
        Self::Failed,
    ];

    /// The errno that the server returns for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::OpenedToRead => Errno::ROFS,
            Self::WithoutLog => Errno::OPNOTSUPP,
            Self::Damaged => Errno::UCLEAN,
            Self::InUse => Errno::BUSY,
            Self::Changed => Errno::STALE,
            Self::Features => Errno::PROTONOSUPPORT,
            Self::Failed => Errno::IO,
        }
    }
}

/// Why the server of a mount did not let changes come. `Ok` where there is nothing to ask: the mount is another program's.
fn why_refused(error: io::Error) -> Result<(), MountError> {
    let Some(errno) = Errno::from_io_error(&error) else { return Err(MountError::NotAsked(error)) };
    if let Some(reason) = StaysReadOnly::ALL.into_iter().find(|reason| reason.errno() == errno) {
        return Err(reason.into());
    }
    match errno {
        Errno::NOTTY | Errno::NOSYS | Errno::INVAL => Ok(()),
        Errno::NOTCONN | Errno::CONNABORTED => Err(MountError::ServerEnded),
        Errno::PERM => Err(DirectError::RemountNotPermitted.into()),
        _ => Err(MountError::NotAsked(error)),
    }
}

/// Mounts an image on a directory. `image` is what the table of mounts names as the source: the path of the image.
///
/// Nothing has been served when this returns. The kernel's first request, INIT, waits at the device, and all use of the
/// mount waits for the answer: this process must not use it before.
///
/// # Errors
/// See [`MountError`]. Nothing is mounted then.
pub fn mount(image: &OsStr, directory: &Path, options: &FuseMountOptions) -> Result<Mounted, MountError> {
    if options.is_remount {
        return Err(MountError::IsRemount);
    }
    let mount_point = mount_point::check(directory)?;
    let mut mounted = either_way(image, &mount_point, options)?;
    if options.has_automatic_unmount {
        mounted.set_unmounted_on_drop(true);
        mounted.guard().map_err(MountError::Guardian)?;
    }
    Ok(mounted)
}

fn either_way(image: &OsStr, mount_point: &Path, options: &FuseMountOptions) -> Result<Mounted, MountError> {
    if !direct::may_mount() {
        return by_fusermount(image, mount_point, options);
    }
    match directly(image, mount_point, options) {
        // Root of a user namespace whose mounts belong to another one.
        Err(MountError::Direct(DirectError::NotPermitted)) => by_fusermount(image, mount_point, options)
            .map_err(|error| match error {
                MountError::Fusermount(error) => MountError::NeitherWay(error),
                error => error,
            }),
        outcome => outcome,
    }
}

/// Changes whether a mount takes changes, as the option `remount` asks. No other option of a mount can be changed. Where it takes none any more,
/// its log is clean afterwards.
///
/// # Errors
/// The directory; files are open for writing; this process may not.
pub fn remount(directory: &Path, options: &FuseMountOptions) -> Result<(), MountError> {
    let mount_point = mount_point::check(directory)?;
    // The server may end at any time; then the remount must not apply to the mount beneath.
    let root = MountRoot::open(&mount_point)
        .map_err(|source| DirectError::System { path: mount_point.clone(), source })?;
    if options.is_read_only {
        direct::remount_root(&root, &mount_point, true)?;
        return query::set_resting(&root.path(), true).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOTTY | Errno::NOSYS | Errno::INVAL) => Ok(()),
            _ => Err(MountError::Rest(error)),
        });
    }
    query::set_resting(&root.path(), false).or_else(why_refused)?;
    direct::remount_root(&root, &mount_point, false)?;
    match root.ask_server() {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => Err(MountError::ServerEnded),
        _ if !is_at(&root, &mount_point) => Err(MountError::ServerEnded),
        // Other errors come from other programs' mounts.
        _ => Ok(()),
    }
}

/// Whether a mount is still the uppermost one at its path.
fn is_at(root: &MountRoot, mount_point: &Path) -> bool {
    let now = MountRoot::open(mount_point);
    now.is_ok_and(|now| root.unique_id().is_none() || now.unique_id() == root.unique_id())
}

fn directly(image: &OsStr, mount_point: &Path, options: &FuseMountOptions) -> Result<Mounted, MountError> {
    let device = FuseDevice::open()?;
    let is_block_device = direct::is_block_device_mount(Path::new(image), options);
    direct::mount(&device, image, mount_point, options, is_block_device)?;
    let entry = entry_of(mount_point).inspect_err(|_| {
        drop(direct::unmount(mount_point, true));
    })?;
    Ok(Mounted::new(device, entry, Way::Direct { is_block_device }, String::new()))
}

fn by_fusermount(
    image: &OsStr,
    mount_point: &Path,
    options: &FuseMountOptions,
) -> Result<Mounted, MountError> {
    let list = options.fusermount_list(image);
    let handed = fusermount::mount(mount_point, &list)?;
    let entry = entry_of(mount_point).inspect_err(|_| {
        drop(fusermount::unmount(mount_point, true));
    })?;
    Ok(Mounted::new(handed.device, entry, Way::Fusermount, handed.warnings))
}

/// The FUSE mount at a path. The table tells of it without asking the server, which does not answer yet.
fn entry_of(mount_point: &Path) -> Result<MountEntry, MountError> {
    let table = MountTable::read().map_err(MountError::Table)?;
    let entry = table.at(mount_point).filter(|entry| entry.is_fuse());
    entry.cloned().ok_or_else(|| MountError::NotShown(mount_point.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_program_answers_is_no_refusal() {
        for reason in StaysReadOnly::ALL {
            let refusal = why_refused(reason.errno().into());
            assert!(matches!(refusal, Err(MountError::StaysReadOnly(found)) if found == reason));
        }
        for errno in [Errno::NOTTY, Errno::NOSYS, Errno::INVAL] {
            assert!(why_refused(errno.into()).is_ok());
        }
        for errno in [Errno::NOTCONN, Errno::CONNABORTED] {
            assert!(matches!(why_refused(errno.into()), Err(MountError::ServerEnded)));
        }
        let refusal = why_refused(Errno::PERM.into());
        assert!(matches!(refusal, Err(MountError::Direct(DirectError::RemountNotPermitted))));
        assert!(matches!(why_refused(Errno::INTR.into()), Err(MountError::NotAsked(_))));
    }
}

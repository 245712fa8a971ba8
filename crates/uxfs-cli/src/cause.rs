//! Of which kind an error is: by its type and variant, and by those of the errors behind it.

use std::{error::Error as StandardError, io, path::Path};

use rustix::io::Errno;
use uxfs_bench::BenchError;
use uxfs_block::{claim::ClaimError, device::DeviceError, preload::Unheard};
use uxfs_fuse::mounting::{
    MountError, StaysReadOnly, device::DeviceError as FuseDeviceError, direct::DirectError,
    fusermount::FusermountError, mount_point::MountPointError, mounted::UnmountError,
};
use uxfs_image::error::ImageError;
use uxfs_metadump::restore::RestoreError;
use uxfs_mkfs::{empty::FormatError, target::TargetError};
use uxfs_partition::selection::SelectionError;
use uxfs_populate::{error::PopulateError, make::MakeError};
use uxfs_repair::commit::error::CommitError;
use uxfs_source::error::{LayerFault, Reason, SourceError};
use uxfs_volume::error::{Error, OperationError};

use crate::{image_target::Occupied, kind::Kind};

/// A kind, with Linux's number where it has one.
type Cause = (Kind, Option<i32>);

/// Kind and number of the first cause that has them, if any.
pub(crate) fn cause_of(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let found = of_system(error)
            .or_else(|| of_core(error))
            .or_else(|| of_mount(error))
            .or_else(|| of_source(error))
            .or_else(|| of_making(error))
            .or_else(|| of_other_files(error));
        if found.is_some() {
            return found;
        }
        cause = error.source();
    }
    None
}

fn only(kind: Kind) -> Option<Cause> {
    Some((kind, None))
}

fn of_host(error: &io::Error) -> Option<Cause> {
    // An error of ours inside says more.
    let inner = error.get_ref().and_then(|inner| cause_of(inner));
    inner.or_else(|| Some((Kind::of_host(error), error.raw_os_error().or_else(|| errno_of_kind(error)))))
}

/// Claims of images are refused by kinds and words.
fn errno_of_kind(error: &io::Error) -> Option<i32> {
    match error.kind() {
        io::ErrorKind::ResourceBusy => Some(Errno::BUSY.raw_os_error()),
        io::ErrorKind::ReadOnlyFilesystem => Some(Errno::ROFS.raw_os_error()),
        _ => None,
    }
}

fn with(kind: Kind, errno: Errno) -> Option<Cause> {
    Some((kind, Some(errno.raw_os_error())))
}

fn of_system(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_host(error);
    }
    if let Some(errno) = error.downcast_ref::<Errno>() {
        return of_host(&io::Error::from(*errno));
    }
    if let Some(error) = error.downcast_ref::<DeviceError>() {
        return of_host(&error.source);
    }
    if let Some(error) = error.downcast_ref::<ClaimError>() {
        return match error {
            ClaimError::System(error) => of_host(error),
            ClaimError::WriteProtected => only(Kind::ReadOnly),
            ClaimError::Mounted(_)
            | ClaimError::Swap
            | ClaimError::Attached { .. }
            | ClaimError::Changing
            | ClaimError::Reading
            | ClaimError::Busy => with(Kind::InUse, Errno::BUSY),
        };
    }
    error.downcast_ref::<Unheard>().and_then(|_| only(Kind::Unavailable))
}

fn of_core(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some((Kind::of(error), errno_of(error)));
    }
    let error = error.downcast_ref::<OperationError>()?;
    Some((Kind::of_operation(error), Some(error.errno())))
}

/// Mounting and unmounting.
fn of_mount(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<MountError>() {
        return match error {
            MountError::MountPoint(error) => cause_of(error),
            MountError::Device(error) => cause_of(error),
            MountError::Direct(error) => cause_of(error),
            MountError::Fusermount(error) | MountError::NeitherWay(error) => cause_of(error),
            MountError::IsRemount => only(Kind::Usage),
            MountError::StaysReadOnly(StaysReadOnly::Damaged) => only(Kind::Damage),
            MountError::StaysReadOnly(StaysReadOnly::InUse) => only(Kind::InUse),
            MountError::StaysReadOnly(StaysReadOnly::Changed) => only(Kind::Changed),
            MountError::StaysReadOnly(_) => only(Kind::ReadOnly),
            MountError::ServerEnded => only(Kind::Io),
            MountError::NotAsked(error)
            | MountError::Rest(error)
            | MountError::Guardian(error)
            | MountError::Table(error) => of_host(error),
            MountError::NotShown(_) => only(Kind::Unavailable),
        };
    }
    if let Some(error) = error.downcast_ref::<UnmountError>() {
        return match error {
            UnmountError::Covered(_) => only(Kind::InUse),
            UnmountError::Direct(error) => cause_of(error),
            UnmountError::Fusermount(error) => cause_of(error),
            UnmountError::Table(error) => of_host(error),
        };
    }
    if let Some(error) = error.downcast_ref::<MountPointError>() {
        return match error {
            MountPointError::Missing(_) => with(Kind::NotFound, Errno::NOENT),
            MountPointError::NotDirectory(_) => with(Kind::NotADirectory, Errno::NOTDIR),
            MountPointError::Dead(_) => only(Kind::InUse),
            MountPointError::NotPermitted(_) => with(Kind::Permission, Errno::ACCESS),
            MountPointError::System { source, .. } => of_host(source),
        };
    }
    if let Some(error) = error.downcast_ref::<FuseDeviceError>() {
        return match error {
            FuseDeviceError::Missing | FuseDeviceError::NoDriver => only(Kind::Unavailable),
            FuseDeviceError::NotPermitted => only(Kind::Permission),
            FuseDeviceError::Open(error)
            | FuseDeviceError::Connect(error)
            | FuseDeviceError::WaitForInit(error) => of_host(error),
        };
    }
    if let Some(error) = error.downcast_ref::<DirectError>() {
        return match error {
            DirectError::NotPermitted | DirectError::RemountNotPermitted => only(Kind::Permission),
            DirectError::NoFileSystem(_) => only(Kind::Unavailable),
            DirectError::DeviceBusy(_) | DirectError::Busy(_) => only(Kind::InUse),
            DirectError::NotMounted(_) => only(Kind::NotMounted),
            DirectError::System { source, .. } => of_host(source),
        };
    }
    match error.downcast_ref::<FusermountError>()? {
        FusermountError::Missing | FusermountError::Run { .. } => only(Kind::Unavailable),
        // It says why in words alone; nearly always the user may not.
        FusermountError::Refused { .. } => only(Kind::Permission),
        FusermountError::Silent(_) => only(Kind::Failed),
        FusermountError::Device { device, .. } => cause_of(device),
    }
}

/// What a file system is filled from.
fn of_source(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<PopulateError>() {
        return match error {
            PopulateError::Source(error) => cause_of(error),
            PopulateError::At { error, .. } | PopulateError::Image(error) => cause_of(error),
            PopulateError::Device(error) => cause_of(error),
            PopulateError::Threads(error) => of_host(error),
            PopulateError::MissingContents(_) => only(Kind::WrongForm),
            PopulateError::Impossible { .. } => only(Kind::Invalid),
            _ => None,
        };
    }
    match error.downcast_ref::<SourceError>()? {
        SourceError::Io { source, .. } => of_host(source),
        SourceError::Unreadable(unreadable) => {
            let first = unreadable.problems.iter().find_map(|problem| errno_of_reason(&problem.reason));
            first.and_then(|errno| of_host(&errno.into())).or_else(|| only(Kind::Io))
        }
        SourceError::Replaced { .. } => only(Kind::Changed),
        SourceError::NoWayToAttributes | SourceError::Preload(_) => only(Kind::Unavailable),
        SourceError::CannotRestart { .. } => only(Kind::Invalid),
        SourceError::Layer { fault: LayerFault::TooManySymlinks, .. } => {
            with(Kind::TooManySymlinks, Errno::LOOP)
        }
        SourceError::Archive { .. }
        | SourceError::Layer { .. }
        | SourceError::Container { .. }
        | SourceError::Compiled { .. }
        | SourceError::Text { .. } => only(Kind::WrongForm),
        SourceError::Spill(error) => of_host(&error.source),
    }
}

fn errno_of_reason(reason: &Reason) -> Option<Errno> {
    match reason {
        Reason::Unreadable(failure)
        | Reason::Unlistable(failure)
        | Reason::UnreadableAttribute { failure, .. } => Some(failure.0),
        Reason::Shrank(_)
        | Reason::Lost(_)
        | Reason::Ignored(_)
        | Reason::BehindArchive { .. }
        | Reason::BehindPacked { .. } => None,
    }
}

/// Making file systems.
fn of_making(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<TargetError>() {
        return match error {
            TargetError::Missing => with(Kind::NotFound, Errno::NOENT),
            TargetError::WrongType
            | TargetError::FixedSize
            | TargetError::PartTooShort { .. }
            | TargetError::BehindEnd { .. } => only(Kind::Invalid),
            TargetError::InUse(error) => cause_of(error),
            TargetError::Occupied(_) => only(Kind::Occupied),
            TargetError::System { source, .. } => of_host(source),
            TargetError::Device(error) => cause_of(error),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<FormatError>() {
        return match error {
            FormatError::Device(error) => cause_of(error),
            FormatError::DeviceTooShort { .. } => only(Kind::NoSpace),
            FormatError::Time { .. } => only(Kind::Invalid),
            _ => None,
        };
    }
    match error.downcast_ref::<MakeError>()? {
        MakeError::Layout(_) => only(Kind::Usage),
        MakeError::Format(error) => cause_of(error),
        MakeError::Image(error) => cause_of(error),
        MakeError::Populate(error) => cause_of(error),
        MakeError::Source(error) => cause_of(error),
        MakeError::Scratch { error, .. } => of_host(error),
        MakeError::TooLarge => only(Kind::TooLarge),
        MakeError::NoSize => only(Kind::NoSpace),
        _ => None,
    }
}

/// Disks, packed images, dumps, undo files and benchmarks.
fn of_other_files(error: &(dyn StandardError + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<SelectionError>() {
        return match error {
            SelectionError::Device(error) => cause_of(error),
            SelectionError::None(_) | SelectionError::Impossible(_) => only(Kind::NoSuchPartition),
            SelectionError::Several { .. } => only(Kind::Invalid),
        };
    }
    if let Some(error) = error.downcast_ref::<ImageError>() {
        return match error {
            ImageError::Device(error) => cause_of(error),
            // Numbers are the host's; the decoders have words alone.
            ImageError::Unpack { source, .. } if source.raw_os_error().is_some() => of_host(source),
            ImageError::Unpack { .. } | ImageError::Damaged(_) => only(Kind::Damage),
            ImageError::NoRoom(_) => only(Kind::NoSpace),
            ImageError::NoDirectory { source, .. } => of_host(source),
            ImageError::Unsupported { .. } => only(Kind::UnsupportedFeature),
        };
    }
    if let Some(error) = error.downcast_ref::<RestoreError>() {
        return match error {
            RestoreError::NotADump { .. } => only(Kind::WrongForm),
            RestoreError::Version { .. } | RestoreError::Unsupported(_) => only(Kind::UnsupportedFeature),
            RestoreError::TargetTooShort { .. } => only(Kind::NoSpace),
            RestoreError::Read(error) | RestoreError::Target(error) => of_host(error),
            RestoreError::Write(error) => cause_of(error),
            RestoreError::Header(_)
            | RestoreError::CutOff(_)
            | RestoreError::NoSuperblock(_)
            | RestoreError::Outside { .. }
            | RestoreError::Extent { .. } => only(Kind::Damage),
        };
    }
    if let Some(error) = error.downcast_ref::<CommitError>() {
        return match error {
            CommitError::Device(error) => cause_of(error),
            CommitError::File { source, .. } => of_host(source),
            CommitError::NoRoom { .. } | CommitError::ImageRoom(_) => only(Kind::NoSpace),
            CommitError::Exists(_) => only(Kind::Exists),
            CommitError::NoDefaultPath => only(Kind::Usage),
            CommitError::Unusable { .. } => only(Kind::WrongForm),
            CommitError::NoSuperblock => only(Kind::NotAFileSystem),
            CommitError::OtherSize { .. } | CommitError::Foreign { .. } => only(Kind::Changed),
            _ => None,
        };
    }
    if error.downcast_ref::<Occupied>().is_some() {
        return only(Kind::Occupied);
    }
    match error.downcast_ref::<BenchError>()? {
        BenchError::System { errno, .. } => of_host(&io::Error::from(*errno)),
        BenchError::FileSystem(error) => cause_of(error),
        BenchError::Options(_) => only(Kind::Usage),
        BenchError::NoThread(error) => of_host(error),
        _ => None,
    }
}

/// The path of the host that an error is about, where the error has it.
pub(crate) fn path_of<'e>(error: &'e (dyn StandardError + 'static)) -> Option<&'e Path> {
    if let Some(error) = error.downcast_ref::<CommitError>() {
        return match error {
            CommitError::File { path, .. }
            | CommitError::NoRoom { path, .. }
            | CommitError::Exists(path)
            | CommitError::Unusable { path, .. } => Some(path),
            _ => None,
        };
    }
    match error.downcast_ref::<ImageError>()? {
        ImageError::NoRoom(directory) | ImageError::NoDirectory { directory, .. } => Some(directory),
        _ => None,
    }
}

/// The number of an error of the core: that of the host where a device failed.
pub(crate) fn errno_of(error: &Error) -> Option<i32> {
    match error {
        Error::Io(DeviceError { source, .. }) => of_host(source).and_then(|(_, errno)| errno),
        error => Some(error.errno()),
    }
}

/// Linux's name of an error's number, such as `ENOENT`.
pub(crate) fn errno_name(number: i32) -> Option<&'static str> {
    Some(match Errno::from_raw_os_error(number) {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::NXIO => "ENXIO",
        Errno::TOOBIG => "E2BIG",
        Errno::BADF => "EBADF",
        Errno::AGAIN => "EAGAIN",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::BUSY => "EBUSY",
        Errno::EXIST => "EEXIST",
        Errno::XDEV => "EXDEV",
        Errno::NODEV => "ENODEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::NFILE => "ENFILE",
        Errno::MFILE => "EMFILE",
        Errno::NOTTY => "ENOTTY",
        Errno::TXTBSY => "ETXTBSY",
        Errno::FBIG => "EFBIG",
        Errno::NOSPC => "ENOSPC",
        Errno::SPIPE => "ESPIPE",
        Errno::ROFS => "EROFS",
        Errno::MLINK => "EMLINK",
        Errno::PIPE => "EPIPE",
        Errno::RANGE => "ERANGE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::LOOP => "ELOOP",
        Errno::NODATA => "ENODATA",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::NOTCONN => "ENOTCONN",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::STALE => "ESTALE",
        Errno::UCLEAN => "EUCLEAN",
        Errno::DQUOT => "EDQUOT",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_found_behind_other_errors() {
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(cause_of(&full), Some((Kind::NoSpace, Some(28))));
        let within = io::Error::other(Error::Operation(OperationError::NotFound));
        assert_eq!(cause_of(&within), Some((Kind::NotFound, Some(2))));
        assert_eq!(cause_of(&io::Error::other("words")), Some((Kind::Io, None)));
        assert_eq!(cause_of(&std::fmt::Error), None);
        assert_eq!(
            (errno_name(2), errno_name(117), errno_name(4711)),
            (Some("ENOENT"), Some("EUCLEAN"), None)
        );
    }
}

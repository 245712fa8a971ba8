//! The numbers by which Linux tells of errors.
//!
//! The matches name every variant: a new error does not compile before its number has been decided.

use rustix::io::Errno;
use uxfs_format::attribute::posix_acl::{AclFault, XATTR_VERSION};
use uxfs_format::features::Unsupported;

use crate::error::{Error, OperationError};

impl Error {
    /// The number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::Operation(error) => error.number(),
            // The file system that holds the image has no room.
            Self::Io(error) if is_full(&error.source) => Errno::NOSPC,
            // After its first failed write the journal refuses all changes, as a file system does that Linux has shut down.
            Self::Io(_) | Self::Journal(_) => Errno::IO,
            // Linux calls EUCLEAN EFSCORRUPTED.
            Self::Corrupt(_) => Errno::UCLEAN,
            Self::Unsupported(
                Unsupported::UnknownIncompatible { .. }
                | Unsupported::UnknownRoCompatible { .. }
                | Unsupported::UnknownLogIncompatible { .. },
            ) => Errno::INVAL,
            Self::Unsupported(_) => Errno::OPNOTSUPP,
        };
        errno.raw_os_error()
    }
}

/// Whether an image could not grow: its host is full, or its owner may have no more there.
fn is_full(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT))
}

impl OperationError {
    /// The number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        self.number().raw_os_error()
    }

    fn number(&self) -> Errno {
        match self {
            Self::NotPermitted => Errno::PERM,
            Self::NotFound => Errno::NOENT,
            Self::NoSuchOffset => Errno::NXIO,
            Self::ValueTooLong | Self::TooManyAttributes => Errno::TOOBIG,
            Self::NoThread => Errno::AGAIN,
            Self::AccessDenied => Errno::ACCESS,
            Self::Busy => Errno::BUSY,
            Self::Exists => Errno::EXIST,
            Self::CrossesProjects => Errno::XDEV,
            Self::NotADirectory => Errno::NOTDIR,
            Self::IsADirectory => Errno::ISDIR,
            Self::LogTooSmall
            | Self::NoSuchGroup
            | Self::WrongFileType
            | Self::InvalidArgument
            | Self::InvalidName
            | Self::InvalidRange
            | Self::IntoItself
            | Self::DeviceNumberTooLarge => Errno::INVAL,
            Self::InvalidAcl(fault) => acl_number(fault),
            Self::FileTooLarge => Errno::FBIG,
            Self::NoSpace => Errno::NOSPC,
            // Linux replays a dirty log when it mounts, and refuses only where it cannot write: EROFS.
            Self::ReadOnly | Self::DirtyLog { .. } => Errno::ROFS,
            Self::TooManyLinks => Errno::MLINK,
            Self::XattrNameLength => Errno::RANGE,
            Self::NameTooLong | Self::TargetTooLong => Errno::NAMETOOLONG,
            Self::NotEmpty => Errno::NOTEMPTY,
            Self::TooManySymlinks => Errno::LOOP,
            Self::NoSuchAttribute => Errno::NODATA,
            Self::UnknownNamespace | Self::NoParentPointers | Self::CannotShare | Self::CannotExchange => {
                Errno::OPNOTSUPP
            }
            Self::Stale | Self::NoSuchInode => Errno::STALE,
            // An inode whose contents do not fit it is not written; Linux's verifier refuses it as damaged.
            Self::ForkTooLarge => Errno::UCLEAN,
        }
    }
}

/// `setxattr` with a list that is refused.
fn acl_number(fault: &AclFault) -> Errno {
    match fault {
        // A list that is in order, but longer than XFS can store.
        AclFault::TooMany { .. } => Errno::TOOBIG,
        AclFault::Form { length_bytes, version } if *length_bytes >= 4 && *version != XATTR_VERSION => {
            Errno::OPNOTSUPP
        }
        AclFault::Length { .. }
        | AclFault::Tag { .. }
        | AclFault::Permissions { .. }
        | AclFault::Form { .. }
        | AclFault::Id { .. }
        | AclFault::Order { .. }
        | AclFault::NoMask => Errno::INVAL,
    }
}

//! The four families of error: operation, I/O, corruption, unsupported.

use thiserror::Error;
use uxfs_block::device::DeviceError;
use uxfs_format::{attribute::posix_acl::AclFault, fault::Corruption, features::Unsupported, units::Lsn};

use crate::cause;

/// The errors of operations on a file system.
#[derive(Debug, Error)]
pub enum Error {
    /// The operation is not possible on this object: what errno says in Linux.
    #[error(transparent)]
    Operation(OperationError),
    /// The device failed.
    #[error(transparent)]
    Io(DeviceError),
    /// The image is damaged. Boxed: the rare case must not widen every result.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// The image is of a kind, or the file uses a feature, that uxfs recognises and does not support.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// The journal cannot go on: EIO for any further change. The layer that writes the log knows why.
    #[error(transparent)]
    Journal(Box<dyn std::error::Error + Send + Sync>),
}

impl From<OperationError> for Error {
    #[inline]
    fn from(error: OperationError) -> Self {
        cause::note(&error, false);
        Self::Operation(error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        cause::note(&error, false);
        Self::Io(error)
    }
}

impl From<Unsupported> for Error {
    fn from(unsupported: Unsupported) -> Self {
        cause::note(&unsupported, false);
        Self::Unsupported(unsupported)
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Self {
        cause::note(&corruption, true);
        Self::Corrupt(Box::new(corruption))
    }
}

/// An operation that is refused, each with its errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OperationError {
    /// ENOENT.
    #[error("no such file or directory")]
    NotFound,
    /// ENOTDIR.
    #[error("not a directory")]
    NotADirectory,
    /// EISDIR.
    #[error("is a directory")]
    IsADirectory,
    /// ELOOP.
    #[error("too many levels of symbolic links")]
    TooManySymlinks,
    /// ENAMETOOLONG.
    #[error("name is longer than 255 bytes")]
    NameTooLong,
    /// ENODATA.
    #[error("no such attribute")]
    NoSuchAttribute,
    /// ERANGE.
    #[error("attribute name is empty or longer than 255 bytes")]
    XattrNameLength,
    /// EOPNOTSUPP.
    #[error("no such kind of attribute (user., trusted., security. and system.posix_acl_… there are)")]
    UnknownNamespace,
    /// E2BIG.
    #[error("more attributes than can be listed")]
    TooManyAttributes,
    /// EINVAL.
    #[error("not possible on this kind of file")]
    WrongFileType,
    /// ESTALE or EINVAL: the number names no inode in use.
    #[error("no such inode")]
    NoSuchInode,
    /// ESTALE: the file that a handle named has been removed.
    #[error("stale file handle")]
    Stale,
    /// EINVAL: the number names no allocation group.
    #[error("no such allocation group")]
    NoSuchGroup,
    /// The file system was made without what the operation needs.
    #[error("the file system has no parent pointers")]
    NoParentPointers,
    /// EROFS: not mounted for changes.
    #[error("the file system is not mounted for changes")]
    ReadOnly,
    /// No operation of this kind fits the log.
    #[error("the log is too small for what is to be done")]
    LogTooSmall,
    /// EAGAIN: the system gives no thread.
    #[error("a thread could not be started")]
    NoThread,
    /// ENOSPC.
    #[error("no space left on the file system")]
    NoSpace,
    /// EEXIST.
    #[error("file exists")]
    Exists,
    /// ENOTEMPTY.
    #[error("directory is not empty")]
    NotEmpty,
    /// EPERM: the file or its directory is immutable or only to be appended to, or a directory is to get a further name.
    #[error("operation not permitted")]
    NotPermitted,
    /// EACCES: only directories have a default access control list.
    #[error("permission denied")]
    AccessDenied,
    /// EXDEV: files keep to their project where its directories say so.
    #[error("the directory belongs to another project")]
    CrossesProjects,
    /// EINVAL: a directory cannot lie below itself.
    #[error("a directory cannot be moved below itself")]
    IntoItself,
    /// EBUSY: `.` and `..` cannot be renamed.
    #[error("not possible with this name")]
    Busy,
    /// EINVAL.
    #[error("these cannot be asked for together, or not of this file")]
    InvalidArgument,
    /// EMLINK.
    #[error("too many links")]
    TooManyLinks,
    /// EFBIG.
    #[error("file too large")]
    FileTooLarge,
    /// EINVAL: 14 bits of major and 18 bits of minor number.
    #[error("device number too large")]
    DeviceNumberTooLarge,
    /// The contents of a fork were not moved out of the inode in time.
    #[error("the contents of a fork do not fit the inode")]
    ForkTooLarge,
    /// EINVAL: a name with a slash or a zero byte, an empty one, or `.` and `..` where they may not be.
    #[error("not a possible name")]
    InvalidName,
    /// E2BIG or ERANGE: longer than 64 KiB.
    #[error("attribute value is longer than 65536 bytes")]
    ValueTooLong,
    /// EINVAL: breaks a rule of access control lists, or is none.
    #[error("not a possible access control list: {0}")]
    InvalidAcl(AclFault),
    /// ENAMETOOLONG.
    #[error("target of a symbolic link is longer than 1023 bytes")]
    TargetTooLong,
    /// EINVAL: a range of no length, unaligned where it must be aligned, behind the end, or over itself.
    #[error("not a possible range of a file")]
    InvalidRange,
    /// ENXIO: no data there, or an offset behind the end.
    #[error("no such offset in the file")]
    NoSuchOffset,
    /// EOPNOTSUPP: made without reference counts.
    #[error("files of this file system cannot share blocks")]
    CannotShare,
    /// EOPNOTSUPP: made without the feature.
    #[error("files of this file system cannot exchange contents")]
    CannotExchange,
    /// The log holds changes that have not been replayed.
    #[error(
        "the log is dirty: {records} records from {tail} to {head} hold changes that are not in place yet; \
         `uxfs replay` puts them there; or read on without them (--ignore-log)"
    )]
    DirtyLog {
        /// Records to be replayed.
        records: u32,
        /// Where they begin.
        tail: Lsn,
        /// Where they end.
        head: Lsn,
    },
}

/// Result of an operation on a file system.
pub type Result<T> = std::result::Result<T, Error>;

//! The numbers by which Linux tells of errors.

use uxfs_format::features::Unsupported;

use crate::error::{Error, OperationError};

impl Error {
    /// The number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Operation(error) => error.errno(),
            Self::Io(_) => 5,
            // EUCLEAN, which XFS calls EFSCORRUPTED.
            Self::Corrupt(_) => 117,
            Self::Unsupported(
                Unsupported::UnknownIncompatible { .. }
                | Unsupported::UnknownRoCompatible { .. }
                | Unsupported::UnknownLogIncompatible { .. },
            ) => 22,
            Self::Unsupported(_) => 95,
            _ => 5,
        }
    }
}

impl OperationError {
    /// The number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::NotFound => 2,
            Self::ValueTooLong => 7,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::CrossesProjects => 18,
            Self::NotADirectory => 20,
            Self::IsADirectory => 21,
            Self::FileTooLarge => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::NameTooLong | Self::TargetTooLong => 36,
            Self::NotEmpty => 39,
            Self::TooManySymlinks => 40,
            Self::NoSuchAttribute => 61,
            Self::TooManyAttributes => 7,
            Self::UnknownNamespace | Self::NoParentPointers => 95,
            Self::Stale | Self::NoSuchInode => 116,
            Self::DirtyLog { .. } => 117,
            _ => 22,
        }
    }
}

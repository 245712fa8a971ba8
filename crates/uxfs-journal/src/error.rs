//! Errors of reading and writing a log.

use std::{fmt::Display, sync::Arc};

use uxfs_block::device::DeviceError;
use uxfs_format::{fault::Corruption, features::Unsupported};
use uxfs_volume::{
    cause::Cause,
    error::{Error, OperationError},
};

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The device failed.
    #[error(transparent)]
    Io(#[from] DeviceError),
    /// The log is damaged. Boxed: the rare case must not widen every result.
    #[error(transparent)]
    Corrupt(Box<Corruption>),
    /// The log is of a kind that uxfs does not support.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A checkpoint is larger than what the log has left: reservations are to prevent that.
    #[error("the log is full: {needed_blocks} blocks are needed, {room_blocks} are left before its tail")]
    LogFull {
        /// To be written.
        needed_blocks: u64,
        /// Between head and tail.
        room_blocks: u64,
    },
    /// A write failed before, or a change was left halfway: nothing can be changed any more.
    #[error("the file system has been shut down: {cause}")]
    ShutDown {
        /// The first thing that went wrong.
        cause: Arc<str>,
        /// It was damage in the image.
        is_corruption: bool,
    },
}

/// An error that shuts the journal down.
pub trait ShutdownCause: Display {
    /// Whether it is damage in the image.
    fn is_corruption(&self) -> bool {
        false
    }
}

impl ShutdownCause for &str {}

impl ShutdownCause for DeviceError {}

impl ShutdownCause for OperationError {}

impl ShutdownCause for Cause {
    fn is_corruption(&self) -> bool {
        self.is_corruption
    }
}

impl ShutdownCause for JournalError {
    fn is_corruption(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::ShutDown { is_corruption: true, .. })
    }
}

impl ShutdownCause for Error {
    fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt(_) => true,
            Self::Journal(error) => {
                error.downcast_ref::<JournalError>().is_some_and(ShutdownCause::is_corruption)
            }
            _ => false,
        }
    }
}

impl From<Corruption> for JournalError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

/// Result of reading a log.
pub type Result<T> = std::result::Result<T, JournalError>;

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        uxfs_volume::cause::note(&error, error.is_corruption());
        match error {
            JournalError::Io(error) => Self::Io(error),
            JournalError::Corrupt(corruption) => Self::Corrupt(corruption),
            JournalError::Unsupported(unsupported) => Self::Unsupported(unsupported),
            error @ (JournalError::LogFull { .. } | JournalError::ShutDown { .. }) => {
                Self::Journal(Box::new(error))
            }
        }
    }
}

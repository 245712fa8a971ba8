//! Errors of reading and writing a log.

use std::sync::Arc;

use thiserror::Error;
use uxfs_block::device::DeviceError;
use uxfs_format::{fault::Corruption, features::Unsupported};

/// Why a log cannot be read.
#[derive(Debug, Error)]
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
    },
}

impl From<Corruption> for JournalError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

/// Result of reading a log.
pub type Result<T> = std::result::Result<T, JournalError>;

impl From<JournalError> for uxfs_volume::error::Error {
    fn from(error: JournalError) -> Self {
        uxfs_volume::cause::note(&error);
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

//! What reading a log can fail with.

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
}

impl From<Corruption> for JournalError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

/// Result of reading a log.
pub type Result<T> = std::result::Result<T, JournalError>;

//! Errors of a benchmark.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

/// Why a benchmark did not come to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// Which.
        call: &'static str,
        /// With what.
        errno: Errno,
    },
    /// A file system in process failed.
    #[error(transparent)]
    FileSystem(#[from] uxfs_volume::error::Error),
    /// The options make no sense together.
    #[error("{0}")]
    Options(String),
    /// A thread of the benchmark panicked.
    #[error("a thread of the benchmark panicked")]
    Thread,
    /// A thread could not be started.
    #[error("a thread of the benchmark could not be started: {0}")]
    NoThread(io::Error),
}

/// Result of a benchmark.
pub type Result<T> = std::result::Result<T, BenchError>;

impl BenchError {
    /// Whether the file system is full.
    pub fn is_no_space(&self) -> bool {
        use uxfs_volume::error::{Error, OperationError::NoSpace};
        match self {
            Self::System { errno, .. } => *errno == Errno::NOSPC,
            Self::FileSystem(Error::Operation(error)) => *error == NoSpace,
            _ => false,
        }
    }
}

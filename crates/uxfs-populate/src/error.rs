//! Why filling a file system failed.

use std::io;

use thiserror::Error;
use uxfs_block::device::DeviceError;
use uxfs_source::error::{Shown, SourceError};

/// Why a file system could not be filled. The image is then unfinished.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PopulateError {
    /// The source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The image, with the file that was being made.
    #[error("{path}: {error}")]
    At {
        /// Below the root of the source.
        path: Shown,
        /// The error.
        error: uxfs_volume::error::Error,
    },
    /// The image as a whole.
    #[error(transparent)]
    Image(#[from] uxfs_volume::error::Error),
    /// The device below the image.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Threads that copy could not be started or have died.
    #[error("cannot copy file contents: {0}")]
    Threads(io::Error),
    /// A source that ended before it delivered what it announced.
    #[error("the source did not deliver the contents of {0} files")]
    MissingContents(u64),
    /// A file that XFS cannot hold.
    #[error("{path}: {problem}")]
    Impossible {
        /// Below the root of the source.
        path: Shown,
        /// Why.
        problem: Impossible,
    },
}

/// Objects that a source may hold and XFS cannot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Impossible {
    /// A name of more than 255 bytes, or with a slash or zero byte.
    #[error("not a valid name")]
    Name,
    /// A target of more than 1023 bytes, or an empty one.
    #[error("the target of a symbolic link has {0} bytes, not 1 to 1023")]
    Target(usize),
    /// A device number beyond 14 bits of major and 18 of minor.
    #[error("device {major}:{minor} does not fit XFS's 14 and 18 bits")]
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A size beyond 2^63-1.
    #[error("{0} bytes are more than a file can have")]
    Size(u64),
    /// An attribute with a name or value that is too long, or of an unknown kind.
    #[error("attribute {name}: {problem}")]
    Attribute {
        /// Its full name.
        name: Shown,
        /// Why.
        problem: &'static str,
    },
    /// Another name for something that is not there, or for a directory.
    #[error("hard link to {0}, which does not exist or is a directory")]
    Link(Shown),
}

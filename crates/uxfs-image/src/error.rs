//! Why an image cannot be read.

use std::{io, path::PathBuf};

use thiserror::Error;
use uxfs_block::{device::DeviceError, words::in_words};

use crate::form::Form;

/// Why an image cannot be read.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What is compressed in it cannot be had.
    #[error("{}, and cannot be unpacked: {}", .form.name(), in_words(.source))]
    Unpack {
        /// Its form.
        form: Form,
        /// Why not.
        source: io::Error,
    },
    /// It does not fit where it is unpacked.
    #[error("not enough space to unpack it in {}", .0.display())]
    NoRoom(PathBuf),
    /// No file can be made where it is unpacked.
    #[error("cannot unpack it in {}: {}", .directory.display(), in_words(.source))]
    NoDirectory {
        /// Where.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its own structures contradict themselves.
    #[error("a qcow2 disk that is damaged: {0}")]
    Damaged(String),
    /// It has something that is not read here.
    #[error("{what}")]
    Unsupported {
        /// What it is.
        what: String,
        /// What can be done.
        remedy: &'static str,
    },
}

/// How an image is packed so that it need not be unpacked.
const ROOM: &str = "set TMPDIR to a directory with more room, or pack it so that parts of it can be read alone: \
                    xz -T0 --block-size=4MiB, pzstd or bgzip";

impl ImageError {
    /// What can be done, where something can.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Device(_) | Self::Unpack { .. } => None,
            Self::NoRoom(_) => Some(ROOM),
            Self::NoDirectory { .. } => Some("set TMPDIR to another directory"),
            Self::Damaged(_) => {
                Some("qemu-img check tells more; what QEMU reads of it: qemu-img convert -O raw")
            }
            Self::Unsupported { remedy, .. } => Some(remedy),
        }
    }
}

/// With an [`ImageError`].
pub type Result<T> = std::result::Result<T, ImageError>;

//! Why a repair cannot be carried over or taken back.

use std::{io, path::PathBuf};

use thiserror::Error;
use uxfs_block::{device::DeviceError, engine::hole_filler::Shortage};

/// What a file of old and new bytes is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// To take a repair back.
    Undo,
    /// To see a repair, or to carry it out.
    Plan,
}

impl FileKind {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo file",
            Self::Plan => "plan",
        }
    }
}

/// Why a repair cannot be carried over or taken back. Only [`Device`](Self::Device) and [`File`](Self::File) can come after the
/// first write; of [`prepare`](super::prepare) all errors come before it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The host does not let the file be made or read.
    #[error("cannot {action} the {} {}: {source}", kind.name(), path.display())]
    File {
        /// What it is for.
        kind: FileKind,
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The host has no room for the file.
    #[error(
        "the {} {} takes {needed_bytes} bytes, and there is room for {free_bytes}",
        kind.name(),
        path.display()
    )]
    NoRoom {
        /// What it is for.
        kind: FileKind,
        /// The file.
        path: PathBuf,
        /// Bytes that it takes.
        needed_bytes: u64,
        /// Bytes that its file system has free, or that the process may write to a file.
        free_bytes: u64,
    },
    /// The host has no room for what would be written into holes of the image file.
    #[error(transparent)]
    ImageRoom(#[from] Shortage),
    /// It would take the place of another.
    #[error("the undo file {} exists: it may be the only way back to an earlier state", .0.display())]
    Exists(PathBuf),
    /// The image is a block device.
    #[error("a block device needs an undo file by name: /dev does not outlive the machine")]
    NoDefaultPath,
    /// It is damaged, incomplete, or another kind of file.
    #[error("the {} {} cannot be used: {fault}", kind.name(), path.display())]
    Unusable {
        /// What it is for.
        kind: FileKind,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// There is nothing to be marked.
    #[error("neither the old nor the new contents begin with a sound superblock")]
    NoSuperblock,
    /// Two devices that must have one size.
    #[error("the file system had {expected_bytes} bytes of the image, now there are {found_bytes}")]
    OtherSize {
        /// Bytes of the device for which the changes were made.
        expected_bytes: u64,
        /// Bytes of this one.
        found_bytes: u64,
    },
    /// The device holds neither the old nor the new bytes.
    #[error(
        "the image was changed since: at byte {offset_bytes} of the file system are neither the old nor the new contents"
    )]
    Foreign {
        /// The first such sector.
        offset_bytes: u64,
    },
}

/// What is wrong with an undo file or a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FileFault {
    /// Shorter than a header.
    #[error("{length_bytes} bytes are less than its header")]
    Truncated {
        /// Bytes of the file.
        length_bytes: u64,
    },
    /// Another kind of file.
    #[error("it is no {} of uxfs", .0.name())]
    Magic(FileKind),
    /// Made by a later uxfs.
    #[error("its format has version {0}, which is not known")]
    Version(u32),
    /// The header is damaged.
    #[error("checksum of the header: stored {stored:#010x}, computed {computed:#010x}")]
    HeaderChecksum {
        /// In the file.
        stored: u32,
        /// Of the file.
        computed: u32,
    },
    /// Too short or too long.
    #[error("it has {found_bytes} bytes, and says {stored_bytes}")]
    Length {
        /// In the header.
        stored_bytes: u64,
        /// Of the file.
        found_bytes: u64,
    },
    /// The contents are damaged.
    #[error("checksum of the contents: stored {stored:#010x}, computed {computed:#010x}")]
    ContentsChecksum {
        /// In the header.
        stored: u32,
        /// Of the file.
        computed: u32,
    },
    /// A record is damaged.
    #[error(
        "checksum of the record at byte {position_bytes}: stored {stored:#010x}, computed {computed:#010x}"
    )]
    RecordChecksum {
        /// Where in the file.
        position_bytes: u64,
        /// In the record.
        stored: u32,
        /// Of the record.
        computed: u32,
    },
    /// A record lies before the one in front of it, outside the device or outside the file, or has an impossible length.
    #[error(
        "the record at byte {position_bytes} is for {length_bytes} bytes at byte {offset_bytes}, which cannot be"
    )]
    Record {
        /// Where in the file.
        position_bytes: u64,
        /// Where on the device.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u32,
    },
    /// The header counts other contents than there are.
    #[error("its header counts {stored} {what}, its contents have {found}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// In the header.
        stored: u64,
        /// In the contents.
        found: u64,
    },
}

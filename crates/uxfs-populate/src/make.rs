//! Making and filling a file system in one go.
//!
//! The superblock says that the image is unfinished from the first write to the last: whatever goes wrong in between leaves
//! nothing that looks complete.

use std::{io, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{Clock, Generations, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_mkfs::{
    empty::{self, FormatError},
    identity::{Identity, Numbers},
    layout::{Layout, LayoutError},
};
use uxfs_source::error::SourceError;

use crate::{
    Options,
    adjust::Adjustments,
    contents::Contents,
    error::PopulateError,
    report::{Progress, Report},
};

/// How a file system is made and filled.
pub struct Making<'a> {
    /// Its sizes.
    pub layout: &'a Layout,
    /// Uuid, time and numbers.
    pub identity: &'a Identity,
    /// Changes of the source's metadata.
    pub adjustments: &'a mut Adjustments,
    /// How it is filled.
    pub options: Options,
    /// Memory for metadata.
    pub cache_bytes: Option<u64>,
}

/// Why a file system could not be made and filled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// These options make no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The empty file system could not be made.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It could not be mounted or closed.
    #[error(transparent)]
    Image(#[from] uxfs_volume::error::Error),
    /// It could not be filled.
    #[error(transparent)]
    Populate(#[from] PopulateError),
    /// A source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The scratch file that shows how large the image must be.
    #[error("cannot create a scratch file of {size_bytes} bytes beside the image: {error}")]
    Scratch {
        /// Its size.
        size_bytes: u64,
        /// Why not.
        error: io::Error,
    },
    /// More than 8 TiB.
    #[error("the contents do not fit into 8 TiB: give a --size")]
    TooLarge,
    /// The sizes that were tried were all too small.
    #[error("found no size that holds the contents: give a --size")]
    NoSize,
}

impl MakeError {
    /// Whether the image is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Populate(error) if crate::fit::is_full(error))
    }
}

/// Makes the file system on `device` and fills it.
///
/// # Errors
/// The image is then unfinished, and says so.
pub fn make(
    device: &Arc<dyn BlockDevice>,
    contents: &mut Contents,
    making: Making<'_>,
    progress: &Progress,
) -> Result<Report, MakeError> {
    let Making { layout, identity, adjustments, options, cache_bytes } = making;
    // Closing the file system is what finishes it.
    let _unfinished = empty::begin(&**device, layout, identity)?;
    let file_system = FileSystem::mount_bulk(Arc::clone(device), &mount_options(identity, cache_bytes))?;
    let report = contents.fill(&file_system, adjustments, &options, progress)?;
    file_system.close()?;
    Ok(report)
}

/// How a new image is mounted while it is filled.
pub fn mount_options(identity: &Identity, cache_bytes: Option<u64>) -> MountOptions {
    MountOptions {
        cache_budget_bytes: cache_bytes,
        generations: match identity.numbers {
            Numbers::Fixed(number) => Generations::Fixed(number),
            Numbers::Random => Generations::Random,
        },
        clock: Clock::Fixed(identity.now),
        is_unfinished: true,
        ..MountOptions::default()
    }
}

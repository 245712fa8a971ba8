//! The effect of an item on paths, the same whether paths are kept in memory or in temporary files.

use super::plan::{DIRECTORY, LATER};
use crate::{
    content::Content,
    entry::Kind,
    error::{LayerFault, Shown, SourceError},
    stream::StreamItem,
};

/// Effect of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect<'a> {
    /// A whiteout: the path and all below it are gone from the layers below.
    Cut(&'a [u8]),
    /// All below the path is gone from the layers below.
    CutBelow(&'a [u8]),
    /// The path is a file or directory, with these flags of its record.
    Named(&'a [u8], u64),
    /// The path is another name of the file at the target.
    Linked { path: &'a [u8], target: &'a [u8] },
}

impl<'a> Effect<'a> {
    /// # Errors
    /// The root is no directory.
    pub(super) fn of(item: &'a StreamItem) -> Result<Self, SourceError> {
        let entry = match item {
            StreamItem::Whiteout(path) => return Ok(Self::Cut(path)),
            StreamItem::Opaque(path) => return Ok(Self::CutBelow(path)),
            StreamItem::Entry(entry) => entry,
        };
        let path = &*entry.path;
        if path.is_empty() && !matches!(entry.kind, Kind::Directory(_)) {
            return Err(SourceError::Layer { path: Shown::from(path), fault: LayerFault::NoDirectoryAbove });
        }
        Ok(match &entry.kind {
            Kind::HardLink { target } => Self::Linked { path, target },
            Kind::Directory(_) => Self::Named(path, DIRECTORY),
            Kind::Regular { content: Content::Stream(_), .. } => Self::Named(path, LATER),
            _ => Self::Named(path, 0),
        })
    }
}

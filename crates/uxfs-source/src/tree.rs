//! Sources that are asked directory by directory.

use crate::{
    content::Content,
    entry::{DirectoryId, Entry, Metadata},
    error::{Problem, SourceError},
};

/// Entries of one directory.
#[derive(Debug)]
pub struct Batch {
    /// Whose.
    pub directory: DirectoryId,
    /// Path of that directory below the root, without slashes at its ends; empty for the root.
    pub path: Box<[u8]>,
    /// Whether the directory has no more.
    pub is_last: bool,
    /// In byte order of names, over all batches of the directory.
    pub entries: Vec<Entry>,
}

/// Content that comes after all files have been told.
#[derive(Debug)]
pub struct LaterContent {
    /// Of which file: the token of its [`Content::Later`].
    pub token: u32,
    /// The content: in memory, or a stream.
    pub content: Content,
}

/// The parts of a tree to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Small files come with their content, and every file is opened once to see whether it can be.
    #[default]
    Everything,
    /// As [`Metadata`](Self::Metadata), but every file is opened once to see whether it can be.
    Checked,
    /// Names, sizes and metadata only: every content is a handle that has not been opened. For a pass that measures.
    Metadata,
}

/// A tree in a fixed order: all entries of a directory, then, in order of their names, its subdirectories in the same
/// way. The order and the batches depend on the tree alone, on no thread and on no order in which a host lists names.
pub trait TreeSource: Send {
    /// The attributes of the root directory, where the source says anything of it.
    fn root(&self) -> Option<&Metadata>;

    /// The next entries, or `None` at the end. The first batch is the root's.
    ///
    /// # Errors
    /// The parts that could not be read, also at the end: see [`SourceError::Unreadable`]. After an error there is nothing more.
    fn next_batch(&mut self) -> Result<Option<Batch>, SourceError>;

    /// Content that was told as [`Content::Later`], one file after the other in an order of the source's own: once, after
    /// the last batch. Content of the last one that was not read is passed over.
    ///
    /// # Errors
    /// Damage and I/O, or the source is no longer what it was.
    fn next_content(&mut self) -> Result<Option<LaterContent>, SourceError> {
        Ok(None)
    }

    /// Reads on in the data of the last content, if that is a [`Content::Stream`]: the bytes of its ranges one after the
    /// other, without the holes. 0 at the end.
    ///
    /// # Errors
    /// Damage and I/O.
    fn read_data(&mut self, _buffer: &mut [u8]) -> Result<usize, SourceError> {
        Ok(0)
    }

    /// Begins again from the root.
    ///
    /// # Errors
    /// The root can no longer be read.
    fn restart(&mut self, reading: Reading) -> Result<(), SourceError>;

    /// Takes the problems since the last call, without which the source went on.
    fn take_problems(&mut self) -> Vec<Problem>;

    /// How many problems there were beside those that the source has kept.
    fn problems_left_out(&self) -> u64 {
        0
    }
}

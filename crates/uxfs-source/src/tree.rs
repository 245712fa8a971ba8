//! Sources that are asked directory by directory.

use crate::{
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

/// What to read of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// Small files come with their content, and every file is opened once to see whether it can be.
    #[default]
    Everything,
    /// Names, sizes and metadata only: every content is a handle that has not been opened. For a pass that measures.
    Metadata,
}

/// A tree in a fixed order: all entries of a directory, then, in order of their names, its subdirectories in the same
/// way. The order and the batches depend on the tree alone, on no thread and on no order in which a host lists names.
pub trait TreeSource: Send {
    /// The attributes of the root directory.
    fn root(&self) -> &Metadata;

    /// The next entries, or `None` at the end. The first batch is the root's.
    ///
    /// # Errors
    /// What could not be read, also at the end: see [`SourceError::Unreadable`]. After an error there is nothing more.
    fn next_batch(&mut self) -> Result<Option<Batch>, SourceError>;

    /// Begins again from the root.
    ///
    /// # Errors
    /// The root can no longer be read.
    fn restart(&mut self, reading: Reading) -> Result<(), SourceError>;

    /// What was found since the last call that the source went on without.
    fn take_problems(&mut self) -> Vec<Problem>;
}

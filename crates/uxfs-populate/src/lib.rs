//! **Internal: it changes without notice. Programs use the crate `uxfs`.**
//!
//! Filling a file system that is mounted in bulk mode from a tree of files.
//!
//! ```text
//! source threads ──batches──▶ one deciding thread ──jobs──▶ copying threads ──▶ device
//!  list, examine, read small      inodes, names, extents       contents
//! ```
//!
//! One thread makes every decision, in the order of the source, so that the image depends on nothing else: not on how
//! many threads there are, nor on how fast they are.
//!
//! | module | holds |
//! |---|---|
//! | [`tree`] | from a source that is read directory by directory |
//! | [`stream`] | from one that is read once, file by file: a pipe, a prototype file, layers with a pipe among them |
//! | [`contents`] | sources of any kind, opened |
//! | [`make`] | making and filling in one go |
//! | [`fit`] | how large an image must be |
//! | [`entry`] | one file |
//! | [`adjust`] | changes of the source's metadata |
//! | [`data`] | contents on their way into the image |
//! | [`links`] | files with several names |
//! | [`report`] | what has been made |
//! | [`error`] | why it failed |
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use uxfs_block::cache::pressure::default_budget_bytes;

pub mod adjust;
pub mod contents;
pub mod data;
pub mod entry;
pub mod error;
pub mod fit;
pub mod links;
pub mod make;
pub mod report;
pub mod stream;
pub mod tree;

/// How a file system is filled. When: at the file system's own time ([`Engine::now`]).
///
/// [`Engine::now`]: uxfs_engine::engine::Engine::now
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads that write contents, at least one.
    pub threads: usize,
    /// Whether contents are written; otherwise they are only given room, which shows how much is needed.
    pub writes_contents: bool,
    /// Whether access times come from the source; otherwise they are when the image is made, as for any new file.
    pub keeps_access_times: bool,
    /// Of streams: whether a directory does not replace a symbolic link that leads to a directory.
    pub keeps_directory_symlinks: bool,
    /// Memory, about, for inodes whose other names, entries or contents come later. The rest goes to temporary files.
    pub memory_bytes: u64,
}

/// [`Options::memory_bytes`] is one part in this many of the memory for cached metadata.
pub const MEMORY_SHARE: u64 = 4;

impl Options {
    /// The memory of one of the maps that share it.
    pub(crate) fn map_bytes(&self) -> usize {
        usize::try_from(self.memory_bytes / 3).unwrap_or(usize::MAX)
    }
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let memory_bytes = default_budget_bytes() / MEMORY_SHARE;
        Self {
            threads,
            writes_contents: true,
            keeps_access_times: false,
            keeps_directory_symlinks: false,
            memory_bytes,
        }
    }
}

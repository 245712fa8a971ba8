//! Work that the scout gives to a worker.

use std::{ops::Range, sync::Arc};

use uxfs_volume::inode::Inode;

use crate::layout::{FileLayout, FileRange};

/// Consecutive tasks, with the paths that they name.
#[derive(Debug, Default)]
pub struct Batch {
    paths: Vec<u8>,
    /// The tasks in tree order.
    pub tasks: Vec<Task>,
}

/// One task.
#[derive(Debug)]
pub struct Task {
    /// Where in the batch's paths the path lies.
    pub path: Range<usize>,
    /// The work.
    pub work: Work,
}

/// A piece of work.
#[derive(Debug)]
pub enum Work {
    /// Anything but the others: directory, small file, symbolic link, special file, with all that it has.
    Entry(Arc<Inode>),
    /// A further name; the path of the first.
    HardLink(Arc<Inode>, Range<usize>),
    /// Head of a large file.
    BeginFile(Arc<Inode>, Arc<FileLayout>),
    /// A piece of the large file begun last.
    Data(Arc<Inode>, FileRange),
    /// End of the large file, with its bytes of data.
    EndFile(u64),
    /// End of the directory begun last and not ended.
    EndDirectory,
}

impl Batch {
    /// Keeps a path for a task.
    pub fn add_path(&mut self, path: &[u8]) -> Range<usize> {
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        start..self.paths.len()
    }

    /// A path kept.
    pub fn path(&self, range: &Range<usize>) -> &[u8] {
        self.paths.get(range.clone()).unwrap_or_default()
    }

    /// Empties it for the next use.
    pub fn clear(&mut self) {
        self.paths.clear();
        self.tasks.clear();
    }
}

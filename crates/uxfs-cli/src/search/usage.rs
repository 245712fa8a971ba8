//! How much space trees take, as du counts it: a file with several names counts once, where the walk meets it first.

use uxfs_volume::{
    error::Error,
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use super::{
    expression::action::sectors_of,
    walk::{Step, Walk},
};
use crate::failure::{Complaints, Failure};

/// Space and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Blocks of contents, attributes and btrees, in bytes.
    pub disk_bytes: u64,
    /// Lengths of files.
    pub apparent_bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Usage {
    /// Adds another. Sizes of a damaged image may be beyond counting.
    pub fn add(&mut self, other: Self) {
        self.disk_bytes = self.disk_bytes.saturating_add(other.disk_bytes);
        self.apparent_bytes = self.apparent_bytes.saturating_add(other.apparent_bytes);
        self.inodes = self.inodes.saturating_add(other.inodes);
    }
}

/// A file or directory whose usage is known.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Levels below the start.
    pub depth: usize,
    /// Its type.
    pub file_type: Option<FileType>,
    /// Of a directory, with what it holds.
    pub usage: Usage,
}

/// How to count.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountOptions {
    /// Every name of a file counts.
    pub counts_links: bool,
    /// Directories are told without their subdirectories.
    pub separates_directories: bool,
    /// A file with one name can come a second time, because there are several starts.
    pub remembers_all: bool,
}

/// Counts tree by tree.
#[derive(Debug)]
pub struct Counter<'v> {
    walk: Walk<'v>,
    options: CountOptions,
    /// Files that have been counted and may come again.
    seen: InodeSet,
    levels: Vec<Level>,
    /// All trees so far.
    pub total: Usage,
}

/// A directory that is being counted.
#[derive(Debug, Default)]
struct Level {
    /// Itself, and the files in it.
    own: Usage,
    subdirectories: Usage,
}

impl<'v> Counter<'v> {
    /// A counter that has seen nothing.
    pub fn new(volume: &'v Volume, options: CountOptions) -> Self {
        let (seen, levels) = (InodeSet::default(), Vec::new());
        Self { walk: Walk::new(volume), options, seen, levels, total: Usage::default() }
    }

    /// Counts a tree. `tell` gets every file, and every directory behind what it holds.
    ///
    /// # Errors
    /// Those of `tell`.
    pub fn tree(
        &mut self,
        path: &[u8],
        start: std::sync::Arc<Inode>,
        complaints: &mut Complaints,
        tell: &mut dyn FnMut(Counted<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.walk.begin(path, start);
        while let Some(step) = self.walk.next(|_| true, complaints) {
            match step {
                Step::File => self.file(complaints, tell)?,
                Step::Left => self.leave(tell)?,
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        complaints: &mut Complaints,
        tell: &mut dyn FnMut(Counted<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(subject) = self.walk.subject() else { return Ok(()) };
        let inode = match subject.inode() {
            Ok(inode) => std::sync::Arc::clone(inode),
            Err(error) => {
                complain(complaints, subject.path, &error);
                return Ok(());
            }
        };
        let is_directory = inode.file_type() == Some(FileType::Directory);
        // Reached a second time within one tree, a directory of a damaged image: going into it complains.
        let is_loop = is_directory && self.walk.has_entered(inode.number);
        let may_come_again = is_directory || self.options.remembers_all || inode.link_count() > 1;
        if !is_loop && !self.options.counts_links && may_come_again && !self.seen.insert(inode.number) {
            return Ok(());
        }
        let usage = Usage {
            disk_bytes: sectors_of(&subject, &inode).saturating_mul(512),
            apparent_bytes: inode.size_bytes(),
            inodes: 1,
        };
        drop(subject);
        if is_directory && (self.walk.descend(std::sync::Arc::clone(&inode), complaints) || is_loop) {
            if !is_loop {
                self.levels.push(Level { own: usage, subdirectories: Usage::default() });
            }
            return Ok(());
        }
        match self.levels.last_mut() {
            Some(level) => level.own.add(usage),
            None => self.total.add(usage),
        }
        let Some(subject) = self.walk.subject() else { return Ok(()) };
        let file_type = inode.file_type();
        tell(Counted { path: subject.path, depth: subject.depth, file_type, usage })
    }

    fn leave(&mut self, tell: &mut dyn FnMut(Counted<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let Level { own, subdirectories } = self.levels.pop().unwrap_or_default();
        let mut all = own;
        all.add(subdirectories);
        match self.levels.last_mut() {
            Some(above) => above.subdirectories.add(all),
            None => self.total.add(all),
        }
        let Some(subject) = self.walk.subject() else { return Ok(()) };
        let usage = if self.options.separates_directories { own } else { all };
        let file_type = Some(FileType::Directory);
        tell(Counted { path: subject.path, depth: subject.depth, file_type, usage })
    }
}

fn complain(complaints: &mut Complaints, path: &[u8], error: &Error) {
    complaints.add_path(path, error);
}

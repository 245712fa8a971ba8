//! Each file of a tree, without recursion: an image can be as deep as it is large. Symbolic links are not followed.
//!
//! A directory that is reached a second time ends the way there with a complaint: on a damaged image it could hold itself, or be reached in
//! millions of ways. So memory is that of the levels of one path, each with a window of entries, and a bit for each directory.

use std::{cell::OnceCell, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    inode::{FileType, Inode, set::InodeSet},
    volume::Volume,
};

use super::{
    entries::{Entries, EntryFields},
    subject::{Subject, last_name},
};
use crate::{
    failure::{Complaints, Failure},
    kind::Kind,
    listing::PATH_BYTES_MAX,
    text,
};

/// The next thing that a walk comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A file, before anything in it.
    File,
    /// A directory that was descended into, behind all that it holds.
    Left,
}

/// An entry that the walk will come to.
#[derive(Debug, Clone, Copy)]
pub struct Coming<'a> {
    /// Path of its directory.
    pub directory: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// The type that the entry says.
    pub file_type: Option<FileType>,
    /// Levels below the start.
    pub depth: usize,
}

/// A walk through trees, one after the other.
#[derive(Debug)]
pub struct Walk<'v> {
    volume: &'v Volume,
    levels: Vec<Level>,
    path: Vec<u8>,
    start_length: usize,
    /// The start that has not been given out yet.
    start: Option<Arc<Inode>>,
    current: Option<Current>,
    visited: InodeSet,
}

#[derive(Debug)]
struct Level {
    entries: Entries,
    path_length: usize,
}

/// The file that the last step gave.
#[derive(Debug)]
struct Current {
    fields: EntryFields,
    inode: Option<Arc<Inode>>,
    depth: usize,
    /// The entry is one of the last level.
    has_parent: bool,
}

impl<'v> Walk<'v> {
    /// A walk that has no start yet.
    pub fn new(volume: &'v Volume) -> Self {
        Self {
            volume,
            levels: Vec::new(),
            path: Vec::new(),
            start_length: 0,
            start: None,
            current: None,
            visited: InodeSet::default(),
        }
    }

    /// Begins with the next tree.
    pub fn begin(&mut self, path: &[u8], inode: Arc<Inode>) {
        self.levels.clear();
        self.visited.clear();
        self.path.clear();
        self.path.extend_from_slice(path);
        self.start_length = path.len();
        self.start = Some(inode);
    }

    /// Goes on; `None` where the tree ends. `ahead` says which entries will have their inodes asked for.
    pub fn next(
        &mut self,
        mut ahead: impl FnMut(Coming<'_>) -> bool,
        complaints: &mut Complaints,
    ) -> Option<Step> {
        if let Some(inode) = self.start.take() {
            let fields = EntryFields { inode: inode.number, file_type: inode.file_type() };
            self.current = Some(Current { fields, inode: Some(inode), depth: 0, has_parent: false });
            return Some(Step::File);
        }
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            self.path.truncate(level.path_length);
            let directory = &self.path;
            let mut wanted = |name: &[u8], EntryFields { file_type, .. }: EntryFields| {
                ahead(Coming { directory, name, file_type, depth })
            };
            match level.entries.next(self.volume, &mut wanted) {
                Ok(Some((name, fields))) => {
                    push_name(&mut self.path, name);
                    self.current = Some(Current { fields, inode: None, depth, has_parent: true });
                    return Some(Step::File);
                }
                Ok(None) => {
                    let inode = Arc::clone(level.entries.directory());
                    self.levels.pop();
                    let fields = EntryFields { inode: inode.number, file_type: Some(FileType::Directory) };
                    let depth = depth.saturating_sub(1);
                    self.current = Some(Current { fields, inode: Some(inode), depth, has_parent: false });
                    return Some(Step::Left);
                }
                Err(error) => complaints.add_path(&self.path, &error),
            }
        }
    }

    /// The file of the last step.
    pub fn subject(&self) -> Option<Subject<'_>> {
        let current = self.current.as_ref()?;
        let inode = OnceCell::new();
        if let Some(read) = &current.inode {
            let _ = inode.set(Arc::clone(read));
        }
        let parent = current.has_parent.then(|| self.levels.last()).flatten();
        Some(Subject {
            volume: self.volume,
            path: &self.path,
            start_length: self.start_length,
            depth: current.depth,
            number: current.fields.inode,
            parent: parent.map(|level| level.entries.directory().as_ref()),
            entry_type: current.fields.file_type,
            inode,
        })
    }

    /// Whether the walk has gone into this directory since it began.
    pub fn has_entered(&self, directory: InodeNumber) -> bool {
        self.visited.contains(directory)
    }

    /// Goes into the file of the last step, if it is a directory: its entries come next, and then the directory again. Says whether it does.
    pub fn descend(&mut self, inode: Arc<Inode>, complaints: &mut Complaints) -> bool {
        if inode.file_type() != Some(FileType::Directory) {
            return false;
        }
        let shown = || text::escaped(self.path.get(..self.path.len().min(256)).unwrap_or_default());
        if self.path.len() > PATH_BYTES_MAX {
            let failure = Failure::refused(Kind::NameTooLong, "path too long: not descending");
            complaints.tell(&failure.counted_as("path too long").at_path(&self.path).about(shown()));
            return false;
        }
        if !self.visited.insert(inode.number) {
            let failure = in_two_places(inode.number);
            complaints.tell(&failure.at_path(&self.path).about(shown()));
            return false;
        }
        match Entries::begin(self.volume, inode, self.levels.len()) {
            Ok(entries) => {
                self.levels.push(Level { entries, path_length: self.path.len() });
                true
            }
            Err(error) => {
                complaints.tell(&Failure::from(&error).at_path(&self.path).about(shown()));
                false
            }
        }
    }
}

/// Adds a name to a path.
pub fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

impl Coming<'_> {
    /// Puts its path together.
    pub fn path_into(&self, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(self.directory);
        push_name(path, self.name);
    }

    /// The name that tests compare.
    pub fn last_name(&self) -> &[u8] {
        last_name(self.name)
    }
}

/// Why a walk does not go into a directory that it has seen before.
pub fn in_two_places(directory: InodeNumber) -> Failure {
    let message = format!("directory inode {directory} was reached a second time");
    Failure::corruption(message).counted_as("directory in two places")
}

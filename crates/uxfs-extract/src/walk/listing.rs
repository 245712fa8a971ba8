//! The entries of one directory, some ahead of the walk, so that their inodes can be read together.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use uxfs_format::units::{FileBlock, InodeNumber};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    directory::read::DirectoryWalk,
    error::{Error, Result},
    inode::Inode,
};

/// Entries that are looked at together.
const WINDOW_ENTRIES: usize = 256;

/// Where the entry for the directory above lies, behind that for the directory itself.
const DOT_DOT_COOKIE: u64 = 10;

/// Where the listing of a directory stands.
pub struct Listing<'a> {
    filesystem: &'a Volume,
    inode: Arc<Inode>,
    /// How far it has been read; `None` at the end.
    walk: Option<DirectoryWalk>,
    /// Damage met behind the entries at hand.
    error: Option<Error>,
    /// Where reading went on after damage; never back.
    resumed_at: Option<FileBlock>,
    names: Vec<u8>,
    entries: VecDeque<(InodeNumber, Range<usize>)>,
}

impl<'a> Listing<'a> {
    /// A listing that has not begun.
    pub fn new(filesystem: &'a Volume, inode: Arc<Inode>) -> Self {
        let (walk, error) = match DirectoryWalk::begin(filesystem, &inode, 0) {
            Ok(walk) => (Some(walk), None),
            Err(error) => (None, Some(error)),
        };
        let (names, entries) = (Vec::new(), VecDeque::new());
        Self { filesystem, inode, walk, error, resumed_at: None, names, entries }
    }

    /// Puts the next name into `name` and gives its inode; `None` at the end. After an error come the entries of the
    /// directory's later blocks.
    pub fn next(&mut self, name: &mut Vec<u8>) -> Option<Result<InodeNumber>> {
        loop {
            if let Some((inode, range)) = self.entries.pop_front() {
                name.clear();
                name.extend_from_slice(self.names.get(range).unwrap_or_default());
                return Some(Ok(inode));
            }
            if let Some(error) = self.error.take() {
                self.resume_behind(&error);
                return Some(Err(error));
            }
            self.walk.as_ref()?;
            self.fill();
        }
    }

    fn fill(&mut self) {
        self.names.clear();
        while self.entries.len() < WINDOW_ENTRIES
            && let Some(walk) = &mut self.walk
        {
            match walk.next_entry(self.filesystem, &self.inode) {
                // Such names further on are damage, which the walk tells.
                Ok(Some(entry)) if entry.cookie <= DOT_DOT_COOKIE && matches!(entry.name, b"." | b"..") => {}
                Ok(Some(entry)) => {
                    let start = self.names.len();
                    self.names.extend_from_slice(entry.name);
                    self.entries.push_back((entry.inode, start..self.names.len()));
                }
                Ok(None) => self.walk = None,
                Err(error) => {
                    self.walk = None;
                    self.error = Some(error);
                }
            }
        }
        self.filesystem.prefetch_inodes(self.entries.iter().map(|(inode, _)| *inode));
    }

    /// Goes on with the directory block behind the damaged one.
    fn resume_behind(&mut self, error: &Error) {
        let behind = DirectoryWalk::begin_behind(self.filesystem, &self.inode, error, self.resumed_at);
        if let Some((walk, block)) = behind {
            (self.walk, self.resumed_at) = (Some(walk), Some(block));
        }
    }
}

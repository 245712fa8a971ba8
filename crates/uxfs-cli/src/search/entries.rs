//! The entries of one directory, in its own order, some ahead of the walk, so that their inodes can be read together.

use std::{ops::Range, sync::Arc};

use uxfs_format::units::{FileBlock, InodeNumber};
use uxfs_volume::{
    directory::read::DirectoryWalk,
    error::{Error, Result},
    inode::{FileType, Inode},
    volume::Volume,
};

/// Entries that are looked at together.
const WINDOW_ENTRIES: usize = 512;
/// Directories below this level keep less at hand, because a hostile image can have tens of thousands of levels.
const SHALLOW_LEVELS: usize = 64;
/// Entries of such a directory that are looked at together.
const DEEP_WINDOW_ENTRIES: usize = 16;

/// One entry.
#[derive(Debug, Clone, Copy)]
pub struct EntryFields {
    /// The inode.
    pub inode: InodeNumber,
    /// Its type, where the entry says so.
    pub file_type: Option<FileType>,
}

/// The entries of a directory, without `.` and `..`.
#[derive(Debug)]
pub struct Entries {
    directory: Arc<Inode>,
    is_deep: bool,
    /// How far the directory has been read; `None` at the end, and in deep directories between two windows.
    walk: Option<DirectoryWalk>,
    /// Where a deep directory is read on.
    cookie: Option<u64>,
    /// Damage that is told behind the entries at hand.
    damage: Option<Error>,
    /// The directory block behind the last damage: reading never goes back.
    resumed_at: Option<FileBlock>,
    names: Vec<u8>,
    window: Vec<(Range<usize>, EntryFields)>,
    next: usize,
}

impl Entries {
    /// Begins to read a directory at this level below the start.
    ///
    /// # Errors
    /// It is no directory, or damaged; the device.
    pub fn begin(volume: &Volume, directory: Arc<Inode>, level: usize) -> Result<Self> {
        let walk = Some(DirectoryWalk::begin(volume, &directory, 0)?);
        let is_deep = level > SHALLOW_LEVELS;
        let (names, window) = (Vec::new(), Vec::new());
        Ok(Self {
            directory,
            is_deep,
            walk,
            cookie: None,
            damage: None,
            resumed_at: None,
            names,
            window,
            next: 0,
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Arc<Inode> {
        &self.directory
    }

    /// The next entry. Where the entries at hand are used up, further ones are read first: `ahead` says of each whether its inode will be
    /// wanted. After damage come the entries of later blocks.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next(
        &mut self,
        volume: &Volume,
        ahead: &mut impl FnMut(&[u8], EntryFields) -> bool,
    ) -> Result<Option<(&[u8], EntryFields)>> {
        while self.next >= self.window.len() {
            if let Some(error) = self.damage.take() {
                self.go_on_behind(volume, &error);
                return Err(error);
            }
            if self.walk.is_none() && self.cookie.is_none() {
                return Ok(None);
            }
            self.fill(volume, ahead)?;
        }
        let Some((range, fields)) = self.window.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some((self.names.get(range.clone()).unwrap_or_default(), *fields)))
    }

    fn fill(&mut self, volume: &Volume, ahead: &mut impl FnMut(&[u8], EntryFields) -> bool) -> Result<()> {
        self.names.clear();
        self.window.clear();
        self.next = 0;
        let mut walk = match (self.walk.take(), self.cookie.take()) {
            (Some(walk), _) => walk,
            (None, Some(cookie)) => DirectoryWalk::begin(volume, &self.directory, cookie)?,
            (None, None) => return Ok(()),
        };
        let most = if self.is_deep { DEEP_WINDOW_ENTRIES } else { WINDOW_ENTRIES };
        let mut wanted = Vec::new();
        let mut cookie = 0;
        let is_over = loop {
            if self.window.len() >= most {
                break false;
            }
            match walk.next_entry(volume, &self.directory) {
                Ok(Some(entry)) => {
                    cookie = entry.next_cookie;
                    match entry.is_dot_of(self.directory.number) {
                        Ok(true) => continue,
                        Ok(false) => {}
                        Err(error) => {
                            // The entry leads to a directory above: it must not be walked through.
                            self.damage = Some(error);
                            break false;
                        }
                    }
                    let fields = EntryFields { inode: entry.inode, file_type: entry.file_type };
                    if ahead(entry.name, fields) {
                        wanted.push(entry.inode);
                    }
                    let start = self.names.len();
                    self.names.extend_from_slice(entry.name);
                    self.window.push((start..self.names.len(), fields));
                }
                Ok(None) => break true,
                Err(error) => {
                    self.damage = Some(error);
                    break true;
                }
            }
        };
        match (is_over, self.is_deep) {
            (true, _) => {}
            (false, true) => self.cookie = Some(cookie),
            (false, false) => self.walk = Some(walk),
        }
        if wanted.len() > 1 {
            volume.prefetch_inodes(wanted);
        }
        Ok(())
    }

    /// Goes on with the directory block behind the damaged one.
    fn go_on_behind(&mut self, volume: &Volume, error: &Error) {
        if self.walk.is_some() || self.cookie.is_some() {
            return;
        }
        let behind = DirectoryWalk::begin_behind(volume, &self.directory, error, self.resumed_at);
        if let Some((walk, block)) = behind {
            (self.walk, self.resumed_at) = (Some(walk), Some(block));
        }
    }
}

//! All paths of an inode, from parent pointers alone.
//!
//! The way leads up: from an inode by each of its names to the directory, and on from there. A healthy directory has
//! one name, so only the first step branches. A damaged image may branch at every step or lead in a circle; a step
//! budget, a depth limit and the numbers on the way bound all of it. Each directory is read once, however many names
//! lead through it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use uxfs_format::{
    attribute::parent_pointer::ParentPointerFault,
    fault::{Corruption, Location, Structure},
    units::InodeNumber,
};

use super::OwnedParentPointer;
use crate::{
    error::{Error, OperationError, Result},
    inode::{FileType, Inode},
    volume::Volume,
};

/// How much to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLimits {
    /// Most paths.
    pub paths: usize,
    /// Most directories on one path.
    pub depth: usize,
    /// Most parent pointers followed in all.
    pub steps: u64,
    /// Most bytes of all paths together.
    pub bytes: usize,
}

impl Default for PathLimits {
    fn default() -> Self {
        Self { paths: 100_000, depth: 4096, steps: 1_000_000, bytes: 64 << 20 }
    }
}

/// Most names of a directory that are followed: a healthy one has one.
const MAX_DIRECTORY_NAMES: usize = 4;
/// Most problems that are kept.
const MAX_PROBLEMS: usize = 64;

/// The paths of an inode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InodePaths {
    /// Paths from the root directory, each with a slash in front; sorted.
    pub paths: Vec<Vec<u8>>,
    /// Whether these are all: no limit was reached.
    pub is_complete: bool,
    /// Names that lead nowhere, at most 64 of them.
    pub problems: Vec<Corruption>,
}

impl Volume {
    /// All paths of an inode, from parent pointers alone: several for a file with hard links.
    ///
    /// A name that leads nowhere (no such directory, one of another generation, a circle) is a problem in the result;
    /// the others are found all the same.
    ///
    /// # Errors
    /// [`OperationError::NoParentPointers`] where the file system keeps none; damage of the inode itself; the device.
    pub fn paths_of(&self, inode: &Inode, limits: &PathLimits) -> Result<InodePaths> {
        if !self.geometry().features.has_parent_pointers() {
            return Err(OperationError::NoParentPointers.into());
        }
        let mut search = Search {
            volume: self,
            limits,
            found: InodePaths { is_complete: true, ..InodePaths::default() },
            frames: Vec::new(),
            on_the_way: HashSet::new(),
            directories: HashMap::new(),
            suffix: Vec::new(),
            steps: 0,
            bytes: 0,
        };
        if inode.number == self.geometry().root_inode {
            search.found.paths.push(b"/".to_vec());
            return Ok(search.found);
        }
        let (pointers, complete) = self.parent_pointers(inode, limits.paths.saturating_add(1))?;
        search.found.is_complete &= complete;
        search.enter(inode.number, pointers.into());
        search.run()?;
        search.found.paths.sort_unstable();
        Ok(search.found)
    }
}

/// A directory's generation and its own names.
#[derive(Clone)]
struct Directory {
    generation: u32,
    names: Arc<[OwnedParentPointer]>,
    is_complete: bool,
}

/// An inode on the way up, and which of its names comes next.
struct Frame {
    inode: InodeNumber,
    names: Arc<[OwnedParentPointer]>,
    next: usize,
    /// Length of the path's end below this inode.
    suffix_length: usize,
}

struct Search<'a> {
    volume: &'a Volume,
    limits: &'a PathLimits,
    found: InodePaths,
    frames: Vec<Frame>,
    on_the_way: HashSet<InodeNumber>,
    /// Directories that were read; `None` for numbers that are none.
    directories: HashMap<InodeNumber, Option<Directory>>,
    /// The end of the path below the current inode, backwards, so that names can be put before it.
    suffix: Vec<u8>,
    steps: u64,
    bytes: usize,
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last_mut() {
            self.suffix.truncate(frame.suffix_length);
            let (inode, names) = (frame.inode, Arc::clone(&frame.names));
            let Some(pointer) = names.get(frame.next) else {
                self.on_the_way.remove(&inode);
                self.frames.pop();
                continue;
            };
            frame.next += 1;
            self.steps += 1;
            let is_full = self.found.paths.len() >= self.limits.paths || self.bytes >= self.limits.bytes;
            if is_full || self.steps > self.limits.steps {
                self.found.is_complete = false;
                return Ok(());
            }
            self.suffix.extend(pointer.name.iter().rev());
            self.suffix.push(b'/');
            self.follow(inode, pointer)?;
        }
        Ok(())
    }

    /// Goes up by one name.
    fn follow(&mut self, child: InodeNumber, pointer: &OwnedParentPointer) -> Result<()> {
        let number = pointer.parent;
        let Some(directory) = self.directory(number)? else {
            self.problem(child, ParentPointerFault::NoParent { inode: number });
            return Ok(());
        };
        if directory.generation != pointer.generation {
            let (found, expected) = (pointer.generation, directory.generation);
            self.problem(child, ParentPointerFault::Generation { inode: number, found, expected });
            return Ok(());
        }
        if number == self.volume.geometry().root_inode {
            self.bytes += self.suffix.len();
            self.found.paths.push(self.suffix.iter().rev().copied().collect());
            return Ok(());
        }
        if self.on_the_way.contains(&number) {
            self.problem(child, ParentPointerFault::Circle { inode: number });
            return Ok(());
        }
        if self.frames.len() >= self.limits.depth {
            self.found.is_complete = false;
            return Ok(());
        }
        self.found.is_complete &= directory.is_complete;
        // Damage has been told already.
        if directory.is_complete || !directory.names.is_empty() {
            self.enter(number, directory.names);
        }
        Ok(())
    }

    /// Puts an inode on the way.
    fn enter(&mut self, inode: InodeNumber, names: Arc<[OwnedParentPointer]>) {
        if names.is_empty() {
            self.problem(inode, ParentPointerFault::None);
            return;
        }
        self.on_the_way.insert(inode);
        self.frames.push(Frame { inode, names, next: 0, suffix_length: self.suffix.len() });
    }

    /// Generation and names of a directory; `None` where the number is not that of a directory in use.
    fn directory(&mut self, number: InodeNumber) -> Result<Option<Directory>> {
        if let Some(known) = self.directories.get(&number) {
            return Ok(known.clone());
        }
        let inode = match self.volume.inode(number) {
            Ok(inode) => Some(inode).filter(|inode| inode.file_type() == Some(FileType::Directory)),
            Err(Error::Operation(_) | Error::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        let directory = inode.map(|inode| self.read_directory_names(&inode)).transpose()?;
        self.directories.insert(number, directory.clone());
        Ok(directory)
    }

    fn read_directory_names(&mut self, inode: &Inode) -> Result<Directory> {
        let generation = inode.generation();
        match self.volume.parent_pointers(inode, MAX_DIRECTORY_NAMES) {
            Ok((names, is_complete)) => Ok(Directory { generation, names: names.into(), is_complete }),
            // Damage of a directory on the way ends this way only.
            Err(Error::Corrupt(corruption)) => {
                self.keep(*corruption);
                Ok(Directory { generation, names: Arc::default(), is_complete: false })
            }
            Err(error) => Err(error),
        }
    }

    fn problem(&mut self, inode: InodeNumber, fault: ParentPointerFault) {
        let location = Location::of_inode(inode);
        self.keep(Corruption::new(Structure::ParentPointer, location, fault));
    }

    fn keep(&mut self, corruption: Corruption) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(corruption);
        }
    }
}

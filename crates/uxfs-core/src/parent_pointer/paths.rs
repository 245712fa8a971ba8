//! All paths of an inode, from parent pointers alone.
//!
//! The way leads up: from an inode by each of its names to the directory, and on from there. A healthy directory has
//! one name, so only the first step branches. A damaged image may branch at every step or lead in a circle; a step
//! budget, a depth limit and the numbers on the way bound all of it.

use std::collections::HashSet;

use uxfs_format::{
    attribute::parent_pointer::ParentPointerFault,
    fault::{Corruption, Location, Structure},
    units::InodeNumber,
};

use super::OwnedParentPointer;
use crate::{
    error::{Error, OperationError, Result},
    filesystem::FileSystem,
    inode::{FileType, Inode},
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

/// Most problems that are kept.
const MAX_PROBLEMS: usize = 64;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InodePaths {
    /// Paths from the root directory, each with a slash in front; sorted.
    pub paths: Vec<Vec<u8>>,
    /// Whether these are all: no limit was reached.
    pub is_complete: bool,
    /// Names that lead nowhere, at most 64 of them.
    pub problems: Vec<Corruption>,
}

impl FileSystem {
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
            file_system: self,
            limits,
            found: InodePaths { is_complete: true, ..InodePaths::default() },
            frames: Vec::new(),
            on_the_way: HashSet::new(),
            suffix: Vec::new(),
            steps: 0,
            bytes: 0,
        };
        if inode.number == self.geometry().root_inode {
            search.found.paths.push(b"/".to_vec());
            return Ok(search.found);
        }
        search.enter(inode)?;
        search.run()?;
        search.found.paths.sort_unstable();
        Ok(search.found)
    }
}

/// An inode on the way up, and the names of it that are still to be followed.
struct Frame {
    inode: InodeNumber,
    rest: std::vec::IntoIter<OwnedParentPointer>,
    /// Length of the path's end below this inode.
    suffix_length: usize,
}

struct Search<'a> {
    file_system: &'a FileSystem,
    limits: &'a PathLimits,
    found: InodePaths,
    frames: Vec<Frame>,
    on_the_way: HashSet<InodeNumber>,
    /// The end of the path below the current inode, backwards, so that names can be put before it.
    suffix: Vec<u8>,
    steps: u64,
    bytes: usize,
}

impl Search<'_> {
    fn run(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last_mut() {
            self.suffix.truncate(frame.suffix_length);
            let inode = frame.inode;
            let Some(pointer) = frame.rest.next() else {
                self.on_the_way.remove(&inode);
                self.frames.pop();
                continue;
            };
            self.steps += 1;
            let is_full = self.found.paths.len() >= self.limits.paths || self.bytes >= self.limits.bytes;
            if is_full || self.steps > self.limits.steps {
                self.found.is_complete = false;
                return Ok(());
            }
            self.suffix.extend(pointer.name.iter().rev());
            self.suffix.push(b'/');
            self.follow(inode, &pointer)?;
        }
        Ok(())
    }

    /// Goes up by one name.
    fn follow(&mut self, child: InodeNumber, pointer: &OwnedParentPointer) -> Result<()> {
        let parent = match self.parent_of(pointer)? {
            Ok(parent) => parent,
            Err(fault) => {
                self.problem(child, fault);
                return Ok(());
            }
        };
        if parent.number == self.file_system.geometry().root_inode {
            self.bytes += self.suffix.len();
            self.found.paths.push(self.suffix.iter().rev().copied().collect());
            return Ok(());
        }
        if self.on_the_way.contains(&parent.number) {
            self.problem(child, ParentPointerFault::Circle { inode: parent.number });
            return Ok(());
        }
        if self.frames.len() >= self.limits.depth {
            self.found.is_complete = false;
            return Ok(());
        }
        match self.enter(&parent) {
            // Damage of a directory on the way ends this way only.
            Err(Error::Corrupt(corruption)) => {
                self.keep(*corruption);
                Ok(())
            }
            other => other,
        }
    }

    /// Puts an inode on the way and collects its names.
    fn enter(&mut self, inode: &Inode) -> Result<()> {
        let most = self.limits.paths.saturating_add(1);
        let (pointers, complete) = self.file_system.parent_pointers(inode, most)?;
        self.found.is_complete &= complete;
        if pointers.is_empty() {
            self.problem(inode.number, ParentPointerFault::None);
            return Ok(());
        }
        self.on_the_way.insert(inode.number);
        self.frames.push(Frame {
            inode: inode.number,
            rest: pointers.into_iter(),
            suffix_length: self.suffix.len(),
        });
        Ok(())
    }

    /// The directory that a parent pointer means, or why it is none.
    fn parent_of(
        &mut self,
        pointer: &OwnedParentPointer,
    ) -> Result<std::result::Result<std::sync::Arc<Inode>, ParentPointerFault>> {
        let number = pointer.parent;
        let parent = match self.file_system.inode(number) {
            Ok(parent) => parent,
            Err(Error::Operation(_) | Error::Corrupt(_)) => {
                return Ok(Err(ParentPointerFault::NoParent { inode: number }));
            }
            Err(error) => return Err(error),
        };
        if parent.file_type != FileType::Directory {
            return Ok(Err(ParentPointerFault::NoParent { inode: number }));
        }
        if parent.generation != pointer.generation {
            let (found, expected) = (pointer.generation, parent.generation);
            return Ok(Err(ParentPointerFault::Generation { inode: number, found, expected }));
        }
        Ok(Ok(parent))
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

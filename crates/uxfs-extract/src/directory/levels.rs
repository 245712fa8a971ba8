//! The directories between the place of extraction and where the work is: descriptors, never paths.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags, fstat, openat};

use crate::entry::is_safe_component;

/// How many of the deepest directories stay open. Those above are opened again on the way up.
const OPEN_LEVELS: usize = 64;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Identity of a directory on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(directory: impl AsFd) -> io::Result<Self> {
        let stat = fstat(directory)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

#[derive(Debug)]
struct Level<T> {
    descriptor: Option<OwnedFd>,
    identity: Identity,
    /// Work for the time when the directory is complete.
    pending: T,
}

/// The open directories, the place of extraction first.
#[derive(Debug)]
pub struct Levels<T> {
    root: OwnedFd,
    levels: Vec<Level<T>>,
}

impl<T> Levels<T> {
    /// Starts at `root`, which is no level itself until it is entered.
    pub fn new(root: OwnedFd) -> Self {
        Self { root, levels: Vec::new() }
    }

    /// The directory in which the work is.
    pub fn current(&self) -> BorrowedFd<'_> {
        self.levels.last().and_then(|level| level.descriptor.as_ref()).unwrap_or(&self.root).as_fd()
    }

    /// The pending work of the current directory.
    pub fn pending(&self) -> Option<&T> {
        self.levels.last().map(|level| &level.pending)
    }

    /// As [`pending`](Self::pending), to change.
    pub fn pending_mut(&mut self) -> Option<&mut T> {
        self.levels.last_mut().map(|level| &mut level.pending)
    }

    /// Makes the place of extraction itself the first level.
    pub fn enter_root(&mut self, pending: T) -> io::Result<()> {
        let descriptor = self.root.try_clone()?;
        self.push(descriptor, pending)
    }

    /// Goes down into `name` of the current directory, which must be a directory and no link to one.
    pub fn enter(&mut self, name: &[u8], pending: T) -> io::Result<()> {
        let descriptor = open_component(self.current(), name, OFlags::RDONLY)?;
        self.push(descriptor, pending)
    }

    fn push(&mut self, descriptor: OwnedFd, pending: T) -> io::Result<()> {
        let identity = Identity::of(&descriptor)?;
        self.levels.push(Level { descriptor: Some(descriptor), identity, pending });
        if let Some(index) = self.levels.len().checked_sub(OPEN_LEVELS + 1)
            && let Some(level) = self.levels.get_mut(index)
        {
            level.descriptor = None;
        }
        Ok(())
    }

    /// Leaves the current directory; gives it with what was pending.
    pub fn leave(&mut self) -> io::Result<Option<(OwnedFd, T)>> {
        let Some(level) = self.levels.pop() else { return Ok(None) };
        let descriptor = level.descriptor.ok_or_else(|| io::Error::other("directory is not open"))?;
        if let Some(above) = self.levels.last_mut()
            && above.descriptor.is_none()
        {
            // `..` leads back unless somebody moved the directory meanwhile.
            let reopened = openat(&descriptor, c"..", DIRECTORY | OFlags::RDONLY, Mode::empty())?;
            if Identity::of(&reopened)? != above.identity {
                return Err(io::Error::other("the directory was moved during the extraction"));
            }
            above.descriptor = Some(reopened);
        }
        Ok(Some((descriptor, level.pending)))
    }

    /// Opens the directory that holds `path` below the place of extraction, without following any link.
    pub fn open_parent_of(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let mut directory = self.root.try_clone()?;
        let parent = path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end));
        for component in parent.into_iter().flat_map(|parent| parent.split(|byte| *byte == b'/')) {
            directory = open_component(directory.as_fd(), component, OFlags::PATH)?;
        }
        Ok(directory)
    }
}

/// Opens a directory by one component, never by a link.
fn open_component(directory: BorrowedFd<'_>, name: &[u8], access: OFlags) -> io::Result<OwnedFd> {
    if !is_safe_component(name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file name"));
    }
    Ok(openat(directory, name, DIRECTORY | access, Mode::empty())?)
}

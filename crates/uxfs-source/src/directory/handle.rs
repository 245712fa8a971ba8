//! Directories of the host, to be opened when they are needed.
//!
//! A directory is known by its name and its parent, so that names are kept once and a tree may be deeper than a path may
//! be long. It is opened from the nearest ancestor that is open anyway, without following symbolic links anywhere: what
//! others do in the tree meanwhile never leads out of it.

use std::{
    collections::VecDeque,
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, fstat, openat, openat2, statx},
    io::Errno,
};
use uxfs_block::preload;

use crate::{
    content::Descriptor,
    error::{Shown, SourceError},
};

/// Directories that stay open.
const OPEN_DIRECTORIES: usize = 96;
/// Files that stay open until their content has been read.
const OPEN_FILES: usize = 96;
/// Longest path for one call, with its NUL.
const PATH_BYTES: usize = 4096;

/// The tree's root and what all its directories share.
#[derive(Debug)]
pub(crate) struct Host {
    root: OwnedFd,
    path: PathBuf,
    open: Mutex<VecDeque<Arc<OwnedFd>>>,
    kept_files: AtomicUsize,
    user: u32,
    has_openat2: AtomicBool,
}

/// One of the files that may stay open.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Host>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.kept_files.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Host {
    pub(crate) fn open(path: &Path) -> Result<Arc<Self>, SourceError> {
        preload::check()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| SourceError::host(path, "open", error))?;
        Ok(Arc::new(Self {
            root,
            path: path.to_path_buf(),
            open: Mutex::new(VecDeque::with_capacity(OPEN_DIRECTORIES + 1)),
            kept_files: AtomicUsize::new(0),
            user: rustix::process::geteuid().as_raw(),
            // The C library has no function for it that could be replaced.
            has_openat2: AtomicBool::new(!preload::is_loaded()),
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Whether reading may leave the access time alone: the kernel lets only the owner and root ask for that.
    fn may_hide(&self, owner: u32) -> bool {
        self.user == 0 || self.user == owner
    }

    pub(crate) fn keep_file(self: &Arc<Self>) -> Option<Slot> {
        let slot = Slot(Arc::clone(self));
        (self.kept_files.fetch_add(1, Ordering::Relaxed) < OPEN_FILES).then_some(slot)
    }

    fn remember(&self, fd: &Arc<OwnedFd>) {
        let mut open = self.open.lock();
        open.push_back(Arc::clone(fd));
        let oldest = if open.len() > OPEN_DIRECTORIES { open.pop_front() } else { None };
        drop(open);
        // Closing happens without the lock.
        drop(oldest);
    }

    /// Opens a path of names below `base`, none of them through a symbolic link.
    fn open_below(&self, base: BorrowedFd<'_>, names: &[&CStr], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut path = Vec::with_capacity(256);
        let mut at: Option<OwnedFd> = None;
        for (index, name) in names.iter().enumerate() {
            let bytes = name.to_bytes();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(bytes);
            let next = names.get(index + 1);
            let next_bytes = next.map_or(0, |next| next.to_bytes().len());
            let is_full = path.len() + next_bytes + 2 > PATH_BYTES;
            let steps_singly = !self.has_openat2.load(Ordering::Relaxed);
            if next.is_some() && !is_full && !steps_singly {
                continue;
            }
            let here = at.as_ref().map_or(base, AsFd::as_fd);
            let here_flags = if next.is_some() { OFlags::PATH | DIRECTORY } else { flags };
            match self.open_path(here, &path, here_flags) {
                Ok(fd) => at = Some(fd),
                // From now on name by name, from the beginning.
                Err(Errno::NOSYS) if !steps_singly => {
                    self.has_openat2.store(false, Ordering::Relaxed);
                    return self.open_below(base, names, flags);
                }
                Err(error) => return Err(error),
            }
            path.clear();
        }
        at.ok_or(Errno::NOENT)
    }

    fn open_path(&self, at: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if !path.contains(&b'/') {
            return openat(at, path, flags, Mode::empty());
        }
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(at, path, flags, Mode::empty(), resolve) {
            // Old container runtimes forbid calls that they do not know.
            Err(Errno::PERM) if !flags.contains(OFlags::NOATIME) => Err(Errno::NOSYS),
            result => result,
        }
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens without leaving a trace in the access time where that is allowed.
fn quietly<T>(quiet: bool, flags: OFlags, open: impl Fn(OFlags) -> Result<T, Errno>) -> Result<T, Errno> {
    if quiet {
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM | Errno::INVAL | Errno::NOTSUP) => {}
            result => return result,
        }
    }
    open(flags)
}

/// A directory of the tree.
#[derive(Debug)]
pub(crate) struct Node {
    host: Arc<Host>,
    parent: Option<Arc<Node>>,
    name: CString,
    owner: u32,
    open: Mutex<Weak<OwnedFd>>,
}

impl Drop for Node {
    // Link by link: a chain may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(parent) = next {
            next = Arc::into_inner(parent).and_then(|mut node| node.parent.take());
        }
    }
}

impl Node {
    pub(crate) fn root(host: Arc<Host>, owner: u32) -> Arc<Self> {
        Arc::new(Self { host, parent: None, name: CString::default(), owner, open: Mutex::default() })
    }

    pub(crate) fn child(self: &Arc<Self>, name: &CStr, owner: u32) -> Arc<Self> {
        Arc::new(Self {
            host: Arc::clone(&self.host),
            parent: Some(Arc::clone(self)),
            name: name.to_owned(),
            owner,
            open: Mutex::default(),
        })
    }

    /// As [`root`](Self::root), where the owner is not known: that only decides what is tried first.
    pub(crate) fn root_of_any_owner(host: Arc<Host>) -> Arc<Self> {
        let owner = host.user;
        Self::root(host, owner)
    }

    /// As [`child`](Self::child), where the owner is not known.
    pub(crate) fn child_of_any_owner(self: &Arc<Self>, name: &CStr) -> Arc<Self> {
        self.child(name, self.host.user)
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// From the root, without slashes at the ends.
    pub(crate) fn path(&self) -> Box<[u8]> {
        let mut names = Vec::new();
        let mut node = self;
        let mut length = 0;
        while let Some(parent) = &node.parent {
            names.push(node.name.as_bytes());
            length += node.name.as_bytes().len() + 1;
            node = parent;
        }
        let mut path = Vec::with_capacity(length);
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path.into()
    }

    /// The path of an entry.
    pub(crate) fn path_of(&self, name: &[u8]) -> Box<[u8]> {
        let path = self.path();
        if path.is_empty() {
            return name.into();
        }
        [&*path, b"/", name].concat().into()
    }

    /// The directory, open for reading; opened again if it has been closed meanwhile.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(fd) = self.open.lock().upgrade() {
            return Ok(fd);
        }
        let mut names = Vec::new();
        let mut node = self;
        let mut base = None;
        while let Some(parent) = &node.parent {
            names.push(node.name.as_c_str());
            node = parent;
            base = node.open.lock().upgrade();
            if base.is_some() {
                break;
            }
        }
        names.reverse();
        let quiet = self.host.may_hide(self.owner);
        let at = base.as_ref().map_or(self.host.root(), AsFd::as_fd);
        let fd = quietly(quiet, OFlags::RDONLY | DIRECTORY, |flags| match names.is_empty() {
            true => openat(at, c".", flags, Mode::empty()),
            false => self.host.open_below(at, &names, flags),
        })?;
        let fd = Arc::new(fd);
        *self.open.lock() = Arc::downgrade(&fd);
        self.host.remember(&fd);
        Ok(fd)
    }
}

/// Opens a regular file of a directory. It may have become something else: nothing waits for a fifo's other end.
pub(crate) fn open_file(
    host: &Host,
    directory: BorrowedFd<'_>,
    name: &CStr,
    owner: u32,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    quietly(host.may_hide(owner), flags, |flags| openat(directory, name, flags, Mode::empty()))
}

const MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Attributes of a name, without asking a server again.
pub(crate) fn examine(directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | DONT_SYNC, MASK)
}

/// Attributes of an open file.
pub(crate) fn examine_open(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH | DONT_SYNC, MASK)
}

// By its number: rustix has no name for it with musl.
const DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);

/// The number of the file system.
pub(crate) fn device_of(found: &Statx) -> u64 {
    u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor)
}

/// A file that was listed.
#[derive(Debug)]
pub(crate) struct FileInTree {
    pub(crate) directory: Arc<Node>,
    pub(crate) name: CString,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) owner: u32,
    pub(crate) modified: (i64, u32),
    /// Where it was left open.
    pub(crate) kept: Option<Arc<Descriptor>>,
}

impl FileInTree {
    pub(crate) fn path(&self) -> Shown {
        Shown(self.directory.path_of(self.name.as_bytes()))
    }

    pub(crate) fn modification(&self) -> (i64, u32) {
        self.modified
    }

    pub(crate) fn open(&self) -> Result<Arc<Descriptor>, SourceError> {
        if let Some(kept) = &self.kept {
            return Ok(Arc::clone(kept));
        }
        let failed = |error: Errno| match error {
            Errno::NOENT | Errno::LOOP => SourceError::Replaced { path: self.path() },
            error => SourceError::Io { path: self.path(), action: "open", source: error.into() },
        };
        let directory = self.directory.open().map_err(failed)?;
        let host = self.directory.host();
        let fd = open_file(host, directory.as_fd(), &self.name, self.owner).map_err(failed)?;
        let found = fstat(&fd).map_err(failed)?;
        let device =
            u64::from(rustix::fs::major(found.st_dev)) << 32 | u64::from(rustix::fs::minor(found.st_dev));
        if (device, found.st_ino) != (self.device, self.inode) {
            return Err(SourceError::Replaced { path: self.path() });
        }
        Ok(Arc::new(Descriptor::Own { fd, _slot: None }))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// A chain of directories and its last link.
    fn chain(host: &Arc<Host>, names: &[&str]) -> Arc<Node> {
        let mut node = Node::root(Arc::clone(host), 0);
        for name in names {
            node = node.child(&CString::new(*name).unwrap(), 0);
        }
        node
    }

    #[test]
    fn nothing_is_reached_through_links_with_and_without_openat2() {
        let folder = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        let long: Vec<&str> = std::iter::repeat_n(name.as_str(), 15).collect();
        fs::create_dir_all(folder.path().join(long.join("/"))).unwrap();
        fs::create_dir_all(folder.path().join("a/b/c")).unwrap();
        symlink("b", folder.path().join("a/link")).unwrap();
        symlink("/", folder.path().join("a/away")).unwrap();
        for has_openat2 in [true, false] {
            let host = Host::open(folder.path()).unwrap();
            host.has_openat2.store(has_openat2, Ordering::Relaxed);
            for names in [&["a", "b", "c"][..], &["a"], &[], &long] {
                let node = chain(&host, names);
                let fd = node.open().unwrap();
                assert_eq!(*node.path(), *names.join("/").as_bytes());
                // Open anyway, it is not opened again.
                assert!(Arc::ptr_eq(&fd, &node.open().unwrap()));
            }
            for names in [&["a", "link"][..], &["a", "link", "c"], &["a", "away", "tmp"], &["a", "none"]] {
                let error = chain(&host, names).open().unwrap_err();
                assert!(matches!(error, Errno::LOOP | Errno::NOTDIR | Errno::NOENT), "{names:?}: {error}");
            }
        }
    }

    #[test]
    fn a_long_chain_ends_without_a_deep_stack() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::open(folder.path()).unwrap();
        let names = vec!["x"; 500_000];
        let work = move || drop(chain(&host, &names));
        std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap().join().unwrap();
    }
}

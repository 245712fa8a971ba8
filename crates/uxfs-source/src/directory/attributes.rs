//! Extended attributes, one call for a file that has none.
//!
//! The kernel lists attributes of an open file or of a path. Opening costs more than listing, and so does a path through
//! `/proc/self/fd`. So each thread leaves the working directory that it shares with the process (`unshare`, which needs no
//! privilege), goes to the directory that it reads, and lists names there: as cheap as the newer `listxattrat`, on all
//! kernels. Where a container forbids that, the path through `/proc` serves.
//!
//! A file system that has no attributes at all says so once, and is not asked again.

use std::{
    ffi::CStr,
    io::Write,
    os::fd::{AsRawFd, BorrowedFd},
    path::Path,
};

use rustix::{
    fs::{fgetxattr, flistxattr, lgetxattr, llistxattr},
    io::Errno,
};

use uxfs_block::preload;

use super::own_working_directory;
use crate::{
    entry::Attribute,
    error::{Failure, Reason, Shown, SourceError},
};

/// Longest list of names and longest value that the kernel gives.
const MOST_BYTES: usize = 64 << 10;
/// Bytes that suffice for nearly all lists. The kernel allocates as much as it is offered, and pages are dear: with 64 KiB a list takes
/// twice the time.
const FEW_BYTES: usize = 256;

/// How attributes of a name are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    WorkingDirectory,
    Proc,
}

/// The attributes of a file, and those that could not be read.
#[derive(Debug, Default)]
pub(crate) struct FileAttributes {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) problems: Vec<Reason>,
}

/// Reads attributes, in a thread of its own.
#[derive(Debug)]
pub(crate) struct AttributeReader {
    way: Way,
    /// Whether the working directory is the one that names come from.
    is_there: bool,
    names: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    /// File systems without attributes.
    without: Vec<u64>,
}

/// A file whose attributes are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    Open(BorrowedFd<'a>),
    /// A name in the directory that the reader is in.
    Name(BorrowedFd<'a>, &'a CStr),
}

impl AttributeReader {
    /// For the calling thread, which gets a working directory of its own.
    pub(crate) fn new() -> Result<Self, SourceError> {
        // A library between us and the system knows one working directory only.
        let taken = if preload::is_loaded() { Err(Errno::PERM) } else { own_working_directory::take() };
        let way = match taken {
            Ok(()) => Way::WorkingDirectory,
            Err(_) if Path::new("/proc/self/fd").is_dir() => Way::Proc,
            Err(_) => return Err(SourceError::NoWayToAttributes),
        };
        Ok(Self::with_way(way))
    }

    /// For open files alone; changes nothing of the calling thread.
    fn for_open_files() -> Self {
        Self::with_way(Way::Proc)
    }

    fn with_way(way: Way) -> Self {
        let (names, value) = (vec![0; MOST_BYTES], vec![0; MOST_BYTES]);
        Self { way, is_there: false, names, value, path: Vec::new(), without: Vec::new() }
    }

    /// Goes to the directory whose names come next. Where it may not, its files cannot be looked at either; should they
    /// be, the path through `/proc` serves.
    pub(crate) fn enter(&mut self, directory: BorrowedFd<'_>) {
        self.is_there = self.way == Way::WorkingDirectory && rustix::process::fchdir(directory).is_ok();
    }

    /// The attributes of a file on the file system `device`.
    pub(crate) fn read(&mut self, subject: Subject<'_>, device: u64) -> FileAttributes {
        let mut found = FileAttributes::default();
        if self.without.contains(&device) {
            return found;
        }
        let subject = self.reached(subject);
        let listed = offer(&mut self.names, |buffer| match subject {
            Reached::Open(fd) => flistxattr(fd, buffer),
            Reached::Name(name) => llistxattr(name, buffer),
            Reached::Path => llistxattr(path(&self.path), buffer),
        });
        let length = match listed {
            Ok(0) => return found,
            Ok(length) => length,
            Err(Errno::NOTSUP) => {
                self.without.push(device);
                return found;
            }
            // Removed since it was listed.
            Err(Errno::NOENT | Errno::NODATA) => return found,
            Err(error) => {
                let name = Shown::from(b"names".as_slice());
                found.problems.push(Reason::UnreadableAttribute { name, failure: Failure(error) });
                return found;
            }
        };
        let names = self.names.get(..length).unwrap_or_default();
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let value = offer(&mut self.value, |buffer| match subject {
                Reached::Open(fd) => fgetxattr(fd, name, buffer),
                Reached::Name(file) => lgetxattr(file, name, buffer),
                Reached::Path => lgetxattr(path(&self.path), name, buffer),
            });
            match value {
                Ok(length) => found.attributes.push(Attribute {
                    name: name.to_bytes().into(),
                    value: self.value.get(..length).unwrap_or_default().into(),
                }),
                // Removed since it was listed.
                Err(Errno::NODATA | Errno::NOENT) => {}
                Err(error) => found.problems.push(Reason::UnreadableAttribute {
                    name: name.to_bytes().into(),
                    failure: Failure(error),
                }),
            }
        }
        found.attributes.sort_unstable();
        found.attributes.dedup_by(|a, b| a.name == b.name);
        found
    }

    fn reached<'a>(&mut self, subject: Subject<'a>) -> Reached<'a> {
        match subject {
            Subject::Open(fd) => Reached::Open(fd),
            Subject::Name(_, name) if self.is_there => Reached::Name(name),
            Subject::Name(directory, name) => {
                self.path.clear();
                // Writing to memory cannot fail.
                let _ = write!(self.path, "/proc/self/fd/{}/", directory.as_raw_fd());
                self.path.extend_from_slice(name.to_bytes_with_nul());
                Reached::Path
            }
        }
    }
}

/// The attributes of an open file, and what of them cannot be read.
pub(crate) fn attributes_of_open(fd: BorrowedFd<'_>) -> (Vec<Attribute>, Vec<Reason>) {
    let found = AttributeReader::for_open_files().read(Subject::Open(fd), 0);
    (found.attributes, found.problems)
}

/// Asks with a little room, and again with all of it where that is too little.
fn offer(buffer: &mut [u8], ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<usize, Errno> {
    match ask(buffer.get_mut(..FEW_BYTES).unwrap_or_default()) {
        Err(Errno::RANGE) => ask(buffer),
        result => result,
    }
}

#[derive(Clone, Copy)]
enum Reached<'a> {
    Open(BorrowedFd<'a>),
    Name(&'a CStr),
    Path,
}

fn path(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::fd::AsFd,
        thread,
    };

    use super::*;

    #[test]
    fn both_ways_find_the_same() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), b"x").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        let set = rustix::fs::setxattr(
            folder.path().join("file"),
            "user.b",
            b"two",
            rustix::fs::XattrFlags::empty(),
        );
        if set == Err(Errno::NOTSUP) {
            return;
        }
        set.unwrap();
        rustix::fs::setxattr(folder.path().join("file"), "user.a", b"", rustix::fs::XattrFlags::empty())
            .unwrap();
        let directory = File::open(folder.path()).unwrap();
        let before = std::env::current_dir().unwrap();
        let read = |way: Way, name: &CStr| {
            thread::scope(|scope| {
                let work = || {
                    let mut reader = AttributeReader::new().unwrap();
                    reader.way = way;
                    reader.enter(directory.as_fd());
                    let found = reader.read(Subject::Name(directory.as_fd(), name), 1);
                    assert!(found.problems.is_empty(), "{found:?}");
                    found.attributes
                };
                scope.spawn(work).join().unwrap()
            })
        };
        for way in [Way::WorkingDirectory, Way::Proc] {
            let found = read(way, c"file");
            let user: Vec<_> = found.iter().filter(|a| a.name.starts_with(b"user.")).collect();
            assert_eq!(user.len(), 2, "{found:?}");
            assert_eq!((&*user[0].name, &*user[0].value), (b"user.a".as_slice(), b"".as_slice()));
            assert_eq!((&*user[1].name, &*user[1].value), (b"user.b".as_slice(), b"two".as_slice()));
            assert!(read(way, c"link").iter().all(|a| !a.name.starts_with(b"user.")));
        }
        assert_eq!(std::env::current_dir().unwrap(), before);
    }
}

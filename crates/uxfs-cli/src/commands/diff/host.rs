//! A directory of the host as one side of the comparison. It is reached through descriptors, name by name and without following links,
//! so that paths may be of any length, and nothing outside of it is read while another program changes it.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, SeekFrom, StatxFlags, lgetxattr, llistxattr},
    io::Errno,
};
use uxfs_block::spill::{SpillError, map::Key, sorter::Sorter};

use super::{
    attributes::is_stored_acl,
    contents::{Piece, Pieces},
    facts::Facts,
};
use crate::{failure::Failure, kind::Kind};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Longest list of names and longest value that the kernel gives.
const ATTRIBUTE_BYTES: usize = 64 << 10;
/// Directories above the last one that stay open. A walk that comes back from further down begins at the root again.
const MOST_NEAR: usize = 64;
/// How a directory is opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

/// The directory, or the one that holds a file to be compared.
#[derive(Debug)]
pub(super) struct HostTree {
    root: Arc<OwnedFd>,
    /// The directory that was opened last, and those above it: a walk goes on near it.
    near: Mutex<Vec<Near>>,
}

/// An open directory, with its path below the root.
#[derive(Debug)]
struct Near {
    path: Vec<u8>,
    directory: Arc<OwnedFd>,
}

/// A file in a directory.
#[derive(Debug)]
pub(super) struct HostFile {
    directory: Arc<OwnedFd>,
    name: CString,
    pub facts: Facts,
    pub key: Key,
}

/// What the host says, as a failure.
pub(super) fn failed(error: impl Into<io::Error>) -> Failure {
    Failure::caused_by(&error.into())
}

/// Whether a path is this one, or leads below it.
fn is_below(path: &[u8], above: &[u8]) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn name_of(name: &[u8]) -> Result<CString, Failure> {
    CString::new(name).map_err(|_| Failure::refused(Kind::InvalidName, "a name with a zero byte"))
}

impl HostTree {
    /// Opens a directory.
    ///
    /// # Errors
    /// The host.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        // A link on the command line is followed.
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { root: Arc::new(root), near: Mutex::default() })
    }

    /// The directory itself.
    ///
    /// # Errors
    /// The host.
    pub fn root(&self) -> Result<HostFile, Failure> {
        self.file(&self.root, b".")
    }

    /// A file of an open directory.
    ///
    /// # Errors
    /// The host.
    pub fn file(&self, directory: &Arc<OwnedFd>, name: &[u8]) -> Result<HostFile, Failure> {
        let name = name_of(name)?;
        let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        let found = rustix::fs::statx(directory, &name, flags, mask).map_err(failed)?;
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        let (facts, key) = (Facts::of_host(&found), (device, found.stx_ino));
        Ok(HostFile { directory: Arc::clone(directory), name, facts, key })
    }

    /// Opens a directory by its path below the root.
    ///
    /// # Errors
    /// The host.
    pub fn directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Failure> {
        let mut near = self.near.lock();
        near.retain(|near| is_below(path, &near.path));
        let (mut at, mut directory) = match near.last() {
            Some(near) => (near.path.len(), Arc::clone(&near.directory)),
            None => (0, Arc::clone(&self.root)),
        };
        while let Some(rest) = path.get(at..).filter(|rest| !rest.is_empty()) {
            let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
            let name = rest.get(slashes..).unwrap_or_default().split(|byte| *byte == b'/').next();
            let Some(name) = name.filter(|name| !name.is_empty()) else { break };
            let opened = rustix::fs::openat(&directory, &name_of(name)?, DIRECTORY, Mode::empty());
            directory = opened.map(Arc::new).map_err(failed)?;
            at += slashes + name.len();
            if near.len() == MOST_NEAR {
                near.remove(0);
            }
            near.push(Near {
                path: path.get(..at).unwrap_or(path).to_vec(),
                directory: Arc::clone(&directory),
            });
        }
        Ok(directory)
    }
}

/// Lists a directory. Names come without inode numbers: what they lead to is asked by name.
///
/// # Errors
/// The host; a temporary file.
pub(super) fn list(directory: &OwnedFd, names: &mut Sorter) -> Result<(), Failure> {
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(name, &1_u64.to_le_bytes()).map_err(spilled)?;
        }
    }
    Ok(())
}

impl HostFile {
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// The host.
    pub fn target(&self) -> Result<Vec<u8>, Failure> {
        let target = rustix::fs::readlinkat(&self.directory, &self.name, Vec::new()).map_err(failed)?;
        Ok(target.into_bytes())
    }

    /// The contents of a regular file.
    ///
    /// # Errors
    /// The host.
    pub fn contents(&self) -> Result<HostContents, Failure> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = |flags| rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty());
        let file = match open(flags | OFlags::NOATIME) {
            // Only the owner may leave the access time alone.
            Err(Errno::PERM) => open(flags),
            result => result,
        };
        Ok(HostContents {
            file: file.map_err(failed)?,
            position_bytes: 0,
            data_end_bytes: 0,
            size_bytes: self.facts.size_bytes,
            has_holes: true,
            buffer: Vec::new(),
        })
    }

    /// Gathers the extended attributes.
    ///
    /// # Errors
    /// The host; a temporary file.
    pub fn attributes(&self, has_trusted: bool, sorter: &mut Sorter) -> Result<(), Failure> {
        let directory = format!("/proc/self/fd/{}/", self.directory.as_fd().as_raw_fd());
        let path = [directory.as_bytes(), self.name.as_bytes()].concat();
        let path = path.as_slice();
        let mut names = vec![0; ATTRIBUTE_BYTES];
        let length = match llistxattr(path, names.as_mut_slice()) {
            Ok(length) => length,
            Err(Errno::NOTSUP) => 0,
            Err(error) => return Err(failed(error).about("attributes")),
        };
        let names = names.get(..length).unwrap_or_default();
        let mut value = vec![0; if length > 0 { ATTRIBUTE_BYTES } else { 0 }];
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let shown = name.to_bytes();
            if is_stored_acl(shown) || shown.starts_with(b"trusted.") && !has_trusted {
                continue;
            }
            match lgetxattr(path, name, value.as_mut_slice()) {
                Ok(length) => {
                    let value = value.get(..length).unwrap_or_default();
                    sorter.push(shown, value).map_err(spilled)?;
                }
                // It was removed since it was listed.
                Err(Errno::NODATA) => {}
                Err(error) => {
                    return Err(
                        failed(error).about(format_args!("attribute {}", crate::text::escaped(shown)))
                    );
                }
            }
        }
        Ok(())
    }
}

/// A temporary file's error.
pub(super) fn spilled(error: SpillError) -> Failure {
    Failure::caused_by(&error)
}

/// Reads a file of the host, and leaves its holes out.
#[derive(Debug)]
pub(super) struct HostContents {
    file: OwnedFd,
    position_bytes: u64,
    /// Up to here the file has data.
    data_end_bytes: u64,
    size_bytes: u64,
    /// The host tells where they are.
    has_holes: bool,
    buffer: Vec<u8>,
}

impl HostContents {
    /// Looks where the next data lie; gives the zeros before them.
    fn seek(&mut self) -> Result<u64, Failure> {
        let (begin, end) = (self.position_bytes, self.size_bytes);
        if !self.has_holes {
            self.data_end_bytes = end;
            return Ok(0);
        }
        match rustix::fs::seek(&self.file, SeekFrom::Data(begin)) {
            Ok(data) => {
                let hole = rustix::fs::seek(&self.file, SeekFrom::Hole(data)).map_err(failed)?;
                self.data_end_bytes = hole.min(end);
                Ok(data.min(end).saturating_sub(begin))
            }
            Err(Errno::NXIO) => {
                self.data_end_bytes = end;
                Ok(end.saturating_sub(begin))
            }
            Err(_) => {
                (self.has_holes, self.data_end_bytes) = (false, end);
                Ok(0)
            }
        }
    }
}

impl Pieces for HostContents {
    fn next(&mut self) -> Result<Option<Piece<'_>>, Failure> {
        if self.position_bytes >= self.size_bytes {
            return Ok(None);
        }
        if self.position_bytes >= self.data_end_bytes {
            let zeros = self.seek()?;
            self.position_bytes = self.position_bytes.saturating_add(zeros);
            if zeros > 0 {
                return Ok(Some(Piece::Zeros(zeros)));
            }
        }
        let rest = self.data_end_bytes.saturating_sub(self.position_bytes);
        self.buffer.resize(usize::try_from(rest).map_or(READ_BYTES, |rest| rest.min(READ_BYTES)), 0);
        let read = loop {
            match rustix::io::pread(&self.file, self.buffer.as_mut_slice(), self.position_bytes) {
                Err(Errno::INTR) => {}
                result => break result.map_err(failed)?,
            }
        };
        if read == 0 {
            return Err(Failure::refused(Kind::Changed, "the file became shorter while it was read"));
        }
        self.position_bytes = self.position_bytes.saturating_add(read as u64);
        Ok(Some(Piece::Data(self.buffer.get(..read).unwrap_or_default())))
    }
}

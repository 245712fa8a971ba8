//! A tree as system calls show it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

use anyhow::{Context, Result, ensure};
use rustix::{
    buffer::spare_capacity,
    fs::{self, AtFlags, Dir, FileType as Kind, Mode, OFlags, Stat},
};
use uxfs_testkit::manifest::Bytes;
use uxfs_volume::inode::FileType;

use super::hands::{read_at, through};
use crate::crash::{
    model::Facts,
    tree::{Found, Tree},
};

/// Most bytes of a value, and of a list of names.
const XATTR_BYTES: usize = 64 << 10;

/// Last access, change of contents, change of anything.
pub type Times = [(i64, i64); 3];

/// What a thread has.
#[derive(Debug)]
pub struct Observed {
    /// As the model has it: the directory of the thread and, without names of others, the shared one.
    pub tree: Tree,
    /// By inode.
    pub times: BTreeMap<u64, Times>,
}

/// A directory of which a thread has some names.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Open.
    pub directory: &'a OwnedFd,
    /// Names that begin so are the thread's.
    pub prefix: &'a [u8],
    /// What `..` shall lead to: the model knows no other directory.
    pub above: u64,
}

/// Reads all that names in these directories lead to.
///
/// # Errors
/// The kernel's, or a contradiction.
pub fn observe(top: &OwnedFd, above: u64, shared: Part<'_>) -> Result<Observed> {
    let mut observed = Observed { tree: Tree { files: BTreeMap::new(), digest: 0 }, times: BTreeMap::new() };
    let own = reopen(top)?;
    observed.directory(own, above, None)?;
    observed.directory(reopen(shared.directory)?, shared.above, Some(shared.prefix))?;
    observed.tree.digest =
        observed.tree.files.values().fold(0, |sum: u64, found| sum.wrapping_add(found.facts.digest()));
    Ok(observed)
}

/// What the model has of a shared directory: nothing but names and the links of subdirectories.
pub fn facts_of_shared(inode: u64) -> Facts {
    Facts::new(inode, FileType::Directory, 0, (0, 0))
}

/// A descriptor of its own for the directory, to be read.
pub fn reopen(directory: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat(directory, ".", flags, Mode::empty())?)
}

/// Opens the root of a mount.
///
/// # Errors
/// The kernel's.
pub fn open_path(path: &std::path::Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat(fs::CWD, path, flags, Mode::empty())?)
}

impl Observed {
    fn directory(&mut self, directory: OwnedFd, above: u64, prefix: Option<&[u8]>) -> Result<()> {
        let found = fs::fstat(&directory)?;
        let mut facts = match prefix {
            None => facts(&found, &PathBuf::from(through(&directory)).join("."))?,
            Some(_) => facts_of_shared(found.st_ino),
        };
        facts.names.insert(Bytes(b"..".to_vec()), above);
        self.times.insert(found.st_ino, times(&found));
        let mut subdirectories = Vec::new();
        let mut seen = BTreeSet::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            ensure!(seen.insert(name.to_vec()), "{} is there twice", name.escape_ascii());
            let is_dot = name == b"." || name == b"..";
            if name == b"." {
                ensure!(entry.ino() == found.st_ino, "`.` leads to {}", entry.ino());
            }
            if is_dot || prefix.is_some_and(|prefix| !name.starts_with(prefix)) {
                continue;
            }
            let name = Bytes(name.to_vec());
            let child = self.child(&directory, &name, entry.file_type()).with_context(|| name.to_string())?;
            ensure!(child.st_ino == entry.ino(), "{name}: {} is listed, {} found", entry.ino(), child.st_ino);
            if Kind::from_raw_mode(child.st_mode) == Kind::Directory {
                if prefix.is_some() {
                    facts.links += 1;
                }
                subdirectories.push(name.clone());
            }
            facts.names.insert(name, child.st_ino);
        }
        ensure!(seen.contains(b".".as_slice()) && seen.contains(b"..".as_slice()), "no `.` or `..`");
        self.tree.files.insert(found.st_ino, Found { facts, contents: Vec::new() });
        for name in subdirectories {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let child = fs::openat(&directory, OsStr::from_bytes(&name.0), flags, Mode::empty())?;
            self.directory(child, found.st_ino, None).with_context(|| name.to_string())?;
        }
        Ok(())
    }

    fn child(&mut self, directory: &OwnedFd, name: &Bytes, listed: Kind) -> Result<Stat> {
        let path = OsStr::from_bytes(&name.0);
        let found = fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = Kind::from_raw_mode(found.st_mode);
        ensure!(kind == listed, "{listed:?} is listed, {kind:?} found");
        if kind == Kind::Directory || self.tree.files.contains_key(&found.st_ino) {
            return Ok(found);
        }
        let mut facts = facts(&found, &PathBuf::from(through(directory)).join(path))?;
        let mut contents = Vec::new();
        if kind == Kind::Symlink {
            facts.target = Bytes(fs::readlinkat(directory, path, Vec::new())?.into_bytes());
        }
        if kind == Kind::RegularFile {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = fs::openat(directory, path, flags, Mode::empty())?;
            // More than there should be: a file must not go on behind its end.
            contents = read_at(&file, 0, usize::try_from(found.st_size)? + 1)?;
            ensure!(contents.len() as i64 == found.st_size, "{} bytes of {}", contents.len(), found.st_size);
        }
        self.times.insert(found.st_ino, times(&found));
        self.tree.files.insert(found.st_ino, Found { facts, contents });
        Ok(found)
    }
}

fn times(found: &Stat) -> Times {
    [
        (found.st_atime, found.st_atime_nsec),
        (found.st_mtime, found.st_mtime_nsec),
        (found.st_ctime, found.st_ctime_nsec),
    ]
}

fn facts(found: &Stat, path: &std::path::Path) -> Result<Facts> {
    let kind = FileType::from_mode(found.st_mode as u16).context("a file type")?;
    let mut facts =
        Facts::new(found.st_ino, kind, (found.st_mode & 0o7777) as u16, (found.st_uid, found.st_gid));
    facts.links = u32::try_from(found.st_nlink)?;
    if matches!(kind, FileType::BlockDevice | FileType::CharacterDevice) {
        facts.device = (fs::major(found.st_rdev), fs::minor(found.st_rdev));
    }
    let mut names = Vec::with_capacity(XATTR_BYTES);
    fs::llistxattr(path, spare_capacity(&mut names)).context("names of attributes")?;
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // The kernel's XFS shows access lists in their stored form, too.
        if name.starts_with(b"trusted.SGI_ACL_") {
            continue;
        }
        let mut value = Vec::with_capacity(XATTR_BYTES);
        fs::lgetxattr(path, OsStr::from_bytes(name), spare_capacity(&mut value))
            .with_context(|| format!("attribute {}", name.escape_ascii()))?;
        facts.attributes.insert(Bytes(name.to_vec()), Bytes(value));
    }
    Ok(facts)
}

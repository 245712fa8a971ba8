//! The kernel's word: a manifest of a mounted file system.

use std::{
    collections::BTreeMap,
    ffi::{CStr, OsStr},
    fs::{self, File},
    io::Read,
    mem::MaybeUninit,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, StatxTimestamp, lgetxattr, llistxattr,
    open, statx,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::{
    Attribute, Bytes, Details, DirectoryEntry, Entry, Extent, FileKind, Header, Manifest, Timestamp,
    WHOLE_HASH_LIMIT_BYTES, to_hex,
    xfs_io::{self, Facts},
};

/// One path found by the walk.
struct Found {
    path: Vec<u8>,
    real: PathBuf,
    status: Statx,
    kind: FileKind,
    entries: Option<Vec<DirectoryEntry>>,
}

/// Describes the file system mounted at `root`: an XFS, read-only (reading must not change access times).
///
/// # Errors
/// Any call fails: nothing is left out silently.
pub fn from_mount(root: &Path, header: Header) -> Result<Manifest> {
    describe(root, header, true, Unreadable::Fails)
}

/// As [`from_mount`], of a file system parts of which may be unreadable: [`UNREADABLE`] stands in their place, and what
/// cannot be looked at at all is not there.
///
/// # Errors
/// `xfs_io` says no.
pub fn from_damaged_mount(root: &Path, header: Header) -> Result<Manifest> {
    describe(root, header, true, Unreadable::IsTold)
}

/// Describes a tree on any file system, without what only XFS tells: extents and flags.
///
/// # Errors
/// As [`from_mount`].
pub fn from_tree(root: &Path, header: Header) -> Result<Manifest> {
    describe(root, header, false, Unreadable::Fails)
}

/// Stands for a hash, a target or a value that cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// What becomes of things that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    Fails,
    IsTold,
}

impl Unreadable {
    /// The value, or `instead` where it could not be read and that may be told.
    fn or<T>(self, read: Result<T>, instead: impl FnOnce() -> T) -> Result<T> {
        if self == Self::IsTold { Ok(read.unwrap_or_else(|_| instead())) } else { read }
    }
}

fn describe(root: &Path, header: Header, is_xfs: bool, unreadable: Unreadable) -> Result<Manifest> {
    let mut all = Vec::new();
    walk(root.to_path_buf(), b"/".to_vec(), unreadable, &mut all)?;
    all.sort_by(|a, b| a.path.cmp(&b.path));
    let mut facts = if is_xfs { all_facts(&all)? } else { BTreeMap::new() };
    let mut seen = std::collections::BTreeSet::new();
    let mut entries = Vec::with_capacity(all.len());
    for found in all {
        let inode = found.status.stx_ino;
        let is_first = seen.insert(inode);
        let (path, kind) = (Bytes(found.path.clone()), found.kind);
        let details = match is_first {
            true => Some(Box::new(details(found, facts.remove(&inode), unreadable)?)),
            false => None,
        };
        entries.push(Entry { path, inode: Some(inode), kind, details });
    }
    Ok(Manifest { header, entries })
}

fn walk(real: PathBuf, path: Vec<u8>, unreadable: Unreadable, all: &mut Vec<Found>) -> Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let status = statx(CWD, &real, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
        .with_context(|| format!("cannot stat {}", real.display()));
    let Some(status) = unreadable.or(status.map(Some), || None)? else { return Ok(()) };
    let kind = kind_of(FileType::from_raw_mode(status.stx_mode.into()))?;
    let mut entries = None;
    if kind == FileKind::Directory {
        let names = unreadable.or(read_directory(&real), Vec::new)?;
        for entry in names.iter().filter(|entry| entry.name.0 != b"." && entry.name.0 != b"..") {
            let mut child = path.clone();
            if child.last() != Some(&b'/') {
                child.push(b'/');
            }
            child.extend_from_slice(&entry.name.0);
            walk(real.join(OsStr::from_bytes(&entry.name.0)), child, unreadable, all)?;
        }
        entries = Some(names);
    }
    all.push(Found { path, real, status, kind, entries });
    Ok(())
}

fn kind_of(kind: FileType) -> Result<FileKind> {
    Ok(match kind {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharacterDevice => FileKind::CharacterDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::Unknown => anyhow::bail!("a file of unknown type"),
    })
}

fn read_directory(path: &Path) -> Result<Vec<DirectoryEntry>> {
    let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
    let mut reader = RawDir::new(directory, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        // Some file systems leave it to stat to tell the type.
        let kind = match entry.file_type() {
            FileType::Unknown if name == b"." || name == b".." => FileKind::Directory,
            other => kind_of(other)?,
        };
        entries.push(DirectoryEntry {
            name: name.into(),
            inode: entry.ino(),
            kind,
            next_cookie: entry.next_entry_cookie(),
        });
    }
    Ok(entries)
}

/// Facts of every directory and regular file by `xfs_io`, by inode.
fn all_facts(all: &[Found]) -> Result<BTreeMap<u64, Facts>> {
    let mut facts = BTreeMap::new();
    for kind in [FileKind::Directory, FileKind::Regular] {
        let of_kind = all.iter().filter(|found| found.kind == kind);
        let by_inode: BTreeMap<u64, PathBuf> =
            of_kind.map(|found| (found.status.stx_ino, found.real.clone())).collect();
        let paths: Vec<PathBuf> = by_inode.values().cloned().collect();
        let answers = xfs_io::query(&paths, kind == FileKind::Directory)?;
        facts.extend(by_inode.into_keys().zip(answers));
    }
    Ok(facts)
}

fn details(found: Found, facts: Option<Facts>, unreadable: Unreadable) -> Result<Details> {
    let Found { real, status, kind, entries, .. } = found;
    let is_device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice);
    let sha256 = match kind {
        FileKind::Regular => {
            let hash = hash(&real, status.stx_size, facts.as_ref());
            unreadable.or(hash, || Some(UNREADABLE.to_owned()))?
        }
        _ => None,
    };
    let target = match kind {
        FileKind::Symlink => {
            let target = fs::read_link(&real).map(|target| Bytes::from(target.as_os_str().as_bytes()));
            Some(unreadable.or(target.map_err(Into::into), || UNREADABLE.as_bytes().into())?)
        }
        _ => None,
    };
    Ok(Details {
        mode: status.stx_mode & 0o7777,
        user_id: status.stx_uid,
        group_id: status.stx_gid,
        size_bytes: Some(status.stx_size),
        link_count: Some(status.stx_nlink),
        sectors: Some(status.stx_blocks),
        device: is_device.then_some((status.stx_rdev_major, status.stx_rdev_minor)),
        access_time: Some(time(&status.stx_atime)),
        modification_time: Some(time(&status.stx_mtime)),
        change_time: Some(time(&status.stx_ctime)),
        birth_time: Some(time(&status.stx_btime)),
        sha256,
        extents: facts.as_ref().map(|facts| facts.extents.clone()),
        extent_count: None,
        attribute_extents: facts.as_ref().map(|facts| facts.attribute_extents.clone()),
        target,
        attributes: attributes(&real, unreadable)?,
        flags: facts.and_then(|facts| facts.flags),
        entries,
    })
}

fn time(time: &StatxTimestamp) -> Timestamp {
    Timestamp(time.tv_sec, time.tv_nsec)
}

/// `None` where their names take more than the 64 KiB that the call can return.
fn attributes(path: &Path, unreadable: Unreadable) -> Result<Option<Vec<Attribute>>> {
    let mut names = vec![0; 64 << 10];
    let length = match llistxattr(path, names.as_mut_slice()) {
        Err(Errno::TOOBIG) => return Ok(None),
        other => other.with_context(|| format!("cannot list the attributes of {}", path.display())),
    };
    let Some(length) = unreadable.or(length.map(Some), || None)? else {
        return Ok(Some(vec![Attribute { name: UNREADABLE.as_bytes().into(), value: String::new() }]));
    };
    let mut value = vec![0; 64 << 10];
    let mut all = Vec::new();
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let name = CStr::from_bytes_with_nul(name)?;
        let read = lgetxattr(path, name, value.as_mut_slice())
            .with_context(|| format!("cannot read {name:?} of {}", path.display()));
        let read = read.map(|length| to_hex(&value[..length]));
        let value = unreadable.or(read, || UNREADABLE.to_owned())?;
        all.push(Attribute { name: name.to_bytes().into(), value });
    }
    all.sort();
    Ok(Some(all))
}

/// See [`Details::sha256`]. A large file on a file system that lists no extents has no hash.
fn hash(path: &Path, size: u64, facts: Option<&Facts>) -> Result<Option<String>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut hash = Sha256::new();
    if size <= WHOLE_HASH_LIMIT_BYTES {
        hash_range(&file, 0, size, &mut hash)?;
    } else if let Some(facts) = facts {
        for (offset, length) in written_runs(&facts.extents, size) {
            hash.update(offset.to_le_bytes());
            hash.update(length.to_le_bytes());
            hash_range(&file, offset, length, &mut hash)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(to_hex(&hash.finalize())))
}

/// Runs of written extents that continue each other in the file, cut at `size`.
pub fn written_runs(extents: &[Extent], size: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for extent in extents.iter().filter(|extent| !extent.unwritten && extent.offset_bytes < size) {
        let length = extent.length_bytes.min(size - extent.offset_bytes);
        match runs.last_mut() {
            Some((start, run)) if *start + *run == extent.offset_bytes => *run += length,
            _ => runs.push((extent.offset_bytes, length)),
        }
    }
    runs
}

fn hash_range(file: &File, offset: u64, length: u64, hash: &mut Sha256) -> Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let want = usize::try_from((end - at).min(buffer.len() as u64))?;
        let got = file.read_at(&mut buffer[..want], at)?;
        ensure!(got > 0, "a file ends before its size");
        hash.update(&buffer[..got]);
        at += got as u64;
    }
    let mut rest = [0; 1];
    ensure!(length != 0 || (&mut &*file).read(&mut rest)? == 0, "an empty file has contents");
    Ok(())
}

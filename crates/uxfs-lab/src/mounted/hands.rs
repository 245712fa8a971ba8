//! Hands of a thread: its actions as system calls.
//!
//! Every path is relative to a directory that was opened when the mount was fresh, or leads through such a descriptor. So no call
//! can reach the directory beneath after a dead mount has been taken away.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{self, IoSlice},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::PathBuf,
};

use rustix::{
    fd::{AsFd, AsRawFd},
    fs::{
        self, AtFlags, FallocateFlags, FileType as Kind, Gid, Mode, OFlags, RenameFlags, Timespec,
        Timestamps, Uid, XattrFlags,
    },
    io::{Errno, ReadWriteFlags},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use uxfs_volume::inode::FileType;

use super::{
    action::{Action, Call, USER, Way},
    mapping::Mapping,
};
use crate::crash::{
    contents::{Origin, pattern},
    model::{Model, Outcome},
    workload::{NewFile, NodeId, ROOT, RenameHow, Reshape},
};

/// Mappings that are kept, so that pages stay dirty after the file was closed.
const KEPT_MAPPINGS: usize = 3;

/// Directories and open files of a thread.
#[derive(Debug)]
pub struct Hands {
    /// The directory of the thread.
    pub top: OwnedFd,
    /// The directory of all, and its number in the model.
    pub shared: (OwnedFd, NodeId),
    open: HashMap<NodeId, OwnedFd>,
    mappings: Vec<Mapping>,
}

type Done<T> = Result<T, Errno>;

impl Hands {
    /// With nothing open.
    pub fn new(top: OwnedFd, shared: (OwnedFd, NodeId)) -> Self {
        Self { top, shared, open: HashMap::new(), mappings: Vec::new() }
    }

    /// A directory, to be used in paths.
    pub fn directory(&self, model: &Model, node: NodeId) -> Done<OwnedFd> {
        let mut names = Vec::new();
        let mut at = node;
        while at != ROOT && at != self.shared.1 {
            let parent = model.node(at).ok_or(Errno::NOENT)?.parent;
            let children = &model.node(parent).ok_or(Errno::NOENT)?.children;
            let name = children.iter().find(|(_, child)| **child == at).ok_or(Errno::NOENT)?.0;
            names.push(name.as_slice());
            at = parent;
        }
        let path: PathBuf = names.iter().rev().map(|name| OsStr::from_bytes(name)).collect();
        let path = if names.is_empty() { PathBuf::from(".") } else { path };
        let base = if at == ROOT { &self.top } else { &self.shared.0 };
        fs::openat(base, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    /// A directory that a name of the file is in, and the name.
    pub fn place(&self, model: &Model, node: NodeId) -> Done<(OwnedFd, PathBuf)> {
        if node == ROOT || node == self.shared.1 {
            return Ok((self.directory(model, node)?, ".".into()));
        }
        let (parent, name) = name_of(model, node).ok_or(Errno::NOENT)?;
        Ok((self.directory(model, parent)?, OsStr::from_bytes(name).into()))
    }

    /// Opens a file or directory, also one that has lost its names and is open.
    pub fn opened(&self, model: &Model, node: NodeId, more: OFlags) -> Done<OwnedFd> {
        if let Some(file) = self.open.get(&node) {
            if more.is_empty() {
                return rustix::io::dup(file);
            }
            return fs::open(through(file), OFlags::RDWR | OFlags::CLOEXEC | more, Mode::empty());
        }
        let is_directory = model.node(node).is_some_and(|found| found.kind() == FileType::Directory);
        let access = if is_directory { OFlags::RDONLY | OFlags::DIRECTORY } else { OFlags::RDWR };
        let (parent, name) = self.place(model, node)?;
        fs::openat(parent, name, access | OFlags::NOFOLLOW | OFlags::CLOEXEC | more, Mode::empty())
    }

    /// Does it. `number` names the bytes that are written.
    ///
    /// # Errors
    /// The kernel's.
    pub fn perform(&mut self, action: &Action, model: &Model, number: usize) -> Done<Outcome> {
        match &action.call {
            Call::Create { .. } | Call::Temporary { .. } | Call::Link { .. } => self.make(action, model),
            Call::Remove { .. } | Call::Rename { .. } => self.move_name(&action.call, model),
            Call::Chmod { .. } | Call::Chown { .. } | Call::SetTimes { .. } => {
                self.set_attributes(action, model)
            }
            Call::SetXattr { .. } | Call::RemoveXattr { .. } => self.set_xattr(&action.call, model),
            Call::Open { node } => {
                let file = self.opened(model, *node, OFlags::empty())?;
                self.open.insert(*node, file);
                Ok(Outcome::default())
            }
            Call::Close { node } => {
                self.open.remove(node);
                Ok(Outcome::default())
            }
            Call::Sync { node, only_data } => {
                let file = self.opened(model, *node, OFlags::empty())?;
                if *only_data { fs::fdatasync(file) } else { fs::fsync(file) }.map(|()| Outcome::default())
            }
            Call::Read { .. } | Call::List { .. } | Call::Look { .. } | Call::Refused { .. } => {
                Ok(Outcome::default())
            }
            _ => self.change_contents(action, model, number),
        }
    }

    fn make(&mut self, action: &Action, model: &Model) -> Done<Outcome> {
        let new = model.made() as NodeId;
        match &action.call {
            Call::Create { parent, name, file, mode } => {
                let directory = self.directory(model, *parent)?;
                let name = OsStr::from_bytes(name);
                let mode = Mode::from_raw_mode((*mode).into());
                if *file == NewFile::Regular {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                    let made = action.run(|| fs::openat(&directory, name, flags, mode))?;
                    let inode = Some(fs::fstat(&made)?.st_ino);
                    return Ok(Outcome { inode, written: None });
                }
                action.run(|| match file {
                    NewFile::Directory => fs::mkdirat(&directory, name, mode),
                    NewFile::Symlink(target) => fs::symlinkat(OsStr::from_bytes(target), &directory, name),
                    NewFile::Device(major, minor) => {
                        let device = fs::makedev(*major, *minor);
                        fs::mknodat(&directory, name, Kind::BlockDevice, mode, device)
                    }
                    _ => fs::mknodat(&directory, name, Kind::Fifo, mode, 0),
                })?;
                let found = fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Outcome { inode: Some(found.st_ino), written: None })
            }
            Call::Temporary { parent, mode } => {
                let directory = self.directory(model, *parent)?;
                let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode((*mode).into());
                let made = action.run(|| fs::openat(&directory, ".", flags, mode))?;
                let inode = Some(fs::fstat(&made)?.st_ino);
                self.open.insert(new, made);
                Ok(Outcome { inode, written: None })
            }
            Call::Link { node, parent, name } => {
                let directory = self.directory(model, *parent)?;
                let name = OsStr::from_bytes(name);
                match self.open.get(node) {
                    Some(file) => {
                        fs::linkat(fs::CWD, through(file), directory, name, AtFlags::SYMLINK_FOLLOW)
                    }
                    None => {
                        let (from, old) = self.place(model, *node)?;
                        fs::linkat(from, old, directory, name, AtFlags::empty())
                    }
                }?;
                Ok(Outcome::default())
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn move_name(&self, call: &Call, model: &Model) -> Done<Outcome> {
        match call {
            Call::Remove { parent, name } => {
                let child = model.node(*parent).and_then(|found| found.children.get(name));
                let child = child.and_then(|child| model.node(*child)).ok_or(Errno::NOENT)?;
                let is_directory = child.kind() == FileType::Directory;
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                fs::unlinkat(self.directory(model, *parent)?, OsStr::from_bytes(name), flags)?;
                Ok(Outcome::default())
            }
            Call::Rename { parent, name, new_parent, new_name, how } => {
                let (from, to) = (self.directory(model, *parent)?, self.directory(model, *new_parent)?);
                let [old, new] = [name, new_name].map(|name| OsStr::from_bytes(name));
                let flags = match how {
                    RenameHow::Replace => RenameFlags::empty(),
                    RenameHow::NoReplace => RenameFlags::NOREPLACE,
                    RenameHow::Exchange => RenameFlags::EXCHANGE,
                    RenameHow::Whiteout => RenameFlags::WHITEOUT,
                };
                fs::renameat_with(&from, old, &to, new, flags)?;
                if *how != RenameHow::Whiteout {
                    return Ok(Outcome::default());
                }
                let left = fs::statat(&from, old, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Outcome { inode: Some(left.st_ino), written: None })
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn set_attributes(&self, action: &Action, model: &Model) -> Done<Outcome> {
        match &action.call {
            Call::Chmod { node, mode } => {
                let mode = Mode::from_raw_mode((*mode).into());
                match self.open.get(node) {
                    Some(file) => action.run(|| fs::fchmod(file, mode))?,
                    None if action.is_by_user => {
                        let file = self.opened(model, *node, OFlags::empty())?;
                        action.run(|| fs::fchmod(&file, mode))?;
                    }
                    None => {
                        let (parent, name) = self.place(model, *node)?;
                        action.run(|| fs::chmodat(&parent, &name, mode, AtFlags::empty()))?;
                    }
                }
            }
            Call::Chown { node, owner: (user, group) } => {
                let (user, group) = (Some(Uid::from_raw(*user)), Some(Gid::from_raw(*group)));
                match self.open.get(node) {
                    Some(file) => fs::fchown(file, user, group)?,
                    None => {
                        let (parent, name) = self.place(model, *node)?;
                        fs::chownat(parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
                    }
                }
            }
            Call::SetTimes { node, access, modification } => {
                let time =
                    |(tv_sec, nanoseconds): (i64, u32)| Timespec { tv_sec, tv_nsec: nanoseconds.into() };
                let times = Timestamps { last_access: time(*access), last_modification: time(*modification) };
                match self.open.get(node) {
                    Some(file) => fs::futimens(file, &times)?,
                    None => {
                        let (parent, name) = self.place(model, *node)?;
                        fs::utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                    }
                }
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(Outcome::default())
    }

    fn set_xattr(&self, call: &Call, model: &Model) -> Done<Outcome> {
        let (Call::SetXattr { node, name, .. } | Call::RemoveXattr { node, name }) = call else {
            return Err(Errno::INVAL);
        };
        let found = model.node(*node).ok_or(Errno::NOENT)?;
        let value = if let Call::SetXattr { value, .. } = call { Some(value) } else { None };
        let is_there = found.attributes().contains_key(&uxfs_testkit::manifest::Bytes(name.clone()));
        let is_acl = name.starts_with(b"system.");
        let flags = match (is_there, number_of(name) % 3) {
            _ if is_acl => XattrFlags::empty(),
            (true, 0) => XattrFlags::REPLACE,
            (false, 1) => XattrFlags::CREATE,
            _ => XattrFlags::empty(),
        };
        let name = OsStr::from_bytes(name);
        if matches!(found.kind(), FileType::Regular | FileType::Directory) {
            let file = self.opened(model, *node, OFlags::empty())?;
            match value {
                Some(value) => fs::fsetxattr(file, name, value, flags),
                None => fs::fremovexattr(file, name),
            }?;
        } else {
            let (parent, file) = self.place(model, *node)?;
            let path = PathBuf::from(through(&parent)).join(file);
            match value {
                Some(value) => fs::lsetxattr(path, name, value, flags),
                None => fs::lremovexattr(path, name),
            }?;
        }
        Ok(Outcome::default())
    }

    fn change_contents(&mut self, action: &Action, model: &Model, number: usize) -> Done<Outcome> {
        match action.call {
            Call::Write { node, offset, length, way } => {
                let origin = Origin { file: model.written_number(node), version: number as u32 + 1, offset };
                let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::INVAL)?];
                pattern(origin, &mut bytes);
                if way == Way::Mapped {
                    return self.write_mapped(model, node, offset, &bytes);
                }
                let more = if way == Way::Direct { OFlags::DIRECT } else { OFlags::empty() };
                let file = self.opened(model, node, more)?;
                action.run(|| write_all(&file, offset, &bytes, way))?;
            }
            Call::Truncate { node, size } => {
                let file = self.opened(model, node, OFlags::empty())?;
                action.run(|| fs::ftruncate(&file, size))?;
            }
            Call::Reshape { node, how, offset, length } => {
                let flags = match how {
                    Reshape::Allocate => FallocateFlags::empty(),
                    Reshape::AllocateKeepSize => FallocateFlags::KEEP_SIZE,
                    Reshape::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    Reshape::Zero => FallocateFlags::ZERO_RANGE,
                    Reshape::Collapse | Reshape::Insert => return Err(Errno::INVAL),
                };
                let file = self.opened(model, node, OFlags::empty())?;
                action.run(|| fs::fallocate(&file, flags, offset, length))?;
            }
            Call::Copy { source, mut source_offset, target, mut target_offset, length } => {
                let from = self.opened(model, source, OFlags::empty())?;
                let to = self.opened(model, target, OFlags::empty())?;
                let mut left = usize::try_from(length).map_err(|_| Errno::INVAL)?;
                while left > 0 {
                    let (at, other) = (Some(&mut source_offset), Some(&mut target_offset));
                    match action.run(|| fs::copy_file_range(&from, at, &to, other, left))? {
                        0 => return Err(Errno::NODATA),
                        count => left -= count,
                    }
                }
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(Outcome::default())
    }

    fn write_mapped(&mut self, model: &Model, node: NodeId, offset: u64, bytes: &[u8]) -> Done<Outcome> {
        let file = self.opened(model, node, OFlags::empty())?;
        let mapping = Mapping::new(&file, offset, bytes.len() as u64)?;
        drop(file);
        mapping.write(offset, bytes).map_err(|error| errno_of(&error))?;
        if self.mappings.len() >= KEPT_MAPPINGS {
            self.mappings.remove(0);
        }
        self.mappings.push(mapping);
        Ok(Outcome::default())
    }

    /// Closes all files, and ends all mappings.
    pub fn let_go(&mut self) {
        self.open.clear();
        self.mappings.clear();
    }
}

impl Action {
    /// Runs a system call as its caller.
    pub fn run<T>(&self, call: impl FnOnce() -> Done<T>) -> Done<T> {
        if !self.is_by_user {
            return call();
        }
        become_caller(USER)?;
        let done = call();
        become_caller(0)?;
        done
    }
}

/// Only this thread changes.
fn become_caller(number: u32) -> Done<()> {
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    if number == 0 {
        set_thread_res_uid(None, user, None)?;
        return set_thread_res_gid(None, group, None);
    }
    // Of the groups of a caller a mount learns the first one only.
    set_thread_groups(&[])?;
    set_thread_res_gid(None, group, None)?;
    set_thread_res_uid(None, user, None)
}

fn write_all(file: &OwnedFd, mut offset: u64, mut bytes: &[u8], way: Way) -> Done<()> {
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        let count = match way {
            Way::Append => rustix::io::pwritev2(file, &slices, 0, ReadWriteFlags::APPEND),
            Way::Synchronous => rustix::io::pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC),
            _ => rustix::io::pwrite(file, bytes, offset),
        }?;
        offset += count as u64;
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// A path that leads through a descriptor.
pub fn through(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// A directory and the name in it that lead to the file.
pub fn name_of(model: &Model, node: NodeId) -> Option<(NodeId, &[u8])> {
    model.nodes().find_map(|(id, directory)| {
        let name = directory.children.iter().find(|(_, child)| **child == node)?.0;
        Some((id, name.as_slice()))
    })
}

/// The system's error behind an error of the library.
pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn number_of(name: &[u8]) -> u32 {
    name.iter().fold(0, |sum, byte| sum + u32::from(*byte))
}

/// Reads all that is asked for, or up to the end of the file.
pub fn read_at(file: &OwnedFd, offset: u64, length: usize) -> Done<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut done = 0;
    while done < length {
        let rest = bytes.get_mut(done..).unwrap_or_default();
        match rustix::io::pread(file, rest, offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

//! Carries out the steps.

use std::{
    collections::HashSet,
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{Dir, Mode, OFlags, ftruncate, open},
    io::{Errno, pwrite},
};

use uxfs_block::preload;

use super::{
    create::OutputName,
    encoder::{DirectoryEncoder, OwnedEntry, Record, RecordKind},
    levels::Levels,
    restore::{Handle, Wanted, has_default_acl, restore},
};
use crate::{
    chunk::{Buffer, Chunk},
    entry::{Attribute, Metadata, Special, Timestamp, last_component},
    report::{Aspect, Counts, Observer, Problem, Severity},
    sink::{Sink, SinkError},
};

/// How to write into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectoryOptions {
    /// Replace existing files. Existing directories are kept in any case, and filled.
    pub overwrite: bool,
}

/// A directory that waits for its contents.
#[derive(Debug)]
struct Pending {
    metadata: Metadata,
    attributes: Vec<Attribute>,
    /// Length of the path above, for messages.
    parent_path_bytes: usize,
    /// The place of extraction keeps its own owner, mode and times when it held something before.
    is_ours: bool,
    /// New files in here inherit a default ACL that was here before.
    gives_acl: bool,
    /// So did the directory itself.
    inherited_acl: bool,
}

#[derive(Debug)]
struct OpenFile {
    descriptor: OwnedFd,
    entry: OwnedEntry,
}

/// Writes files below a directory.
#[derive(Debug)]
pub struct DirectorySink {
    options: DirectoryOptions,
    levels: Levels<Pending>,
    /// Path of the current directory, for messages.
    path: Vec<u8>,
    /// The place of extraction was made by us or was empty.
    is_fresh: bool,
    root_gives_acl: bool,
    /// Depth below a directory that could not be made; 0 outside of such.
    skipped_depth: u64,
    file: Option<OpenFile>,
    /// Files with several names that were not made: nothing may be linked to what lies in their place.
    failed: HashSet<u64>,
    counts: Counts,
}

impl DirectorySink {
    /// Opens the directory at `path`, or makes it where it is missing.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn create(path: &Path, options: DirectoryOptions) -> Result<Self, SinkError> {
        Self::open(path, options).map_err(|source| SinkError { path: path_bytes(path), source })
    }

    fn open(path: &Path, options: DirectoryOptions) -> io::Result<Self> {
        preload::check().map_err(io::Error::other)?;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let root = open(path, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut is_fresh = true;
        for name in Dir::read_from(&root)? {
            is_fresh &= matches!(name?.file_name().to_bytes(), b"." | b"..");
        }
        let root_gives_acl = has_default_acl(root.as_fd());
        Ok(Self {
            options,
            levels: Levels::new(root),
            path: Vec::new(),
            is_fresh,
            root_gives_acl,
            skipped_depth: 0,
            file: None,
            failed: HashSet::new(),
            counts: Counts::default(),
        })
    }

    /// Whether a file is open, and takes data: it could be made.
    pub fn has_open_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the directory that was begun last could not be made, so that all in it is passed over.
    pub fn is_skipping(&self) -> bool {
        self.skipped_depth > 0
    }

    /// Whether the current directory has a regular file `name` of this size and modification time.
    pub fn has_same_file(&self, name: &[u8], size_bytes: u64, modified: Timestamp) -> bool {
        self.in_current(name).is_ok_and(|place| place.is_file_of(size_bytes, modified))
    }

    /// Whether something has this name in the current directory, as the file system compares names.
    pub fn has(&self, name: &[u8]) -> bool {
        self.in_current(name).is_ok_and(OutputName::is_taken)
    }

    /// Gives a file of the current directory another name, which must be free.
    ///
    /// # Errors
    /// It is not free; the file system.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        self.in_current(from)?.rename(to)
    }

    /// Removes a file from the current directory, if there is one.
    ///
    /// # Errors
    /// The file system; a directory.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        match self.in_current(name)?.unlink() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn in_current<'a>(&'a self, name: &'a [u8]) -> io::Result<OutputName<'a>> {
        OutputName::new(self.levels.current(), name)
    }

    fn gives_acl(&self) -> bool {
        self.levels.pending().map_or(self.root_gives_acl, |pending| pending.gives_acl)
    }

    /// Carries out one step. Errors are those that concern this one file; the caller sorts out the fatal ones.
    fn step(
        &mut self,
        step: &RecordKind,
        bytes: &Buffer,
        observer: &mut dyn Observer,
    ) -> Result<(), SinkError> {
        if self.skip(step) {
            return Ok(());
        }
        match step {
            RecordKind::BeginDirectory(entry) => {
                let result = self.begin_directory(entry);
                self.skipped_depth = u64::from(result.is_err());
                self.settle(entry, Aspect::Directory, result, observer)
            }
            RecordKind::EndDirectory => {
                self.end_directory(observer).map_err(|source| SinkError { path: self.path.clone(), source })
            }
            RecordKind::BeginFile { entry, size_bytes } => {
                let result = self.begin_file(entry, *size_bytes);
                self.settle(entry, Aspect::Existence, result, observer)
            }
            RecordKind::Data { offset_bytes, span } => {
                self.write_data(*offset_bytes, bytes.span(span.clone()), observer)
            }
            RecordKind::EndFile => {
                self.end_file(observer);
                Ok(())
            }
            RecordKind::Symlink { entry, target } => {
                let result = self.make_symlink(entry, target, observer);
                self.settle(entry, Aspect::Existence, result, observer)
            }
            RecordKind::HardLink { entry, target, is_device } => {
                let result = self.make_link(entry, target);
                let aspect = if *is_device { Aspect::Device } else { Aspect::HardLink };
                self.settle(entry, aspect, result, observer)
            }
            RecordKind::Special { entry, special } => {
                let result = self.make_special(entry, *special, observer);
                let is_device = matches!(special, Special::CharacterDevice(_) | Special::BlockDevice(_));
                let aspect = if is_device { Aspect::Device } else { Aspect::Existence };
                self.settle(entry, aspect, result, observer)
            }
        }
    }

    /// Passes over what lies below a directory that could not be made.
    fn skip(&mut self, step: &RecordKind) -> bool {
        if self.skipped_depth == 0 {
            return false;
        }
        match step {
            RecordKind::BeginDirectory(_) => self.skipped_depth += 1,
            RecordKind::EndDirectory => self.skipped_depth -= 1,
            RecordKind::BeginFile { entry, .. }
            | RecordKind::Symlink { entry, .. }
            | RecordKind::Special { entry, .. } => {
                self.remember_failed(entry);
            }
            RecordKind::Data { .. } | RecordKind::EndFile | RecordKind::HardLink { .. } => {}
        }
        true
    }

    fn remember_failed(&mut self, entry: &OwnedEntry) {
        if entry.metadata.link_count > 1 {
            self.failed.insert(entry.metadata.inode);
        }
    }

    /// Tells what went wrong with one file; ends the work where all others would meet the same.
    fn settle(
        &mut self,
        entry: &OwnedEntry,
        aspect: Aspect,
        result: io::Result<()>,
        observer: &mut dyn Observer,
    ) -> Result<(), SinkError> {
        let Err(source) = result else { return Ok(()) };
        if is_fatal(&source) {
            return Err(SinkError { path: entry.path.clone(), source });
        }
        self.remember_failed(entry);
        observer.problem(Problem::new(&entry.path, Severity::Failed, aspect, source));
        Ok(())
    }

    fn place<'a>(&'a self, entry: &'a OwnedEntry) -> io::Result<OutputName<'a>> {
        OutputName::new(self.levels.current(), last_component(&entry.path))
    }

    fn begin_directory(&mut self, entry: &OwnedEntry) -> io::Result<()> {
        let is_root = entry.path.is_empty();
        let is_made = if is_root {
            self.is_fresh
        } else {
            self.place(entry)?.make_directory(self.options.overwrite)?
        };
        let inherited_acl = is_made && !is_root && self.gives_acl();
        let mut pending = Pending {
            metadata: entry.metadata,
            attributes: entry.attributes.clone(),
            parent_path_bytes: self.path.len(),
            is_ours: !is_root || self.is_fresh,
            gives_acl: inherited_acl,
            inherited_acl,
        };
        if is_root {
            pending.gives_acl = self.root_gives_acl;
            pending.inherited_acl = self.root_gives_acl && self.is_fresh;
            self.levels.enter_root(pending)?;
        } else {
            self.levels.enter(last_component(&entry.path), pending)?;
            if !is_made {
                let gives_acl = has_default_acl(self.levels.current());
                self.levels.pending_mut().into_iter().for_each(|pending| pending.gives_acl = gives_acl);
            }
        }
        self.path.clone_from(&entry.path);
        self.counts.directories += 1;
        Ok(())
    }

    fn end_directory(&mut self, observer: &mut dyn Observer) -> io::Result<()> {
        if let Some((descriptor, pending)) = self.levels.leave()? {
            if pending.is_ours {
                let wanted = Wanted {
                    path: &self.path,
                    metadata: &pending.metadata,
                    attributes: &pending.attributes,
                    is_directory: true,
                    inherited_acl: pending.inherited_acl,
                };
                restore(&Handle::Open(descriptor.as_fd()), &wanted, observer);
            }
            self.path.truncate(pending.parent_path_bytes);
        }
        Ok(())
    }

    fn begin_file(&mut self, entry: &OwnedEntry, size_bytes: u64) -> io::Result<()> {
        self.file = None;
        let descriptor = self.place(entry)?.make_file(self.options.overwrite)?;
        // Now, so that what is not written later is a hole.
        if size_bytes > 0
            && let Err(error) = ftruncate(&descriptor, size_bytes)
        {
            // It was made just now, and would pass for an empty file.
            let _ = self.place(entry)?.unlink();
            return Err(match error {
                Errno::FBIG => io::Error::new(io::ErrorKind::FileTooLarge, TooLarge(size_bytes)),
                error => error.into(),
            });
        }
        self.file = Some(OpenFile { descriptor, entry: entry.clone() });
        Ok(())
    }

    fn write_data(
        &mut self,
        offset_bytes: u64,
        bytes: &[u8],
        observer: &mut dyn Observer,
    ) -> Result<(), SinkError> {
        let Some(file) = &self.file else { return Ok(()) };
        let result = write_all_at(&file.descriptor, bytes, offset_bytes);
        if result.is_ok() {
            return Ok(());
        }
        let entry = file.entry.clone();
        self.file = None;
        self.settle(&entry, Aspect::Contents, result, observer)
    }

    fn end_file(&mut self, observer: &mut dyn Observer) {
        if let Some(file) = self.file.take() {
            restore(&Handle::Open(file.descriptor.as_fd()), &self.wanted(&file.entry), observer);
            self.counts.files += 1;
        }
    }

    fn wanted<'a>(&self, entry: &'a OwnedEntry) -> Wanted<'a> {
        Wanted {
            path: &entry.path,
            metadata: &entry.metadata,
            attributes: &entry.attributes,
            is_directory: false,
            inherited_acl: self.gives_acl(),
        }
    }

    fn make_symlink(
        &mut self,
        entry: &OwnedEntry,
        target: &[u8],
        observer: &mut dyn Observer,
    ) -> io::Result<()> {
        let place = self.place(entry)?;
        place.make_symlink(target, self.options.overwrite)?;
        restore(&Handle::named(place, true)?, &self.wanted(entry), observer);
        self.counts.symlinks += 1;
        Ok(())
    }

    fn make_special(
        &mut self,
        entry: &OwnedEntry,
        special: Special,
        observer: &mut dyn Observer,
    ) -> io::Result<()> {
        let place = self.place(entry)?;
        place.make_special(special, self.options.overwrite)?;
        restore(&Handle::named(place, false)?, &self.wanted(entry), observer);
        self.counts.specials += 1;
        Ok(())
    }

    fn make_link(&mut self, entry: &OwnedEntry, target: &[u8]) -> io::Result<()> {
        if self.failed.contains(&entry.metadata.inode) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its first name could not be made"));
        }
        let directory = self.levels.open_parent_of(target)?;
        let target = OutputName::new(directory.as_fd(), last_component(target))?;
        self.place(entry)?.make_link(target, self.options.overwrite)?;
        self.counts.hard_links += 1;
        Ok(())
    }
}

/// A size that the file system of the target refuses.
#[derive(Debug, thiserror::Error)]
#[error("a file of {0} bytes is larger than the target can hold; an archive (--tar) takes it")]
struct TooLarge(u64);

/// Whether every other file would fail in the same way.
fn is_fatal(error: &io::Error) -> bool {
    let fatal =
        [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| fatal.contains(&errno))
}

fn write_all_at(descriptor: &OwnedFd, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
    let (mut rest, mut offset) = (bytes, offset_bytes);
    while !rest.is_empty() {
        let written = match pwrite(descriptor, rest, offset) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        rest = rest.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

impl Sink for DirectorySink {
    type Record = Record;
    type Encoder = DirectoryEncoder;

    fn encoder(&self) -> DirectoryEncoder {
        DirectoryEncoder
    }

    fn write(&mut self, chunk: &Chunk<Record>, observer: &mut dyn Observer) -> Result<(), SinkError> {
        self.counts = chunk.counts;
        for Record(step) in &chunk.records {
            self.step(step, &chunk.bytes, observer)?;
        }
        observer.progress(&self.counts);
        Ok(())
    }

    fn finish(&mut self, _: &mut dyn Observer) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;

//! An image that is open for changes.
//!
//! | module | holds |
//! |---|---|
//! | `options` | how it is opened, and what changes of a file |
//! | `edited_file` | a file of it |

mod edited_file;
mod options;

use std::{fmt, io::Read, ops::ControlFlow, path::Path, sync::Arc};

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions, set_attributes::AttributeChanges},
};
use uxfs_format::inode::DeviceNumber;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::{Error as InternalError, OperationError},
};

use crate::{Device, Error, FileType, Metadata, Result, editor_path, error::About};

pub use edited_file::EditedFile;
pub use options::{Changes, EditorOptions};

/// Bytes that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;
/// Names of a directory that are read at once.
const BATCH: usize = 256;
/// The attribute by which a program has rights of its own: new contents must not have them.
const CAPABILITY: &[u8] = b"security.capability";

/// An image, or block device, that is open for changes, by this program alone.
///
/// A dirty log is replayed first. Changes go through the log: each operation is made whole or not at all, whatever happens.
/// [`sync`](Self::sync) makes durable what has been done so far, and [`close`](Self::close) everything. An editor that is dropped
/// without being closed leaves a log that the next one replays; what was done since the last `sync` may be missing then.
///
/// New files belong to root unless [`change`](Self::change) says otherwise.
pub struct Editor {
    filesystem: Arc<FileSystem>,
}

impl Editor {
    /// Opens the image, or block device, at `path` for changes.
    ///
    /// # Errors
    /// As [`EditorOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        EditorOptions::default().open(path)
    }

    /// The metadata of the file at `path`, as `stat` gives it.
    ///
    /// # Errors
    /// Nothing is there; damage; the device.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.metadata_of(path.as_ref(), true)
    }

    /// As [`metadata`](Self::metadata), but of a symbolic link itself.
    ///
    /// # Errors
    /// As there.
    pub fn link_metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata> {
        self.metadata_of(path.as_ref(), false)
    }

    fn metadata_of(&self, path: &[u8], follows_last: bool) -> Result<Metadata> {
        let status = self.handle(path, follows_last).and_then(|file| self.filesystem.stat(&file));
        let status = status.about_path(path)?;
        Ok(Metadata::of_status(&status, self.filesystem.geometry().block_size_bytes))
    }

    /// The names in the directory at `path`, without `.` and `..`, in the order of the directory.
    ///
    /// # Errors
    /// Not a directory; damage; the device.
    pub fn names(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let path = path.as_ref();
        let directory = self.handle(path, true).about_path(path)?;
        let mut names = Vec::new();
        let read = self.filesystem.read_entries(&directory, 0, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        });
        read.about_path(path)?;
        Ok(names)
    }

    /// The target of the symbolic link at `path`.
    ///
    /// # Errors
    /// Nothing is there, or no symbolic link; damage; the device.
    pub fn link_target(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.handle(path, false).and_then(|link| self.filesystem.read_link(&link)).about_path(path)
    }

    /// Makes an empty file, and opens it.
    ///
    /// # Errors
    /// The name exists; no space; damage; the device.
    pub fn create(&self, path: impl AsRef<[u8]>, permissions: u16) -> Result<EditedFile<'_>> {
        let handle = self.make(path.as_ref(), &NewFile::new(NewKind::Regular, permissions))?;
        Ok(EditedFile { editor: self, handle, position_bytes: 0 })
    }

    /// Opens a regular file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// use std::io::{Read, Seek, SeekFrom, Write};
    ///
    /// let editor = uxfs::Editor::open(&path)?;
    /// editor.write("/log", b"one\n")?;
    /// let mut log = editor.open_file("/log")?;
    /// log.seek(SeekFrom::End(0))?;
    /// log.write_all(b"two\n")?;
    /// log.rewind()?;
    /// let mut text = String::new();
    /// log.read_to_string(&mut text)?;
    /// assert_eq!(text, "one\ntwo\n");
    /// editor.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing is there, or no regular file; damage; the device.
    pub fn open_file(&self, path: impl AsRef<[u8]>) -> Result<EditedFile<'_>> {
        let path = path.as_ref();
        let handle = self.handle(path, true).about_path(path)?;
        // Refuses everything but regular files.
        self.filesystem.read(&handle, 0, &mut []).about_path(path)?;
        Ok(EditedFile { editor: self, handle, position_bytes: 0 })
    }

    /// Gives the file at `path` these contents; makes it, with permissions 0644, where there is none.
    ///
    /// A file is complete before its name leads to it, and new contents before they take the place of old ones, which one
    /// transaction does. (Where the file system has no exchange intents and the contents lie in very many extents, a crash may
    /// find a part of them.)
    ///
    /// # Errors
    /// No space: then everything is as before; something else than a regular file is there; damage; the device.
    pub fn write(&self, path: impl AsRef<[u8]>, contents: &[u8]) -> Result<()> {
        let mut contents = contents;
        self.write_from(path, &mut contents)
    }

    /// As [`write`](Self::write), with contents that are read until they end.
    ///
    /// # Errors
    /// As there; an error of the reader.
    pub fn write_from(&self, path: impl AsRef<[u8]>, contents: &mut impl Read) -> Result<()> {
        let path = path.as_ref();
        let existing = match self.handle(path, true) {
            Ok(existing) => Some(existing),
            Err(InternalError::Operation(OperationError::NotFound)) => None,
            Err(error) => return Err(error).about_path(path),
        };
        let (directory, name) = editor_path::open_directory_of(&self.filesystem, path).about_path(path)?;
        if let Some(existing) = &existing {
            self.filesystem.read(existing, 0, &mut []).about_path(path)?;
        }
        let new = NewFile::new(NewKind::Regular, 0o644);
        let fresh =
            self.filesystem.create_temporary(&directory, &new, existing.is_none()).about_path(path)?;
        self.fill(&fresh, contents).about_path(path)?;
        match existing {
            None => self.filesystem.link(&fresh, &directory, name).about_path(path),
            Some(existing) => self.take_contents(&fresh, &existing).about_path(path),
        }
    }

    /// Writes what a reader gives to an empty file.
    fn fill(&self, file: &InodeHandle, contents: &mut impl Read) -> Result<()> {
        let mut piece = Vec::with_capacity(PIECE_BYTES.min(64 << 10));
        let mut offset_bytes = 0_u64;
        loop {
            piece.clear();
            let read = contents.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
            read.about("cannot read the new contents")?;
            if piece.is_empty() {
                break;
            }
            self.write_all_at(file, offset_bytes, &piece)?;
            offset_bytes = offset_bytes.saturating_add(piece.len() as u64);
        }
        Ok(self.filesystem.free_preallocation(file)?)
    }

    fn write_all_at(&self, file: &InodeHandle, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let written = self.filesystem.write(file, offset_bytes, bytes, self.touch())?;
        if written < bytes.len() {
            return Err(self.short_write(offset_bytes.saturating_add(written as u64)));
        }
        Ok(())
    }

    /// Why no more could be written at `end_bytes`.
    fn short_write(&self, end_bytes: u64) -> Error {
        let is_large = end_bytes >= self.filesystem.largest_file_bytes();
        let error = if is_large { OperationError::FileTooLarge } else { OperationError::NoSpace };
        InternalError::from(error).into()
    }

    /// Gives `file` the contents of `fresh`, which goes afterwards.
    fn take_contents(&self, fresh: &InodeHandle, file: &InodeHandle) -> Result<()> {
        let all = ExchangeRange { to_end: true, without_intents: true, ..ExchangeRange::default() };
        match self.filesystem.exchange_files(fresh, file, &all, self.touch()) {
            Err(InternalError::Operation(OperationError::CannotExchange)) => {
                self.filesystem.set_size(file, 0, self.touch())?;
                let mut from = EditedFile { editor: self, handle: fresh.clone(), position_bytes: 0 };
                self.fill(file, &mut from)?;
            }
            exchanged => exchanged?,
        }
        match self.filesystem.remove_xattr(file, CAPABILITY) {
            Err(InternalError::Operation(
                OperationError::NoSuchAttribute | OperationError::UnknownNamespace,
            )) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The name exists; no space; damage; the device.
    pub fn make_directory(&self, path: impl AsRef<[u8]>, permissions: u16) -> Result<()> {
        self.make(path.as_ref(), &NewFile::new(NewKind::Directory, permissions)).map(drop)
    }

    /// Makes a directory and all that lead to it, as far as they are missing.
    ///
    /// # Errors
    /// Something on the way is no directory; no space; damage; the device.
    pub fn make_directories(&self, path: impl AsRef<[u8]>, permissions: u16) -> Result<()> {
        let path = path.as_ref();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(index, _)| index);
        for end in ends.chain([path.len()]).filter(|end| *end > 0) {
            let above = path.get(..end).unwrap_or_default();
            match self.handle(above, true) {
                Ok(_) => {}
                Err(InternalError::Operation(OperationError::NotFound)) => {
                    self.make_directory(above, permissions)?;
                }
                Err(error) => return Err(error).about_path(above),
            }
        }
        if self.metadata(path)?.is_directory() {
            return Ok(());
        }
        Err(InternalError::from(OperationError::NotADirectory)).about_path(path)
    }

    /// Makes a symbolic link at `path` that leads to `target`.
    ///
    /// # Errors
    /// The name exists; a target of more than 1023 bytes; no space; damage; the device.
    pub fn symbolic_link(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        let kind = NewKind::Symlink(target.as_ref());
        self.make(path.as_ref(), &NewFile::new(kind, 0o777)).map(drop)
    }

    /// Makes a device, a named pipe or a socket.
    ///
    /// # Errors
    /// The name exists; a file type that is none of these; no space; damage; the device.
    pub fn make_special(
        &self,
        path: impl AsRef<[u8]>,
        file_type: FileType,
        device: Device,
        permissions: u16,
    ) -> Result<()> {
        let device = DeviceNumber { major: device.major, minor: device.minor };
        let kind = NewKind::Special(file_type.into(), device);
        self.make(path.as_ref(), &NewFile::new(kind, permissions)).map(drop)
    }

    /// Gives the file at `path` the further name `new`.
    ///
    /// # Errors
    /// Nothing is at `path`, or a directory; `new` exists; too many names; no space; damage; the device.
    pub fn link(&self, path: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let (path, new) = (path.as_ref(), new.as_ref());
        let file = self.handle(path, false).about_path(path)?;
        let (directory, name) = editor_path::open_directory_of(&self.filesystem, new).about_path(new)?;
        self.filesystem.link(&file, &directory, name).about_path(new)
    }

    /// Moves a file or directory. A file, or an empty directory, that is at `to` is replaced, in one transaction.
    ///
    /// # Errors
    /// Nothing is at `from`; something of another type is at `to`, or a directory that is not empty; a directory would come
    /// below itself; damage; the device.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.rename_with(from.as_ref(), to.as_ref(), &RenameOptions::default())
    }

    /// Exchanges two files or directories: each gets the other's path.
    ///
    /// # Errors
    /// Nothing is at one of the paths; a directory would come below itself; damage; the device.
    pub fn exchange(&self, first: impl AsRef<[u8]>, second: impl AsRef<[u8]>) -> Result<()> {
        let options = RenameOptions { exchange: true, ..RenameOptions::default() };
        self.rename_with(first.as_ref(), second.as_ref(), &options)
    }

    fn rename_with(&self, from: &[u8], to: &[u8], options: &RenameOptions) -> Result<()> {
        let open = |path| editor_path::open_directory_of(&self.filesystem, path);
        let (from_directory, from_name) = open(from).about_path(from)?;
        let (to_directory, to_name) = open(to).about_path(to)?;
        let renamed = self.filesystem.rename(&from_directory, from_name, &to_directory, to_name, options);
        renamed.about(format_args!("{} to {}", from.escape_ascii(), to.escape_ascii()))
    }

    /// Removes a name of anything but a directory; with its last name the file goes.
    ///
    /// # Errors
    /// Nothing is there, or a directory; damage; the device.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let (directory, name) = editor_path::open_directory_of(&self.filesystem, path).about_path(path)?;
        self.filesystem.unlink(&directory, name).about_path(path)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Nothing is there, or no directory, or one that is not empty; damage; the device.
    pub fn remove_directory(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let (directory, name) = editor_path::open_directory_of(&self.filesystem, path).about_path(path)?;
        self.filesystem.remove_directory(&directory, name).about_path(path)
    }

    /// Removes a file, or a directory with everything below.
    ///
    /// # Errors
    /// Nothing is there; something in it cannot be removed: what came before it is gone then; damage; the device.
    pub fn remove_tree(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let file = self.handle(path, false).about_path(path)?;
        if self.filesystem.stat(&file).about_path(path)?.file_type != FileType::Directory.into() {
            drop(file);
            return self.remove(path);
        }
        let above = editor_path::open_directory_of(&self.filesystem, path).about_path(path)?;
        let mut levels = vec![(above.0, above.1.to_vec(), file)];
        let mut seen = std::collections::HashSet::new();
        while let Some((above, name, directory)) = levels.pop() {
            match self.empty(&directory).about_path(path)? {
                Some(below) => {
                    if !seen.insert(below.1.number()) {
                        let message = "a directory in it has several names".to_owned();
                        return Err(Error::Corrupt { message }).about_path(path);
                    }
                    let (below_name, below) = below;
                    levels.push((above, name, directory.clone()));
                    levels.push((directory, below_name, below));
                }
                None => {
                    seen.remove(&directory.number());
                    drop(directory);
                    self.filesystem.remove_directory(&above, &name).about_path(path)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what a directory holds up to the next directory, which it gives with its name.
    fn empty(&self, directory: &InodeHandle) -> Result<Option<(Vec<u8>, InodeHandle)>> {
        loop {
            let mut batch: Vec<(Vec<u8>, u64)> = Vec::new();
            let mut damage = None;
            self.filesystem.read_entries(directory, 0, |entry| {
                match entry.is_dot_of(directory.number()) {
                    Ok(true) => {}
                    Ok(false) => batch.push((entry.name.to_vec(), entry.cookie)),
                    Err(error) => damage = Some(error),
                }
                if batch.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if let Some(error) = damage {
                return Err(error.into());
            }
            if batch.is_empty() {
                return Ok(None);
            }
            for (name, cookie) in batch {
                self.filesystem.expect_name(directory, &name, cookie);
                let found = self.filesystem.find(directory, &name)?;
                if self.filesystem.stat(&found)?.file_type == FileType::Directory.into() {
                    return Ok(Some((name, found)));
                }
                drop(found);
                self.filesystem.expect_name(directory, &name, cookie);
                self.filesystem.unlink(directory, &name)?;
            }
        }
    }

    /// Changes permissions, owner and times of the file at `path`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// use uxfs::Changes;
    ///
    /// let editor = uxfs::Editor::open(&path)?;
    /// editor.write("/key", b"secret")?;
    /// editor.change("/key", &Changes::new().permissions(0o600).owner(1000, 1000))?;
    /// assert_eq!(editor.metadata("/key")?.permissions, 0o600);
    /// editor.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing is there; a file that is immutable; a time that the image cannot hold; damage; the device.
    pub fn change(&self, path: impl AsRef<[u8]>, changes: &Changes) -> Result<()> {
        let path = path.as_ref();
        let changes = AttributeChanges {
            permissions: changes.permissions,
            uid: changes.user,
            gid: changes.group,
            access_time: changes.accessed.map(Into::into),
            modification_time: changes.modified.map(Into::into),
            ..AttributeChanges::default()
        };
        let file = self.handle(path, true).about_path(path)?;
        self.filesystem.set_attributes(&file, &changes).about_path(path)
    }

    /// The names of all extended attributes of the file at `path`, of a symbolic link its own.
    ///
    /// # Errors
    /// Nothing is there; damage; the device.
    pub fn attribute_names(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>> {
        let path = path.as_ref();
        let file = self.handle(path, false).about_path(path)?;
        self.filesystem.list_xattrs(&file, XattrView::Copy, usize::MAX).about_path(path)
    }

    /// The value of an extended attribute; `None` where the file has no such attribute.
    ///
    /// # Errors
    /// Nothing is at `path`; a name of no kind that there is; damage; the device.
    pub fn attribute(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let path = path.as_ref();
        let file = self.handle(path, false).about_path(path)?;
        match self.filesystem.get_xattr(&file, name.as_ref()) {
            Err(InternalError::Operation(OperationError::NoSuchAttribute)) => Ok(None),
            value => value.map(Some).about_path(path),
        }
    }

    /// Gives an extended attribute a value.
    ///
    /// # Errors
    /// Nothing is at `path`; a name or value that cannot be; a file that can have no such attribute; no space; damage; the
    /// device.
    pub fn set_attribute(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let path = path.as_ref();
        let file = self.handle(path, false).about_path(path)?;
        self.filesystem.set_xattr(&file, name.as_ref(), value.as_ref(), SetMode::Upsert).about_path(path)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// Nothing is at `path`; there is no such attribute; damage; the device.
    pub fn remove_attribute(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let file = self.handle(path, false).about_path(path)?;
        self.filesystem.remove_xattr(&file, name.as_ref()).about_path(path)
    }

    /// Makes durable everything that has been done so far.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn sync(&self) -> Result<()> {
        Ok(self.filesystem.force()?)
    }

    /// Makes everything durable, writes it to its place and closes the log cleanly.
    ///
    /// # Errors
    /// The device failed, now or before; the log then holds what was durable.
    pub fn close(self) -> Result<()> {
        Ok(self.filesystem.close()?)
    }

    fn handle(&self, path: &[u8], follows_last: bool) -> std::result::Result<InodeHandle, InternalError> {
        editor_path::open(&self.filesystem, path, follows_last)
    }

    fn make(&self, path: &[u8], new: &NewFile<'_>) -> Result<InodeHandle> {
        let (directory, name) = editor_path::open_directory_of(&self.filesystem, path).about_path(path)?;
        self.filesystem.create(&directory, name, new).about_path(path)
    }

    /// Times that change with contents.
    fn touch(&self) -> Touch {
        Touch::at(self.filesystem.now())
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor").finish_non_exhaustive()
    }
}

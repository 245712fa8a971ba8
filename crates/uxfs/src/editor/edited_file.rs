//! A file of an editor.

use std::{
    fmt,
    io::{self, Read, Seek, SeekFrom, Write},
};

use uxfs_filesystem::inode::table::InodeHandle;

use super::{Editor, PIECE_BYTES};
use crate::{Error, Metadata, Result, file::sought};

/// A regular file of an [`Editor`], open for reading and writing.
pub struct EditedFile<'e> {
    pub(super) editor: &'e Editor,
    pub(super) handle: InodeHandle,
    pub(super) position_bytes: u64,
}

impl EditedFile<'_> {
    /// The file's metadata, as `stat` gives it.
    ///
    /// # Errors
    /// The file is gone.
    pub fn metadata(&self) -> Result<Metadata> {
        let status = self.editor.filesystem.stat(&self.handle)?;
        Ok(Metadata::of_status(&status, self.editor.filesystem.geometry().block_size_bytes))
    }

    /// Makes the file shorter, or longer by a hole.
    ///
    /// # Errors
    /// A size that no file can have; no space; damage; the device.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        Ok(self.editor.filesystem.set_size(&self.handle, size_bytes, self.editor.touch())?)
    }

    /// Makes the file durable.
    ///
    /// # Errors
    /// The device failed, now or before.
    pub fn sync(&self) -> Result<()> {
        Ok(self.editor.filesystem.sync_file(&self.handle)?)
    }
}

impl Read for EditedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.editor.filesystem.read(&self.handle, self.position_bytes, buffer);
        let read = read.map_err(Error::from)?;
        self.position_bytes = self.position_bytes.saturating_add(read as u64);
        Ok(read)
    }
}

impl Write for EditedFile<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let piece = buffer.get(..PIECE_BYTES).unwrap_or(buffer);
        let editor = self.editor;
        let written = editor.filesystem.write(&self.handle, self.position_bytes, piece, editor.touch());
        let written = written.map_err(Error::from)?;
        if written == 0 && !piece.is_empty() {
            return Err(editor.short_write(self.position_bytes).into());
        }
        self.position_bytes = self.position_bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for EditedFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let length_bytes = self.metadata()?.size_bytes;
        self.position_bytes = sought(to, self.position_bytes, length_bytes)?;
        Ok(self.position_bytes)
    }
}

impl fmt::Debug for EditedFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditedFile")
            .field("inode", &self.handle.number().get())
            .field("position_bytes", &self.position_bytes)
            .finish()
    }
}

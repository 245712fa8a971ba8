//! An image, in process: operations through handles, without a mount.

use std::{cell::Cell, sync::Arc};

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{
    file::Touch, filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile,
};
use uxfs_volume::{
    attribute::leaf_use::{LeafFigures, LeafUse},
    error::{Error, OperationError},
};

use super::{Backend, JournalFigures, Space, Worker};
use crate::{BenchError, Result};

/// Directories of a file system that this process has mounted for changes.
#[derive(Debug)]
pub struct ImageDirectories {
    file_system: Arc<FileSystem>,
    roots: Vec<Vec<u8>>,
}

impl ImageDirectories {
    /// Paths from the root of the image; missing directories are created.
    pub fn new(file_system: Arc<FileSystem>, roots: Vec<Vec<u8>>) -> Self {
        Self { file_system, roots }
    }

    /// The file system, to be closed at the end.
    pub fn file_system(&self) -> &FileSystem {
        &self.file_system
    }
}

impl Backend for ImageDirectories {
    type Worker<'b> = Operations<'b>;

    fn worker(&self) -> Result<Operations<'_>> {
        Ok(Operations { file_system: &self.file_system, roots: &self.roots })
    }

    fn root_count(&self) -> usize {
        self.roots.len()
    }

    fn space(&self) -> Result<Space> {
        let geometry = self.file_system.geometry();
        let bytes = |blocks: u64| blocks << geometry.block_log;
        Ok(Space {
            total_bytes: bytes(geometry.data_blocks),
            free_bytes: bytes(self.file_system.free_blocks()),
        })
    }

    fn journal(&self) -> Option<JournalFigures> {
        let counters = self.file_system.journal()?.counters();
        Some(JournalFigures {
            log_bytes: counters.log_bytes,
            changed_bytes: counters.changed_bytes,
            checkpoints: counters.checkpoints,
            force_nanoseconds: counters.force_nanoseconds,
            relogged_items: counters.relogged,
        })
    }
}

/// One thread's operations.
#[derive(Debug)]
pub struct Operations<'b> {
    file_system: &'b FileSystem,
    roots: &'b [Vec<u8>],
}

/// A file, and whether it was written to: preallocation past EOF is freed at the end.
#[derive(Debug)]
pub struct OpenFile {
    inode: InodeHandle,
    is_written: Cell<bool>,
}

/// The mode of the system calls, with an empty umask.
const FILE: NewFile<'static> = NewFile::new(NewKind::Regular, 0o666);
const DIRECTORY: NewFile<'static> = NewFile::new(NewKind::Directory, 0o777);

fn is(error: &Error, wanted: OperationError) -> bool {
    matches!(error, Error::Operation(error) if *error == wanted)
}

impl Operations<'_> {
    fn make(&self, parent: &InodeHandle, name: &[u8]) -> Result<InodeHandle> {
        match self.file_system.create(parent, name, &DIRECTORY) {
            Err(error) if is(&error, OperationError::Exists) => Ok(self.file_system.find(parent, name)?),
            result => Ok(result?),
        }
    }
}

impl Worker for Operations<'_> {
    type Directory = InodeHandle;
    type File = OpenFile;

    fn root(&mut self, index: usize) -> Result<InodeHandle> {
        let path = self.roots.get(index % self.roots.len().max(1));
        let path = path.ok_or_else(|| BenchError::Options("no directory is given".to_owned()))?;
        let mut directory = self.file_system.open_root()?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            directory = self.make(&directory, name)?;
        }
        Ok(directory)
    }

    fn directory(&mut self, parent: &InodeHandle, name: &[u8]) -> Result<InodeHandle> {
        self.make(parent, name)
    }

    fn create(&mut self, directory: &InodeHandle, name: &[u8]) -> Result<OpenFile> {
        let inode = match self.file_system.create(directory, name, &FILE) {
            Err(error) if is(&error, OperationError::Exists) => {
                self.file_system.unlink(directory, name)?;
                self.file_system.create(directory, name, &FILE)?
            }
            result => result?,
        };
        Ok(OpenFile { inode, is_written: Cell::new(false) })
    }

    fn open(&mut self, directory: &InodeHandle, name: &[u8]) -> Result<OpenFile> {
        let inode = self.file_system.find(directory, name)?;
        Ok(OpenFile { inode, is_written: Cell::new(false) })
    }

    fn close(&mut self, file: OpenFile) -> Result<()> {
        if file.is_written.get() {
            self.file_system.free_preallocation(&file.inode)?;
        }
        Ok(())
    }

    fn write(&mut self, file: &OpenFile, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        file.is_written.set(true);
        let touch = Touch::at(self.file_system.now());
        let written = self.file_system.write(&file.inode, offset_bytes, bytes, touch)?;
        if written < bytes.len() { Err(Error::from(OperationError::NoSpace).into()) } else { Ok(()) }
    }

    fn fsync(&mut self, file: &OpenFile) -> Result<()> {
        Ok(self.file_system.sync_file(&file.inode)?)
    }

    fn fsync_directory(&mut self, directory: &InodeHandle) -> Result<()> {
        Ok(self.file_system.sync_file(directory)?)
    }

    fn syncfs(&mut self, _: &InodeHandle) -> Result<()> {
        Ok(self.file_system.force()?)
    }

    fn rename(&mut self, directory: &InodeHandle, from: &[u8], to: &[u8]) -> Result<()> {
        let options = uxfs_filesystem::operations::rename::RenameOptions::default();
        Ok(self.file_system.rename(directory, from, directory, to, &options)?)
    }

    fn unlink(&mut self, directory: &InodeHandle, name: &[u8]) -> Result<()> {
        Ok(self.file_system.unlink(directory, name)?)
    }

    fn rmdir(&mut self, parent: &InodeHandle, name: &[u8]) -> Result<()> {
        match self.file_system.remove_directory(parent, name) {
            Err(error) if is(&error, OperationError::NotEmpty) || is(&error, OperationError::NotFound) => {
                Ok(())
            }
            result => Ok(result?),
        }
    }

    fn setxattr(&mut self, file: &OpenFile, name: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.file_system.set_xattr(&file.inode, name, value, SetMode::Upsert)?)
    }

    fn getxattr(&mut self, file: &OpenFile, name: &[u8], value: &mut [u8]) -> Result<usize> {
        let found = self.file_system.get_xattr(&file.inode, name)?;
        let length = found.len().min(value.len());
        if let (Some(target), Some(source)) = (value.get_mut(..length), found.get(..length)) {
            target.copy_from_slice(source);
        }
        Ok(found.len())
    }

    fn removexattr(&mut self, file: &OpenFile, name: &[u8]) -> Result<()> {
        Ok(self.file_system.remove_xattr(&file.inode, name)?)
    }

    fn attribute_leaves(
        &mut self,
        file: &OpenFile,
        visit: &mut dyn FnMut(&LeafFigures),
    ) -> Result<Option<LeafUse>> {
        let inode = file.inode.read();
        Ok(Some(self.file_system.attributes(&inode)?.visit_leaves(visit)?))
    }
}

//! Directories: finding a name, and reading all names.
//!
//! | module | holds |
//! |---|---|
//! | here | what an entry is; the forms of a directory |
//! | [`expected`] | the same where the place is known |
//! | `damaged_block` | entries of a damaged block |
//! | [`lookup`] | from a name to an inode number, by hash |
//! | [`read`] | all entries in the order and with the cookies of Linux's `readdir` |

mod damaged_block;
mod expected;
pub mod lookup;
pub mod read;

use uxfs_format::{
    directory::{DataPointer, entry_fault::EntryFault},
    fault::{Corruption, Location, Structure},
    name_tree::fault::NameTreeFault,
    units::{FileBlock, InodeNumber},
};

use crate::{
    error::{Error, OperationError, Result},
    inode::{FileType, Fork, Inode},
    name_tree::ForkBlocks,
};

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Its name, in whatever encoding; never empty, never with a slash or zero byte, at most 255 bytes.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// The file type in the entry; `None` without the file-type feature, and for whiteouts.
    pub file_type: Option<FileType>,
    /// Where the entry lies: as Linux's `telldir` before it.
    pub cookie: u64,
    /// Where to go on after this entry.
    pub next_cookie: u64,
}

impl DirectoryEntry<'_> {
    /// Whether this is the directory's `.` or `..`. Changes must not pass over any other entry of these names.
    ///
    /// # Errors
    /// It has one of the names and is not among the first two entries: damage in `directory`.
    pub fn is_dot_of(&self, directory: InodeNumber) -> Result<bool> {
        if !matches!(self.name, b"." | b"..") {
            return Ok(false);
        }
        if [read::DOT, read::DOT_DOT].contains(&(self.name, self.cookie)) {
            return Ok(true);
        }
        let fault = EntryFault::ReservedName { inode: self.inode, is_parent: self.name == b".." };
        Err(Corruption::new(Structure::DirectoryAnyData, Location::of_inode(directory), fault).into())
    }
}

/// The entry that a lookup found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The inode.
    pub inode: InodeNumber,
    /// The file type in the entry, if it has one.
    pub file_type: Option<FileType>,
    /// Where the entry lies.
    pub cookie: u64,
    /// The name in the directory, where case was disregarded and it differs from the one asked for.
    pub stored_name: Option<Box<[u8]>>,
}

/// How a directory with blocks is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One block with entries and index.
    Block,
    /// Data blocks, and an index in the leaf space.
    Indexed,
}

/// The directory in `inode`, while it lies in the inode.
fn local_of(inode: &Inode) -> Result<Option<&[u8]>> {
    if inode.file_type() != Some(FileType::Directory) {
        return Err(OperationError::NotADirectory.into());
    }
    Ok(inode.local_fork(Fork::Data))
}

/// The directory's form. The caller knows that it is not in the inode.
fn form_of(inode: &Inode, blocks: &ForkBlocks<'_>) -> Result<Form> {
    let geometry = blocks.geometry();
    if blocks.map.end() > geometry.directory_leaf_start() {
        return Ok(Form::Indexed);
    }
    let size_bytes = inode.size_bytes();
    if size_bytes == u64::from(geometry.directory_block_size_bytes) {
        return Ok(Form::Block);
    }
    let fault = NameTreeFault::DirectorySize { size_bytes };
    Err(blocks.corruption(Structure::DirectoryBlock, FileBlock::new(0), None, fault))
}

/// Damage in a directory that lies in its inode.
fn shortform_corruption(inode: &Inode, fault: impl Into<uxfs_format::fault::Fault>) -> Error {
    Corruption::new(Structure::DirectoryShortform, Location::of_inode(inode.number), fault).into()
}

fn cookie_of(pointer: DataPointer) -> u64 {
    pointer.get().into()
}

//! Directories: finding a name, and reading all names.
//!
//! | module | holds |
//! |---|---|
//! | here | what an entry is; the forms of a directory |
//! | [`edit`] | changing directories |
//! | [`expected`] | the same where the place is known |
//! | [`lookup`] | from a name to an inode number, by hash |
//! | [`read`] | all entries in the order and with the cookies of Linux's `readdir` |

pub mod edit;
mod expected;
pub mod lookup;
pub mod read;

use std::sync::Arc;

use uxfs_format::{
    directory::DataPointer,
    fault::{Corruption, Location, Structure},
    name_tree::{TreeKind, fault::NameTreeFault},
    units::{FileBlock, InodeNumber},
};

use crate::{
    error::{Error, OperationError, Result},
    filesystem::FileSystem,
    inode::{
        FileType, Fork, ForkView, Inode,
        edit::{EditFork, EditInode},
    },
    name_tree::ForkBlocks,
};

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Its name, in whatever encoding; never empty, never with a slash or zero byte, at most 255 bytes.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// What the inode is, if the entry says so (file systems without file types, whiteouts).
    pub file_type: Option<FileType>,
    /// Where the entry lies: as Linux's `telldir` before it.
    pub cookie: u64,
    /// Where to go on after this entry.
    pub next_cookie: u64,
}

/// What a lookup finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The inode.
    pub inode: InodeNumber,
    /// What the inode is, if the entry says so.
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

/// What readers must know of a directory's inode.
#[derive(Debug, Clone, Copy)]
struct View<'a> {
    number: InodeNumber,
    size_bytes: u64,
    /// The directory, while it lies in the inode.
    local: Option<&'a [u8]>,
}

/// An inode whose directory is read.
#[derive(Debug, Clone)]
enum Source<'a> {
    /// As it was when it was read.
    Read(Arc<Inode>),
    /// Open, and locked by the reader.
    Open(&'a EditInode),
}

impl<'a> View<'a> {
    fn of(inode: &'a Inode) -> Result<Self> {
        if inode.file_type != FileType::Directory {
            return Err(OperationError::NotADirectory.into());
        }
        let local = match inode.fork(Fork::Data) {
            ForkView::Local(bytes) => Some(bytes),
            _ => None,
        };
        Ok(Self { number: inode.number, size_bytes: inode.size_bytes, local })
    }

    #[inline]
    fn of_open(inode: &'a EditInode) -> Result<Self> {
        if inode.file_type() != Some(FileType::Directory) {
            return Err(OperationError::NotADirectory.into());
        }
        let local = match &inode.data {
            EditFork::Local(bytes) => Some(bytes.as_slice()),
            _ => None,
        };
        Ok(Self { number: inode.number, size_bytes: inode.size_bytes(), local })
    }
}

impl<'a> Source<'a> {
    fn view(&self) -> Result<View<'_>> {
        match self {
            Self::Read(inode) => View::of(inode),
            Self::Open(inode) => View::of_open(inode),
        }
    }

    fn blocks(&self, file_system: &'a FileSystem) -> Result<ForkBlocks<'a>> {
        match self {
            Self::Read(inode) => ForkBlocks::new(file_system, inode, TreeKind::Directory),
            Self::Open(inode) => Ok(ForkBlocks::of_open(file_system, inode, TreeKind::Directory)),
        }
    }
}

/// The directory's form. The caller knows that it is not in the inode.
fn form_of(inode: &View<'_>, blocks: &ForkBlocks<'_>) -> Result<Form> {
    let geometry = blocks.geometry();
    if blocks.map.next_at_or_after(geometry.directory_leaf_start()).is_some() {
        return Ok(Form::Indexed);
    }
    let size_bytes = inode.size_bytes;
    if size_bytes == u64::from(geometry.directory_block_size_bytes) {
        return Ok(Form::Block);
    }
    let fault = NameTreeFault::DirectorySize { size_bytes };
    Err(blocks.corruption(Structure::DirectoryBlock, FileBlock::new(0), None, fault))
}

/// Damage in a directory that lies in its inode.
fn shortform_corruption(inode: &View<'_>, fault: impl Into<uxfs_format::fault::Fault>) -> Error {
    Corruption::new(Structure::DirectoryShortform, Location::of_inode(inode.number), fault).into()
}

fn cookie_of(pointer: DataPointer) -> u64 {
    pointer.get().into()
}

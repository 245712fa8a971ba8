//! Changing directories: adding, removing and replacing names, in every form and from each form to the next.
//!
//! ```text
//! shortform ⇄ block ⇄ leaf ⇄ node        to the right when something is full, to the left as soon as it fits again
//! ```
//!
//! Everything is written over [`DirectoryStore`], what a directory needs of its inode, so that the tests run it in
//! memory and verify every block after every step. Link counts, times and parent pointers are not the names' business:
//! operations keep them.
//!
//! Invariants, between calls:
//! 1. Every block passes its verifier; bests and free indexes say exactly what the data blocks have.
//! 2. No data block but the first is empty, no leaf is (but for removed entries), and the size is the end of the last
//!    data block.
//! 3. A cookie (the place of an entry) stays while the entry exists, whatever form the directory takes.
//!
//! | module | holds |
//! |---|---|
//! | here | what a directory needs of its inode; its form |
//! | [`editor`] | the view of a transaction that changes directories |
//! | [`api`] | the calls of [`DirectoryEditor`](editor::DirectoryEditor) |
//! | [`hint`] | where the next change begins to look |
//! | [`names`] | what these calls take and give |
//! | [`find`] | where a name lies |
//! | [`insert`] | adding names |
//! | `fits` | whether that takes a block |
//! | [`grow`] | from a smaller form to the next |
//! | [`remove`] | removing and replacing names |
//! | [`known`] | removing a name from where a lookup has seen it |
//! | [`shrink`] | from a larger form to the one before |
//! | [`store_entry`] | adding an entry to a data block |
//! | [`free_index`] | data blocks with room in a node directory |
//! | [`fill`] | a new directory from all its names at once |
//! | [`leaf`] | leaves, as the name tree needs them |
//! | [`store`] | the inode's blocks in a transaction |

pub mod api;
pub mod editor;
mod fill;
mod find;
mod fits;
mod free_index;
mod grow;
pub mod hint;
mod insert;
mod known;
mod leaf;
mod names;
mod remove;
mod shrink;
mod store;
mod store_entry;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use uxfs_format::{
    directory::{
        EntryFormat, NO_DATA_BLOCK, data_block_start, data_edit::NewEntry, free_index::most_bests,
        leaf::SINGLE_MAGIC, name_hash::NameRule,
    },
    fault::{Fault, Structure},
    geometry::Geometry,
    name_tree::{fault::NameTreeFault, header::magic_of},
    units::{FileBlock, InodeNumber},
};

use self::leaf::DirectoryLeaf;
use crate::name_tree::{ForkStore, NameTree};
use uxfs_volume::error::{Error, OperationError, Result};

pub use self::hint::DirectoryHint;
pub use self::names::{NameCheck, NameTarget, NewName};
pub use self::names::{expect_name, lookup_open, lookup_to_change};

/// The inode of a directory beside its blocks.
pub trait DirectoryStore<'fs>: ForkStore<'fs> {
    /// Gives `count` blocks from `block` on room on the device, in as few pieces as possible.
    fn reserve(&mut self, block: FileBlock, count: u64) -> Result<()>;

    /// Makes a block of zeros where there is room.
    fn create_reserved(&mut self, structure: Structure, block: FileBlock) -> Result<Self::Buffer>;

    /// The directory, while it lies in the inode.
    fn local(&mut self) -> Option<&mut Vec<u8>>;

    /// Puts the directory into the inode: there are no blocks; or takes it out of there.
    fn set_local(&mut self, bytes: Option<Vec<u8>>);

    /// Bytes that it may take in the inode.
    fn room_bytes(&self) -> u32;

    /// Size of the directory.
    fn size_bytes(&self) -> u64;

    /// Sets the size of the directory.
    fn set_size_bytes(&mut self, size_bytes: u64);
}

/// The form of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In the inode.
    Shortform,
    /// One block with entries and index.
    Block,
    /// Data blocks and one leaf.
    Leaf,
    /// Data blocks, leaves below nodes, free index blocks.
    Node,
}

/// A directory that is being changed.
pub struct Directory<'a, S> {
    store: &'a mut S,
    format: EntryFormat,
    rule: NameRule,
    hint: &'a mut DirectoryHint,
}

impl<'a, 'fs, S: DirectoryStore<'fs>> Directory<'a, S> {
    /// A directory over its store.
    pub fn new(store: &'a mut S, hint: &'a mut DirectoryHint) -> Self {
        let geometry = store.geometry();
        Self { format: EntryFormat::of(geometry), rule: NameRule::of(geometry), store, hint }
    }

    /// Which form the directory has.
    #[inline]
    pub fn form(&mut self) -> Result<Form> {
        if self.store.local().is_some() {
            return Ok(Form::Shortform);
        }
        // Only node directories have a free index, and it lies behind everything else.
        let end = self.store.extents().end();
        if end > self.geometry().directory_free_start() {
            return Ok(Form::Node);
        }
        if end > self.leaf_start() {
            return Ok(Form::Leaf);
        }
        let size_bytes = self.store.size_bytes();
        if size_bytes == self.block_bytes() {
            return Ok(Form::Block);
        }
        let fault = NameTreeFault::DirectorySize { size_bytes };
        Err(self.store.corruption(Structure::DirectoryBlock, FileBlock::new(0), fault))
    }

    fn geometry(&self) -> &'fs Geometry {
        self.store.geometry()
    }

    /// Bytes of a directory block.
    fn block_bytes(&self) -> u64 {
        self.geometry().directory_block_size_bytes.into()
    }

    fn size_of(&self, entry: &NewEntry<'_>) -> u32 {
        self.format.entry_size_bytes(u8::try_from(entry.name.len()).unwrap_or(u8::MAX))
    }

    fn leaf_start(&self) -> FileBlock {
        self.geometry().directory_leaf_start()
    }

    /// The one leaf of a leaf directory.
    fn edit_leaf(&mut self) -> Result<S::Buffer> {
        let leaf_start = self.leaf_start();
        let leaf = self.store.edit(Structure::DirectoryAnyIndex, leaf_start)?;
        match magic_of(&leaf).unwrap_or(0) {
            SINGLE_MAGIC => Ok(leaf),
            magic => Err(self.damaged_index(NameTreeFault::Root { magic })),
        }
    }

    fn tree(&mut self) -> NameTree<'_, S, DirectoryLeaf> {
        NameTree::new(self.store, &DirectoryLeaf)
    }

    fn data_start(&self, data_block: u32) -> FileBlock {
        data_block_start(self.geometry(), data_block)
    }

    /// Bests in a full free index block.
    fn bests_per_block(&self) -> u32 {
        most_bests(self.geometry().directory_block_size_bytes).max(1)
    }

    /// Where the free index block lies that knows a data block, and the index of its best there.
    fn free_index_of(&self, data_block: u32) -> (FileBlock, usize) {
        let per_block = self.bests_per_block();
        let block = u64::from(data_block / per_block) << self.geometry().directory_block_log;
        let start = self.geometry().directory_free_start().get();
        (FileBlock::new(start.saturating_add(block)), (data_block % per_block) as usize)
    }

    /// The size follows the last data block.
    fn update_size(&mut self) {
        let leaf_start = self.leaf_start();
        let extents = self.store.extents();
        let data = extents.index_beginning_at_or_after(leaf_start);
        let last = data.checked_sub(1).and_then(|index| extents.get(index));
        let blocks = last.map_or(0, |extent| extent.end().min(leaf_start).get());
        self.store.set_size_bytes(blocks << self.geometry().block_log);
    }

    fn damaged_shortform(&self, fault: impl Into<Fault>) -> Error {
        let location = uxfs_format::fault::Location::of_inode(self.store.owner());
        uxfs_format::fault::Corruption::new(Structure::DirectoryShortform, location, fault).into()
    }

    fn damaged_data(&self, data_block: u32, fault: impl Into<Fault>) -> Error {
        self.store.corruption(Structure::DirectoryData, self.data_start(data_block), fault)
    }

    fn damaged_index(&self, fault: impl Into<Fault>) -> Error {
        self.store.corruption(Structure::DirectoryAnyIndex, self.leaf_start(), fault)
    }

    /// An index says something about a data block that is not so.
    fn wrong_best(&self, data_block: u32, best_bytes: u16) -> Error {
        self.damaged_data(data_block, NameTreeFault::Best { data_block, best_bytes })
    }
}

/// Whether a number of a data block can be one, before the leaf space.
fn check_data_block(geometry: &Geometry, data_block: u32) -> Result<()> {
    if data_block_start(geometry, data_block) < geometry.directory_leaf_start() {
        return Ok(());
    }
    Err(OperationError::NoSpace.into())
}

/// Whether a best says that there is room.
fn has_room(best_bytes: u16, size_bytes: u32) -> bool {
    best_bytes != NO_DATA_BLOCK && u32::from(best_bytes) >= size_bytes
}

/// The names that every directory has.
const DOTS: [&[u8]; 2] = [b".", b".."];

/// The type of "." and "..".
const DIRECTORY_CODE: u8 = uxfs_format::inode::FileType::Directory.directory_code();

/// An entry that leads to a directory.
fn dot_entry(name: &[u8], inode: InodeNumber) -> NewEntry<'_> {
    NewEntry { name, inode, file_type_code: DIRECTORY_CODE }
}

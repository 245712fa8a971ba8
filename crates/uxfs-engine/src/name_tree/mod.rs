//! Changing the tree of name hashes that directories and attribute forks have.
//!
//! The root stays at its fixed file block: a full root moves its contents into a new block and becomes the node above
//! it; a root with one child takes the child's contents back. Everything between is the same for both owners and
//! written once, over two traits: [`ForkStore`] gives and takes blocks, [`TreeLeaf`] knows what leaves hold.
//!
//! Invariants, between calls of [`NameTree`]'s methods:
//! 1. The hash of a child in its parent is the largest of the child's last block (removed entries of directories count
//!    as long as they lie there).
//! 2. Neighbours point at each other, on every level.
//! 3. Every block passes its verifier. Splitting works from the top down for that: a parent has room before its child
//!    is split.
//!
//! | module | holds |
//! |---|---|
//! | here | the two traits; how the tree finds a leaf |
//! | [`path`] | the way from the root to a leaf |
//! | [`grow`] | splitting |
//! | [`shrink`] | removing and joining |

pub mod grow;
pub mod path;
pub mod shrink;
#[cfg(test)]
pub mod testing;

use std::ops::Deref;
use uxfs_volume::extent_map::ExtentMap;

use uxfs_block::cache::EditBuffer;
use uxfs_format::{
    edit::Edit,
    fault::{Corruption, Fault, Location, Structure},
    geometry::Geometry,
    name_tree::{
        TreeKind,
        entry_array::MoveSide,
        fault::NameTreeFault,
        header::magic_of,
        header_edit::BlockIdentity,
        node::{self, NodeBlock},
    },
    units::{FileBlock, InodeNumber, SECTOR_SIZE_BYTES, Sector},
};

use self::path::{PathLevel, TreePath};
use uxfs_volume::error::{Error, Result};

/// A block that its holder alone may change.
pub trait BlockBuffer: Deref<Target = [u8]> {
    /// Begins a change.
    fn edit(&mut self) -> Edit<'_>;
    /// First sector of the block.
    fn sector(&self) -> Sector;
}

impl BlockBuffer for EditBuffer {
    fn edit(&mut self) -> Edit<'_> {
        EditBuffer::edit(self)
    }

    fn sector(&self) -> Sector {
        Sector::new(self.offset_bytes() / SECTOR_SIZE_BYTES)
    }
}

/// The blocks of a directory's data fork or of an attribute fork, to be changed.
pub trait ForkStore<'fs> {
    /// A block that is being changed. A caller that holds one must not ask for the same block again.
    type Buffer: BlockBuffer;

    /// The geometry of the file system.
    fn geometry(&self) -> &'fs Geometry;

    /// Whether a directory's or of attributes.
    fn kind(&self) -> TreeKind;

    /// The inode.
    fn owner(&self) -> InodeNumber;

    /// The fork's extents in order.
    fn extents(&self) -> &ExtentMap;

    /// An existing block, verified, and compared with its owner.
    fn edit(&mut self, structure: Structure, block: FileBlock) -> Result<Self::Buffer>;

    /// Where an existing block begins on the device.
    fn sector_of(&self, block: FileBlock) -> Option<Sector>;

    /// A further block, for a caller that holds those at `held`. In a damaged image two blocks can lie in the same place:
    /// the caller would wait for itself for ever.
    fn edit_beside(
        &mut self,
        held: &[Sector],
        structure: Structure,
        block: FileBlock,
    ) -> Result<Self::Buffer> {
        match self.sector_of(block) {
            Some(sector) if held.contains(&sector) => {
                Err(self.corruption(structure, block, NameTreeFault::SharedBlock { block }))
            }
            _ => self.edit(structure, block),
        }
    }

    /// Gives a hole a block of zeros.
    fn create(&mut self, structure: Structure, block: FileBlock) -> Result<Self::Buffer>;

    /// Whether something is mapped at `block`.
    fn is_mapped(&self, block: FileBlock) -> bool {
        self.extents().lookup(block).is_some()
    }

    /// Frees a block that no buffer holds.
    fn free(&mut self, block: FileBlock) -> Result<()>;

    /// Says that a block has become something else.
    fn convert(&mut self, buffer: &mut Self::Buffer, structure: Structure);

    /// The structure of an interior block or leaf of the tree.
    fn index_structure(&self) -> Structure {
        match self.kind() {
            TreeKind::Directory => Structure::DirectoryAnyIndex,
            TreeKind::Attribute => Structure::AttributeAnyIndex,
        }
    }

    /// The header fields of a block at `sector`.
    fn identity(&self, sector: Sector) -> BlockIdentity {
        BlockIdentity::new(self.geometry(), sector, self.owner())
    }

    /// Damage that shows in the block at `block`.
    fn corruption(&self, structure: Structure, block: FileBlock, fault: impl Into<Fault>) -> Error {
        let location = Location { file_block: Some(block), ..Location::of_inode(self.owner()) };
        Corruption::new(structure, location, fault).into()
    }

    /// File system blocks of one block of the tree.
    fn blocks_per_block(&self) -> u64 {
        u64::from(self.kind().block_size_bytes(self.geometry()) >> self.geometry().block_log)
    }

    /// The first place at or behind `from` where a whole block is missing.
    fn first_hole(&self, from: FileBlock) -> FileBlock {
        let length = self.blocks_per_block();
        let mut place = from;
        for extent in self.extents().from(from) {
            if extent.file_block.get() >= place.get().saturating_add(length) {
                break;
            }
            // Blocks are aligned, the rest of a block that an extent ends in is mapped elsewhere.
            place = FileBlock::new(extent.end().get().next_multiple_of(length).max(place.get()));
        }
        place
    }
}

/// The leaves of a tree.
pub trait TreeLeaf {
    /// The magic number of a leaf below nodes.
    const MAGIC: u16;

    /// The largest hash, removed entries included; `None` in an empty leaf.
    fn last_hash(&self, leaf: &[u8]) -> Option<u32>;

    /// Used and total room of a leaf, in any unit; 0 in use means that the leaf can go.
    fn fill(&self, leaf: &[u8]) -> (usize, usize);

    /// Makes `right` (zeros) a leaf and moves a later part of `left` into it, so that there is more room for an entry
    /// with `hash`, on the side that it gives. One side may come to be empty: the one that is given.
    fn split(&self, left: Edit<'_>, right: Edit<'_>, identity: &BlockIdentity, hash: u32) -> Result<Side>;

    /// Puts everything of the neighbour `other` into `leaf`. The caller knows that it fits, from [`fill`](Self::fill).
    fn take_all(&self, leaf: Edit<'_>, other: &[u8], place: MoveSide) -> Result<()>;
}

/// One of two neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one with the smaller hashes.
    Left,
    /// The one with the larger hashes.
    Right,
}

/// The tree of a fork, to be changed.
pub struct NameTree<'a, S, L> {
    /// Where the blocks are.
    pub store: &'a mut S,
    /// Its leaves.
    pub leaf: &'a L,
}

impl<'a, 'fs, S: ForkStore<'fs>, L: TreeLeaf> NameTree<'a, S, L> {
    /// A tree over its blocks.
    pub fn new(store: &'a mut S, leaf: &'a L) -> Self {
        Self { store, leaf }
    }

    /// The way to the first leaf that can hold `hash`, or else to the last leaf.
    pub fn find(&mut self, hash: u32) -> Result<TreePath> {
        Ok(self.find_leaf(hash)?.0)
    }

    /// The way to that leaf, and the leaf.
    pub fn find_leaf(&mut self, hash: u32) -> Result<(TreePath, S::Buffer)> {
        let mut path = TreePath::new(self.root());
        let mut expected = None;
        // Levels fall at each step and begin at 5 at most: the loop ends.
        loop {
            let block = path.leaf;
            let buffer = self.edit(block)?;
            let level = self.level_of(block, &buffer)?;
            if expected.is_some_and(|expected| expected != level) {
                let expected = expected.unwrap_or(0);
                return Err(self.corruption(block, NameTreeFault::ChildLevel { found: level, expected }));
            }
            if level == 0 {
                return Ok((path, buffer));
            }
            let node = self.parse_node(block, &buffer)?;
            let index = node.index_for(hash);
            let child = node.child(index).ok_or_else(|| self.missing(block))?;
            path.push(PathLevel { block, index }).ok_or_else(|| self.missing(block))?;
            path.leaf = child;
            expected = Some(level - 1);
        }
    }

    pub(super) fn root(&self) -> FileBlock {
        self.store.kind().root(self.store.geometry())
    }

    pub(super) fn edit(&mut self, block: FileBlock) -> Result<S::Buffer> {
        let structure = self.store.index_structure();
        self.store.edit(structure, block)
    }

    /// A block, for a caller that holds those at `held`.
    pub(super) fn edit_beside(&mut self, held: &[Sector], block: FileBlock) -> Result<S::Buffer> {
        let structure = self.store.index_structure();
        self.store.edit_beside(held, structure, block)
    }

    /// A new block of the tree: zeros, in the first hole.
    pub(super) fn create(&mut self) -> Result<(FileBlock, S::Buffer)> {
        let block = self.store.first_hole(self.root());
        let kind = self.store.kind();
        if !kind.may_hold(self.store.geometry(), block) || u32::try_from(block.get()).is_err() {
            return Err(uxfs_volume::error::OperationError::NoSpace.into());
        }
        let structure = self.store.index_structure();
        Ok((block, self.store.create(structure, block)?))
    }

    pub(super) fn corruption(&self, block: FileBlock, fault: impl Into<Fault>) -> Error {
        self.store.corruption(self.store.index_structure(), block, fault)
    }

    /// A block that should be there and is not.
    pub(super) fn missing(&self, block: FileBlock) -> Error {
        self.corruption(block, NameTreeFault::MissingBlock { block })
    }

    pub(super) fn parse_node<'b>(&self, block: FileBlock, bytes: &'b [u8]) -> Result<NodeBlock<'b>> {
        NodeBlock::parse(bytes).map_err(|fault| self.corruption(block, fault))
    }

    /// The level of a block of the tree, 0 for leaves.
    pub(super) fn level_of(&self, block: FileBlock, bytes: &[u8]) -> Result<u16> {
        match magic_of(bytes).unwrap_or(0) {
            node::MAGIC => Ok(self.parse_node(block, bytes)?.header.level.get()),
            magic if magic == L::MAGIC => Ok(0),
            magic => Err(self.corruption(block, NameTreeFault::Root { magic })),
        }
    }

    /// The largest hash in a block of the tree.
    pub(super) fn last_hash_of(&self, block: FileBlock, bytes: &[u8]) -> Result<Option<u32>> {
        match self.level_of(block, bytes)? {
            0 => Ok(self.leaf.last_hash(bytes)),
            _ => Ok(self.parse_node(block, bytes)?.last_hash()),
        }
    }
}

//! A fork in memory: every block that changes is verified, no block is held twice, and a freed block is gone.

use std::{cell::RefCell, collections::BTreeMap, collections::BTreeSet, ops::Deref, rc::Rc};
use uxfs_volume::extent_map::ExtentMap;

use uxfs_format::{
    btree::extent_map::Extent,
    edit::{DirtyMap, Edit},
    fault::Structure,
    geometry::Geometry,
    name_tree::{TreeKind, fault::NameTreeFault},
    seal::seal,
    units::{FileBlock, FsBlock, InodeNumber, Sector},
    verify::{VerifyContext, verify},
};

use super::{BlockBuffer, ForkStore};
use crate::attribute::hint::AttributeHint;
use uxfs_volume::error::Result;

/// The inode that all blocks belong to.
pub const OWNER: InodeNumber = InodeNumber::new(131);

#[derive(Debug, Default)]
struct Blocks {
    /// `None` while a buffer of the block is held.
    bytes: BTreeMap<u64, Option<Vec<u8>>>,
    changed: BTreeSet<u64>,
}

/// A fork in memory.
#[derive(Debug)]
pub struct MemoryFork<'fs> {
    geometry: &'fs Geometry,
    kind: TreeKind,
    blocks: Rc<RefCell<Blocks>>,
    extents: ExtentMap,
    /// A directory that lies in the inode.
    pub local: Option<Vec<u8>>,
    /// Bytes that it may take there.
    pub room_bytes: u32,
    /// Size of the fork.
    pub size_bytes: u64,
    /// Blocks are verified each time that they are asked for, as if each had just been read.
    pub is_damaged: bool,
    /// Blocks that have been asked for.
    pub asked: usize,
    /// Of attributes.
    pub hint: AttributeHint,
}

/// A block of it.
#[derive(Debug)]
pub struct MemoryBuffer {
    blocks: Rc<RefCell<Blocks>>,
    place: u64,
    sector: Sector,
    bytes: Vec<u8>,
    dirty: DirtyMap,
    is_changed: bool,
}

impl Drop for MemoryBuffer {
    fn drop(&mut self) {
        let mut blocks = self.blocks.borrow_mut();
        blocks.bytes.insert(self.place, Some(std::mem::take(&mut self.bytes)));
        if self.is_changed {
            blocks.changed.insert(self.place);
        }
    }
}

impl Deref for MemoryBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BlockBuffer for MemoryBuffer {
    fn edit(&mut self) -> Edit<'_> {
        self.is_changed = true;
        Edit::new(&mut self.bytes, &mut self.dirty)
    }

    fn sector(&self) -> Sector {
        self.sector
    }
}

impl<'fs> MemoryFork<'fs> {
    /// An empty fork.
    pub fn new(geometry: &'fs Geometry, kind: TreeKind) -> Self {
        Self {
            geometry,
            kind,
            blocks: Rc::default(),
            extents: ExtentMap::EMPTY,
            local: None,
            room_bytes: 0,
            size_bytes: 0,
            is_damaged: false,
            asked: 0,
            hint: AttributeHint::default(),
        }
    }

    fn sector_of_place(&self, place: u64) -> Sector {
        Sector::new(place * u64::from(self.geometry.sectors_per_block()))
    }

    fn buffer(&self, place: u64, bytes: Vec<u8>) -> MemoryBuffer {
        let blocks = Rc::clone(&self.blocks);
        let sector = self.sector_of_place(place);
        MemoryBuffer { blocks, place, sector, bytes, dirty: DirtyMap::clean(), is_changed: false }
    }

    /// Blocks that exist.
    pub fn places(&self) -> Vec<FileBlock> {
        self.blocks.borrow().bytes.keys().copied().map(FileBlock::new).collect()
    }

    fn verify_as(&self, structure: Structure, block: FileBlock, bytes: &[u8]) -> Result<()> {
        let mut copy = bytes.to_vec();
        seal(&mut copy, None, self.geometry);
        let context = VerifyContext::new(self.geometry, self.sector_of_place(block.get()));
        let verified = verify(structure, &copy, &context);
        verified.map_err(|fault| {
            self.blocks.borrow_mut().bytes.insert(block.get(), Some(bytes.to_vec()));
            self.corruption(structure, block, fault)
        })
    }

    /// Changes a block on the device.
    pub fn damage(&mut self, block: FileBlock, offset_bytes: usize, value: &[u8]) {
        let mut blocks = self.blocks.borrow_mut();
        let bytes =
            blocks.bytes.get_mut(&block.get()).and_then(Option::as_mut).expect("the block is not held");
        bytes[offset_bytes..offset_bytes + value.len()].copy_from_slice(value);
    }

    /// A copy of a block.
    pub fn bytes(&self, block: FileBlock) -> Vec<u8> {
        self.blocks.borrow().bytes[&block.get()].clone().expect("the block is not held")
    }

    /// Verifies the blocks that have changed since the last time.
    pub fn verify_changed(&self) {
        let mut blocks = self.blocks.borrow_mut();
        for place in std::mem::take(&mut blocks.changed) {
            let Some(bytes) = blocks.bytes.get_mut(&place) else { continue };
            let bytes = bytes.as_mut().expect("the block is not held");
            let structure = seal(bytes, None, self.geometry).expect("a magic number");
            let context = VerifyContext::new(self.geometry, self.sector_of_place(place));
            verify(structure, bytes, &context).unwrap_or_else(|fault| panic!("block {place}: {fault}"));
        }
    }

    /// Makes room for blocks that do not exist.
    pub fn reserve_blocks(&mut self, block: FileBlock, count: u64) {
        for number in 0..count {
            let place = block.get() + number * self.blocks_per_block();
            let old = self.blocks.borrow_mut().bytes.insert(place, None);
            assert!(old.is_none(), "block {place} exists");
        }
        self.rebuild_extents();
    }

    /// A block of zeros where there is room.
    pub fn reserved(&mut self, block: FileBlock) -> MemoryBuffer {
        let length = self.kind.block_size_bytes(self.geometry) as usize;
        assert_eq!(self.blocks.borrow().bytes[&block.get()], None, "block {block} is in use");
        self.buffer(block.get(), vec![0; length])
    }

    fn rebuild_extents(&mut self) {
        let length_blocks = self.blocks_per_block();
        let extent = |place: &u64| Extent {
            file_block: FileBlock::new(*place),
            start: FsBlock::new(*place),
            length_blocks,
            is_unwritten: false,
        };
        self.extents = ExtentMap::of(self.blocks.borrow().bytes.keys().map(extent)).expect("they fit");
    }
}

impl<'fs> ForkStore<'fs> for MemoryFork<'fs> {
    type Buffer = MemoryBuffer;

    fn geometry(&self) -> &'fs Geometry {
        self.geometry
    }

    fn kind(&self) -> TreeKind {
        self.kind
    }

    fn owner(&self) -> InodeNumber {
        OWNER
    }

    fn extents(&self) -> &ExtentMap {
        &self.extents
    }

    fn edit(&mut self, structure: Structure, block: FileBlock) -> Result<MemoryBuffer> {
        let mut blocks = self.blocks.borrow_mut();
        let Some(slot) = blocks.bytes.get_mut(&block.get()) else {
            return Err(self.corruption(structure, block, NameTreeFault::MissingBlock { block }));
        };
        let bytes = slot.take().unwrap_or_else(|| panic!("block {block} is held already"));
        drop(blocks);
        self.asked += 1;
        if self.is_damaged {
            self.verify_as(structure, block, &bytes)?;
        }
        Ok(self.buffer(block.get(), bytes))
    }

    fn sector_of(&self, block: FileBlock) -> Option<Sector> {
        Some(self.sector_of_place(block.get()))
    }

    fn create(&mut self, _: Structure, block: FileBlock) -> Result<MemoryBuffer> {
        self.hint.forget();
        self.reserve_blocks(block, 1);
        Ok(self.reserved(block))
    }

    fn free(&mut self, block: FileBlock) -> Result<()> {
        self.hint.forget();
        let bytes = self.blocks.borrow_mut().bytes.remove(&block.get());
        assert!(bytes.expect("the block exists").is_some(), "block {block} is held");
        self.rebuild_extents();
        Ok(())
    }

    fn convert(&mut self, _: &mut MemoryBuffer, _: Structure) {}
}

//! Reading and changing the nodes on the cursor's way, wherever they lie.

use uxfs_block::cache::EditBuffer;
use uxfs_format::{
    btree::{
        BlockPointer, BtreeKind,
        block::{Address, BtreeBlock, Pointer},
        block_edit::{BlockEdit, key_of_block},
        block_header::{BlockHeader, BlockIdentity},
        check::BtreeFault,
    },
    fault::{Corruption, Fault, HeaderFault, Location},
    geometry::Geometry,
    units::{AgBlock, AgNumber, Sector},
};

use super::{
    path::Path,
    storage::{BtreeStorage, InlineRoot, TreeOwner},
};
use uxfs_volume::error::{Error, Result};

/// "None" in messages, whatever the width of the tree's pointers.
const NO_BLOCK: u64 = u64::MAX;

/// The blocks on the way from the root of a tree to one of its leaves.
pub(super) struct TreeBlocks<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> {
    pub(super) home: H,
    pub(super) geometry: &'fs Geometry,
    pub(super) owner: TreeOwner,
    pub(super) path: Path<K>,
    pub(super) has_inline_root: bool,
}

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> TreeBlocks<'fs, K, H> {
    /// A fault of a block, or of the tree as a whole.
    #[cold]
    pub(super) fn damaged(&self, pointer: Option<Pointer<K>>, fault: impl Into<Fault>) -> Error {
        let mut location = match self.owner {
            TreeOwner::Group(group) => Location { group: Some(group), ..Location::default() },
            TreeOwner::Inode(inode) => Location::of_inode(inode),
        };
        location.sector = pointer.and_then(|pointer| self.sector(pointer));
        if let TreeOwner::Group(_) = self.owner {
            let block = pointer.and_then(|pointer| u32::try_from(pointer.raw()).ok());
            location.group_block = block.map(AgBlock::new);
        }
        Corruption::new(K::STRUCTURE, location, fault).into()
    }

    /// The error for a level or an index that the way does not have.
    #[cold]
    pub(super) fn lost(&self) -> Error {
        self.damaged(None, BtreeFault::MissingRecord)
    }

    fn group(&self) -> Option<AgNumber> {
        match self.owner {
            TreeOwner::Group(group) => Some(group),
            TreeOwner::Inode(_) => None,
        }
    }

    fn owner_number(&self) -> u64 {
        match self.owner {
            TreeOwner::Group(group) => group.get().into(),
            TreeOwner::Inode(inode) => inode.get(),
        }
    }

    fn sector(&self, pointer: Pointer<K>) -> Option<Sector> {
        pointer.sector(self.geometry, self.group())
    }

    /// Most entries of a block.
    #[inline]
    pub(super) fn capacity_of_block(&self, level: usize) -> usize {
        K::max_entries(self.geometry.block_size_bytes, level_number(level)) as usize
    }

    /// Fewest entries of a block that is not the root.
    #[inline]
    pub(super) fn fewest(&self, level: usize) -> usize {
        K::min_entries(self.geometry.block_size_bytes, level_number(level)) as usize
    }

    /// Entries that the root in an inode may have: as many as fit a block too, into which they move when the tree grows.
    pub(super) fn inline_capacity(&self, level: usize) -> usize {
        self.home.inline_capacity().min(self.capacity_of_block(level))
    }

    /// Reads a block of the tree and compares owner and level with what led to it.
    pub(super) fn read(&mut self, pointer: Pointer<K>, level: usize) -> Result<EditBuffer> {
        let sector = match self.sector(pointer) {
            Some(sector) if pointer.is_possible(self.geometry, self.group()) => sector,
            _ => return Err(self.damaged(None, BtreeFault::Pointer { index: 0, block: pointer.raw() })),
        };
        // Asking again for what the path holds at another level would wait for ever.
        if self.path.holds(pointer) {
            return Err(self.damaged(Some(pointer), BtreeFault::BlockOrder));
        }
        let length_bytes = self.geometry.block_size_bytes;
        let buffer = self.home.buffers().edit(K::STRUCTURE, sector, length_bytes)?;
        let (owner, found) = match BtreeBlock::<K>::parse(&buffer) {
            Ok(view) => (view.header().owner(), view.level()),
            Err(fault) => return Err(self.damaged(Some(pointer), fault)),
        };
        let expected = self.owner_number();
        if owner != expected {
            return Err(self.damaged(Some(pointer), HeaderFault::WrongOwner { found: owner, expected }));
        }
        let expected = level_number(level);
        if found != expected {
            return Err(self.damaged(Some(pointer), BtreeFault::WrongLevel { found, expected }));
        }
        Ok(buffer)
    }

    /// Gets a block for the tree, without contents or siblings.
    pub(super) fn create(
        &mut self,
        level: usize,
        near: Option<Pointer<K>>,
    ) -> Result<(Pointer<K>, EditBuffer)> {
        let near = near.filter(|near| !near.is_null()).map(BlockPointer::address);
        // Other trees change meanwhile; on a damaged image they may lead to this tree's blocks.
        self.path.release();
        let pointer = Pointer::<K>::from_address(self.home.allocate_block(near)?);
        if self.path.leads_through(pointer) {
            return Err(self.damaged(Some(pointer), BtreeFault::BlockOrder));
        }
        let Some(sector) = self.sector(pointer) else {
            return Err(self.damaged(None, BtreeFault::Pointer { index: 0, block: pointer.raw() }));
        };
        let length_bytes = self.geometry.block_size_bytes;
        let mut buffer = self.home.buffers().create(K::STRUCTURE, sector, length_bytes)?;
        let place = BlockIdentity { sector, uuid: self.geometry.metadata_uuid, owner: self.owner_number() };
        edit_of::<K>(&mut buffer).format(level_number(level), place);
        Ok((pointer, buffer))
    }

    /// Gives a block back that nothing leads to any more, and of which no buffer is held.
    pub(super) fn discard(&mut self, pointer: Pointer<K>) -> Result<()> {
        self.path.release();
        if let Some(sector) = self.sector(pointer) {
            let length_bytes = self.geometry.block_size_bytes;
            self.home.buffers().invalidate(&[(sector, length_bytes)]);
        }
        self.home.free_block(pointer.address())
    }

    /// Whether the node of a level is not a block.
    #[inline]
    pub(super) fn is_inline(&self, level: usize) -> bool {
        self.has_inline_root && level + 1 == self.path.levels()
    }

    /// Makes sure that the block of a level is held.
    #[inline]
    pub(super) fn load(&mut self, level: usize) -> Result<()> {
        match self.path.step(level) {
            Some(step) if step.buffer.is_some() => Ok(()),
            Some(step) => {
                let pointer = step.pointer;
                let buffer = self.read(pointer, level)?;
                self.path.set(level, pointer, Some(buffer));
                Ok(())
            }
            None => Err(self.lost()),
        }
    }

    /// The block of a level, which must have been loaded.
    #[inline]
    pub(super) fn loaded(&self, level: usize) -> Option<BtreeBlock<'_, K>> {
        BtreeBlock::parse(self.path.step(level)?.buffer.as_deref()?).ok()
    }

    /// The block of a level.
    #[inline]
    pub(super) fn view(&mut self, level: usize) -> Result<BtreeBlock<'_, K>> {
        self.load(level)?;
        self.loaded(level).ok_or_else(|| self.lost())
    }

    /// The block of a level, to be changed.
    #[inline]
    pub(super) fn edit(&mut self, level: usize) -> Result<BlockEdit<'_, K>> {
        self.load(level)?;
        if self.loaded(level).is_none() {
            return Err(self.lost());
        }
        let step = self.path.step_mut(level).and_then(|step| step.buffer.as_mut());
        match step {
            Some(buffer) => Ok(edit_of(buffer)),
            None => Err(Corruption::new(K::STRUCTURE, Location::default(), BtreeFault::MissingRecord).into()),
        }
    }

    /// Records or entries of the node of a level.
    pub(super) fn len(&mut self, level: usize) -> Result<usize> {
        if self.is_inline(level) {
            return Ok(self.home.inline_root().map_or(0, |root| root.len()));
        }
        Ok(self.view(level)?.len())
    }

    pub(super) fn is_full(&mut self, level: usize) -> Result<bool> {
        let capacity = match self.is_inline(level) {
            true => self.inline_capacity(level),
            false => self.capacity_of_block(level),
        };
        Ok(self.len(level)? >= capacity)
    }

    /// One entry of a node.
    pub(super) fn entry(&mut self, level: usize, index: usize) -> Result<Option<(K::Key, Pointer<K>)>> {
        if self.is_inline(level) {
            return Ok(self.home.inline_root().and_then(|root| root.entry(index)));
        }
        let view = self.view(level)?;
        Ok(view.keys().get(index).copied().zip(view.pointers().get(index).copied()))
    }

    /// One entry of a node that must have it.
    pub(super) fn expect_entry(&mut self, level: usize, index: usize) -> Result<(K::Key, Pointer<K>)> {
        match self.entry(level, index)? {
            Some(entry) => Ok(entry),
            None => {
                let fault = BtreeFault::Empty { level: level_number(level) };
                Err(self.damaged(Some(self.path.pointer(level)), fault))
            }
        }
    }

    pub(super) fn set_key(&mut self, level: usize, index: usize, key: &K::Key) -> Result<()> {
        if !self.is_inline(level) {
            self.edit(level)?.set_key(index, key);
        } else if let Some(root) = self.home.inline_root() {
            root.set_key(index, key);
        }
        Ok(())
    }

    pub(super) fn insert_entry(
        &mut self,
        level: usize,
        index: usize,
        key: &K::Key,
        pointer: &Pointer<K>,
    ) -> Result<()> {
        if !self.is_inline(level) {
            self.edit(level)?.insert_entry(index, key, pointer);
        } else if let Some(root) = self.home.inline_root() {
            root.insert(index, key, pointer);
        }
        Ok(())
    }

    /// Takes the record or entry at `index` out of a node.
    pub(super) fn take_out(&mut self, level: usize, index: usize) -> Result<()> {
        if !self.is_inline(level) {
            self.edit(level)?.remove(index);
        } else if let Some(root) = self.home.inline_root() {
            root.remove(index);
        }
        Ok(())
    }

    /// The key of what a node holds at `index`.
    pub(super) fn key_at(&mut self, level: usize, index: usize) -> Result<K::Key> {
        if level > 0 {
            return Ok(self.expect_entry(level, index)?.0);
        }
        let record = self.view(0)?.records().get(index).copied();
        record.map(|record| K::key_of_record(&record)).ok_or_else(|| self.lost())
    }

    /// How many entries of a node stand at or before `position`.
    pub(super) fn entries_up_to(&mut self, level: usize, position: K::Position) -> Result<usize> {
        if !self.is_inline(level) {
            let keys = self.view(level)?.keys();
            return Ok(keys.partition_point(|key| K::position_of_key(key) <= position));
        }
        let Some(root) = self.home.inline_root() else { return Ok(0) };
        let stands_before =
            |index: &usize| root.entry(*index).is_some_and(|(key, _)| K::position_of_key(&key) <= position);
        Ok((0..root.len()).take_while(stands_before).count())
    }

    /// Checks that two blocks name each other as neighbours.
    pub(super) fn check_neighbours(
        &self,
        left: (Pointer<K>, &EditBuffer),
        right: (Pointer<K>, &EditBuffer),
    ) -> Result<()> {
        let sibling = |buffer, is_right: bool| {
            let view = BtreeBlock::<K>::parse(buffer).ok()?;
            let sibling = if is_right { view.right_sibling() } else { view.left_sibling() };
            sibling.map(Pointer::<K>::from_address)
        };
        let sides = [
            ("right", left.0, sibling(left.1, true), right.0),
            ("left", right.0, sibling(right.1, false), left.0),
        ];
        for (side, block, found, expected) in sides {
            if found != Some(expected) {
                let found = found.map_or(NO_BLOCK, BlockPointer::raw);
                let fault = BtreeFault::WrongSibling { side, found, expected: expected.raw() };
                return Err(self.damaged(Some(block), fault));
            }
        }
        Ok(())
    }

    /// A sibling where the parents lead to another block, or to none.
    #[cold]
    pub(super) fn wrong_sibling(
        &self,
        block: Pointer<K>,
        side: &'static str,
        found: Option<Address<K>>,
        expected: Option<Pointer<K>>,
    ) -> Error {
        let found = found.map_or(NO_BLOCK, |found| Pointer::<K>::from_address(found).raw());
        let expected = expected.map_or(NO_BLOCK, BlockPointer::raw);
        self.damaged(Some(block), BtreeFault::WrongSibling { side, found, expected })
    }
}

/// A buffer as a block to be changed.
#[inline]
pub(super) fn edit_of<K: BtreeKind>(buffer: &mut EditBuffer) -> BlockEdit<'_, K> {
    BlockEdit::new(buffer.edit())
}

/// A buffer as a block.
#[inline]
pub(super) fn view_of<K: BtreeKind>(buffer: &EditBuffer) -> Result<BtreeBlock<'_, K>> {
    BtreeBlock::parse(buffer)
        .map_err(|fault| Corruption::new(K::STRUCTURE, Location::default(), fault).into())
}

/// The key of a block that is not empty.
pub(super) fn key_of<K: BtreeKind>(buffer: &EditBuffer) -> Result<K::Key> {
    let fault = || Corruption::new(K::STRUCTURE, Location::default(), BtreeFault::Empty { level: 0 });
    key_of_block(&view_of::<K>(buffer)?).ok_or_else(|| fault().into())
}

/// A level as blocks hold it. Paths have few.
#[inline]
pub(super) fn level_number(level: usize) -> u16 {
    u16::try_from(level).unwrap_or(u16::MAX)
}

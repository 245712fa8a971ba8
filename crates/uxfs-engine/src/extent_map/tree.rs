//! The btree that holds the extents of a fork where they do not fit the inode.

use uxfs_format::{
    btree::{
        BtreeKind,
        block::BtreeBlock,
        block_edit::BlockEdit,
        block_header::{BlockHeader, BlockIdentity},
        check::BtreeFault,
        extent_map::{Extent, ExtentMap, ExtentMapFault, ExtentRecord},
    },
    fault::{Corruption, Fault, HeaderFault, Location, Structure},
    inode::Fork,
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_journal::transaction::TransactionBuffers;
use uxfs_volume::extent_map::{ExtentMap as ExtentList, Extents};

use super::{list::Splice, map::block_of_inode, splice::extents_mut};
use crate::btree::{BtreeStorage, TreeOwner, TreeRoot};
use crate::extent_map::editor::ExtentMapEditor;
use crate::{
    btree::{CursorHint, EditCursor},
    inode::edit::{EditInode, ExtentRoot, room::root_capacity},
    transaction::{
        Transaction,
        allocate::{AllocationRequest, Goal},
        deferred::FreedOwner,
    },
};
use uxfs_volume::error::{Error, OperationError, Result};

/// The btree of a fork, as a cursor sees it.
struct ForkTree<'t, 'fs> {
    transaction: &'t mut Transaction<'fs>,
    inode: InodeNumber,
    fork: Fork,
    root: &'t mut ExtentRoot,
    hint: &'t mut CursorHint<ExtentMap>,
    /// Entries that the root has room for.
    capacity: usize,
    /// Blocks that have come.
    growth_blocks: i64,
}

impl<'fs> BtreeStorage<'fs, ExtentMap> for ForkTree<'_, 'fs> {
    type Inline = ExtentRoot;

    fn buffers(&mut self) -> &mut TransactionBuffers<'fs> {
        self.transaction.buffers()
    }

    fn owner(&self) -> TreeOwner {
        TreeOwner::Inode(self.inode)
    }

    fn root(&self) -> Result<TreeRoot<FsBlock>> {
        Ok(TreeRoot::Inline)
    }

    fn set_root(&mut self, _: FsBlock, _: u32) -> Result<()> {
        Err(OperationError::WrongFileType.into())
    }

    fn inline_root(&mut self) -> Option<&mut ExtentRoot> {
        Some(self.root)
    }

    fn inline_capacity(&self) -> usize {
        self.capacity
    }

    fn allocate_block(&mut self, near: Option<FsBlock>) -> Result<FsBlock> {
        let near = near.or_else(|| self.root.pointers.last().copied());
        let block = self.transaction.extent_maps().allocate_tree_block(
            self.inode,
            self.fork,
            near.unwrap_or_default(),
        )?;
        self.growth_blocks += 1;
        Ok(block)
    }

    fn free_block(&mut self, block: FsBlock) -> Result<()> {
        let owner = FreedOwner::ExtentMap { inode: self.inode, fork: self.fork };
        self.growth_blocks -= 1;
        self.transaction.defer_free_of(block, 1, owner)
    }

    fn hint(&mut self) -> Option<&mut CursorHint<ExtentMap>> {
        Some(self.hint)
    }
}

impl<'fs> ExtentMapEditor<'_, 'fs> {
    /// A block for the tree of a fork.
    fn allocate_tree_block(&mut self, inode: InodeNumber, fork: Fork, near: FsBlock) -> Result<FsBlock> {
        let block = self.transaction.allocate(&AllocationRequest::metadata(Goal::Near(near), 1))?.start;
        let place = self.transaction.engine().geometry().split_fs_block(block);
        let (group, in_group) = place.ok_or(OperationError::NoSuchGroup)?;
        self.transaction.group(group)?.add_extent_map_block(in_group, inode, fork)?;
        Ok(block)
    }

    /// Makes a change of the list in the fork's btree.
    pub(super) fn change_extent_tree(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        splice: &Splice,
    ) -> Result<()> {
        self.with_extent_tree(inode, fork, |cursor, extents| {
            change_records(cursor, &splice.removed(extents), splice.added())
        })
    }

    /// Moves the entries of the root in the inode into a block below it: the smallest root that there is.
    #[doc(alias = "xfs_bmap_add_attrfork_btree")]
    pub(super) fn lower_extent_root(&mut self, inode: &mut EditInode, fork: Fork) -> Result<()> {
        self.with_extent_tree(inode, fork, |cursor, extents| {
            let first = extents.first().map_or(FileBlock::new(0), |extent| extent.file_block);
            cursor.seek_exact(first)?;
            cursor.push_root_down()
        })
    }

    fn with_extent_tree(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        change: impl FnOnce(&mut EditCursor<'fs, ExtentMap, ForkTree<'_, 'fs>>, &ExtentList) -> Result<()>,
    ) -> Result<()> {
        let room_bytes = inode.fork_room_bytes(fork, self.transaction.engine().geometry());
        let number = inode.number;
        let mut hint = std::mem::take(&mut inode.extent_hint);
        let extents = extents_mut(inode, fork)?;
        let mut root = extents.root.take().ok_or(OperationError::WrongFileType)?;
        let home = ForkTree {
            transaction: self.transaction,
            inode: number,
            fork,
            root: &mut root,
            hint: hint.of(fork),
            capacity: root_capacity(room_bytes),
            growth_blocks: 0,
        };
        let mut cursor = EditCursor::new(home);
        change(&mut cursor, &extents.extents)?;
        let growth_blocks = cursor.home().growth_blocks;
        drop(cursor);
        extents.root = Some(root);
        inode.extent_hint = hint;
        inode.add_blocks(growth_blocks);
        Ok(())
    }

    /// Moves the extents of a fork from the inode to a leaf below a root in the inode.
    #[doc(alias = "xfs_bmap_extents_to_btree")]
    pub(super) fn extents_to_tree(&mut self, inode: &mut EditInode, fork: Fork) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        let near = block_of_inode(inode, geometry);
        inode.extent_hint.forget();
        let (number, extents) = (inode.number, extents_mut(inode, fork)?);
        let near = extents.extents.last().map_or(near, |extent| extent.start);
        let block = self.allocate_tree_block(number, fork, near)?;
        let sector = geometry.sector_of_block(block).ok_or(OperationError::NoSuchGroup)?;
        let mut buffer =
            self.transaction.buffers().create(Structure::ExtentMap, sector, geometry.block_size_bytes)?;
        let mut leaf = BlockEdit::<ExtentMap>::new(buffer.edit());
        leaf.format(0, BlockIdentity { sector, uuid: geometry.metadata_uuid, owner: number.get() });
        if extents.extents.len() > ExtentMap::max_leaf_records(geometry.block_size_bytes) as usize {
            return Err(OperationError::ForkTooLarge.into());
        }
        for (index, extent) in extents.extents.iter().enumerate() {
            leaf.insert_record(index, &record_of(&extent)?);
        }
        let first = extents.extents.first().map_or(0, |extent| extent.file_block.get());
        extents.root = Some(ExtentRoot { level: 1, keys: vec![first], pointers: vec![block] });
        inode.add_blocks(1);
        Ok(())
    }

    /// Moves the extents of a fork back into the inode, whose list has them all, and frees the btree.
    #[doc(alias = "xfs_bmap_btree_to_extents")]
    pub(super) fn tree_to_extents(&mut self, inode: &mut EditInode, fork: Fork) -> Result<()> {
        let (number, budget) = (inode.number, inode.blocks());
        inode.extent_hint.forget();
        let Some(root) = extents_mut(inode, fork)?.root.take() else { return Ok(()) };
        let mut freed = TreeBlocks { inode: number, found: Vec::new(), budget };
        freed.collect(self.transaction, &root.pointers, root.level)?;
        let length_bytes = self.transaction.engine().geometry().block_size_bytes;
        for block in &freed.found {
            if let Some(sector) = self.transaction.engine().geometry().sector_of_block(*block) {
                self.transaction.buffers().invalidate(&[(sector, length_bytes)]);
            }
            self.transaction.defer_free_of(*block, 1, FreedOwner::ExtentMap { inode: number, fork })?;
        }
        inode.add_blocks(-(freed.found.len() as i64));
        Ok(())
    }
}

/// Replaces records by others that take their place. At no time do two records of the tree overlap: those that become
/// shorter go first.
fn change_records<'fs, H: BtreeStorage<'fs, ExtentMap>>(
    cursor: &mut EditCursor<'fs, ExtentMap, H>,
    removed: &Extents<'_>,
    added: &[Extent],
) -> Result<()> {
    let gone = removed.len().saturating_sub(added.len());
    for extent in removed.clone().take(gone).rev() {
        find(cursor, &extent)?;
        cursor.delete()?;
    }
    let kept = removed.clone().skip(gone);
    let is_within = |new: &Extent, old: &Extent| new.file_block >= old.file_block && new.end() <= old.end();
    for shrinks in [true, false] {
        for (old, new) in kept.clone().zip(added).filter(|(old, new)| is_within(new, old) == shrinks) {
            find(cursor, &old)?;
            cursor.update(&record_of(new)?)?;
        }
    }
    for extent in added.iter().skip(kept.len()) {
        cursor.insert(&record_of(extent)?)?;
    }
    Ok(())
}

fn find<'fs, H: BtreeStorage<'fs, ExtentMap>>(
    cursor: &mut EditCursor<'fs, ExtentMap, H>,
    extent: &Extent,
) -> Result<()> {
    match cursor.seek_exact(extent.file_block)? {
        Some(record) if record.get() == *extent => Ok(()),
        _ => {
            Err(Corruption::new(Structure::ExtentMap, Location::default(), BtreeFault::MissingRecord).into())
        }
    }
}

fn record_of(extent: &Extent) -> Result<ExtentRecord> {
    ExtentRecord::new(extent).ok_or_else(|| OperationError::FileTooLarge.into())
}

/// The blocks of a whole tree.
struct TreeBlocks {
    inode: InodeNumber,
    found: Vec<FsBlock>,
    /// No more than the inode has.
    budget: u64,
}

impl TreeBlocks {
    /// Collects the children of a node of `level`, and what is below them.
    fn collect(&mut self, transaction: &Transaction<'_>, children: &[FsBlock], level: u16) -> Result<()> {
        for child in children {
            if self.found.len() as u64 >= self.budget {
                let fault = BtreeFault::TooManyBlocks { budget: self.budget };
                return Err(self.damaged(fault.into()));
            }
            self.found.push(*child);
            if level > 1 {
                let below = self.children_of(transaction, *child, level - 1)?;
                self.collect(transaction, &below, level - 1)?;
            }
        }
        Ok(())
    }

    fn children_of(&self, transaction: &Transaction<'_>, block: FsBlock, level: u16) -> Result<Vec<FsBlock>> {
        let engine = transaction.engine();
        let geometry = engine.geometry();
        let sector = geometry
            .sector_of_block(block)
            .ok_or_else(|| self.damaged(ExtentMapFault::Place { start: block, length_blocks: 1 }.into()))?;
        let length_bytes = geometry.block_size_bytes;
        let buffer = engine.metadata().read(Structure::ExtentMap, sector, length_bytes)?;
        let view = BtreeBlock::<ExtentMap>::parse(&buffer).map_err(|fault| self.damaged(fault.into()))?;
        let (found, expected) = (view.header().owner(), self.inode.get());
        if found != expected {
            return Err(self.damaged(HeaderFault::WrongOwner { found, expected }.into()));
        }
        if view.level() != level {
            let fault = ExtentMapFault::ChildLevel { found: view.level(), expected: level };
            return Err(self.damaged(fault.into()));
        }
        Ok(view.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect())
    }

    fn damaged(&self, fault: Fault) -> Error {
        let location = Location::of_inode(self.inode);
        Corruption::new(Structure::ExtentMap, location, fault).into()
    }
}

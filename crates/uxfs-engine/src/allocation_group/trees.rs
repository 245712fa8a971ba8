//! The trees of a group, to be changed: where each has its root, and where its blocks come from.
//!
//! The trees of free space and of owners are what allocating changes, so their blocks come from the free list, which is
//! filled before each operation; all others allocate like files do, and their blocks have owner records.

use std::marker::PhantomData;

use uxfs_format::{
    btree::{
        BtreeKind,
        block_header::ShortBlockHeader,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::{Owner, ReverseMap},
    },
    features::RoCompatible,
    units::AgBlock,
};
use uxfs_journal::transaction::TransactionBuffers;
use zerocopy::big_endian::U32;

use super::{
    free_space::{Purpose, choose::GroupRequest},
    group_edit::GroupEdit,
    state::Headers,
};
use crate::btree::{BtreeStorage, CursorHint, NoInlineRoot, TreeOwner, TreeRoot};
use crate::{btree::EditCursor, transaction::deferred::queue::FreedOwner};
use uxfs_volume::error::{OperationError, Result};

/// Hints of the cursors in each tree of a group.
#[derive(Debug, Default)]
pub struct CursorHints {
    by_block: CursorHint<ByBlock>,
    by_length: CursorHint<ByLength>,
    inode_index: CursorHint<InodeIndex>,
    free_inode_index: CursorHint<FreeInodeIndex>,
    reverse_map: CursorHint<ReverseMap>,
    reference_count: CursorHint<ReferenceCount>,
}

/// Where the blocks of a tree come from, and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockSource {
    /// The group's free list.
    FreeList,
    /// Free space, like those of files; this owner is noted in the reverse map.
    Space(Owner, Purpose),
}

/// A kind of tree that each group has one of.
pub trait GroupTree: BtreeKind<Header = ShortBlockHeader> {
    /// Where its blocks come from.
    const SOURCE: BlockSource;

    /// Block of the root, and levels from 1.
    fn root(headers: &Headers) -> (u32, u32);

    /// Notes another root.
    fn set_root(headers: &mut Headers, block: U32, levels: U32);

    /// Whether its blocks are counted only in file systems that have the feature.
    const HAS_OPTIONAL_COUNT: bool;

    /// Counts blocks that the tree has got or lost.
    fn add_blocks(headers: &mut Headers, change: i32);

    /// The hint of the last cursor.
    fn hint(hints: &mut CursorHints) -> &mut CursorHint<Self>;
}

fn add(counter: &mut U32, change: i32) {
    *counter = U32::new(counter.get().saturating_add_signed(change));
}

macro_rules! group_tree {
    (
        $kind:ident, $source:expr, $header:ident . $root:ident, $levels:ident, $dirty:ident,
        $hint:ident, counts $($count_header:ident . $count:ident),* ; is_optional $optional:literal
    ) => {
        impl GroupTree for $kind {
            const SOURCE: BlockSource = $source;
            const HAS_OPTIONAL_COUNT: bool = $optional;

            fn root(headers: &Headers) -> (u32, u32) {
                (headers.$header.$root.get(), headers.$header.$levels.get())
            }

            fn set_root(headers: &mut Headers, block: U32, levels: U32) {
                headers.$header.$root = block;
                headers.$header.$levels = levels;
                headers.$dirty = true;
            }

            fn add_blocks(headers: &mut Headers, change: i32) {
                $(add(&mut headers.$count_header.$count, change);)*
                headers.$dirty = true;
            }

            fn hint(hints: &mut CursorHints) -> &mut CursorHint<Self> {
                &mut hints.$hint
            }
        }
    };
}

group_tree! {
    ByBlock, BlockSource::FreeList, free_space.by_block_root, by_block_levels, is_free_space_dirty,
    by_block, counts free_space.btree_blocks; is_optional false
}
group_tree! {
    ByLength, BlockSource::FreeList, free_space.by_length_root, by_length_levels, is_free_space_dirty,
    by_length, counts free_space.btree_blocks; is_optional false
}
group_tree! {
    ReverseMap, BlockSource::FreeList, free_space.reverse_map_root, reverse_map_levels, is_free_space_dirty,
    reverse_map, counts free_space.btree_blocks, free_space.reverse_map_blocks; is_optional false
}
group_tree! {
    ReferenceCount, BlockSource::Space(Owner::ReferenceCountBtree, Purpose::ReferenceCountBtree),
    free_space.reference_count_root, reference_count_levels, is_free_space_dirty,
    reference_count, counts free_space.reference_count_blocks; is_optional false
}
group_tree! {
    InodeIndex, BlockSource::Space(Owner::InodeBtrees, Purpose::Metadata),
    inodes.root, levels, is_inodes_dirty, inode_index, counts inodes.blocks; is_optional true
}
group_tree! {
    FreeInodeIndex, BlockSource::Space(Owner::InodeBtrees, Purpose::FreeInodeBtree),
    inodes.free_root, free_levels, is_inodes_dirty, free_inode_index, counts inodes.free_blocks; is_optional true
}

/// The home of a group's tree.
#[derive(Debug)]
pub struct GroupBtreeStorage<'g, 'fs, K> {
    group: GroupEdit<'g, 'fs>,
    kind: PhantomData<K>,
}

/// A cursor in one of a group's trees.
pub type GroupCursor<'g, 'fs, K> = EditCursor<'fs, K, GroupBtreeStorage<'g, 'fs, K>>;

impl<'fs> GroupEdit<'_, 'fs> {
    /// A cursor in one of the group's trees. Before something is added to the reverse map, the free list must be
    /// [filled](Self::fill_free_list).
    #[inline]
    pub fn tree<K: GroupTree>(&mut self) -> GroupCursor<'_, 'fs, K> {
        EditCursor::new(GroupBtreeStorage { group: self.reborrow(), kind: PhantomData })
    }
}

impl<K: GroupTree> GroupBtreeStorage<'_, '_, K> {
    /// Whether the free list has too few blocks for one more whole split of this tree.
    pub fn is_free_list_short(&self) -> Result<bool> {
        let headers = self.group.state.headers()?;
        let (_, levels) = K::root(headers);
        Ok(headers.free_space.free_list_count.get() < levels.saturating_add(1))
    }

    fn count_blocks(&mut self, change: i32) -> Result<()> {
        let features = &self.group.volume.geometry().features;
        if !K::HAS_OPTIONAL_COUNT || features.ro_compatible.contains(RoCompatible::INODE_BTREE_COUNTS) {
            K::add_blocks(self.group.state.headers_mut()?, change);
        }
        Ok(())
    }
}

impl<'fs, K: GroupTree> BtreeStorage<'fs, K> for GroupBtreeStorage<'_, 'fs, K> {
    type Inline = NoInlineRoot;

    fn buffers(&mut self) -> &mut TransactionBuffers<'fs> {
        self.group.buffers
    }

    fn owner(&self) -> TreeOwner {
        TreeOwner::Group(self.group.state.group())
    }

    fn root(&self) -> Result<TreeRoot<AgBlock>> {
        let (block, levels) = K::root(self.group.state.headers()?);
        Ok(TreeRoot::Block { address: AgBlock::new(block), levels })
    }

    fn set_root(&mut self, address: AgBlock, levels: u32) -> Result<()> {
        K::set_root(self.group.state.headers_mut()?, U32::new(address.get()), U32::new(levels));
        Ok(())
    }

    fn inline_root(&mut self) -> Option<&mut NoInlineRoot> {
        None
    }

    fn allocate_block(&mut self, near: Option<AgBlock>) -> Result<AgBlock> {
        let block = match K::SOURCE {
            BlockSource::FreeList => self.group.take_from_free_list()?,
            BlockSource::Space(owner, purpose) => {
                let request = GroupRequest { near, purpose, ..GroupRequest::blocks(1) };
                self.group.state.growing_tree = Some(K::STRUCTURE);
                let found = self.group.allocate(&request);
                self.group.state.growing_tree = None;
                let found = found?;
                let (block, _) = found.ok_or(OperationError::NoSpace)?;
                self.group.add_owner(block, 1, owner)?;
                block
            }
        };
        self.count_blocks(1)?;
        Ok(block)
    }

    fn free_block(&mut self, address: AgBlock) -> Result<()> {
        match K::SOURCE {
            BlockSource::FreeList => self.group.add_to_free_list(address)?,
            // Not before the change of the tree is done, and in logged mode in the log.
            BlockSource::Space(owner, _) => self.group.defer_free(address, 1, FreedOwner::Group(owner)),
        }
        self.count_blocks(-1)
    }

    fn hint(&mut self) -> Option<&mut CursorHint<K>> {
        self.group.state.hints_mut().map(K::hint)
    }
}

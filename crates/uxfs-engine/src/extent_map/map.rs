//! Allocating and mapping blocks.

use std::ops::{Deref, RangeInclusive};
use uxfs_volume::extent_map::ExtentMap;

use uxfs_format::{
    btree::extent_map::{Extent, MAX_EXTENT_BLOCKS, MAX_FILE_BLOCKS},
    geometry::Geometry,
    inode::{FileType, Fork},
    units::{FileBlock, FsBlock},
};

use super::list;
use crate::extent_map::editor::ExtentMapEditor;
use crate::{
    allocation_group::free_space::Purpose,
    inode::edit::{EditInode, ForkExtents, InodeFork},
    transaction::allocate::{Allocated, AllocationRequest, Goal},
};
use uxfs_volume::error::{OperationError, Result};

/// A request to map blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapping {
    /// Where on disk they should lie if possible; by default behind the neighbours in the file, or near the inode.
    pub hint: Option<FsBlock>,
    /// They read as zeros until they are converted: data of regular files only.
    pub is_unwritten: bool,
}

/// The extents of a range of a fork, in order. Mostly it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped(Extents);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Extents {
    None,
    One([Extent; 1]),
    Many(Vec<Extent>),
}

impl Mapped {
    fn push(&mut self, extent: Extent) {
        self.0 = match std::mem::replace(&mut self.0, Extents::None) {
            Extents::None => Extents::One([extent]),
            Extents::One([first]) => Extents::Many(vec![first, extent]),
            Extents::Many(mut extents) => {
                extents.push(extent);
                Extents::Many(extents)
            }
        };
    }
}

impl Deref for Mapped {
    type Target = [Extent];

    fn deref(&self) -> &[Extent] {
        match &self.0 {
            Extents::None => &[],
            Extents::One(extent) => extent,
            Extents::Many(extents) => extents,
        }
    }
}

impl ExtentMapEditor<'_, '_> {
    /// Maps all blocks of a range that are not mapped yet, in as few extents as free space allows, and gives the
    /// extents of the whole range. The inode's count of blocks follows; its size does not.
    ///
    /// # Errors
    /// No space; more extents than the inode can count; past the largest file; a fork with other contents; damage;
    /// the device.
    #[doc(alias = "xfs_bmapi_write")]
    pub fn map_blocks(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        file_block: FileBlock,
        length_blocks: u64,
        mapping: Mapping,
    ) -> Result<Mapped> {
        let end = file_block.checked_add(length_blocks).filter(|end| end.get() <= MAX_FILE_BLOCKS);
        let end = end.ok_or(OperationError::FileTooLarge)?;
        if mapping.is_unwritten && (fork != Fork::Data || inode.file_type() != Some(FileType::Regular)) {
            return Err(OperationError::WrongFileType.into());
        }
        let (mut mapped, mut next, mut hint) = (Mapped(Extents::None), file_block, mapping.hint);
        while next < end {
            let extents = inode.extents(fork);
            let index = list::index_at_or_after(extents, next);
            let following = extents.get(index);
            if let Some(part) = following.and_then(|extent| list::part_of(&extent, next, end))
                && part.file_block == next
            {
                mapped.push(part);
                next = part.end();
                continue;
            }
            let hole_end = following.map_or(end, |extent| extent.file_block.min(end));
            let wanted = hole_end.checked_distance_from(next).unwrap_or(0).min(MAX_EXTENT_BLOCKS);
            let goal = match hint.take() {
                Some(hint) => Some(hint),
                None => goal_beside(extents, index, next, wanted, self.transaction.engine().geometry()),
            };
            let goal = goal.unwrap_or_else(|| block_of_inode(inode, self.transaction.engine().geometry()));
            let Allocated { start, length_blocks } = self.allocate_for_fork(inode, fork, goal, wanted)?;
            let (length_blocks, is_unwritten) = (length_blocks.into(), mapping.is_unwritten);
            let extent = Extent { file_block: next, start, length_blocks, is_unwritten };
            self.map_existing(inode, fork, extent)?;
            mapped.push(extent);
            next = extent.end();
        }
        Ok(mapped)
    }

    /// Takes blocks for a hole in the data of a regular file that begins at `file_block`, as many as can be had in one
    /// piece, without mapping them. Room is left in their group for the tree to take `growth` more extents.
    ///
    /// # Errors
    /// [`NoSpace`](OperationError::NoSpace), with no visible change; damage; the device.
    pub fn allocate_for_hole(
        &mut self,
        inode: &EditInode,
        file_block: FileBlock,
        blocks: RangeInclusive<u64>,
        growth: u32,
    ) -> Result<Allocated> {
        let geometry = self.transaction.engine().geometry();
        let extents = inode.extents(Fork::Data);
        let index = list::index_at_or_after(extents, file_block);
        let goal = goal_beside(extents, index, file_block, *blocks.end(), geometry);
        let most = u64::from(geometry.ag_blocks).min(MAX_EXTENT_BLOCKS);
        let narrow = |blocks: u64| u32::try_from(blocks.min(most)).unwrap_or(u32::MAX);
        self.transaction.allocate(&AllocationRequest {
            goal: Goal::Near(goal.unwrap_or_else(|| block_of_inode(inode, geometry))),
            min_blocks: narrow(*blocks.start()),
            max_blocks: narrow(*blocks.end()),
            alignment_blocks: 1,
            spare_blocks: tree_growth_blocks(inode, Fork::Data, growth),
            purpose: Purpose::Data,
        })
    }

    /// Blocks for a fork, as many as can be had in one piece.
    fn allocate_for_fork(
        &mut self,
        inode: &EditInode,
        fork: Fork,
        goal: FsBlock,
        wanted_blocks: u64,
    ) -> Result<Allocated> {
        let is_data = fork == Fork::Data && inode.file_type() == Some(FileType::Regular);
        let most = u64::from(self.transaction.engine().geometry().ag_blocks).min(wanted_blocks);
        self.transaction.allocate(&AllocationRequest {
            goal: Goal::Near(goal),
            min_blocks: 1,
            max_blocks: u32::try_from(most).unwrap_or(u32::MAX),
            alignment_blocks: 1,
            spare_blocks: tree_growth_blocks(inode, fork, 1),
            purpose: if is_data { Purpose::Data } else { Purpose::Metadata },
        })
    }

    /// Maps blocks that have been allocated before, or that are shared, to a hole of a fork.
    ///
    /// # Errors
    /// Not a hole ([`Exists`](OperationError::Exists)); otherwise as [`map_blocks`](Self::map_blocks).
    pub fn map_existing(&mut self, inode: &mut EditInode, fork: Fork, extent: Extent) -> Result<()> {
        let splice = list::insertion(inode.extents(fork), &extent).ok_or(OperationError::Exists)?;
        self.splice_extents(inode, fork, &splice)?;
        inode.add_blocks(extent.length_blocks.cast_signed());
        self.transaction.defer_map(inode, fork, &extent)
    }
}

/// The most blocks that the tree of a fork takes when it gets so many extents more, close to each other: it may have to
/// split down to its leaf, again where these fill more than what a split leaves, and to grow.
pub(super) fn tree_growth_blocks(inode: &EditInode, fork: Fork, growth: u32) -> u32 {
    let tree_levels = match inode.fork(fork) {
        Some(InodeFork::Extents(ForkExtents { root: Some(root), .. })) => u32::from(root.level),
        _ => 0,
    };
    // Half of the smallest leaf holds more.
    let splits = growth.min(1 + growth.div_ceil(16));
    tree_levels.saturating_mul(splits).saturating_add(1)
}

/// Where the block of a fork should lie whose neighbours are mapped: at the same distance from the one before it on
/// disk as in the file, unless that is far, or before the one behind it.
#[doc(alias = "xfs_bmap_adjacent")]
fn goal_beside(
    extents: &ExtentMap,
    index: usize,
    file_block: FileBlock,
    length_blocks: u64,
    geometry: &Geometry,
) -> Option<FsBlock> {
    let is_near = |distance: u64| distance <= length_blocks.saturating_mul(4);
    let group_of = |block| geometry.split_fs_block(block).map(|(group, _)| group);
    let before = index.checked_sub(1).and_then(|index| extents.get(index)).and_then(|left| {
        let behind = left.start.checked_add(left.length_blocks)?;
        let distance = file_block.checked_distance_from(left.end())?;
        let same = behind.checked_add(distance).filter(|goal| group_of(*goal) == group_of(left.start));
        let last = left.start.checked_add(left.length_blocks.saturating_sub(1))?;
        let near = group_of(behind).filter(|group| Some(*group) == group_of(left.start));
        Some(same.filter(|_| is_near(distance)).or(near.map(|_| behind)).unwrap_or(last))
    });
    before.or_else(|| {
        let right = extents.get(index)?;
        let distance = right.file_block.checked_distance_from(file_block)?;
        let goal = right.start.get().checked_sub(distance).map(FsBlock::new);
        let same = goal.filter(|goal| is_near(distance) && group_of(*goal) == group_of(right.start));
        Some(same.unwrap_or(right.start))
    })
}

/// The block that holds an inode: where its contents should begin.
pub(super) fn block_of_inode(inode: &EditInode, geometry: &Geometry) -> FsBlock {
    let place = geometry.inode_place(inode.number);
    place.and_then(|place| geometry.fs_block(place.group, place.block)).unwrap_or_default()
}

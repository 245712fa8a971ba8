//! The free list (AGFL): blocks kept ready for the trees that allocating itself changes.
//!
//! The slots are a ring, used oldest first. Its blocks belong to [`Owner::GroupBtrees`] in the reverse map, as do the
//! blocks of the trees that take them, so that moving a block between list and tree changes no owner.

use uxfs_format::{
    allocation_group::free_list::{FreeListFault, is_consistent},
    btree::{BtreeKind, reverse_map::Owner},
    btree::{
        free_space::{ByBlock, ByLength},
        reverse_map::ReverseMap,
    },
    fault::{Corruption, Location, Structure},
    geometry::Geometry,
    units::AgBlock,
};
use zerocopy::big_endian::U32;

use super::choose::GroupRequest;
use crate::allocation_group::{group_edit::GroupEdit, state::Headers};
use uxfs_volume::error::{Error, OperationError, Result};

/// Rounds after which filling or emptying the list has come to an end on every sound image.
const MOST_ROUNDS: u32 = 1024;

/// Most levels of the trees that take blocks from the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeListNeeds {
    by_block_levels: u32,
    by_length_levels: u32,
    reverse_map_levels: u32,
}

impl FreeListNeeds {
    /// Of a file system.
    pub fn new(geometry: &Geometry) -> Self {
        let reverse_map =
            if geometry.features.has_reverse_map() { ReverseMap::max_levels(geometry) } else { 0 };
        Self {
            by_block_levels: ByBlock::max_levels(geometry),
            by_length_levels: ByLength::max_levels(geometry),
            reverse_map_levels: reverse_map,
        }
    }

    /// Blocks that the list must hold before an operation: two whole splits, root included, of each tree.
    #[doc(alias = "xfs_alloc_min_freelist")]
    pub fn blocks(&self, headers: &Headers) -> u32 {
        let header = &headers.free_space;
        let of_tree =
            |levels: u32, max_levels: u32| (2 * levels.saturating_add(1).min(max_levels)).saturating_sub(2);
        of_tree(header.by_block_levels.get(), self.by_block_levels)
            + of_tree(header.by_length_levels.get(), self.by_length_levels)
            + of_tree(header.reverse_map_levels.get(), self.reverse_map_levels)
    }
}

impl GroupEdit<'_, '_> {
    /// Brings the list to the length that the next change of the group's trees needs.
    ///
    /// # Errors
    /// No space in the group; damage; the device.
    pub fn fill_free_list(&mut self) -> Result<()> {
        if self.fix_free_list()? { Ok(()) } else { Err(OperationError::NoSpace.into()) }
    }

    /// Brings the list to the length that it must have. False where there is not enough space for that.
    #[doc(alias = "xfs_alloc_fix_freelist")]
    pub fn fix_free_list(&mut self) -> Result<bool> {
        if !is_free_list_consistent(self.state.headers()?) {
            let (slots, header) = self.state.free_list_mut()?;
            reset_if_inconsistent(slots, header);
        }
        for _ in 0..MOST_ROUNDS {
            let headers = self.state.headers()?;
            let (count, needed) = (headers.free_space.free_list_count.get(), headers.needs.blocks(headers));
            if count == needed {
                return Ok(true);
            }
            if count > needed {
                let block = self.take_from_free_list()?;
                self.remove_owner(block, 1, Owner::GroupBtrees)?;
                self.give(block, 1)?;
            } else if !self.grow_free_list(needed - count)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn grow_free_list(&mut self, wanted: u32) -> Result<bool> {
        let Some(choice) = self.choose(&GroupRequest { min_blocks: 1, ..GroupRequest::blocks(wanted) })?
        else {
            return Ok(false);
        };
        self.take(&choice)?;
        for block in choice.start.get()..choice.start.get().saturating_add(choice.length_blocks) {
            self.add_to_free_list(AgBlock::new(block))?;
        }
        self.add_owner(choice.start, choice.length_blocks, Owner::GroupBtrees)?;
        Ok(true)
    }

    /// The oldest block of the list.
    #[doc(alias = "xfs_alloc_get_freelist")]
    pub(in crate::allocation_group) fn take_from_free_list(&mut self) -> Result<AgBlock> {
        let group = self.state.group();
        let (slots, header) = self.state.free_list_mut()?;
        let length = reset_if_inconsistent(slots, header);
        let (first, count) = (header.free_list_first.get(), header.free_list_count.get());
        let Some(slot) = usize::try_from(first).ok().and_then(|first| slots.get(first)).filter(|_| count > 0)
        else {
            return Err(OperationError::NoSpace.into());
        };
        let block = AgBlock::new(slot.get());
        header.free_list_first = U32::new(next(first, length));
        header.free_list_count = U32::new(count - 1);
        let geometry = self.volume.geometry();
        let usable = geometry.group_header_blocks()..geometry.group_length_blocks(group).unwrap_or(0);
        if !usable.contains(&block.get()) {
            let location = Location { group: Some(group), ..Location::default() };
            let fault = FreeListFault::ActiveBlock { slot: first, block };
            return Err(Corruption::new(Structure::FreeList, location, fault).into());
        }
        Ok(block)
    }

    /// Puts a block behind the newest of the list.
    #[doc(alias = "xfs_alloc_put_freelist")]
    pub(in crate::allocation_group) fn add_to_free_list(&mut self, block: AgBlock) -> Result<()> {
        let (slots, header) = self.state.free_list_mut()?;
        let length = reset_if_inconsistent(slots, header);
        let (last, count) = (next(header.free_list_last.get(), length), header.free_list_count.get());
        let slot = usize::try_from(last).ok().and_then(|last| slots.get_mut(last));
        let full = || Error::from(OperationError::NoSpace);
        *slot.filter(|_| count < length).ok_or_else(full)? = U32::new(block.get());
        header.free_list_last = U32::new(last);
        header.free_list_count = U32::new(count + 1);
        Ok(())
    }
}

fn next(slot: u32, slots: u32) -> u32 {
    let next = slot.saturating_add(1);
    if next < slots { next } else { 0 }
}

fn is_free_list_consistent(headers: &Headers) -> bool {
    let header = &headers.free_space;
    let (first, last) = (header.free_list_first.get(), header.free_list_last.get());
    let slots = u32::try_from(headers.free_list.len()).unwrap_or(u32::MAX);
    is_consistent(first, last, header.free_list_count.get(), slots)
}

/// Where first, last and count disagree nothing is known of the list: it becomes an empty one, and what was on it is lost,
/// as it is with Linux. Gives the number of slots.
#[doc(alias = "xfs_agfl_reset")]
fn reset_if_inconsistent(
    slots: &[U32],
    header: &mut uxfs_format::allocation_group::free_space_header::FreeSpaceHeader,
) -> u32 {
    let length = u32::try_from(slots.len()).unwrap_or(u32::MAX);
    let (first, last) = (header.free_list_first.get(), header.free_list_last.get());
    if !is_consistent(first, last, header.free_list_count.get(), length) {
        header.free_list_first = U32::new(0);
        header.free_list_last = U32::new(length.saturating_sub(1));
        header.free_list_count = U32::new(0);
    }
    length
}

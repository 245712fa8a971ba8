//! Allocating and freeing in one group.

use uxfs_format::units::AgBlock;

use super::choose::GroupRequest;
use crate::allocation_group::group_edit::GroupEdit;
use uxfs_volume::error::Result;

impl GroupEdit<'_, '_> {
    /// Takes blocks. `None` where the group has none that will do, or must keep them for its own trees.
    ///
    /// The caller adds the reverse-map records.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_alloc_vextent")]
    pub fn allocate(&mut self, request: &GroupRequest) -> Result<Option<(AgBlock, u32)>> {
        if self.most_blocks(request)?.is_none() || !self.fix_free_list()? {
            return Ok(None);
        }
        let Some(max_blocks) = self.most_blocks(request)? else { return Ok(None) };
        let request = GroupRequest { max_blocks, ..*request };
        let near = match request.near {
            Some(near) => self.take_near(&request, near)?,
            None => None,
        };
        let choice = match near {
            Some(choice) => choice,
            None if request.is_exact => return Ok(None),
            None => {
                let Some(choice) = self.choose(&request)? else { return Ok(None) };
                self.take(&choice)?;
                choice
            }
        };
        self.counters.free_blocks -= i64::from(choice.length_blocks);
        Ok(Some((choice.start, choice.length_blocks)))
    }

    /// How many blocks the group can give: at most as many as wanted, `None` where that is too few.
    #[doc(alias = "xfs_alloc_space_available")]
    pub fn most_blocks(&self, request: &GroupRequest) -> Result<Option<u32>> {
        let headers = self.state.headers()?;
        let header = &headers.free_space;
        let kept = headers
            .reservation
            .left(headers, request.purpose)
            .saturating_add(headers.needs.blocks(headers))
            .saturating_add(request.spare_blocks);
        let there = header.free_blocks.get().saturating_add(header.free_list_count.get());
        let most = there.saturating_sub(kept).min(request.max_blocks);
        let is_enough =
            most >= request.min_blocks.max(1) && header.longest_blocks.get() >= request.min_blocks;
        Ok(is_enough.then_some(most))
    }

    /// Gives blocks back at once. Their reverse-map records have been removed before, and their buffers forgotten.
    ///
    /// # Errors
    /// Blocks that are free already, or no blocks of the group; damage; the device.
    #[doc(alias = "xfs_free_ag_extent")]
    pub fn free(&mut self, start: AgBlock, length_blocks: u32) -> Result<()> {
        // A full group has nothing to fill the list with; the blocks that are freed now serve the next time.
        self.fix_free_list()?;
        self.give(start, length_blocks)?;
        self.counters.free_blocks += i64::from(length_blocks);
        Ok(())
    }
}

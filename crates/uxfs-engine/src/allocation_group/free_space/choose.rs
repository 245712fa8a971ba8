//! Which free blocks of a group to take. The same request on the same group always gives the same blocks.
//!
//! In this order: the very block that was asked for; free space long enough that begins soon behind it, or ends shortly
//! before it; the shortest extent that is long enough; the longest there is. Space that continues at the wanted block but is
//! shorter than wanted is taken where it is at least half of it: one more extent elsewhere holds the rest.

use uxfs_format::{
    btree::free_space::{ByBlock, ByLength, FreeExtent},
    units::AgBlock,
};

use super::Purpose;
use crate::allocation_group::{group_edit::GroupEdit, trees::GroupCursor};
use uxfs_volume::error::Result;

/// Extents that are looked at to either side of the wanted block.
const NEIGHBOURS: u32 = 8;

/// A request for blocks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRequest {
    /// Where it is best, if anywhere.
    pub near: Option<AgBlock>,
    /// Nowhere else than at `near`.
    pub is_exact: bool,
    /// Fewer are of no use.
    pub min_blocks: u32,
    /// More are not wanted.
    pub max_blocks: u32,
    /// The first block is to be a multiple of this; 0 and 1 do not matter.
    pub alignment_blocks: u32,
    /// Blocks that must be left for others that come of this.
    pub spare_blocks: u32,
    /// Their use.
    pub purpose: Purpose,
}

/// Blocks in a free extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub from: FreeExtent,
    pub start: AgBlock,
    pub length_blocks: u32,
}

impl GroupRequest {
    /// So many blocks, anywhere in the group.
    pub fn blocks(count: u32) -> Self {
        Self {
            near: None,
            is_exact: false,
            min_blocks: count,
            max_blocks: count,
            alignment_blocks: 1,
            spare_blocks: 0,
            purpose: Purpose::Metadata,
        }
    }

    /// The part of an extent, from a block on, that serves the request.
    fn fit(&self, from: FreeExtent, wanted: AgBlock) -> Option<Choice> {
        let start = from.start.get().max(wanted.get());
        let start = start.checked_next_multiple_of(self.alignment_blocks.max(1))?;
        let length_blocks = from.end().get().checked_sub(start)?.min(self.max_blocks);
        (length_blocks >= self.min_blocks.max(1)).then_some(Choice {
            from,
            start: AgBlock::new(start),
            length_blocks,
        })
    }

    fn fit_anywhere(&self, from: FreeExtent) -> Option<Choice> {
        self.fit(from, from.start)
    }

    /// Whether nothing longer is wanted.
    fn is_whole(&self, choice: &Choice) -> bool {
        choice.length_blocks >= self.max_blocks
    }
}

impl GroupEdit<'_, '_> {
    /// Chooses blocks anywhere in the group, if there are any that will do.
    pub(super) fn choose(&mut self, request: &GroupRequest) -> Result<Option<Choice>> {
        if let Some(choice) = self.choose_shortest(request)? {
            return Ok(Some(choice));
        }
        self.choose_longest(request)
    }

    /// The shortest extent that is long enough; of several the one behind the wanted block.
    fn choose_shortest(&mut self, request: &GroupRequest) -> Result<Option<Choice>> {
        let near = request.near.unwrap_or(AgBlock::new(0));
        let mut cursor = self.tree::<ByLength>();
        let mut next = cursor.seek_at_or_after((request.max_blocks, near))?;
        while let Some(extent) = next.map(|record| record.get()) {
            if let Some(choice) = request.fit_anywhere(extent).filter(|choice| request.is_whole(choice)) {
                return Ok(Some(choice));
            }
            // From this length on every extent holds an aligned piece.
            let is_sure = request.max_blocks.saturating_add(request.alignment_blocks);
            next = match extent.length_blocks < is_sure {
                true => cursor.next()?,
                false => None,
            };
        }
        Ok(None)
    }

    /// The most that can be had in one piece.
    fn choose_longest(&mut self, request: &GroupRequest) -> Result<Option<Choice>> {
        let mut cursor = self.tree::<ByLength>();
        let mut best: Option<Choice> = None;
        let mut next = cursor.seek_last()?;
        while let Some(extent) = next.map(|record| record.get()) {
            let best_blocks = best.map_or(0, |best| best.length_blocks);
            if extent.length_blocks <= best_blocks || extent.length_blocks < request.min_blocks {
                break;
            }
            let choice = request.fit_anywhere(extent).filter(|choice| choice.length_blocks > best_blocks);
            best = choice.or(best);
            next = cursor.previous()?;
        }
        Ok(best)
    }
}

/// Chooses blocks at the wanted one or close to it, if there are any that will do. For an exact request only those at it.
pub(super) fn choose_near(
    cursor: &mut GroupCursor<'_, '_, ByBlock>,
    request: &GroupRequest,
    near: AgBlock,
) -> Result<Option<Choice>> {
    let before = cursor.seek_at_or_before(near)?.map(|record| record.get());
    let at = before.filter(|extent| extent.end() > near).and_then(|extent| request.fit(extent, near));
    if request.is_exact {
        return Ok(at.filter(|choice| choice.start == near));
    }
    if let Some(choice) = at.filter(|choice| choice.length_blocks >= request.max_blocks.div_ceil(2)) {
        return Ok(Some(choice));
    }
    let mut next = match before {
        Some(_) => cursor.next()?,
        None => cursor.seek_at_or_after(near)?,
    };
    for _ in 0..NEIGHBOURS {
        let Some(extent) = next.map(|record| record.get()) else { break };
        if let Some(choice) = request.fit_anywhere(extent).filter(|choice| request.is_whole(choice)) {
            return Ok(Some(choice));
        }
        next = cursor.next()?;
    }
    let mut previous = cursor.seek_at_or_before(near)?;
    for _ in 0..NEIGHBOURS {
        let Some(extent) = previous.map(|record| record.get()) else { break };
        if let Some(choice) = request.fit_anywhere(extent).filter(|choice| request.is_whole(choice)) {
            return Ok(Some(choice));
        }
        previous = cursor.previous()?;
    }
    Ok(None)
}

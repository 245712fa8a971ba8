//! Taking blocks out of free extents and putting them back: both trees, and the counts of the header.

use uxfs_block::self_check;
use uxfs_format::{
    btree::{
        BtreeKind,
        check::BtreeFault,
        free_space::{ByBlock, ByLength, FreeExtent, FreeSpaceRecord},
    },
    fault::{Corruption, Location},
    units::AgBlock,
};
use zerocopy::big_endian::U32;

use super::choose::{Choice, GroupRequest, choose_near};
use crate::allocation_group::{group_edit::GroupEdit, trees::GroupCursor};
use uxfs_volume::error::{Error, Result};

impl GroupEdit<'_, '_> {
    /// Takes blocks out of a free extent that has been looked up.
    pub(super) fn take(&mut self, choice: &Choice) -> Result<()> {
        if !self.state.known_free.contains(choice.from) {
            self.require_unowned(choice.from)?;
        }
        let mut cursor = self.tree::<ByBlock>();
        if cursor.seek_exact(choice.from.start)? != Some(choice.from.into()) {
            drop(cursor);
            return Err(self.missing::<ByBlock>(choice.from));
        }
        take_by_block(&mut cursor, choice)?;
        drop(cursor);
        self.take_by_length(choice)
    }

    /// Chooses blocks near the wanted one and takes them, if there are any that will do: what sequential writing asks for,
    /// with one way down the tree for both.
    pub(super) fn take_near(&mut self, request: &GroupRequest, near: AgBlock) -> Result<Option<Choice>> {
        let known_free = self.state.known_free;
        let mut cursor = self.tree::<ByBlock>();
        let Some(choice) = choose_near(&mut cursor, request, near)? else { return Ok(None) };
        if !known_free.contains(choice.from) {
            drop(cursor);
            self.take(&choice)?;
            return Ok(Some(choice));
        }
        let at = cursor.seek_exact(choice.from.start)?;
        self_check!(at == Some(choice.from.into()), "it has just been looked up");
        take_by_block(&mut cursor, &choice)?;
        drop(cursor);
        self.take_by_length(&choice)?;
        Ok(Some(choice))
    }

    fn take_by_length(&mut self, choice: &Choice) -> Result<()> {
        let (from, [left, right]) = (choice.from, choice.rest());
        let longest_blocks = self.state.headers()?.free_space.longest_blocks.get();
        let mut cursor = self.tree::<ByLength>();
        let found = cursor.seek_exact((from.length_blocks, from.start))?;
        if found != Some(from.into()) {
            drop(cursor);
            return Err(self.missing::<ByLength>(from));
        }
        match (left, right) {
            (None, None) => cursor.delete()?,
            (Some(rest), None) | (None, Some(rest)) => cursor.replace(&rest.into())?,
            (Some(left), Some(right)) => {
                cursor.replace(&left.into())?;
                cursor.insert(&right.into())?;
            }
        }
        let longest_blocks = match from.length_blocks >= longest_blocks {
            true => cursor.seek_last()?.map_or(0, |record| record.length_blocks.get()),
            false => longest_blocks,
        };
        drop(cursor);
        let header = self.state.free_space_mut()?;
        header.free_blocks = U32::new(header.free_blocks.get().saturating_sub(choice.length_blocks));
        header.longest_blocks = U32::new(longest_blocks);
        Ok(())
    }

    /// Adds blocks to the free extents, joined with those that they touch.
    pub(super) fn give(&mut self, start: AgBlock, length_blocks: u32) -> Result<()> {
        let freed = FreeExtent { start, length_blocks };
        self.verify_usable(freed)?;
        let (left, right, merged) = self.give_by_block(freed)?;
        self.give_by_length(left, right, merged)?;
        let header = self.state.free_space_mut()?;
        header.free_blocks = U32::new(header.free_blocks.get().saturating_add(length_blocks));
        header.longest_blocks = U32::new(header.longest_blocks.get().max(merged.length_blocks));
        Ok(())
    }

    /// Makes sure that blocks can be put among the free ones: that none is there, that both trees know their neighbours, and
    /// that no block has an owner any more.
    ///
    /// # Errors
    /// They cannot; damage; the device.
    pub(crate) fn require_may_become_free(&mut self, start: AgBlock, length_blocks: u32) -> Result<()> {
        let freed = FreeExtent { start, length_blocks };
        self.verify_usable(freed)?;
        self.require_no_owner(freed)?;
        let mut cursor = self.tree::<ByBlock>();
        let left = cursor.seek_at_or_before(start)?.map(|record| record.get());
        let right = match left {
            Some(_) => cursor.next()?,
            None => cursor.seek_at_or_after(start)?,
        };
        drop(cursor);
        for extent in [left, right.map(|record| record.get())].into_iter().flatten() {
            if extent.start < freed.end() && start < extent.end() {
                return Err(self.freed_twice(start, length_blocks));
            }
            let touches = extent.end() == start || extent.start == freed.end();
            let mut cursor = self.tree::<ByLength>();
            if touches && cursor.seek_exact((extent.length_blocks, extent.start))?.is_none() {
                drop(cursor);
                return Err(self.missing::<ByLength>(extent));
            }
        }
        Ok(())
    }

    /// Blocks that are to become free, and are free or become so twice.
    #[cold]
    pub(crate) fn freed_twice(&self, start: AgBlock, length_blocks: u32) -> Error {
        self.damaged_extent::<ByBlock>(FreeExtent { start, length_blocks }, BtreeFault::RecordExists)
    }

    fn give_by_block(
        &mut self,
        freed: FreeExtent,
    ) -> Result<(Option<FreeExtent>, Option<FreeExtent>, FreeExtent)> {
        let mut cursor = self.tree::<ByBlock>();
        let left = cursor.seek_at_or_before(freed.start)?.map(|record| record.get());
        let right = match left {
            Some(_) => cursor.next()?,
            None => cursor.seek_at_or_after(freed.start)?,
        };
        let right = right.map(|record| record.get());
        let overlaps = left.is_some_and(|left| left.end() > freed.start)
            || right.is_some_and(|right| right.start < freed.end());
        if overlaps {
            drop(cursor);
            return Err(self.damaged_extent::<ByBlock>(freed, BtreeFault::RecordExists));
        }
        let left = left.filter(|left| left.end() == freed.start);
        let right = right.filter(|right| right.start == freed.end());
        let merged = FreeExtent {
            start: left.map_or(freed.start, |left| left.start),
            length_blocks: freed.length_blocks
                + left.map_or(0, |left| left.length_blocks)
                + right.map_or(0, |right| right.length_blocks),
        };
        match (left, right) {
            (None, None) => cursor.insert(&merged.into())?,
            (None, Some(_)) => cursor.update(&merged.into())?,
            (Some(left), right) => {
                if right.is_some() {
                    cursor.delete()?;
                }
                cursor.seek_exact(left.start)?;
                cursor.update(&merged.into())?;
            }
        }
        Ok((left, right, merged))
    }

    fn give_by_length(
        &mut self,
        left: Option<FreeExtent>,
        right: Option<FreeExtent>,
        merged: FreeExtent,
    ) -> Result<()> {
        let mut cursor = self.tree::<ByLength>();
        // What grows to the merged one is replaced by it, another one goes.
        let (grown, gone) = match (left, right) {
            (Some(left), right) => (Some(left), right),
            (None, right) => (right, None),
        };
        for extent in [gone, grown].into_iter().flatten() {
            let found = cursor.seek_exact((extent.length_blocks, extent.start))?;
            if found.is_none() {
                drop(cursor);
                return Err(self.missing::<ByLength>(extent));
            }
            if Some(extent) == grown { cursor.replace(&merged.into())? } else { cursor.delete()? }
        }
        if grown.is_none() { cursor.insert(&FreeSpaceRecord::from(merged)) } else { Ok(()) }
    }

    /// Blocks that are to be freed must be ones that could be allocated.
    fn verify_usable(&self, freed: FreeExtent) -> Result<()> {
        let geometry = self.volume.geometry();
        ByBlock::verify_record(&freed.into(), geometry, Some(self.state.group()))
            .map_err(|fault| self.damaged_extent::<ByBlock>(freed, BtreeFault::Record { index: 0, fault }))
    }

    fn missing<K: BtreeKind>(&self, extent: FreeExtent) -> Error {
        self.damaged_extent::<K>(extent, BtreeFault::MissingRecord)
    }

    #[cold]
    pub(super) fn damaged_extent<K: BtreeKind>(&self, extent: FreeExtent, fault: BtreeFault) -> Error {
        let location = Location {
            group: Some(self.state.group()),
            group_block: Some(extent.start),
            ..Location::default()
        };
        Corruption::new(K::STRUCTURE, location, fault).into()
    }
}

/// Makes the extent at the cursor what a choice leaves of it.
fn take_by_block(cursor: &mut GroupCursor<'_, '_, ByBlock>, choice: &Choice) -> Result<()> {
    match choice.rest() {
        [None, None] => cursor.delete(),
        [Some(rest), None] | [None, Some(rest)] => cursor.update(&rest.into()),
        [Some(left), Some(right)] => {
            cursor.update(&left.into())?;
            cursor.insert(&right.into())
        }
    }
}

impl Choice {
    /// The rest of the extent, before and behind.
    fn rest(&self) -> [Option<FreeExtent>; 2] {
        let end = AgBlock::new(self.start.get().saturating_add(self.length_blocks));
        let before = self.start.get().saturating_sub(self.from.start.get());
        let behind = self.from.end().get().saturating_sub(end.get());
        [extent(self.from.start, before), extent(end, behind)]
    }
}

/// Nothing where there are no blocks.
fn extent(start: AgBlock, length_blocks: u32) -> Option<FreeExtent> {
    (length_blocks > 0).then_some(FreeExtent { start, length_blocks })
}

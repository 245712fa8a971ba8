//! Owner records of blocks that are never shared: those of the group's own structures, and of extent maps.
//!
//! Such a record never overlaps another one, so that its neighbours in the tree are its neighbours on disk.

use uxfs_format::{
    btree::{
        BtreeKind,
        check::BtreeFault,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    fault::{Corruption, Location},
    units::{AgBlock, FileBlock},
};

use crate::{
    error::{Error, Result},
    transaction::GroupEdit,
};

impl GroupEdit<'_, '_> {
    /// Notes that blocks belong to one of the group's structures. The free list must have been filled before the blocks
    /// were taken. Does nothing in a file system without a reverse map.
    pub(crate) fn add_group_owner(&mut self, start: AgBlock, length_blocks: u32, owner: Owner) -> Result<()> {
        self.add_unshared_owner(&mapping_of(start, length_blocks, owner))
    }

    /// Notes that blocks no longer belong to one of the group's structures.
    pub(crate) fn remove_group_owner(
        &mut self,
        start: AgBlock,
        length_blocks: u32,
        owner: Owner,
    ) -> Result<()> {
        self.remove_unshared_owner(&mapping_of(start, length_blocks, owner))
    }

    /// Notes the owner of blocks that nobody else owns and whose place in a file means nothing.
    pub(crate) fn add_unshared_owner(&mut self, added: &Mapping) -> Result<()> {
        if !self.file_system.geometry().features.has_reverse_map() {
            return Ok(());
        }
        let record = ReverseMapRecord::from(*added);
        let mut cursor = self.tree::<ReverseMap>();
        let left = cursor.seek_at_or_before(ReverseMap::position_of_record(&record))?;
        let left = left.map(|left| left.get()).filter(|left| touches(left, added));
        let right = match left {
            Some(_) => cursor.next()?,
            None => cursor.seek_at_or_after(ReverseMap::position_of_record(&record))?,
        };
        let right = right.map(|right| right.get()).filter(|right| touches(added, right));
        let length_blocks = added.length_blocks + right.map_or(0, |right| right.length_blocks);
        match (left, right) {
            (None, None) => cursor.insert(&record),
            (None, Some(_)) => cursor.update(&Mapping { length_blocks, ..*added }.into()),
            (Some(left), right) => {
                if right.is_some() {
                    cursor.delete()?;
                }
                let merged = Mapping { length_blocks: left.length_blocks + length_blocks, ..left };
                cursor.seek_exact(ReverseMap::position_of_record(&left.into()))?;
                cursor.update(&merged.into())
            }
        }
    }

    /// Takes the owner of blocks away, for which there must be one record over all of them.
    pub(crate) fn remove_unshared_owner(&mut self, removed: &Mapping) -> Result<()> {
        if !self.file_system.geometry().features.has_reverse_map() {
            return Ok(());
        }
        let group = self.state.group();
        let record = ReverseMapRecord::from(*removed);
        let mut cursor = self.tree::<ReverseMap>();
        let found = cursor.seek_at_or_before(ReverseMap::position_of_record(&record))?;
        let covers = |found: &Mapping| is_same_owner(found, removed) && found.end() >= removed.end();
        let Some(found) = found.map(|found| found.get()).filter(covers) else {
            let location =
                Location { group: Some(group), group_block: Some(removed.start), ..Location::default() };
            return Err(Error::from(Corruption::new(
                ReverseMap::STRUCTURE,
                location,
                BtreeFault::MissingRecord,
            )));
        };
        let before = removed.start.get() - found.start.get();
        let behind = found.end().get() - removed.end().get();
        let rest = Mapping { start: removed.end(), length_blocks: behind, ..found };
        let kept = Mapping { length_blocks: before, ..found };
        match (before, behind) {
            (0, 0) => cursor.delete(),
            (0, _) => cursor.update(&rest.into()),
            (_, 0) => cursor.update(&kept.into()),
            (_, _) => {
                cursor.update(&kept.into())?;
                cursor.insert(&rest.into())
            }
        }
    }
}

fn mapping_of(start: AgBlock, length_blocks: u32, owner: Owner) -> Mapping {
    Mapping {
        start,
        length_blocks,
        owner,
        file_block: FileBlock::new(0),
        is_attribute_fork: false,
        is_extent_map_block: false,
        is_unwritten: false,
    }
}

fn is_same_owner(a: &Mapping, b: &Mapping) -> bool {
    a.owner == b.owner
        && a.is_attribute_fork == b.is_attribute_fork
        && a.is_extent_map_block == b.is_extent_map_block
        && a.file_block == b.file_block
}

/// Whether two records lie side by side and must be one.
fn touches(left: &Mapping, right: &Mapping) -> bool {
    is_same_owner(left, right)
        && left.end() == right.start
        && left.length_blocks.checked_add(right.length_blocks).is_some()
}

//! Where the log lies.
//!
//! The reverse map says it. Without one, records of the log tell where it begins, and else mkfs.xfs has placed it behind the roots of
//! the middle group; it ends before the next block that is free or used.

use std::{cell::RefCell, collections::BTreeMap};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    allocation_group::free_list::FreeList,
    btree::{block::BtreeBlock, free_space::ByBlock},
    fault::Structure as Kind,
    geometry::Geometry,
    units::{AgBlock, AgNumber, SECTOR_SIZE_BYTES, Sector, Uuid},
};

use super::{
    evidence::{Evidence, LogEvidence, Logs},
    look::Structure,
    survey,
};

/// Logs are not longer.
const MOST_BLOCKS: u32 = 1 << 20;
/// Logs are not shorter.
const FEWEST_BYTES: u64 = 2 << 20;
/// What follows the log lies within so many bytes of the group.
const SEARCHED_BYTES: u64 = 1 << 30;
/// The longest stripe unit of a log.
const LONGEST_UNIT_BYTES: u64 = 256 << 10;
/// A record without a stripe unit has so many sectors at least: they tell nothing.
const SHORTEST_RECORD_SECTORS: u64 = 2;

/// An internal log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPlace {
    pub group: AgNumber,
    pub start: AgBlock,
    pub length_blocks: u32,
    /// 1 for none.
    pub unit_bytes: u32,
    /// The uuid that users see.
    pub uuid: Uuid,
}

/// What the search for a log knows.
pub(super) struct Known<'k> {
    pub device: &'k dyn BlockDevice,
    /// Without a log.
    pub geometry: &'k Geometry,
    pub evidence: &'k Evidence,
    pub logs: &'k Logs,
    /// Of the groups that were searched.
    pub in_use: RefCell<BTreeMap<AgNumber, Extents>>,
}

/// First block, end, and whether it is free.
type Extents = Vec<(u32, u32, bool)>;

/// Extents of a group that are kept.
const MOST_EXTENTS: usize = 1 << 20;

impl Known<'_> {
    /// The log, if there is one on this device.
    pub fn log(&self) -> Option<LogPlace> {
        self.by_reverse_map().or_else(|| self.by_records()).or_else(|| self.by_gap())
    }

    fn by_reverse_map(&self) -> Option<LogPlace> {
        let (group, start, length_blocks) = self.evidence.logs.best()?;
        let (group, start) = (AgNumber::new(group), AgBlock::new(start));
        let sector = self.geometry.sector_of_group_block(group, start)?;
        let found = self.logs.by_records().into_iter().find(|(first, _, _)| *first == sector.get());
        let uuid = found.map_or(self.geometry.metadata_uuid, |(_, uuid, _)| uuid);
        let unit_bytes = self.unit_bytes(found.map(|(_, _, log)| log));
        Some(LogPlace { group, start, length_blocks, unit_bytes, uuid })
    }

    fn by_records(&self) -> Option<LogPlace> {
        let metadata_uuid = self.geometry.metadata_uuid;
        let logs = self.logs.by_records();
        // Users may have changed the uuid that they see. Then only the place tells whose log it is.
        let own = logs.iter().filter(|(_, uuid, _)| *uuid == metadata_uuid);
        let others = logs.iter().filter(|(_, uuid, _)| *uuid != metadata_uuid);
        own.chain(others).find_map(|(sector, uuid, log)| {
            let (group, start, offset_bytes) = self.geometry.block_of_sector(Sector::new(*sector))?;
            let is_usual = offset_bytes == 0 && (*uuid == metadata_uuid || start < self.last_usual_start());
            let length_blocks = self.gap(group, start).filter(|_| is_usual)?;
            let needed = (log.end_sectors * SECTOR_SIZE_BYTES) >> self.geometry.block_log;
            let is_room = needed <= u64::from(length_blocks);
            let unit_bytes = self.unit_bytes(Some(*log));
            is_room.then_some(LogPlace { group, start, length_blocks, unit_bytes, uuid: *uuid })
        })
    }

    fn by_gap(&self) -> Option<LogPlace> {
        let geometry = self.geometry;
        let group = AgNumber::new(geometry.ag_count / 2);
        let start = self.first_free(group)?;
        let length_blocks = self.gap(group, start)?;
        let is_long = u64::from(length_blocks) << geometry.block_log >= FEWEST_BYTES;
        let place = LogPlace {
            group,
            start,
            length_blocks,
            unit_bytes: self.unit_bytes(None),
            uuid: geometry.metadata_uuid,
        };
        is_long.then_some(place)
    }

    /// mkfs.xfs places the log behind the roots, aligned to a stripe.
    fn last_usual_start(&self) -> AgBlock {
        let aligned = LONGEST_UNIT_BYTES >> self.geometry.block_log;
        AgBlock::new(self.first_behind_roots().saturating_add(u32::try_from(aligned).unwrap_or(0)))
    }

    fn first_behind_roots(&self) -> u32 {
        let features = &self.geometry.features;
        let more = [features.has_free_inode_btree(), features.has_reverse_map(), features.has_reflink()];
        let roots = 3 + more.into_iter().filter(|has| *has).count();
        self.geometry.group_header_blocks() + u32::try_from(roots).unwrap_or(0)
    }

    /// The first block behind the roots and the free space that may follow them.
    fn first_free(&self, group: AgNumber) -> Option<AgBlock> {
        let mut start = self.first_behind_roots();
        self.each_block_in_use(group, &mut |first, end, is_free| {
            if is_free && first <= start && start < end {
                start = end;
            }
        });
        (start < self.last_usual_start().get()).then_some(AgBlock::new(start))
    }

    /// How many blocks from `start` on are neither free nor in use by anything that is known.
    fn gap(&self, group: AgNumber, start: AgBlock) -> Option<u32> {
        let length_blocks = self.geometry.group_length_blocks(group)?;
        let mut end = length_blocks.min(start.get().saturating_add(MOST_BLOCKS));
        self.each_block_in_use(group, &mut |first, _, _| {
            if first >= start.get() {
                end = end.min(first);
            }
        });
        end.checked_sub(start.get()).filter(|length| *length > 0)
    }

    /// Shows first block, end, and whether it is free.
    fn each_block_in_use(&self, group: AgNumber, visit: &mut dyn FnMut(u32, u32, bool)) {
        let mut known = self.in_use.borrow_mut();
        let extents = known.entry(group).or_insert_with(|| {
            let mut extents = Vec::new();
            self.search(group, &mut |first, end, is_free| {
                if extents.len() < MOST_EXTENTS {
                    extents.push((first, end, is_free));
                }
            });
            extents.sort_unstable();
            extents
        });
        extents.iter().for_each(|(first, end, is_free)| visit(*first, *end, *is_free));
    }

    fn search(&self, group: AgNumber, visit: &mut dyn FnMut(u32, u32, bool)) {
        let geometry = self.geometry;
        let Some(first) = geometry.sector_of_group_block(group, AgBlock::new(0)) else { return };
        let start = Geometry::byte_of_sector(first);
        let length = u64::from(geometry.group_length_blocks(group).unwrap_or(0)) << geometry.block_log;
        let end = start.saturating_add(length.min(SEARCHED_BYTES));
        survey::survey(self.device, start..end, &mut |structure| {
            if structure.uuid == geometry.metadata_uuid && structure.kind != Kind::LogRecord {
                self.visit_structure(structure, visit);
            }
        });
    }

    fn visit_structure(&self, structure: &Structure<'_>, visit: &mut dyn FnMut(u32, u32, bool)) {
        let geometry = self.geometry;
        let sector = Sector::new(structure.offset_bytes / SECTOR_SIZE_BYTES);
        let Some((_, block, _)) = geometry.block_of_sector(sector) else { return };
        match structure.kind {
            Kind::FreeSpaceByBlock => {
                let Ok(view) = BtreeBlock::<ByBlock>::parse(structure.bytes) else { return };
                for free in view.records().iter().map(|record| record.get()) {
                    visit(free.start.get(), free.end().get(), true);
                }
            }
            Kind::FreeList => {
                let Ok(list) = FreeList::parse(structure.bytes) else { return };
                for slot in list.slots().iter().map(|slot| slot.block.get()) {
                    visit(slot, slot.saturating_add(1), false);
                }
            }
            Kind::Inode => {
                // Copies of inodes in the log lie elsewhere than they say.
                let number = uxfs_format::field_table::OnDisk::prefix_of(structure.bytes)
                    .map(|core: &uxfs_format::inode::InodeCore| core.inode_number());
                let place = number.and_then(|number| geometry.inode_place(number));
                if place.is_some_and(|place| place.block == block) {
                    visit(block.get(), block.get().saturating_add(1), false);
                }
                return;
            }
            _ => {}
        }
        visit(block.get(), block.get().saturating_add(1), false);
    }

    fn unit_bytes(&self, log: Option<LogEvidence>) -> u32 {
        let geometry = self.geometry;
        let block_bytes = u64::from(geometry.block_size_bytes);
        let sectors = log.map_or(0, |log| log.unit_sectors);
        let bytes = sectors.saturating_mul(SECTOR_SIZE_BYTES);
        let is_unit = sectors > SHORTEST_RECORD_SECTORS
            && bytes.is_multiple_of(block_bytes)
            && bytes <= LONGEST_UNIT_BYTES
            && bytes.is_power_of_two();
        match (is_unit, geometry.sector_size_bytes > 512) {
            (true, _) => u32::try_from(bytes).unwrap_or(1),
            // Whole blocks are whole sectors.
            (false, true) => geometry.block_size_bytes,
            (false, false) => 1,
        }
    }
}

//! Master boot records: four entries in the first sector, of which one may hold a chain of logical partitions.

use std::{collections::BTreeSet, ops::Range};

use uxfs_block::device::BlockDevice;
use zerocopy::transmute;

use crate::{
    structures::{BootEntry, BootRecord},
    table::{Entry, MOST_PARTITIONS, PartitionTable, Scheme, TableError},
};

/// Bytes of a record.
const RECORD_BYTES: usize = size_of::<BootRecord>();
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// The type of the entry that stands for a GUID partition table.
const PROTECTIVE: u8 = 0xee;
/// Types of entries that hold logical partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// What the first byte of an entry can be.
const BOOT_INDICATORS: [u8; 2] = [0, 0x80];
/// Logical partitions are counted from here.
const FIRST_LOGICAL: u32 = 5;

/// The record of a disk; `None` where there is none. Boot sectors of file systems have the same signature, and code where the entries are:
/// the first byte of each tells them apart.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn read_record(device: &dyn BlockDevice) -> Result<Option<BootRecord>, TableError> {
    let is_record = |record: &BootRecord| {
        record.entries.iter().all(|entry| BOOT_INDICATORS.contains(&entry.boot_indicator))
    };
    Ok(read_signed(device, 0)?.filter(is_record))
}

/// What has the signature of a record at this byte.
fn read_signed(device: &dyn BlockDevice, offset_bytes: u64) -> Result<Option<BootRecord>, TableError> {
    if offset_bytes.checked_add(RECORD_BYTES as u64).is_none_or(|end| end > device.size_bytes()) {
        return Ok(None);
    }
    let mut bytes = [0; RECORD_BYTES];
    device.read(offset_bytes, &mut bytes)?;
    let record: BootRecord = transmute!(bytes);
    Ok((record.signature == SIGNATURE).then_some(record))
}

/// Whether the partitions are in a GUID partition table.
pub(crate) fn is_protective(record: &BootRecord) -> bool {
    record.entries.iter().any(|entry| entry.kind == PROTECTIVE)
}

/// The partitions; `None` where the record has none.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn table(
    device: &dyn BlockDevice,
    record: &BootRecord,
    sector_size_bytes: u64,
) -> Result<Option<PartitionTable>, TableError> {
    let signature = record.disk_signature.get();
    let table_ranges = std::iter::once(0..sector_size_bytes).collect();
    let entries = Vec::new();
    let mut reader =
        Reader { device, sector_size_bytes, signature, next_logical: FIRST_LOGICAL, entries, table_ranges };
    for (found, number) in record.entries.iter().zip(1..).filter(|(found, _)| is_used(found)) {
        if is_extended(found) {
            reader.follow_chain(found)?;
        } else {
            reader.add(found, 0, number);
        }
    }
    let mut entries = reader.entries;
    entries.sort_by_key(|entry| entry.number);
    entries.truncate(MOST_PARTITIONS);
    let is_empty = entries.is_empty();
    let ranges = reader.table_ranges;
    Ok((!is_empty).then(|| PartitionTable::of(device, Scheme::Mbr, sector_size_bytes, entries, ranges)))
}

/// Reads the entries of a disk.
struct Reader<'d> {
    device: &'d dyn BlockDevice,
    sector_size_bytes: u64,
    /// Of the disk.
    signature: u32,
    /// The number of the next logical partition.
    next_logical: u32,
    entries: Vec<Entry>,
    /// The records themselves, in bytes.
    table_ranges: Vec<Range<u64>>,
}

impl Reader<'_> {
    /// Follows a chain of logical partitions. Each record in it has partitions, counted from its own place, and the place of the next record,
    /// counted from that of the first. Partitions before damage or a loop are there, as for Linux.
    fn follow_chain(&mut self, extended: &BootEntry) -> Result<(), TableError> {
        let first_sector = u64::from(extended.first_sector.get());
        let chain_end = first_sector + u64::from(extended.sectors.get());
        let (mut sector, mut sectors) = (first_sector, u64::from(extended.sectors.get()));
        let mut seen = BTreeSet::new();
        while seen.insert(sector) && seen.len() <= MOST_PARTITIONS && self.entries.len() < MOST_PARTITIONS {
            let offset_bytes = sector.saturating_mul(self.sector_size_bytes);
            let Some(record) = read_signed(self.device, offset_bytes)? else { break };
            self.table_ranges.push(offset_bytes..offset_bytes.saturating_add(self.sector_size_bytes));
            let used = || record.entries.iter().zip(0..).filter(|(found, _)| is_used(found));
            for (found, index) in used().filter(|(found, _)| !is_extended(found)) {
                // Some programs leave rubbish in the last two.
                let end = u64::from(found.first_sector.get()) + u64::from(found.sectors.get());
                if index < 2 || end <= sectors && sector + end <= chain_end {
                    self.add(found, sector, self.next_logical);
                    self.next_logical += 1;
                }
            }
            let Some((link, _)) = used().find(|(found, _)| is_extended(found)) else { break };
            sector = first_sector + u64::from(link.first_sector.get());
            sectors = link.sectors.get().into();
        }
        Ok(())
    }

    /// Adds a partition that is counted from `base_sector`.
    fn add(&mut self, found: &BootEntry, base_sector: u64, number: u32) {
        self.entries.push(Entry {
            number,
            first_sector: base_sector + u64::from(found.first_sector.get()),
            length_sectors: Some(found.sectors.get().into()),
            name: String::new(),
            unique_id: format!("{:08x}-{number:02x}", self.signature),
        });
    }
}

fn is_used(found: &BootEntry) -> bool {
    found.sectors.get() != 0
}

fn is_extended(found: &BootEntry) -> bool {
    EXTENDED.contains(&found.kind)
}

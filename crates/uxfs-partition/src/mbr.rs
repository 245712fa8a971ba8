//! Master boot records: four entries in the first sector, of which one may hold a chain of logical partitions.

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

/// The record at this byte; `None` where there is none. Boot sectors of file systems have the same signature, and code where the
/// entries are: the first byte of each tells them apart.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn read_record(
    device: &dyn BlockDevice,
    offset_bytes: u64,
) -> Result<Option<BootRecord>, TableError> {
    if offset_bytes.checked_add(RECORD_BYTES as u64).is_none_or(|end| end > device.size_bytes()) {
        return Ok(None);
    }
    let mut bytes = [0; RECORD_BYTES];
    device.read(offset_bytes, &mut bytes)?;
    let record: BootRecord = transmute!(bytes);
    let is_record = record.signature == SIGNATURE
        && record.entries.iter().all(|entry| BOOT_INDICATORS.contains(&entry.boot_indicator));
    Ok(is_record.then_some(record))
}

/// Whether the partitions are in a GUID partition table.
pub(crate) fn is_protective(record: &BootRecord) -> bool {
    record.entries.iter().any(|entry| entry.kind == PROTECTIVE)
}

/// The partitions; `None` where the record has none.
///
/// # Errors
/// The disk cannot be read; the chain of logical partitions does not end.
pub(crate) fn table(
    device: &dyn BlockDevice,
    record: &BootRecord,
    sector_size_bytes: u64,
) -> Result<Option<PartitionTable>, TableError> {
    let signature = record.disk_signature.get();
    let mut entries = Vec::new();
    let mut extended = None;
    for (found, number) in record.entries.iter().zip(1..) {
        if EXTENDED.contains(&found.kind) {
            extended = extended.or(Some(u64::from(found.first_sector.get())));
        } else if is_used(found) {
            entries.push(entry(found, 0, number, signature));
        }
    }
    if let Some(first_sector) = extended {
        read_logical(device, first_sector, sector_size_bytes, signature, &mut entries)?;
    }
    let is_empty = entries.is_empty();
    Ok((!is_empty).then(|| PartitionTable::of(device, Scheme::Mbr, sector_size_bytes, entries)))
}

/// Follows the chain. Each record in it has a partition, counted from its own place, and the place of the next record, counted from that of
/// the first.
fn read_logical(
    device: &dyn BlockDevice,
    first_sector: u64,
    sector_size_bytes: u64,
    signature: u32,
    entries: &mut Vec<Entry>,
) -> Result<(), TableError> {
    let mut number = FIRST_LOGICAL;
    let mut sector = first_sector;
    for _ in 0..MOST_PARTITIONS {
        let Some(record) = read_record(device, sector.saturating_mul(sector_size_bytes))? else {
            return Ok(());
        };
        let is_link = |found: &&BootEntry| EXTENDED.contains(&found.kind);
        let mut used = record.entries.iter().filter(|found| is_used(found));
        if let Some(found) = used.clone().find(|found| !is_link(found)) {
            entries.push(entry(found, sector, number, signature));
            number += 1;
        }
        match used.find(is_link) {
            Some(link) => sector = first_sector.saturating_add(link.first_sector.get().into()),
            None => return Ok(()),
        }
    }
    Err(TableError::Endless)
}

fn is_used(found: &BootEntry) -> bool {
    found.kind != 0 && found.sectors.get() != 0
}

fn entry(found: &BootEntry, base_sector: u64, number: u32, signature: u32) -> Entry {
    Entry {
        number,
        first_sector: base_sector.saturating_add(found.first_sector.get().into()),
        length_sectors: Some(found.sectors.get().into()),
        name: String::new(),
        unique_id: format!("{signature:08x}-{number:02x}"),
    }
}

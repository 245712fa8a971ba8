//! GUID partition tables (UEFI specification, chapter 5): the header in the second sector, its copy in the last one, each with an array of
//! entries of its own.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use zerocopy::FromBytes;

use crate::{
    structures::{GptEntry, GptHeader, Guid},
    table::{Entry, MOST_ARRAY_BYTES, MOST_PARTITIONS, PartitionTable, Scheme, TableError},
};

/// Sizes of sectors that disks have. An image does not say which: the place of the first header does.
const SECTOR_SIZES_BYTES: [u64; 4] = [512, 4096, 2048, 1024];
/// Where the checksum of a header is. It is computed with zeros in its place.
const CHECKSUM_RANGE: Range<usize> = 16..20;

/// Reads the table. `None` where neither place of a header begins as one.
///
/// # Errors
/// The disk cannot be read; there are headers, or `is_promised` by a protective record, and none is right.
pub(crate) fn read(
    device: &dyn BlockDevice,
    is_promised: bool,
) -> Result<Option<PartitionTable>, TableError> {
    let mut has_signature = false;
    for sector_size_bytes in SECTOR_SIZES_BYTES {
        let last_sector = (device.size_bytes() / sector_size_bytes).saturating_sub(1);
        for (sector, is_backup) in [(1, false), (last_sector, true)] {
            let offset_bytes = sector.saturating_mul(sector_size_bytes);
            let Some(bytes) = read_part(device, offset_bytes, sector_size_bytes)? else { continue };
            has_signature |= bytes.starts_with(&GptHeader::SIGNATURE);
            if let Some((entries, room)) = entries(device, &bytes, sector, sector_size_bytes)? {
                let ranges = room.table_ranges(sector_size_bytes);
                let table = PartitionTable::of(device, Scheme::Gpt, sector_size_bytes, entries, ranges);
                return Ok(Some(PartitionTable { is_backup, ..table }));
            }
        }
    }
    if is_promised || has_signature { Err(TableError::Damaged) } else { Ok(None) }
}

/// The used entries below the header in `sector`; `None` where it is not one, or not right.
fn entries(
    device: &dyn BlockDevice,
    bytes: &[u8],
    sector: u64,
    sector_size_bytes: u64,
) -> Result<Option<(Vec<Entry>, Room)>, TableError> {
    let Some(header) = verified(bytes, sector) else { return Ok(None) };
    let entry_bytes = header.entry_bytes.get();
    // 128, or that times a power of two.
    if !entry_bytes.is_power_of_two() || (entry_bytes as usize) < size_of::<GptEntry>() {
        return Ok(None);
    }
    let array_bytes = u64::from(entry_bytes) * u64::from(header.entries.get());
    let offset_bytes = header.array_sector.get().checked_mul(sector_size_bytes);
    let Some(offset_bytes) = offset_bytes.filter(|_| array_bytes <= MOST_ARRAY_BYTES) else {
        return Ok(None);
    };
    let Some(array) = read_part(device, offset_bytes, array_bytes)? else { return Ok(None) };
    if crc32fast::hash(&array) != header.array_checksum.get() {
        return Ok(None);
    }
    let array_sectors = array_bytes.div_ceil(sector_size_bytes);
    let room = Room { header, array_sectors };
    let entries = array.chunks_exact(entry_bytes as usize).zip(1..);
    let used = entries.filter_map(|(entry, number)| used(entry, number, &room)).take(MOST_PARTITIONS);
    Ok(Some((used.collect(), room)))
}

/// Where the table lets partitions lie.
struct Room {
    header: GptHeader,
    array_sectors: u64,
}

impl Room {
    /// Linux takes the range that the header names. No partition lies over the table either, whatever the header says: what is made in one
    /// would destroy it.
    fn holds(&self, first: u64, last: u64) -> bool {
        let Self { header, array_sectors } = self;
        let is_over = |begin: u64, sectors: u64| first < begin.saturating_add(sectors) && last >= begin;
        first >= header.first_usable_sector.get()
            && last <= header.last_usable_sector.get()
            && !is_over(0, 2)
            && !is_over(header.own_sector.get(), 1)
            && !is_over(header.other_sector.get(), 1)
            && !is_over(header.array_sector.get(), *array_sectors)
    }

    /// What the table takes on the disk, in bytes: both headers and both arrays. The array of the other header has one place by the
    /// specification, between that header and the partitions.
    fn table_ranges(&self, sector_size_bytes: u64) -> Vec<Range<u64>> {
        let Self { header, array_sectors } = self;
        let (own, other) = (header.own_sector.get(), header.other_sector.get());
        let array_of_other =
            if other < own { other.saturating_add(1) } else { other.saturating_sub(*array_sectors) };
        let parts = [
            (0, 1),
            (own, 1),
            (other, 1),
            (header.array_sector.get(), *array_sectors),
            (array_of_other, *array_sectors),
        ];
        let byte = |sector: u64| sector.saturating_mul(sector_size_bytes);
        parts.into_iter().map(|(start, sectors)| byte(start)..byte(start.saturating_add(sectors))).collect()
    }
}

/// A header whose checksum is right and that was made for this sector.
fn verified(bytes: &[u8], sector: u64) -> Option<GptHeader> {
    let (header, _) = GptHeader::read_from_prefix(bytes).ok()?;
    let length_bytes = usize::try_from(header.size_bytes.get()).ok()?;
    if header.signature != GptHeader::SIGNATURE
        || length_bytes < size_of::<GptHeader>()
        || header.own_sector.get() != sector
    {
        return None;
    }
    let mut summed = bytes.get(..length_bytes)?.to_vec();
    summed.get_mut(CHECKSUM_RANGE)?.fill(0);
    (crc32fast::hash(&summed) == header.checksum.get()).then_some(header)
}

fn used(bytes: &[u8], number: u32, room: &Room) -> Option<Entry> {
    let (entry, _) = GptEntry::read_from_prefix(bytes).ok()?;
    let (first, last) = (entry.first_sector.get(), entry.last_sector.get());
    (entry.type_id != Guid::ZERO).then(|| Entry {
        number,
        first_sector: first,
        length_sectors: last
            .checked_sub(first)
            .and_then(|distance| distance.checked_add(1))
            .filter(|_| room.holds(first, last)),
        name: name(&entry.name),
        unique_id: entry.unique_id.to_string(),
    })
}

/// UTF-16 up to the first zero.
fn name(name: &[[u8; 2]]) -> String {
    let units = name.iter().map(|pair| u16::from_le_bytes(*pair));
    char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// A part of the disk; `None` where that is shorter.
fn read_part(
    device: &dyn BlockDevice,
    offset_bytes: u64,
    length_bytes: u64,
) -> Result<Option<Vec<u8>>, TableError> {
    let is_inside = offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= device.size_bytes());
    let Some(length) = usize::try_from(length_bytes).ok().filter(|_| is_inside) else { return Ok(None) };
    let mut bytes = vec![0; length];
    device.read(offset_bytes, &mut bytes)?;
    Ok(Some(bytes))
}

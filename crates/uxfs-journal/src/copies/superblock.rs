//! A superblock where no group has one any more: the log holds copies of it, and records of a log can be found without it.
//!
//! The device is searched for a record. Its number says where in the log it lies, and so where the log begins. The newest committed
//! copy of the superblock in it must be sound, of the uuid that the record says, and describe a log that begins there.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        buffer_item::{BufferFlags, BufferItem},
        item::LogItem,
        record::RecordHeader,
        transaction::TransactionHeader,
    },
    superblock::{CHECKSUM_OFFSET_BYTES, Copy, Superblock},
    units::{Lsn, SECTOR_SIZE_BYTES, Sector, Uuid},
};

use crate::{
    area::LogArea,
    error::Result,
    listing::Listing,
    recovery::{
        read_records::Record,
        transactions::{TransactionAssembler, TransactionInfo, TransactionSink},
    },
};

const SECTOR_BYTES: usize = SECTOR_SIZE_BYTES as usize;
const PIECE_BYTES: usize = 1 << 20;
/// Logs that are looked into. Files may hold images of other file systems, with logs of their own.
const MOST_LOGS: usize = 8;
/// No log is longer, in sectors.
const MOST_LOG_SECTORS: u64 = (1 << 31) / SECTOR_SIZE_BYTES;

/// Searches all of `device` for a log with a superblock. Gives the bytes of its sector, with the right checksum.
///
/// # Errors
/// The device, where a log was found. Parts that cannot be read are passed over.
pub fn find_superblock(device: &dyn BlockDevice) -> Result<Option<Vec<u8>>> {
    let mut tried: Vec<u64> = Vec::new();
    let mut bytes = vec![0; PIECE_BYTES];
    let size = device.size_bytes();
    for offset in (0..size).step_by(PIECE_BYTES) {
        let length = usize::try_from(size - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let piece = bytes.get_mut(..length).unwrap_or_default();
        if device.read(offset, piece).is_err() {
            continue;
        }
        for (index, sector) in (offset / SECTOR_SIZE_BYTES..).zip(piece.chunks_exact(SECTOR_BYTES)) {
            let Ok(header) = RecordHeader::parse(sector) else { continue };
            let Some(start) = index.checked_sub(header.lsn().block().into()) else { continue };
            if header.verify_format().is_err() || tried.contains(&start) {
                continue;
            }
            if tried.len() >= MOST_LOGS {
                return Ok(None);
            }
            tried.push(start);
            if let Some(found) = newest(device, Sector::new(start), header.uuid)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The newest superblock of the log that begins at `start`.
fn newest(device: &dyn BlockDevice, start: Sector, uuid: Uuid) -> Result<Option<Vec<u8>>> {
    let room = (device.size_bytes() / SECTOR_SIZE_BYTES).saturating_sub(start.get()).min(MOST_LOG_SECTORS);
    let Ok(area) = LogArea::at(device, start, u32::try_from(room).unwrap_or(u32::MAX), uuid) else {
        return Ok(None);
    };
    let mut search = Search::default();
    let mut listing = Listing::of_ring(area);
    while let Some(read) = listing.next_with(|record, assembler| search.record(record, assembler)) {
        if let Err(crate::error::JournalError::Io(error)) = read {
            return Err(error.into());
        }
    }
    let Some((_, mut bytes)) = search.newest else { return Ok(None) };
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    let is_right = |superblock: &Superblock| {
        let geometry = Geometry::new(superblock);
        let log = geometry.log_start.and_then(|log| geometry.sector_of_block(log));
        superblock.uuid == uuid && log == Some(start)
    };
    let is_sound = Superblock::parse(&bytes).is_ok_and(|(superblock, sector)| {
        superblock.verify(sector, Copy::Primary).is_ok() && is_right(superblock)
    });
    Ok(is_sound.then_some(bytes))
}

#[derive(Default)]
struct Search {
    /// The newest committed copy.
    newest: Option<(Lsn, Vec<u8>)>,
    /// Copies of open transactions.
    open: Vec<(u32, Vec<u8>)>,
    lsn: Lsn,
}

impl Search {
    fn record(&mut self, record: &Record<'_>, assembler: &mut TransactionAssembler) {
        self.lsn = record.header.lsn();
        super::feed(record, assembler, self);
    }
}

/// The sector of the first superblock, where the item has all of it.
fn copy_in(item: &BufferItem<'_>) -> Option<Vec<u8>> {
    if item.format.sector.get() != 0 || item.format.buffer_flags().contains(BufferFlags::CANCEL) {
        return None;
    }
    let sector_bytes = usize::from(item.format.length_sectors.get()) * SECTOR_BYTES;
    let mut bytes = vec![0; sector_bytes.min(PIECE_BYTES)];
    let mut known = 0;
    for (offset, contents) in item.changes() {
        let offset = offset as usize;
        bytes.get_mut(offset..)?.get_mut(..contents.len())?.copy_from_slice(contents);
        if offset <= known {
            known = known.max(offset + contents.len());
        }
    }
    (known >= Superblock::SIZE_BYTES).then_some(bytes)
}

impl TransactionSink for Search {
    fn begin(&mut self, transaction: &TransactionInfo, _: &TransactionHeader) {
        self.open.retain(|(id, _)| *id != transaction.id);
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        if let Ok(LogItem::Buffer(item)) = LogItem::decode(regions)
            && let Some(bytes) = copy_in(&item)
        {
            self.open.retain(|(id, _)| *id != transaction.id);
            self.open.push((transaction.id, bytes));
        }
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        let Some(index) = self.open.iter().position(|(id, _)| *id == transaction.id) else { return };
        let (_, bytes) = self.open.swap_remove(index);
        if self.newest.as_ref().is_none_or(|(newest, _)| *newest <= self.lsn) {
            self.newest = Some((self.lsn, bytes));
        }
    }

    fn unmount(&mut self) {}
}

#[cfg(test)]
mod tests {
    use uxfs_block::engine::memory::MemoryDevice;
    use uxfs_format::log::record;
    use zerocopy::{
        FromZeros,
        big_endian::{U32, U64},
    };

    use super::*;

    /// A device full of records that lie where they cannot: each names another log.
    #[test]
    fn a_device_full_of_records_is_given_up() {
        let mut bytes = Vec::new();
        for sector in 0..20_000_u32 {
            let mut header = RecordHeader::new_zeroed();
            header.magic = U32::new(record::MAGIC);
            header.version = U32::new(2);
            header.cycle = U32::new(1);
            header.format = U32::new(record::FORMAT_LITTLE_ENDIAN);
            header.lsn = U64::new(Lsn::from_parts(1, sector / 2).get());
            header.uuid = Uuid([7; 16]);
            bytes.extend_from_slice(header.disk_bytes());
        }
        assert_eq!(find_superblock(&MemoryDevice::new(bytes)).unwrap(), None);
    }
}

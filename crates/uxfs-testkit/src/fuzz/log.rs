//! A whole log: head and tail, records, transactions, items.

use uxfs_block::engine::memory::MemoryDevice;
use uxfs_format::{
    log::record::{MAGIC, MAX_RECORD_BLOCKS, RecordHeader, seal},
    units::{Sector, Uuid},
};
use uxfs_journal::{
    area::LogArea,
    listing::{Listing, ListingRange},
    recovery::find_head_tail::examine_area,
};

const BLOCK: usize = 512;
/// Blocks of the smallest log that is looked at; shorter ones are refused at once.
const MIN_BLOCKS: usize = MAX_RECORD_BLOCKS as usize;

/// Runs one input.
///
/// # Panics
/// The listing does not end.
pub fn log(bytes: &[u8]) {
    let (mut log, is_sealed) = (bytes.to_vec(), bytes.len().is_multiple_of(2));
    log.resize(log.len().next_multiple_of(BLOCK).max(MIN_BLOCKS * BLOCK), 0);
    let mut uuid = Uuid::NIL;
    for block in 0..log.len() / BLOCK {
        if log[block * BLOCK..][..4] != MAGIC.to_be_bytes() {
            continue;
        }
        if let Ok(header) = RecordHeader::parse(&log[block * BLOCK..]) {
            uuid = header.uuid;
        }
        if is_sealed {
            reseal(&mut log, block);
        }
    }
    let blocks = (log.len() / BLOCK) as u32;
    let device = MemoryDevice::new(log);
    let Ok(area) = LogArea::at(&device, Sector::new(0), blocks, uuid) else { return };
    let _ = examine_area(&area);
    for range in [ListingRange::Active, ListingRange::Everything] {
        let Ok(area) = LogArea::at(&device, Sector::new(0), blocks, uuid) else { return };
        let Ok(listing) = Listing::new(area, range) else { continue };
        assert!(listing.count() <= blocks as usize + 1, "more records than blocks");
    }
}

/// Gives the record at `block` a right checksum, if it can be one and does not wrap.
fn reseal(log: &mut [u8], block: usize) {
    let bytes = &mut log[block * BLOCK..];
    let Ok(header) = RecordHeader::parse(bytes).copied() else { return };
    if header.verify_sizes().is_err() || header.blocks() as usize * BLOCK > bytes.len() {
        return;
    }
    let (headers, rest) = bytes.split_at_mut(header.header_blocks() as usize * BLOCK);
    let length = (header.length_bytes.get() as usize).min(rest.len());
    seal(headers, &rest[..length]);
}

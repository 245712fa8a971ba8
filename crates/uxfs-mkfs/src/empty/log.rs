//! The log of a new file system: one unmount record, then zeros.

use uxfs_format::{
    field_table::OnDisk,
    log::{
        operation::{CLIENT_LOG, OperationFlags, OperationHeader, UNMOUNT_MAGIC, UnmountRecord},
        record::{self, RecordHeader},
    },
    units::Lsn,
};
use zerocopy::{
    FromZeros,
    big_endian::{U32, U64},
    little_endian,
};

use super::{Image, bytes};

/// Sectors of the log.
const SECTOR_BYTES: usize = 512;
/// The first time round.
const CYCLE: u32 = 1;
/// Transaction id of mkfs.xfs.
const TRANSACTION: u32 = 0xb0c0_d0d0;
/// The smallest buffer in which the record might have been built, and what one header sector covers of a buffer.
const BUFFER_BYTES: usize = 32 << 10;

/// Where the log begins on the device, and its first record.
pub fn first_record(image: &Image<'_>) -> (u64, Vec<u8>) {
    let log = &image.layout.log;
    // A record fills a stripe unit, and a buffer holds one.
    let buffer_bytes = (log.stripe_unit_bytes as usize).max(BUFFER_BYTES);
    let header_bytes = buffer_bytes.div_ceil(BUFFER_BYTES) * SECTOR_BYTES;
    let record_bytes = (log.stripe_unit_bytes as usize).max(header_bytes + SECTOR_BYTES);
    let mut bytes = vec![0; record_bytes];
    let operation = OperationHeader {
        transaction: U32::new(TRANSACTION),
        length_bytes: U32::new(UnmountRecord::SIZE_BYTES as u32),
        client: CLIENT_LOG,
        flags: OperationFlags::UNMOUNT.bits(),
        reserved: [0; 2],
    };
    let mut unmount = UnmountRecord::new_zeroed();
    unmount.magic = little_endian::U16::new(UNMOUNT_MAGIC);
    let end = bytes::put(&mut bytes, header_bytes, &operation);
    bytes::put(&mut bytes, end, &unmount);
    for sector in bytes.chunks_mut(SECTOR_BYTES) {
        // The first header keeps the word that stood here.
        sector[..4].copy_from_slice(&CYCLE.to_be_bytes());
    }
    bytes::put(&mut bytes, 0, &header(image, record_bytes - header_bytes, buffer_bytes));
    (image.byte_of(log.group, log.start_block), bytes)
}

/// Sizes are those of a stripe unit at most.
fn header(image: &Image<'_>, payload_bytes: usize, buffer_bytes: usize) -> RecordHeader {
    let lsn = U64::new(Lsn::from_parts(CYCLE, 0).get());
    let mut header = RecordHeader::new_zeroed();
    header.magic = U32::new(record::MAGIC);
    header.cycle = U32::new(CYCLE);
    header.version = U32::new(2);
    header.length_bytes = U32::new(payload_bytes as u32);
    header.lsn = lsn;
    header.tail_lsn = lsn;
    header.previous_block = U32::new(u32::MAX);
    header.operation_count = U32::new(1);
    header.cycle_data[0] = U32::new(TRANSACTION);
    header.format = U32::new(record::FORMAT_LITTLE_ENDIAN);
    header.uuid = image.identity.uuid;
    header.buffer_size_bytes = U32::new(buffer_bytes as u32);
    header
}

//! A new, clean log: one record that says that the file system was unmounted, in a cycle that is newer than every log sequence
//! number, and the cycle before it in all other blocks.

use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
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

const SECTOR_BYTES: usize = 512;
/// The transaction id that mkfs.xfs gives its first record.
const TRANSACTION: u32 = 0xb0c0_d0d0;
/// The smallest buffer in which a record is built, and what one header sector covers of it.
const BUFFER_BYTES: usize = 32 << 10;

/// The bytes of a new log.
#[derive(Debug)]
pub struct NewLog {
    cycle: u32,
    record: Vec<u8>,
}

impl NewLog {
    /// A log whose one record is of `cycle`, which is at least 1.
    pub fn new(geometry: &Geometry, cycle: u32) -> Self {
        Self { cycle, record: unmount_record(geometry, cycle) }
    }

    /// Writes what lies from byte `offset_bytes` of the log on, a multiple of 512.
    pub fn write_piece(&self, offset_bytes: usize, piece: &mut [u8]) {
        piece.fill(0);
        stamp(piece, self.cycle.saturating_sub(1));
        if let Some(rest) = self.record.get(offset_bytes..) {
            let length = rest.len().min(piece.len());
            if let (Some(place), Some(bytes)) = (piece.get_mut(..length), rest.get(..length)) {
                place.copy_from_slice(bytes);
            }
        }
    }
}

/// Every sector of a log begins with its cycle.
fn stamp(bytes: &mut [u8], cycle: u32) {
    for sector in bytes.chunks_mut(SECTOR_BYTES) {
        if let Some(word) = sector.first_chunk_mut() {
            *word = cycle.to_be_bytes();
        }
    }
}

/// The record that says that the file system was unmounted, at the start of the log.
fn unmount_record(geometry: &Geometry, cycle: u32) -> Vec<u8> {
    let unit_bytes = geometry.log_unit_bytes as usize;
    let buffer_bytes = unit_bytes.max(BUFFER_BYTES);
    let header_bytes = buffer_bytes.div_ceil(BUFFER_BYTES) * SECTOR_BYTES;
    let record_bytes =
        unit_bytes.max(header_bytes + SECTOR_BYTES).next_multiple_of(unit_bytes.max(SECTOR_BYTES));
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
    put(&mut bytes, header_bytes, &operation);
    put(&mut bytes, header_bytes + OperationHeader::SIZE_BYTES, &unmount);
    stamp(&mut bytes, cycle);
    let lsn = U64::new(Lsn::from_parts(cycle, 0).get());
    let mut header = RecordHeader::new_zeroed();
    header.magic = U32::new(record::MAGIC);
    header.cycle = U32::new(cycle);
    header.version = U32::new(2);
    header.length_bytes = U32::new((record_bytes - header_bytes) as u32);
    (header.lsn, header.tail_lsn) = (lsn, lsn);
    header.previous_block = U32::new(u32::MAX);
    header.operation_count = U32::new(1);
    // The words that the stamps stand for.
    if let Some(first) = header.cycle_data.first_mut() {
        *first = U32::new(TRANSACTION);
    }
    header.format = U32::new(record::FORMAT_LITTLE_ENDIAN);
    header.uuid = geometry.uuid;
    header.buffer_size_bytes = U32::new(buffer_bytes as u32);
    put(&mut bytes, 0, &header);
    bytes
}

fn put<T: OnDisk>(bytes: &mut [u8], offset_bytes: usize, structure: &T) {
    if let Some(place) = bytes.get_mut(offset_bytes..offset_bytes + T::SIZE_BYTES) {
        place.copy_from_slice(structure.disk_bytes());
    }
}

//! The identity of the log. Every record carries the uuid that users know; mounting compares that of the newest.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::record::{self, RecordHeader},
    units::{Lsn, Uuid},
};

use crate::{
    area::{BLOCK, LogArea},
    error::Result,
};

/// Writes another uuid into the record at `newest`, the one that closed a log cleanly, and flushes. Only the record's
/// first block changes, so that a crash finds one uuid or the other.
///
/// With [`Uuid::NIL`] the log belongs to the file system that it lies in, for Linux too. That is the state
/// in which the superblock's uuid can change.
///
/// # Errors
/// There is no such record; the device failed.
pub fn set_uuid(device: &dyn BlockDevice, area: &LogArea<'_>, newest: Lsn, uuid: Uuid) -> Result<()> {
    let block = newest.block();
    let mut bytes = vec![0; BLOCK];
    area.read(block, &mut bytes)?;
    let header = *RecordHeader::parse(&bytes).map_err(|fault| area.fault_at(block, fault))?;
    header.verify_sizes().map_err(|fault| area.fault_at(block, fault))?;
    bytes.resize(header.blocks() as usize * BLOCK, 0);
    if let Some((_, rest)) = bytes.split_at_mut_checked(BLOCK) {
        area.read(area.advance(block, 1), rest)?;
    }
    if let Some(header) = RecordHeader::prefix_of_mut(&mut bytes) {
        header.uuid = uuid;
    }
    // mkfs writes none.
    if header.checksum.get() != 0
        && let Some((headers, payload)) = bytes.split_at_mut_checked(header.header_blocks() as usize * BLOCK)
    {
        let length = (header.length_bytes.get() as usize).min(payload.len());
        record::seal(headers, payload.get(..length).unwrap_or_default());
    }
    let first = bytes.get(..BLOCK).unwrap_or_default();
    device.write(Geometry::byte_of_sector(area.sector(block)), first)?;
    Ok(device.flush()?)
}

//! A log that is dirty, damaged, or behind the metadata.
//!
//! A dirty log is recovered as a mount recovers it. Where damage prevents that, its buffers and inodes are put in place, and what its
//! intents would still have done follows from the rest of the repair, which makes free space, owners and reference counts anew.
//! Then, and where the log itself cannot be read, a new log is written: one record that says that the file system was unmounted, in a
//! cycle that is newer than every log sequence number, and the cycle before it in all other blocks.

use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::{
    field_table::OnDisk,
    geometry::Geometry,
    log::{
        operation::{CLIENT_LOG, OperationFlags, OperationHeader, UNMOUNT_MAGIC, UnmountRecord},
        record::{self, RecordHeader},
    },
    units::{AgNumber, Lsn, Sector},
};
use uxfs_journal::{LogState, area::LogArea, recovery::replay::replay};
use uxfs_volume::{allocation_group::damage_limit::DamageLimit, error::Result, volume::Volume};
use zerocopy::{
    FromZeros,
    big_endian::{U32, U64},
    little_endian,
};

use super::{action::Action, stage::Stage};

const SECTOR_BYTES: usize = 512;
/// The transaction id that mkfs.xfs gives its first record.
const TRANSACTION: u32 = 0xb0c0_d0d0;
/// The smallest buffer in which a record is built, and what one header sector covers of it.
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Replays a dirty log into the stage. Gives whether a new log must follow.
pub(super) fn replay_dirty(stage: &Stage, options: &MountOptions, actions: &mut Vec<Action>) -> Result<bool> {
    let device = stage.device();
    let Ok(LogState::Dirty(log)) = uxfs_journal::examine(device.as_ref(), stage.geometry()) else {
        return Ok(false);
    };
    if let Ok(Some(recovered)) = recovery::recover(&device, options, &mut ())
        && let Ok(report) = recovered.write()
    {
        actions.push(Action::LogReplayed { transactions: report.replay.transactions });
        return Ok(false);
    }
    let area = LogArea::new(device.as_ref(), stage.geometry())?;
    // A log that cannot be replayed stays, and so does its finding.
    if let Ok(replayed) = replay(&area, &log, stage.geometry(), device.as_ref(), &mut ()) {
        let (transactions, intents) = (replayed.counts.transactions, replayed.intents.len() as u64);
        actions.push(Action::LogReplayedInPart { transactions, intents });
        return Ok(true);
    }
    Ok(false)
}

/// The cycle of a new log: newer than those of superblock, headers of groups and inodes, and than `least`.
pub(super) fn new_cycle(volume: &Volume, least: u32) -> u32 {
    let mut newest = Lsn::new(volume.superblock().lsn.get());
    let mut note = |lsn: Lsn| {
        if lsn != Lsn::NULL && lsn > newest {
            newest = lsn;
        }
    };
    let mut limit = DamageLimit::default();
    for group in volume.groups().with_headers() {
        limit.count(note_headers(volume, group, &mut note));
        if limit.is_reached() {
            break;
        }
    }
    newest.cycle().saturating_add(1).max(least).max(2)
}

/// Gives whether both headers could be read.
fn note_headers(volume: &Volume, group: AgNumber, note: &mut dyn FnMut(Lsn)) -> bool {
    let space = volume.group(group).free_space_header();
    let inodes = volume.group(group).inode_header();
    if let Ok(header) = &space {
        note(Lsn::new(header.lsn.get()));
    }
    if let Ok(header) = &inodes {
        note(Lsn::new(header.lsn.get()));
    }
    space.is_ok() && inodes.is_ok()
}

/// Writes a new, clean log.
pub(super) fn write_new(stage: &Stage, cycle: u32, actions: &mut Vec<Action>) -> Result<()> {
    let geometry = stage.geometry();
    let Some(start) = geometry.log_start.and_then(|start| geometry.sector_of_block(start)) else {
        return Ok(());
    };
    let log_bytes = (geometry.log_blocks as usize) << geometry.block_log;
    let mut piece = vec![0; PIECE_BYTES.min(log_bytes)];
    stamp(&mut piece, cycle.saturating_sub(1));
    for offset in (0..log_bytes).step_by(PIECE_BYTES) {
        let length = piece.len().min(log_bytes - offset);
        let sector = Sector::new(start.get() + (offset / SECTOR_BYTES) as u64);
        stage.write_at(sector, piece.get(..length).unwrap_or_default())?;
    }
    stage.write_at(start, &unmount_record(geometry, cycle))?;
    actions.push(Action::NewLog { cycle });
    Ok(())
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

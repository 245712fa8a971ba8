//! A log that is dirty, damaged, or behind the metadata.
//!
//! A dirty log is recovered as a mount recovers it. Where damage prevents that, its buffers and inodes are put in place, and what its
//! intents would still have done follows from the rest of the repair, which rebuilds free space, owners and reference counts.
//! Then, and where the log itself cannot be read, a [new log](crate::new_log) is written.

use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::{
    fault::Structure,
    features::Unsupported,
    field_table::OnDisk,
    geometry::Geometry,
    inode::InodeCore,
    units::{AgNumber, Lsn, Sector},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    recovery::replay::{RealtimeBitmaps, replay},
};
use uxfs_volume::{
    allocation_group::damage_limit::DamageLimit,
    error::{Error, Result},
    volume::Volume,
};

use super::{action::Action, stage::Stage};
use crate::{geometry::survey::survey, inode::gather::byte_of, new_log::NewLog};

const SECTOR_BYTES: usize = 512;
/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Replays a dirty log into the stage. Gives whether a new log must follow.
pub(super) fn replay_dirty(stage: &Stage, options: &MountOptions, actions: &mut Vec<Action>) -> Result<bool> {
    let device = stage.device();
    let Ok(LogState::Dirty(log)) = uxfs_journal::examine(device.as_ref(), stage.geometry()) else {
        return Ok(false);
    };
    match recovery::recover(&device, options, &mut ()) {
        // Items that no program knows would be taken for others.
        Err(error @ Error::Unsupported(Unsupported::UnknownLogIncompatible { .. })) => return Err(error),
        Ok(Some(recovered)) => {
            if let Ok(report) = recovered.write() {
                actions.push(Action::LogReplayed { transactions: report.replay.transactions });
                return Ok(false);
            }
        }
        _ => {}
    }
    let area = LogArea::new(device.as_ref(), stage.geometry())?;
    // A log that cannot be replayed stays, and so does its finding.
    if let Ok(replayed) =
        replay(&area, &log, stage.geometry(), (device.as_ref(), RealtimeBitmaps::Refused), &mut ())
    {
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

/// Whether sound metadata lies where the superblock puts the log: then the log is elsewhere, and writing it would destroy that.
pub(super) fn has_other_metadata(volume: &Volume) -> bool {
    let geometry = volume.geometry();
    let Some(start) = geometry.log_start.and_then(|start| geometry.sector_of_block(start)) else {
        return false;
    };
    let start = Geometry::byte_of_sector(start);
    let end = start.saturating_add(u64::from(geometry.log_blocks) << geometry.block_log);
    let mut has_other = false;
    survey(volume.device().as_ref(), start..end, &mut |structure| {
        let is_here = match structure.kind {
            Structure::LogRecord => false,
            Structure::Inode => InodeCore::prefix_of(structure.bytes)
                .and_then(|core| byte_of(geometry, core.inode_number()))
                .is_some_and(|place| place == structure.offset_bytes),
            _ => true,
        };
        has_other |= is_here && structure.uuid == geometry.metadata_uuid;
    });
    has_other
}

/// Writes a new, clean log. `is_unread`: what the old one holds is given up.
pub(super) fn write_new(stage: &Stage, cycle: u32, is_unread: bool, actions: &mut Vec<Action>) -> Result<()> {
    let geometry = stage.geometry();
    let Some(start) = geometry.log_start.and_then(|start| geometry.sector_of_block(start)) else {
        return Ok(());
    };
    let log_bytes = (geometry.log_blocks as usize) << geometry.block_log;
    let new_log = NewLog::new(geometry, cycle);
    let mut piece = vec![0; PIECE_BYTES.min(log_bytes)];
    for offset in (0..log_bytes).step_by(PIECE_BYTES) {
        let length = piece.len().min(log_bytes - offset);
        let sector = Sector::new(start.get() + (offset / SECTOR_BYTES) as u64);
        let piece = piece.get_mut(..length).unwrap_or_default();
        new_log.write_piece(offset, piece);
        stage.write_at(sector, piece)?;
    }
    actions.push(Action::NewLog { cycle, is_unread });
    Ok(())
}

//! The log in a dump. Records of a log that is clean have old names and contents: a new log says as much.

use uxfs_format::geometry::Geometry;
use uxfs_journal::LogState;
use uxfs_repair::new_log::NewLog;
use uxfs_volume::volume::Volume;

use crate::gather::number_of;

/// The log of a file system.
#[derive(Debug)]
pub(super) struct LogPart {
    /// It has changes that are not in the metadata yet, or it cannot be read.
    pub is_dirty: bool,
    /// Its first block, counted from the start of the device, and its length in blocks.
    place: Option<(u64, u64)>,
    /// What takes its place.
    new: Option<NewLog>,
    block_log: u32,
}

impl LogPart {
    /// Looks at the log; where bytes are changed on their way into the dump, a clean one becomes a new one.
    pub(super) fn new(volume: &Volume, changes_bytes: bool) -> Self {
        let geometry = volume.geometry();
        let block_log = geometry.block_log;
        let Some(place) = place(geometry) else {
            return Self { is_dirty: false, place: None, new: None, block_log };
        };
        let state = uxfs_journal::examine(volume.device().as_ref(), geometry);
        let cycle = match &state {
            Ok(LogState::Clean(log)) => Some(log.head.cycle().saturating_add(1)),
            Ok(LogState::Empty | LogState::Dirty(_)) | Err(_) => None,
        };
        let new = cycle.filter(|_| changes_bytes).map(|cycle| NewLog::new(geometry, cycle));
        let is_dirty = !matches!(state, Ok(LogState::Clean(_) | LogState::Empty));
        Self { is_dirty, place: Some(place), new, block_log }
    }

    /// Whether a block is one of the log.
    pub(super) fn has(&self, number: u64) -> bool {
        self.place.is_some_and(|(start, length)| number >= start && number - start < length)
    }

    /// Puts the new log, if there is one, in the place of blocks of the log.
    pub(super) fn replace(&self, number: u64, bytes: &mut [u8]) {
        if let (Some((start, _)), Some(new)) = (self.place, &self.new) {
            let offset = number.saturating_sub(start) << self.block_log;
            new.write_piece(usize::try_from(offset).unwrap_or(usize::MAX), bytes);
        }
    }
}

fn place(geometry: &Geometry) -> Option<(u64, u64)> {
    let (group, block) = geometry.split_fs_block(geometry.log_start?)?;
    Some((number_of(geometry, group, block), geometry.log_blocks.into()))
}

//! Writing a recovery to the device.
//!
//! 1. The replayed blocks are written in place, and flushed. After a crash meanwhile the log is replayed again: it skips
//!    blocks that are in place by their LSN, and detects torn ones by their checksum.
//! 2. The blocks ahead of the head are overwritten, and the journal continues at the head, with the old tail.
//! 3. Intents are finished by transactions that log their ends, as Linux does. The tail stays at the intents until their ends
//!    are in the log for good: a crash leaves a longer log, which is recovered in the same way.
//! 4. The log is closed with an unmount record.

use std::sync::Arc;

use uxfs_block::device::BlockDevice;
use uxfs_format::field_table::OnDisk;
use uxfs_format::{seal::seal, superblock::Superblock};
use uxfs_journal::{
    LogState,
    area::LogArea,
    journal::LogStart,
    recovery::{before_changes::check_before_changes, stale::clear_stale_blocks},
};

use super::{Purpose, Recovered, RecoveryReport, counters, intents, leftovers};
use crate::{before_changes::check_groups, filesystem::FileSystem, log_extent::check_log_extent, mount};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_volume::{
    error::Result,
    superblock::{read_superblock, refuse_unwritable},
};

/// Bytes that are carried over at once.
const PIECE_BYTES: u64 = 1 << 20;
/// The layer that holds what the replay changed.
const REPLAY_LAYER: usize = 0;

impl Recovered {
    /// Writes the recovery to the device, whose file system is clean then.
    ///
    /// # Errors
    /// The device failed or is read-only: then, or after a crash, recovery can be done again and comes to the same.
    pub fn write(self) -> Result<RecoveryReport> {
        let device = Arc::clone(self.overlay.base());
        let geometry = self.geometry.clone();
        let area = LogArea::new(device.as_ref(), &geometry)?;
        self.check(device.as_ref(), &area)?;
        self.write_replayed(device.as_ref())?;
        clear_stale_blocks(&area, &self.report.log, device.as_ref())?;
        let Self { options, intents, mut report, .. } = self;
        let is_logging_attributes = {
            let replayed = mount::open_volume(Arc::clone(&device), &options)?;
            counters::correct(&replayed)?;
            replayed.superblock().log_incompatible.get() != 0
        };
        let log = LogOptions { has_background: false, is_immediate: false, ..options.log };
        let options = MountOptions { log, ..options };
        let start = LogStart {
            head: report.log.head,
            previous_block: report.log.newest.block(),
            recovered_tail: Some(report.log.tail),
        };
        let volume = mount::open_volume(Arc::clone(&device), &options)?;
        let file_system = FileSystem::with_log(volume, &options, start)?;
        if let Some(journal) = file_system.journal() {
            intents.iter().for_each(|intent| journal.adopt_intent(intent.id));
            journal.recovered();
        }
        for intent in &intents {
            if report.given_up.free_intents.contains(&intent.number) {
                intents::give_up(&file_system, intent)?;
            } else {
                intents::finish(&file_system, intent)?;
            }
        }
        file_system.force()?;
        (report.freed_staging_blocks, report.broken_lists) = (0, 0);
        (report.freed_inodes, report.kept_inodes) = (0, 0);
        leftovers::free(&file_system, Purpose::Write, &mut report)?;
        file_system.close()?;
        drop(file_system);
        if is_logging_attributes {
            clear_log_features(device.as_ref(), &geometry)?;
        }
        Ok(report)
    }

    /// Checks that a log can be written on, and that nothing lies ahead of it, before anything is written.
    fn check(&self, device: &dyn BlockDevice, area: &LogArea<'_>) -> Result<()> {
        refuse_unwritable(device, &read_superblock(device, self.options.is_unfinished)?)?;
        check_before_changes(area, &LogState::Dirty(self.report.log))?;
        let recovered = self.mount(&self.options)?;
        refuse_unwritable(device, recovered.superblock())?;
        recovered.begin_log_at(self.report.log.head)?;
        check_groups(&recovered)?;
        check_log_extent(&recovered)
    }

    /// Writes the blocks that the replay changed.
    fn write_replayed(&self, device: &dyn BlockDevice) -> Result<()> {
        let mut bytes = Vec::new();
        for (start, length) in self.overlay.runs(REPLAY_LAYER) {
            for offset in (start..start + length).step_by(PIECE_BYTES as usize) {
                bytes.resize((start + length - offset).min(PIECE_BYTES) as usize, 0);
                self.overlay.read_at_layer(Some(REPLAY_LAYER), offset, &mut bytes)?;
                device.write(offset, &bytes)?;
            }
        }
        Ok(device.flush()?)
    }
}

/// Features of the log end with the log that needs them.
#[doc(alias = "xfs_clear_incompat_log_features")]
fn clear_log_features(device: &dyn BlockDevice, geometry: &uxfs_format::geometry::Geometry) -> Result<()> {
    let mut sector = vec![0; geometry.sector_size_bytes as usize];
    device.read(0, &mut sector)?;
    if let Some(superblock) = Superblock::prefix_of_mut(&mut sector) {
        superblock.log_incompatible.set(0);
    }
    seal(&mut sector, None, geometry);
    device.write(0, &sector)?;
    Ok(device.flush()?)
}

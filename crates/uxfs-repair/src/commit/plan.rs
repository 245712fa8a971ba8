//! A plan: what a repair would write, kept in a file of the form of an undo file.
//!
//! Beside the sectors that change it holds some that do not, with equal old and new bytes: the headers of all groups, and the place
//! where the log goes on. A mount for writing changes these, and so does every change that goes through the log.

use std::{ops::Range, path::Path, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::{geometry::Geometry, units::Sector};
use uxfs_volume::superblock::read_superblock;

use super::{
    About, Result, SECTOR_BYTES, State, carry_over,
    create::{self, Contents},
    survey::survey,
    undo_file::{Facts, UndoFile},
};

/// What a plan says about its repair. Counts beyond 32 bits are the largest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanFacts {
    /// Findings before the repair.
    pub findings: u32,
    /// Actions of the repair.
    pub actions: u32,
    /// Actions that are guesses.
    pub guesses: u32,
    /// Actions that lose something.
    pub losses: u32,
    /// Files that are lost, or are there in part.
    pub files_lost: u32,
    /// Findings that the repair leaves. With any, the plan is for looking only.
    pub remaining: u32,
}

/// Makes a complete and durable plan for all sectors in `ranges` in which `old` and `new` differ. Neither device is written.
///
/// # Errors
/// As for [`prepare`](super::prepare).
pub fn write_plan(
    old: &dyn BlockDevice,
    new: &dyn BlockDevice,
    ranges: &[Range<u64>],
    about: &About,
    facts: PlanFacts,
) -> Result<()> {
    let watched = watched(old, new);
    create::write(old, new, Contents { ranges, watched: &watched, plan: Some(facts) }, about).map(drop)
}

/// Where a change of the file system is seen, beside what the repair writes to.
fn watched(old: &dyn BlockDevice, new: &dyn BlockDevice) -> Vec<Range<u64>> {
    // Without a sound superblock no plan is written.
    let Ok(superblock) = read_superblock(new, false) else { return Vec::new() };
    let geometry = Geometry::new(&superblock);
    let headers = geometry.groups().flat_map(|group| [1, 2].map(|index| (group, index)));
    let headers = headers.filter_map(|(group, index)| geometry.sector_of_group_header(group, index));
    let sectors = headers.chain(next_of_log(old, &geometry));
    let ranges = sectors.map(|sector| {
        let start = Geometry::byte_of_sector(sector);
        start..start.saturating_add(SECTOR_BYTES as u64)
    });
    ranges.filter(|range| range.end <= old.size_bytes()).collect()
}

/// The sector that the next record of the log goes to. Linux does not mount a log that has none.
fn next_of_log(device: &dyn BlockDevice, geometry: &Geometry) -> Option<Sector> {
    let start = geometry.sector_of_block(geometry.log_start?)?;
    let head = uxfs_journal::examine(device, geometry).ok()?.head().map_or(0, |head| head.block());
    start.checked_add(head.into())
}

/// A plan that fits a device.
#[derive(Debug)]
pub struct Planned {
    file: UndoFile,
    facts: PlanFacts,
    state: State,
    overlay: Arc<OverlayDevice>,
}

impl Planned {
    /// Opens a plan, and puts what it writes over the device, in memory.
    ///
    /// # Errors
    /// It cannot be opened, or is damaged; the device has another size, or other contents than when the plan was made.
    pub fn open(path: &Path, device: &Arc<dyn BlockDevice>) -> Result<Self> {
        let file = UndoFile::open_plan(path)?;
        let head = file.verify()?;
        file.must_fit(device.as_ref())?;
        let state = survey(&file, &head, device.as_ref())?.refuse_foreign()?;
        let overlay = Arc::new(OverlayDevice::new(Arc::clone(device)));
        if head.old != head.new {
            overlay.write(0, &head.new)?;
        }
        let mut records = file.records_behind_head()?;
        while let Some(record) = records.next()? {
            if record.old != record.new {
                overlay.write(record.offset_bytes, record.new)?;
            }
        }
        let facts = file.plan();
        Ok(Self { file, facts, state, overlay })
    }

    /// What it says about its repair.
    pub fn facts(&self) -> &PlanFacts {
        &self.facts
    }

    /// What it says about the image.
    pub fn file_facts(&self) -> &Facts {
        self.file.facts()
    }

    /// Whether the device holds all that the plan writes.
    pub fn is_done(&self) -> bool {
        self.state == State::Applied || self.file.facts().changed_bytes == 0
    }

    /// The device as it will be.
    pub fn overlay(&self) -> &Arc<OverlayDevice> {
        &self.overlay
    }

    /// Carries it to the device, as [`Staged::write`](crate::repair::Staged::write) does.
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, device: &dyn BlockDevice, undo_file: Option<&About>) -> Result<u64> {
        carry_over(device, &self.overlay, undo_file)
    }
}

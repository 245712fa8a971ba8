//! A rescue from its beginning to its end.

use std::sync::{Arc, atomic::AtomicBool};

use thiserror::Error;
use uxfs_block::ranges::RangeSet;
use uxfs_extract::sink::SinkError;
use uxfs_format::units::InodeNumber;
use uxfs_volume::{error::Error as VolumeError, inode::FileType};

use crate::{
    choice::Choice,
    deliver::{Deliverer, Limits},
    device::RescueDevice,
    judge::Judge,
    state::{Record, State},
    strays,
    target::{NotRestored, Target},
    view::View,
    walk::{Start, Walker},
};

/// How to rescue.
#[derive(Debug, Clone, Default)]
pub struct RescueOptions {
    /// Which paths.
    pub choice: Choice,
    /// What is written, and how much.
    pub limits: Limits,
    /// Holes of the image file in bytes of the device; empty if a map was given. A sparse copy of zeros looks like a copy of a failing
    /// disk with unread areas.
    pub holes: RangeSet,
    /// Once it is set, the rescue ends as soon as what it has written is in order.
    pub interrupt: Arc<AtomicBool>,
}

/// Hears what becomes of each file.
pub trait Report {
    /// A line of the manifest. A file comes once for each of its names.
    fn record(&mut self, record: Record);

    /// Whether to stop: asked after each file.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Counts of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Names of whole files and directories.
    pub whole: u64,
    /// Of those of which newer changes may be missing.
    pub perhaps_older: u64,
    /// Of inferred ones.
    pub inferred: u64,
    /// Of partial ones.
    pub partial: u64,
    /// Of lost ones.
    pub lost: u64,
    /// Of these names, those of directories.
    pub directories: u64,
    /// Bytes that are missing of partial files; of a file with several names once for each.
    pub missing_bytes: u64,
    /// Of the names, those of complete files with zeros in holes of the image file.
    pub in_holes: u64,
    /// Bytes of contents that were written.
    pub written_bytes: u64,
    /// Metadata that the target does not take, as owners for want of root.
    pub not_restored: NotRestored,
    /// The work was interrupted.
    pub is_interrupted: bool,
    /// Directories that were begun and whose record is still to come.
    pub(crate) new_directories: Vec<InodeNumber>,
}

impl Summary {
    pub(crate) fn add(&mut self, record: &Record) {
        let count = match record.verdict.state {
            State::Whole => &mut self.whole,
            State::PerhapsOlder => &mut self.perhaps_older,
            State::Inferred => &mut self.inferred,
            State::Partial => &mut self.partial,
            State::Lost => &mut self.lost,
        };
        *count += 1;
        self.directories += u64::from(record.file_type == Some(FileType::Directory));
        self.missing_bytes = self.missing_bytes.saturating_add(record.missing_bytes);
        self.in_holes += u64::from(record.hole_bytes > 0 && record.missing_bytes == 0);
    }

    /// Whether everything is whole.
    pub fn is_whole(&self) -> bool {
        self.perhaps_older + self.inferred + self.partial + self.lost == 0 && !self.is_interrupted
    }
}

/// Why a rescue ended early.
#[derive(Debug, Error)]
pub enum RescueError {
    /// The target cannot be written to.
    #[error(transparent)]
    Target(#[from] SinkError),
    /// Nothing can be read of the file system.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// Why walks end before all is done.
#[derive(Debug)]
pub enum Stop {
    /// The target cannot be written to.
    Target(SinkError),
    /// The caller asked for it.
    Interrupted,
}

impl From<SinkError> for Stop {
    fn from(error: SinkError) -> Self {
        Self::Target(error)
    }
}

/// Takes all that is wanted out of a view of `device`. What concerns single files goes to the report.
///
/// # Errors
/// The target cannot be written to; all that was reported before is there.
pub fn rescue<T: Target>(
    device: &Arc<RescueDevice>,
    view: &View,
    target: &mut T,
    options: &RescueOptions,
    report: &mut dyn Report,
) -> Result<Summary, RescueError> {
    let before = view.before.as_ref();
    let holes = &options.holes;
    let judge =
        Judge { volume: &view.volume, evidence: &view.evidence, device: device.as_ref(), before, holes };
    let deliverer = Deliverer::new(target, options.limits, Arc::clone(&options.interrupt));
    let mut walker = Walker::new(view, judge, &options.choice, deliverer, report);
    let start = Start { inode: view.volume.geometry().root_inode, path: Vec::new() };
    let mut work = || -> Result<(), Stop> {
        walker.take_tree(&start)?;
        // They have no paths to choose by.
        if !view.is_sound() && options.choice.is_all() {
            strays::take(view, &mut walker, device.end())?;
        }
        Ok(())
    };
    let is_interrupted = match work() {
        Ok(()) => false,
        Err(Stop::Interrupted) => {
            walker.abandon()?;
            true
        }
        Err(Stop::Target(error)) => return Err(error.into()),
    };
    let mut summary = walker.finish()?;
    summary.is_interrupted = is_interrupted;
    Ok(summary)
}

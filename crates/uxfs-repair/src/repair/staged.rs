//! A repair that waits to be written.

use std::sync::Arc;

use uxfs_block::{
    device::BlockDevice,
    engine::{overlay::OverlayDevice, unreadable::FilledDevice},
};
use uxfs_format::units::Uuid;
use uxfs_volume::{
    error::Result,
    volume::{Volume, VolumeOptions},
};

use super::action::Action;
use crate::{
    commit::{self, About, CommitError, PlanFacts},
    finding::Finding,
};

/// A repair that waits to be written.
#[derive(Debug)]
pub struct Staged {
    /// The device as it will be. Sectors that cannot be read hold a text until [`show_errors`](Self::show_errors) is called.
    pub overlay: Arc<OverlayDevice>,
    /// Below the overlay.
    pub(super) filled: Arc<FilledDevice>,
    /// What was done, in order.
    pub actions: Vec<Action>,
    /// How many findings there were at first.
    pub findings: u64,
    /// Findings that are left, the first of them. Where there are any, the stage must not be written.
    pub remaining: Vec<Finding>,
}

impl Staged {
    /// Sectors of the device that could not be read. Those that hold metadata are rewritten.
    pub fn unreadable_sectors(&self) -> u64 {
        self.filled.bad_sectors()
    }

    /// For readers: from now on what cannot be read is an error again.
    pub fn show_errors(&self) {
        self.filled.show_errors();
    }

    /// Whether the device is sound as it is.
    pub fn is_clean(&self) -> bool {
        self.actions.is_empty() && self.remaining.is_empty()
    }

    /// Carries the repair to the device, which is the one that it was made from, from an undo file that is made at `path` first; directly
    /// where there is none. Gives how many bytes were changed.
    ///
    /// # Errors
    /// The host has no room for the undo file or for holes of the image file: then nothing was written. The device: the image is marked as needing repair then.
    pub fn write(
        &self,
        device: &dyn BlockDevice,
        undo_file: Option<&About>,
    ) -> std::result::Result<u64, CommitError> {
        commit::carry_over(device, &self.overlay, undo_file)
    }

    /// Keeps what the repair would write in a file at `about.path`, for [`Planned`](commit::Planned).
    ///
    /// # Errors
    /// As for [`commit::write_plan`].
    pub fn write_plan(
        &self,
        device: &dyn BlockDevice,
        about: &About,
        facts: PlanFacts,
    ) -> std::result::Result<(), CommitError> {
        commit::write_plan(device, self.overlay.as_ref(), &commit::written_to(&self.overlay), about, facts)
    }

    /// The uuid of the repaired file system.
    ///
    /// # Errors
    /// It has no sound superblock.
    pub fn uuid(&self) -> Result<Uuid> {
        let staged: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&self.overlay);
        Ok(Volume::open(staged, &VolumeOptions::default())?.geometry().uuid)
    }
}

//! Where findings go.

use std::ops::ControlFlow;

use parking_lot::Mutex;
use uxfs_format::units::InodeNumber;
use uxfs_volume::error::Error;

use crate::finding::Finding;

/// Takes findings. Breaking ends the check soon.
pub type TakeFinding<'s> = dyn FnMut(Finding) -> ControlFlow<()> + Send + 's;

/// Passes findings on from all threads of a check, and counts them.
pub(crate) struct Sink<'s> {
    shared: Mutex<Shared<'s>>,
}

struct Shared<'s> {
    take: &'s mut TakeFinding<'s>,
    findings: u64,
    is_stopped: bool,
}

impl<'s> Sink<'s> {
    pub fn new(take: &'s mut TakeFinding<'s>) -> Self {
        Self { shared: Mutex::new(Shared { take, findings: 0, is_stopped: false }) }
    }

    pub fn add(&self, finding: Finding) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped {
            shared.findings = shared.findings.saturating_add(1);
            shared.is_stopped = (shared.take)(finding).is_break();
        }
    }

    /// Adds what a reader could not read.
    pub fn add_error(&self, error: Error) {
        self.add(Finding::of_error(error));
    }

    /// As [`add_error`](Self::add_error) of a block of an inode: the block alone does not say whose it should be.
    pub fn add_error_of(&self, inode: InodeNumber, mut error: Error) {
        if let Error::Corrupt(corruption) = &mut error {
            corruption.location.inode.get_or_insert(inode);
        }
        self.add_error(error);
    }

    pub fn findings(&self) -> u64 {
        self.shared.lock().findings
    }

    pub fn is_stopped(&self) -> bool {
        self.shared.lock().is_stopped
    }

    /// Breaks where the check is to end.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

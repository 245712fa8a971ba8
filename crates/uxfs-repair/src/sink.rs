//! Where findings go.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    ops::ControlFlow,
};

use parking_lot::Mutex;
use uxfs_format::units::InodeNumber;
use uxfs_volume::error::Error;

use crate::finding::Finding;

/// Takes findings. Breaking ends the check soon.
pub type TakeFinding<'s> = dyn FnMut(Finding) -> ControlFlow<()> + Send + 's;

/// Damaged structures that a sink remembers, to tell of each once. They take a megabyte.
const MOST_REMEMBERED: usize = 1 << 16;

/// Passes findings on from all threads of a check, and counts them.
pub(crate) struct Sink<'s> {
    shared: Mutex<Shared<'s>>,
}

struct Shared<'s> {
    take: &'s mut TakeFinding<'s>,
    findings: u64,
    is_stopped: bool,
    damaged: Remembered,
}

/// Structures that were told to be damaged: several passes may read one. Of the sentence of each a keyed hash is kept.
#[derive(Default)]
struct Remembered {
    hashes: HashSet<u64>,
    state: RandomState,
}

impl Remembered {
    /// Whether a finding says what was said before.
    fn has(&mut self, finding: &Finding) -> bool {
        let Finding::Damaged { corruption } = finding else { return false };
        let hash = self.state.hash_one(corruption.to_string());
        match self.hashes.len() < MOST_REMEMBERED {
            true => !self.hashes.insert(hash),
            false => self.hashes.contains(&hash),
        }
    }
}

impl<'s> Sink<'s> {
    pub fn new(take: &'s mut TakeFinding<'s>) -> Self {
        let damaged = Remembered::default();
        Self { shared: Mutex::new(Shared { take, findings: 0, is_stopped: false, damaged }) }
    }

    pub fn add(&self, finding: Finding) {
        let mut shared = self.shared.lock();
        if !shared.is_stopped && !shared.damaged.has(&finding) {
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

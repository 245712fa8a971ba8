//! Blocks that did not pass their verifier, remembered while a volume is only read.
//!
//! The cache keeps no errors: a block that is damaged is read again each time. A check asks for some blocks once for each extent or name
//! of a group or directory, and while it runs nothing on the device changes.
//!
//! Invariants:
//! 1. Blocks are remembered only while a [`Remembered`] lives. Its owner must keep writers away until then.
//! 2. Memory is bounded: of what comes after [`MOST`] blocks nothing is remembered.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use parking_lot::RwLock;
use uxfs_format::{
    fault::{Corruption, Structure},
    units::Sector,
};

/// Blocks that are remembered.
const MOST: usize = 1 << 16;

/// A structure and where it begins.
type Place = (Structure, Sector, u64);

/// Blocks that did not pass their verifier.
#[derive(Debug, Default)]
pub(crate) struct DamagedBlocks {
    /// How many [`Remembered`] there are.
    users: AtomicUsize,
    known: RwLock<HashMap<Place, Corruption>>,
    /// Length of `known`.
    count: AtomicUsize,
}

impl DamagedBlocks {
    pub(crate) fn remember(&self) -> Remembered<'_> {
        self.users.fetch_add(1, Relaxed);
        Remembered(self)
    }

    /// The fault of a damaged block.
    #[inline]
    pub(crate) fn get(&self, place: &Place) -> Option<Corruption> {
        if self.count.load(Relaxed) == 0 { None } else { self.known.read().get(place).copied() }
    }

    pub(crate) fn add(&self, place: Place, fault: Corruption) {
        if self.users.load(Relaxed) == 0 {
            return;
        }
        let mut known = self.known.write();
        if known.len() < MOST {
            known.insert(place, fault);
            self.count.store(known.len(), Relaxed);
        }
    }
}

/// While it lives, damaged blocks are not read again, and the device must not be written to.
#[derive(Debug)]
pub struct Remembered<'v>(&'v DamagedBlocks);

impl Drop for Remembered<'_> {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Relaxed) == 1 {
            self.0.known.write().clear();
            self.0.count.store(0, Relaxed);
        }
    }
}

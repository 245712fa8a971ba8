//! A volume that can be changed. Everything is reached through a shared reference, from as many threads as the caller has.
//!
//! [`Engine`] is what both ways of changing have. A [`LoggedEngine`] adds the journal and all that exists only with one; a
//! [`BulkEngine`] adds writing everything when the image is closed. Code that serves both modes takes an [`AnyEngine`].
//!
//! | module | holds |
//! |---|---|
//! | here | [`Engine`] |
//! | [`modes`] | [`AnyEngine`] and [`EngineRef`]: an engine of either mode, the one place that tells them apart |
//! | [`bulk`] | [`BulkEngine`]: changing without a log; the image is of use only once it has been closed |
//! | [`logged`] | [`LoggedEngine`]: changing through the log; checkpoints, write-back, closing |
//! | `block_reservations` | free blocks that are reserved for operations, and those that groups keep |
//! | `busy_extents` | freed blocks that wait for their checkpoint: pending frees |
//! | `log_space` | waiting for log space |
//! | `background` | the thread that writes checkpoints |
//! | `moved_contents` | contents that another mapping leads to than the one on the device |
//! | `counters` | the superblock's counters, and the blocks that are reserved or withheld |
//! | [`statistics`] | how full the file system is |
//! | `sources` | time and random numbers |
//! | [`unfinished`] | the mark on an image that is changed in bulk mode |

mod background;
mod block_reservations;
pub mod bulk;
mod busy_extents;
mod counters;
mod log_space;
pub mod logged;
pub mod modes;
mod moved_contents;
mod sources;
pub mod statistics;
pub mod unfinished;

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use uxfs_block::own_line::OwnLine;
use uxfs_format::{features::VersionBits, quota::QuotaFlags, superblock::Superblock, units::AgNumber};
use uxfs_volume::volume::Volume;
use zerocopy::big_endian::U16;

pub use self::{
    bulk::BulkEngine,
    logged::LoggedEngine,
    modes::{AnyEngine, EngineRef},
};
use self::{counters::Counters, sources::RandomNumbers};
use crate::options::MountOptions;
use crate::{
    allocation_group::{group_edit::CounterChanges, state::GroupState, table::GroupTable},
    transaction::reservation::Needs,
};
use uxfs_volume::error::{OperationError, Result};

/// A volume that can be changed, without what depends on the mode: it begins no transaction.
#[derive(Debug)]
pub struct Engine {
    volume: Volume,
    options: MountOptions,
    /// Reservations of operations.
    needs: Needs,
    groups: GroupTable,
    /// Counts allocations that may go anywhere.
    group_rotor: AtomicU32,
    counters: OwnLine<Counters>,
    /// Group of the next directory.
    directory_rotor: AtomicU32,
    random: OwnLine<RandomNumbers>,
    /// That of the superblock, until it is changed.
    label: Mutex<[u8; 12]>,
    /// First checkpoint that logs the superblock with the attribute bit; 0 if the bit was set at mount, `u64::MAX` if it is clear.
    attributes_since: AtomicU64,
}

impl std::ops::Deref for Engine {
    type Target = Volume;

    #[inline]
    fn deref(&self) -> &Volume {
        &self.volume
    }
}

impl Engine {
    fn new(volume: Volume, options: MountOptions) -> Self {
        let groups = GroupTable::new(volume.geometry().ag_count);
        Self {
            needs: Needs::new(volume.geometry()),
            groups,
            group_rotor: AtomicU32::new(0),
            counters: OwnLine(Counters::of(volume.superblock())),
            directory_rotor: AtomicU32::new(0),
            random: OwnLine(RandomNumbers::new()),
            label: Mutex::new(volume.superblock().label),
            attributes_since: AtomicU64::new(attributes_since(volume.superblock())),
            volume,
            options,
        }
    }

    /// The file system that is read and changed.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// How it was opened.
    pub fn options(&self) -> MountOptions {
        self.options
    }

    /// Reservations of operations.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Free blocks as the superblock's counter has them now.
    pub fn free_blocks(&self) -> u64 {
        self.counters.free_blocks()
    }

    /// Inodes that exist, in use or free, as the superblock's counter has them now.
    pub fn inode_count(&self) -> u64 {
        self.counters.inodes()
    }

    /// Inodes that exist and are not in use, as the superblock's counter has them now.
    pub fn free_inode_count(&self) -> u64 {
        self.counters.free_inodes()
    }

    /// The next group for allocations that may go anywhere.
    pub fn group_rotor(&self) -> &AtomicU32 {
        &self.group_rotor
    }

    /// The group in which the next directory is to begin: one after the other, so that their files spread too.
    #[doc(alias = "m_agirotor")]
    pub fn next_directory_group(&self) -> AgNumber {
        let turn = self.directory_rotor.fetch_add(1, Relaxed);
        AgNumber::new(turn % self.geometry().ag_count.max(1))
    }

    /// The headers of a group in memory.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`].
    pub fn group_state(&self, group: AgNumber) -> Result<&Arc<Mutex<GroupState>>> {
        self.groups.get(group).ok_or_else(|| OperationError::NoSuchGroup.into())
    }

    /// Whether the headers of a group are in memory.
    pub fn is_group_loaded(&self, group: AgNumber) -> bool {
        self.groups.peek(group).is_some_and(|state| GroupState::lock(state, group).is_loaded())
    }

    /// The groups whose headers are in memory: all others are as they lie on the device.
    pub fn loaded_groups(&self) -> impl Iterator<Item = AgNumber> {
        self.groups
            .known()
            .filter_map(|(group, state)| GroupState::lock(state, group).is_loaded().then_some(group))
    }

    /// Whether changed buffers take half of the cache's budget.
    pub(super) fn is_crowded(&self) -> bool {
        self.cache().dirty_bytes() > self.cache().buffer_budget_bytes() / 2
    }

    /// The superblock with the counters as they are now.
    pub fn superblock_now(&self) -> Superblock {
        let mut superblock = *self.superblock();
        superblock.label = *self.label.lock();
        if self.attributes_since.load(Relaxed) != u64::MAX {
            superblock.version_number |= U16::new(VersionBits::ATTRIBUTES.bits());
        }
        forget_quota_counts(&mut superblock);
        self.counters.store_in(&mut superblock);
        superblock
    }

    /// The label as it is now, without what follows its end.
    pub fn label(&self) -> Vec<u8> {
        let label = *self.label.lock();
        label.iter().copied().take_while(|byte| *byte != 0).collect()
    }

    /// Sets the attribute bit as of checkpoint `sequence`. Returns whether that checkpoint must log the superblock.
    #[doc(alias = "xfs_add_attr")]
    pub fn note_attributes(&self, sequence: u64) -> bool {
        self.attributes_since.load(Relaxed) > sequence
            && self.attributes_since.fetch_min(sequence, Relaxed) > sequence
    }

    /// Adds what a transaction has changed to the counters.
    pub fn apply_counters(&self, changes: CounterChanges) {
        self.counters.apply(changes);
    }
}

fn attributes_since(superblock: &Superblock) -> u64 {
    match superblock.feature_words().version_bits.contains(VersionBits::ATTRIBUTES) {
        true => 0,
        false => u64::MAX,
    }
}

/// Changes of quota usage are not counted here: the superblock must not say any longer that the counts are right. Gives whether it
/// did.
pub fn forget_quota_counts(superblock: &mut Superblock) -> bool {
    let flags = QuotaFlags::from_bits_retain(superblock.quota_flags.get());
    let left = flags.uncounted(superblock.feature_words().has_metadata_directory());
    superblock.quota_flags = U16::new(left.bits());
    left != flags
}

//! What a repair keeps as it is, and what may be older than the rest: extent maps against which the reverse map or the free space speaks,
//! and inodes beside one that missed a write. Linux writes a whole cluster at once: where one inode of it is older than the log says, so
//! are all that changed since. Where the log has all changes since then, they are brought up to date by it; where it has not, nothing
//! tells.

use std::collections::BTreeSet;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    geometry::Geometry,
    inode::{Fork, verify_inode},
    units::{AgInode, InodeNumber, Lsn},
};

use super::{Repair, action::Action, work::Work};
use crate::{lost_writes::LostWrites, opening::LogComparison};

/// Clusters that are looked at.
const MOST_CLUSTERS: usize = 1 << 16;

/// What may be older than the rest.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Inodes of which blocks were free in a check.
    in_free_space: BTreeSet<InodeNumber>,
    /// Inodes that were older than the log says.
    older: BTreeSet<InodeNumber>,
    /// Sizes of the file system as the last check saw it.
    geometry: Option<Geometry>,
}

impl Doubts {
    /// Takes in what follows from a check.
    pub(super) fn add(&mut self, work: &Work, geometry: Geometry) {
        self.in_free_space.extend(work.perhaps_older());
        self.older.extend(work.older_inodes());
        self.geometry = Some(geometry);
    }
}

impl Repair<'_> {
    /// Adds what is in doubt to the actions.
    pub(super) fn add_doubts(&mut self) {
        let rebuilt: BTreeSet<InodeNumber> = self.actions.iter().filter_map(Action::rebuilt_inode).collect();
        let kept = self.doubts.in_free_space.difference(&rebuilt).map(|inode| (*inode, false));
        self.undecided_maps.extend(kept);
        self.actions.extend(self.undecided_maps.iter().map(|(inode, is_attribute_fork)| {
            let fork = if *is_attribute_fork { Fork::Attribute } else { Fork::Data };
            Action::ExtentMapKept { inode: *inode, fork }
        }));
        if let (LogComparison::Known(log), Some(geometry)) = (&self.comparison, &self.doubts.geometry) {
            let found = perhaps_older(self.original, geometry, log, &self.doubts.older, &self.actions);
            self.actions.extend(found.into_iter().map(|inode| Action::InodePerhapsOlder { inode }));
        }
    }
}

/// Inodes in use that may have missed the same write as these. `device` is as it was found; of inodes that `actions` are about more is
/// known.
fn perhaps_older(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    log: &LostWrites,
    older: &BTreeSet<InodeNumber>,
    actions: &[Action],
) -> Vec<InodeNumber> {
    let known: BTreeSet<InodeNumber> = actions.iter().filter_map(Action::known_inode).collect();
    let mut clusters = BTreeSet::new();
    for inode in older {
        let Some(place) = geometry.inode_place(*inode) else { continue };
        clusters.extend(
            geometry.inode_cluster_of(place.group, place.block).map(|cluster| (place.group, cluster)),
        );
    }
    let mut found = Vec::new();
    for (group, (block, length_blocks)) in clusters.into_iter().take(MOST_CLUSTERS) {
        let Some(sector) = geometry.sector_of_group_block(group, block) else { continue };
        let mut bytes = vec![0; (length_blocks as usize) << geometry.block_log];
        if device.read(Geometry::byte_of_sector(sector), &mut bytes).is_err() {
            continue;
        }
        let first = block.get() << geometry.inodes_per_block_log;
        let numbers = (first..).map(|inode| geometry.inode_number(group, AgInode::new(inode)));
        let inodes = bytes.chunks_exact(geometry.inode_size()).zip(numbers);
        let sound: Vec<(InodeNumber, Lsn)> = inodes
            .filter_map(|(bytes, number)| {
                let core = verify_inode(bytes, number, geometry).ok()?;
                (!core.is_free()).then(|| (number, Lsn::new(core.lsn.get())))
            })
            .collect();
        let written = sound.iter().map(|(_, lsn)| *lsn).max().unwrap_or_default();
        if !log.has_all_since(written) {
            let unknown = sound.into_iter().map(|(number, _)| number);
            found.extend(unknown.filter(|number| !known.contains(number) && !older.contains(number)));
        }
    }
    found
}

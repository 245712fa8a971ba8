//! Inodes that were kept with a wrong checksum: what others say of them comes before what relies on them.

use std::collections::BTreeSet;

use uxfs_format::units::InodeNumber;
use uxfs_volume::{error::Result, volume::Volume};

use super::{Repair, stage::Stage, work::Work};
use crate::inode;

impl Repair<'_> {
    /// Notes inodes that were kept with a wrong checksum.
    pub(super) fn add_unproved(&mut self, inodes: BTreeSet<InodeNumber>) {
        self.unsettled.extend(&inodes);
        self.unproved.extend(inodes);
    }

    /// Compares inodes that were kept with a wrong checksum with what others say, once their extent maps can be read. Gives whether any was
    /// changed.
    pub(super) fn settle_unproved(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<bool> {
        let is_open =
            |inode: &InodeNumber| work.extent_maps.contains(inode) || work.damaged_inodes.contains(inode);
        let (open, ready) = self.unsettled.iter().copied().partition::<BTreeSet<_>, _>(is_open);
        let before = self.actions.len();
        inode::unproved::settle(volume, stage, &ready, self.options.scan, &mut self.actions)?;
        self.unsettled = open;
        Ok(self.actions.len() > before)
    }
}

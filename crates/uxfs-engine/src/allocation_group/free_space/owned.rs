//! Checks that free extents have no owner, before blocks of them are allocated.
//!
//! Contents of files and values of attributes are written before the mapping that leads to them commits. So on a damaged
//! image, whose free space btrees offer blocks in use, their owners are compared when the blocks are chosen
//! ([`ownership`](crate::allocation_group::ownership)).
//!
//! A whole free extent is compared: allocations from it piece by piece need no further lookup.

use uxfs_format::{
    btree::{
        check::BtreeFault,
        free_space::{ByBlock, FreeExtent},
    },
    fault::Structure,
};

use crate::allocation_group::group_edit::GroupEdit;
use uxfs_volume::error::Result;

/// Free extents that are remembered.
const MOST_KNOWN: usize = 4;

/// Free extents of a group that have no owner, as far as that can be known.
#[derive(Debug, Default, Clone, Copy)]
pub struct KnownFree {
    extents: [Range32; MOST_KNOWN],
    next: usize,
}

#[derive(Debug, Default, Clone, Copy)]
struct Range32 {
    start: u32,
    end: u32,
}

impl KnownFree {
    #[inline]
    pub(super) fn contains(&self, extent: FreeExtent) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        self.extents.iter().any(|known| known.start <= start && end <= known.end)
    }

    fn add(&mut self, extent: FreeExtent) {
        if let Some(place) = self.extents.get_mut(self.next % MOST_KNOWN) {
            *place = Range32 { start: extent.start.get(), end: extent.end().get() };
        }
        self.next = (self.next + 1) % MOST_KNOWN;
    }
}

impl GroupEdit<'_, '_> {
    /// Checks that no block of an extent that the free space btrees offer has an owner.
    ///
    /// # Errors
    /// One has; damage; the device.
    #[cold]
    pub(super) fn require_unowned(&mut self, extent: FreeExtent) -> Result<()> {
        self.require_no_owner(extent)?;
        // While a tree grows it was not asked.
        if self.state.growing_tree.is_none() {
            self.state.known_free.add(extent);
        }
        Ok(())
    }

    /// Checks that no block of an extent that is free, or is to become free, has an owner.
    ///
    /// # Errors
    /// One has; damage; the device.
    pub(super) fn require_no_owner(&mut self, extent: FreeExtent) -> Result<()> {
        if let Some(owner) = self.owners().owner_of_any(extent)? {
            return Err(self.damaged_extent::<ByBlock>(extent, BtreeFault::OwnedFreeSpace { owner }));
        }
        // The reverse map knows shared blocks, too.
        let has_owners = self.volume.geometry().features.has_reverse_map();
        let can_ask = self.state.growing_tree != Some(Structure::ReferenceCount);
        if !has_owners && can_ask && self.find_shared(extent.start, extent.length_blocks)?.is_some() {
            return Err(self.damaged_extent::<ByBlock>(extent, BtreeFault::SharedFreeSpace));
        }
        Ok(())
    }
}

//! Whether the blocks that a file's extents lead to are its own, asked before contents are written in place.
//!
//! On a damaged image an extent may lie over another file or over metadata. So an extent that was read from the device is
//! compared with the owners that its group knows ([`ownership`](crate::allocation_group::ownership)). The inode remembers the
//! last few extents, and further writes to them compare nothing.

use uxfs_format::{btree::extent_map::Extent, inode::Fork};

use crate::{extent_map::editor::ExtentMapEditor, inode::edit::EditInode, transaction::deferred::mapping_of};
use uxfs_volume::error::Result;

/// Extents that an inode remembers.
const MOST_KNOWN: usize = 4;

/// The last extents of a file's data that were found to be its own, or allocated for it: ranges of blocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnExtents {
    extents: [(u64, u64); MOST_KNOWN],
    next: usize,
}

impl OwnExtents {
    /// Whether all blocks of an extent are known to be the file's own.
    #[inline]
    pub fn contains(&self, extent: &Extent) -> bool {
        let (start, end) = range_of(extent);
        self.extents.iter().any(|known| known.0 <= start && end <= known.1)
    }

    /// Remembers an extent.
    pub fn add(&mut self, extent: &Extent) {
        if let Some(place) = self.extents.get_mut(self.next % MOST_KNOWN) {
            *place = range_of(extent);
        }
        self.next = (self.next + 1) % MOST_KNOWN;
    }
}

fn range_of(extent: &Extent) -> (u64, u64) {
    (extent.start.get(), extent.start.get().saturating_add(extent.length_blocks))
}

impl ExtentMapEditor<'_, '_> {
    /// Checks that the blocks of an extent of a file's data, which no other file shares, are its own. Nothing changes.
    ///
    /// # Errors
    /// They are another owner's, or free; damage; the device.
    pub fn require_own_blocks(&mut self, inode: &EditInode, extent: &Extent) -> Result<()> {
        let (group, mapping) = mapping_of(self.transaction.engine().geometry(), inode, Fork::Data, extent)?;
        self.transaction.group(group)?.owners().require_own(&mapping, inode.may_share_extents())
    }
}

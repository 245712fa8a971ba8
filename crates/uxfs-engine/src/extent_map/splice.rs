//! Making a change: in the list of extents, in the btree, and from the one form to the other.

use uxfs_format::{
    features::Unsupported,
    geometry::Geometry,
    inode::{Fork, InodeFlags, InodeFlags2},
};
use zerocopy::big_endian::U64;

use super::list::Splice;
use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::{
    create::feature_flags2,
    edit::{EditInode, ForkExtents, InodeFork, room::inline_extents_max},
};
use uxfs_volume::error::{OperationError, Result};

/// A fork that has got so many extents more asks whether memory is short.
const MAKE_WAY_EXTENTS: usize = 1 << 10;

impl ExtentMapEditor<'_, '_> {
    /// Makes a change in the list, and in the btree where there is one; moves the extents out of the inode where they
    /// do not fit it any more, and back in where they do.
    pub(super) fn splice_extents(
        &mut self,
        inode: &mut EditInode,
        fork: Fork,
        splice: &Splice,
    ) -> Result<()> {
        refuse_realtime(inode, fork)?;
        let engine = self.transaction.engine();
        let geometry = engine.geometry();
        let added = splice.records().ok_or(OperationError::FileTooLarge)?;
        let extents = extents_mut(inode, fork)?;
        let (has_tree, count) = (extents.root.is_some(), extents.extents.len() as u64);
        let count = count.saturating_add_signed(splice.growth());
        if splice.growth() > 0 && count > inode.core.extent_count_max(fork) {
            count_more(inode, fork, count, geometry)?;
        }
        let room_bytes = inode.fork_room_bytes(fork, geometry);
        // A tree that is about to go need not be changed any more.
        if has_tree && count > inline_extents_max(room_bytes) as u64 {
            self.change_extent_tree(inode, fork, splice)?;
        }
        let account = engine.cache().memory_account();
        let extents = &mut extents_mut(inode, fork)?.extents;
        let steps = extents.len() / MAKE_WAY_EXTENTS;
        splice.apply(extents, &added, Some(account));
        if extents.len() / MAKE_WAY_EXTENTS > steps {
            engine.make_way_for_extents();
        }
        self.settle_extents(inode, fork)
    }

    /// Gives the extents of a fork the form that they must have in the room that the fork has.
    pub(super) fn settle_extents(&mut self, inode: &mut EditInode, fork: Fork) -> Result<()> {
        let room_bytes = inode.fork_room_bytes(fork, self.transaction.engine().geometry());
        let extents = extents_mut(inode, fork)?;
        let fits = extents.extents.len() <= inline_extents_max(room_bytes);
        match (fits, extents.root.is_some()) {
            (false, false) => self.extents_to_tree(inode, fork),
            (true, true) => self.tree_to_extents(inode, fork),
            _ => Ok(()),
        }
    }
}

/// Lets an inode that counts its extents in the small way count them in the large way, where the file system has that
/// and it is enough.
#[doc(alias = "xfs_iext_count_upgrade")]
pub(super) fn count_more(inode: &mut EditInode, fork: Fork, count: u64, geometry: &Geometry) -> Result<()> {
    let flags = inode.core.flags2() | (feature_flags2(geometry) & InodeFlags2::LARGE_EXTENT_COUNTS);
    inode.core.flags2 = U64::new(flags.bits());
    if count > inode.core.extent_count_max(fork) { Err(OperationError::FileTooLarge.into()) } else { Ok(()) }
}

/// Blocks of the realtime section are not those of the groups.
pub fn refuse_realtime(inode: &EditInode, fork: Fork) -> Result<()> {
    let is_realtime = inode.core.flags().contains(InodeFlags::REALTIME);
    if fork == Fork::Data && is_realtime { Err(Unsupported::RealtimeData.into()) } else { Ok(()) }
}

/// As [`refuse_realtime`], for a file that is to be freed: without blocks it can be.
///
/// # Errors
/// It has blocks of the realtime section.
pub fn refuse_realtime_blocks(inode: &EditInode) -> Result<()> {
    if inode.extents(Fork::Data).is_empty() { Ok(()) } else { refuse_realtime(inode, Fork::Data) }
}

/// The extents of a fork that has such.
pub(super) fn extents_mut(inode: &mut EditInode, fork: Fork) -> Result<&mut ForkExtents> {
    match inode.fork_mut(fork) {
        Some(InodeFork::Extents(extents)) => Ok(extents),
        _ => Err(OperationError::WrongFileType.into()),
    }
}

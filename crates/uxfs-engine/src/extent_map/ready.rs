//! Whether a change of a fork's extents will find room, asked before it begins: half a change has no way back.

use uxfs_format::{
    inode::Fork,
    units::{AgNumber, FsBlock},
};

use super::{
    map::{block_of_inode, tree_growth_blocks},
    splice::count_more,
};
use crate::extent_map::editor::ExtentMapEditor;
use crate::{
    allocation_group::free_space::choose::GroupRequest,
    inode::edit::{EditInode, ForkExtents, InodeFork, room::inline_extents_max},
};
use uxfs_volume::error::{OperationError, Result};

impl ExtentMapEditor<'_, '_> {
    /// Sees to it that a fork can get `growth` more extents: that the inode can count them, and that there are blocks for
    /// the tree that may have to hold them. The group that has these blocks stays locked.
    ///
    /// # Errors
    /// [`FileTooLarge`](OperationError::FileTooLarge), [`NoSpace`](OperationError::NoSpace), with nothing changed; damage;
    /// the device.
    pub fn ready_extents(&mut self, inode: &mut EditInode, fork: Fork, growth: u32) -> Result<()> {
        self.ready_extent_count(inode, fork, growth)?;
        if !self.may_tree_grow(inode, fork, growth) {
            return Ok(());
        }
        let blocks = tree_growth_blocks(inode, fork, growth);
        let geometry = self.transaction.engine().geometry();
        let near = match inode.fork(fork) {
            Some(InodeFork::Extents(ForkExtents { root: Some(root), .. })) => root.pointers.last().copied(),
            _ => None,
        };
        self.find_group_with(near.unwrap_or_else(|| block_of_inode(inode, geometry)), blocks)
    }

    /// Sees to it that the inode can count `growth` more extents.
    ///
    /// # Errors
    /// [`FileTooLarge`](OperationError::FileTooLarge).
    pub fn ready_extent_count(&self, inode: &mut EditInode, fork: Fork, growth: u32) -> Result<()> {
        let count = inode.extents(fork).len() as u64 + u64::from(growth);
        if count > inode.core.extent_count_max(fork) {
            count_more(inode, fork, count, self.transaction.engine().geometry())?;
        }
        Ok(())
    }

    /// Whether a fork with so many more extents may need blocks for its tree.
    pub fn may_tree_grow(&self, inode: &EditInode, fork: Fork, growth: u32) -> bool {
        let room_bytes = inode.fork_room_bytes(fork, self.transaction.engine().geometry());
        let count = inode.extents(fork).len() + growth as usize;
        growth > 0 && count > inline_extents_max(room_bytes)
    }

    /// Locks a group that can give so many blocks to trees of files.
    fn find_group_with(&mut self, near: FsBlock, blocks: u32) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        let first = geometry.split_fs_block(near).map_or(0, |(group, _)| group.get());
        let request = GroupRequest { spare_blocks: blocks.saturating_sub(1), ..GroupRequest::blocks(1) };
        for number in (first..geometry.ag_count).chain(0..first) {
            let held = self.transaction.held_groups();
            let Some(group) = self.transaction.try_group(AgNumber::new(number))? else { continue };
            if group.most_blocks(&request)?.is_some() {
                return Ok(());
            }
            self.transaction.give_back_untouched(held);
        }
        Err(OperationError::NoSpace.into())
    }
}

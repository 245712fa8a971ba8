//! Moving the border between the forks of an inode.

use uxfs_format::inode::Fork;

use crate::extent_map::editor::ExtentMapEditor;
use crate::inode::edit::{EditInode, ForkExtents, InodeFork, room::root_capacity};
use uxfs_volume::error::{OperationError, Result};

impl ExtentMapEditor<'_, '_> {
    /// Puts the border between the forks at `offset_bytes` behind the core, a multiple of 8; an attribute fork comes
    /// into being where there was none. Extents that do not fit their fork any more go to a btree, and back where they
    /// do; the root of a btree that does not fit moves into a block. Local contents must fit: they are not driven out.
    ///
    /// # Errors
    /// [`ForkTooLarge`](OperationError::ForkTooLarge), and nothing has changed; no space; damage; the device.
    #[doc(alias = "xfs_bmap_add_attrfork")]
    pub fn set_attribute_offset(&mut self, inode: &mut EditInode, offset_bytes: u32) -> Result<()> {
        let literal = self.transaction.engine().geometry().literal_size_bytes();
        let is_possible = offset_bytes.is_multiple_of(8) && offset_bytes > 0 && offset_bytes < literal & !7;
        let attribute_fits =
            inode.attribute.as_ref().is_none_or(|fork| can_have(fork, literal - offset_bytes.min(literal)));
        if !is_possible || !attribute_fits || !can_have(&inode.data, offset_bytes) {
            return Err(OperationError::ForkTooLarge.into());
        }
        for (fork, room_bytes) in [(Fork::Data, offset_bytes), (Fork::Attribute, literal - offset_bytes)] {
            if let Some(InodeFork::Extents(ForkExtents { root: Some(root), .. })) = inode.fork(fork)
                && root.keys.len() > root_capacity(room_bytes)
            {
                self.lower_extent_root(inode, fork)?;
            }
        }
        inode.attribute.get_or_insert_with(InodeFork::empty);
        inode.attribute_offset_bytes = offset_bytes;
        self.settle_forks(inode)
    }

    /// Takes an attribute fork without contents away; the data fork gets its room.
    ///
    /// # Errors
    /// The fork has contents ([`NotEmpty`](OperationError::NotEmpty)); damage; the device.
    #[doc(alias = "xfs_attr_fork_remove")]
    pub fn remove_attribute_fork(&mut self, inode: &mut EditInode) -> Result<()> {
        let is_empty = match &inode.attribute {
            Some(InodeFork::Extents(extents)) => extents.extents.is_empty() && extents.root.is_none(),
            Some(_) => false,
            None => true,
        };
        if !is_empty {
            return Err(OperationError::NotEmpty.into());
        }
        inode.attribute = None;
        inode.attribute_offset_bytes = 0;
        self.settle_forks(inode)
    }

    fn settle_forks(&mut self, inode: &mut EditInode) -> Result<()> {
        for fork in [Fork::Data, Fork::Attribute] {
            if matches!(inode.fork(fork), Some(InodeFork::Extents(_))) {
                self.settle_extents(inode, fork)?;
            }
        }
        Ok(())
    }
}

/// Whether a fork can lie in so many bytes, possibly with its extents in a btree.
fn can_have(fork: &InodeFork, room_bytes: u32) -> bool {
    match fork {
        InodeFork::Extents(ForkExtents { root: Some(_), .. }) => root_capacity(room_bytes) >= 1,
        InodeFork::Extents(ForkExtents { extents, root: None, .. }) => {
            fork.used_bytes() <= room_bytes || (root_capacity(room_bytes) >= 1 && !extents.is_empty())
        }
        InodeFork::Device(_) => room_bytes == 8,
        InodeFork::Local(_) => fork.used_bytes() <= room_bytes,
    }
}

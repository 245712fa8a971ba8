//! Making an attribute fork where there is none, and taking it away with the last attribute.

use uxfs_format::{
    attribute::shortform_edit::HEADER_BYTES,
    inode::{FileType, Fork},
    units::FileBlock,
};

use super::store::AttributeFork;
use crate::attribute::editor::AttributeEditor;
use crate::inode::edit::{EditInode, InodeFork, room::default_attribute_offset_bytes};
use uxfs_volume::error::Result;

impl AttributeEditor<'_, '_> {
    /// Makes an empty attribute fork with room for `list_bytes` of attributes if the data fork leaves so much, else
    /// with what room Linux gives in such a case. Contents of the data fork that stand in the way move into blocks.
    #[doc(alias = "xfs_bmap_add_attrfork")]
    pub(super) fn make_attribute_fork(&mut self, inode: &mut EditInode, list_bytes: u32) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        let offset_bytes = match inode.data {
            InodeFork::Device(_) => default_attribute_offset_bytes(Some(FileType::Fifo)),
            _ => inode
                .attribute_offset_for(list_bytes, geometry)
                .unwrap_or_else(|| default_attribute_offset_bytes(inode.file_type())),
        };
        if let InodeFork::Local(contents) = &inode.data
            && contents.len() as u64 > u64::from(offset_bytes)
        {
            match inode.file_type() {
                Some(FileType::SymbolicLink) => self.transaction.symlinks().move_target_out(inode)?,
                _ => self.transaction.directories().directory_to_block(inode)?,
            }
        }
        self.transaction.makes_attribute_fork = true;
        self.transaction.extent_maps().set_attribute_offset(inode, offset_bytes)
    }

    /// Takes all attributes of an inode away, and the fork, before the inode is freed. The inode is not stored.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_attr_inactive")]
    pub fn remove_all_attributes(&mut self, inode: &mut EditInode) -> Result<()> {
        match &inode.attribute {
            None => return Ok(()),
            Some(InodeFork::Extents(extents)) if !extents.extents.is_empty() => {
                AttributeFork::new(self.transaction, inode).free_all()?;
            }
            Some(_) => {}
        }
        inode.attribute = Some(InodeFork::empty());
        self.transaction.extent_maps().remove_attribute_fork(inode)
    }

    /// Whether all blocks of an attribute fork that lead to attributes are there and sound.
    pub fn has_whole_attributes(&mut self, inode: &mut EditInode) -> Result<bool> {
        match &inode.attribute {
            Some(InodeFork::Extents(extents)) if !extents.extents.is_empty() => {
                AttributeFork::new(self.transaction, inode).is_whole()
            }
            _ => Ok(true),
        }
    }

    /// Begins to take away a fork of more attributes than one transaction can: makes the first block a leaf without
    /// attributes, so that nothing leads to the others any more and they can go in steps.
    #[doc(alias = "xfs_attr3_root_inactive")]
    pub fn forget_attributes(&mut self, inode: &mut EditInode) -> Result<()> {
        AttributeFork::new(self.transaction, inode).forget_all()
    }

    /// Takes the blocks from `start` on out of an attribute fork in which nothing leads to them.
    pub fn truncate_attribute_fork(&mut self, inode: &mut EditInode, start: FileBlock) -> Result<()> {
        AttributeFork::new(self.transaction, inode).cut(start)
    }

    /// Takes an attribute fork without attributes away where Linux does: not on file systems with parent pointers, whose
    /// every inode has one, and not beside a btree, whose root would have to move.
    #[doc(alias = "xfs_attr_fork_remove")]
    pub(super) fn drop_empty_attribute_fork(&mut self, inode: &mut EditInode) -> Result<()> {
        let is_empty = inode.attribute.as_ref().is_some_and(|fork| match fork {
            InodeFork::Local(_) => fork.used_bytes() <= HEADER_BYTES,
            InodeFork::Extents(extents) => extents.extents.is_empty(),
            InodeFork::Device(_) => false,
        });
        let has_btree = inode.has_extent_tree(Fork::Data);
        let geometry = self.transaction.engine().geometry();
        // A short target outside of its inode is what old kernels call damage.
        let is_short_target = inode.file_type() == Some(FileType::SymbolicLink)
            && matches!(inode.data, InodeFork::Extents(_))
            && inode.size_bytes() <= geometry.literal_size_bytes().into();
        if !is_empty || has_btree || is_short_target || geometry.features.has_parent_pointers() {
            return Ok(());
        }
        self.transaction.extent_maps().remove_attribute_fork(inode)
    }
}

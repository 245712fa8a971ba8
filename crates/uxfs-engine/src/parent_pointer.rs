//! Changing parent pointers: one for each name of an inode, changed together with the name.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        parent_pointer::ParentRecord,
        shortform_edit::{HEADER_BYTES, entry_bytes, list_of_one},
    },
    directory,
    inode::Fork,
    units::InodeNumber,
};
use uxfs_volume::attribute::parent::WantedParent;
use zerocopy::{
    IntoBytes,
    big_endian::{U32, U64},
};

use crate::{
    attribute::{SetMode, Target},
    engine::Engine,
    inode::edit::{EditInode, InodeFork},
    transaction::Transaction,
};
use uxfs_volume::error::{OperationError, Result};
use uxfs_volume::parent_pointer::ParentPointer;

impl Engine {
    /// Whether an inode that is open and locked has a parent pointer; `None` where the file system keeps none.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn has_parent_pointer(&self, child: &EditInode, pointer: ParentPointer<'_>) -> Result<Option<bool>> {
        if !self.geometry().features.has_parent_pointers() {
            return Ok(None);
        }
        let value = record(pointer.parent, pointer.generation);
        let wanted = WantedParent { name: pointer.name, value: value.as_bytes() };
        self.attributes(child)?.has_parent(wanted).map(Some)
    }

    /// Whether an inode that is open and locked has several parent pointers.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn has_several_parent_pointers(&self, child: &EditInode) -> Result<bool> {
        Ok(self.geometry().features.has_parent_pointers() && self.attributes(child)?.has_many_parents()?)
    }
}

/// Changes parent pointers.
#[derive(Debug)]
pub struct ParentPointerEditor<'t, 'fs> {
    pub(crate) transaction: &'t mut Transaction<'fs>,
}

impl<'fs> Transaction<'fs> {
    /// To change parent pointers.
    #[inline]
    pub fn parent_pointers(&mut self) -> ParentPointerEditor<'_, 'fs> {
        ParentPointerEditor { transaction: self }
    }
}

impl ParentPointerEditor<'_, '_> {
    /// Says in an inode that a directory has a name for it. Does nothing on file systems without parent pointers. The
    /// inode is not stored.
    ///
    /// # Errors
    /// The inode says so already ([`Exists`](OperationError::Exists)); no possible name; no space; damage; the device.
    #[doc(alias = "xfs_parent_addname")]
    pub fn add_parent_pointer(&mut self, child: &mut EditInode, pointer: ParentPointer<'_>) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        if !geometry.features.has_parent_pointers() {
            return Ok(());
        }
        check_name(pointer.name)?;
        let value = record(pointer.parent, pointer.generation);
        if add_first(child, pointer.name, value.as_bytes(), geometry) {
            return Ok(());
        }
        let target = Target::of_parent_pointer(pointer.name, value.as_bytes(), geometry);
        self.transaction.attributes().set_target(child, &target, value.as_bytes(), SetMode::Create)
    }

    /// Takes the parent pointer for a name away. Does nothing on file systems without parent pointers. The inode is not
    /// stored.
    ///
    /// # Errors
    /// There is none ([`NoSuchAttribute`](OperationError::NoSuchAttribute)); damage; the device.
    #[doc(alias = "xfs_parent_removename")]
    pub fn remove_parent_pointer(&mut self, child: &mut EditInode, pointer: ParentPointer<'_>) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        if !geometry.features.has_parent_pointers() {
            return Ok(());
        }
        let value = record(pointer.parent, pointer.generation);
        self.transaction
            .attributes()
            .remove_target(child, &Target::of_parent_pointer(pointer.name, value.as_bytes(), geometry))
    }

    /// Puts one parent pointer in the place of another, as a name moves. Does nothing on file systems without parent
    /// pointers. The inode is not stored.
    ///
    /// # Errors
    /// As [`remove_parent_pointer`](Self::remove_parent_pointer) for the old and
    /// [`add_parent_pointer`](Self::add_parent_pointer) for the new one.
    #[doc(alias = "xfs_parent_replacename")]
    pub fn replace_parent_pointer(
        &mut self,
        child: &mut EditInode,
        old: ParentPointer<'_>,
        new: ParentPointer<'_>,
    ) -> Result<()> {
        let geometry = self.transaction.engine().geometry();
        if old == new || !geometry.features.has_parent_pointers() {
            return Ok(());
        }
        check_name(new.name)?;
        let (old_value, new_value) = (record(old.parent, old.generation), record(new.parent, new.generation));
        let old = Target::of_parent_pointer(old.name, old_value.as_bytes(), geometry);
        let new = Target::of_parent_pointer(new.name, new_value.as_bytes(), geometry);
        self.transaction.attributes().replace_target(child, &old, &new, new_value.as_bytes())
    }

    /// Whether the parent pointer `new` can come, in the place of `old` or beside all, without a new block. `sketch` is
    /// one of the child, and changes where the attributes lie in it.
    ///
    /// # Errors
    /// There is no `old`, or `new` is there; damage; the device.
    pub fn parent_pointer_fits(
        &mut self,
        child: &mut EditInode,
        sketch: &mut EditInode,
        old: Option<ParentPointer<'_>>,
        new: ParentPointer<'_>,
    ) -> Result<bool> {
        let geometry = self.transaction.engine().geometry();
        if old == Some(new) || !geometry.features.has_parent_pointers() {
            return Ok(true);
        }
        let new_value = record(new.parent, new.generation);
        let target = Target::of_parent_pointer(new.name, new_value.as_bytes(), geometry);
        let Some(old) = old else {
            return self.transaction.attributes().target_fits(
                child,
                sketch,
                None,
                &target,
                new_value.as_bytes(),
            );
        };
        let old_value = record(old.parent, old.generation);
        let old = Target::of_parent_pointer(old.name, old_value.as_bytes(), geometry);
        self.transaction.attributes().target_fits(child, sketch, Some(&old), &target, new_value.as_bytes())
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > directory::MAX_NAME_BYTES {
        return Err(OperationError::NameTooLong.into());
    }
    if !directory::is_valid_name(name) {
        return Err(OperationError::InvalidName.into());
    }
    Ok(())
}

fn record(parent: InodeNumber, generation: u32) -> ParentRecord {
    ParentRecord { inode: U64::new(parent.get()), generation: U32::new(generation) }
}

/// Room for a few more attributes beside the first parent pointer, so that the list need not move at once.
const USUAL_LIST_BYTES: u32 = 144;

/// The common case, once for each new inode: the first attribute of an inode, which fits. `false` where it is another
/// case.
#[inline]
fn add_first(
    child: &mut EditInode,
    name: &[u8],
    value: &[u8],
    geometry: &uxfs_format::geometry::Geometry,
) -> bool {
    let total = HEADER_BYTES + entry_bytes(name, value.len());
    let room = child.fork_room_bytes(Fork::Attribute, geometry);
    let Some(fork) = &mut child.attribute else { return false };
    let InodeFork::Extents(extents) = fork else { return false };
    if !extents.extents.is_empty() || total > room {
        return false;
    }
    let Some(bytes) = list_of_one(AttributeFlags::PARENT, name, value, room.min(USUAL_LIST_BYTES)) else {
        return false;
    };
    *fork = InodeFork::Local(bytes);
    true
}

//! Attributes that change after their inode did something else: parent pointers, which follow the directory entries.

use uxfs_format::{
    attribute::{flags::Namespace, parent_pointer::ParentRecord},
    log::attribute::AttributeOperation,
    units::InodeNumber,
};
use zerocopy::{
    FromBytes, IntoBytes,
    big_endian::{U32 as BigU32, U64 as BigU64},
};

use super::{
    Transaction,
    attribute_change::{AttributeChange, StoredChange},
};
use uxfs_volume::parent_pointer::ParentPointer;

use crate::attribute::{AttributeName, SetMode};
use uxfs_volume::error::{OperationError, Result};

/// A change of a parent pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentChange<'a> {
    /// The inode has a new name.
    Add(ParentPointer<'a>),
    /// A name has gone.
    Remove(ParentPointer<'a>),
    /// A name has become another.
    Replace {
        /// The old name.
        old: ParentPointer<'a>,
        /// The new one.
        new: ParentPointer<'a>,
    },
}

impl Transaction<'_> {
    /// A name of an inode has come, gone or become another: its parent pointer follows. The work loads the inode and stores
    /// it: a caller that holds the inode stores it before, and loads it again afterwards. Does nothing on file systems
    /// without parent pointers.
    #[doc(alias = "xfs_parent_addname")]
    pub fn defer_parent_pointer(&mut self, child: InodeNumber, generation: u32, change: ParentChange<'_>) {
        if !self.engine.geometry().features.has_parent_pointers() {
            return;
        }
        let (operation, first, second) = match change {
            ParentChange::Add(new) => (AttributeOperation::SetParent, new, None),
            ParentChange::Remove(old) => (AttributeOperation::RemoveParent, old, None),
            ParentChange::Replace { old, new } => (AttributeOperation::ReplaceParent, old, Some(new)),
        };
        let (value, new_value) = (record(&first), second.as_ref().map(record));
        self.deferred.push_attribute(&AttributeChange {
            operation,
            inode: child,
            generation,
            namespace: Namespace::Parent,
            name: first.name,
            new_name: second.as_ref().map(|new| new.name),
            value: value.as_bytes(),
            new_value: new_value.as_ref().map(|value| value.as_bytes()),
        });
    }

    /// Does what an intent or deferred work says.
    pub(super) fn change_attribute(&mut self, stored: &StoredChange) -> Result<()> {
        let mut inode = self.load_inode(stored.inode)?;
        // The change may defer more work: a copy of the text cannot move meanwhile.
        let (alone, own) = stored.alone(&self.deferred.text);
        let change = alone.within(&own);
        let is_of_parent = change.namespace == Namespace::Parent;
        if is_of_parent && inode.core.generation.get() != change.generation {
            return Err(OperationError::NoSuchInode.into());
        }
        let name = AttributeName { namespace: change.namespace, name: change.name };
        match change.operation {
            AttributeOperation::Set | AttributeOperation::Replace => {
                self.attributes().set_attribute(&mut inode, name, change.value, SetMode::Upsert)?;
            }
            AttributeOperation::Remove => self.attributes().remove_attribute(&mut inode, name)?,
            AttributeOperation::SetParent => {
                self.parent_pointers().add_parent_pointer(&mut inode, pointer(change.name, change.value)?)?;
            }
            AttributeOperation::RemoveParent => {
                self.parent_pointers()
                    .remove_parent_pointer(&mut inode, pointer(change.name, change.value)?)?;
            }
            AttributeOperation::ReplaceParent => {
                let old = pointer(change.name, change.value)?;
                let (new_name, new_value) =
                    change.new_name.zip(change.new_value).ok_or(OperationError::NoSuchAttribute)?;
                self.parent_pointers().replace_parent_pointer(
                    &mut inode,
                    old,
                    pointer(new_name, new_value)?,
                )?;
            }
        }
        self.store_inode(&mut inode)
    }
}

fn record(pointer: &ParentPointer<'_>) -> ParentRecord {
    ParentRecord { inode: BigU64::new(pointer.parent.get()), generation: BigU32::new(pointer.generation) }
}

fn pointer<'a>(name: &'a [u8], value: &[u8]) -> Result<ParentPointer<'a>> {
    let record = ParentRecord::ref_from_bytes(value).map_err(|_| OperationError::NoSuchAttribute)?;
    let parent = InodeNumber::new(record.inode.get());
    Ok(ParentPointer { parent, generation: record.generation.get(), name })
}

//! Attributes that change after their inode did something else: parent pointers, which follow the names.
//!
//! Names and values lie in one piece of memory beside the queue, so that deferring them allocates nothing once it has grown.

use uxfs_format::{
    attribute::{
        flags::{AttributeFlags, Namespace},
        parent_pointer::ParentRecord,
    },
    log::{
        attribute::{AttributeFormat, AttributeIntent, AttributeOperation},
        item::ItemType,
    },
    units::InodeNumber,
};
use zerocopy::{
    FromBytes, IntoBytes,
    big_endian::{U32 as BigU32, U64 as BigU64},
    little_endian::{U16, U32, U64},
};

use super::{
    Transaction,
    queue::{DeferredWork, Work},
};
use uxfs_volume::parent_pointer::ParentPointer;

use crate::attribute::{AttributeName, SetMode};
use uxfs_volume::error::{OperationError, Result};

/// A change of an attribute as an intent says it.
#[doc(alias = "xfs_attr_intent")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeChange<'a> {
    /// What is to be done.
    pub operation: AttributeOperation,
    /// To which inode.
    pub inode: InodeNumber,
    /// Its generation, for parent pointers: another file that got the number meanwhile is not meant.
    pub generation: u32,
    /// Where the name belongs.
    pub namespace: Namespace,
    /// Which attribute.
    pub name: &'a [u8],
    /// Its name afterwards, where a parent pointer is replaced.
    pub new_name: Option<&'a [u8]>,
    /// Its value; before, where a parent pointer is replaced.
    pub value: &'a [u8],
    /// Its value afterwards, where a parent pointer is replaced.
    pub new_value: Option<&'a [u8]>,
}

/// A change whose names and values lie beside the queue, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChange {
    operation: AttributeOperation,
    inode: InodeNumber,
    generation: u32,
    namespace: Namespace,
    start: usize,
    /// Name, value, new name, new value.
    lengths: [usize; 4],
}

/// What is to be done to a parent pointer.
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

impl<'a> AttributeChange<'a> {
    /// First region of the intent; the others are name, new name, value and new value.
    pub fn format(&self, id: u64) -> AttributeFormat {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let parts = [self.new_name.is_some(), !self.value.is_empty(), self.new_value.is_some()];
        let regions = parts.into_iter().fold(2, |sum, part| sum + u16::from(part));
        let new_name_bytes = self.new_name.map_or(0, length);
        AttributeFormat {
            kind: U16::new(ItemType::AttributeIntent.raw()),
            region_count: U16::new(regions),
            generation: U32::new(self.generation),
            id: U64::new(id),
            inode: U64::new(self.inode.get()),
            operation: U32::new(self.operation.code()),
            name_bytes: U32::new(length(self.name) | new_name_bytes << 16),
            value_bytes: U32::new(length(self.value)),
            filter: U32::new(self.namespace.flags().bits().into()),
        }
    }

    /// What an intent says; `None` where it makes no sense.
    pub fn from_intent(intent: &AttributeIntent<'a>) -> Option<Self> {
        let filter = u8::try_from(intent.format.filter.get()).ok()?;
        Some(Self {
            operation: intent.operation,
            inode: InodeNumber::new(intent.format.inode.get()),
            generation: intent.format.generation.get(),
            namespace: AttributeFlags::from_bits_retain(filter).namespace()?,
            name: intent.name,
            new_name: intent.new_name,
            value: intent.value,
            new_value: intent.new_value,
        })
    }
}

impl DeferredWork {
    /// A change of an attribute with its names and values.
    pub fn attribute(&self, stored: &StoredChange) -> AttributeChange<'_> {
        stored.within(&self.text)
    }

    /// Adds the change of an attribute.
    pub fn push_attribute(&mut self, change: &AttributeChange<'_>) {
        let stored = self.store_attribute(change);
        self.push(Work::Attribute(stored));
    }

    /// Keeps the names and values of a change.
    pub(super) fn store_attribute(&mut self, change: &AttributeChange<'_>) -> StoredChange {
        let start = self.text.len();
        let parts =
            [change.name, change.value, change.new_name.unwrap_or(&[]), change.new_value.unwrap_or(&[])];
        parts.into_iter().for_each(|part| self.text.extend_from_slice(part));
        let AttributeChange { operation, inode, generation, namespace, .. } = *change;
        let lengths = parts.map(<[u8]>::len);
        StoredChange { operation, inode, generation, namespace, start, lengths }
    }
}

impl StoredChange {
    /// With its names and values, which lie in `text`.
    pub(super) fn within<'a>(&self, text: &'a [u8]) -> AttributeChange<'a> {
        let mut rest = text.get(self.start..).unwrap_or_default();
        let [name, value, new_name, new_value] = self.lengths.map(|length| {
            let (part, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            part
        });
        let is_replaced = self.operation == AttributeOperation::ReplaceParent;
        AttributeChange {
            operation: self.operation,
            inode: self.inode,
            generation: self.generation,
            namespace: self.namespace,
            name,
            new_name: is_replaced.then_some(new_name),
            value,
            new_value: is_replaced.then_some(new_value),
        }
    }
}

impl Transaction<'_> {
    /// A name of an inode has come, gone or become another: its parent pointer follows. The work loads the inode and stores
    /// it: who holds it stores it before the work is done, and loads it again afterwards. Does nothing on file systems
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
        // What is done may defer more: a copy cannot move meanwhile.
        let own = self.deferred.text.get(stored.start..).unwrap_or_default();
        let own = own.get(..stored.lengths.iter().sum()).unwrap_or_default().to_vec();
        let change = StoredChange { start: 0, ..*stored }.within(&own);
        let is_of_parent = change.namespace == Namespace::Parent;
        if is_of_parent && inode.core.generation.get() != change.generation {
            return Err(OperationError::NoSuchInode.into());
        }
        let name = AttributeName { namespace: change.namespace, name: change.name };
        match change.operation {
            AttributeOperation::Set | AttributeOperation::Replace => {
                self.set_attribute(&mut inode, name, change.value, SetMode::Upsert)?;
            }
            AttributeOperation::Remove => self.remove_attribute(&mut inode, name)?,
            AttributeOperation::SetParent => {
                self.add_parent_pointer(&mut inode, pointer(change.name, change.value)?)?;
            }
            AttributeOperation::RemoveParent => {
                self.remove_parent_pointer(&mut inode, pointer(change.name, change.value)?)?;
            }
            AttributeOperation::ReplaceParent => {
                let old = pointer(change.name, change.value)?;
                let (new_name, new_value) =
                    change.new_name.zip(change.new_value).ok_or(OperationError::NoSuchAttribute)?;
                self.replace_parent_pointer(&mut inode, old, pointer(new_name, new_value)?)?;
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

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;

//! A change of an attribute as deferred work.
//!
//! Names and values lie in one piece of memory beside the queue, so that deferring them allocates nothing once it has grown.

use uxfs_format::{
    attribute::flags::{AttributeFlags, Namespace},
    log::{
        attribute::{AttributeFormat, AttributeIntent, AttributeOperation},
        item::ItemType,
    },
    units::InodeNumber,
};
use zerocopy::little_endian::{U16, U32, U64};

use super::queue::{DeferredWork, Work};

/// A change of an attribute as an intent says it.
#[doc(alias = "xfs_attr_intent")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeChange<'a> {
    /// The operation.
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
    /// Which inode's attributes change.
    pub(super) inode: InodeNumber,
    generation: u32,
    namespace: Namespace,
    start: usize,
    /// Name, value, new name, new value.
    lengths: [usize; 4],
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

    /// Decodes an intent; `None` where it makes no sense.
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

    /// The names and values of this change alone: what `text` holds may move while the change is made.
    pub(super) fn alone(&self, text: &[u8]) -> (Self, Vec<u8>) {
        let own = text.get(self.start..).unwrap_or_default();
        let own = own.get(..self.lengths.iter().sum()).unwrap_or_default().to_vec();
        (Self { start: 0, ..*self }, own)
    }
}

#[cfg(test)]
#[path = "attribute_change_tests.rs"]
mod tests;

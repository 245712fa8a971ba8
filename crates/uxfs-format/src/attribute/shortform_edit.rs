//! Changing attributes inside their inode: a packed list in a vector that is exactly as long as what it holds.

use zerocopy::IntoBytes;

use super::{
    flags::AttributeFlags,
    shortform::{Shortform, ShortformAttribute, ShortformEntryHead, ShortformHeader},
};
use crate::{
    convert::{low_u8, low_u16, low_u32, to_u64, to_usize},
    field_table::OnDisk,
};

/// Bytes of the header: an empty list.
pub const HEADER_BYTES: u32 = 4;
/// Names and values in this form are shorter than this.
#[doc(alias = "XFS_ATTR_SF_ENTSIZE_MAX")]
pub const LENGTH_END_BYTES: usize = 256;

/// Bytes that an attribute takes here.
#[doc(alias = "xfs_attr_sf_entsize_byname")]
#[inline]
pub fn entry_bytes(name: &[u8], value_length: usize) -> u32 {
    low_u32(to_u64(name.len().saturating_add(value_length))).saturating_add(3)
}

/// Whether name and value are short enough for this form at all.
#[inline]
pub fn may_hold(name: &[u8], value_length: usize) -> bool {
    name.len() < LENGTH_END_BYTES && value_length < LENGTH_END_BYTES
}

/// A list of one attribute, with room in memory for more up to `capacity_bytes`. `None` where its lengths do not fit
/// this form.
#[inline]
pub fn list_of_one(
    namespace: AttributeFlags,
    name: &[u8],
    value: &[u8],
    capacity_bytes: u32,
) -> Option<Vec<u8>> {
    let (name_length, value_length) = (u8::try_from(name.len()).ok()?, u8::try_from(value.len()).ok()?);
    let total = HEADER_BYTES.saturating_add(entry_bytes(name, value.len()));
    let [high, low] = u16::try_from(total).ok()?.to_be_bytes();
    let mut bytes = Vec::with_capacity(to_usize(total.max(capacity_bytes)));
    bytes.extend_from_slice(&[high, low, 1, 0, name_length, value_length, namespace.bits()]);
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(value);
    Some(bytes)
}

/// The bytes of an attribute fork, to be changed. They have been verified, or are empty.
#[derive(Debug)]
pub struct ShortformEdit<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> ShortformEdit<'a> {
    /// Makes a list without attributes of no bytes.
    #[inline]
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        if bytes.is_empty() {
            bytes.extend_from_slice(&[0, low_u8(HEADER_BYTES.into()), 0, 0]);
        }
        Self { bytes }
    }

    /// Bytes that the list takes.
    #[inline]
    pub fn total_bytes(&self) -> u32 {
        low_u32(to_u64(self.bytes.len()))
    }

    /// Attributes.
    pub fn count(&self) -> u8 {
        ShortformHeader::prefix_of(self.bytes).map_or(0, |header| header.count)
    }

    /// Finds an attribute by namespace and name; a parent pointer also by `value`, which is part of what it is.
    pub fn find(
        &self,
        namespace: AttributeFlags,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Option<ShortformAttribute<'_>> {
        let attributes = Shortform::parse(self.bytes).ok()?.attributes();
        attributes.map_while(Result::ok).find(|attribute| {
            attribute.flags == namespace
                && attribute.name == name
                && value.is_none_or(|value| attribute.value == value)
        })
    }

    /// Appends an attribute that the list does not have. `false`, and nothing done, where its lengths do not fit this
    /// form or 255 attributes are there.
    #[inline]
    pub fn append(&mut self, namespace: AttributeFlags, name: &[u8], value: &[u8]) -> bool {
        let (Ok(name_length), Ok(value_length)) = (u8::try_from(name.len()), u8::try_from(value.len()))
        else {
            return false;
        };
        let total = self.total_bytes().saturating_add(entry_bytes(name, value.len()));
        let (Ok(total), Some(count)) = (u16::try_from(total), self.count().checked_add(1)) else {
            return false;
        };
        self.bytes.reserve(entry_bytes(name, value.len()).try_into().unwrap_or(0));
        self.bytes.extend_from_slice(&[name_length, value_length, namespace.bits()]);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.put_header(total, count);
        true
    }

    /// Removes the attribute that begins at `offset_bytes`.
    pub fn remove(&mut self, offset_bytes: u32) {
        let start = to_usize(offset_bytes);
        let Some((end, _)) = self.entry_end(start) else { return };
        self.bytes.drain(start..end);
        self.put_header(low_u16(to_u64(self.bytes.len())), self.count().saturating_sub(1));
    }

    /// Overwrites the value of the attribute that begins at `offset_bytes`. `false`, and nothing done, where it has
    /// another length.
    pub fn replace_in_place(&mut self, offset_bytes: u32, value: &[u8]) -> bool {
        let start = to_usize(offset_bytes);
        let Some((end, value_start)) = self.entry_end(start) else { return false };
        match self.bytes.get_mut(value_start..end) {
            Some(old) if old.len() == value.len() => {
                old.copy_from_slice(value);
                true
            }
            _ => false,
        }
    }

    /// Where an entry ends, and where its value begins.
    fn entry_end(&self, start: usize) -> Option<(usize, usize)> {
        let head = ShortformEntryHead::prefix_of(self.bytes.get(start..)?)?;
        let value_start = start.checked_add(3)?.checked_add(head.name_length.into())?;
        let end = value_start.checked_add(head.value_length.into())?;
        (end <= self.bytes.len()).then_some((end, value_start))
    }

    #[inline]
    fn put_header(&mut self, total_size_bytes: u16, count: u8) {
        let header = ShortformHeader { total_size_bytes: total_size_bytes.into(), count, padding: 0 };
        if let Some(target) = self.bytes.get_mut(..ShortformHeader::SIZE_BYTES) {
            target.copy_from_slice(header.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Set { name: u8, value: Vec<u8> },
        Remove(u8),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let set = (1_u8..20, vec(any::<u8>(), 0..300));
        prop_oneof![
            2 => set.prop_map(|(name, value)| Operation::Set { name, value }),
            1 => (1_u8..20).prop_map(Operation::Remove),
        ]
    }

    proptest! {
        #[test]
        fn any_changes_keep_the_list_whole(operations in vec(operation(), 1..60)) {
            let mut bytes = Vec::new();
            let mut model: Vec<(u8, Vec<u8>)> = Vec::new();
            for operation in operations {
                let mut edit = ShortformEdit::new(&mut bytes);
                let (Operation::Set { name, .. } | Operation::Remove(name)) = operation;
                let names = vec![name; usize::from(name)];
                let found = edit.find(AttributeFlags::ROOT, &names, None).map(|found| found.offset_bytes);
                let at = model.iter().position(|(one, _)| *one == name);
                prop_assert_eq!(found.is_some(), at.is_some());
                match (operation, found) {
                    (Operation::Set { value, .. }, Some(offset)) if edit.replace_in_place(offset, &value) => {
                        model[at.unwrap()].1 = value;
                    }
                    (Operation::Set { value, .. }, found) => {
                        if let Some(offset) = found {
                            edit.remove(offset);
                            model.remove(at.unwrap());
                        }
                        if edit.append(AttributeFlags::ROOT, &names, &value) {
                            model.push((name, value));
                        } else {
                            prop_assert!(value.len() > 255);
                        }
                    }
                    (Operation::Remove(_), Some(offset)) => {
                        edit.remove(offset);
                        model.remove(at.unwrap());
                    }
                    (Operation::Remove(_), None) => {}
                }
                prop_assert_eq!(usize::from(edit.count()), model.len());
                Shortform::verify(&bytes).unwrap();
                let list = Shortform::parse(&bytes).unwrap();
                let all: Vec<_> = list.attributes().map(Result::unwrap).collect();
                prop_assert_eq!(all.len(), model.len());
                for (attribute, (name, value)) in all.iter().zip(&model) {
                    prop_assert_eq!((attribute.name[0], attribute.value), (*name, &value[..]));
                }
            }
        }
    }

    #[test]
    fn a_parent_pointer_is_found_by_its_value_too() {
        let mut bytes = Vec::new();
        let mut edit = ShortformEdit::new(&mut bytes);
        for value in [[1_u8; 12], [2; 12]] {
            assert!(edit.append(AttributeFlags::PARENT, b"same", &value));
        }
        let one = list_of_one(AttributeFlags::PARENT, b"same", &[1; 12], 0).unwrap();
        assert_eq!(Shortform::parse(&one).unwrap().attributes().count(), 1);
        Shortform::verify(&one).unwrap();
        assert_eq!(list_of_one(AttributeFlags::PARENT, b"same", &[1; 256], 0), None);
        let found = edit.find(AttributeFlags::PARENT, b"same", Some(&[2; 12])).unwrap();
        assert_eq!((found.offset_bytes, found.value), (23, &[2; 12][..]));
        assert!(edit.find(AttributeFlags::PARENT, b"same", Some(&[3; 12])).is_none());
        assert!(edit.find(AttributeFlags::empty(), b"same", None).is_none());
    }
}

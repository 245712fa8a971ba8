//! Extended attributes and parent pointers: ATTRI (a change is to be made), ATTRD (it was).
//!
//! Regions of an ATTRI: the format, the name, [the new name], [the value], [the new value], each padded to four bytes.

use zerocopy::little_endian::{U16, U32, U64};

use crate::{
    convert::to_usize,
    geometry::Geometry,
    log::{
        intent::{DoneHeader, decode_done},
        item::{ItemPart, ItemType, LogItemFault, Regions},
    },
    on_disk,
    units::InodeNumber,
};

/// The longest attribute name.
const MAX_NAME_BYTES: u32 = 255;
/// The longest attribute value.
const MAX_VALUE_BYTES: u32 = 65536;
/// ROOT, SECURE, PARENT and INCOMPLETE.
const KNOWN_FILTER: u32 = 0x2 | 0x4 | 0x8 | 0x80;

on_disk! {
    /// First region of an ATTRI.
    #[doc(alias = "xfs_attri_log_format")]
    pub struct AttributeFormat {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 2 to 5.
        pub region_count: U16 => "size" Decimal little,
        /// Generation of the inode; set for parent pointers only.
        pub generation: U32 => "igen" Decimal little,
        /// Names this intent.
        pub id: U64 => "id" Hexadecimal little,
        /// The inode.
        pub inode: U64 => "ino" Decimal little,
        /// [`AttributeOperation`].
        pub operation: U32 => "op_flags" Hexadecimal little,
        /// Bytes of the name; see [`name_lengths`](Self::name_lengths) for the replacement of a parent pointer.
        pub name_bytes: U32 => "name_len" Decimal little,
        /// Bytes of the value.
        pub value_bytes: U32 => "value_len" Decimal little,
        /// Namespace bits, as on disk.
        pub filter: U32 => "attr_filter" Hexadecimal little,
    }
}

/// Changes of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeOperation {
    /// 1.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_SET")]
    Set,
    /// 2.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_REMOVE")]
    Remove,
    /// 3.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_REPLACE")]
    Replace,
    /// 4: a parent pointer, as all below.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_PPTR_SET")]
    SetParent,
    /// 5.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_PPTR_REMOVE")]
    RemoveParent,
    /// 6.
    #[doc(alias = "XFS_ATTRI_OP_FLAGS_PPTR_REPLACE")]
    ReplaceParent,
}

/// ATTRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeIntent<'a> {
    /// First region.
    pub format: &'a AttributeFormat,
    /// The change.
    pub operation: AttributeOperation,
    /// Which attribute.
    pub name: &'a [u8],
    /// Its name afterwards, where a parent pointer is replaced.
    pub new_name: Option<&'a [u8]>,
    /// Its value; before, where a parent pointer is replaced.
    pub value: &'a [u8],
    /// Its value afterwards, where a parent pointer is replaced.
    pub new_value: Option<&'a [u8]>,
}

/// ATTRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeDone<'a> {
    /// Names the intent.
    pub done: &'a DoneHeader,
}

impl AttributeOperation {
    /// The number in an intent.
    pub const fn code(self) -> u32 {
        match self {
            Self::Set => 1,
            Self::Remove => 2,
            Self::Replace => 3,
            Self::SetParent => 4,
            Self::RemoveParent => 5,
            Self::ReplaceParent => 6,
        }
    }
}

impl AttributeFormat {
    /// The change, or `None` where that is unknown.
    pub fn attribute_operation(&self) -> Option<AttributeOperation> {
        Some(match self.operation.get() {
            1 => AttributeOperation::Set,
            2 => AttributeOperation::Remove,
            3 => AttributeOperation::Replace,
            4 => AttributeOperation::SetParent,
            5 => AttributeOperation::RemoveParent,
            6 => AttributeOperation::ReplaceParent,
            _ => return None,
        })
    }

    /// Bytes of the name and, where a parent pointer is replaced, of the new name: two halves of one field.
    pub fn name_lengths(&self) -> (u32, Option<u32>) {
        let both = self.name_bytes.get();
        if self.attribute_operation() == Some(AttributeOperation::ReplaceParent) {
            (both & 0xffff, Some(both >> 16))
        } else {
            (both, None)
        }
    }
}

impl<'a> AttributeIntent<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        let item = regions.item;
        let format = regions.exactly::<AttributeFormat>(0)?;
        let flags = u64::from(format.operation.get());
        let operation = format.attribute_operation().ok_or(LogItemFault::Flags { item, flags })?;
        let filter = format.filter.get();
        if filter & !KNOWN_FILTER != 0 {
            return Err(LogItemFault::Flags { item, flags: filter.into() });
        }
        let (name_bytes, new_name_bytes) = format.name_lengths();
        let value_bytes = format.value_bytes.get();
        let names = 1..=MAX_NAME_BYTES;
        for length in std::iter::once(name_bytes).chain(new_name_bytes) {
            if !names.contains(&length) || value_bytes > MAX_VALUE_BYTES {
                return Err(LogItemFault::AttributeLengths { name_bytes: length, value_bytes });
            }
        }
        let mut index = 0usize;
        let mut take = |length: u32| {
            index = index.saturating_add(1);
            regions.padded(index, to_usize(length))
        };
        let has_value = value_bytes > 0 && operation != AttributeOperation::Remove;
        let name = take(name_bytes)?;
        let new_name = new_name_bytes.map(&mut take).transpose()?;
        let value = if has_value { take(value_bytes)? } else { &[] };
        let new_value = new_name.filter(|_| has_value).map(|_| take(value_bytes)).transpose()?;
        regions.expect_count(crate::convert::low_u32(crate::convert::to_u64(index)).saturating_add(1))?;
        Ok(Self { format, operation, name, new_name, value, new_value })
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        let inode = self.format.inode.get();
        if geometry.inode_place(InodeNumber::new(inode)).is_some() {
            return Ok(());
        }
        Err(LogItemFault::NoSuchInode { item: ItemType::AttributeIntent, inode })
    }

    pub(crate) fn parts(&self) -> Vec<ItemPart<'a>> {
        let mut parts = vec![ItemPart::table("attri", self.format), ItemPart::raw("name", self.name)];
        parts.extend(self.new_name.map(|name| ItemPart::raw("new_name", name)));
        if !self.value.is_empty() {
            parts.push(ItemPart::raw("value", self.value));
        }
        parts.extend(self.new_value.map(|value| ItemPart::raw("new_value", value)));
        parts
    }
}

impl<'a> AttributeDone<'a> {
    pub(crate) fn decode(regions: Regions<'a>) -> Result<Self, LogItemFault> {
        Ok(Self { done: decode_done(regions)? })
    }
}

//! Attributes inside their inode: a packed list.

use thiserror::Error;
use zerocopy::{FromBytes, big_endian::U16};

use super::{flags::AttributeFlags, is_valid_name};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::{
        Field,
        FieldFormat::{Decimal, Padding},
        OnDisk,
    },
    header_fault::HeaderFault,
    name_tree::header::too_short,
    on_disk,
};

on_disk! {
    /// Fixed part.
    #[doc(alias = "xfs_attr_sf_hdr")]
    pub struct ShortformHeader {
        /// Bytes of header and entries.
        pub total_size_bytes: U16 => "totsize" Decimal,
        /// Entries.
        pub count: u8 => "count" Decimal,
        /// Zero.
        pub padding: u8 => "pad" Padding,
    }
}

/// The fixed start of an entry. Name and value follow without padding.
#[doc(alias = "xfs_attr_sf_entry")]
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct ShortformEntryHead {
    /// Bytes in the name.
    pub name_length: u8,
    /// Bytes in the value.
    pub value_length: u8,
    /// [`AttributeFlags`]: a namespace bit at most.
    pub flags: u8,
}

impl OnDisk for ShortformEntryHead {
    const FIELDS: &'static [Field] = &[
        Field::bytes("namelen", 0, 1, Decimal),
        Field::bytes("valuelen", 1, 1, Decimal),
        Field::bits("flags", 16, 4, Padding),
        Field::bits("parent", 20, 1, Decimal),
        Field::bits("secure", 21, 1, Decimal),
        Field::bits("root", 22, 1, Decimal),
        Field::bits("local", 23, 1, Padding),
    ];
}

/// Faults of attributes inside their inode. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeShortformFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// More than the fork holds, or less than the header.
    #[error("attributes are said to take {total_bytes} bytes of the {available_bytes} that the fork has")]
    TotalSize {
        /// On disk.
        total_bytes: u16,
        /// In the fork.
        available_bytes: u64,
    },
    /// An entry runs past the end.
    #[error("entry {index} at byte {offset_bytes} runs past the end at {end_bytes}")]
    EntryPastEnd {
        /// Which entry.
        index: u32,
        /// Where it lies.
        offset_bytes: u32,
        /// End of the attributes.
        end_bytes: u32,
    },
    /// Bytes after the last entry.
    #[error("{count} entries end at byte {walked_bytes}, the attributes at {end_bytes}")]
    TrailingBytes {
        /// On disk.
        count: u8,
        /// End of the last entry.
        walked_bytes: u32,
        /// End of the attributes.
        end_bytes: u32,
    },
    /// An empty name.
    #[error("entry {index} has no name")]
    NameLength {
        /// Which entry.
        index: u32,
    },
    /// A zero byte (or a slash in the name of a parent pointer).
    #[error("name of entry {index} has a character that it must not have")]
    NameCharacter {
        /// Which entry.
        index: u32,
    },
    /// More than one namespace, or flags that make no sense here.
    #[error("entry {index} has the flags {flags:#04x}")]
    Flags {
        /// Which entry.
        index: u32,
        /// On disk.
        flags: u8,
    },
}

/// One attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortformAttribute<'a> {
    /// Where it lies in the fork.
    pub offset_bytes: u32,
    /// Its namespace.
    pub flags: AttributeFlags,
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Attributes inside their inode.
#[derive(Debug, Clone, Copy)]
pub struct Shortform<'a> {
    /// Fixed part.
    pub header: &'a ShortformHeader,
    /// Header and entries.
    bytes: &'a [u8],
}

impl<'a> Shortform<'a> {
    /// Bytes only; `fork` is the whole attribute fork.
    ///
    /// # Errors
    /// The header does not fit, or claims more than the fork has.
    pub fn parse(fork: &'a [u8]) -> Result<Self, AttributeShortformFault> {
        let header = ShortformHeader::prefix_of(fork)
            .ok_or_else(|| too_short(fork, to_u64(ShortformHeader::SIZE_BYTES)))?;
        let total_bytes = header.total_size_bytes.get();
        let available_bytes = to_u64(fork.len());
        let fault = AttributeShortformFault::TotalSize { total_bytes, available_bytes };
        let bytes = fork.get(..total_bytes.into()).ok_or(fault)?;
        if bytes.len() < ShortformHeader::SIZE_BYTES {
            return Err(fault);
        }
        Ok(Self { header, bytes })
    }

    /// Verifies the attribute fork of an inode.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(fork: &[u8]) -> Result<(), AttributeShortformFault> {
        Shortform::parse(fork)?.verify_entries()
    }

    fn verify_entries(&self) -> Result<(), AttributeShortformFault> {
        let mut attributes = self.attributes();
        for (index, attribute) in (0u32..).zip(attributes.by_ref()) {
            verify_attribute(index, &attribute?)?;
        }
        let end_bytes = low_u32(to_u64(self.bytes.len()));
        let walked_bytes = attributes.next_bytes;
        if walked_bytes != end_bytes {
            let count = self.header.count;
            return Err(AttributeShortformFault::TrailingBytes { count, walked_bytes, end_bytes });
        }
        Ok(())
    }

    /// The attributes of a damaged fork that lie before the first fault. Where the header claims more bytes than the fork has,
    /// the attributes of the whole fork are considered.
    pub fn sound_attributes(fork: &'a [u8]) -> Option<ShortformAttributes<'a>> {
        let shortform = match Self::parse(fork) {
            Ok(shortform) => shortform,
            Err(_) => Self { header: ShortformHeader::prefix_of(fork)?, bytes: fork },
        };
        let mut attributes = shortform.attributes();
        let is_sound = |(index, attribute): &(u32, Result<ShortformAttribute<'_>, _>)| {
            attribute.as_ref().is_ok_and(|attribute| verify_attribute(*index, attribute).is_ok())
        };
        let sound = (0u32..).zip(attributes.clone()).take_while(is_sound).count();
        attributes.count = low_u32(to_u64(sound));
        Some(attributes)
    }

    /// The attributes in order. Ends after the first error.
    pub fn attributes(&self) -> ShortformAttributes<'a> {
        ShortformAttributes { bytes: self.bytes, index: 0, count: self.header.count.into(), next_bytes: 4 }
    }
}

fn verify_attribute(index: u32, attribute: &ShortformAttribute<'_>) -> Result<(), AttributeShortformFault> {
    let flags = attribute.flags;
    if !AttributeFlags::NAMESPACES.contains(flags) || flags.namespace().is_none() {
        return Err(AttributeShortformFault::Flags { index, flags: flags.bits() });
    }
    if attribute.name.is_empty() {
        return Err(AttributeShortformFault::NameLength { index });
    }
    if !is_valid_name(flags, attribute.name) {
        return Err(AttributeShortformFault::NameCharacter { index });
    }
    Ok(())
}

/// Iterator over shortform attributes.
#[derive(Debug, Clone)]
pub struct ShortformAttributes<'a> {
    bytes: &'a [u8],
    index: u32,
    count: u32,
    next_bytes: u32,
}

impl<'a> ShortformAttributes<'a> {
    fn read(&self) -> Option<(ShortformAttribute<'a>, u32)> {
        let offset_bytes = self.next_bytes;
        let rest = self.bytes.get(to_usize(offset_bytes)..)?;
        let (head, rest) = ShortformEntryHead::ref_from_prefix(rest).ok()?;
        let (name, rest) = rest.split_at_checked(head.name_length.into())?;
        let value = rest.get(..usize::from(head.value_length))?;
        let flags = AttributeFlags::from_bits_retain(head.flags);
        let length_bytes = 3u32.wrapping_add(head.name_length.into()).wrapping_add(head.value_length.into());
        let attribute = ShortformAttribute { offset_bytes, flags, name, value };
        Some((attribute, offset_bytes.saturating_add(length_bytes)))
    }
}

impl<'a> Iterator for ShortformAttributes<'a> {
    type Item = Result<ShortformAttribute<'a>, AttributeShortformFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let index = self.index;
        match self.read() {
            Some((attribute, next_bytes)) => {
                self.index = index.saturating_add(1);
                self.next_bytes = next_bytes;
                Some(Ok(attribute))
            }
            None => {
                self.index = self.count;
                let end_bytes = low_u32(to_u64(self.bytes.len()));
                let offset_bytes = self.next_bytes;
                Some(Err(AttributeShortformFault::EntryPastEnd { index, offset_bytes, end_bytes }))
            }
        }
    }
}

#[cfg(test)]
#[path = "shortform_tests.rs"]
mod tests;

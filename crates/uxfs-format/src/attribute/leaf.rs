//! Attribute leaves: hashes from the front, names (with small values) from the end.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{MAX_VALUE_BYTES, flags::AttributeFlags, is_valid_name, parent_pointer};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    directory::name_hash::{self, NameRule},
    field_table::{
        Field,
        FieldFormat::{Checksum, Decimal, Hexadecimal, Padding, Uuid},
        OnDisk,
    },
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::header::{BlockHeader, too_short, whole_block},
    on_disk,
    units::FileBlock,
    verify_context::VerifyContext,
};

/// Magic number of attribute leaves.
#[doc(alias = "XFS_ATTR3_LEAF_MAGIC")]
pub const MAGIC: u16 = 0x3bee;
/// Bytes of the header.
const HEADER_BYTES: u32 = 80;

on_disk! {
    /// A free region of the leaf.
    #[doc(alias = "xfs_attr_leaf_map")]
    pub struct FreeRegion {
        /// Where it lies.
        pub base_bytes: U16 => "base" Decimal,
        /// Its length.
        pub size_bytes: U16 => "size" Decimal,
    }
    /// The fixed start of a name whose value lies beside it. Name and value follow.
    #[doc(alias = "xfs_attr_leaf_name_local")]
    pub struct LocalHead {
        /// Bytes in the value.
        pub value_length: U16 => "valuelen" Decimal,
        /// Bytes in the name.
        pub name_length: u8 => "namelen" Decimal,
    }
    /// The fixed start of a name whose value lies in blocks of its own. The name follows.
    #[doc(alias = "xfs_attr_leaf_name_remote")]
    pub struct RemoteHead {
        /// First block of the value in the fork.
        pub value_block: U32 => "valueblk" Hexadecimal,
        /// Bytes in the value.
        pub value_length: U32 => "valuelen" Decimal,
        /// Bytes in the name.
        pub name_length: u8 => "namelen" Decimal,
    }
}

/// Fixed part of a leaf.
#[doc(alias = "xfs_attr3_leaf_hdr")]
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
pub struct LeafHeader {
    /// Common to all blocks of the tree.
    pub info: BlockHeader,
    /// Entries.
    pub count: U16,
    /// Bytes that names and values take.
    pub used_bytes: U16,
    /// Where the first name lies; 0 means 65536.
    pub first_used: U16,
    /// Whether bytes behind the first name may be free, in the map or not.
    pub has_holes: u8,
    /// Zero.
    pub padding: u8,
    /// Some free regions.
    pub free_map: [FreeRegion; 3],
    /// Zero.
    pub padding2: U32,
}

impl OnDisk for LeafHeader {
    const FIELDS: &'static [Field] = crate::tree_block_fields![
        Field::bytes("count", 56, 2, Decimal),
        Field::bytes("usedbytes", 58, 2, Decimal),
        Field::bytes("firstused", 60, 2, Decimal),
        Field::bytes("holes", 62, 1, Decimal),
        Field::bytes("pad1", 63, 1, Padding),
        Field::bytes("freemap[0].base", 64, 2, Decimal),
        Field::bytes("freemap[0].size", 66, 2, Decimal),
        Field::bytes("freemap[1].base", 68, 2, Decimal),
        Field::bytes("freemap[1].size", 70, 2, Decimal),
        Field::bytes("freemap[2].base", 72, 2, Decimal),
        Field::bytes("freemap[2].size", 74, 2, Decimal),
        Field::bytes("pad2", 76, 4, Padding),
    ];
}

/// One attribute's hash and where its name lies.
#[doc(alias = "xfs_attr_leaf_entry")]
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
pub struct LeafEntry {
    /// Hash of the name.
    pub hash: U32,
    /// Where the name lies in the block.
    pub name_offset: U16,
    /// [`AttributeFlags`].
    pub flags: u8,
    /// Zero.
    pub padding: u8,
}

impl OnDisk for LeafEntry {
    const FIELDS: &'static [Field] = &[
        Field::bytes("hashval", 0, 4, Hexadecimal),
        Field::bytes("nameidx", 4, 2, Decimal),
        Field::bits("incomplete", 48, 1, Decimal),
        Field::bits("flags", 49, 3, Padding),
        Field::bits("parent", 52, 1, Decimal),
        Field::bits("secure", 53, 1, Decimal),
        Field::bits("root", 54, 1, Decimal),
        Field::bits("local", 55, 1, Decimal),
        Field::bytes("pad2", 7, 1, Padding),
    ];
}

impl LeafEntry {
    /// The flags, typed.
    #[inline]
    pub fn flags(&self) -> AttributeFlags {
        AttributeFlags::from_bits_retain(self.flags)
    }
}

/// Faults of an attribute leaf. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeLeafFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// More entries than fit.
    #[error("{count} entries where {most} fit")]
    EntryCount {
        /// On disk.
        count: u16,
        /// That fit.
        most: u32,
    },
    /// Names must lie behind the entries and inside the block.
    #[error("names begin at {first_used}, which is not from {entries_end_bytes} to the block's end")]
    FirstUsed {
        /// On disk.
        first_used: u32,
        /// End of the entries.
        entries_end_bytes: u32,
    },
    /// The header does not say where the first name lies.
    #[error("names are said to begin at {first_used}, but begin at {found}")]
    FirstName {
        /// On disk.
        first_used: u32,
        /// Of the entries.
        found: u32,
    },
    /// Hashes fall.
    #[error("hash {hash:#x} of entry {index} is smaller than the one before")]
    HashOrder {
        /// Which entry.
        index: u32,
        /// Its hash.
        hash: u32,
    },
    /// A name before the first, or not aligned.
    #[error("name of entry {index} lies at {offset_bytes}, where none can lie")]
    NameOffset {
        /// Which entry.
        index: u32,
        /// On disk.
        offset_bytes: u16,
    },
    /// Name or value run past the end.
    #[error("name and value of entry {index} at {offset_bytes} run past the end of the block")]
    NamePastEnd {
        /// Which entry.
        index: u32,
        /// Where they begin.
        offset_bytes: u16,
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
    /// More than one namespace, or unknown flags.
    #[error("entry {index} has the flags {flags:#04x}")]
    Flags {
        /// Which entry.
        index: u32,
        /// On disk.
        flags: u8,
    },
    /// Not the hash of its name.
    #[error("entry {index} has the hash {hash:#x}, its name {computed:#x}")]
    NameHash {
        /// Which entry.
        index: u32,
        /// On disk.
        hash: u32,
        /// Of the name.
        computed: u32,
    },
    /// Names overlap.
    #[error("name and value of entry {index} overlap those of another")]
    Overlap {
        /// Which entry.
        index: u32,
    },
    /// A remote value larger than values may be, or empty.
    #[error("value of entry {index} is {length_bytes} bytes long")]
    RemoteLength {
        /// Which entry.
        index: u32,
        /// On disk.
        length_bytes: u32,
    },
    /// A remote value at the block that is the root.
    #[error("value of entry {index} has no blocks")]
    RemoteBlock {
        /// Which entry.
        index: u32,
    },
    /// Used bytes miscounted.
    #[error("names and values are said to take {used_bytes} bytes, but take {found}")]
    UsedBytes {
        /// On disk.
        used_bytes: u16,
        /// Counted.
        found: u32,
    },
    /// A free region outside the block or not aligned.
    #[error("free region {index} of {size_bytes} bytes at {base_bytes} cannot be")]
    FreeRegion {
        /// Which of the three.
        index: u32,
        /// On disk.
        base_bytes: u16,
        /// On disk.
        size_bytes: u16,
    },
}

/// Where a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafValue<'a> {
    /// Beside its name.
    Local(&'a [u8]),
    /// In blocks of the fork.
    Remote {
        /// The first one.
        first_block: FileBlock,
        /// Bytes in the value.
        length_bytes: u32,
    },
}

/// One attribute of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafAttribute<'a> {
    /// Hash of its name.
    pub hash: u32,
    /// Namespace and state.
    pub flags: AttributeFlags,
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: LeafValue<'a>,
}

/// An attribute leaf.
#[derive(Debug, Clone, Copy)]
pub struct LeafBlock<'a> {
    /// Its fixed part.
    pub header: &'a LeafHeader,
    /// Entries by rising hash.
    pub entries: &'a [LeafEntry],
    block: &'a [u8],
}

impl<'a> LeafBlock<'a> {
    /// Bytes only: finds the entries that the count claims.
    ///
    /// # Errors
    /// Too few bytes, or more entries than fit.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, AttributeLeafFault> {
        let block = whole_block(bytes, geometry.block_size_bytes)?;
        let (header, rest) = LeafHeader::ref_from_prefix(block)
            .map_err(|_| too_short(block, to_u64(LeafHeader::SIZE_BYTES)))?;
        let count = header.count.get();
        let most = geometry.block_size_bytes.saturating_sub(HEADER_BYTES).wrapping_shr(3);
        let (entries, _) = <[LeafEntry]>::ref_from_prefix_with_elems(rest, count.into())
            .map_err(|_| AttributeLeafFault::EntryCount { count, most })?;
        Ok(Self { header, entries, block })
    }

    /// The leaf in a whole block that has been verified before.
    #[inline]
    pub fn of_block(block: &'a [u8]) -> Option<Self> {
        let (header, rest) = LeafHeader::ref_from_prefix(block).ok()?;
        let (entries, _) = <[LeafEntry]>::ref_from_prefix_with_elems(rest, header.count.get().into()).ok()?;
        Some(Self { header, entries, block })
    }

    /// The attribute at `index`.
    #[inline]
    pub fn attribute(&self, index: u32) -> Option<LeafAttribute<'a>> {
        self.attribute_of(index, self.entries.get(to_usize(index))?).ok()
    }

    /// Verifies a leaf.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), AttributeLeafFault> {
        let (header, block) = BlockHeader::parse(bytes, context.geometry.block_size_bytes)?;
        header.verify(block, MAGIC, context)?;
        let leaf = LeafBlock::parse(block, context.geometry)?;
        leaf.verify_first_used()?;
        leaf.verify_entries(NameRule::of(context.geometry))?;
        leaf.verify_free_map()?;
        Ok(())
    }

    /// Where the first name lies. A block of 64 KiB says 0 for its end.
    pub fn first_used(&self) -> u32 {
        match self.header.first_used.get() {
            0 => 65536,
            first_used => first_used.into(),
        }
    }

    /// Where the entries end.
    pub fn entries_end_bytes(&self) -> u32 {
        u32::from(self.header.count.get()).saturating_mul(8).saturating_add(HEADER_BYTES)
    }

    fn size_bytes(&self) -> u32 {
        low_u32(to_u64(self.block.len()))
    }

    fn verify_first_used(&self) -> Result<(), AttributeLeafFault> {
        let (first_used, entries_end_bytes) = (self.first_used(), self.entries_end_bytes());
        if first_used < entries_end_bytes || first_used > self.size_bytes() {
            return Err(AttributeLeafFault::FirstUsed { first_used, entries_end_bytes });
        }
        Ok(())
    }

    /// That the first name of a leaf without holes lies where the header says, and that of one with holes at a place for a name. Linux does
    /// not look at it when it reads a leaf.
    ///
    /// # Errors
    /// It lies elsewhere.
    pub fn verify_first_name(&self) -> Result<(), AttributeLeafFault> {
        let names = self.entries.iter().map(|entry| entry.name_offset.get().into());
        let (first_used, found) = (self.first_used(), names.min().unwrap_or_else(|| self.size_bytes()));
        let may_differ = self.header.has_holes != 0 && first_used & 3 == 0;
        let fault = AttributeLeafFault::FirstName { first_used, found };
        (may_differ || first_used == found).then_some(()).ok_or(fault)
    }

    fn verify_entries(&self, rule: NameRule) -> Result<(), AttributeLeafFault> {
        let (mut last, mut used) = (0, UsedUnits::new());
        for (index, entry) in (0u32..).zip(self.entries) {
            let hash = entry.hash.get();
            if hash < last {
                return Err(AttributeLeafFault::HashOrder { index, hash });
            }
            last = hash;
            let offset_bytes = entry.name_offset.get();
            if offset_bytes & 3 != 0 || u32::from(offset_bytes) < self.first_used() {
                return Err(AttributeLeafFault::NameOffset { index, offset_bytes });
            }
            let attribute = self.attribute_of(index, entry)?;
            verify_attribute(index, &attribute, rule)?;
            let length_bytes = attribute.stored_bytes();
            if u32::from(offset_bytes).saturating_add(length_bytes) > self.size_bytes() {
                return Err(AttributeLeafFault::NamePastEnd { index, offset_bytes });
            }
            if !used.insert(offset_bytes.into(), length_bytes) {
                return Err(AttributeLeafFault::Overlap { index });
            }
        }
        let used_bytes = self.header.used_bytes.get();
        if used.total_bytes != u32::from(used_bytes) {
            return Err(AttributeLeafFault::UsedBytes { used_bytes, found: used.total_bytes });
        }
        Ok(())
    }

    fn verify_free_map(&self) -> Result<(), AttributeLeafFault> {
        for (index, region) in (0u32..).zip(&self.header.free_map) {
            let (base_bytes, size_bytes) = (region.base_bytes.get(), region.size_bytes.get());
            let end = u32::from(base_bytes).saturating_add(size_bytes.into());
            if (base_bytes | size_bytes) & 3 != 0 || end > self.size_bytes() {
                return Err(AttributeLeafFault::FreeRegion { index, base_bytes, size_bytes });
            }
        }
        Ok(())
    }

    /// The attribute that an entry describes.
    ///
    /// # Errors
    /// Name or value run past the end.
    fn attribute_of(&self, index: u32, entry: &LeafEntry) -> Result<LeafAttribute<'a>, AttributeLeafFault> {
        let offset_bytes = entry.name_offset.get();
        let bytes = self.block.get(usize::from(offset_bytes)..).unwrap_or_default();
        let found =
            if entry.flags().contains(AttributeFlags::LOCAL) { local_at(bytes) } else { remote_at(bytes) };
        let (name, value) = found.ok_or(AttributeLeafFault::NamePastEnd { index, offset_bytes })?;
        Ok(LeafAttribute { hash: entry.hash.get(), flags: entry.flags(), name, value })
    }

    /// The attributes by rising hash, unfinished ones included.
    pub fn attributes(
        &self,
    ) -> impl Iterator<Item = Result<LeafAttribute<'a>, AttributeLeafFault>> + use<'a> {
        let leaf = *self;
        (0u32..).zip(self.entries).map(move |(index, entry)| leaf.attribute_of(index, entry))
    }

    /// The attributes with exactly this hash, unfinished ones included.
    pub fn attributes_of(
        &self,
        hash: u32,
    ) -> impl Iterator<Item = Result<LeafAttribute<'a>, AttributeLeafFault>> + use<'a> {
        let leaf = *self;
        let first = self.entries.partition_point(|entry| entry.hash.get() < hash);
        let from = self.entries.get(first..).unwrap_or_default();
        (low_u32(to_u64(first))..)
            .zip(from)
            .take_while(move |(_, entry)| entry.hash.get() == hash)
            .map(move |(index, entry)| leaf.attribute_of(index, entry))
    }

    /// The largest hash, or `None` in an empty leaf.
    #[inline]
    pub fn last_hash(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.hash.get())
    }
}

impl LeafAttribute<'_> {
    /// Bytes that name and local value, or name and remote place, take in the leaf.
    pub fn stored_bytes(&self) -> u32 {
        let name_length = low_u32(to_u64(self.name.len()));
        match self.value {
            LeafValue::Local(value) => local_size_bytes(name_length, low_u32(to_u64(value.len()))),
            LeafValue::Remote { .. } => remote_size_bytes(name_length),
        }
    }

    /// Whether readers see it.
    pub fn is_complete(&self) -> bool {
        !self.flags.contains(AttributeFlags::INCOMPLETE)
    }
}

/// Bytes that a name with a local value takes.
#[doc(alias = "xfs_attr_leaf_entsize_local")]
pub const fn local_size_bytes(name_length: u32, value_length: u32) -> u32 {
    name_length.saturating_add(value_length).saturating_add(3 + 3) & !3
}

/// Bytes that a name with a remote value takes: 2 more than the fields need, by an old accident of alignment.
#[doc(alias = "xfs_attr_leaf_entsize_remote")]
pub const fn remote_size_bytes(name_length: u32) -> u32 {
    name_length.saturating_add(11 + 3) & !3
}

fn local_at(bytes: &[u8]) -> Option<(&[u8], LeafValue<'_>)> {
    let (head, rest) = LocalHead::ref_from_prefix(bytes).ok()?;
    let (name, rest) = rest.split_at_checked(head.name_length.into())?;
    Some((name, LeafValue::Local(rest.get(..usize::from(head.value_length.get()))?)))
}

fn remote_at(bytes: &[u8]) -> Option<(&[u8], LeafValue<'_>)> {
    let (head, rest) = RemoteHead::ref_from_prefix(bytes).ok()?;
    let name = rest.get(..usize::from(head.name_length))?;
    let first_block = FileBlock::new(head.value_block.get().into());
    Some((name, LeafValue::Remote { first_block, length_bytes: head.value_length.get() }))
}

fn verify_attribute(
    index: u32,
    attribute: &LeafAttribute<'_>,
    rule: NameRule,
) -> Result<(), AttributeLeafFault> {
    let flags = attribute.flags;
    if !AttributeFlags::KNOWN.contains(flags) || flags.namespace().is_none() {
        return Err(AttributeLeafFault::Flags { index, flags: flags.bits() });
    }
    if attribute.name.is_empty() {
        return Err(AttributeLeafFault::NameLength { index });
    }
    if !is_valid_name(flags, attribute.name) {
        return Err(AttributeLeafFault::NameCharacter { index });
    }
    let computed = match attribute.value {
        LeafValue::Local(value) if flags.contains(AttributeFlags::PARENT) => {
            parent_pointer::hash_of(attribute.name, value, rule)
        }
        _ => name_hash::hash(attribute.name),
    };
    if computed != attribute.hash {
        return Err(AttributeLeafFault::NameHash { index, hash: attribute.hash, computed });
    }
    // A value that is being written or removed may have neither blocks nor length yet, or no longer.
    if let LeafValue::Remote { first_block, length_bytes } = attribute.value
        && attribute.is_complete()
    {
        if length_bytes == 0 || length_bytes > MAX_VALUE_BYTES {
            return Err(AttributeLeafFault::RemoteLength { index, length_bytes });
        }
        if first_block.get() == 0 {
            return Err(AttributeLeafFault::RemoteBlock { index });
        }
    }
    Ok(())
}

/// Which bytes names and values take, one bit for each 4 bytes of the largest block.
struct UsedUnits {
    bits: [u64; 256],
    total_bytes: u32,
}

impl UsedUnits {
    fn new() -> Self {
        Self { bits: [0; 256], total_bytes: 0 }
    }

    /// Marks an aligned range within 64 KiB. `false` where part of it was marked already.
    fn insert(&mut self, offset_bytes: u32, length_bytes: u32) -> bool {
        self.total_bytes = self.total_bytes.saturating_add(length_bytes);
        let first = offset_bytes.wrapping_shr(2);
        let end = first.saturating_add(length_bytes.wrapping_shr(2));
        let mut unit = first;
        while unit < end {
            let Some(word) = self.bits.get_mut(to_usize(unit.wrapping_shr(6))) else { return false };
            let from = unit & 63;
            let count = end.saturating_sub(unit).min(64u32.saturating_sub(from));
            let mask = u64::MAX.wrapping_shr(64u32.saturating_sub(count)).wrapping_shl(from);
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            unit = unit.saturating_add(count);
        }
        true
    }
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;

//! Field tables: every on-disk structure says, as data, where each of its fields lies and how people write it.
//!
//! A table is made by the same [`on_disk!`](crate::on_disk) declaration that makes the type, so that the two
//! cannot drift apart. `uxfs inspect` prints from it and the field fuzzer damages by it.

/// How a field's value is written for people. The names and forms are those of `xfs_db print`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldFormat {
    /// Unsigned decimal.
    Decimal,
    /// Two's complement decimal.
    SignedDecimal,
    /// `0x…`, zero as `0`.
    Hexadecimal,
    /// `0…`.
    Octal,
    /// Unsigned decimal; all ones is `null`.
    DecimalOrNull,
    /// Unsigned decimal; all ones is left out (the AGI's buckets of unlinked inodes).
    DecimalUnlessNull,
    /// Unsigned decimal; all ones is `null`, zero is left out (block numbers that may be absent).
    DecimalOrNullUnlessZero,
    /// `0x…`; zero is left out (the bests of a free index).
    HexadecimalUnlessZero,
    /// 16 bytes as 8-4-4-4-12.
    Uuid,
    /// Bytes as a quoted string with octal escapes.
    Text,
    /// Bytes as hexadecimal digits.
    Bytes,
    /// Little-endian CRC32C, followed by whether it is right.
    Checksum,
    /// Inode format code with its name: `2 (extents)`.
    InodeFormat,
    /// Type of a metadata file with its name: `1 (dir)`.
    MetadataType,
    /// Seconds since 1970 as a date; the raw value is a signed 32-bit number.
    TimestampSeconds,
    /// Eight bytes of an inode's time, printed as `.sec` and `.nsec`. What they hold depends on the inode's
    /// bigtime flag.
    Timestamp,
    /// A quota record's timer of four bytes. What it holds depends on the bigtime bit of the record's type.
    QuotaTimer,
    /// Filler, and words whose bits are printed one by one. Not printed, but fuzzed.
    Padding,
}

/// One field, or an array of equal fields, of an on-disk structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name as `xfs_db` prints it.
    pub name: &'static str,
    /// First bit, counted from the structure's first byte, most significant bit first.
    pub bit_offset: u32,
    /// Bits in one element.
    pub bit_length: u32,
    /// Elements: 1 for a plain field.
    pub count: u32,
    /// How the value is written.
    pub format: FieldFormat,
    /// Whether the least significant byte comes first: the contents of the log, and nothing else but checksums
    /// (whose [`FieldFormat`] says so already).
    pub little_endian: bool,
}

/// Field types whose least significant byte comes first. [`on_disk!`](crate::on_disk) wants it of every field that is
/// marked `little`, so that a mark cannot contradict its type.
pub trait LittleEndian {
    /// True.
    const LITTLE_ENDIAN: bool = true;
}

impl LittleEndian for zerocopy::little_endian::U16 {}
impl LittleEndian for zerocopy::little_endian::U32 {}
impl LittleEndian for zerocopy::little_endian::U64 {}
impl LittleEndian for zerocopy::little_endian::I32 {}
impl LittleEndian for zerocopy::little_endian::I64 {}
impl<T: LittleEndian, const N: usize> LittleEndian for [T; N] {}

impl Field {
    /// A plain field of whole bytes, big-endian, for tables written by hand (structures within structures).
    pub const fn bytes(
        name: &'static str,
        offset_bytes: usize,
        size_bytes: usize,
        format: FieldFormat,
    ) -> Self {
        Self {
            name,
            bit_offset: bits(offset_bytes),
            bit_length: bits(size_bytes),
            count: 1,
            format,
            little_endian: false,
        }
    }

    /// A plain field of some bits of a flags byte, for tables written by hand.
    pub const fn bits(name: &'static str, bit_offset: u32, bit_length: u32, format: FieldFormat) -> Self {
        Self { name, bit_offset, bit_length, count: 1, format, little_endian: false }
    }
}

/// A fixed-size on-disk structure with its field table.
pub trait OnDisk:
    Sized
    + zerocopy::FromBytes
    + zerocopy::IntoBytes
    + zerocopy::KnownLayout
    + zerocopy::Immutable
    + zerocopy::Unaligned
{
    /// The structure's size.
    const SIZE_BYTES: usize = size_of::<Self>();
    /// Every field in disk order, gaps included as padding.
    const FIELDS: &'static [Field];

    /// The structure at the start of `bytes`, or `None` where they are too short.
    #[inline]
    fn prefix_of(bytes: &[u8]) -> Option<&Self> {
        Self::ref_from_prefix(bytes).ok().map(|(structure, _)| structure)
    }

    /// The structure as it lies on disk.
    #[inline]
    fn disk_bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    /// Like [`prefix_of`](Self::prefix_of), to change it.
    #[inline]
    fn prefix_of_mut(bytes: &mut [u8]) -> Option<&mut Self> {
        Self::mut_from_prefix(bytes).ok().map(|(structure, _)| structure)
    }
}

/// A byte offset or size as the number of bits, for field tables.
///
/// # Panics
/// At compile time only: structures are far smaller than 512 MiB.
#[allow(clippy::as_conversions, clippy::arithmetic_side_effects)]
pub const fn bits(bytes: usize) -> u32 {
    (bytes * 8) as u32
}

/// Declares an on-disk structure and its field table at once.
///
/// Each field is `name: Type => "xfs_db name" Format,` or, for an array type `[T; N]`,
/// `name: [T; N] => "xfs_db name" Format * N,`. A field whose type is little-endian says so behind its format:
/// `name: U32 => "name" Decimal little,`.
///
/// ```
/// use uxfs_format::{field_table::OnDisk, on_disk};
/// use zerocopy::big_endian::{U16, U32};
/// on_disk! {
///     /// An example.
///     pub struct Example {
///         /// What it is.
///         pub magic: U32 => "magic" Hexadecimal,
///         /// Two numbers.
///         pub pair: [U16; 2] => "pair" Decimal * 2,
///     }
/// }
/// assert_eq!(Example::SIZE_BYTES, 8);
/// assert_eq!(Example::FIELDS[1].bit_offset, 32);
/// assert_eq!(Example::FIELDS[1].bit_length, 16);
/// ```
#[macro_export]
macro_rules! on_disk {
    (@little $type:ty) => { false };
    (@little $type:ty, little) => {
        <$type as $crate::field_table::LittleEndian>::LITTLE_ENDIAN
    };
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                pub $field:ident : $type:ty => $db_name:literal $format:ident $($order:ident)? $(* $count:literal)?,
            )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq,
            ::zerocopy::FromBytes, ::zerocopy::IntoBytes, ::zerocopy::KnownLayout,
            ::zerocopy::Immutable, ::zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::field_table::OnDisk for $name {
            #[allow(clippy::arithmetic_side_effects)]
            const FIELDS: &'static [$crate::field_table::Field] = &[$(
                {
                    const COUNT: u32 = 1 $( * $count )?;
                    $crate::field_table::Field {
                        name: $db_name,
                        bit_offset: $crate::field_table::bits(::std::mem::offset_of!($name, $field)),
                        bit_length: $crate::field_table::bits(size_of::<$type>()) / COUNT,
                        count: COUNT,
                        format: $crate::field_table::FieldFormat::$format,
                        little_endian: $crate::on_disk!(@little $type $(, $order)?),
                    }
                },
            )*];
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Superblock;

    #[test]
    fn tables_cover_their_structure_without_gap_or_overlap() {
        let mut next_bit = 0;
        for field in Superblock::FIELDS {
            assert_eq!(field.bit_offset, next_bit, "{}", field.name);
            next_bit += field.bit_length * field.count;
        }
        assert_eq!(next_bit, bits(Superblock::SIZE_BYTES));
    }
}

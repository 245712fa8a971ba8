//! The bytes of partition tables, little-endian.

use zerocopy::{
    FromBytes, Immutable, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

/// The header of a GUID partition table (UEFI specification 2.10, section 5.3.2).
#[doc(alias = "EFI_PARTITION_TABLE_HEADER")]
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GptHeader {
    pub signature: [u8; 8],
    pub revision: U32,
    /// Bytes of the header that its checksum covers.
    pub size_bytes: U32,
    /// CRC-32 of the header, with zeros in place of this field.
    pub checksum: U32,
    pub reserved: U32,
    /// The sector of this header.
    pub own_sector: U64,
    pub other_sector: U64,
    pub first_usable_sector: U64,
    pub last_usable_sector: U64,
    pub disk_id: Guid,
    /// Where the array of entries begins.
    pub array_sector: U64,
    pub entries: U32,
    pub entry_bytes: U32,
    /// CRC-32 of the array.
    pub array_checksum: U32,
}

impl GptHeader {
    /// The only signature.
    pub const SIGNATURE: [u8; 8] = *b"EFI PART";
}

/// An entry of a GUID partition table (section 5.3.3).
#[doc(alias = "EFI_PARTITION_ENTRY")]
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GptEntry {
    /// Zero where the entry is not used.
    pub type_id: Guid,
    pub unique_id: Guid,
    pub first_sector: U64,
    /// Belongs to the partition.
    pub last_sector: U64,
    pub attributes: U64,
    /// UTF-16.
    pub name: [[u8; 2]; 36],
}

/// A GUID: three little-endian numbers and eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Guid(pub [u8; 16]);

impl Guid {
    /// Of what is not used.
    pub const ZERO: Self = Self([0; 16]);
}

impl std::fmt::Display for Guid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const ORDER: [&[usize]; 5] = [&[3, 2, 1, 0], &[5, 4], &[7, 6], &[8, 9], &[10, 11, 12, 13, 14, 15]];
        for (index, places) in ORDER.iter().enumerate() {
            if index > 0 {
                f.write_str("-")?;
            }
            places.iter().try_for_each(|place| write!(f, "{:02x}", self.0[*place]))?;
        }
        Ok(())
    }
}

/// The first sector of a disk, and of each link in the chain of logical partitions.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BootRecord {
    pub code: [u8; 440],
    pub disk_signature: U32,
    pub unknown: [u8; 2],
    pub entries: [BootEntry; 4],
    pub signature: [u8; 2],
}

/// An entry of a boot record.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BootEntry {
    pub boot_indicator: u8,
    /// Cylinder, head and sector, which mean nothing today.
    pub first_place: [u8; 3],
    pub kind: u8,
    pub last_place: [u8; 3],
    pub first_sector: U32,
    pub sectors: U32,
}

const _: () = assert!(size_of::<GptHeader>() == 92 && size_of::<GptEntry>() == 128);
const _: () = assert!(size_of::<BootRecord>() == 512);

//! Parent pointers: one attribute for each name of an inode. The attribute's name is the entry's name, its value says
//! in which directory.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U32, U64},
};

use crate::{
    convert::{low_u32, to_u64},
    directory::{is_plausible_inode, name_hash::NameRule},
    geometry::Geometry,
    header_fault::HeaderFault,
    on_disk,
    units::InodeNumber,
};

on_disk! {
    /// Value of a parent pointer.
    #[doc(alias = "xfs_parent_rec")]
    pub struct ParentRecord {
        /// The directory.
        pub inode: U64 => "inumber" Decimal,
        /// Its generation.
        pub generation: U32 => "gen" Decimal,
    }
}

/// Faults of the value of a parent pointer. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParentPointerFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// A mark without the feature.
    #[error("the file system has no parent pointers")]
    WithoutFeature,
    /// Values have one size.
    #[error("value is {length_bytes} bytes long, not 12")]
    Length {
        /// On disk.
        length_bytes: u64,
    },
    /// No inode can have this number.
    #[error("the directory has the inode number {inode}, which none can have")]
    InodeNumber {
        /// On disk.
        inode: InodeNumber,
    },
    /// Every inode but the root directory has a name, or is on the list of unlinked inodes.
    #[error("the inode has no parent pointers")]
    None,
    /// No directory with this number is in use.
    #[error("inode {inode} is no directory in use")]
    NoParent {
        /// The number.
        inode: InodeNumber,
    },
    /// Meant an earlier directory with this number.
    #[error("directory {inode} has generation {expected}, not {found}")]
    Generation {
        /// The directory.
        inode: InodeNumber,
        /// In the parent pointer.
        found: u32,
        /// In the directory.
        expected: u32,
    },
    /// A directory lies below itself.
    #[error("directory {inode} lies below itself")]
    Circle {
        /// The directory.
        inode: InodeNumber,
    },
}

impl ParentRecord {
    /// Bytes only.
    ///
    /// # Errors
    /// Not as long as a parent pointer's value.
    pub fn parse(value: &[u8]) -> Result<&Self, ParentPointerFault> {
        Self::ref_from_bytes(value)
            .map_err(|_| ParentPointerFault::Length { length_bytes: to_u64(value.len()) })
    }

    /// Verifies a value.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(value: &[u8], geometry: &Geometry) -> Result<(), ParentPointerFault> {
        let inode = InodeNumber::new(Self::parse(value)?.inode.get());
        if !is_plausible_inode(geometry, inode) {
            return Err(ParentPointerFault::InodeNumber { inode });
        }
        Ok(())
    }
}

/// Hash of the parent pointer with this name and this value: the name's, mixed with the directory's number.
/// A value of the wrong size counts as directory 0.
#[doc(alias = "xfs_parent_hashval")]
pub fn hash_of(name: &[u8], value: &[u8], rule: NameRule) -> u32 {
    let inode = ParentRecord::parse(value).map_or(0, |record| record.inode.get());
    hash(name, InodeNumber::new(inode), rule)
}

/// Hash of the parent pointer for an entry.
pub fn hash(name: &[u8], directory: InodeNumber, rule: NameRule) -> u32 {
    let number = directory.get();
    rule.hash(name) ^ low_u32(number >> 32) ^ low_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_table::OnDisk;

    #[test]
    fn hashes_are_those_that_the_kernel_wrote() {
        let cases: [(&[u8], u64, u32); 3] = [
            (b"f1", 128, 0x33b1),
            (b"hard", 132, 0x0d18_79e0),
            (b"link_with_a_long_name_1", 132, 0x45ca_efa0),
        ];
        for (name, directory, expected) in cases {
            assert_eq!(hash(name, InodeNumber::new(directory), NameRule::Exact), expected);
        }
    }

    #[test]
    fn a_value_is_exactly_twelve_bytes() {
        assert_eq!(ParentRecord::parse(&[0; 11]), Err(ParentPointerFault::Length { length_bytes: 11 }));
        assert_eq!(ParentRecord::parse(&[0; 13]), Err(ParentPointerFault::Length { length_bytes: 13 }));
        assert_eq!(ParentRecord::SIZE_BYTES, 12);
        let geometry = crate::name_tree::golden::geometry();
        let fault = ParentPointerFault::InodeNumber { inode: InodeNumber::new(0) };
        assert_eq!(ParentRecord::verify(&[0; 12], &geometry), Err(fault));
    }
}

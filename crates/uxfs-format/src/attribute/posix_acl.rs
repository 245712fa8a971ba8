//! POSIX access control lists: as XFS stores them, as Linux shows them, as people write them.
//!
//! On disk an ACL is the value of the attribute `SGI_ACL_FILE` or `SGI_ACL_DEFAULT` in the trusted namespace.

use std::fmt;

use thiserror::Error;
use zerocopy::{
    FromBytes, IntoBytes,
    big_endian::{U16, U32},
    little_endian,
};

use crate::{
    convert::{low_u32, to_u64, to_usize},
    on_disk,
};

/// Trusted attribute with the access ACL.
#[doc(alias = "SGI_ACL_FILE")]
pub const ACCESS_NAME: &[u8] = b"SGI_ACL_FILE";
/// Trusted attribute with the ACL that new files in a directory get.
#[doc(alias = "SGI_ACL_DEFAULT")]
pub const DEFAULT_NAME: &[u8] = b"SGI_ACL_DEFAULT";
/// Most entries of an ACL, by the largest attribute value.
#[doc(alias = "XFS_ACL_MAX_ENTRIES")]
pub const MAX_ENTRIES: u32 = 5461;
/// Version of the form that Linux shows.
#[doc(alias = "POSIX_ACL_XATTR_VERSION")]
pub const XATTR_VERSION: u32 = 2;
/// The id of entries that have none.
const NO_ID: u32 = u32::MAX;

on_disk! {
    /// Fixed part of a stored ACL.
    #[doc(alias = "xfs_acl")]
    pub struct AclHeader {
        /// Entries that follow.
        pub count: U32 => "acl_cnt" Decimal,
    }
    /// One stored entry.
    #[doc(alias = "xfs_acl_entry")]
    pub struct AclEntryRecord {
        /// [`AclTag`].
        pub tag: U32 => "ae_tag" Hexadecimal,
        /// User or group; all ones where the tag needs none.
        pub id: U32 => "ae_id" DecimalOrNull,
        /// Read 4, write 2, execute 1.
        pub permissions: U16 => "ae_perm" Octal,
        /// Zero.
        pub padding: U16 => "ae_pad" Padding,
    }
}

/// One entry in the form that Linux shows. Little-endian.
#[derive(
    zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable, zerocopy::Unaligned,
)]
#[repr(C)]
struct XattrEntry {
    tag: little_endian::U16,
    permissions: little_endian::U16,
    id: little_endian::U32,
}

/// Faults of a stored ACL. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AclFault {
    /// Count and length disagree.
    #[error("an ACL of {length_bytes} bytes cannot have {count} entries")]
    Length {
        /// Of the value.
        length_bytes: u64,
        /// On disk.
        count: u32,
    },
    /// A tag that is not.
    #[error("ACL entry {index} has the unknown tag {tag:#x}")]
    Tag {
        /// Which entry.
        index: u32,
        /// On disk.
        tag: u32,
    },
    /// Permissions that are not.
    #[error("ACL entry {index} has the permissions {permissions:#o}")]
    Permissions {
        /// Which entry.
        index: u32,
        /// On disk.
        permissions: u16,
    },
    /// Not the version that Linux knows, or not a number of whole entries.
    #[error("an ACL of {length_bytes} bytes and version {version} is not in the form that Linux has")]
    Form {
        /// Of the value.
        length_bytes: u64,
        /// As given.
        version: u32,
    },
    /// An entry for a user or group that has no number.
    #[error("ACL entry {index} is for a user or group without a number")]
    Id {
        /// Which entry.
        index: u32,
    },
    /// Owner, users, group, groups, mask, others: in this order, and owner, group and others exactly once.
    #[error("ACL entry {index} does not belong there")]
    Order {
        /// Which entry; the number of entries where one is missing at the end.
        index: u32,
    },
    /// Users or groups, but no mask.
    #[error("an ACL that names users or groups needs a mask")]
    NoMask,
    /// More than can be stored.
    #[error("an ACL of {count} entries, more than {MAX_ENTRIES}")]
    TooMany {
        /// How many.
        count: u64,
    },
}

/// The user or group of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AclTag {
    /// The file's owner.
    UserObject,
    /// Some user.
    User(u32),
    /// The file's group.
    GroupObject,
    /// Some group.
    Group(u32),
    /// The most that users, groups and the file's group may get.
    Mask,
    /// Everyone else.
    Other,
}

impl AclTag {
    fn decode(tag: u32, id: u32) -> Option<Self> {
        Some(match tag {
            0x01 => Self::UserObject,
            0x02 => Self::User(id),
            0x04 => Self::GroupObject,
            0x08 => Self::Group(id),
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }

    /// Tag and id, as stored and shown.
    pub const fn encode(self) -> (u16, u32) {
        match self {
            Self::UserObject => (0x01, NO_ID),
            Self::User(id) => (0x02, id),
            Self::GroupObject => (0x04, NO_ID),
            Self::Group(id) => (0x08, id),
            Self::Mask => (0x10, NO_ID),
            Self::Other => (0x20, NO_ID),
        }
    }
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AclEntry {
    /// Its user or group.
    pub tag: AclTag,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
}

/// An access control list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PosixAcl {
    /// In the order stored.
    pub entries: Vec<AclEntry>,
}

impl PosixAcl {
    /// Decodes the value of the attribute.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn decode(value: &[u8]) -> Result<Self, AclFault> {
        let length_bytes = to_u64(value.len());
        let short = AclFault::Length { length_bytes, count: 0 };
        let (header, rest) = AclHeader::ref_from_prefix(value).map_err(|_| short)?;
        let count = header.count.get();
        let fault = AclFault::Length { length_bytes, count };
        if count > MAX_ENTRIES {
            return Err(fault);
        }
        let records =
            <[AclEntryRecord]>::ref_from_bytes_with_elems(rest, to_usize(count)).map_err(|_| fault)?;
        let entries = (0u32..).zip(records).map(|(index, record)| decode_entry(index, record));
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }

    /// The entries of a stored list that are sound by themselves, in the order stored, and how many entries its length has room for.
    /// The count is not looked at: the value's length says it as well.
    pub fn salvage(value: &[u8]) -> (Vec<AclEntry>, u64) {
        let rest = value.get(size_of::<AclHeader>()..).unwrap_or_default();
        let (records, _) = rest.as_chunks::<{ size_of::<AclEntryRecord>() }>();
        let records = records.get(..records.len().min(to_usize(MAX_ENTRIES))).unwrap_or_default();
        let decoded = (0u32..).zip(records).filter_map(|(index, record)| {
            let record = AclEntryRecord::ref_from_bytes(record).ok()?;
            let entry = decode_entry(index, record).ok()?;
            let has_id = !matches!(entry.tag, AclTag::User(NO_ID) | AclTag::Group(NO_ID));
            has_id.then_some(entry)
        });
        (decoded.collect(), to_u64(records.len()))
    }

    /// The value of the attribute.
    pub fn encode(&self) -> Vec<u8> {
        let header = AclHeader { count: U32::new(low_u32(to_u64(self.entries.len()))) };
        let mut value = header.as_bytes().to_vec();
        for entry in &self.entries {
            let (tag, id) = entry.tag.encode();
            let record = AclEntryRecord {
                tag: U32::new(tag.into()),
                id: U32::new(id),
                permissions: U16::new(entry.permissions),
                padding: U16::ZERO,
            };
            value.extend_from_slice(record.as_bytes());
        }
        value
    }

    /// The value of `system.posix_acl_access` or `system.posix_acl_default`, as Linux shows it.
    pub fn to_xattr(&self) -> Vec<u8> {
        let mut value = little_endian::U32::new(XATTR_VERSION).as_bytes().to_vec();
        for entry in &self.entries {
            let (tag, id) = entry.tag.encode();
            let shown = XattrEntry { tag: tag.into(), permissions: entry.permissions.into(), id: id.into() };
            value.extend_from_slice(shown.as_bytes());
        }
        value
    }
}

impl PosixAcl {
    /// Decodes the form that Linux shows, as `setxattr` is given it.
    ///
    /// # Errors
    /// The first check that fails.
    #[doc(alias = "posix_acl_from_xattr")]
    pub fn from_xattr(value: &[u8]) -> Result<Self, AclFault> {
        let length_bytes = to_u64(value.len());
        let version = value.first_chunk().map_or(0, |version| u32::from_le_bytes(*version));
        let form = AclFault::Form { length_bytes, version };
        let (version, rest) = little_endian::U32::ref_from_prefix(value).map_err(|_| form)?;
        let shown = <[XattrEntry]>::ref_from_bytes(rest).map_err(|_| form)?;
        if version.get() != XATTR_VERSION {
            return Err(form);
        }
        let entries = (0u32..).zip(shown).map(|(index, entry)| {
            let (tag, permissions) = (entry.tag.get().into(), entry.permissions.get());
            let tag = AclTag::decode(tag, entry.id.get()).ok_or(AclFault::Tag { index, tag })?;
            if permissions > 7 {
                return Err(AclFault::Permissions { index, permissions });
            }
            Ok(AclEntry { tag, permissions })
        });
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }

    /// Whether Linux lets it be set.
    ///
    /// # Errors
    /// The first rule that it breaks.
    #[doc(alias = "posix_acl_valid")]
    pub fn verify_rules(&self) -> Result<(), AclFault> {
        let count = to_u64(self.entries.len());
        if count > MAX_ENTRIES.into() {
            return Err(AclFault::TooMany { count });
        }
        // Where the last entry stands in the order: 0 owner, 1 users, 2 group, 3 groups, 4 mask, 5 others.
        let (mut last, mut needs_mask) = (None::<u8>, false);
        for (index, entry) in (0u32..).zip(&self.entries) {
            let (place, follows): (u8, &[Option<u8>]) = match entry.tag {
                AclTag::UserObject => (0, &[None]),
                AclTag::User(_) => (1, &[Some(0), Some(1)]),
                AclTag::GroupObject => (2, &[Some(0), Some(1)]),
                AclTag::Group(_) => (3, &[Some(2), Some(3)]),
                AclTag::Mask => (4, &[Some(2), Some(3)]),
                AclTag::Other => (5, &[Some(2), Some(3), Some(4)]),
            };
            if !follows.contains(&last) {
                return Err(AclFault::Order { index });
            }
            if let AclTag::User(id) | AclTag::Group(id) = entry.tag {
                needs_mask = true;
                if id == NO_ID {
                    return Err(AclFault::Id { index });
                }
            }
            if place == 5 && needs_mask && last != Some(4) {
                return Err(AclFault::NoMask);
            }
            last = Some(place);
        }
        if last == Some(5) { Ok(()) } else { Err(AclFault::Order { index: low_u32(count) }) }
    }

    /// The permission bits of a file with this access ACL, and whether they say all that it does (then Linux stores no
    /// ACL).
    #[doc(alias = "posix_acl_equiv_mode")]
    pub fn mode_bits(&self) -> (u16, bool) {
        let (mut mode, mut mask, mut says_all) = (0_u16, None, true);
        for entry in &self.entries {
            match entry.tag {
                AclTag::UserObject => mode |= entry.permissions.wrapping_shl(6),
                AclTag::GroupObject => mode |= entry.permissions.wrapping_shl(3),
                AclTag::Other => mode |= entry.permissions,
                AclTag::User(_) | AclTag::Group(_) => says_all = false,
                AclTag::Mask => {
                    mask = Some(entry.permissions);
                    says_all = false;
                }
            }
        }
        let mode = mask.map_or(mode, |mask| mode & !0o070 | mask.wrapping_shl(3));
        (mode & 0o777, says_all)
    }
}

fn decode_entry(index: u32, record: &AclEntryRecord) -> Result<AclEntry, AclFault> {
    let (tag, permissions) = (record.tag.get(), record.permissions.get());
    if permissions > 7 {
        return Err(AclFault::Permissions { index, permissions });
    }
    let tag = AclTag::decode(tag, record.id.get()).ok_or(AclFault::Tag { index, tag })?;
    Ok(AclEntry { tag, permissions })
}

impl fmt::Display for AclEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag {
            AclTag::UserObject => f.write_str("user::")?,
            AclTag::User(id) => write!(f, "user:{id}:")?,
            AclTag::GroupObject => f.write_str("group::")?,
            AclTag::Group(id) => write!(f, "group:{id}:")?,
            AclTag::Mask => f.write_str("mask::")?,
            AclTag::Other => f.write_str("other::")?,
        }
        for (bit, letter) in [(4, "r"), (2, "w"), (1, "x")] {
            f.write_str(if self.permissions & bit != 0 { letter } else { "-" })?;
        }
        Ok(())
    }
}

/// One entry a line, as `getfacl --numeric` writes them.
impl fmt::Display for PosixAcl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(f, "{entry}"))
    }
}

#[cfg(test)]
#[path = "posix_acl_tests.rs"]
mod tests;

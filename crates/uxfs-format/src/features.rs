//! Feature bits of the superblock, and the one function that judges them.
//!
//! Rules (facts of the format): an unknown *incompat* bit means that the file system cannot be read at all; an unknown
//! *ro-compat* bit that it may be read but not written, nor its log replayed; an unknown *log-incompat* bit that a
//! dirty log cannot be replayed; an unknown *compat* bit nothing for a reader. Writing makes the log dirty, so a bit that
//! forbids replay forbids writing (Linux writes there, and cannot recover what it wrote).

use thiserror::Error;

bitflags::bitflags! {
    /// `sb_versionnum`: version in the low four bits, old feature bits above.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct VersionBits: u16 {
        /// Some inode has an attribute fork.
        const ATTRIBUTES = 0x0010;
        /// 32-bit link counts.
        const LINK_COUNT = 0x0020;
        /// Quota is or was on.
        const QUOTA = 0x0040;
        /// Inode chunks are aligned.
        const ALIGNMENT = 0x0080;
        /// `sb_unit` and `sb_width` hold stripe geometry.
        const STRIPE_ALIGNMENT = 0x0100;
        /// Version 2 log.
        const LOG_V2 = 0x0400;
        /// Sectors larger than 512 bytes.
        const SECTOR = 0x0800;
        /// Unwritten extents.
        const EXTENT_FLAG = 0x1000;
        /// Version 2 directories.
        const DIRECTORY_V2 = 0x2000;
        /// Case-insensitive (ASCII) names.
        #[doc(alias = "XFS_SB_VERSION_BORGBIT")]
        const ASCII_CASE_INSENSITIVE = 0x4000;
        /// `sb_features2` is in use.
        const MORE_BITS = 0x8000;
        const _ = !0;
    }

    /// `sb_features2`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Features2: u32 {
        /// Lazy superblock counters.
        const LAZY_COUNTERS = 0x2;
        /// Version 2 attributes (movable fork offset).
        const ATTRIBUTES_V2 = 0x8;
        /// 32-bit project ids.
        const PROJECT_ID_32 = 0x80;
        /// Metadata checksums: V5.
        const CHECKSUMS = 0x100;
        const _ = !0;
    }

    /// `sb_features_ro_compat`: a reader may ignore unknown bits, a writer may not.
    #[doc(alias = "XFS_SB_FEAT_RO_COMPAT_ALL")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RoCompatible: u32 {
        /// Free inode btree.
        const FREE_INODE_BTREE = 0x1;
        /// Reverse mapping btree.
        const REVERSE_MAP_BTREE = 0x2;
        /// Shared extents.
        const REFLINK = 0x4;
        /// Block counts of the inode btrees in the inode header.
        const INODE_BTREE_COUNTS = 0x8;
        const _ = !0;
    }

    /// `sb_features_incompat`: an unknown bit makes the file system unreadable.
    #[doc(alias = "XFS_SB_FEAT_INCOMPAT_ALL")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Incompatible: u32 {
        /// File type in directory entries.
        const FILE_TYPE = 0x1;
        /// Sparse inode chunks.
        const SPARSE_INODES = 0x2;
        /// Metadata carries `sb_meta_uuid`, not `sb_uuid`.
        const METADATA_UUID = 0x4;
        /// 64-bit timestamps (per inode).
        const BIG_TIME = 0x8;
        /// An unfinished repair or upgrade: not to be mounted.
        const NEEDS_REPAIR = 0x10;
        /// 64-bit extent counters (per inode).
        const LARGE_EXTENT_COUNTS = 0x20;
        /// Exchange of file ranges is logged.
        const EXCHANGE_RANGE = 0x40;
        /// Parent pointers.
        const PARENT_POINTERS = 0x80;
        /// Metadata directory tree.
        const METADATA_DIRECTORY = 0x100;
        /// Zoned realtime device.
        const ZONED = 0x200;
        /// Zoned, and zones have unusable gaps.
        const ZONE_GAPS = 0x400;
        const _ = !0;
    }

    /// `sb_features_log_incompat`: an unknown bit forbids replay of a dirty log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LogIncompatible: u32 {
        /// Logged extended attribute items (set, remove, replace).
        const LOGGED_ATTRIBUTES = 0x1;
        const _ = !0;
    }
}

impl RoCompatible {
    /// All bits that uxfs knows.
    pub const KNOWN: Self = Self::FREE_INODE_BTREE
        .union(Self::REVERSE_MAP_BTREE)
        .union(Self::REFLINK)
        .union(Self::INODE_BTREE_COUNTS);
}

impl Incompatible {
    /// All bits that uxfs knows by name.
    pub const KNOWN: Self = Self::from_bits_retain(0x7ff);
}

impl LogIncompatible {
    /// All bits that uxfs knows.
    pub const KNOWN: Self = Self::LOGGED_ATTRIBUTES;
}

/// Something that uxfs recognises and does not support, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Version 4 and older.
    #[error("XFS version {version} (no metadata checksums) is not supported, only version 5")]
    OldVersion {
        /// From the low bits of `sb_versionnum`.
        version: u16,
    },
    /// Incompat bits from the future.
    #[error("unknown incompatible feature bits {bits:#x}: made by a newer XFS than uxfs knows")]
    UnknownIncompatible {
        /// The unknown ones.
        bits: u32,
    },
    /// Ro-compat bits from the future: read only.
    #[error(
        "unknown read-only-compatible feature bits {bits:#x}: the file system can be read but not changed"
    )]
    UnknownRoCompatible {
        /// The unknown ones.
        bits: u32,
    },
    /// Log-incompat bits from the future: no replay.
    #[error("unknown log feature bits {bits:#x}: the log cannot be replayed, nor the file system changed")]
    UnknownLogIncompatible {
        /// The unknown ones.
        bits: u32,
    },
    /// `NEEDS_REPAIR` is set.
    #[error("the file system is marked as needing repair: a repair or a change of features was interrupted")]
    NeedsRepair,
    /// Data on a realtime device or section.
    #[error("realtime file data is not supported")]
    RealtimeData,
    /// Data in a zoned realtime section.
    #[error("zoned realtime file data is not supported")]
    ZonedData,
    /// The log lies on another device.
    #[error("the log lies on another device, which is not supported")]
    ExternalLog,
}

/// The five feature words of one superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureWords {
    /// `sb_versionnum` without the version.
    pub version_bits: VersionBits,
    /// `sb_features2`.
    pub features2: Features2,
    /// `sb_features_compat`.
    pub compatible: u32,
    /// `sb_features_ro_compat`.
    pub ro_compatible: RoCompatible,
    /// `sb_features_incompat`.
    pub incompatible: Incompatible,
    /// `sb_features_log_incompat`.
    pub log_incompatible: LogIncompatible,
}

/// The judgement of the feature bits, once reading is allowed at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Why the file system must not be changed, nor a dirty log replayed, if so.
    pub write: Result<(), Unsupported>,
}

impl FeatureWords {
    /// Judges the words by the rules at the top of this module.
    ///
    /// # Errors
    /// The reason for which the file system cannot be read.
    pub fn judge(&self) -> Result<Judgement, Unsupported> {
        let unknown = self.incompatible.difference(Incompatible::KNOWN);
        if !unknown.is_empty() {
            return Err(Unsupported::UnknownIncompatible { bits: unknown.bits() });
        }
        if self.incompatible.contains(Incompatible::NEEDS_REPAIR) {
            return Err(Unsupported::NeedsRepair);
        }
        let unknown = self.ro_compatible.difference(RoCompatible::KNOWN);
        let of_log = self.log_incompatible.difference(LogIncompatible::KNOWN);
        let write = if !unknown.is_empty() {
            Err(Unsupported::UnknownRoCompatible { bits: unknown.bits() })
        } else if !of_log.is_empty() {
            Err(Unsupported::UnknownLogIncompatible { bits: of_log.bits() })
        } else {
            Ok(())
        };
        Ok(Judgement { write })
    }

    /// As [`Self::judge`], for a file system whose log holds nothing: unknown features of the log mean nothing then.
    ///
    /// # Errors
    /// As there.
    pub fn judge_with_clean_log(&self) -> Result<Judgement, Unsupported> {
        Self { log_incompatible: self.log_incompatible.intersection(LogIncompatible::KNOWN), ..*self }.judge()
    }

    /// As [`Self::judge`], for a file system whose log is recovered only to be read: features that forbid writing do not matter then, as in Linux.
    ///
    /// # Errors
    /// As there.
    pub fn judge_to_read_log(&self) -> Result<Judgement, Unsupported> {
        Self { ro_compatible: self.ro_compatible.intersection(RoCompatible::KNOWN), ..*self }.judge()
    }

    /// Whether directory entries are looked up without regard to ASCII case.
    pub fn is_ascii_case_insensitive(&self) -> bool {
        self.version_bits.contains(VersionBits::ASCII_CASE_INSENSITIVE)
    }

    /// Whether every name has a parent pointer.
    pub fn has_parent_pointers(&self) -> bool {
        self.incompatible.contains(Incompatible::PARENT_POINTERS)
    }

    /// Whether there is a free inode btree.
    pub fn has_free_inode_btree(&self) -> bool {
        self.ro_compatible.contains(RoCompatible::FREE_INODE_BTREE)
    }

    /// Whether there is a reverse mapping btree.
    pub fn has_reverse_map(&self) -> bool {
        self.ro_compatible.contains(RoCompatible::REVERSE_MAP_BTREE)
    }

    /// Whether extents may be shared.
    pub fn has_reflink(&self) -> bool {
        self.ro_compatible.contains(RoCompatible::REFLINK)
    }

    /// Whether inode chunks may be sparse.
    pub fn has_sparse_inodes(&self) -> bool {
        self.incompatible.contains(Incompatible::SPARSE_INODES)
    }

    /// Whether a metadata directory tree holds the internal inodes.
    pub fn has_metadata_directory(&self) -> bool {
        self.incompatible.contains(Incompatible::METADATA_DIRECTORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> FeatureWords {
        FeatureWords {
            version_bits: VersionBits::from_bits_retain(0xb4b0),
            features2: Features2::from_bits_retain(0x18a),
            compatible: 0,
            ro_compatible: RoCompatible::KNOWN,
            incompatible: Incompatible::from_bits_retain(0xeb),
            log_incompatible: LogIncompatible::empty(),
        }
    }

    #[test]
    fn defaults_may_do_everything() {
        assert_eq!(defaults().judge(), Ok(Judgement { write: Ok(()) }));
    }

    #[test]
    fn unknown_bits_forbid_as_their_word_says() {
        let mut words = defaults();
        words.incompatible = Incompatible::from_bits_retain(0x800);
        assert_eq!(words.judge(), Err(Unsupported::UnknownIncompatible { bits: 0x800 }));

        let mut words = defaults();
        words.ro_compatible = RoCompatible::from_bits_retain(0x1f);
        let reason = Err(Unsupported::UnknownRoCompatible { bits: 0x10 });
        assert_eq!(words.judge(), Ok(Judgement { write: reason }));
        assert_eq!(words.judge_to_read_log(), Ok(Judgement { write: Ok(()) }));

        let mut words = defaults();
        words.log_incompatible = LogIncompatible::from_bits_retain(0x4);
        let reason = Err(Unsupported::UnknownLogIncompatible { bits: 0x4 });
        assert_eq!(words.judge(), Ok(Judgement { write: reason }));
        assert_eq!(words.judge_with_clean_log(), Ok(Judgement { write: Ok(()) }));
        words.ro_compatible = RoCompatible::from_bits_retain(0x1f);
        assert_eq!(words.judge_to_read_log(), Ok(Judgement { write: reason }));

        let mut words = defaults();
        words.compatible = 0x8000;
        assert!(words.judge().is_ok());

        let mut words = defaults();
        words.incompatible |= Incompatible::NEEDS_REPAIR;
        assert_eq!(words.judge(), Err(Unsupported::NeedsRepair));
    }
}

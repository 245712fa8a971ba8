//! Disk quota: how much each user, group and project uses and may use.
//!
//! A quota inode is a file of records indexed by id. Each block holds as many whole records as fit; the rest is
//! zero. Every record has its own checksum.

use thiserror::Error;
use zerocopy::big_endian::{U16, U32, U64};

use crate::{
    checksum::{self, Checksum},
    convert::{low_u32, to_u64},
    features::Incompatible,
    field_table::OnDisk,
    geometry::Geometry,
    header_fault::HeaderFault,
    on_disk,
    units::Uuid,
    verify_context::VerifyContext,
};

/// "DQ".
#[doc(alias = "XFS_DQUOT_MAGIC")]
pub const MAGIC: u16 = 0x4451;
/// The only version.
#[doc(alias = "XFS_DQUOT_VERSION")]
pub const VERSION: u8 = 1;
/// Where the checksum lies in a record.
pub const CHECKSUM_OFFSET_BYTES: u32 = 108;
/// Timers of records with [`RecordType::BIG_TIME`] count in units of 2² seconds.
#[doc(alias = "XFS_DQ_BIGTIME_SHIFT")]
pub const BIG_TIME_SHIFT: u32 = 2;

on_disk! {
    /// One record. The checksum covers it alone.
    #[doc(alias = "xfs_dqblk")]
    #[doc(alias = "xfs_disk_dquot")]
    pub struct QuotaRecord {
        /// [`MAGIC`].
        pub magic: U16 => "diskdq.magic" Hexadecimal,
        /// [`VERSION`].
        pub version: u8 => "diskdq.version" Hexadecimal,
        /// [`RecordType`].
        pub record_type: u8 => "diskdq.type" Hexadecimal,
        /// Id of the user, group or project; 0 holds the limits of those who have none of their own.
        pub id: U32 => "diskdq.id" Decimal,
        /// Blocks that cannot be exceeded; 0 for none.
        pub block_hard_limit: U64 => "diskdq.blk_hardlimit" Decimal,
        /// Blocks that may be exceeded for a time; 0 for none.
        pub block_soft_limit: U64 => "diskdq.blk_softlimit" Decimal,
        /// Inodes that cannot be exceeded; 0 for none.
        pub inode_hard_limit: U64 => "diskdq.ino_hardlimit" Decimal,
        /// Inodes that may be exceeded for a time; 0 for none.
        pub inode_soft_limit: U64 => "diskdq.ino_softlimit" Decimal,
        /// Blocks in use.
        pub blocks: U64 => "diskdq.bcount" Decimal,
        /// Inodes in use.
        pub inodes: U64 => "diskdq.icount" Decimal,
        /// When the time over the soft limit of inodes ends; for id 0 the time allowed.
        pub inode_timer: U32 => "diskdq.itimer" QuotaTimer,
        /// When the time over the soft limit of blocks ends; for id 0 the time allowed.
        pub block_timer: U32 => "diskdq.btimer" QuotaTimer,
        /// Warnings about inodes.
        pub inode_warnings: U16 => "diskdq.iwarns" Decimal,
        /// Warnings about blocks.
        pub block_warnings: U16 => "diskdq.bwarns" Decimal,
        /// Zero.
        pub padding0: U32 => "diskdq.pad0" Padding,
        /// Realtime blocks that cannot be exceeded; 0 for none.
        pub realtime_hard_limit: U64 => "diskdq.rtb_hardlimit" Decimal,
        /// Realtime blocks that may be exceeded for a time; 0 for none.
        pub realtime_soft_limit: U64 => "diskdq.rtb_softlimit" Decimal,
        /// Realtime blocks in use.
        pub realtime_blocks: U64 => "diskdq.rtbcount" Decimal,
        /// When the time over the soft limit of realtime blocks ends; for id 0 the time allowed.
        pub realtime_timer: U32 => "diskdq.rtbtimer" QuotaTimer,
        /// Warnings about realtime blocks.
        pub realtime_warnings: U16 => "diskdq.rtbwarns" Decimal,
        /// Zero.
        pub padding: U16 => "diskdq.pad" Padding,
        /// Zero.
        pub fill: [u8; 4] => "fill" Padding * 4,
        /// CRC32C of the record.
        pub checksum: Checksum => "crc" Checksum,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
    }
}

bitflags::bitflags! {
    /// The kind of owner of a record, and how its timers count.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RecordType: u8 {
        /// Of a user.
        #[doc(alias = "XFS_DQTYPE_USER")]
        const USER = 0x01;
        /// Of a project.
        #[doc(alias = "XFS_DQTYPE_PROJ")]
        const PROJECT = 0x02;
        /// Of a group.
        #[doc(alias = "XFS_DQTYPE_GROUP")]
        const GROUP = 0x04;
        /// Timers count in units of four seconds.
        #[doc(alias = "XFS_DQTYPE_BIGTIME")]
        const BIG_TIME = 0x80;
        const _ = !0;
    }

    /// `sb_qflags`: which quotas are counted, enforced, and counted completely.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QuotaFlags: u16 {
        /// Users are counted.
        #[doc(alias = "XFS_UQUOTA_ACCT")]
        const USER_COUNTED = 0x0001;
        /// Users are limited.
        #[doc(alias = "XFS_UQUOTA_ENFD")]
        const USER_ENFORCED = 0x0002;
        /// The counts of users are complete.
        #[doc(alias = "XFS_UQUOTA_CHKD")]
        const USER_CHECKED = 0x0004;
        /// Projects are counted.
        #[doc(alias = "XFS_PQUOTA_ACCT")]
        const PROJECT_COUNTED = 0x0008;
        /// Groups are counted.
        #[doc(alias = "XFS_GQUOTA_ACCT")]
        const GROUP_COUNTED = 0x0040;
        /// Groups are limited.
        #[doc(alias = "XFS_GQUOTA_ENFD")]
        const GROUP_ENFORCED = 0x0080;
        /// The counts of groups are complete.
        #[doc(alias = "XFS_GQUOTA_CHKD")]
        const GROUP_CHECKED = 0x0100;
        /// Projects are limited.
        #[doc(alias = "XFS_PQUOTA_ENFD")]
        const PROJECT_ENFORCED = 0x0200;
        /// The counts of projects are complete.
        #[doc(alias = "XFS_PQUOTA_CHKD")]
        const PROJECT_CHECKED = 0x0400;
        const _ = !0;
    }
}

/// Whose use of blocks and inodes is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

impl QuotaKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// The kind of owner, as in "user 1000".
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }

    /// The type of its records.
    pub const fn record_type(self) -> RecordType {
        match self {
            Self::User => RecordType::USER,
            Self::Group => RecordType::GROUP,
            Self::Project => RecordType::PROJECT,
        }
    }

    /// The flag that says that its counts are complete.
    pub const fn checked(self) -> QuotaFlags {
        match self {
            Self::User => QuotaFlags::USER_CHECKED,
            Self::Group => QuotaFlags::GROUP_CHECKED,
            Self::Project => QuotaFlags::PROJECT_CHECKED,
        }
    }

    /// The flags that say that it is counted and limited.
    pub const fn in_use(self) -> QuotaFlags {
        match self {
            Self::User => QuotaFlags::USER_COUNTED.union(QuotaFlags::USER_ENFORCED),
            Self::Group => QuotaFlags::GROUP_COUNTED.union(QuotaFlags::GROUP_ENFORCED),
            Self::Project => QuotaFlags::PROJECT_COUNTED.union(QuotaFlags::PROJECT_ENFORCED),
        }
    }
}

impl QuotaFlags {
    /// All that say that counts are complete.
    pub const ALL_CHECKED: Self = Self::USER_CHECKED.union(Self::GROUP_CHECKED).union(Self::PROJECT_CHECKED);

    /// The flags after a change that was not counted. As Linux without quotas, this forgets that there were quotas; where
    /// they are in the metadata directory Linux goes on with them at the next mount, and counts anew.
    #[doc(alias = "xfs_mount_reset_sbqflags")]
    pub fn uncounted(self, has_metadata_directory: bool) -> Self {
        if has_metadata_directory { self.difference(Self::ALL_CHECKED) } else { Self::empty() }
    }
}

/// Faults of a quota record. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuotaFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Another structure, or none.
    #[error("quota record {index}: magic number is {found:#06x}, not 0x4451")]
    Magic {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        found: u16,
    },
    /// The bytes are not those that were written.
    #[error("quota record {index}: checksum is {found:#010x}, but the contents give {computed:#010x}")]
    Checksum {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        found: u32,
        /// Over the record.
        computed: u32,
    },
    /// Part of another file system.
    #[error("quota record {index}: uuid is {found}")]
    Uuid {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        found: Uuid,
    },
    /// Only version 1 exists.
    #[error("quota record {index}: version is {version}, not 1")]
    Version {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        version: u8,
    },
    /// Not of exactly one of user, group and project, or with bits that do not exist here.
    #[error("quota record {index}: type {record_type:#x} cannot be")]
    Type {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        record_type: u8,
    },
    /// The ids of a block count up.
    #[error("quota record {index}: id is {id}, not {expected}")]
    Id {
        /// Counted from 0 in the block.
        index: u32,
        /// On disk.
        id: u32,
        /// The first record's id plus the index.
        expected: u32,
    },
    /// Over a soft limit, but no time runs.
    #[error("quota record {index}: {used} {what} are over the soft limit {limit}, but no timer runs")]
    Timer {
        /// Counted from 0 in the block.
        index: u32,
        /// "blocks", "inodes" or "realtime blocks".
        what: &'static str,
        /// In use.
        used: u64,
        /// The soft limit.
        limit: u64,
    },
}

impl QuotaRecord {
    /// The kind of its owner.
    pub fn record_type(&self) -> RecordType {
        RecordType::from_bits_retain(self.record_type)
    }

    /// A timer in seconds: since 1970, or for id 0 a length of time.
    pub fn timer_seconds(&self, raw: U32) -> u64 {
        let shift = if self.record_type().contains(RecordType::BIG_TIME) { BIG_TIME_SHIFT } else { 0 };
        u64::from(raw.get()).wrapping_shl(shift)
    }

    /// Verifies the record at an index of its block.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, index: u32, context: &VerifyContext<'_>) -> Result<(), QuotaFault> {
        use QuotaFault as F;
        if self.magic.get() != MAGIC {
            return Err(F::Magic { index, found: self.magic.get() });
        }
        checksum::check(zerocopy::IntoBytes::as_bytes(self), CHECKSUM_OFFSET_BYTES)
            .map_err(|mismatch| F::Checksum { index, found: mismatch.found, computed: mismatch.computed })?;
        if self.uuid != context.geometry.metadata_uuid {
            return Err(F::Uuid { index, found: self.uuid });
        }
        if self.version != VERSION {
            return Err(F::Version { index, version: self.version });
        }
        if !self.has_possible_type(context.geometry) {
            return Err(F::Type { index, record_type: self.record_type });
        }
        self.verify_timers(index)
    }

    /// Verifies the record at an index of its block, where the file says whose it is.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_of(
        &self,
        index: u32,
        (kind, id): (QuotaKind, u32),
        context: &VerifyContext<'_>,
    ) -> Result<(), QuotaFault> {
        self.verify(index, context)?;
        if self.record_type().difference(RecordType::BIG_TIME) != kind.record_type() {
            return Err(QuotaFault::Type { index, record_type: self.record_type });
        }
        if self.id.get() != id {
            return Err(QuotaFault::Id { index, id: self.id.get(), expected: id });
        }
        Ok(())
    }

    fn has_possible_type(&self, geometry: &Geometry) -> bool {
        let found = self.record_type();
        let has_big_time = geometry.features.incompatible.contains(Incompatible::BIG_TIME);
        let owners = [RecordType::USER, RecordType::PROJECT, RecordType::GROUP];
        match found.contains(RecordType::BIG_TIME) {
            // The times allowed, which id 0 holds, are lengths of time and never in the large unit.
            true if !has_big_time || self.id.get() == 0 => false,
            _ => owners.contains(&found.difference(RecordType::BIG_TIME)),
        }
    }

    fn verify_timers(&self, index: u32) -> Result<(), QuotaFault> {
        if self.id.get() == 0 {
            return Ok(());
        }
        let limits = [
            ("blocks", self.blocks, self.block_soft_limit, self.block_timer),
            ("inodes", self.inodes, self.inode_soft_limit, self.inode_timer),
            ("realtime blocks", self.realtime_blocks, self.realtime_soft_limit, self.realtime_timer),
        ];
        for (what, used, limit, timer) in limits {
            let (used, limit) = (used.get(), limit.get());
            if limit != 0 && used > limit && timer.get() == 0 {
                return Err(QuotaFault::Timer { index, what, used, limit });
            }
        }
        Ok(())
    }
}

/// Records in one block.
#[doc(alias = "m_quotainfo.qi_dqperchunk")]
pub fn records_per_block(geometry: &Geometry) -> u32 {
    low_u32(to_u64(geometry.block_size().checked_div(QuotaRecord::SIZE_BYTES).unwrap_or(0)))
}

/// The whole records of a block.
pub fn records_of(bytes: &[u8]) -> &[QuotaRecord] {
    let count = bytes.len().checked_div(QuotaRecord::SIZE_BYTES).unwrap_or(0);
    let records = <[QuotaRecord] as zerocopy::FromBytes>::ref_from_prefix_with_elems(bytes, count);
    records.map_or(&[], |(records, _)| records)
}

/// Verifies `bytes` as one record.
///
/// # Errors
/// The first check that fails.
pub fn verify_record(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), QuotaFault> {
    let (length_bytes, needed_bytes) = (to_u64(bytes.len()), to_u64(QuotaRecord::SIZE_BYTES));
    let record =
        QuotaRecord::prefix_of(bytes).ok_or(HeaderFault::Truncated { length_bytes, needed_bytes })?;
    record.verify(0, context)
}

/// Verifies `bytes` as a block of records, whose ids count up. The first id follows from the block's place in the
/// quota file; the reader of the file compares it.
///
/// # Errors
/// The first check that fails.
pub fn verify_block(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), QuotaFault> {
    let needed = context.geometry.block_size();
    let (length_bytes, needed_bytes) = (to_u64(bytes.len()), to_u64(needed));
    let block = bytes.get(..needed).ok_or(HeaderFault::Truncated { length_bytes, needed_bytes })?;
    let records = records_of(block);
    let first_id = records.first().map_or(0, |record| record.id.get());
    for (index, record) in (0u32..).zip(records) {
        record.verify(index, context)?;
        let (id, expected) = (record.id.get(), first_id.wrapping_add(index));
        if id != expected {
            return Err(QuotaFault::Id { index, id, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;

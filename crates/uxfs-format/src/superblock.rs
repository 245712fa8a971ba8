//! The superblock: first sector of every allocation group. The one in group 0 rules; the others are older copies,
//! rewritten only by growfs, label, uuid and feature changes (mkfs leaves `inprogress` set in them).

use zerocopy::big_endian::{U16, U32, U64};

use crate::{
    checksum::{self, Checksum},
    convert::{to_u64, to_usize},
    features::{
        FeatureWords, Features2, Incompatible, LogIncompatible, RoCompatible, Unsupported, VersionBits,
    },
    field_table::OnDisk,
    header_fault::HeaderFault,
    on_disk,
    units::Uuid,
};

pub use crate::superblock_fault::{SuperblockError, SuperblockFault};

/// "XFSB".
#[doc(alias = "XFS_SB_MAGIC")]
pub const MAGIC: u32 = 0x5846_5342;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 224;
/// The smallest allocation group.
#[doc(alias = "XFS_MIN_AG_BYTES")]
pub const MIN_AG_BYTES: u64 = 16 << 20;
/// The largest allocation group is one block less than this.
#[doc(alias = "XFS_MAX_AG_BYTES")]
pub const MAX_AG_BYTES: u64 = 1 << 40;
/// The last group may be this short, in blocks.
#[doc(alias = "XFS_MIN_AG_BLOCKS")]
pub const MIN_LAST_AG_BLOCKS: u64 = 64;

on_disk! {
    /// Superblock. The checksum covers the whole sector.
    #[doc(alias = "xfs_dsb")]
    #[doc(alias = "xfs_sb")]
    pub struct Superblock {
        /// [`MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// Bytes in a block.
        pub block_size_bytes: U32 => "blocksize" Decimal,
        /// Blocks in the data section.
        pub data_blocks: U64 => "dblocks" DecimalOrNull,
        /// Blocks in the realtime section.
        pub realtime_blocks: U64 => "rblocks" DecimalOrNull,
        /// Realtime extents.
        pub realtime_extents: U64 => "rextents" DecimalOrNull,
        /// User-visible uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// First block of an internal log (sparse block number), 0 for an external log.
        pub log_start: U64 => "logstart" DecimalOrNull,
        /// Root directory.
        pub root_inode: U64 => "rootino" DecimalOrNull,
        /// Realtime bitmap inode.
        pub realtime_bitmap_inode: U64 => "rbmino" DecimalOrNull,
        /// Realtime summary inode.
        pub realtime_summary_inode: U64 => "rsumino" DecimalOrNull,
        /// Blocks in a realtime extent.
        pub realtime_extent_size_blocks: U32 => "rextsize" DecimalOrNull,
        /// Blocks in an allocation group (the last may be shorter).
        pub ag_blocks: U32 => "agblocks" DecimalOrNull,
        /// Allocation groups.
        pub ag_count: U32 => "agcount" DecimalOrNull,
        /// Blocks of the realtime bitmap.
        pub realtime_bitmap_blocks: U32 => "rbmblocks" Decimal,
        /// Blocks in the log.
        pub log_blocks: U32 => "logblocks" Decimal,
        /// Version and [`VersionBits`].
        pub version_number: U16 => "versionnum" Hexadecimal,
        /// Bytes in a sector.
        pub sector_size_bytes: U16 => "sectsize" Decimal,
        /// Bytes in an inode.
        pub inode_size_bytes: U16 => "inodesize" Decimal,
        /// Inodes in a block.
        pub inodes_per_block: U16 => "inopblock" Decimal,
        /// Label, padded with zeros.
        pub label: [u8; 12] => "fname" Text,
        /// log2 of the block size.
        pub block_log: u8 => "blocklog" Decimal,
        /// log2 of the sector size.
        pub sector_log: u8 => "sectlog" Decimal,
        /// log2 of the inode size.
        pub inode_log: u8 => "inodelog" Decimal,
        /// log2 of inodes per block.
        pub inodes_per_block_log: u8 => "inopblog" Decimal,
        /// log2 of the group size in blocks, rounded up.
        pub ag_block_log: u8 => "agblklog" Decimal,
        /// log2 of realtime extents.
        pub realtime_extents_log: u8 => "rextslog" Decimal,
        /// 1 while mkfs is at work.
        pub in_progress: u8 => "inprogress" Decimal,
        /// Most of the space that inodes may take, in per cent.
        pub inode_max_percent: u8 => "imax_pct" Decimal,
        /// Allocated inodes.
        pub inode_count: U64 => "icount" Decimal,
        /// Allocated inodes that are free.
        pub free_inodes: U64 => "ifree" Decimal,
        /// Free data blocks.
        pub free_data_blocks: U64 => "fdblocks" Decimal,
        /// Free realtime extents.
        pub free_realtime_extents: U64 => "frextents" Decimal,
        /// User quota inode.
        pub user_quota_inode: U64 => "uquotino" DecimalOrNull,
        /// Group quota inode.
        pub group_quota_inode: U64 => "gquotino" DecimalOrNull,
        /// Quota flags.
        pub quota_flags: U16 => "qflags" Hexadecimal,
        /// Must be 0.
        pub flags: u8 => "flags" Hexadecimal,
        /// Must be 0.
        pub shared_version: u8 => "shared_vn" Decimal,
        /// Alignment of inode chunks in blocks.
        pub inode_alignment_blocks: U32 => "inoalignmt" Decimal,
        /// Stripe unit in blocks.
        pub stripe_unit_blocks: U32 => "unit" Decimal,
        /// Stripe width in blocks.
        pub stripe_width_blocks: U32 => "width" Decimal,
        /// log2 of directory block size / block size.
        pub directory_block_log: u8 => "dirblklog" Decimal,
        /// log2 of the log's sector size; 0 for 512.
        pub log_sector_log: u8 => "logsectlog" Decimal,
        /// The log's sector size; 0 for 512.
        pub log_sector_size_bytes: U16 => "logsectsize" Decimal,
        /// Stripe unit of the log in bytes; 1 for none.
        pub log_stripe_unit_bytes: U32 => "logsunit" Decimal,
        /// [`Features2`].
        pub features2: U32 => "features2" Hexadecimal,
        /// Copy of the word above.
        pub bad_features2: U32 => "bad_features2" Hexadecimal,
        /// Compatible features.
        pub compatible: U32 => "features_compat" Hexadecimal,
        /// [`RoCompatible`].
        pub ro_compatible: U32 => "features_ro_compat" Hexadecimal,
        /// [`Incompatible`].
        pub incompatible: U32 => "features_incompat" Hexadecimal,
        /// [`LogIncompatible`].
        pub log_incompatible: U32 => "features_log_incompat" Hexadecimal,
        /// CRC32C of the sector.
        pub checksum: Checksum => "crc" Checksum,
        /// Alignment of sparse chunks in blocks.
        pub sparse_inode_alignment_blocks: U32 => "spino_align" Decimal,
        /// Project quota inode.
        pub project_quota_inode: U64 => "pquotino" DecimalOrNull,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Uuid in all metadata where [`Incompatible::METADATA_UUID`] is set, else zero.
        pub metadata_uuid: Uuid => "meta_uuid" Uuid,
        /// Root of the metadata directory tree.
        pub metadata_directory_inode: U64 => "metadirino" DecimalOrNull,
        /// Realtime groups.
        pub realtime_group_count: U32 => "rgcount" Decimal,
        /// Realtime extents in a group.
        pub realtime_group_extents: U32 => "rgextents" Decimal,
        /// log2 of blocks in a realtime group.
        pub realtime_group_block_log: u8 => "rgblklog" Decimal,
        /// Zero.
        pub padding: [u8; 7] => "pad" Padding,
        /// First block of an internal realtime section.
        pub realtime_start: U64 => "rtstart" Decimal,
        /// Blocks reserved in a zoned realtime section.
        pub realtime_reserved: U64 => "rtreserved" Decimal,
    }
}

/// Which copy of the superblock is being verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// Group 0: the one that rules.
    Primary,
    /// Any other group: may be older, and `inprogress` is set by mkfs.
    Secondary,
}

/// Sector sizes that a superblock may claim, for a first read of unknown size.
pub const MAX_SECTOR_SIZE_BYTES: usize = 32768;

impl Superblock {
    /// Inodes of quota and of the realtime section, which no name leads to; 0 or all ones for none.
    pub fn internal_inodes(&self) -> [u64; 5] {
        [
            self.realtime_bitmap_inode.get(),
            self.realtime_summary_inode.get(),
            self.user_quota_inode.get(),
            self.group_quota_inode.get(),
            self.project_quota_inode.get(),
        ]
    }

    /// Finds the superblock at the start of `bytes`, which hold at least one sector, and gives it with that
    /// sector's bytes. Looks at magic, version and sector size only.
    ///
    /// # Errors
    /// Too short, no superblock, unsupported version, or a sector size that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<(&Self, &[u8]), SuperblockError> {
        let short = |needed: usize| HeaderFault::Truncated {
            length_bytes: to_u64(bytes.len()),
            needed_bytes: to_u64(needed),
        };
        let superblock = Self::prefix_of(bytes).ok_or_else(|| short(Self::SIZE_BYTES))?;
        let found = superblock.magic.get();
        if found != MAGIC {
            return Err(HeaderFault::BadMagic { found, expected: MAGIC }.into());
        }
        let version = superblock.version_number.get() & 0xf;
        match version {
            5 => {}
            1..=4 => return Err(Unsupported::OldVersion { version }.into()),
            version => return Err(SuperblockFault::Version { version }.into()),
        }
        superblock.verify_sector_size()?;
        let sector_size = usize::from(superblock.sector_size_bytes.get());
        let sector = bytes.get(..sector_size).ok_or_else(|| short(sector_size))?;
        Ok((superblock, sector))
    }

    /// Verifies one superblock alone; `sector` is what [`parse`](Self::parse) gave.
    ///
    /// # Errors
    /// The first check that fails, feature bits before contents: a newer format may have moved the latter.
    pub fn verify(&self, sector: &[u8], copy: Copy) -> Result<(), SuperblockError> {
        checksum::check(sector, CHECKSUM_OFFSET_BYTES).map_err(HeaderFault::from)?;
        self.feature_words().judge()?;
        self.verify_version_bits()?;
        self.verify_sizes()?;
        self.verify_groups()?;
        self.verify_log()?;
        if copy == Copy::Primary {
            if self.in_progress != 0 {
                return Err(SuperblockFault::InProgress { value: self.in_progress }.into());
            }
            self.verify_root_inode()?;
        }
        Ok(())
    }

    /// The feature words, typed.
    pub fn feature_words(&self) -> FeatureWords {
        FeatureWords {
            version_bits: VersionBits::from_bits_retain(self.version_number.get() & !0xf),
            features2: Features2::from_bits_retain(self.features2.get()),
            compatible: self.compatible.get(),
            ro_compatible: RoCompatible::from_bits_retain(self.ro_compatible.get()),
            incompatible: Incompatible::from_bits_retain(self.incompatible.get()),
            log_incompatible: LogIncompatible::from_bits_retain(self.log_incompatible.get()),
        }
    }

    /// The uuid that all metadata carries.
    pub fn effective_metadata_uuid(&self) -> Uuid {
        if self.feature_words().incompatible.contains(Incompatible::METADATA_UUID) {
            self.metadata_uuid
        } else {
            self.uuid
        }
    }

    fn verify_version_bits(&self) -> Result<(), SuperblockFault> {
        let words = self.feature_words();
        let needed = VersionBits::LINK_COUNT | VersionBits::DIRECTORY_V2 | VersionBits::LOG_V2;
        let needed = needed | VersionBits::EXTENT_FLAG | VersionBits::MORE_BITS;
        let needed2 = Features2::CHECKSUMS | Features2::LAZY_COUNTERS | Features2::PROJECT_ID_32;
        let needed2 = needed2 | Features2::ATTRIBUTES_V2;
        if !words.version_bits.contains(needed) || !words.features2.contains(needed2) {
            return Err(SuperblockFault::VersionBits {
                version: self.version_number.get(),
                features2: self.features2.get(),
            });
        }
        if self.flags != 0 || self.shared_version != 0 {
            return Err(SuperblockFault::ReservedFlags {
                flags: self.flags,
                shared_version: self.shared_version,
            });
        }
        if self.inode_max_percent > 100 {
            return Err(SuperblockFault::InodeMaxPercent { percent: self.inode_max_percent });
        }
        Ok(())
    }

    fn verify_sector_size(&self) -> Result<(), SuperblockFault> {
        let size_bytes = self.sector_size_bytes.get();
        if is_power(size_bytes.into(), self.sector_log, 9, 15) {
            return Ok(());
        }
        Err(SuperblockFault::SectorSize { size_bytes, log: self.sector_log })
    }

    fn verify_sizes(&self) -> Result<(), SuperblockFault> {
        let block_size_bytes = self.block_size_bytes.get();
        if !is_power(block_size_bytes, self.block_log, 10, 16) {
            return Err(SuperblockFault::BlockSize { size_bytes: block_size_bytes, log: self.block_log });
        }
        let sector_size_bytes = self.sector_size_bytes.get();
        if block_size_bytes < u32::from(sector_size_bytes) {
            return Err(SuperblockFault::BlockSmallerThanSector { block_size_bytes, sector_size_bytes });
        }
        let inode_size_bytes = self.inode_size_bytes.get();
        if !is_power(inode_size_bytes.into(), self.inode_log, 9, 11) {
            return Err(SuperblockFault::InodeSize { size_bytes: inode_size_bytes, log: self.inode_log });
        }
        let (count, log) = (self.inodes_per_block.get(), self.inodes_per_block_log);
        let expected_log = self.block_log.checked_sub(self.inode_log);
        if expected_log != Some(log) || 1u32.checked_shl(log.into()) != Some(count.into()) {
            return Err(SuperblockFault::InodesPerBlock { count, log });
        }
        let directory_log = self.directory_block_log;
        if self.block_log.checked_add(directory_log).is_none_or(|log| log > 16) {
            return Err(SuperblockFault::DirectoryBlockLog { log: directory_log });
        }
        self.verify_inode_alignment()
    }

    fn verify_inode_alignment(&self) -> Result<(), SuperblockFault> {
        let inode_alignment = self.inode_alignment_blocks.get();
        let sparse_alignment = self.sparse_inode_alignment_blocks.get();
        let fault = SuperblockFault::InodeAlignment { inode_alignment, sparse_alignment };
        let chunk_blocks = 64u32.checked_shr(self.inodes_per_block_log.into()).unwrap_or(0);
        if self.feature_words().has_sparse_inodes() && chunk_blocks > 1 {
            // Facts (xfs-facts §1): a full chunk is the alignment, and sparse chunks align to a cluster, half a chunk. Linux does not
            // mount another one.
            if inode_alignment != chunk_blocks || sparse_alignment != chunk_blocks / 2 {
                return Err(fault);
            }
        } else if inode_alignment > self.ag_blocks.get() {
            return Err(fault);
        }
        Ok(())
    }

    fn verify_groups(&self) -> Result<(), SuperblockFault> {
        let (blocks, ag_count) = (self.ag_blocks.get(), self.ag_count.get());
        let data_blocks = self.data_blocks.get();
        let bytes = u64::from(blocks).saturating_mul(self.block_size_bytes.get().into());
        let last =
            data_blocks.checked_sub(u64::from(ag_count).saturating_sub(1).saturating_mul(blocks.into()));
        let group_fits = (MIN_AG_BYTES..MAX_AG_BYTES).contains(&bytes);
        // A file system of one short group has a group size larger than the file system.
        if !group_fits {
            return Err(SuperblockFault::AgBlocks { blocks });
        }
        let log = self.ag_block_log;
        if blocks.checked_next_power_of_two() != 1u32.checked_shl(log.into()) {
            return Err(SuperblockFault::AgBlockLog { log, blocks });
        }
        let last_fits = last.is_some_and(|last| (MIN_LAST_AG_BLOCKS..=blocks.into()).contains(&last));
        let in_bytes = data_blocks.checked_mul(self.block_size_bytes.get().into());
        if ag_count == 0 || !last_fits || in_bytes.is_none_or(|bytes| bytes > 1 << 63) {
            return Err(SuperblockFault::DataBlocks { data_blocks, ag_count, ag_blocks: blocks });
        }
        Ok(())
    }

    fn verify_log(&self) -> Result<(), SuperblockFault> {
        let (size_bytes, log) = (self.log_sector_size_bytes.get(), self.log_sector_log);
        // 512-byte sectors are written as zero; both forms of larger ones must agree.
        let is_default = size_bytes == 0 && log == 0;
        if !is_default && !is_power(size_bytes.into(), log, 9, 15) {
            return Err(SuperblockFault::LogSectorSize { size_bytes, log });
        }
        let bytes = self.log_stripe_unit_bytes.get();
        let aligned = bytes.checked_rem(self.block_size_bytes.get()) == Some(0);
        if bytes > 1 && (!aligned || bytes > 256 << 10) {
            return Err(SuperblockFault::LogStripeUnit { bytes });
        }
        let (start, blocks) = (self.log_start.get(), self.log_blocks.get());
        if start != 0 && (blocks == 0 || !self.is_one_group_extent(start, blocks)) {
            return Err(SuperblockFault::LogPlace { start, blocks });
        }
        Ok(())
    }

    /// Whether `blocks` blocks from sparse block `start` lie within one group and within the file system.
    fn is_one_group_extent(&self, start: u64, blocks: u32) -> bool {
        let group = start.checked_shr(self.ag_block_log.into()).unwrap_or(u64::MAX);
        let mask = 1u64.checked_shl(self.ag_block_log.into()).map_or(0, |size| size.wrapping_sub(1));
        let first = start & mask;
        let last_group = u64::from(self.ag_count.get()).wrapping_sub(1);
        let group_blocks = if group == last_group {
            self.data_blocks.get().wrapping_sub(last_group.wrapping_mul(self.ag_blocks.get().into()))
        } else {
            self.ag_blocks.get().into()
        };
        group <= last_group && first.checked_add(blocks.into()).is_some_and(|end| end <= group_blocks)
    }

    fn verify_root_inode(&self) -> Result<(), SuperblockFault> {
        let inode = self.root_inode.get();
        let block = inode.checked_shr(self.inodes_per_block_log.into()).unwrap_or(u64::MAX);
        if inode != 0 && self.is_one_group_extent(block, 1) {
            return Ok(());
        }
        Err(SuperblockFault::RootInode { inode })
    }

    /// The label without its padding.
    pub fn label(&self) -> &[u8] {
        let end = self.label.iter().position(|byte| *byte == 0).unwrap_or(self.label.len());
        self.label.get(..end).unwrap_or_default()
    }
}

/// Whether `size` is 2^`log`, with `log` from `min_log` to `max_log`.
fn is_power(size: u32, log: u8, min_log: u8, max_log: u8) -> bool {
    (min_log..=max_log).contains(&log) && 1u64.checked_shl(log.into()) == Some(size.into())
}

/// The bytes of one sector, as the superblock at its start claims it, or `None`.
pub fn sector_of(bytes: &[u8]) -> Option<&[u8]> {
    let superblock = Superblock::prefix_of(bytes)?;
    bytes.get(..to_usize(superblock.sector_size_bytes.get().into()))
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;

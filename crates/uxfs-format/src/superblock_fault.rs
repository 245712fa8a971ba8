//! Faults of a superblock.

use thiserror::Error;

use crate::{features::Unsupported, header_fault::HeaderFault, units::AgNumber};

/// Faults of a superblock. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SuperblockFault {
    /// No version of XFS has this number.
    #[error("version {version} is none that XFS has had")]
    Version {
        /// From the low bits of `versionnum`.
        version: u16,
    },
    /// Not one of the sizes XFS has, or its log2 field disagrees.
    #[error("sector size {size_bytes} (log2 {log}) is not a power of two from 512 to 32768")]
    SectorSize {
        /// `sectsize`.
        size_bytes: u16,
        /// `sectlog`.
        log: u8,
    },
    /// Not one of the sizes XFS has, or its log2 field disagrees.
    #[error("block size {size_bytes} (log2 {log}) is not a power of two from 1024 to 65536")]
    BlockSize {
        /// `blocksize`.
        size_bytes: u32,
        /// `blocklog`.
        log: u8,
    },
    /// Blocks smaller than sectors.
    #[error("block size {block_size_bytes} is smaller than the sector size {sector_size_bytes}")]
    BlockSmallerThanSector {
        /// `blocksize`.
        block_size_bytes: u32,
        /// `sectsize`.
        sector_size_bytes: u16,
    },
    /// Not one of the sizes V5 has, or its log2 field disagrees.
    #[error("inode size {size_bytes} (log2 {log}) is not a power of two from 512 to 2048")]
    InodeSize {
        /// `inodesize`.
        size_bytes: u16,
        /// `inodelog`.
        log: u8,
    },
    /// Does not follow from block size and inode size.
    #[error("inodes per block {count} (log2 {log}) do not follow from the block and inode sizes")]
    InodesPerBlock {
        /// `inopblock`.
        count: u16,
        /// `inopblog`.
        log: u8,
    },
    /// Directory blocks over 64 KiB.
    #[error("directory block log {log} makes directory blocks larger than 65536 bytes")]
    DirectoryBlockLog {
        /// `dirblklog`.
        log: u8,
    },
    /// Group size outside the limits.
    #[error("allocation group size of {blocks} blocks is out of range")]
    AgBlocks {
        /// `agblocks`.
        blocks: u32,
    },
    /// Does not follow from the group size.
    #[error("allocation group log {log} does not follow from a group size of {blocks} blocks")]
    AgBlockLog {
        /// `agblklog`.
        log: u8,
        /// `agblocks`.
        blocks: u32,
    },
    /// Groups and size disagree.
    #[error("{ag_count} groups of {ag_blocks} blocks cannot hold exactly {data_blocks} blocks")]
    DataBlocks {
        /// `dblocks`.
        data_blocks: u64,
        /// `agcount`.
        ag_count: u32,
        /// `agblocks`.
        ag_blocks: u32,
    },
    /// mkfs was interrupted, or a change in bulk mode.
    #[error(
        "it is unfinished: mkfs or a change without a journal was cut off (in-progress flag is {value}); make it anew"
    )]
    InProgress {
        /// `inprogress`.
        value: u8,
    },
    /// Version bits every V5 file system has.
    #[error("version word {version:#06x} with features2 {features2:#x} lacks bits that version 5 requires")]
    VersionBits {
        /// `versionnum`.
        version: u16,
        /// `features2`.
        features2: u32,
    },
    /// Fields that must be zero.
    #[error("flags {flags:#x} and shared version {shared_version} must be zero")]
    ReservedFlags {
        /// `flags`.
        flags: u8,
        /// `shared_vn`.
        shared_version: u8,
    },
    /// Over one hundred per cent.
    #[error("inodes may take {percent} per cent")]
    InodeMaxPercent {
        /// `imax_pct`.
        percent: u8,
    },
    /// Log outside the device or across groups.
    #[error("log of {blocks} blocks at block {start} does not lie within one allocation group")]
    LogPlace {
        /// `logstart`.
        start: u64,
        /// `logblocks`.
        blocks: u32,
    },
    /// A copy of the superblock names another log.
    #[error(
        "log of {blocks} blocks at block {start}, but the superblock of group {group} says {blocks_of_copy} blocks at \
         block {start_of_copy}"
    )]
    LogOfCopy {
        /// `logstart`.
        start: u64,
        /// `logblocks`.
        blocks: u32,
        /// The group of the copy.
        group: AgNumber,
        /// `logstart` of the copy.
        start_of_copy: u64,
        /// `logblocks` of the copy.
        blocks_of_copy: u32,
    },
    /// The superblock in the log is another file system's, or damaged.
    #[error("the log holds a superblock with other block, inode or group sizes, another log or another uuid")]
    OtherInLog,
    /// The log is not allocated.
    #[error("log of {blocks} blocks at block {start} lies over free blocks")]
    LogIsFree {
        /// `logstart`.
        start: u64,
        /// `logblocks`.
        blocks: u32,
    },
    /// The log lies where the inode btree has inodes.
    #[error("log of {blocks} blocks at block {start} lies over inodes")]
    LogOverInodes {
        /// `logstart`.
        start: u64,
        /// `logblocks`.
        blocks: u32,
    },
    /// Log sector fields that contradict each other.
    #[error("log sector size {size_bytes} (log2 {log}) is not valid")]
    LogSectorSize {
        /// `logsectsize`.
        size_bytes: u16,
        /// `logsectlog`.
        log: u8,
    },
    /// Log stripe unit.
    #[error("log stripe unit of {bytes} bytes is not a multiple of the block size, or over 262144")]
    LogStripeUnit {
        /// `logsunit`.
        bytes: u32,
    },
    /// The root inode number names no possible inode.
    #[error("root inode number {inode} lies outside the file system")]
    RootInode {
        /// `rootino`.
        inode: u64,
    },
    /// The root inode number names an inode that is no directory in use.
    #[error("root inode number {inode} names no directory")]
    RootDirectory {
        /// `rootino`.
        inode: u64,
    },
    /// The device is shorter than the file system.
    #[error("the file system needs {needed_bytes} bytes, but the image has only {length_bytes}")]
    DeviceTooShort {
        /// dblocks × blocksize.
        needed_bytes: u64,
        /// The device's size.
        length_bytes: u64,
    },
    /// The alignment of inode chunks.
    #[error("inode alignment {inode_alignment} with sparse alignment {sparse_alignment} is not valid")]
    InodeAlignment {
        /// `inoalignmt`.
        inode_alignment: u32,
        /// `spino_align`.
        sparse_alignment: u32,
    },
}

/// Why a superblock cannot be used: it is damaged, or it is of a kind that uxfs does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// Common header checks.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Its own checks.
    #[error(transparent)]
    Fault(#[from] SuperblockFault),
    /// Not supported.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

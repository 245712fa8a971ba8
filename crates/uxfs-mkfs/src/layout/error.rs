//! Why a file system cannot be laid out as requested; warnings about layouts.

use thiserror::Error;

use crate::options::OptionError;

/// A layout that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A single option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Version 4.
    #[error("-m crc=0: version 4 (no metadata checksums) is not supported")]
    OldVersion,
    /// Part of every version 5 file system.
    #[error("{option}: version 5 file systems always have {feature}")]
    AlwaysOn {
        /// Which option.
        option: &'static str,
        /// The feature to leave out.
        feature: &'static str,
    },
    /// Needs something that is switched off.
    #[error("{option} needs {feature}, which is switched off")]
    Needs {
        /// Which option.
        option: &'static str,
        /// The feature that it needs.
        feature: &'static str,
    },
    /// Version 5 has larger ones only.
    #[error("blocks of {bytes} bytes are too small: version 5 needs 1024")]
    BlockSize {
        /// Asked for.
        bytes: u32,
    },
    /// Blocks hold whole sectors.
    #[error("blocks of {block_bytes} bytes are smaller than sectors of {sector_bytes}")]
    BlockSmallerThanSector {
        /// Block size.
        block_bytes: u32,
        /// Sector size.
        sector_bytes: u32,
    },
    /// The device's own sectors are larger.
    #[error("sectors of {bytes} bytes are smaller than the device's, which have {device_bytes}")]
    SectorSmallerThanDevice {
        /// Asked for.
        bytes: u32,
        /// The device's logical sector size.
        device_bytes: u32,
    },
    /// The log shares the data section's sectors.
    #[error("an internal log has the sector size of the data section ({data_bytes} bytes), not {log_bytes}")]
    LogSectorSize {
        /// Asked for.
        log_bytes: u32,
        /// Of the data section.
        data_bytes: u32,
    },
    /// Inode size.
    #[error("inodes of {bytes} bytes are not possible: with this block size they have {min} to {max}")]
    InodeSize {
        /// Asked for.
        bytes: u64,
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Directory blocks.
    #[error("directory blocks of {bytes} bytes are smaller than blocks of {block_bytes}")]
    DirectoryBlockSize {
        /// Asked for.
        bytes: u64,
        /// Block size.
        block_bytes: u32,
    },
    /// A length that no device can have.
    #[error("{option}: {bytes} bytes are not a multiple of 512")]
    NotSectors {
        /// Which option.
        option: &'static str,
        /// Asked for.
        bytes: u64,
    },
    /// Not whole blocks.
    #[error("{option}: {bytes} bytes are not a multiple of the block size, {block_bytes}")]
    NotBlocks {
        /// Which option.
        option: &'static str,
        /// Asked for.
        bytes: u64,
        /// Block size.
        block_bytes: u32,
    },
    /// Two ways of saying one thing.
    #[error("the size is given twice: --size and -d size")]
    SizeTwice,
    /// More than there is.
    #[error("a size of {bytes} bytes is more than the device has: {device_bytes}")]
    LargerThanDevice {
        /// Asked for.
        bytes: u64,
        /// The device.
        device_bytes: u64,
    },
    /// No group fits.
    #[error("{bytes} bytes are too few: a file system has at least 16 MiB")]
    TooSmall {
        /// The size.
        bytes: u64,
    },
    /// One half of a pair.
    #[error("stripe unit and stripe width must be given together")]
    HalfAStripe,
    /// Stripe numbers that contradict each other.
    #[error("a stripe unit of {unit_bytes} bytes with a width of {width_bytes} is not possible: {reason}")]
    Stripe {
        /// Unit.
        unit_bytes: u64,
        /// Width.
        width_bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// Log stripe unit.
    #[error("a log stripe unit of {bytes} bytes is not a multiple of the block size, {block_bytes}")]
    LogStripe {
        /// Asked for.
        bytes: u64,
        /// Block size.
        block_bytes: u32,
    },
    /// Group size.
    #[error("allocation groups of {blocks} blocks are not possible: they have {min} to {max}")]
    GroupSize {
        /// Asked for, or computed.
        blocks: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A group larger than everything.
    #[error("allocation groups of {blocks} blocks are larger than the file system, which has {data_blocks}")]
    GroupLargerThanData {
        /// Asked for.
        blocks: u64,
        /// All there is.
        data_blocks: u64,
    },
    /// Alignment made the groups so large that fewer of them are enough.
    #[error(
        "{count} groups are not possible: each has {blocks} blocks then, and {data_blocks} blocks are another number of \
         them"
    )]
    GroupCount {
        /// Asked for.
        count: u64,
        /// Blocks in each.
        blocks: u64,
        /// All there is.
        data_blocks: u64,
    },
    /// The log's group.
    #[error("-l agnum={group}: there are {count} allocation groups, counted from 0")]
    LogGroup {
        /// Asked for.
        group: u64,
        /// Groups.
        count: u32,
    },
    /// Log size.
    #[error("a log of {blocks} blocks is not possible: here it has {min} to {max}")]
    LogSize {
        /// Asked for.
        blocks: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// The smallest log does not fit into a group.
    #[error(
        "the smallest possible log has {min} blocks, but a group has room for {max}: a larger size is needed"
    )]
    NoRoomForLog {
        /// Smallest log.
        min: u64,
        /// Room in a group.
        max: u64,
    },
    /// Log size and stripe.
    #[error("a log of {blocks} blocks is not a multiple of its stripe unit, {unit_blocks} blocks")]
    LogNotStripes {
        /// Asked for.
        blocks: u64,
        /// Stripe unit.
        unit_blocks: u32,
    },
    /// The log lies where the root directory must be.
    #[error(
        "the root directory must lie at block {block} of the first group, where the log is or the group ends"
    )]
    NoRoomForRoot {
        /// Where it must lie.
        block: u32,
    },
    /// Hints for extents.
    #[error("{option}: {blocks} blocks are not possible: at most {max}, in multiples of {multiple}")]
    ExtentHint {
        /// Which option.
        option: &'static str,
        /// Asked for.
        blocks: u64,
        /// Largest.
        max: u64,
        /// Must divide it.
        multiple: u32,
    },
    /// Largest atomic write.
    #[error("-i max_atomic_write: {bytes} bytes are not possible: {reason}")]
    AtomicWrite {
        /// Asked for.
        bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// Too small to be supported by anyone.
    #[error("{what}; use --unsupported to make it anyway")]
    Unsupported {
        /// The part that is too small.
        what: &'static str,
    },
    /// No size is enough for what shall be in it.
    #[error("no possible file system is large enough")]
    NeverEnough,
    /// `--grow-to` below the size.
    #[error("--grow-to: {bytes} bytes are less than the file system has now, {now_bytes}")]
    GrowTo {
        /// Asked for.
        bytes: u64,
        /// Size now.
        now_bytes: u64,
    },
    /// Groups sized for growing, and by hand.
    #[error("--grow-to chooses the AGs itself: it cannot be used with {option}")]
    GrowToConflict {
        /// With what.
        option: &'static str,
    },
}

impl LayoutError {
    /// Whether it asks for something that uxfs does not have, rather than for something impossible.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Option(error) => error.is_unsupported(),
            Self::OldVersion => true,
            _ => false,
        }
    }
}

/// A warning about a layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Warning {
    /// Not whole blocks; the rest is left out.
    #[error("{option}: {bytes} bytes are not a multiple of the block size; {used_bytes} are used")]
    Truncated {
        /// Which option.
        option: &'static str,
        /// Asked for.
        bytes: u64,
        /// Taken.
        used_bytes: u64,
    },
    /// Rounded to the stripe.
    #[error("the AG size is rounded to {blocks} blocks, a multiple of {unit_blocks}")]
    GroupSizeRounded {
        /// Taken.
        blocks: u64,
        /// Stripe unit.
        unit_blocks: u64,
    },
    /// All groups begin on one disk.
    #[error(
        "the AG size is a multiple of the stripe width: all AGs begin on the same disk; \
         {better_blocks} blocks would be better"
    )]
    GroupsOnOneDisk {
        /// A better size.
        better_blocks: u64,
    },
    /// Too large a stripe unit for the log.
    #[error("the stripe unit of {unit_bytes} bytes is too large for the log, which gets 32 KiB")]
    LogStripeAdjusted {
        /// Of the data section.
        unit_bytes: u64,
    },
    /// The device's own stripe makes no sense.
    #[error(
        "the device's stripe unit of {unit_bytes} bytes with a width of {width_bytes} is ignored: {reason}"
    )]
    DeviceStripeIgnored {
        /// Unit.
        unit_bytes: u64,
        /// Width.
        width_bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// Case-insensitive names.
    #[error("case-insensitive (ASCII) names are deprecated in Linux")]
    CaseInsensitive,
    /// The property asks for checks that the features do not allow.
    #[error("-m autofsck: xfs_scrub can check less without {feature}")]
    AutoFsck {
        /// The missing feature.
        feature: &'static str,
    },
    /// Made with `--unsupported`.
    #[error("this configuration of XFS is not supported (--unsupported)")]
    Unsupported,
}

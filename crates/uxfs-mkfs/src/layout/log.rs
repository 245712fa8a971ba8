//! Size and place of the log.

use uxfs_format::geometry::Geometry;

use super::{
    DeviceFacts, Features, Groups, LayoutError, Sizes, Stripe, Warning,
    groups::concurrency,
    sizes::{is_fast_device, length_in_blocks},
};
use crate::{
    log_size,
    options::{
        OptionError, Options,
        grammar::{MAX_LOG_BYTES, Setting},
    },
};

/// A log has no more blocks than this, whatever their size.
const MAX_LOG_BLOCKS: u64 = 1 << 20;
/// From this size on the log has at least [`MIN_USUAL_LOG_BYTES`].
const SMALL_FILE_SYSTEM_BYTES: u64 = 300 << 20;
const MIN_USUAL_LOG_BYTES: u64 = 64 << 20;
/// The log is this part of the file system.
const BLOCKS_PER_LOG_BLOCK: u64 = 2048;
/// Below this, no thought is given to many writers.
const MIN_CONCURRENT_BYTES: u64 = 1 << 30;
/// The largest stripe unit of a log; for larger ones of the data section there is another default.
const MAX_STRIPE_BYTES: u64 = 256 << 10;
const DEFAULT_STRIPE_BYTES: u64 = 32 << 10;

/// The log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Its group.
    pub group: u32,
    /// First block in that group.
    pub start_block: u32,
    /// Length.
    pub blocks: u32,
    /// Stripe unit in bytes, 0 for none.
    pub stripe_unit_bytes: u32,
}

/// The log's stripe unit in bytes, 0 for none.
///
/// # Errors
/// Not a multiple of the block size.
pub fn stripe_unit(
    options: &Options,
    sizes: &Sizes,
    stripe: Stripe,
    warnings: &mut Vec<Warning>,
) -> Result<u32, LayoutError> {
    let block_bytes = sizes.block_bytes;
    let asked = match options.number(Setting::LogStripeUnit) {
        Some(sectors) => Some(sectors * 512),
        None => options.size(Setting::LogStripeUnitBytes, sizes.units())?,
    };
    if let Some(bytes) = asked {
        return if bytes % u64::from(block_bytes) == 0 {
            Ok(bytes as u32) // At most 256 KiB.
        } else {
            Err(LayoutError::LogStripe { bytes, block_bytes })
        };
    }
    let unit_bytes = u64::from(stripe.unit_blocks) * u64::from(block_bytes);
    if unit_bytes > MAX_STRIPE_BYTES {
        warnings.push(Warning::LogStripeAdjusted { unit_bytes });
        return Ok((DEFAULT_STRIPE_BYTES / u64::from(block_bytes)) as u32 * block_bytes);
    }
    if unit_bytes == 0 && sizes.sector_bytes > 512 {
        // Whole blocks are whole sectors.
        return Ok(block_bytes);
    }
    Ok(unit_bytes as u32)
}

/// All that decides about the log.
#[derive(Debug)]
pub struct LogPlan<'a> {
    /// The options.
    pub options: &'a Options,
    /// The device.
    pub facts: &'a DeviceFacts,
    /// Block and inode sizes.
    pub sizes: &'a Sizes,
    /// Which trees there are.
    pub features: &'a Features,
    /// The stripe of the data section.
    pub stripe: Stripe,
    /// The groups.
    pub groups: Groups,
    /// The geometry without the log.
    pub geometry: &'a Geometry,
    /// First block of a group that is not taken by headers or tree roots.
    pub first_free_block: u32,
    /// Stripe unit in bytes, 0 for none.
    pub stripe_unit_bytes: u32,
    /// Blocks of the largest atomic write that was asked for, else 0.
    pub atomic_write_blocks: u64,
}

impl LogPlan<'_> {
    /// Decides.
    ///
    /// # Errors
    /// A log that is too small or too large, or groups without room for one.
    pub fn resolve(&self, warnings: &mut Vec<Warning>) -> Result<Log, LayoutError> {
        if !self.options.switch(Setting::LogInternal, true) {
            let (option, feature) = ("-l internal=0".to_owned(), "a log on another device");
            return Err(OptionError::Unsupported { option, feature }.into());
        }
        let group = self.group()?;
        let asked = self.asked(warnings)?;
        let group_blocks = self.group_blocks(group);
        match self.resolve_in(group, self.groups.blocks, asked) {
            Ok(log) if u64::from(log.start_block) + u64::from(log.blocks) <= group_blocks => Ok(log),
            // The last group may be shorter than the others. mkfs.xfs does not think of that, and may fail there.
            Ok(_) => self.resolve_in(group, group_blocks, asked),
            error => error,
        }
    }

    fn resolve_in(&self, group: u32, group_blocks: u64, asked: Option<u64>) -> Result<Log, LayoutError> {
        let min = log_size::minimum_blocks(self.geometry, self.stripe_unit_bytes, self.atomic_write_blocks);
        let limits = MAX_LOG_BLOCKS.min(MAX_LOG_BYTES >> self.sizes.block_log());
        let room = self.room(group_blocks);
        let mut max = room.min(limits);
        if group == 0 {
            // The root directory's inodes must fit behind it, aligned, with some slack for the blocks of the free
            // list.
            let backoff =
                (u64::from(self.sizes.chunk_blocks()) * 4).max(u64::from(self.stripe.unit_blocks) * 2);
            max = room.saturating_sub(backoff).min(limits);
        }
        if max < min {
            return Err(LayoutError::NoRoomForLog { min, max });
        }
        let blocks = match asked {
            Some(blocks) if !(min..=max).contains(&blocks) => {
                return Err(LayoutError::LogSize { blocks, min, max });
            }
            Some(blocks) => blocks,
            None => self.default_blocks(min, max),
        };
        self.place(group, group_blocks, blocks, asked.is_some(), min, max)
    }

    fn group(&self) -> Result<u32, LayoutError> {
        let count = self.groups.count as u32; // Verified with the groups.
        match self.options.number(Setting::LogAgNumber) {
            None => Ok(count / 2),
            Some(group) if group < count.into() => Ok(group as u32),
            Some(group) => Err(LayoutError::LogGroup { group, count }),
        }
    }

    /// Blocks of the log's group.
    fn group_blocks(&self, group: u32) -> u64 {
        let before = u64::from(group) * self.groups.blocks;
        self.groups.blocks.min(self.groups.data_blocks - before)
    }

    /// Blocks of a group beside its headers, tree roots, and the few blocks that must stay free for its trees.
    fn room(&self, group_blocks: u64) -> u64 {
        let trees = [self.features.free_inode_btree, self.features.reverse_map, self.features.reflink];
        let roots = 3 + trees.into_iter().filter(|has| *has).count() as u64;
        let reserve = 4;
        let taken = u64::from(self.sizes.group_header_blocks()) + roots + reserve + 1;
        group_blocks.saturating_sub(taken)
    }

    fn asked(&self, warnings: &mut Vec<Warning>) -> Result<Option<u64>, LayoutError> {
        let Some(bytes) = self.options.size(Setting::LogSize, self.sizes.units())? else { return Ok(None) };
        let blocks = length_in_blocks(bytes, self.sizes.block_bytes, "-l size", warnings)?;
        let unit_blocks = self.stripe_unit_bytes / self.sizes.block_bytes;
        if unit_blocks > 1 && blocks % u64::from(unit_blocks) != 0 {
            return Err(LayoutError::LogNotStripes { blocks, unit_blocks });
        }
        Ok(Some(blocks))
    }

    fn default_blocks(&self, min: u64, max: u64) -> u64 {
        let block_log = self.sizes.block_log();
        let bytes = self.groups.data_blocks << block_log;
        if bytes < SMALL_FILE_SYSTEM_BYTES {
            return min;
        }
        let share = self.groups.data_blocks / BLOCKS_PER_LOG_BLOCK;
        let usual = share.max(MIN_USUAL_LOG_BYTES >> block_log).max(self.concurrent_blocks(bytes));
        usual.min(max).max(min)
    }

    /// Room for as many of the largest transactions as there are writers, and half as many again.
    fn concurrent_blocks(&self, bytes: u64) -> u64 {
        let is_fast = is_fast_device(self.facts);
        let threads = concurrency(self.options, Setting::LogConcurrency, is_fast, self.facts);
        if threads == 0 || bytes < MIN_CONCURRENT_BYTES {
            return 0;
        }
        let each = log_size::largest_transaction_bytes(self.geometry);
        (each.saturating_mul(3).saturating_mul(threads) / 2) >> self.sizes.block_log()
    }

    /// Aligns start and length to the stripe.
    fn place(
        &self,
        group: u32,
        end: u64,
        blocks: u64,
        is_asked: bool,
        min: u64,
        max: u64,
    ) -> Result<Log, LayoutError> {
        let unit = match (self.stripe_unit_bytes / self.sizes.block_bytes, self.stripe.unit_blocks) {
            (0, unit) => unit.max(1),
            (unit, _) => unit,
        };
        let unit = u64::from(unit);
        // What is aligned is the block's sparse number: for stripes that are no power of two another place than on
        // the device.
        let base = u64::from(group) << self.geometry.ag_block_log;
        let start = (base + u64::from(self.first_free_block)).next_multiple_of(unit) - base;
        let mut length = blocks;
        if !is_asked && !length.is_multiple_of(unit) {
            length = length.next_multiple_of(unit);
            if length > max || start + length > end {
                let room = max.min(end.saturating_sub(start));
                length = room - room % unit;
            }
        }
        if length < min || start + length > end {
            return Err(LayoutError::NoRoomForLog { min, max: end.saturating_sub(start) });
        }
        Ok(Log {
            group,
            start_block: start as u32, // Within a group, as the length is.
            blocks: length as u32,
            stripe_unit_bytes: self.stripe_unit_bytes,
        })
    }
}

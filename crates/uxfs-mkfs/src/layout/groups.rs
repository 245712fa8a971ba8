//! How many allocation groups there are, and of what size.

use super::{DeviceFacts, LayoutError, Sizes, Stripe, Warning, sizes::is_fast_device};
use crate::options::{Options, grammar::Setting};

/// Sizes that decide about the number of groups.
const TIB: u64 = 1 << 40;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Groups made for many processors are not smaller than this.
const MIN_CONCURRENT_GROUP_BYTES: u64 = 4 * GIB;

/// The data section, cut into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Blocks of the data section; may be less than was asked for, where the rest is too short for a group.
    pub data_blocks: u64,
    /// Blocks in each group but the last.
    pub blocks: u64,
    /// Groups.
    pub count: u64,
}

/// Units of group sizes.
#[derive(Debug, Clone, Copy)]
struct Alignment {
    /// Of the stripe, or of the largest atomic write where that is larger.
    unit_blocks: u64,
    stripe: Stripe,
}

impl Groups {
    /// Cuts `data_blocks` into groups. `atomic_write_blocks` is 1 where it does not matter.
    ///
    /// # Errors
    /// Groups that are too small or too large, or a number of them that cannot be.
    pub fn resolve(
        options: &Options,
        facts: &DeviceFacts,
        sizes: &Sizes,
        stripe: Stripe,
        data_blocks: u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, LayoutError> {
        let asked_size = asked_group_blocks(options, sizes)?;
        let asked_count = options.number(Setting::DataAgCount);
        let is_asked = asked_size.is_some() || asked_count.is_some();
        let blocks = match (asked_size, asked_count) {
            (Some(blocks), _) => blocks,
            (None, Some(count)) => data_blocks.div_ceil(count),
            (None, None) => default_blocks(options, facts, sizes, stripe, data_blocks),
        };
        let mut groups = Self { data_blocks, blocks, count: data_blocks.div_ceil(blocks) };
        let atomic_blocks = atomic_write_blocks(options, sizes, blocks)?;
        let alignment = Alignment { unit_blocks: atomic_blocks.max(stripe.unit_blocks.into()), stripe };
        if alignment.unit_blocks > 1 || stripe.unit_blocks > 0 {
            groups.align(alignment, sizes, is_asked, asked_size.is_some(), warnings);
        }
        if let Some(count) = asked_count
            && groups.count != count
        {
            // mkfs.xfs goes on with groups that do not exist, and then fails.
            return Err(LayoutError::GroupCount { count, blocks: groups.blocks, data_blocks });
        }
        groups.drop_short_tail(sizes);
        groups.verify(sizes, options.grow_to_bytes.is_some())?;
        Ok(groups)
    }

    /// Makes the group size a multiple of the stripe unit, but not of the whole width: else all groups would begin on
    /// one disk, and their headers wear it out alone.
    fn align(
        &mut self,
        alignment: Alignment,
        sizes: &Sizes,
        is_asked: bool,
        is_size_asked: bool,
        warnings: &mut Vec<Warning>,
    ) {
        let Alignment { unit_blocks, stripe } = alignment;
        let (min, max) = sizes.group_limits();
        if !self.blocks.is_multiple_of(unit_blocks) {
            let up = self.blocks.next_multiple_of(unit_blocks);
            let rounded = if up > max { up - unit_blocks } else { up };
            if (min..=max).contains(&rounded) {
                self.blocks = rounded;
                if is_size_asked {
                    warnings.push(Warning::GroupSizeRounded { blocks: rounded, unit_blocks });
                }
            }
        }
        self.recount();
        let has_width = stripe.width_blocks > stripe.unit_blocks;
        let is_on_one_disk =
            has_width && self.blocks.is_multiple_of(u64::from(stripe.width_blocks)) && self.count > 1;
        if is_on_one_disk {
            let shorter = self.blocks.saturating_sub(unit_blocks);
            let other = if shorter < min { self.blocks + unit_blocks } else { shorter };
            if is_asked {
                warnings.push(Warning::GroupsOnOneDisk { better_blocks: other });
            } else {
                self.blocks = other.min(self.data_blocks);
                self.recount();
            }
        }
    }

    fn recount(&mut self) {
        self.count = self.data_blocks.div_ceil(self.blocks);
    }

    /// A last group that is too short to be one is left out.
    fn drop_short_tail(&mut self, sizes: &Sizes) {
        let tail = self.data_blocks % self.blocks;
        if self.count > 1 && tail != 0 && tail < sizes.group_limits().0 {
            self.data_blocks -= tail;
            self.recount();
        }
    }

    fn verify(&self, sizes: &Sizes, may_be_short: bool) -> Result<(), LayoutError> {
        let (min, max) = sizes.group_limits();
        if !(min..=max).contains(&self.blocks) {
            return Err(LayoutError::GroupSize { blocks: self.blocks, min, max });
        }
        if self.blocks > self.data_blocks && !may_be_short {
            let (blocks, data_blocks) = (self.blocks, self.data_blocks);
            return Err(LayoutError::GroupLargerThanData { blocks, data_blocks });
        }
        if u32::try_from(self.count).is_err() {
            return Err(LayoutError::GroupSize { blocks: self.blocks, min, max });
        }
        Ok(())
    }
}

fn asked_group_blocks(options: &Options, sizes: &Sizes) -> Result<Option<u64>, LayoutError> {
    let Some(bytes) = options.size(Setting::DataAgSize, sizes.units())? else { return Ok(None) };
    let block_bytes = sizes.block_bytes;
    if bytes % u64::from(block_bytes) != 0 {
        return Err(LayoutError::NotBlocks { option: "-d agsize", bytes, block_bytes });
    }
    Ok(Some(bytes / u64::from(block_bytes)))
}

/// Blocks of the largest atomic write: groups begin at multiples of it, so that such a write can be aligned on the
/// device wherever it lies. 1 where nothing was asked.
fn atomic_write_blocks(options: &Options, sizes: &Sizes, group_blocks: u64) -> Result<u64, LayoutError> {
    let Some(bytes) = options.size(Setting::InodeMaxAtomicWrite, sizes.units())? else { return Ok(1) };
    let refuse = |reason| Err(LayoutError::AtomicWrite { bytes, reason });
    if !bytes.is_power_of_two() {
        return refuse("they are not a power of two");
    }
    let blocks = bytes / u64::from(sizes.block_bytes);
    if blocks == 0 {
        return refuse("they are less than a block");
    }
    if blocks > group_blocks {
        return refuse("they are more than an allocation group");
    }
    Ok(blocks)
}

fn default_blocks(
    options: &Options,
    facts: &DeviceFacts,
    sizes: &Sizes,
    stripe: Stripe,
    data_blocks: u64,
) -> u64 {
    if let Some(bytes) = options.grow_to_bytes {
        return plain_blocks(sizes, stripe, bytes / u64::from(sizes.block_bytes));
    }
    let plain = plain_blocks(sizes, stripe, data_blocks);
    match concurrency(options, Setting::DataConcurrency, is_fast_device(facts), facts) {
        0 => plain,
        threads => concurrent_blocks(sizes, data_blocks, plain, threads),
    }
}

/// How many threads an option is about; 0 for "do not think of them".
pub fn concurrency(options: &Options, setting: Setting, is_fast: bool, facts: &DeviceFacts) -> u64 {
    let processors = u64::from(facts.processors);
    if !options.has(setting) {
        return if is_fast { processors } else { 0 };
    }
    match options.number(setting) {
        // Bare, 1 and nr_cpus all mean "as many as there are".
        None | Some(1) => processors,
        Some(threads) => threads,
    }
}

/// The group size of mkfs.xfs for a single disk, or for several with a stripe.
fn plain_blocks(sizes: &Sizes, stripe: Stripe, data_blocks: u64) -> u64 {
    let bytes = data_blocks << sizes.block_log();
    let max = sizes.group_limits().1;
    let is_many_disks = stripe.unit_blocks != 0;
    let shift = if is_many_disks || bytes < 128 * MIB {
        if bytes >= 32 * TIB {
            return max;
        }
        // 32 groups for several disks, fewer for smaller sizes.
        let smaller_than = [(512 * GIB + 1), (8 * GIB + 1), 128 * MIB, 64 * MIB, 32 * MIB];
        5 - smaller_than.iter().filter(|limit| bytes < **limit).count() as u32
    } else if bytes >= 4 * TIB {
        return max;
    } else {
        2
    };
    data_blocks.div_ceil(1 << shift)
}

/// Makes a multiple of `threads` groups, where that makes more of them than `plain` and none too small.
fn concurrent_blocks(sizes: &Sizes, data_blocks: u64, plain: u64, threads: u64) -> u64 {
    let plain_count = data_blocks.div_ceil(plain);
    if threads < plain_count {
        return plain;
    }
    let min = MIN_CONCURRENT_GROUP_BYTES >> sizes.block_log();
    if data_blocks / threads < min {
        // The largest number of groups that are not too small.
        let count = data_blocks / min;
        return if count <= plain_count { plain } else { data_blocks / count };
    }
    let max = sizes.group_limits().1;
    let mut count = threads;
    while data_blocks / count > max && data_blocks / count > plain {
        count += threads;
    }
    data_blocks / count
}

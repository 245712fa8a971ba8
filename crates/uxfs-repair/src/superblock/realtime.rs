//! Counts of the realtime section in a superblock. Each follows from the blocks and the size of an extent, and Linux mounts no file system,
//! with or without a realtime section, where one does not.

use uxfs_format::{features::Incompatible, superblock::Superblock};

/// The smallest extent and the largest one.
const EXTENT_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;
/// Header of a bitmap block, where the section is divided into groups.
const BITMAP_HEADER_BYTES: u64 = 48;

/// What follows from the blocks of a section: extents, the logarithm of their number, and blocks of the bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    extents: u64,
    extents_log: u8,
    bitmap_blocks: u64,
}

impl Counts {
    fn found(superblock: &Superblock) -> Self {
        Self {
            extents: superblock.realtime_extents.get(),
            extents_log: superblock.realtime_extents_log,
            bitmap_blocks: superblock.realtime_bitmap_blocks.get().into(),
        }
    }

    /// As they must be, where the size of an extent is sound.
    fn expected(superblock: &Superblock) -> Self {
        let size = superblock.realtime_extent_size_blocks.get();
        let extents = superblock.realtime_blocks.get().checked_div(size.into()).unwrap_or(0);
        let extents_log = extents.checked_ilog2().and_then(|log| u8::try_from(log).ok()).unwrap_or(0);
        Self { extents, extents_log, bitmap_blocks: bitmap_blocks(superblock, extents) }
    }
}

fn bitmap_blocks(superblock: &Superblock, extents: u64) -> u64 {
    let features = superblock.feature_words().incompatible;
    let block_bytes = u64::from(superblock.block_size_bytes.get());
    if features.contains(Incompatible::ZONED) || extents == 0 {
        0
    } else if features.contains(Incompatible::METADATA_DIRECTORY) {
        let bits = block_bytes.saturating_sub(BITMAP_HEADER_BYTES).saturating_mul(8);
        u64::from(superblock.realtime_group_extents.get()).div_ceil(bits.max(1))
    } else {
        extents.div_ceil(block_bytes.saturating_mul(8).max(1))
    }
}

fn is_extent_size_sound(superblock: &Superblock, size_blocks: u64) -> bool {
    EXTENT_BYTES.contains(&size_blocks.saturating_mul(superblock.block_size_bytes.get().into()))
}

/// The first counts that are wrong.
pub(super) fn unfit(superblock: &Superblock) -> Option<&'static str> {
    if !is_extent_size_sound(superblock, superblock.realtime_extent_size_blocks.get().into()) {
        return Some("the size of a realtime extent");
    }
    let is_absent = superblock.realtime_blocks.get() == 0;
    if is_absent && (Counts::found(superblock) != Counts::default() || has_other_leftovers(superblock)) {
        return Some("realtime counts without a realtime section");
    }
    let expected = Counts::expected(superblock);
    let is_sound = is_absent || expected.extents != 0 && Counts::found(superblock) == expected;
    (!is_sound).then_some("realtime counts that do not fit each other")
}

fn has_other_leftovers(superblock: &Superblock) -> bool {
    let has_groups = superblock
        .feature_words()
        .incompatible
        .intersects(Incompatible::METADATA_DIRECTORY | Incompatible::ZONED);
    superblock.free_realtime_extents.get() != 0 || superblock.realtime_group_count.get() != 0 && has_groups
}

/// Gives them values that fit each other. Blocks of which no count knows are no section.
pub(super) fn make_fit(superblock: &mut Superblock) {
    if unfit(superblock).is_none() {
        return;
    }
    if !is_extent_size_sound(superblock, superblock.realtime_extent_size_blocks.get().into()) {
        superblock.realtime_extent_size_blocks.set(extent_size(superblock));
    }
    let expected = Counts::expected(superblock);
    if Counts::found(superblock) == Counts::default() || expected.extents == 0 {
        superblock.realtime_blocks.set(0);
        superblock.realtime_extents.set(0);
        superblock.realtime_extents_log = 0;
        superblock.realtime_bitmap_blocks.set(0);
        superblock.free_realtime_extents.set(0);
        superblock.realtime_group_count.set(0);
        return;
    }
    superblock.realtime_extents.set(expected.extents);
    superblock.realtime_extents_log = expected.extents_log;
    superblock.realtime_bitmap_blocks.set(u32::try_from(expected.bitmap_blocks).unwrap_or(u32::MAX));
}

/// That of which the section has as many as the superblock counts; without a section the one that mkfs.xfs chooses.
fn extent_size(superblock: &Superblock) -> u32 {
    let default =
        EXTENT_BYTES.start().checked_div(superblock.block_size_bytes.get().into()).unwrap_or(0).max(1);
    let counted = superblock.realtime_blocks.get().checked_div(superblock.realtime_extents.get());
    let size = counted.filter(|size| is_extent_size_sound(superblock, *size)).unwrap_or(default);
    u32::try_from(size).unwrap_or(1)
}

#[cfg(test)]
#[path = "realtime_tests.rs"]
mod tests;

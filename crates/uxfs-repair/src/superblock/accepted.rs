//! What Linux accepts of a first superblock beyond what the verifier and [`fields`] know: no word may be taken against
//! the one in use that makes the file system one that Linux does not mount.

use uxfs_format::{features::RoCompatible, geometry::Geometry, superblock::Superblock};
use uxfs_mkfs::log_size;

use super::fields;

/// The largest log in blocks, whatever their size.
#[doc(alias = "XFS_MAX_LOG_BLOCKS")]
const MOST_LOG_BLOCKS: u32 = 1 << 20;
/// The largest log in bytes.
#[doc(alias = "XFS_MAX_LOG_BYTES")]
const MOST_LOG_BYTES: u64 = (2 << 30) - (10 << 20);

/// Whether Linux mounts with what a superblock says, and writes.
pub(super) fn is_accepted(superblock: &Superblock) -> bool {
    has_known_features(superblock)
        && fields::unfit_alone(superblock).is_none()
        && is_log_size_sound(superblock)
}

/// Other words of features make a superblock one that is not read at all.
pub(super) fn has_known_features(superblock: &Superblock) -> bool {
    RoCompatible::KNOWN.contains(superblock.feature_words().ro_compatible)
}

/// Whether Linux takes the size of the log. Where it does not take that of `in_use` either, this tells nothing.
pub(super) fn is_log_accepted(superblock: &Superblock, in_use: &Superblock) -> bool {
    is_log_size_sound(superblock) || !is_log_size_sound(in_use)
}

fn is_log_size_sound(superblock: &Superblock) -> bool {
    let geometry = Geometry::new(superblock);
    // 1 stands for none.
    let stripe_unit_bytes =
        Some(superblock.log_stripe_unit_bytes.get()).filter(|bytes| *bytes > 1).unwrap_or(0);
    let blocks = superblock.log_blocks.get();
    let bytes = u64::from(blocks).saturating_mul(geometry.block_size_bytes.into());
    let is_large_enough = u64::from(blocks) >= log_size::least_mountable_blocks(&geometry, stripe_unit_bytes);
    is_large_enough && blocks <= MOST_LOG_BLOCKS && bytes <= MOST_LOG_BYTES
}

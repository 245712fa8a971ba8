//! Sectors of the log in a superblock. Without the bit for large sectors both fields are 0, and with it they are a size that is no larger
//! than that of other sectors; Linux does not mount anything else.

use uxfs_format::{features::VersionBits, superblock::Superblock};

const SMALLEST_SECTOR_BYTES: u16 = 512;

fn has_bit(superblock: &Superblock) -> bool {
    superblock.feature_words().version_bits.contains(VersionBits::SECTOR)
}

/// The verifier has compared the size with its logarithm.
pub(super) fn are_sound(superblock: &Superblock) -> bool {
    let size_bytes = superblock.log_sector_size_bytes.get();
    match has_bit(superblock) {
        true => size_bytes != 0 && size_bytes <= superblock.sector_size_bytes.get(),
        false => size_bytes == 0,
    }
}

/// Gives them the values that follow from the size of other sectors.
pub(super) fn make_sound(superblock: &mut Superblock) {
    if are_sound(superblock) {
        return;
    }
    let bit = VersionBits::SECTOR.bits();
    let (size_bytes, log) = (superblock.sector_size_bytes.get(), superblock.sector_log);
    if size_bytes == SMALLEST_SECTOR_BYTES {
        superblock.version_number.set(superblock.version_number.get() & !bit);
        superblock.log_sector_size_bytes.set(0);
        superblock.log_sector_log = 0;
        return;
    }
    superblock.version_number.set(superblock.version_number.get() | bit);
    let found = superblock.log_sector_size_bytes.get();
    if found == 0 || found > size_bytes {
        superblock.log_sector_size_bytes.set(size_bytes);
        superblock.log_sector_log = log;
    }
}

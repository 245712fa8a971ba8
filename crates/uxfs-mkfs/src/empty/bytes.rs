//! Structures into bytes.

use uxfs_block::self_check;
use uxfs_format::{checksum, field_table::OnDisk, superblock::Superblock};

/// Puts a structure at `offset_bytes`, and says where it ends.
pub fn put<T: OnDisk>(bytes: &mut [u8], offset_bytes: usize, structure: &T) -> usize {
    let end = offset_bytes + T::SIZE_BYTES;
    bytes[offset_bytes..end].copy_from_slice(structure.disk_bytes());
    end
}

/// Computes and stores the checksum.
pub fn seal(bytes: &mut [u8], checksum_offset_bytes: u32) {
    let is_inside = checksum::seal(bytes, checksum_offset_bytes);
    self_check!(is_inside, "checksum fields lie within their structure");
}

/// A superblock's sector.
pub fn sealed_sector(superblock: &Superblock, sector_bytes: usize) -> Vec<u8> {
    let mut sector = vec![0; sector_bytes];
    put(&mut sector, 0, superblock);
    seal(&mut sector, uxfs_format::superblock::CHECKSUM_OFFSET_BYTES);
    sector
}

//! The first bytes of any file: superblock, feature bits, geometry.

use uxfs_format::{
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::{CHECKSUM_OFFSET_BYTES, Copy, Superblock, sector_of},
    units::{FsBlock, InodeNumber, Sector},
};

/// First inputs with huge numbers of groups, as a small sparse image may claim them: a sound superblock with as many groups as
/// 2^20, 2^24 and 2^28, and with more than fit 32 bits of blocks or 64 bits of bytes.
pub fn seeds(sound: &[u8]) -> Vec<Vec<u8>> {
    let counts = [1 << 20, 1 << 24, 1 << 28, u32::MAX];
    counts.into_iter().filter_map(|count| with_groups(sound, count)).collect()
}

/// A superblock that claims so many groups, with a right checksum.
pub fn with_groups(sound: &[u8], count: u32) -> Option<Vec<u8>> {
    let mut bytes = sound.to_vec();
    let superblock = Superblock::prefix_of_mut(&mut bytes)?;
    superblock.ag_count.set(count);
    superblock.data_blocks.set(u64::from(count).saturating_mul(superblock.ag_blocks.get().into()));
    let length = sector_of(&bytes).map_or(0, <[u8]>::len);
    checksum::seal(bytes.get_mut(..length)?, CHECKSUM_OFFSET_BYTES);
    Some(bytes)
}

/// Runs one input.
pub fn superblock(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    // A right checksum takes the fuzzer behind the first check; half of the inputs keep their own.
    if bytes.first().is_some_and(|byte| byte & 1 == 0) {
        let magic = bytes.len().min(4);
        bytes[..magic].copy_from_slice(&b"XFSB"[..magic]);
        let length = sector_of(&bytes).map_or(0, <[u8]>::len);
        checksum::seal(&mut bytes[..length], CHECKSUM_OFFSET_BYTES);
    }
    let Ok((superblock, sector)) = Superblock::parse(&bytes) else { return };
    for copy in [Copy::Primary, Copy::Secondary] {
        if superblock.verify(sector, copy).is_err() {
            continue;
        }
        let geometry = Geometry::new(superblock);
        let number = superblock.lsn.get();
        let _ = geometry.split_fs_block(FsBlock::new(number));
        let _ = geometry.inode_place(InodeNumber::new(number));
        let _ = geometry.block_of_sector(Sector::new(number));
        let _ = geometry.contains_extent(FsBlock::new(number), number);
        for group in geometry.groups().rev().take(3) {
            assert!(geometry.group_length_blocks(group).is_some());
            let _ = geometry.sector_of_group_header(group, 3);
        }
    }
}

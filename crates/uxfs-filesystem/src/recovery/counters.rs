//! The superblock's counters. No transaction logs them: after a crash they are what the groups' headers add up to.

use uxfs_format::{field_table::OnDisk, seal::seal, superblock::Superblock};

use uxfs_engine::engine::forget_quota_counts;
use uxfs_volume::{error::Result, volume::Volume};

/// The sums of the allocation groups' counters.
#[doc(alias = "xfs_initialize_perag_data")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Inodes that exist, in use or free.
    pub inodes: u64,
    /// Inodes that are free.
    pub free_inodes: u64,
    /// Free blocks, those that are kept for the groups' trees among them.
    pub free_blocks: u64,
}

/// Adds up the headers of all groups.
///
/// # Errors
/// Damage of a header; the device.
pub fn of_groups(volume: &Volume) -> Result<Counters> {
    let mut sum = Counters::default();
    for group in volume.groups().with_headers() {
        let space = volume.group(group).free_space_header()?;
        let inodes = volume.group(group).inode_header()?;
        let blocks = [space.free_blocks.get(), space.free_list_count.get(), space.btree_blocks.get()];
        sum.free_blocks =
            blocks.into_iter().fold(sum.free_blocks, |sum, blocks| sum.saturating_add(blocks.into()));
        sum.inodes = sum.inodes.saturating_add(inodes.count.get().into());
        sum.free_inodes = sum.free_inodes.saturating_add(inodes.free_count.get().into());
    }
    Ok(sum)
}

/// Writes the sums into the primary superblock.
pub fn correct(volume: &Volume) -> Result<()> {
    let counters = of_groups(volume)?;
    let geometry = volume.geometry();
    let mut sector = vec![0; geometry.sector_size_bytes as usize];
    volume.device().read(0, &mut sector)?;
    if let Some(superblock) = Superblock::prefix_of_mut(&mut sector) {
        superblock.inode_count.set(counters.inodes);
        superblock.free_inodes.set(counters.free_inodes);
        superblock.free_data_blocks.set(counters.free_blocks);
        // Recovery does not charge quotas.
        forget_quota_counts(superblock);
    }
    seal(&mut sector, None, geometry);
    Ok(volume.device().write(0, &sector)?)
}

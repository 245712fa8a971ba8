//! The superblock that rules, and its copies.
//!
//! The copies differ: mkfs.xfs writes them before there are inodes, and updates only two of them
//! with the root directory later. Only a repair reads them, when the first superblock is lost.

use uxfs_format::{features::VersionBits, superblock::Superblock};
use zerocopy::big_endian::{U16, U64};

use super::{Image, inodes};

/// The one in group 0, with `in_progress` set.
pub fn primary(image: &Image<'_>) -> Superblock {
    let mut superblock = image.layout.superblock(image.identity.uuid);
    let count = image.layout.sizes.inodes_at_once();
    superblock.inode_count = U64::new(count.into());
    superblock.free_inodes = U64::new((count - inodes::USED).into());
    let free: u64 = (0..image.group_count())
        .map(|group| {
            let space = image.layout.space(group);
            u64::from(space.free_blocks()) + space.free_list.len() as u64
        })
        .sum();
    superblock.free_data_blocks = U64::new(free);
    superblock
}

/// The one in another group.
pub fn copy(image: &Image<'_>, group: u32) -> Superblock {
    let (layout, count) = (image.layout, image.group_count());
    let mut superblock = layout.superblock(image.identity.uuid);
    let null = U64::new(u64::MAX);
    superblock.realtime_bitmap_inode = null;
    superblock.realtime_summary_inode = null;
    if group != (count - 1) / 2 && group != count - 1 {
        superblock.root_inode = null;
    }
    if !layout.features.parent_pointers {
        // The root directory's attribute comes later.
        let bits = superblock.version_number.get() & !VersionBits::ATTRIBUTES.bits();
        superblock.version_number = U16::new(bits);
    }
    let taken = u64::from(layout.tables.first_free_block) * u64::from(count) + u64::from(layout.log.blocks);
    superblock.free_data_blocks = U64::new(layout.groups.data_blocks - taken);
    superblock
}

//! Whether a superblock's geometry is that of the structures on the device: a look at some groups.

use std::collections::BTreeSet;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    superblock::Superblock,
    units::{AgBlock, AgNumber, InodeNumber, Sector},
    verify::{VerifyContext, verify},
};

/// Groups that are looked at.
const MOST_GROUPS: u32 = 16;

/// Whether nothing that was looked at lies where the superblock says: neither the headers of any group with a root, nor an inode.
pub(super) fn is_contradicted(device: &dyn BlockDevice, superblock: &Superblock) -> bool {
    let look = Look { device, geometry: &Geometry::new(superblock) };
    let count = superblock.ag_count.get();
    let last = count.saturating_sub(1);
    let step = usize::try_from(count / MOST_GROUPS).unwrap_or(1).max(1);
    let groups: BTreeSet<u32> = (0..count).step_by(step).chain([last]).collect();
    let agrees = |group: &u32| look.agrees(AgNumber::new(*group));
    // Group 0 begins where the device does, however long groups are.
    let is_told_by_others = count == 1 || groups.iter().filter(|group| **group > 0).any(agrees);
    !is_told_by_others || !look.has_inode(InodeNumber::new(superblock.root_inode.get()))
}

struct Look<'l> {
    device: &'l dyn BlockDevice,
    geometry: &'l Geometry,
}

impl Look<'_> {
    fn read(&self, sector: Sector, length: u32, structure: Structure) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.device.read(Geometry::byte_of_sector(sector), &mut bytes).ok()?;
        let context = VerifyContext::new(self.geometry, sector);
        verify(structure, &bytes, &context).is_ok().then_some(bytes)
    }

    /// Whether a group has a sound header at its place, with a sound root.
    fn agrees(&self, group: AgNumber) -> bool {
        let geometry = self.geometry;
        let read = |index: u32, structure: Structure| {
            let sector = geometry.sector_of_group_header(group, index)?;
            self.read(sector, geometry.sector_size_bytes, structure)
        };
        let free_space = read(1, Structure::FreeSpaceHeader);
        let free_space = free_space.as_deref().and_then(FreeSpaceHeader::prefix_of);
        let inodes = read(2, Structure::InodeHeader);
        let inodes = inodes.as_deref().and_then(InodeHeader::prefix_of);
        let roots = [
            free_space.map(|header| (header.by_block_root.get(), Structure::FreeSpaceByBlock)),
            inodes.map(|header| (header.root.get(), Structure::InodeIndex)),
        ];
        roots.into_iter().flatten().any(|(root, structure)| {
            let sector = geometry.sector_of_group_block(group, AgBlock::new(root));
            sector.and_then(|sector| self.read(sector, geometry.block_size_bytes, structure)).is_some()
        })
    }

    /// Whether inodes have the size and the numbers that they should have, as far as the chunk of the root directory tells.
    fn has_inode(&self, root: InodeNumber) -> bool {
        let geometry = self.geometry;
        let in_chunk = (0..64).map(|index| InodeNumber::new(root.get().saturating_add(index)));
        let mut places = in_chunk.filter_map(|number| geometry.inode_place(number));
        places.any(|place| {
            let sector = geometry.sector_of_group_block(place.group, place.block);
            let sector = sector.map(|sector| Sector::new(sector.get() + u64::from(place.offset_bytes / 512)));
            sector.and_then(|sector| self.read(sector, geometry.inode_size_bytes, Structure::Inode)).is_some()
        })
    }
}

//! Damaged attribute forks and links that are changed: an answer for any bytes, and an end.

use std::sync::Arc;

use proptest::prelude::*;
use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    options::MountOptions,
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{geometry::Geometry, inode::FileType, units::InodeNumber};
use uxfs_volume::{
    attribute::Namespace,
    error::Result,
    inode::{Fork, Inode},
    parent_pointer::ParentPointer,
};

use crate::common::{PatchedDevice, names};

/// One of each form, and a link with a target of its own.
const FILES: [&str; 7] = [
    "/attributes/leaf",
    "/attributes/remote",
    "/attributes/node",
    "/attributes/collide",
    "/attributes/removed",
    // Has very many parent pointers.
    "/base",
    "/links/long",
];
const BLOCK: usize = 1024;
/// Of all blocks here.
const CHECKSUM: u32 = 12;

/// Where the blocks of a file's forks lie in the image.
fn blocks_of(file_system: &uxfs_volume::volume::Volume, inode: &Inode) -> Vec<usize> {
    let mut blocks = Vec::new();
    for fork in [Fork::Attribute, Fork::Data] {
        let is_link = inode.size_bytes() < 1024;
        if fork == Fork::Data && !is_link {
            continue;
        }
        let Ok(map) = file_system.extent_map(inode, fork) else { continue };
        for extent in map.iter() {
            for block in 0..extent.length_blocks {
                let start = extent.start.checked_add(block).unwrap();
                let sector = file_system.geometry().sector_of_block(start).unwrap();
                blocks.push(Geometry::byte_of_sector(sector) as usize);
            }
        }
    }
    blocks
}

/// Sets and removes attributes of all kinds. What comes of it does not matter.
fn change(file_system: &FileSystem, number: InodeNumber) -> Result<()> {
    let mut transaction = Transaction::begin(file_system)?;
    let mut inode = transaction.load_inode(number)?;
    for index in 0..40_u32 {
        let name = match index % 4 {
            0 => format!("an_attribute_{index}"),
            1 => format!("attribute_{index}"),
            2 => ["small", "largest", "exactly_two", "one_block"][index as usize / 4 % 4].to_owned(),
            _ => format!("new{index}"),
        };
        let name = AttributeName { namespace: Namespace::User, name: name.as_bytes() };
        let length = [3, 90, 700, 5000][index as usize / 5 % 4];
        let result = match index % 3 {
            0 => transaction.attributes().remove_attribute(&mut inode, name),
            _ => transaction.attributes().set_attribute(&mut inode, name, &vec![7; length], SetMode::Upsert),
        };
        if let Err(uxfs_volume::error::Error::Corrupt(_)) = result {
            break;
        }
    }
    let pointer = ParentPointer { parent: InodeNumber::new(128), generation: 1, name: b"name" };
    transaction.parent_pointers().add_parent_pointer(&mut inode, pointer)?;
    if inode.file_type() == Some(FileType::SymbolicLink) {
        transaction.symlinks().remove_symlink_target(&mut inode)?;
        transaction.symlinks().set_symlink_target(&mut inode, &[b'x'; 500])?;
    }
    transaction.store_inode(&mut inode)?;
    transaction.attributes().remove_all_attributes(&mut inode)?;
    transaction.commit()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_ends_in_an_answer(
        file in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..BLOCK, any::<u8>()), 1..5),
        near_the_start in any::<bool>(),
    ) {
        let healthy = PatchedDevice::new(names()).mount();
        let inode = healthy.resolve(FILES[file].as_bytes(), false).unwrap();
        let blocks = blocks_of(&healthy, &inode);
        let device = PatchedDevice::new(names());
        for (which, offset, value) in &damage {
            let Some(block) = blocks.get(which.index(blocks.len().max(1))) else { continue };
            // Headers and entries lie at the start.
            let offset = if near_the_start { offset % 200 } else { *offset };
            device.patch(*block, BLOCK, CHECKSUM, |bytes| bytes[offset] = *value);
        }
        let options = MountOptions { cache_budget_bytes: Some(16 << 20), ..MountOptions::default() };
        let file_system = FileSystem::mount_bulk(Arc::new(device), &options).unwrap();
        // Errors are as good as success: nothing may panic, and everything ends.
        let _ = change(&file_system, inode.number);
    }
}

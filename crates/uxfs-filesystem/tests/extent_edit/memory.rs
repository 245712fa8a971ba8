//! The memory of extents counts against the cache's budget, and idle inodes free theirs.

use std::sync::Arc;

use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
use uxfs_engine::{
    extent_map::map::Mapping,
    options::{LogOptions, MountOptions},
    transaction::Transaction,
};
use uxfs_filesystem::{file::Touch, filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_format::inode::Fork;
use uxfs_testkit::{
    image::{TestImage, file, mount_options},
    judges::Judge,
    require,
};

use super::block;

const BUDGET: u64 = 4 << 20;
const FILES: usize = 9;
/// Of each file but the first.
const FEW: u64 = 40_000;
/// Of the first: as many as take more than the budget leaves them.
const MANY: u64 = 220_000;
const BLOCK_BYTES: u64 = 4096;

fn image() -> TestImage {
    let image = TestImage::new("memory of extents", 3000, &[], FILES);
    let file_system = image.mount_bulk();
    for index in 0..FILES {
        let mut tx = Transaction::begin(&file_system).unwrap();
        let mut inode = tx.load_inode(file(&file_system, index)).unwrap();
        let count = if index == 0 { MANY } else { FEW };
        for number in 0..count {
            tx.extent_maps()
                .map_blocks(&mut inode, Fork::Data, block(2 * number), 1, Mapping::default())
                .unwrap();
        }
        inode.set_size_bytes(2 * count * BLOCK_BYTES);
        tx.store_inode(&mut inode).unwrap();
        tx.commit().unwrap();
    }
    file_system.close().unwrap();
    image
}

fn mounted(image: &TestImage) -> Arc<FileSystem> {
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = Arc::new(SyncDevice::open(&image.path, &options).unwrap());
    let options = MountOptions { log: LogOptions::default(), ..mount_options(BUDGET) };
    FileSystem::mount_logged(device, &options).unwrap()
}

fn opened(file_system: &FileSystem, index: usize) -> InodeHandle {
    file_system.open(file(file_system, index)).unwrap()
}

fn resident(file_system: &uxfs_volume::volume::Volume) -> u64 {
    file_system.cache().counters().resident_bytes
}

#[test]
fn extents_count_against_the_budget() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = image();
    let file_system = mounted(&image);
    // Together they take more than the budget; one is open at a time.
    for round in 0..3 {
        for index in 1..FILES {
            let file = opened(&file_system, index);
            assert_eq!(file.read().extents(Fork::Data).len() as u64, FEW - u64::from(round > 0));
            if round == 0 {
                let middle = FEW / 2 * 2 * BLOCK_BYTES;
                file_system.punch_range(&file, middle, BLOCK_BYTES, Touch::NOTHING).unwrap();
            }
            drop(file);
            assert!(resident(&file_system) <= BUDGET, "{:?}", file_system.cache().counters());
        }
    }
    // Idle inodes may take a quarter of the budget.
    let in_memory = file_system.inodes_in_memory();
    assert!((1..3).contains(&in_memory), "{in_memory}");

    // One alone that leaves buffers less than a quarter: they keep that, and no more.
    let large = opened(&file_system, 0);
    let extents = MANY * 16;
    assert!(extents > BUDGET * 3 / 4);
    file_system.write(&large, BLOCK_BYTES, &[7; BLOCK_BYTES as usize], Touch::NOTHING).unwrap();
    for number in 1..2000 {
        let offset = number * 200 * BLOCK_BYTES;
        file_system.punch_range(&large, offset, BLOCK_BYTES, Touch::NOTHING).unwrap();
    }
    file_system.force().unwrap();
    let most = extents + extents / 16 + BUDGET / 4 + BUDGET / 8;
    assert!(resident(&file_system) <= most, "{} of {most}", resident(&file_system));
    assert_eq!(file_system.inodes_in_memory(), 1, "the others have made way");
    assert_eq!(large.read().extents(Fork::Data).len() as u64, MANY + 1 - 1999);
    drop(large);
    // The next one takes its place.
    drop(opened(&file_system, 1));
    assert!(resident(&file_system) <= BUDGET, "{:?}", file_system.cache().counters());
    file_system.close().unwrap();
    drop(file_system);
    image.must_satisfy_repair();
}

/// Readers share a map that is dropped with the inode; what it takes is charged as long.
#[test]
fn maps_of_readers_count_as_well() {
    require!(Judge::Mkfs);
    let image = image();
    let file_system = image.mount();
    let inode = file_system.inode(file(&file_system, 0)).unwrap();
    let before = resident(&file_system);
    let map = file_system.extent_map(&inode, Fork::Data).unwrap();
    assert_eq!((map.len() as u64, map.blocks()), (MANY, MANY));
    let with_map = resident(&file_system);
    assert!(with_map >= before + MANY * 16);
    let other = std::sync::Arc::clone(&inode);
    drop(inode);
    assert_eq!(resident(&file_system), with_map, "another reader has the inode, and with it the map");
    drop(other);
    assert!(resident(&file_system) + MANY * 16 <= with_map);
}

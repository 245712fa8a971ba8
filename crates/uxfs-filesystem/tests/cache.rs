//! Metadata is read through the buffer cache: once, verified once, within its budget, and damage is said where it lies.

use std::sync::Arc;

use uxfs_block::{
    cache::pressure::PressureWatch,
    engine::{counting::CountingDevice, memory::MemoryDevice},
};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_format::{fault::Structure, geometry::Geometry, units::InodeNumber};
use uxfs_volume::error::Error;
use uxfs_volume::volume::Volume;

use crate::common;

type Counted = CountingDevice<MemoryDevice>;

fn mount(budget_bytes: u64) -> (Arc<Counted>, Volume) {
    let device = Arc::new(CountingDevice::new(MemoryDevice::new(common::inode_forms().to_vec())));
    let options = MountOptions { cache_budget_bytes: Some(budget_bytes), ..MountOptions::default() };
    let file_system = mount::open_volume(device.clone(), &options).unwrap();
    (device, file_system)
}

/// Sizes and extents of all inodes that can be read, as text.
fn all_inodes(file_system: &Volume) -> Vec<String> {
    let root = file_system.superblock().root_inode.get();
    (root..root + 64)
        .filter_map(|number| file_system.inode(InodeNumber::new(number)).ok())
        .map(|inode| format!("{} {} {:o}", inode.number, inode.size_bytes(), inode.mode()))
        .collect()
}

#[test]
fn what_was_read_once_is_not_read_again() {
    let (device, file_system) = mount(16 << 20);
    let first = all_inodes(&file_system);
    assert!(first.len() > 20);
    let (reads, counters) = (device.counters().read_requests, file_system.cache().counters());
    assert!(counters.hits > counters.misses, "a cluster holds many inodes: {counters:?}");
    assert!(counters.verified <= counters.misses);
    assert_eq!(all_inodes(&file_system), first);
    assert_eq!(device.counters().read_requests, reads);
    assert_eq!(file_system.cache().counters().verified, counters.verified);
}

#[test]
fn a_tiny_budget_gives_the_same() {
    let (_, plenty) = mount(16 << 20);
    let (device, tiny) = mount(20 << 10);
    assert_eq!(all_inodes(&tiny), all_inodes(&plenty));
    let reads = device.counters().read_requests;
    all_inodes(&tiny);
    assert!(device.counters().read_requests > reads);
    assert!(tiny.cache().counters().resident_bytes <= 20 << 10);
}

#[test]
fn threads_read_the_same() {
    let (device, file_system) = mount(1 << 20);
    let expected = all_inodes(&file_system);
    let (_, fresh) = mount(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(all_inodes(&fresh), expected));
        }
    });
    let (once, shared) = (device.counters().read_requests, fresh.cache().counters());
    assert!(shared.misses <= once, "{shared:?}");
}

#[test]
fn prefetched_metadata_is_verified_when_it_is_read() {
    let (device, file_system) = mount(16 << 20);
    let geometry = file_system.geometry();
    let block_bytes = geometry.block_size_bytes;
    let place = geometry.inode_place(InodeNumber::new(file_system.superblock().root_inode.get())).unwrap();
    let (first, blocks) = geometry.inode_cluster_of(place.group, place.block).unwrap();
    let sector = geometry.sector_of_group_block(place.group, first).unwrap();
    let request = (Structure::InodeCluster, sector, blocks * block_bytes);
    file_system.metadata().prefetch(&[request]);
    assert_eq!(file_system.cache().counters().verified, 0);
    let reads = device.counters().read_requests;
    let buffers = file_system.metadata().read_many(&[request, request]);
    assert!(buffers.iter().all(|buffer| buffer.as_ref().unwrap().sector() == sector));
    assert_eq!((file_system.cache().counters().verified, device.counters().read_requests), (1, reads));
    // The same bytes are no extent map, and that says where.
    let error = file_system.metadata().read(Structure::ExtentMap, sector, blocks * block_bytes).unwrap_err();
    let Error::Corrupt(corruption) = error else { panic!("{error}") };
    assert_eq!((corruption.structure, corruption.location.sector), (Structure::ExtentMap, Some(sector)));
    assert!(file_system.metadata().read(request.0, request.1, request.2).is_ok());
    assert_eq!(Geometry::byte_of_sector(sector) % u64::from(block_bytes), 0);
}

#[test]
fn memory_pressure_can_be_watched() {
    let (_, file_system) = mount(1 << 20);
    let watch = PressureWatch::start(file_system.cache()).unwrap();
    all_inodes(&file_system);
    drop(watch);
}

//! The bulk scan: complete, at any number of threads, and not stopped by damage.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use uxfs_format::{
    fault::{Fault, HeaderFault},
    geometry::Geometry,
    inode::{InodeFault, core::CHECKSUM_OFFSET_BYTES},
    units::{AgNumber, InodeNumber},
};
use uxfs_volume::inode::scan::{ScanEvent, ScanOptions, ScanSummary};
use uxfs_volume::volume::Volume;

use crate::common::{PatchedDevice, inode_forms, mount};

const MANIFEST: &str = include_str!("../testdata/inode_forms/manifest.txt");

/// What bulkstat gives, and the kernel's own two inodes.
fn in_use() -> BTreeSet<u64> {
    let numbers = MANIFEST.lines().filter_map(|line| line.strip_prefix("inode ")?.parse().ok());
    numbers.chain([65, 66]).collect()
}

/// What one thread saw.
#[derive(Default)]
struct Seen {
    sound: Vec<u64>,
    damaged: Vec<(u64, Fault)>,
    unreadable: Vec<(u32, u64)>,
    indexes: Vec<u32>,
}

fn scan(file_system: &Volume, threads: usize) -> (ScanSummary, Seen) {
    let options = ScanOptions { threads: NonZeroUsize::new(threads).unwrap(), helpers: 0 };
    let (summary, states) = file_system.scan_inodes(&options, Seen::default, |seen, event| {
        match event {
            ScanEvent::Inode(inode) => match inode.core {
                Ok(core) => {
                    assert_eq!(core.inode_number(), inode.number);
                    assert_eq!(inode.bytes.len(), 512);
                    seen.sound.push(inode.number.get());
                }
                Err(fault) => seen.damaged.push((inode.number.get(), fault)),
            },
            ScanEvent::UnreadableChunks { group, inode_count, .. } => {
                seen.unreadable.push((group.get(), inode_count));
            }
            ScanEvent::UnreadableIndex { group, .. } => seen.indexes.push(group.get()),
        }
        ControlFlow::Continue(())
    });
    let all = states.into_iter().fold(Seen::default(), |mut all, seen| {
        all.sound.extend(seen.sound);
        all.damaged.extend(seen.damaged);
        all.unreadable.extend(seen.unreadable);
        all.indexes.extend(seen.indexes);
        all
    });
    (summary, all)
}

fn inode_offset(geometry: &Geometry, number: u64) -> usize {
    let place = geometry.inode_place(InodeNumber::new(number)).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    Geometry::byte_of_sector(sector) as usize + place.offset_bytes as usize
}

fn device() -> PatchedDevice {
    PatchedDevice::new(inode_forms())
}

#[test]
fn every_inode_is_seen_once_by_any_number_of_threads() {
    let file_system = device().mount();
    for threads in [1, 2, 7] {
        let (summary, seen) = scan(&file_system, threads);
        let numbers: BTreeSet<u64> = seen.sound.iter().copied().collect();
        assert_eq!(numbers, in_use());
        assert_eq!(numbers.len(), seen.sound.len());
        assert_eq!(summary.inodes as usize, numbers.len());
        assert!(summary.is_clean());
    }
}

#[test]
fn damaged_inodes_do_not_stop_a_scan() {
    let device = device();
    let geometry = device_geometry();
    // A wrong format, a broken checksum, a freed inode that the index does not know of.
    device.patch(inode_offset(&geometry, 67), 512, CHECKSUM_OFFSET_BYTES, |inode| inode[5] = 9);
    device.patch(inode_offset(&geometry, 69), 512, 0, |inode| inode[0] = 0);
    device.patch(inode_offset(&geometry, 70), 512, CHECKSUM_OFFSET_BYTES, |inode| {
        inode[2..4].fill(0);
        inode[24..32].fill(0);
        inode[64..72].fill(0);
    });
    let (summary, seen) = scan(&device.mount(), 2);
    assert_eq!(seen.sound.len() + 3, in_use().len());
    assert_eq!((summary.damaged_inodes, summary.unread_inodes), (3, 0));
    let mut damaged = seen.damaged;
    damaged.sort_by_key(|(number, _)| *number);
    let fault = InodeFault::UnknownFormat { fork: uxfs_format::inode::Fork::Data, format: 9 };
    assert_eq!(damaged[0], (67, fault.into()));
    assert!(matches!(damaged[1], (69, Fault::Header(HeaderFault::BadMagic { .. }))));
    assert_eq!(damaged[2], (70, InodeFault::FreeThoughIndexed.into()));
}

fn device_geometry() -> Geometry {
    device().mount().geometry().clone()
}

#[test]
fn unreadable_chunks_are_reported_and_the_others_read() {
    let geometry = device_geometry();
    let device = device();
    device.fail_at(inode_offset(&geometry, 64));
    let (summary, seen) = scan(&mount(Arc::new(device)), 2);
    let lost = in_use().iter().filter(|number| (64..128).contains(*number)).count() as u64;
    assert_eq!(seen.unreadable, [(0, lost)]);
    assert_eq!(summary.unread_inodes, lost);
    assert_eq!(seen.sound.len() as u64 + lost, in_use().len() as u64);
}

#[test]
fn a_damaged_index_is_reported_and_other_groups_read() {
    let geometry = device_geometry();
    let device = device();
    let header = geometry.sector_of_group_header(AgNumber::new(0), 2).unwrap();
    device.patch(Geometry::byte_of_sector(header) as usize, 512, 0, |agi| agi[0] = 0);
    let (summary, seen) = scan(&device.mount(), 2);
    assert_eq!(seen.indexes, [0]);
    assert_eq!(summary.damaged_indexes, 1);
    let first_of_next = geometry.inode_number(AgNumber::new(1), uxfs_format::units::AgInode::new(0)).get();
    let expected = in_use().iter().filter(|number| **number >= first_of_next).count();
    assert_eq!(seen.sound.len(), expected);
}

#[test]
fn a_visitor_ends_the_scan_by_breaking_or_panicking() {
    let file_system = device().mount();
    let options = ScanOptions { threads: NonZeroUsize::new(2).unwrap(), helpers: 0 };
    let (summary, _) = file_system.scan_inodes(&options, || (), |(), _| ControlFlow::Break(()));
    assert!(summary.inodes <= 2);
    let panicking = AssertUnwindSafe(|| {
        file_system.scan_inodes(&options, || (), |(), _| panic!("a visitor's own trouble"))
    });
    assert!(catch_unwind(panicking).is_err());
}

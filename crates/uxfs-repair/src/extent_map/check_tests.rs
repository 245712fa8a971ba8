#![allow(clippy::unwrap_used)]

use std::sync::{Arc, atomic::AtomicBool};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_testkit::golden::GoldenImage;

use super::*;
use crate::{
    check::all,
    memory::Memory,
    opening::{OpeningOptions, open},
};

/// Readers refuse a map whose extents overlap; the check does not rely on that.
#[test]
fn an_extent_that_overlaps_the_one_before_is_found() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
    let opened = open(&device, &OpeningOptions::default()).unwrap();
    let volume = &opened.volume;
    let inode = volume.inode(volume.geometry().root_inode).unwrap();
    let mut findings = Vec::new();
    overlap(volume, &inode, &mut all(&mut findings));
    let numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
    assert_eq!(numbers, [42]);
}

fn overlap(volume: &Volume, inode: &Inode, take: &mut crate::sink::TakeFinding<'_>) {
    let context = Context {
        volume,
        keys: Keys::default(),
        sink: Sink::new(take),
        scan: ScanOptions::in_order(),
        memory: Memory::default(),
        uses: None,
        has_shared_extents: AtomicBool::default(),
        progress: None,
        see: None,
    };
    let mut sums = SumsByGroup::default();
    let mut extents = Extents {
        context: &context,
        inode,
        fork: Fork::Data,
        sums: &mut sums,
        realtime_blocks: &mut 0,
        end: FileBlock::new(0),
        count: 0,
        blocks: 0,
        is_sound: true,
    };
    let extent = |file_block, start| Extent {
        file_block: FileBlock::new(file_block),
        start: FsBlock::new(start),
        length_blocks: 4,
        is_unwritten: false,
    };
    extents.add(&extent(0, 100));
    extents.add(&extent(4, 200));
    extents.add(&extent(7, 300));
}

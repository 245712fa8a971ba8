#![allow(clippy::unwrap_used)]

use std::sync::{Arc, atomic::AtomicBool};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_testkit::golden::GoldenImage;
use uxfs_volume::inode::scan::ScanOptions;

use super::*;
use crate::{
    check::all,
    memory::Memory,
    opening::{OpeningOptions, open},
    sink::Sink,
    sum::Keys,
};

#[test]
fn groups_whose_extents_cannot_be_kept_are_only_named() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
    let opened = open(&device, &OpeningOptions::default()).unwrap();
    let mut findings = Vec::new();
    {
        let mut take = all(&mut findings);
        let context = Context {
            volume: &opened.volume,
            keys: Keys::default(),
            sink: Sink::new(&mut take),
            scan: ScanOptions::in_order(),
            memory: Memory::default(),
            uses: None,
            has_shared_extents: AtomicBool::default(),
            progress: None,
            see: None,
        };
        report_uncompared(&context, &[0, 2], SpillError::damaged());
    }
    let numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
    assert_eq!(numbers, [35, 35, 80]);
}

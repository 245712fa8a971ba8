#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, judges::Judge, require, xfs_db::XfsDb};
use uxfs_volume::inode::scan::ScanOptions;

use super::*;
use crate::{
    check::all,
    opening::{OpeningOptions, open},
    sink::Sink,
    sum::Keys,
};

#[test]
fn a_group_with_more_extents_than_are_kept_is_only_named() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::named("default").unwrap().unpack_to(&image).unwrap();
    XfsDb::new(&image).write(&["agf 0", "addr bnoroot", "write -d recs[5].blockcount 6"]).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
    let opened = open(&device, &OpeningOptions::default()).unwrap();
    for (most_extents, expected) in [(10, [35].as_slice()), (MOST_EXTENTS, &[32])] {
        let mut findings = Vec::new();
        {
            let mut take = all(&mut findings);
            let context = Context {
                volume: &opened.volume,
                keys: Keys::default(),
                sink: Sink::new(&mut take),
                scan: ScanOptions::in_order(),
                uses: None,
                progress: None,
            };
            let (mut table, mut groups) = (InodeTable::default(), Groups::default());
            for group in opened.volume.geometry().groups() {
                groups.push(allocation_group::check::check(&context, group, &mut table));
            }
            inode::check::check(&context, &table, &mut groups);
            Comparison { context: &context, groups: &groups, are_files_complete: true, most_extents }
                .compare(&[0]);
        }
        // What the walk over the groups says about counters and lengths is not asked here.
        let numbers: Vec<u16> = findings.iter().map(Finding::number).filter(|number| *number > 30).collect();
        assert_eq!(numbers, expected);
    }
}

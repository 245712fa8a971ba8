//! Where a part of the log cannot be read that may have newer changes, nothing is called whole; a bad sector elsewhere in it is no matter.

use std::path::Path;

use uxfs_block::{engine::sync::SyncDevice, ranges::RangeSet};
use uxfs_journal::{LogState, examine};
use uxfs_rescue::log;
use uxfs_testkit::golden::GoldenImage;
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common::{DamagedDevice, Truth, rescue_all};

/// The log of an image: where it lies, and in what state it is.
struct Log {
    start: u64,
    blocks: u64,
    state: LogState,
}

impl Log {
    fn of(image: &Path) -> Self {
        let device = std::sync::Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
        let shared = std::sync::Arc::clone(&device);
        let volume = Volume::open(shared, &VolumeOptions::default()).unwrap();
        let place = log::place(volume.geometry()).unwrap();
        let state = examine(device.as_ref(), volume.geometry()).unwrap();
        Self { start: place.start, blocks: (place.end - place.start) / 512, state }
    }

    /// One block, counted from the beginning of the log and round its end.
    fn block(&self, number: u64) -> RangeSet {
        let start = self.start + number % self.blocks * 512;
        let mut range = RangeSet::default();
        range.insert(start..start + 512);
        range
    }
}

#[test]
fn a_hidden_part_of_a_dirty_log_leaves_nothing_whole() {
    let truth = Truth::of(&GoldenImage::dirty_log());
    let log = Log::of(&truth.image);
    let LogState::Dirty(dirty) = log.state else { panic!("{:?}", log.state) };
    let (tail, head) = (u64::from(dirty.tail.block()), u64::from(dirty.head.block()));
    let length = (head + log.blocks - tail) % log.blocks;
    // The first record, the middle, the last block, and the block in which the next record would begin.
    for behind_tail in [0, length / 2, length - 1, length] {
        let bad = log.block(tail + behind_tail);
        let by_map = truth.judge(&rescue_all(DamagedDevice::new(&truth.image), &bad));
        assert_eq!(by_map.whole, 0, "{behind_tail} of {length}: {by_map:?}");
        assert!(by_map.perhaps_older > 0, "{behind_tail} of {length}: {by_map:?}");
        let mut device = DamagedDevice::new(&truth.image);
        device.failing = bad;
        let failing = rescue_all(device, &RangeSet::default());
        assert!(!failing.summary.is_whole() && truth.judge(&failing).whole == 0);
    }
    // Half way round from the head to the tail.
    let bad = log.block(head + (log.blocks - length) / 2);
    let judged = truth.judge(&rescue_all(DamagedDevice::new(&truth.image), &bad));
    assert_eq!((judged.whole, judged.perhaps_older), (judged.names, 0), "{judged:?}");
}

#[test]
fn a_clean_log_hides_something_only_at_its_head() {
    let truth = Truth::new("block-2k");
    let log = Log::of(&truth.image);
    let LogState::Clean(clean) = log.state else { panic!("{:?}", log.state) };
    let head = u64::from(clean.head.block());
    for (block, is_hidden) in [(head, true), (0, true), (head + 1, false), (head + log.blocks / 2, false)] {
        let judged = truth.judge(&rescue_all(DamagedDevice::new(&truth.image), &log.block(block)));
        match is_hidden {
            true => assert_eq!(judged.whole, 0, "block {block}, head {head}: {judged:?}"),
            false => assert_eq!(judged.perhaps_older, 0, "block {block}, head {head}: {judged:?}"),
        }
        assert!(judged.whole + judged.perhaps_older > 500, "block {block}, head {head}: {judged:?}");
    }
}

/// A log that makes no sense hides as much as one that cannot be read.
#[test]
fn a_damaged_log_leaves_nothing_whole() {
    let truth = Truth::of(&GoldenImage::dirty_log());
    let log = Log::of(&truth.image);
    let mut device = DamagedDevice::new(&truth.image);
    device.patches.push((log.start, vec![0x5a; 64 << 10]));
    let judged = truth.judge(&rescue_all(device, &RangeSet::default()));
    assert_eq!(judged.whole, 0, "{judged:?}");
    assert!(judged.perhaps_older > 0, "{judged:?}");
}

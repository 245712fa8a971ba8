//! What a rescue calls whole is what the kernel says it was, whatever cannot be read.

use uxfs_block::ranges::RangeSet;
use uxfs_testkit::seeds::Random;

use crate::common::{DamagedDevice, Truth, random_ranges, rescue_all};

/// Of sound images everything is whole, as the kernel sees it.
#[test]
fn sound_images_come_out_whole() {
    for name in ["block-1k", "no-feature"] {
        let truth = Truth::new(name);
        let judged = truth.judge(&truth.sound);
        assert_eq!((judged.whole, judged.untold), (judged.names, 0), "{name}: {judged:?}");
        assert!(truth.sound.summary.is_whole());
    }
}

/// Random ranges that a map calls unread, a few long ones to many short ones: nothing that is called whole is wrong, nothing of a
/// partial file is wrong outside of what is said to be missing, and every name is told.
#[test]
fn nothing_is_called_whole_that_touches_a_bad_range() {
    for (name, seeds) in [("default", 0..2), ("no-rmapbt", 2..3), ("no-parent", 3..4)] {
        let truth = Truth::new(name);
        for seed in seeds {
            let mut random = Random::new(seed);
            let (count, sectors) = [(400, 1), (40, 8), (6, 200), (100, 16)][seed as usize % 4];
            let bad = random_ranges(&truth.image, &mut random, count, sectors);
            let rescued = rescue_all(DamagedDevice::new(&truth.image), &bad);
            let judged = truth.judge(&rescued);
            println!("{name} {seed}: {judged:?}");
            assert!(judged.whole > judged.names / 2, "{name} {seed}: {judged:?}");
        }
    }
}

/// The same with a device whose sectors fail.
#[test]
fn a_failing_device_is_a_device_with_bad_ranges() {
    let truth = Truth::new("default");
    let bad = random_ranges(&truth.image, &mut Random::new(20), 60, 8);
    let mut device = DamagedDevice::new(&truth.image);
    device.failing = bad.clone();
    let failing = rescue_all(device, &RangeSet::default());
    let judged = truth.judge(&failing);
    let by_map = truth.judge(&rescue_all(DamagedDevice::new(&truth.image), &bad));
    assert_eq!(judged, by_map);
    // Only what is asked for is known to be unreadable.
    assert!(failing.device.failed_bytes() > 0 && failing.device.failed_bytes() <= bad.total_bytes());
}

/// What lies behind the end of a truncated image is unreadable, and everything else comes out.
#[test]
fn truncated_images_give_what_is_left() {
    let truth = Truth::new("default");
    let mut device = DamagedDevice::new(&truth.image);
    device.size_bytes = device.size_bytes / 4 * 3 + 512 * 7;
    let rescued = rescue_all(device, &RangeSet::default());
    let judged = truth.judge(&rescued);
    assert!(judged.whole > 500, "{judged:?}");
    assert!(judged.whole < judged.names && !rescued.summary.is_whole());
}

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::single_range_in_vec_init)]

use std::{collections::BTreeMap, io};

use parking_lot::Mutex;
use uxfs_block::{device::batch_bytes, device_wrapper::DeviceWrapper, engine::memory::MemoryDevice};
use uxfs_testkit::seeds::Random;

use super::*;

const SECTOR_BYTES: u64 = 512;

const SIZE_BYTES: u64 = 1 << 20;

/// Fails each read that touches one of its bad sectors, and counts how often each of them was asked for alone.
#[derive(Debug)]
struct FailingDevice {
    inner: MemoryDevice,
    bad: RangeSet,
    tries: Mutex<BTreeMap<u64, u32>>,
}

impl DeviceWrapper for FailingDevice {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        for segment in segments {
            let length_bytes = segment.buffer.len() as u64;
            let range = segment.offset_bytes..segment.offset_bytes + length_bytes;
            if self.bad.touches(range.clone()) {
                if length_bytes <= SECTOR_BYTES && segments.len() == 1 {
                    *self.tries.lock().entry(range.start / SECTOR_BYTES).or_default() += 1;
                }
                let source = io::Error::other("a bad sector");
                let length_bytes = batch_bytes(segments);
                let operation = DeviceOperation::Read;
                return Err(DeviceError { operation, offset_bytes: range.start, length_bytes, source });
            }
        }
        Ok(())
    }
}

fn pattern() -> Vec<u8> {
    (0..SIZE_BYTES).map(|index| (index / 512 * 31 + index % 509) as u8 | 1).collect()
}

fn failing(random: &mut Random) -> (RescueDevice, RangeSet) {
    let mut bad = RangeSet::default();
    for _ in 0..random.below(20) {
        let first = random.below(SIZE_BYTES / SECTOR_BYTES) * SECTOR_BYTES;
        bad.insert(first..(first + (1 + random.below(6)) * SECTOR_BYTES).min(SIZE_BYTES));
    }
    let inner = MemoryDevice::new(pattern());
    let inner = Arc::new(FailingDevice { inner, bad: bad.clone(), tries: Mutex::default() });
    (RescueDevice::new(inner, SIZE_BYTES, []), bad)
}

/// Everything but the bad sectors is read, those alone are noted, and none is tried twice.
#[test]
fn reads_give_all_but_bad_sectors() {
    let mut random = Random::new(11);
    let pattern = pattern();
    for _ in 0..60 {
        let mut bad = RangeSet::default();
        for _ in 0..random.below(20) {
            let first = random.below(SIZE_BYTES / SECTOR_BYTES) * SECTOR_BYTES;
            bad.insert(first..(first + (1 + random.below(6)) * SECTOR_BYTES).min(SIZE_BYTES));
        }
        let inner = MemoryDevice::new(pattern.clone());
        let inner = Arc::new(FailingDevice { inner, bad: bad.clone(), tries: Mutex::default() });
        let device = RescueDevice::new(Arc::<FailingDevice>::clone(&inner), SIZE_BYTES, []);
        for _ in 0..40 {
            let start = random.below(SIZE_BYTES);
            let length = 1 + random.below((SIZE_BYTES - start).min(64 << 10));
            let mut bytes = vec![0xee; length as usize];
            if random.below(2) == 0 {
                device.read(start, &mut bytes).unwrap();
            } else {
                let (one, other) = bytes.split_at_mut(length as usize / 2);
                let mut segments = [
                    ReadSegment { offset_bytes: start, buffer: one },
                    ReadSegment { offset_bytes: start + length / 2, buffer: other },
                ];
                device.read_batch(&mut segments).unwrap();
            }
            let unreadable = device.unreadable_in(start..start + length);
            let expected: Vec<_> = bad.within(start..start + length).collect();
            assert_eq!(unreadable, expected);
            for (index, byte) in bytes.iter().enumerate() {
                let place = start + index as u64;
                let is_bad = expected.iter().any(|range| range.contains(&place));
                assert_eq!(*byte, if is_bad { 0 } else { pattern[place as usize] }, "byte {place}");
            }
        }
        let tries = inner.tries.lock();
        assert!(tries.values().all(|tries| *tries == 1), "{tries:?}");
        assert!(device.failed_bytes() <= bad.total_bytes());
    }
}

#[test]
fn a_map_counts_although_the_copy_can_be_read() {
    let inner = Arc::new(MemoryDevice::new(pattern()));
    let device = RescueDevice::new(inner, SIZE_BYTES, [1000..3000]);
    let mut bytes = vec![0xee; 4096];
    device.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes[..1000], &pattern()[..1000]);
    assert!(bytes[1000..3000].iter().all(|byte| *byte == 0));
    assert_eq!(&bytes[3000..], &pattern()[3000..4096]);
    assert_eq!((device.unreadable_in(0..SIZE_BYTES), device.failed_bytes()), (vec![1000..3000], 0));
}

#[test]
fn a_truncated_device_is_as_long_as_it_should_be() {
    let inner = Arc::new(MemoryDevice::new(pattern()));
    let device = RescueDevice::new(inner, SIZE_BYTES + 5000, []);
    let mut bytes = vec![0xee; 10_000];
    device.read(SIZE_BYTES - 5000, &mut bytes).unwrap();
    assert_eq!(&bytes[..5000], &pattern()[SIZE_BYTES as usize - 5000..]);
    assert!(bytes[5000..].iter().all(|byte| *byte == 0));
    assert_eq!(device.unreadable_in(0..u64::MAX), [SIZE_BYTES..SIZE_BYTES + 5000]);
    assert!(device.read(SIZE_BYTES, &mut [0; 5001]).is_err());
}

#[test]
fn nothing_is_written() {
    let (device, _) = failing(&mut Random::new(1));
    assert!(device.is_read_only());
    assert!(device.write(0, &[1]).is_err() && device.discard(0, 512).is_err());
    assert!(device.write_batch(&[WriteSegment { offset_bytes: 0, bytes: &[1] }]).is_err());
}

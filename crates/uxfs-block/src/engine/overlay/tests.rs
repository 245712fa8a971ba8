use proptest::prelude::*;

use super::*;
use crate::engine::memory::MemoryDevice;

const SIZE: usize = 10 * PAGE_BYTES + 1536;

fn overlay(memory_bytes: u64) -> (Arc<MemoryDevice>, OverlayDevice) {
    let base = Arc::new(MemoryDevice::new((0..SIZE).map(|index| (index / 7) as u8).collect()));
    (Arc::clone(&base), OverlayDevice::with_memory(base, memory_bytes))
}

fn all(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    device.read(0, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each layer is what the device was when the next began, whether pages lie in memory or in the file.
    #[test]
    fn layers_remember(
        writes in proptest::collection::vec((0usize..SIZE, 1usize..9000, any::<u8>(), prop::bool::weighted(0.1)), 1..40),
        memory_pages in prop::sample::select(vec![0u64, 3, 100]),
    ) {
        let (base, overlay) = overlay(memory_pages * PAGE_BYTES as u64);
        let before = all(base.as_ref());
        let mut model = vec![before.clone()];
        for (offset, length, byte, is_new_layer) in writes {
            let length = length.min(SIZE - offset);
            if is_new_layer {
                model.push(model.last().unwrap().clone());
                prop_assert_eq!(overlay.begin_layer(), model.len() - 1);
            }
            overlay.write(offset as u64, &vec![byte; length]).unwrap();
            model.last_mut().unwrap()[offset..offset + length].fill(byte);
        }
        prop_assert_eq!(&all(&overlay), model.last().unwrap());
        prop_assert_eq!(&all(base.as_ref()), &before);
        let mut below = before;
        for (layer, expected) in model.iter().enumerate() {
            let mut bytes = vec![0; SIZE];
            overlay.read_at_layer(Some(layer), 0, &mut bytes).unwrap();
            prop_assert_eq!(&bytes, expected);
            // Putting the runs of a layer over what lies below gives the layer.
            for (start, length) in overlay.runs(layer) {
                let range = start as usize..(start + length) as usize;
                below[range.clone()].copy_from_slice(&bytes[range]);
            }
            prop_assert_eq!(&below, expected);
        }
    }
}

/// Cannot read one range.
#[derive(Debug)]
struct BadRange {
    inner: MemoryDevice,
    bad: std::ops::Range<u64>,
}

impl crate::device_wrapper::DeviceWrapper for BadRange {
    type Inner = MemoryDevice;

    fn inner(&self) -> &MemoryDevice {
        &self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        let hits = |segment: &&ReadSegment<'_>| {
            segment.offset_bytes < self.bad.end
                && self.bad.start < segment.offset_bytes + segment.buffer.len() as u64
        };
        match segments.iter().find(hits) {
            Some(segment) => Err(DeviceError::outside(DeviceOperation::Read, segment.offset_bytes, 512)),
            None => Ok(()),
        }
    }
}

#[test]
fn what_the_base_cannot_read_is_read_once_it_is_written_and_no_sooner() {
    let bad = 4096 + 1024..4096 + 2048;
    let overlay =
        OverlayDevice::new(Arc::new(BadRange { inner: MemoryDevice::new(vec![3; SIZE]), bad: bad.clone() }));
    let mut sector = [0; 512];
    let mut page = [0; 4096];
    overlay.read(4096 + 1024, &mut sector).unwrap_err();
    // Beside the bad sectors: they stay unknown, and the others are as they were.
    overlay.write(4096, &[7; 512]).unwrap();
    overlay.read(4096, &mut page).unwrap_err();
    overlay.read(4096 + 1536, &mut sector).unwrap_err();
    overlay.read(4096 + 2048, &mut sector).unwrap();
    assert_eq!(sector, [3; 512]);
    overlay.begin_layer();
    overlay.write(4096 + 1024, &[8; 512]).unwrap();
    overlay.read(4096 + 1024, &mut sector).unwrap();
    assert_eq!(sector, [8; 512]);
    overlay.read(4096 + 1536, &mut sector).unwrap_err();
    // A part of a sector is not the sector.
    overlay.write(4096 + 1536, &[8; 100]).unwrap();
    overlay.read(4096 + 1536, &mut sector).unwrap_err();
    overlay.write(4096 + 1536, &[9; 512]).unwrap();
    overlay.read(4096, &mut page).unwrap();
    let expected = [[7; 512], [3; 512], [8; 512], [9; 512], [3; 512], [3; 512], [3; 512], [3; 512]].concat();
    assert_eq!(page[..], expected[..]);
    // Over several pages, of which some lie in the base.
    let mut all = vec![0; SIZE];
    overlay.read(0, &mut all).unwrap();
    assert_eq!(all[4096..8192], expected[..]);
    assert!(overlay.read_at_layer(Some(0), bad.start, &mut sector).is_err());
}

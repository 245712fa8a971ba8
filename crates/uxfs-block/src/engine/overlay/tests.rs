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

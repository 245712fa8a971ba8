//! Mutated dumps and mutated images: errors at most.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice, zeros::is_zero};
use uxfs_metadump::{
    dump::{DumpOptions, dump},
    restore::{RestoreError, Target, information, restore},
};
use uxfs_testkit::{golden::GoldenImage, seeds::Seed};

/// A target that keeps nothing, and holds writes to its size.
#[derive(Default)]
struct Nothing {
    size_bytes: u64,
}

impl Target for Nothing {
    fn prepare(&mut self, size_bytes: u64) -> Result<(), RestoreError> {
        assert_eq!(self.size_bytes, 0, "made ready once");
        self.size_bytes = size_bytes;
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), RestoreError> {
        let end = offset_bytes.checked_add(bytes.len() as u64).unwrap();
        assert!(end <= self.size_bytes, "{end} behind {}", self.size_bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(())
    }
}

fn image() -> Vec<u8> {
    let path = GoldenImage::dirty_log().unpacked().unwrap();
    std::fs::read(path).unwrap()
}

fn dump_of(image: Vec<u8>, options: &DumpOptions) -> Option<Vec<u8>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(image));
    let mut bytes = Vec::new();
    dump(&device, options, &mut bytes, &mut |_| {}).ok()?;
    Some(bytes)
}

/// A dump of version 1 of the first blocks of one of version 2.
fn version1(dump: &[u8]) -> Vec<u8> {
    let superblock = &dump[36..36 + 512];
    let mut bytes = 0x5846_534d_u32.to_be_bytes().to_vec();
    bytes.extend([0, 40, 9, 3]);
    let places: Vec<u8> = (0..63_u64).flat_map(u64::to_be_bytes).collect();
    bytes.extend(places);
    bytes.extend(superblock);
    bytes.resize(512 + 40 * 512, 7);
    bytes
}

#[test]
fn mutated_dumps_are_refused_or_restored_within_bounds() {
    let mut random = Seed::from_environment("mutated_dumps", 1).random();
    let whole = dump_of(image(), &DumpOptions::default()).unwrap();
    let mut restored = 0;
    for original in [whole[..200_000].to_vec(), version1(&whole)] {
        for round in 0..400_u64 {
            let mut bytes = original.clone();
            // Mostly headers: of the dump, of its first extents, and the superblock.
            for _ in 0..round % 4 {
                let limit = [24, 60, 700, bytes.len()][random.index(4)];
                bytes[random.index(limit)] = random.next_u64() as u8;
            }
            if round % 5 == 0 {
                bytes.truncate(random.index(original.len()));
            }
            let _ = information(&mut bytes.as_slice());
            restored +=
                u32::from(restore(&mut bytes.as_slice(), &mut Nothing::default(), &mut |_| {}).is_ok());
        }
    }
    assert!(restored > 10, "some are sound: {restored}");
}

#[test]
fn mutated_images_are_dumped() {
    let mut random = Seed::from_environment("mutated_images", 1).random();
    let image = image();
    let blocks: Vec<usize> =
        (0..image.len() / 4096).filter(|block| !is_zero(&image[block * 4096..(block + 1) * 4096])).collect();
    for round in 0..8_usize {
        let mut damaged = image.clone();
        for _ in 0..1 << round {
            let start = blocks[random.index(blocks.len())] * 4096;
            match random.index(3) {
                0 => random.fill(&mut damaged[start..start + 4096]),
                1 => damaged[start + random.index(100)] ^= 1 << random.index(8),
                _ => damaged[start + random.index(4096)] = random.next_u64() as u8,
            }
        }
        let options =
            DumpOptions { zero_unused: round % 2 == 0, obfuscate: round % 3 != 0, ..DumpOptions::default() };
        if let Some(bytes) = dump_of(damaged, &options) {
            restore(&mut bytes.as_slice(), &mut Nothing::default(), &mut |_| {}).unwrap();
        }
    }
}

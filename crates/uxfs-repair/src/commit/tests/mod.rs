//! Small devices that begin with a superblock, and what is asked of every one of them.
// A list of one range is meant.
#![allow(clippy::single_range_in_vec_init)]

mod cuts;
mod damage;
mod devices;
mod files;
mod plans;

use std::{fs::File, io::Read, ops::Range, sync::Arc};

use tempfile::TempDir;
use uxfs_block::{device::BlockDevice, engine::memory::MemoryDevice};
use uxfs_format::{
    checksum, features::Incompatible, field_table::OnDisk, superblock::CHECKSUM_OFFSET_BYTES,
    superblock::Superblock, units::Uuid,
};
use uxfs_testkit::{golden::GoldenImage, image::memory_folder, seeds::Random};

use super::{About, Existing, SECTOR_BYTES, UndoFile, prepare};

/// What differs between fixtures.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size_bytes: usize,
    sector_bytes: usize,
    /// Changed runs of sectors.
    runs: usize,
    changes_superblock: bool,
    /// The old superblock has a wrong checksum.
    is_damaged: bool,
}

/// What all fixtures are made from.
const SHAPES: [Shape; 6] = [
    Shape { size_bytes: 96 << 10, sector_bytes: 512, runs: 6, changes_superblock: true, is_damaged: false },
    Shape { size_bytes: 96 << 10, sector_bytes: 512, runs: 6, changes_superblock: false, is_damaged: false },
    Shape { size_bytes: 96 << 10, sector_bytes: 512, runs: 6, changes_superblock: true, is_damaged: true },
    Shape { size_bytes: 96 << 10, sector_bytes: 4096, runs: 6, changes_superblock: true, is_damaged: false },
    Shape { size_bytes: 96 << 10, sector_bytes: 4096, runs: 6, changes_superblock: true, is_damaged: true },
    // Only the superblock changes; a last sector that is none.
    Shape {
        size_bytes: (40 << 10) + 100,
        sector_bytes: 512,
        runs: 0,
        changes_superblock: true,
        is_damaged: false,
    },
];

/// Old and new contents, and ranges that hold all that differs.
struct Fixture {
    old: Vec<u8>,
    new: Vec<u8>,
    ranges: Vec<Range<u64>>,
    folder: TempDir,
}

fn device(bytes: &[u8]) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(bytes.to_vec()))
}

fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.size_bytes() as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// Compares without printing kilobytes.
#[track_caller]
fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    let sectors = found.chunks(SECTOR_BYTES).zip(expected.chunks(SECTOR_BYTES)).enumerate();
    let wrong: Vec<_> = sectors.filter(|(_, (found, expected))| found != expected).map(|(n, _)| n).collect();
    assert!(found.len() == expected.len() && wrong.is_empty(), "{what}: sectors {wrong:?}");
}

fn seal(bytes: &mut [u8], sector_bytes: usize) {
    assert!(checksum::seal(&mut bytes[..sector_bytes], CHECKSUM_OFFSET_BYTES));
}

/// The superblock of a golden image, for sectors of this size.
fn superblock(sector_bytes: usize) -> Vec<u8> {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let mut bytes = vec![0; SECTOR_BYTES];
    File::open(image).unwrap().read_exact(&mut bytes).unwrap();
    bytes.resize(sector_bytes, 0);
    let superblock = Superblock::prefix_of_mut(&mut bytes).unwrap();
    superblock.sector_size_bytes.set(sector_bytes as u16);
    superblock.sector_log = sector_bytes.ilog2() as u8;
    seal(&mut bytes, sector_bytes);
    bytes
}

/// Whether Linux would refuse the contents: marked, or no superblock.
fn is_refused(bytes: &[u8]) -> bool {
    let Ok((superblock, sector)) = Superblock::parse(bytes) else { return true };
    checksum::check(sector, CHECKSUM_OFFSET_BYTES).is_err()
        || superblock.feature_words().incompatible.contains(Incompatible::NEEDS_REPAIR)
}

impl Fixture {
    fn new(shape: Shape, random: &mut Random) -> Self {
        let Shape { size_bytes, sector_bytes, .. } = shape;
        let mut old = vec![0; size_bytes];
        random.fill(&mut old);
        old[..sector_bytes].copy_from_slice(&superblock(sector_bytes));
        let mut new = old.clone();
        if shape.changes_superblock {
            Superblock::prefix_of_mut(&mut new).unwrap().free_data_blocks.set(random.below(1 << 20));
            seal(&mut new, sector_bytes);
        }
        if shape.is_damaged {
            old[CHECKSUM_OFFSET_BYTES as usize] ^= 1;
        }
        let mut ranges = Vec::new();
        for _ in 0..shape.runs {
            let start = sector_bytes + random.index(size_bytes - sector_bytes);
            let end = (start + 1 + random.index(5000)).min(size_bytes);
            random.fill(&mut new[start..end]);
            // Sometimes a range says too much, and ranges overlap.
            let before = random.below(9000).min(start as u64);
            ranges.push(start as u64 - before..end as u64);
        }
        ranges.push(0..random.below(4096));
        Self { old, new, ranges, folder: tempfile::tempdir_in(memory_folder()).unwrap() }
    }

    fn about(&self) -> About {
        About {
            path: self.folder.path().join("image.uxfs-undo"),
            filesystem_uuid: Uuid([7; 16]),
            start_bytes: 1 << 20,
            existing: Existing::Refuse,
        }
    }

    fn prepare(&self) -> UndoFile {
        let file = prepare(&*device(&self.old), &*device(&self.new), &self.ranges, &self.about());
        file.unwrap().expect("old and new differ")
    }

    /// Sectors in which old and new differ.
    fn changed(&self) -> Vec<usize> {
        let sectors = self.old.chunks(SECTOR_BYTES).zip(self.new.chunks(SECTOR_BYTES));
        sectors.enumerate().filter(|(_, (old, new))| old != new).map(|(number, _)| number).collect()
    }
}

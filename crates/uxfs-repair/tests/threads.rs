//! What a check finds and a repair writes does not depend on threads: also where many directories and attribute forks are damaged at once, and
//! each thread passes over faults while others look at inodes that are whole.

use std::{collections::BTreeMap, fs, num::NonZeroUsize, path::Path};

use uxfs_block::device::BlockDevice;
use uxfs_repair::{CheckOptions, Finding, repair::RepairOptions};
use uxfs_testkit::{golden::GoldenImage, image::memory_folder};
use uxfs_volume::inode::scan::ScanOptions;

use crate::common::{findings_with_threads, stage};

const BLOCK_BYTES: usize = 4096;
const RUNS: usize = 3;

/// Overwrites every other directory block and attribute leaf.
fn damage(image: &Path) -> usize {
    let mut bytes = fs::read(image).unwrap();
    let places = [(0, b"XDB3".as_slice()), (0, b"XDD3"), (8, b"\x3b\xee")];
    let is_damaged = |block: &[u8]| places.iter().any(|(at, magic)| block[*at..].starts_with(magic));
    let blocks = bytes.chunks_exact_mut(BLOCK_BYTES).filter(|block| is_damaged(block)).step_by(2);
    let count = blocks.map(|block| block.fill(0x55)).count();
    fs::write(image, bytes).unwrap();
    count
}

fn damaged_image(image: &Path) {
    GoldenImage::lean("default").unwrap().unpack_to(image).unwrap();
    assert!(damage(image) > 20);
}

fn sentences(findings: &[Finding]) -> Vec<String> {
    let mut lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn threads() -> ScanOptions {
    ScanOptions { threads: NonZeroUsize::new(4).unwrap(), helpers: 1 }
}

#[test]
fn threads_do_not_change_the_result() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    damaged_image(&image);
    let check =
        |scan| sentences(&findings_with_threads(&image, &CheckOptions { scan, ..CheckOptions::default() }));
    let expected = check(ScanOptions::in_order());
    for _ in 0..RUNS {
        assert_eq!(check(threads()), expected);
    }
    let repair = |scan| {
        let staged = stage(&image, &RepairOptions { scan, ..RepairOptions::default() });
        let mut bytes = BTreeMap::new();
        for (start, length) in staged.overlay.runs(0) {
            let mut run = vec![0; length as usize];
            staged.overlay.read(start, &mut run).unwrap();
            bytes.insert(start, run);
        }
        (bytes, staged.actions.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let (bytes, actions) = repair(ScanOptions::in_order());
    for _ in 0..RUNS {
        let (again, actions_again) = repair(threads());
        assert_eq!(actions, actions_again);
        assert!(bytes == again, "other bytes");
    }
}

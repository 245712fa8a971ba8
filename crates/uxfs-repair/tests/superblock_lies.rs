//! Superblocks that lie with right checksums about what a repair relies on from its first step on.
#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, fs::File, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, structures, verdict::repair_is_silent};

use common::{findings_of, plant, repair_image, try_all};

/// A lie in these groups, and a word of what the repair says.
struct Lie {
    image: &'static str,
    groups: &'static [u32],
    change: &'static str,
    said: &'static str,
}

const fn lie(image: &'static str, groups: &'static [u32], change: &'static str, said: &'static str) -> Lie {
    Lie { image, groups, change, said }
}

const FIRST: &[u32] = &[0];
const ALL: &[u32] = &[0, 1, 2, 3];

#[rustfmt::skip]
const LIES: &[Lie] = &[
    lie("default", FIRST, "logblocks 10000", "as its copies say"),
    lie("default", FIRST, "logblocks 2064", "as its copies say"),
    lie("default", FIRST, "logstart 1", "as its copies say"),
    lie("default", ALL, "logblocks 10000", "place of the log"),
    lie("default", ALL, "logblocks 2064", "place of the log"),
    lie("default", ALL, "logblocks 2000", "place of the log"),
    lie("default", ALL, "logstart 1", "place of the log"),
    lie("no-rmapbt", FIRST, "logstart 1", "as its copies say"),
    lie("groups-2", FIRST, "dirblklog 2", "as its copies say"),
    lie("groups-2", FIRST, "logstart 1", "as its copies say"),
    lie("default", FIRST, "rootino 129", "root directory"),
    lie("default", FIRST, "rootino 0", "root directory"),
    lie("default", ALL, "rootino 131", "root directory"),
    lie("default", ALL, "rootino 2147483647", "root directory"),
    lie("default", FIRST, "versionnum 0xb4b6", "superblock"),
    lie("default", FIRST, "versionnum 0xb4b4", "superblock"),
    lie("default", FIRST, "uquotino 186", "superblock"),
    lie("default", ALL, "features_incompat 0xe9", "superblock"),
];

#[test]
fn what_a_superblock_lies_about_is_settled_before_anything_is_written() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let wrong = try_all(LIES, wrong_with);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_with(lie: &Lie, image: &Path) -> Vec<String> {
    let golden = GoldenImage::named(lie.image).unwrap();
    golden.unpack_to(image).unwrap();
    let name = format!("{}, {} in {:?}", lie.image, lie.change, lie.groups);
    for group in lie.groups {
        plant(image, &[&format!("sb {group}"), &format!("write -d {}", lie.change)]);
    }
    let mut wrong = Vec::new();
    if findings_of(image).is_empty() {
        wrong.push(format!("{name}: nothing is found"));
    }
    let staged = repair_image(image);
    let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
    if !staged.remaining.is_empty() || !done.iter().any(|sentence| sentence.contains(lie.said)) {
        wrong.push(format!("{name}: {done:#?}, left {:#?}", staged.remaining));
    }
    let sound = SyncDevice::open_read_only(golden.unpacked().unwrap().as_path(), 0).unwrap();
    let (geometry, _) = structures::list(&sound).unwrap();
    let group_sectors = u64::from(geometry.ag_blocks) << (geometry.block_log - 9);
    let changed = changed_sectors(&golden, image, staged.overlay.runs(0));
    if changed.iter().any(|sector| !sector.is_multiple_of(group_sectors)) {
        wrong.push(format!("{name}: sectors {changed:?} are not as before: {done:#?}"));
    }
    if let Err(error) = repair_is_silent(image) {
        wrong.push(format!("{name}: {error:#}"));
    }
    wrong
}

/// Sectors of 512 bytes among those that were written that differ from the sound image.
fn changed_sectors(
    golden: &GoldenImage,
    image: &Path,
    written: impl IntoIterator<Item = (u64, u64)>,
) -> BTreeSet<u64> {
    let (sound, repaired) = (File::open(golden.unpacked().unwrap()).unwrap(), File::open(image).unwrap());
    let sectors = written.into_iter().flat_map(|(start, length)| start / 512..(start + length).div_ceil(512));
    let differs = |sector: &u64| {
        let [mut one, mut other] = [[0; 512]; 2];
        sound.read_exact_at(&mut one, sector * 512).unwrap();
        repaired.read_exact_at(&mut other, sector * 512).unwrap();
        one != other
    };
    sectors.filter(differs).collect()
}

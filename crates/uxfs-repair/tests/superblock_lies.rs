//! Superblocks that lie with right checksums about what a repair relies on from its first step on.

use std::{collections::BTreeSet, fs::File, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_repair::Finding;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require, structures,
    verdict::repair_is_silent,
};

use crate::common;
use crate::common::{findings_of, plant, repair_image, stage, try_all};

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
const BOTH: &[u32] = &[0, 1];

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
    lie("groups-2", FIRST, "rblocks 1", "as its copies say"),
    lie("groups-2", FIRST, "rextsize 0", "as its copies say"),
    lie("groups-2", FIRST, "features_compat 1", "as its copies say"),
    lie("groups-2", FIRST, "features_ro_compat 0x1000f", "as its copies say"),
    lie("default", FIRST, "features_ro_compat 0x1000f", "as its copies say"),
    lie("default", FIRST, "rextsize 0", "as its copies say"),
    lie("default", FIRST, "rextsize 2", "as its copies say"),
    lie("default", FIRST, "imax_pct 30", "as its copies say"),
    lie("groups-2", BOTH, "rblocks 1", "superblock"),
    lie("groups-2", BOTH, "rblocks 0xffffffff", "superblock"),
    lie("groups-2", BOTH, "rextsize 0", "superblock"),
    lie("groups-2", BOTH, "features_compat 1", "superblock"),
    lie("groups-2", BOTH, "logsectsize 512", "superblock"),
    lie("default", ALL, "rblocks 1", "superblock"),
    lie("default", ALL, "rextslog 3", "superblock"),
    lie("default", ALL, "features_compat 0x80000000", "superblock"),
    lie("default", ALL, "versionnum 0xb435", "superblock"),
    lie("default", ALL, "versionnum 0xb6b5", "superblock"),
    lie("stripes", ALL, "width 524288", "superblock"),
    lie("sector-4k", ALL, "versionnum 0xb4b5", "superblock"),
];

/// Lies of the only copy, or of all: what Linux refuses, and what it would take.
#[rustfmt::skip]
const OF_COPIES: &[(&str, &[u32], &str)] = &[
    ("groups-2", &[1], "rblocks 1"),
    ("groups-2", &[1], "rblocks 0xffffffff"),
    ("groups-2", &[1], "rextsize 0"),
    ("groups-2", &[1], "rextsize 0xffffffff"),
    ("groups-2", &[1], "rextsize 2"),
    ("groups-2", &[1], "features_compat 1"),
    ("groups-2", &[1], "features_ro_compat 0x1000f"),
    ("groups-2", &[1], "features_ro_compat 7"),
    ("groups-2", &[1], "logblocks 1489"),
    ("groups-2", &[1], "logblocks 1000"),
    ("groups-2", &[1], "logblocks 1990"),
    ("groups-2", &[1], "logsunit 4096"),
    ("groups-2", &[1], "dirblklog 1"),
    ("groups-2", &[1], "imax_pct 30"),
    ("default", &[1, 2, 3], "rblocks 1"),
    ("default", &[1, 2, 3], "rextsize 0"),
    ("default", &[1, 2, 3], "features_compat 1"),
    ("default", &[1, 2, 3], "logblocks 1489"),
    ("default", &[1, 2, 3], "dirblklog 1"),
];

/// Damages of a group beside a lie, which are mended whatever the superblock says.
const BESIDE: &[&[&str]] = &[
    &[],
    &["agf 1", "write -d freeblks 9"],
    &["agf 1", "write -d magicnum 1"],
    &["agi 1", "write -d count 9"],
];

#[test]
fn what_a_superblock_lies_about_is_settled_before_anything_is_written() {
    require!(Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let wrong = try_all(LIES, wrong_with);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_with(lie: &Lie, image: &Path) -> Vec<String> {
    let golden = GoldenImage::lean(lie.image).unwrap();
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
    // It reads without damage alone, and not what xfs_repair does not look at.
    if let Err(error) = LoopMount::new(image, Access::ReadOnlyNoRecovery).and_then(LoopMount::unmount) {
        wrong.push(format!("{name}: Linux does not mount it: {error:#}"));
    }
    wrong
}

#[test]
fn copies_that_lie_alone_do_not_change_the_first_superblock() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let cases: Vec<_> =
        OF_COPIES.iter().flat_map(|lie| BESIDE.iter().map(move |beside| (lie, *beside))).collect();
    let wrong = try_all(&cases, |((golden, groups, change), beside), image| {
        GoldenImage::lean(golden).unwrap().unpack_to(image).unwrap();
        let sound = first_sector(image);
        for group in *groups {
            plant(image, &[&format!("sb {group}"), &format!("write -d {change}")]);
        }
        plant(image, beside);
        let staged = repair_image(image);
        let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
        let name = format!("{golden}, {change} in {groups:?}, {beside:?}");
        let mut wrong = Vec::new();
        if !staged.remaining.is_empty() || first_sector(image) != sound {
            wrong.push(format!("{name}: {done:#?}, left {:#?}", staged.remaining));
        }
        if let Err(error) = repair_is_silent(image) {
            wrong.push(format!("{name}: {error:#}"));
        }
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn first_sector(image: &Path) -> [u8; 512] {
    let mut sector = [0; 512];
    File::open(image).unwrap().read_exact_at(&mut sector, 0).unwrap();
    sector
}

/// Linux sets features of the log in the first superblock while the log needs them, and clears them there. No copy has them alone.
#[test]
fn features_of_the_log_are_those_of_the_first_superblock() {
    require!(Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let features =
        || [0, 1].map(|group| plant(&image, &[&format!("sb {group}"), "print features_log_incompat"]));
    let none = "features_log_incompat = 0\n";
    for groups in [&[0][..], &[1], &[0, 1]] {
        GoldenImage::lean("groups-2").unwrap().unpack_to(&image).unwrap();
        for group in groups {
            plant(&image, &[&format!("sb {group}"), "write -d features_log_incompat 1"]);
        }
        let is_alone = groups == [1];
        let findings: Vec<u16> = findings_of(&image).iter().map(Finding::number).collect();
        assert_eq!(findings, if is_alone { &[78][..] } else { &[] }, "{groups:?}");
        assert_eq!(stage(&image, &common::in_order()).is_clean(), !is_alone, "{groups:?}");
        // A copy that is written for another reason gets none of them.
        plant(&image, &["sb 1", "write -d logblocks 1000"]);
        let staged = repair_image(&image);
        assert_eq!(staged.remaining.len(), 0, "{groups:?}: {:#?}", staged.remaining);
        assert_eq!(features()[1], none, "{groups:?}");
        // xfs_repair compares them and says so while the first superblock has one.
        LoopMount::new(&image, Access::ReadWrite).unwrap().unmount().unwrap();
        assert_eq!(findings_of(&image).len(), 0, "{groups:?}: {:#?}", findings_of(&image));
        assert_eq!(features(), [none; 2], "{groups:?}");
        repair_is_silent(&image).unwrap();
    }
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

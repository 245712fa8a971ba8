//! Slices of `cargo xtask repair-fuzz`: repairs that are cut off, devices that fail, several damages at once.

use std::{path::Path, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_format::fault::Structure;
use uxfs_lab::{
    crash::image::Image,
    field_fuzz::small,
    repair_fuzz::{Fixture, Outcome, Promises, cuts, devices, devices::Fate},
};
use uxfs_testkit::{
    exclusive::Exclusive,
    golden::GoldenImage,
    judges::{Judge, judged},
    require,
    seeds::Seed,
};

/// A golden image with few hard links.
fn small(name: &str) -> (Fixture, Image) {
    // Several tests make the same files.
    let _one = Exclusive::wait_for("small-images").unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small-images");
    let path = small::make(&GoldenImage::named(name).unwrap(), &folder).unwrap();
    (Fixture::load(&path).unwrap(), Image::load(&path).unwrap())
}

/// What is overwritten, in images of different shapes.
const OVERWRITTEN: &[(&str, &[Structure])] = &[
    ("default", &[Structure::FreeSpaceHeader, Structure::InodeHeader]),
    ("no-rmapbt", &[Structure::FreeList, Structure::FreeInodeIndex]),
    ("block-1k", &[Structure::DirectoryData, Structure::DirectoryBlock]),
];

#[test]
fn repairs_that_are_cut_off_are_finished_and_taken_back() {
    let run = Seed::from_environment("repairs_that_are_cut_off", 1);
    let seed = run.random().next_u64();
    let folder = tempfile::tempdir().unwrap();
    for (name, structures) in OVERWRITTEN {
        let (fixture, sound) = small(name);
        let image = fixture.without(structures).unwrap().image_from(&sound);
        let with = cuts::with_undo_file(&image, folder.path(), seed).unwrap().expect("it can be repaired");
        assert!(with.requests > 6 && with.states == 3 * with.requests as u64, "{with:?}");
        let step = with.requests / 4;
        let without = cuts::without_undo_file(&image, step, seed).unwrap().expect("it can be repaired");
        assert!(without.states >= 9, "{without:?}");
        judged("cuts of repairs", &format!("{name}: {with:?}; without an undo file {without:?}"));
    }
}

#[test]
fn writes_that_fail_are_told_and_finished_later() {
    let folder = tempfile::tempdir().unwrap();
    let (fixture, sound) = small("default");
    let image = fixture.without(&[Structure::FreeSpaceHeader]).unwrap().image_from(&sound);
    let failed = devices::failing_writes(&image, folder.path()).unwrap().expect("it can be repaired");
    assert!(failed > 6, "{failed}");
}

#[test]
fn metadata_that_cannot_be_read_is_made_anew() {
    let seed = Seed::from_environment("metadata_that_cannot_be_read", 1);
    let mut random = seed.random();
    let folder = tempfile::tempdir().unwrap();
    let (fixture, sound) = small("default");
    let mut repaired = 0;
    for number in 0..12 {
        let structures = 1 << (number / 2 % 4);
        let bad = match number % 2 {
            0 => fixture.sectors(structures, &mut random),
            _ => fixture.single_sectors(structures, &mut random),
        };
        let fate = devices::unreadable(&sound, &bad, number % 3 == 2, folder.path());
        let fate = fate.unwrap_or_else(|error| panic!("{number}: bad sectors {bad:?}: {error:#}"));
        repaired += u32::from(fate == Fate::Repaired);
    }
    assert!(repaired > 5, "{repaired}");
}

#[test]
fn several_damages_are_repaired_and_the_result_can_be_edited() {
    require!(Judge::XfsRepair);
    let seed = Seed::from_environment("several_damages", 1);
    let mut random = seed.random();
    let (fixture, sound) = small("default");
    let mut repaired = 0;
    for number in 0..8 {
        let damaged = fixture.damaged(&fixture.case(1 << (number % 4), &mut random)).unwrap();
        let words = damaged.damages.join("; ");
        let image = damaged.image_from(&sound);
        let device: Arc<dyn BlockDevice> = damaged.device();
        let promises = Promises { threads: number == 3, edits: true, judge: number % 4 == 1 };
        let outcome = promises.try_on(&device, || image, number);
        let outcome = outcome.unwrap_or_else(|why| panic!("{why}; damaged: {words}"));
        repaired += u32::from(matches!(outcome, Outcome::Repaired(..)));
    }
    assert!(repaired > 3, "{repaired}");
}

//! A copy of the superblock that the caller names.

use std::{fs::File, os::unix::fs::FileExt, path::Path, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::units::AgNumber;
use uxfs_repair::{
    CheckOptions, Finding, check,
    check::all,
    opening::{self, OpeningOptions},
    repair::RepairOptions,
};
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_is_silent,
};
use uxfs_volume::tolerant::SuperblockChoice;

use crate::common::{in_order, quota_image, stage, write_staged};

fn of_group(group: u32) -> SuperblockChoice {
    SuperblockChoice::Group(AgNumber::new(group))
}

fn findings_by(image: &Path, superblock: SuperblockChoice) -> Vec<Finding> {
    let device: Arc<dyn uxfs_block::device::BlockDevice> =
        Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let options = OpeningOptions { superblock, ..OpeningOptions::default() };
    let mut opened = opening::open(&device, &options).unwrap();
    let mut findings = std::mem::take(&mut opened.findings);
    check(&opened.volume, &CheckOptions::default(), &mut all(&mut findings));
    findings
}

/// Counters, quota inodes and the bit of attributes are kept up to date in the first superblock only.
#[test]
fn nothing_is_wrong_with_a_sound_image_whichever_copy_is_named() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for name in ["default", "no-parent", "metadir", "quota"] {
        match name {
            "quota" => quota_image::make(&image),
            name => GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap(),
        }
        for group in 0..3 {
            let findings = findings_by(&image, of_group(group));
            assert!(findings.is_empty(), "{name} {group}: {findings:#?}");
            let options = RepairOptions { superblock: of_group(group), ..in_order() };
            assert!(stage(&image, &options).is_clean(), "{name} {group}");
        }
    }
}

#[test]
fn the_copy_that_is_named_takes_the_place_of_a_lost_or_foreign_superblock() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let golden = GoldenImage::lean("default").unwrap();
    let mut other = [0; 512];
    let groups = GoldenImage::lean("groups-16").unwrap().unpacked().unwrap();
    File::open(groups.as_path()).unwrap().read_exact_at(&mut other, 0).unwrap();
    for first in [[0; 512], other] {
        let mut repaired = Vec::new();
        for group in 1..4 {
            golden.unpack_to(&image).unwrap();
            File::options().write(true).open(&image).unwrap().write_all_at(&first, 0).unwrap();
            assert!(!findings_by(&image, of_group(group)).is_empty());
            let staged = stage(&image, &RepairOptions { superblock: of_group(group), ..in_order() });
            assert!(staged.remaining.is_empty(), "{group}: {:#?}", staged.remaining);
            let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
            assert!(done[0].contains("write the superblock of group 0 from a copy"), "{done:#?}");
            write_staged(&image, &staged);
            repair_is_silent(&image).unwrap_or_else(|error| panic!("{group}: {error:#}"));
            let mut sector = [0; 512];
            File::open(&image).unwrap().read_exact_at(&mut sector, 0).unwrap();
            repaired.push(sector);
        }
        // All copies say the same, so that it does not matter which one is named.
        assert!(repaired.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

//! Damaged images: `xfs_db` changes one field of a golden image and makes the checksum right. The check must find something wherever
//! `xfs_repair -n` does, and name what was changed.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, path::Path, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_repair::{CheckOptions, Finding, check, check::all};
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, verdict::repair_findings};
use uxfs_volume::{
    inode::scan::ScanOptions,
    tolerant::TolerantOptions,
    volume::{Volume, VolumeOptions},
};

/// What is changed, by `xfs_db` commands, and the numbers of the findings that must be among those that come.
struct Damage {
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
    /// Findings other than the expected ones may come with them: one field is in several sums.
    is_exact: bool,
    does_repair_see_it: bool,
}

const fn damage(
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
) -> Damage {
    Damage { name, image, commands, expected, is_exact: true, does_repair_see_it: true }
}

const DAMAGES: &[Damage] = &[
    damage("superblock-icount", "default", &["sb 0", "write -d icount 1"], &[11]),
    damage("superblock-fdblocks", "default", &["sb 0", "write -d fdblocks 77"], &[11]),
    damage("superblock-copy", "default", &["sb 1", "write -d logblocks 5000"], &[10]),
    damage("agf-freeblks", "default", &["agf 1", "write -d freeblks 6000"], &[20]),
    damage("agf-longest", "default", &["agf 1", "write -d longest 17"], &[20]),
    damage("agf-btreeblks", "block-1k", &["agf 1", "write -d btreeblks 77"], &[20]),
    damage("agf-rmapblocks", "block-1k", &["agf 1", "write -d rmapblocks 77"], &[20]),
    damage("agi-count", "default", &["agi 0", "write -d count 64"], &[1, 20]),
    damage("agi-freecount", "default", &["agi 0", "write -d freecount 3"], &[20]),
    damage("agi-unlinked", "default", &["agi 0", "write -d unlinked[3] 131"], &[25]),
    damage(
        "bnobt-length",
        "default",
        &["fsblock 1", "agf 2", "addr bnoroot", "write -d recs[1].blockcount 1"],
        &[20, 22, 32],
    ),
    damage("cntbt-start", "default", &["agf 2", "addr cntroot", "write -d recs[1].startblock 3000"], &[22]),
    damage("rmapbt-owner", "default", &["agf 1", "addr rmaproot", "write -d recs[5].owner 133"], &[36, 37]),
    damage("rmapbt-offset", "default", &["agf 2", "addr rmaproot", "write -d recs[7].offset 999"], &[36, 37]),
    damage("refcount", "default", &["agf 0", "addr refcntroot", "write -d recs[1].refcount 9"], &[33]),
    damage("finobt-free", "default", &["agi 0", "addr free_root", "write -d recs[1].free 0x1"], &[1]),
    damage("inode-nlink", "default", &["inode 131", "write -d core.nlinkv2 7"], &[70]),
    damage("inode-nblocks", "default", &["inode 131", "write -d core.nblocks 9"], &[40]),
    damage("root-nlink", "default", &["inode 128", "write -d core.nlinkv2 99"], &[70]),
    damage("root-dot-dot", "default", &["inode 128", "write -d u3.bmx[0].startblock 1"], &[1]),
    damage("inode-crc", "default", &["inode 131", "write -d -c core.size 9"], &[1]),
];

fn findings_of(image: &Path) -> Vec<Finding> {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device.clone(), &VolumeOptions::default())
        .or_else(|_| Volume::open_tolerantly(device, &TolerantOptions::default()))
        .unwrap();
    let mut findings = Vec::new();
    check(&volume, &CheckOptions { scan: ScanOptions::in_order() }, &mut all(&mut findings));
    findings
}

fn write(image: &Path, commands: &[&str]) -> String {
    let mut command = Judge::XfsDb.command();
    command.arg("-x");
    for text in commands {
        command.args(["-c", text]);
    }
    let output = command.arg(image).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn damaged_fields_are_found_where_xfs_repair_finds_them() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    for damage in DAMAGES {
        GoldenImage::named(damage.image).unwrap().unpack_to(&image).unwrap();
        let printed = write(&image, damage.commands);
        let judged = repair_findings(&image).unwrap();
        let findings = findings_of(&image);
        let numbers: BTreeSet<u16> = findings.iter().map(Finding::number).collect();
        let expected: BTreeSet<u16> = damage.expected.iter().copied().collect();
        let is_right = if damage.is_exact { numbers == expected } else { numbers.is_superset(&expected) };
        if !is_right || judged.is_empty() == damage.does_repair_see_it {
            let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
            let judged: Vec<&String> = judged.iter().take(6).collect();
            wrong.push(format!(
                "{}: {numbers:?} {shown:#?}\nxfs_db: {printed}xfs_repair: {judged:#?}",
                damage.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

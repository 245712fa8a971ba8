//! Damaged images: `xfs_db` changes one field of a golden image and makes the checksum right. The check must find something wherever
//! `xfs_repair -n` does, and name what was changed.
#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeSet, path::Path};

use uxfs_repair::{CheckOptions, Finding, memory::Memory, pass::Pass};
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_findings,
};

use common::{findings_of, findings_with, plant};

/// A change by `xfs_db`, and the numbers of all findings that it must give.
struct Damage {
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
}

const fn damage(
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
) -> Damage {
    Damage { name, image, commands, expected }
}

const FILE: &str = "path /link-into-the-deep";
const SHORTFORM: &str = "path /directories/shortform";
const LEAF: &str = "dblock 8388608";

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    damage("superblock-icount", "default", &["sb 0", "write -d icount 1"], &[11]),
    damage("superblock-fdblocks", "default", &["sb 0", "write -d fdblocks 77"], &[11]),
    damage("superblock-copy", "default", &["sb 1", "write -d logblocks 5000"], &[10]),
    damage("agf-freeblks", "default", &["agf 1", "write -d freeblks 6000"], &[20]),
    damage("agf-longest", "default", &["agf 1", "write -d longest 17"], &[20]),
    damage("agf-btreeblks", "block-1k", &["agf 1", "write -d btreeblks 77"], &[20]),
    damage("agf-rmapblocks", "block-1k", &["agf 1", "write -d rmapblocks 77"], &[20]),
    damage("agi-count", "default", &["agi 0", "write -d count 128"], &[20]),
    damage("agi-freecount", "default", &["agi 0", "write -d freecount 3"], &[20]),
    damage("agi-unlinked", "default", &["agi 0", "write -d unlinked[3] 131"], &[25, 27]),
    damage("agi-unlinked-twice", "default", &["agi 0", "write -d unlinked[3] 131", "write -d unlinked[4] 132", "inode 132", "write -d next_unlinked 131"], &[25, 26, 27]),
    damage("agi-unlinked-circle", "default", &["agi 0", "write -d unlinked[3] 131", "inode 131", "write -d next_unlinked 131"], &[25, 26, 27]),
    damage("agi-unlinked-free", "default", &["agi 0", "write -d unlinked[58] 186"], &[25, 28]),
    damage("no-links-and-a-name", "default", &["inode 131202", "write -d core.nlinkv2 0"], &[29, 70]),
    damage("no-links-and-no-name", "default", &["inode 131202", "write -d core.nlinkv2 0", "path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[29, 50, 62]),
    damage("no-links-in-a-list", "default", &["inode 131202", "write -d core.nlinkv2 0", "agi 1", "write -d unlinked[2] 130"], &[25, 70]),
    damage("next-in-no-list", "default", &["inode 131202", "write -d next_unlinked 130"], &[43]),
    damage("next-behind-the-end", "default", &["inode 131202", "write -d next_unlinked 0"], &[43]),
    damage("free-too-short", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 6"], &[11, 20, 22, 32]),
    damage("free-too-long", "default", &["agf 0", "addr bnoroot", "write -d recs[5].blockcount 8"], &[11, 20, 22, 30]),
    damage("free-by-length", "default", &["agf 2", "addr cntroot", "write -d recs[1].startblock 3000"], &[22]),
    damage("owner", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -d recs[16].owner 278496"], &[36, 37]),
    damage("owner-unwritten", "default", &["agf 2", "addr rmaproot", "addr ptrs[1]", "write -d recs[11].extentflag 1"], &[36, 37]),
    damage("reference-count", "default", &["agf 2", "addr refcntroot", "addr ptrs[1]", "write -d recs[1].refcount 9"], &[33]),
    damage("free-inodes-differ", "default", &["agi 0", "addr free_root", "write -d recs[1].free 0x3"], &[23]),
    damage("inode-not-in-use", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0800000000000000", "write -d recs[1].freecount 1"], &[1, 11, 20, 23]),
    damage("inode-not-free", "default", &["agi 0", "addr root", "write -d recs[1].free 0x0c00000080000000", "write -d recs[1].freecount 3"], &[11, 20, 23, 24, 32, 36, 50]),
    damage("inode-checksum", "default", &["path /directories", "write -c core.size 9"], &[1]),
    damage("inode-blocks", "default", &[FILE, "write -d core.nblocks 9"], &[40]),
    damage("links-of-directory", "default", &["path /directories", "write -d core.nlinkv2 7"], &[70]),
    damage("links-of-file", "default", &["path /directories/node/linked", "write -d core.nlinkv2 812"], &[70]),
    damage("cross-link", "default", &[FILE, "write -d u3.bmx[0].startblock 1"], &[31, 32, 36, 37]),
    damage("cross-link-without-reverse-map", "no-rmapbt", &[FILE, "write -d u3.bmx[0].startblock 1"], &[31, 32]),
    damage("file-in-free-space", "no-rmapbt", &[FILE, "write -d u3.bmx[0].startblock 16000"], &[30, 32]),
    damage("entry-of-other-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 131203"], &[61, 62, 70, 72]),
    damage("entry-of-no-inode", "default", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[50, 62, 72]),
    damage("entry-named-as-parent", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"..\""], &[53, 54, 62, 72]),
    damage("entry-type", "default", &["path /directories/block", "dblock 0", "write -d bu[2].filetype 2"], &[51]),
    damage("entry-without-parent-pointers", "no-parent", &["path /directories/block", "dblock 0", "write -d bu[2].inumber 250"], &[50, 72]),
    damage("leaf-hash", "default", &["path /directories/leaf", LEAF, "write -d lents[3].hashval 0x647c2950"], &[55, 56]),
    damage("leaf-best", "default", &["path /directories/leaf", LEAF, "write -d lbests[1] 0x100"], &[57]),
    damage("node-hash", "default", &["path /directories/node", LEAF, "write -d nbtree[1].hashval 0x6fd1750d"], &[58]),
    damage("free-index", "default", &["path /directories/node", "dblock 16777216", "write -d fbests[4] 0x100"], &[57]),
    damage("dot-dot", "default", &[SHORTFORM, "write -d u3.sfdir3.hdr.parent.i4 128"], &[53]),
    damage("name-twice", "default", &[SHORTFORM, "write -d u3.sfdir3.list[0].name \"f1\""], &[54, 61, 62]),
    damage("parent-generation", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.gen 5"], &[61, 62]),
    damage("parent-directory", "default", &["path /special/symlinks/of-30-bytes", "write -d a.sfattr.list[0].parent_dir.inumber 131"], &[61, 62]),
    damage("attribute-first-name", "default", &["path /attributes/leaf", "ablock 0", "write -d hdr.firstused 1000"], &[1]),
];

#[test]
fn damaged_fields_are_found_where_xfs_repair_finds_them() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    for damage in DAMAGES {
        GoldenImage::named(damage.image).unwrap().unpack_to(&image).unwrap();
        let printed = plant(&image, damage.commands);
        let judged = repair_findings(&image).unwrap();
        let findings = findings_of(&image);
        let numbers: BTreeSet<u16> = findings.iter().map(Finding::number).collect();
        for finding in &findings {
            assert!(!finding.fields().is_empty(), "{}: nothing for programs: {finding}", damage.name);
        }
        for number in &numbers {
            must_be_found_by_its_pass(&image, *number, &findings);
        }
        let expected: BTreeSet<u16> = damage.expected.iter().copied().collect();
        if numbers != expected || judged.is_empty() {
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

/// A check without the passes that cannot give a finding, and with the least memory, gives it as the whole check does.
fn must_be_found_by_its_pass(image: &Path, number: u16, findings: &[Finding]) {
    let sentences = |findings: &[Finding]| -> Vec<String> {
        findings.iter().filter(|finding| finding.number() == number).map(ToString::to_string).collect()
    };
    let options = CheckOptions {
        last_pass: Pass::of_number(number),
        memory: Memory::of_bytes(0),
        ..CheckOptions::default()
    };
    assert_eq!(sentences(&findings_with(image, &options)), sentences(findings), "{number}");
}

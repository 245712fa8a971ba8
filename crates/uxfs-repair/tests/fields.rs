//! Single fields that no verifier looks at: `xfs_db` changes one in a golden image. The check gives exactly these findings,
//! `xfs_repair -n` objects too, and it is silent after the repair, which keeps the whole tree.
#![allow(clippy::unwrap_used)]

mod common;

use uxfs_repair::Finding;
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_findings,
};

use common::{findings_of, plant, repair_image};

/// A change by `xfs_db`, the numbers of all findings that it gives, and a part of what the repair says.
struct Damage {
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
    action: &'static str,
}

const fn damage(
    name: &'static str,
    image: &'static str,
    commands: &'static [&'static str],
    expected: &'static [u16],
    action: &'static str,
) -> Damage {
    Damage { name, image, commands, expected, action }
}

const FILE: &str = "path /link-into-the-deep";
const LINK: &str = "path /special/symlinks/of-900-bytes";
const FREE: &str = "inode 186";

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    damage("free-blocks", "default", &[FREE, "write -d core.nblocks 5"], &[74], "make free inode"),
    damage("free-version", "default", &[FREE, "write -d core.version 2"], &[74], "make free inode"),
    damage("free-number", "default", &[FREE, "write -d v3.inumber 5"], &[74], "make free inode"),
    damage("free-checksum", "default", &[FREE, "write -c core.uid 5"], &[74], "make free inode"),
    damage("free-next", "default", &[FREE, "write -d next_unlinked 5"], &[74], "make free inode"),
    damage("free-flags", "default", &[FREE, "write -d core.flags 1"], &[75], "clear flags 0x1 "),
    damage("bitmap-flag", "default", &[FILE, "write -d core.newrtbm 1"], &[75], "clear flags 0x4 "),
    damage("directory-flag", "default", &[FILE, "write -d core.rtinherit 1"], &[75], "clear flags 0x100 "),
    damage("unknown-flag", "default", &["path /directories", "write -d core.flags 0x8000"], &[75], "clear flags 0x8000 "),
    damage("unknown-flag-2", "default", &[FILE, "write -d v3.flags2 0x98"], &[75], "0x80 of the second word"),
    damage("nanoseconds", "default", &[FILE, "write -d v3.bigtime 0"], &[76], "nanoseconds"),
    damage("hint-without-flag", "default", &[FILE, "write -d core.extsize 5"], &[1], "neutral values"),
    damage("flag-without-hint", "default", &[FILE, "write -d core.extsz 1"], &[1], "neutral values"),
    damage("copy-flag-without-hint", "default", &[FILE, "write -d v3.cowextsz 1"], &[1], "neutral values"),
    damage("reflink-of-directory", "default", &["path /directories", "write -d v3.reflink 1"], &[1], "neutral values"),
    damage("realtime", "default", &[FILE, "write -d core.realtime 1"], &[1], "neutral values"),
    damage("metadata", "default", &[FILE, "write -d v3.metadata 1"], &[1], "neutral values"),
    damage("magic", "default", &[FILE, "write -d core.magic 5"], &[1], "neutral values"),
    damage("direct-access", "default", &["path /special/fifo", "write -d v3.dax 1"], &[75], "0x1 of the second word"),
    damage("size-of-fifo", "default", &["path /special/fifo", "write -d core.size 77"], &[41], "clear the size"),
    damage("unwritten-link", "default", &[LINK, "write -d u3.bmx[0].extentflag 1"], &[36, 37, 77], "as written"),
    damage("unwritten-link-without-reverse-map", "no-rmapbt", &[LINK, "write -d u3.bmx[0].extentflag 1"], &[77], "as written"),
    damage("link-too-long", "default", &[LINK, "write -d u3.bmx[0].blockcount 2"], &[33, 37, 40, 79], "take blocks"),
    damage("stripe-width", "default", &["sb 0", "write -d width 5"], &[78], "superblock"),
    damage("realtime-extents", "default", &["sb 0", "write -d rextents 5"], &[78], "superblock"),
    damage("unused-bytes", "default", &["sb 1", "write -d meta_uuid 0cd00d0b-6d9a-4a26-b7f7-d7a1e7b0c1e5"], &[78], "superblock in group 1"),
    damage("quota-in-a-copy", "default", &["sb 1", "write -d uquotino 5"], &[78], "superblock in group 1"),
    damage("log-features-in-a-copy", "default", &["sb 1", "write -d features_log_incompat 2"], &[78], "superblock in group 1"),
    damage("features-against-all-copies", "default", &["sb 0", "write -d features_compat 0x80"], &[10], "as its copies say"),
    damage("sequence-number", "default", &["agf 1", "write -d lsn 0x9000000000000001"], &[1], "clear the log sequence number"),
    damage("access-list-permissions", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\006\\000\\000\\000\\001\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\001\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 1 entries"),
    damage("access-list-tag", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\006\\000\\000\\000\\011\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\000\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 1 entries"),
    damage("access-list-count", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\000\\000\\000\\004\\000\\000\\000\\001\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\002\\000\\000\\003\\350\\000\\004\\000\\000\\000\\000\\000\\004\\377\\377\\377\\377\\000\\004\\000\\000\\000\\000\\000\\010\\000\\000\\000\\144\\000\\007\\000\\000\\000\\000\\000\\020\\377\\377\\377\\377\\000\\006\\000\\000\\000\\000\\000\\040\\377\\377\\377\\377\\000\\000\\000\\000\""], &[1], "; 0 entries"),
    damage("access-list-garbage", "default", &["path /attributes/acl-access", "write -d a.sfattr.list[1].value \"\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\""], &[1], "nothing is sound"),
    damage("mode", "default", &[FILE, "write -d core.mode 0"], &[1], "from what is left of it"),
    damage("mode-of-a-directory", "default", &["path /directories", "write -d core.mode 0"], &[1], "from what is left of it"),
    damage("mode-of-the-root", "default", &["path /", "write -d core.mode 0"], &[1], "from what is left of it"),
    damage("mode-of-a-link", "default", &["path /special/symlinks/of-30-bytes", "write -d core.mode 0"], &[1], "from what is left of it"),
    damage("type-of-parent", "default", &["path /directories/block", "dblock 0", "write -d bu[1].filetype 1"], &[51], "directory"),
];

#[test]
fn fields_are_found_and_repaired_in_place() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    for Damage { name, image: golden, commands, expected, action } in DAMAGES {
        GoldenImage::named(golden).unwrap().unpack_to(&image).unwrap();
        plant(&image, commands);
        let judged = repair_findings(&image).unwrap();
        let findings = findings_of(&image);
        let mut numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
        if numbers != *expected || judged.is_empty() {
            wrong.push(format!("{name}: {numbers:?} {shown:#?}, xfs_repair: {:#?}", judged.first()));
        }
        let staged = repair_image(&image);
        let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
        let left: Vec<String> = staged.remaining.iter().map(ToString::to_string).collect();
        let judged = repair_findings(&image).unwrap();
        let is_said = done.iter().any(|sentence| sentence.contains(action));
        if !is_said || !left.is_empty() || !judged.is_empty() {
            let left: Vec<_> = left.iter().take(4).collect();
            wrong.push(format!(
                "{name}: {done:#?}, left {left:#?}, xfs_repair: {:#?}",
                judged.iter().take(4).collect::<Vec<_>>()
            ));
        }
        assert!(
            !done.iter().any(|sentence| sentence.contains(" up:")),
            "{name}: an inode is given up: {done:#?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

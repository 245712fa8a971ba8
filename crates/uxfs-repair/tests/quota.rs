//! Quota records beside what inodes use: `xfs_repair -n` judges the sound image and each damaged one.

use std::{path::Path, process::Command};

use uxfs_repair::{Finding, finding::severity::Severity};
use uxfs_testkit::{image::memory_folder, judges::Judge, require, verdict::repair_findings, xfs_db::XfsDb};

use crate::common::{findings_of, plant, quota_image, repair_image};

/// Name, commands of `xfs_db`, numbers of all findings, a part of each sentence of the repair, records whose limits it keeps.
type Damage =
    (&'static str, &'static [&'static str], &'static [u16], &'static [&'static str], &'static [&'static str]);

const USERS: &str = "count what each user uses";
const OTHERS: [&str; 2] = ["count what each group uses", "count what each project uses"];

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    ("counts", &["dquot -u 7", "write -d diskdq.bcount 99", "dquot -u 8", "write -d diskdq.icount 1", "dquot -g 9", "write -d diskdq.icount 99", "dquot -p 11", "write -d diskdq.rtbcount 99"],
     &[91], &[USERS, OTHERS[0], OTHERS[1]], &["-u 7", "-g 9", "-p 11"]),
    ("no-record", &["inode 131202", "write -d core.uid 4000000"], &[91, 92], &[USERS], &["-u 7"]),
    ("records", &["dquot -u 1", "write -d diskdq.magic 0", "dquot -u 2", "write -d diskdq.version 0", "dquot -u 3", "write -d diskdq.id 8",
                  "dquot -u 4", "write -d diskdq.type 0x82", "dquot -u 5", "write -d uuid 0cd00d0b-6d9a-4a26-b7f7-d7a1e7b0c1e5",
                  "dquot -u 6", "write -c diskdq.blk_hardlimit 1073741825"],
     &[1], &["keep the limits of user 1", "of user 2", "of user 3", "of user 4", "of user 5", "flip a bit of the quota record of user 6", USERS],
     &["-u 1", "-u 2", "-u 3", "-u 4", "-u 5", "-u 6"]),
    ("size", &["inode 132750", "write -d core.size 4096"], &[93], &["clear the size of quota inode 132750"], &["-u 7"]),
    ("no-file", &["sb 0", "write -d uquotino 131"], &[72, 91, 93],
     &["name inode 132750", "btrees of allocation group 0", "recount inodes and free blocks", "forget inode 131"], &[]),
];

#[test]
fn records_and_counts_are_compared_with_inodes() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (sound, image) = (folder.path().join("sound"), folder.path().join("image"));
    quota_image::make(&sound);
    assert_eq!(repair_findings(&sound).unwrap(), Vec::<String>::new());
    assert_eq!(sentences(&findings_of(&sound)), Vec::<String>::new());
    let mut wrong = Vec::new();
    for (name, commands, expected, actions, kept) in DAMAGES {
        copy(&sound, &image);
        plant(&image, commands);
        let judged = repair_findings(&image).unwrap();
        let findings = findings_of(&image);
        let mut numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers != *expected || judged.is_empty() {
            wrong.push(format!("{name}: {numbers:?} {:#?}, xfs_repair: {judged:#?}", sentences(&findings)));
        }
        assert!(findings.iter().all(|finding| finding.severity() > Severity::Leftover), "{name}");
        let staged = repair_image(&image);
        let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
        let is_said = done.len() == actions.len()
            && done.iter().zip(*actions).all(|(sentence, part)| sentence.contains(part));
        let judged = repair_findings(&image).unwrap();
        if !is_said || !staged.remaining.is_empty() || !judged.is_empty() {
            let left = sentences(&staged.remaining);
            wrong.push(format!("{name}: {done:#?}, left {left:#?}, xfs_repair: {judged:#?}"));
        }
        for owner in *kept {
            assert_eq!(limit_of(&image, owner), quota_image::LIMIT_BLOCKS, "{name} {owner}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn sentences(findings: &[Finding]) -> Vec<String> {
    findings.iter().take(8).map(ToString::to_string).collect()
}

fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    assert!(command.arg(from).arg(to).status().unwrap().success());
}

fn limit_of(image: &Path, owner: &str) -> u64 {
    let printed = XfsDb::new(image).run(&[&format!("dquot {owner}"), "print diskdq.blk_hardlimit"]).unwrap();
    printed.rsplit(' ').next().unwrap().trim().parse().unwrap()
}

//! The metadata directory tree: Linux does not mount without its root, and takes entries for damage that lead from one tree into the other.

use std::{fs, os::unix::fs::FileExt, path::Path};

use uxfs_repair::Finding;
use uxfs_testkit::{
    golden::GoldenImage,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    verdict::{repair_findings, repair_is_silent},
    xfs_db::XfsDb,
};

use crate::common::{findings_of, plant, repair_image, repair_image_without_log, try_all};

/// The root of the tree, and the directory of realtime groups in it.
const ROOT: u64 = 129;
const GROUPS: u64 = 278_272;

enum Damage {
    /// Commands of `xfs_db`, the number of a finding, and a word of what the repair says.
    Fields(&'static [&'static str], u16, &'static str),
    /// Inodes that are zeros then.
    Inodes(&'static [u64]),
    /// The cluster of both root directories.
    Cluster,
    /// The root, and no superblock names it: so it is where the first one comes from a copy.
    Unnamed,
}

#[rustfmt::skip]
const DAMAGES: &[Damage] = &[
    Damage::Cluster,
    Damage::Unnamed,
    Damage::Inodes(&[ROOT]),
    Damage::Inodes(&[GROUPS]),
    Damage::Inodes(&[ROOT, GROUPS]),
    Damage::Inodes(&[128, ROOT, GROUPS]),
    Damage::Fields(&["sb 0", "write -d metadirino 0"], 12, "write the root of the metadata directory tree"),
    Damage::Fields(&["sb 0", "write -d metadirino 128"], 94, "write the root of the metadata directory tree"),
    Damage::Fields(&["sb 0", "write -d metadirino 130"], 94, "write the root of the metadata directory tree"),
    Damage::Fields(&["inode 129", "write -d core.metatype 0", "write -d v3.metadata 0"], 94, "mark inode 129 as part"),
    Damage::Fields(&["inode 129", "write -d core.metatype 5"], 94, "mark inode 129 as part"),
    Damage::Fields(&["inode 278272", "write -d core.metatype 0", "write -d v3.metadata 0"], 95, "mark inode 278272 as part"),
    Damage::Fields(&["inode 129", "write -d u3.sfdir3.list[0].inumber.i4 131200"], 95, "rtgroups"),
];

#[test]
fn what_linux_demands_of_the_tree_is_found_and_brought_back() {
    require!(Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let golden = GoldenImage::lean("metadir").unwrap();
    let with_log = DAMAGES.iter().take(2).map(|damage| (damage, true));
    let cases: Vec<_> = DAMAGES.iter().map(|damage| (damage, false)).chain(with_log).collect();
    let wrong = try_all(&cases, |(damage, with_log), image| {
        golden.unpack_to(image).unwrap();
        let (name, number, said) = match damage {
            Damage::Fields(commands, number, said) => {
                plant(image, commands);
                (format!("{commands:?}"), Some(*number), *said)
            }
            Damage::Inodes(inodes) => {
                inodes.iter().for_each(|inode| zero(image, *inode, 512));
                (format!("inodes {inodes:?}"), None, "")
            }
            Damage::Cluster => {
                zero(image, 128, 16384);
                ("the cluster of the roots".to_owned(), None, "")
            }
            Damage::Unnamed => {
                zero(image, ROOT, 512);
                plant(image, &["sb 0", "write -d metadirino 0xffffffffffffffff"]);
                ("no root".to_owned(), Some(12), "write the root of the metadata directory tree")
            }
        };
        wrong_after_repair(image, *with_log, &format!("{name}, log {with_log}"), (number, said))
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_after_repair(
    image: &Path,
    with_log: bool,
    name: &str,
    (number, said): (Option<u16>, &str),
) -> Vec<String> {
    let mut wrong = Vec::new();
    let findings = findings_of(image);
    let numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
    if findings.is_empty() || number.is_some_and(|number| !numbers.contains(&number)) {
        wrong.push(format!("{name}: {numbers:?}; xfs_repair: {:?}", repair_findings(image)));
    }
    let staged = if with_log { repair_image(image) } else { repair_image_without_log(image) };
    let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
    if !staged.remaining.is_empty() || !done.iter().any(|sentence| sentence.contains(said)) {
        wrong.push(format!("{name}: {done:#?}, left {:#?}", staged.remaining));
    }
    if let Err(error) = repair_is_silent(image) {
        wrong.push(format!("{name}: {error:#}"));
    }
    if let Err(error) = LoopMount::new(image, Access::ReadOnlyNoRecovery).and_then(LoopMount::unmount) {
        wrong.push(format!("{name}: Linux does not mount it: {error:#}"));
    }
    wrong
}

fn zero(image: &Path, inode: u64, length: usize) {
    let printed = XfsDb::new(image).run(&[format!("convert ino {inode} daddr")]).unwrap();
    let sector = printed.split(['(', ')']).nth(1).unwrap().parse::<u64>().unwrap();
    let file = fs::File::options().write(true).open(image).unwrap();
    file.write_all_at(&vec![0; length], sector * 512).unwrap();
}

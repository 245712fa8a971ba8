//! `uxfs metadump` and `uxfs mdrestore`, each with the other program's dumps.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Stdio,
};

use tempfile::TempDir;
use uxfs_block::zeros::is_zero;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::{Judge, all_present, judged},
    seeds::Part,
    verdict::{repair_findings, repair_is_silent},
    xfs_db::XfsDb,
};

use crate::common::{program, succeeds, text, uxfs};

const OPTIONS: [&[&str]; 4] = [&[], &["-a"], &["-o"], &["-o", "-a"]];

fn folder() -> TempDir {
    tempfile::tempdir_in(memory_folder()).unwrap()
}

fn dump(image: &Path, dump: &Path, options: &[&str]) {
    succeeds(&[&["metadump", text(image), text(dump)], options].concat());
}

fn restore_with_theirs(dump: &Path, image: &Path) {
    let output = Judge::XfsMdrestore.command().arg(dump).arg(image).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Part of the golden images whose index leaves this rest.
fn golden_images_survive(rest: usize) {
    if !all_present(&[Judge::XfsMdrestore, Judge::XfsRepair], "dumps of golden images") {
        return;
    }
    let (folder, part) = (folder(), Part::of_run(2));
    let is_tried = |index: usize| index % 2 == rest && part.has(index / 2);
    for (index, golden) in
        GoldenImage::all().unwrap().iter().enumerate().filter(|(index, _)| is_tried(*index))
    {
        let image = golden.unpacked().unwrap();
        let options = OPTIONS[index / 2 % OPTIONS.len()];
        let (file, restored) = (folder.path().join("dump"), folder.path().join("restored"));
        dump(&image, &file, options);
        restore_with_theirs(&file, &restored);
        repair_is_silent(&restored).unwrap();
        judged("xfs_repair", &format!("a dump with {options:?} of {}", golden.name()));
        fs::remove_file(&restored).unwrap();
    }
}

#[test]
fn golden_images_survive_a_dump() {
    golden_images_survive(0);
}

#[test]
fn other_golden_images_survive_a_dump() {
    golden_images_survive(1);
}

/// Calls `each` for the pieces of two files that are not the same.
fn compare(one: &Path, other: &Path, mut each: impl FnMut(u64, &[u8], &[u8])) {
    let (one, other) = (File::open(one).unwrap(), File::open(other).unwrap());
    assert_eq!(one.metadata().unwrap().len(), other.metadata().unwrap().len());
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for offset in (0..one.metadata().unwrap().len()).step_by(1 << 20) {
        let length = one.read_at(&mut left, offset).unwrap();
        other.read_exact_at(&mut right[..length], offset).unwrap();
        if left[..length] == right[..length] {
            continue;
        }
        for start in (0..length).step_by(512) {
            let range = start..start + 512;
            if left[range.clone()] != right[range.clone()] {
                each(offset + start as u64, &left[range.clone()], &right[range]);
            }
        }
    }
}

#[test]
fn blocks_are_theirs_and_as_they_were() {
    if !all_present(&[Judge::XfsMdrestore, Judge::XfsDb], "metadump of both programs") {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for name in ["default", "directory-64k", "no-rmapbt", "dirty-log"] {
        let image = GoldenImage::named(name).unwrap().unpacked().unwrap();
        for (file, command) in [("theirs", "metadump -v 2 -o -a"), ("theirs1", "metadump -v 1 -o -a")] {
            let _ = fs::remove_file(at(file));
            XfsDb::new(&image).run(&[format!("{command} {}", at(file).display())]).unwrap();
        }
        dump(&image, &at("ours"), &["-o", "-a"]);
        for file in ["theirs", "theirs1", "ours"] {
            let (by_theirs, by_ours) = (at(&format!("{file}.by-theirs")), at(&format!("{file}.by-ours")));
            let _ = (fs::remove_file(&by_theirs), fs::remove_file(&by_ours));
            restore_with_theirs(&at(file), &by_theirs);
            succeeds(&["mdrestore", text(&at(file)), text(&by_ours)]);
            // They write some fields of quota inodes anew, which this image has from an older mkfs.
            compare(&by_ours, &by_theirs, |offset, _, _| {
                assert!(name == "dirty-log" && offset == 0, "{name} {file}: {offset}")
            });
        }
        // Whatever was not dumped is zero.
        compare(&at("ours.by-ours"), &image, |offset, ours, _| assert!(is_zero(ours), "{name}: {offset}"));
        compare(&at("ours.by-ours"), &at("theirs.by-ours"), |offset, ours, theirs| {
            assert!(is_zero(theirs) && !is_zero(ours), "{name}: {offset} is missing or another");
        });
        judged("xfs_mdrestore", &format!("dumps of {name} by both programs"));
    }
}

/// Names of entries and of attributes, and parts of targets of links, that have to be hidden.
fn names_in(golden: &GoldenImage) -> HashSet<Vec<u8>> {
    let mut names = HashSet::new();
    let manifest = golden.manifest().unwrap();
    for entry in &manifest.entries {
        let path = entry.path.0.split(|byte| *byte == b'/').map(<[u8]>::to_vec);
        names.extend(path);
        let Some(details) = &entry.details else { continue };
        let target = details.target.iter().flat_map(|target| target.0.split(|byte| *byte == b'/'));
        names.extend(target.map(<[u8]>::to_vec));
        let attributes = details.attributes.iter().flatten().map(|attribute| &attribute.name.0);
        names.extend(
            attributes.filter_map(|name| name.splitn(2, |byte| *byte == b'.').nth(1).map(<[u8]>::to_vec)),
        );
    }
    names.retain(|name| name.len() >= 5 && name != b"lost+found");
    names
}

#[test]
fn names_are_gone() {
    let folder = folder();
    for name in ["default", "ascii-ci"] {
        let golden = GoldenImage::named(name).unwrap();
        let names = names_in(&golden);
        assert!(names.len() > 100, "{name}: {}", names.len());
        let mut by_start: HashMap<[u8; 5], Vec<&[u8]>> = HashMap::new();
        for name in &names {
            by_start.entry(*name.first_chunk().unwrap()).or_default().push(name);
        }
        let starts: HashSet<u8> = names.iter().map(|name| name[0]).collect();
        let file = folder.path().join("dump");
        dump(&golden.unpacked().unwrap(), &file, &[]);
        let bytes = fs::read(&file).unwrap();
        for (offset, byte) in bytes.iter().enumerate() {
            if !starts.contains(byte) {
                continue;
            }
            let rest = &bytes[offset..];
            let Some(candidates) = rest.first_chunk().and_then(|start: &[u8; 5]| by_start.get(start)) else {
                continue;
            };
            let found = candidates.iter().find(|candidate| rest.starts_with(candidate));
            assert!(found.is_none(), "{name}: {} at byte {offset}", found.unwrap().escape_ascii());
        }
    }
}

/// Damages by their `xfs_db` commands: some that walks pass over, and some that hide where metadata lies.
const DAMAGES: [(&str, &[&str]); 3] = [
    (
        "files",
        &[
            "path /directories/block",
            "dblock 0",
            "write -d bu[2].inumber 250",
            "inode 131202",
            "write -c core.size 9",
            "agf 2",
            "addr rmaproot",
            "addr ptrs[1]",
            "write -d recs[16].owner 278496",
        ],
    ),
    ("inode index", &["agi 0", "addr root", "write -c numrecs 700", "agf 1", "write -c bnoroot 5"]),
    ("headers", &["agf 0", "write -c magicnum 5", "agi 1", "write -c root 7"]),
];

#[test]
fn damage_stays_what_it_is() {
    if !all_present(&[Judge::XfsMdrestore, Judge::XfsRepair, Judge::XfsDb], "dumps of damaged images") {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    for (name, commands) in DAMAGES {
        let image = at("image");
        GoldenImage::named("default").unwrap().unpack_to(&image).unwrap();
        XfsDb::new(&image).write(commands).unwrap();
        let findings = |image: &Path| {
            // An address in the memory of xfs_repair stands before the comma.
            let mut findings: Vec<String> = repair_findings(image).unwrap();
            for line in findings.iter_mut().filter(|line| line.contains(" detected at 0x")) {
                *line = line.split_once(", ").map_or_else(String::new, |(_, rest)| rest.to_owned());
            }
            // And here before the colon.
            for line in findings.iter_mut().filter(|line| line.contains(": Badness in key lookup")) {
                *line = line.split_once(": ").map_or_else(String::new, |(_, rest)| rest.to_owned());
            }
            findings.sort();
            findings
        };
        let expected = findings(&image);
        assert!(!expected.is_empty(), "{name}: xfs_repair sees the damage");
        dump(&image, &at("dump"), &["-o", "-a"]);
        succeeds(&["mdrestore", "-f", text(&at("dump")), text(&at("restored"))]);
        assert_eq!(findings(&at("restored")), expected, "{name}");
        dump(&image, &at("dump"), &[]);
        restore_with_theirs(&at("dump"), &at("restored"));
        let found = findings(&at("restored"));
        assert_eq!(found.is_empty(), expected.is_empty(), "{name}, obfuscated: {found:?}");
        judged("xfs_repair", &format!("the dump of an image with damaged {name}"));
    }
}

#[test]
fn a_damaged_superblock_comes_back_damaged() {
    if !all_present(&[Judge::XfsMdrestore, Judge::XfsRepair, Judge::XfsDb], "a dump without a superblock") {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    GoldenImage::named("default").unwrap().unpack_to(&at("image")).unwrap();
    let file = File::options().write(true).open(at("image")).unwrap();
    file.write_all_at(&[0x5a; 512], 0).unwrap();
    dump(&at("image"), &at("dump"), &["-o"]);
    succeeds(&["mdrestore", text(&at("dump")), text(&at("restored"))]);
    let mut sector = [0; 512];
    File::open(at("restored")).unwrap().read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [0x5a; 512]);
    // Theirs takes the first superblock that comes, which is one that it can use.
    restore_with_theirs(&at("dump"), &at("by-theirs"));
    assert!(!repair_findings(&at("by-theirs")).unwrap().iter().any(|line| line.contains("superblock magic")));
}

#[test]
fn streams_flags_and_refusals() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    succeeds(&["mkfs", "--unsupported", "--size", "64M", text(&at("image"))]);
    succeeds(&["shell", text(&at("image")), "-c", "mkdir /secret-folder; touch /secret-folder/secret-file"]);
    let shown = succeeds(&["--json", "metadump", text(&at("image")), text(&at("dump"))]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["obfuscated"], &shown["dirty_log"], &shown["damages"]),
        (&true.into(), &false.into(), &0.into())
    );
    assert_eq!(shown["bytes"], fs::metadata(at("dump")).unwrap().len());
    let information = succeeds(&["mdrestore", "-i", text(&at("dump"))]);
    assert!(
        information.ends_with("version 2, obfuscated, clean log, unused bytes zeroed\n"),
        "{information}"
    );
    // Through pipes.
    let piped = uxfs(&["metadump", "-o", text(&at("image")), "-"]);
    assert!(piped.status.success());
    fs::write(at("piped"), &piped.stdout).unwrap();
    let mut command = std::process::Command::new(program());
    command
        .args(["mdrestore", "-", text(&at("restored"))])
        .stdin(Stdio::from(File::open(at("piped")).unwrap()));
    assert!(command.status().unwrap().success());
    assert!(succeeds(&["ls", "-R", text(&at("restored"))]).contains("secret-file"));
    succeeds(&["check", text(&at("restored"))]);
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = uxfs(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
    };
    let (dump, restored, fresh) = (at("dump"), at("restored"), at("fresh"));
    refused(&["mdrestore", text(&dump), text(&restored)], 1, "the file is not empty");
    succeeds(&["mdrestore", "-f", text(&dump), text(&restored)]);
    assert!(!succeeds(&["ls", "-R", text(&restored)]).contains("secret"));
    refused(&["mdrestore", text(&at("image")), text(&fresh)], 1, "not a metadata dump");
    refused(
        &["metadump", text(&at("image")), text(&at("image"))],
        2,
        "the image itself would be overwritten",
    );
    fs::write(at("other"), "other").unwrap();
    refused(
        &["metadump", text(&at("image")), text(&at("other"))],
        2,
        "something else than a dump of metadata",
    );
    assert_eq!(fs::read(at("other")).unwrap(), b"other");
    fs::copy(&dump, at("old")).unwrap();
    refused(&["metadump", text(&dump), text(&at("old"))], 1, "not an XFS file system");
    let old = fs::read(at("old")).unwrap();
    assert!(old == fs::read(&dump).unwrap(), "a target stays where there is nothing to dump");
    let mut bytes = fs::read(&dump).unwrap();
    fs::write(at("cut"), &bytes[..bytes.len() - 100]).unwrap();
    refused(&["mdrestore", text(&at("cut")), text(&fresh)], 3, "cut off");
    bytes[24 + 12 + 512] = 0x01;
    fs::write(at("far"), &bytes).unwrap();
    refused(&["mdrestore", text(&at("far")), text(&fresh)], 3, "an extent");
    bytes[15] = 1;
    fs::write(at("realtime"), &bytes).unwrap();
    refused(&["mdrestore", text(&at("realtime")), text(&fresh)], 4, "realtime device");
    assert!(!fresh.exists(), "what was begun is removed");
}

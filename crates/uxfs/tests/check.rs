//! `uxfs check`, as people and scripts use it.

use std::{fs, os::unix::fs::FileExt, path::Path, process::Output};

use serde_json::Value as Json;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require, sparse,
    verdict::repair_is_silent,
    xfs_db::XfsDb,
};

use crate::common::{program, succeeds, text, tree, uxfs};

fn check(image: &Path, options: &[&str]) -> Output {
    uxfs(&[&["check"], options, &[text(image)]].concat())
}

fn documents(output: &Output) -> Vec<Json> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A golden image in which `xfs_db` has changed something.
fn changed(name: &str, folder: &Path, commands: &[&str]) -> std::path::PathBuf {
    let image = folder.join("image");
    GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
    let mut command = Judge::XfsDb.command();
    command.arg("-x");
    for text in commands {
        command.args(["-c", text]);
    }
    command.arg(&image).output().unwrap();
    image
}

#[test]
fn sound_images_have_no_findings_and_are_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    for golden in [GoldenImage::lean("default").unwrap(), GoldenImage::dirty_log()] {
        golden.unpack_to(&image).unwrap();
        let before = fs::read(&image).unwrap();
        let output = check(&image, &[]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", golden.name(), shown(&output));
        assert!(shown(&output).ends_with("nothing found\n"), "{}", shown(&output));
        let documents = documents(&check(&image, &["--json"]));
        assert_eq!((documents.len(), &documents[0]["findings"]), (1, &0.into()), "{documents:?}");
        let is_dirty = golden.name() == GoldenImage::dirty_log().name();
        assert_eq!(documents[0]["log_recovered_in_memory"], is_dirty);
        assert_eq!(shown(&output).contains("the log is dirty"), is_dirty);
        assert!(before == fs::read(&image).unwrap(), "{} was changed", golden.name());
    }
    let on_device = documents(&check(&image, &["--ignore-log", "--json"]));
    assert_eq!(on_device.last().unwrap()["log_recovered_in_memory"], false);
}

#[test]
fn findings_have_number_severity_place_and_paths() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let commands = [
        "path /link-into-the-deep",
        "write -d core.nlinkv2 9",
        "agf 1",
        "write -d btreeblks 1",
        "sb 0",
        "write -d icount 1",
    ];
    let image = changed("default", folder.path(), &commands);
    let output = check(&image, &["--json"]);
    assert_eq!(output.status.code(), Some(3));
    let all = documents(&output);
    let of = |number: u64| all.iter().find(|found| found["number"] == number).unwrap();
    let links = of(70);
    assert_eq!((&links["severity"], &links["fields"]["found"]), (&"inconsistent".into(), &9.into()));
    let paths: Vec<_> = links["paths"].as_array().unwrap().iter().map(|path| &path["path"]).collect();
    assert!(paths.len() == 2 && paths.contains(&&"/link-into-the-deep".into()), "{paths:?}");
    assert_eq!(links["object"]["inode"], links["fields"]["inode"]);
    assert_eq!((&of(20)["object"]["group"], &of(20)["fields"]["found"]), (&1.into(), &1.into()));
    assert_eq!(of(11)["fields"]["counter"], "inodes");
    let summary = all.last().unwrap();
    assert_eq!((&summary["type"], &summary["findings"]), (&"summary".into(), &(all.len() - 1).into()));
    assert!(all.iter().all(|document| document["schema_version"] == 1));

    let words = shown(&check(&image, &[]));
    assert!(words.contains("[70] inconsistent: inode "), "{words}");
    let remedy = format!("uxfs repair -n {} shows what a repair would do\n", text(&image));
    for options in [&[][..], &["--summary"]] {
        assert!(shown(&check(&image, options)).ends_with(&remedy), "{words}");
    }
    assert!(!shown(&output).contains("repair -n"), "JSON has none");
    assert!(words.contains(" is /link-into-the-deep\n"), "{words}");
    let counts = shown(&check(&image, &["--summary"]));
    assert!(counts.contains("[70] inconsistent: 1 (a link count is wrong)\n"), "{counts}");
    assert!(!counts.contains("/link-into-the-deep"), "{counts}");

    // Each choice, and what it leaves.
    let numbers = |options: &[&str]| -> Vec<u64> {
        let all = documents(&check(&image, &[options, &["--json"]].concat()));
        all.iter().filter_map(|document| document["number"].as_u64()).collect()
    };
    assert_eq!(numbers(&["--only", "70"]), [70]);
    assert_eq!(numbers(&["--only", "11,20"]).len(), 2);
    assert_eq!(numbers(&["--only", "damaged"]), [0_u64; 0]);
    assert_eq!(numbers(&["--ag", "1"]), [20]);
    assert_eq!(numbers(&["--path", "/link-into-the-deep"]), [70]);
    let inode = links["fields"]["inode"].to_string();
    assert_eq!(numbers(&["--inode", &inode]), [70]);
    assert_eq!(check(&image, &["--only", "damaged"]).status.code(), Some(0));
    assert_eq!(check(&image, &["--only", "nonsense"]).status.code(), Some(2));
    refuses(&image, &["--only", "99"], 2, "no finding has this number; there are 1-12, 20-38, ");
    // Nothing found of an inode means something of one that is there only.
    refuses(&image, &["--inode", "18446744073709551615"], 2, "uxfs inodes IMAGE lists");
    refuses(&image, &["--inode", "9000"], 1, "inode 9000 is not in use, and nothing was found about it");
    assert_eq!(check(&image, &["--inode", "128"]).status.code(), Some(0));
    assert_eq!(check(&image, &["--ag", "4"]).status.code(), Some(2));
    assert_eq!(check(&image, &["--path", "/nowhere"]).status.code(), Some(1));
}

fn refuses(image: &Path, options: &[&str], code: i32, expected: &str) {
    for json in [&[][..], &["--json"]] {
        let output = check(image, &[options, json].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {words}");
        assert!(
            words.contains(expected) && !shown(&output).contains("nothing found"),
            "{options:?}: {words}"
        );
        // A command line that cannot be parsed is told as text.
        if !json.is_empty() && !words.starts_with("error: ") {
            let told: Json = serde_json::from_str(&words).unwrap();
            assert_eq!(told["error"]["exit_code"], code);
        }
    }
}

/// An inode in a group whose index cannot be read: not in use would be a guess, and nothing found a lie.
/// The exit code tells whether the image is damaged, also where no text can be printed.
#[test]
fn a_reader_that_has_gone_changes_no_code() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, page) = (folder.path().join("image"), folder.path().join("page"));
    GoldenImage::lean("groups-2").unwrap().unpack_to(&image).unwrap();
    let code = |options: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(program());
        command.arg("check").args(options).arg(&image).stdout(writer);
        let output = command.output().unwrap();
        assert!(output.stderr.is_empty(), "{options:?}: {output:?}");
        output.status.code()
    };
    let cases: [&[&str]; 5] =
        [&[], &["-s"], &["--json"], &["--html", text(&page)], &["--html", "/dev/stdout"]];
    for options in cases {
        assert_eq!(code(options), Some(0), "{options:?}");
    }
    let sound = fs::read(&page).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0x5a; 3 * 512], 512).unwrap();
    for options in cases {
        assert_eq!(code(options), Some(3), "{options:?}");
    }
    assert!(fs::read(&page).unwrap() != sound, "the page was not written");
}

#[test]
fn an_inode_that_cannot_be_looked_up_was_not_checked() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = changed("default", folder.path(), &["agi 0", "write -d magicnum 0"]);
    refuses(&image, &["--inode", "9000"], 3, "inode 9000 was not checked: ");
}

/// Each command says of its options what it does with them.
#[test]
fn helps_tell_of_options_that_there_are() {
    for command in ["check", "repair", "rescue", "metadump"] {
        let help = succeeds(&[command, "--help"]);
        assert!(help.contains("Use the superblock of allocation group N"), "{command}: {help}");
        // The text about --plan names an option of other commands.
        let has = |option: &str| help.lines().any(|line| line.starts_with(&format!("      {option}")));
        assert!(!has("--tolerant") && !has("--repaired"), "{command}: {help}");
        assert!(has("--superblock") && has("--json"), "{command}: {help}");
    }
}

/// A damaged first sector: a copy of it serves, with a word. Without any the message of a listing names the commands that look at such an
/// image.
#[test]
fn listing_an_image_without_superblock_names_what_can_look_at_it() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    fs::OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&[0; 512], 0).unwrap();
    let output = uxfs(&["ls", text(&image)]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{words}");
    assert!(words.contains("in allocation group 1 is used") && words.contains("uxfs repair"), "{words}");
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    let group_bytes = fs::metadata(&image).unwrap().len() / 4;
    (1..4).for_each(|group| file.write_all_at(&[0; 512], group * group_bytes).unwrap());
    let output = uxfs(&["ls", text(&image)]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    for expected in ["not an XFS file system", "--offset", "uxfs check", "--repaired"] {
        assert!(words.contains(expected), "{words}");
    }
    assert!(uxfs(&["ls", "--repaired", text(&image)]).status.success());
}

/// Commands that take damaged images agree about what is no file system, and about a superblock that cannot be there.
#[test]
fn what_is_no_file_system_is_told_alike() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, to) = (folder.path().join("image"), folder.path().join("to"));
    let commands: [&[&str]; 5] =
        [&["check"], &["repair"], &["repair", "-n"], &["rescue", "--to", text(&to)], &["ls", "--repaired"]];
    let told = |options: &[&str], code: i32, expected: &str| {
        for command in commands {
            let output = uxfs(&[command, options, &["--json", text(&image)]].concat());
            let words = String::from_utf8_lossy(&output.stderr);
            let line = words.lines().last().unwrap();
            let told: Json = serde_json::from_str(line).unwrap_or_else(|_| panic!("{command:?}: {words}"));
            assert_eq!(
                (output.status.code(), &told["error"]["exit_code"]),
                (Some(code), &code.into()),
                "{command:?}: {words}"
            );
            assert!(words.contains(expected), "{command:?}: {words}");
        }
        assert!(!to.exists());
    };
    for contents in [vec![], b"text".to_vec(), vec![0; 1 << 20]] {
        fs::write(&image, contents).unwrap();
        told(&[], 1, "not an XFS file system");
    }
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    told(&["--superblock", "7"], 2, "--superblock 7: there is no such allocation group");
}

#[test]
fn an_image_without_its_first_superblock_is_checked_by_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    let output = check(&image, &["--json"]);
    assert_eq!(output.status.code(), Some(3));
    let all = documents(&output);
    assert!(all.iter().any(|found| found["number"] == 6), "{all:?}");
    // No damage but that of this superblock and its counters.
    let others: Vec<_> = all.iter().filter(|found| found["type"] == "finding").collect();
    assert!(
        others.iter().all(|found| [1, 6, 11].contains(&found["number"].as_u64().unwrap())),
        "{others:#?}"
    );
    file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    file.set_len(1 << 20).unwrap();
    let output = check(&image, &[]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("not an XFS file system"), "{words}");
}

#[test]
fn a_mounted_image_is_refused_unless_asked_for() {
    require!(Judge::Kernel);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let refused = check(&image, &[]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("mounted") && words.contains("--no-lock"), "{words}");
    assert!(matches!(check(&image, &["--no-lock"]).status.code(), Some(0 | 3)));
    mount.unmount().unwrap();
    assert_eq!(check(&image, &[]).status.code(), Some(0));
}

/// A compressed image is the same to commands on damaged images as the plain one: also without its first superblock, and without any.
#[test]
fn compressed_images_without_superblocks_are_as_plain_ones() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, packed) = (folder.path().join("image"), folder.path().join("image.zst"));
    let source = folder.path().join("source");
    tree(&source);
    succeeds(&[
        "mkfs",
        "--unsupported",
        "--size",
        "32M",
        "-d",
        "agcount=2",
        "--from",
        text(&source),
        text(&image),
    ]);
    let group_bytes = fs::metadata(&image).unwrap().len() / 2;
    for (group, what) in ["first", "all"].into_iter().enumerate() {
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.write_all_at(&[0; 512], group as u64 * group_bytes).unwrap();
        fs::write(&packed, zstd::encode_all(fs::File::open(&image).unwrap(), 1).unwrap()).unwrap();
        let commands: [&[&str]; 4] = [
            &["check", "--threads", "1"],
            &["repair", "--dry-run"],
            &["ls", "-lR", "--repaired"],
            &["ls", "--tolerant"],
        ];
        for command in commands {
            let [plain, packed] = [&image, &packed].map(|image| uxfs(&[command, &[text(image)]].concat()));
            assert_eq!(plain.status.code(), packed.status.code(), "{command:?}, {what}");
            let told = shown(&packed).replace("image.zst", "image");
            // Only the plain one can be repaired where it lies.
            let shown = shown(&plain);
            let expected = shown.lines().filter(|line| !line.starts_with("  to repair it: "));
            assert!(told.lines().eq(expected) && !told.is_empty(), "{command:?}, {what}");
        }
        let rescue = |image: &Path, to: &str| {
            let to = folder.path().join(format!("{to}-{what}"));
            uxfs(&["rescue", text(image), "--only", "/folder", "--verbose", "--to", text(&to)])
        };
        let [plain, unpacked] = [rescue(&image, "plain"), rescue(&packed, "packed")];
        assert_eq!(
            (plain.status.code(), shown(&plain)),
            (unpacked.status.code(), shown(&unpacked)),
            "{what}"
        );
        assert!(shown(&plain).contains("whole    /folder/"), "{}", shown(&plain));
    }
    let refused = uxfs(&["repair", text(&packed)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unpack it: zstd -d"), "{refused:?}");
}

/// A header that cannot be read is one finding, and no inode of its group is called free for that. Other damage is still found.
#[test]
fn an_unreadable_header_is_one_finding() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    for (name, groups) in [("no-feature", 4), ("groups-2", 2)] {
        let golden = GoldenImage::lean(name).unwrap();
        for (group, sector) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
            golden.unpack_to(&image).unwrap();
            let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
            let group_bytes = fs::metadata(&image).unwrap().len() / groups;
            file.write_all_at(&[0; 512], group * group_bytes + sector * 512).unwrap();
            let found = documents(&check(&image, &["--json"]));
            let numbers: Vec<_> = found.iter().filter_map(|found| found["number"].as_u64()).collect();
            assert_eq!(numbers, [1], "{name}, sector {sector} of group {group}: {found:#?}");
        }
    }
    // The inode index of group 1 is gone, and the link count of a directory in group 0 is wrong.
    XfsDb::new(&image).write(&["path /", "write -d core.nlinkv2 77"]).unwrap();
    let numbers: Vec<_> =
        documents(&check(&image, &["--json"])).iter().filter_map(|found| found["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 70]);
    succeeds(&["repair", text(&image)]);
    repair_is_silent(&image).unwrap();
}

/// A group of another time, and one of another file system: one line says so, with what is to be known before a repair.
#[test]
fn groups_of_another_time_or_file_system_are_told() {
    require!(Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, old) = (folder.path().join("image"), folder.path().join("old"));
    GoldenImage::lean("groups-2").unwrap().unpack_to(&old).unwrap();
    sparse::copy(&old, &image).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    let (mut open, mut count) = (vec![mount.path().to_path_buf()], 0);
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap().map(Result::unwrap) {
            let file_type = entry.file_type().unwrap();
            if file_type.is_dir() {
                open.push(entry.path());
            } else if file_type.is_file() {
                let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
                // Some are immutable.
                count += u32::from(fs::File::open(entry.path()).unwrap().set_times(times).is_ok());
            }
        }
    }
    mount.unmount().unwrap();
    assert!(count > 100, "{count}");
    assert!(!shown(&check(&image, &["--no-paths"])).contains("looks like a part"));
    let second_half = |from: &Path| {
        let bytes = fs::read(from).unwrap();
        let half = bytes.len() / 2;
        let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
        file.write_all_at(&bytes[half..], half as u64).unwrap();
    };
    second_half(&old);
    let told = || {
        let words = shown(&check(&image, &["--no-paths"]));
        let line = words.lines().find(|line| line.contains("looks like a part"));
        line.unwrap_or_else(|| panic!("{words}")).to_owned()
    };
    let line = told();
    assert!(line.starts_with("allocation group 1 looks like a part of an older copy: "), "{line}");
    assert!(line.contains("uxfs repair --no-log-copies"), "{line}");
    let source = folder.path().join("source");
    tree(&source);
    for (path, uuid) in [(&image, "1111"), (&old, "2222")] {
        let uuid = format!("uuid=22222222-2222-2222-2222-22222222{uuid}");
        fs::remove_file(path).unwrap();
        let options = ["mkfs", "--unsupported", "--size", "32M", "-d", "agcount=2", "-m", &uuid, "--from"];
        succeeds(&[&options[..], &[text(&source), text(path)]].concat());
    }
    second_half(&old);
    let line = told();
    assert!(line.starts_with("allocation group 1 looks like a part of another file system: "), "{line}");
}

/// Without --all, check prints ten findings of each kind and the counts.
#[test]
fn many_findings_of_a_kind_are_counted() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let bytes = fs::read(&image).unwrap();
    let mut damaged = bytes.clone();
    // Regular files whose link count has changed, with the checksum as it was.
    let inodes = (0..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(b"IN\x81"));
    let hit: Vec<usize> = inodes.take(50).collect();
    hit.iter().for_each(|at| damaged[at + 19] ^= 1);
    fs::write(&image, &damaged).unwrap();
    let (first, all) = (shown(&check(&image, &[])), shown(&check(&image, &["--all"])));
    let of_first_kind =
        |words: &str| words.lines().filter(|line| line.starts_with("[1] damaged: inode")).count();
    assert_eq!((of_first_kind(&first), of_first_kind(&all)), (10, hit.len()), "{first}");
    let counted = format!("[1] damaged: {} (a structure fails its verifier", hit.len());
    assert!(first.contains(&counted) && first.contains("--all shows them"), "{first}");
    assert!(first.contains("uxfs rescue"), "{first}");
    assert!(!all.contains("--all shows them"), "{all}");
}

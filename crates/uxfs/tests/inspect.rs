//! `uxfs inspect` through the binary: sound and damaged structures, exit codes.

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Output},
};

use uxfs_testkit::{golden::GoldenImage, judges::Judge, require};

use crate::common::program;

fn inspect(image: &Path, words: &str) -> Output {
    let mut command = Command::new(program());
    command.arg("inspect").arg(image).args(words.split_whitespace()).output().expect("uxfs runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}

#[test]
fn sound_structures_are_shown_and_nothing_is_said_against_them() {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let objects = [
        "sb 0",
        "sb 1",
        "agf 0",
        "agi 1",
        "agfl 0",
        "btree bno 0",
        "btree cnt 0",
        "btree ino 0",
        "btree fino 0",
        "btree rmap 0",
        "btree refc 0",
        "inode 64",
        "dir /",
        "attr /",
        "block 1",
        // A symbolic link's target in two blocks.
        "block 73",
        "sector 0",
        "sector 1",
    ];
    for object in objects {
        let output = inspect(&image, object);
        assert_eq!(text(&output.stderr), "", "{object}");
        assert_eq!(output.status.code(), Some(0), "{object}");
        assert!(text(&output.stdout).contains("crc = 0x"), "{object}");
        assert!(!text(&output.stdout).contains("(bad)"), "{object}");
    }
    let output = inspect(&image, "dir /directories/leaf 0 --json");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["problem"], serde_json::Value::Null);
    assert!(document["fields"].is_object());
}

#[test]
fn the_log_is_shown_record_by_record() {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let output = inspect(&image, "log");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).contains(": clean\n"), "{}", text(&output.stdout));
    let output = inspect(&image, "log all");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).ends_with("# unmount\n"));
    let output = inspect(&image, "log all --json");
    let documents = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap());
    let documents: Vec<serde_json::Value> = documents.collect();
    assert_eq!(documents[0]["state"], "clean");
    assert_eq!(documents.last().unwrap()["transactions"][0]["event"], "unmount");
}

#[test]
fn damaged_structures_are_shown_all_the_same_with_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::named("block-1k").unwrap().unpack_to(&image).unwrap();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    // Free blocks of the AGF of group 0, and a count of the superblock of group 0 that makes it unmountable.
    file.write_all_at(&[0xff; 4], 512 + 52).unwrap();
    let output = inspect(&image, "agf 0");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).contains("freeblks = 4294967295\n"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains(" (bad)\n"));
    assert!(text(&output.stderr).contains("checksum"), "{}", text(&output.stderr));
    file.write_all_at(&[0xff; 4], 88).unwrap();
    let output = inspect(&image, "sb 0");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).contains("agcount = null\n"), "{}", text(&output.stdout));
    assert_eq!(inspect(&image, "agf 1").status.code(), Some(3), "cannot be mounted");
}

#[test]
fn what_is_not_there_and_what_makes_no_sense_differ_in_exit_code() {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    for object in
        ["agf 99", "inode 1", "btree bno 0 4294967295", "block 99999999999", "dir /nothing", "dir / 5"]
    {
        assert_eq!(inspect(&image, object).status.code(), Some(1), "{object}");
    }
    assert!(text(&inspect(&image, "agf 99").stderr).contains("no such allocation group"));
    for object in ["agx 0", "agf", "agf zero", "btree bno", "inode 64 65"] {
        assert_eq!(inspect(&image, object).status.code(), Some(2), "{object}");
    }
}

#[test]
fn a_packed_image_is_told_from_a_file_of_another_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for (start, name) in [
        (&b"\x1f\x8b\x08\0"[..], "compressed with gzip"),
        (b"\xfd7zXZ\0", "compressed with xz"),
        (b"BZh9", "compressed with bzip2"),
        (b"QFI\xfb", "a qcow2 disk"),
    ] {
        std::fs::write(&path, [start, &[7; 4096]].concat()).unwrap();
        let mut command = Command::new(program());
        let output = command.arg("ls").arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(name), "{}", text(&output.stderr));
    }
}

#[test]
fn space_and_the_state_of_the_log_are_told() {
    require!(Judge::XfsDb);
    // A copy of its own: other tests share the unpacked image.
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::named("dirty-log").unwrap().unpack_to(&image).unwrap();
    let info = |options: &[&str]| {
        let mut command = Command::new(program());
        let output = command.arg("info").args(options).arg(&image).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let document = |options: &[&str]| -> serde_json::Value {
        serde_json::from_str(&info(&[&["--json"], options].concat())).unwrap()
    };
    assert_eq!(document(&[])["log"]["state"], "dirty");
    assert!(document(&["--tolerant"])["log"]["state"].is_null());
    assert!(info(&[]).contains("dirty: the numbers are those after its replay"));
    assert!(info(&["--ignore-log"]).contains("=dirty\n"));
    let mut replay = Command::new(program());
    assert!(replay.arg("replay").arg(&image).output().unwrap().status.success());
    let mut judge = Judge::XfsDb.command();
    let judge =
        judge.args(["-r", "-c", "sb 0", "-c", "p dblocks fdblocks blocksize"]).arg(&image).output().unwrap();
    let judged = text(&judge.stdout);
    let number = |name: &str| -> u64 {
        let line = judged.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.unwrap().parse().unwrap()
    };
    let document = document(&[]);
    assert_eq!(document["log"]["state"], "clean");
    assert_eq!(document["size_bytes"], number("dblocks") * number("blocksize"));
    assert_eq!(document["free_bytes"], number("fdblocks") * number("blocksize"));
    let percent = number("fdblocks") as f64 * 100.0 / number("dblocks") as f64;
    assert!((document["free_percent"].as_f64().unwrap() - percent).abs() <= 0.05);
}

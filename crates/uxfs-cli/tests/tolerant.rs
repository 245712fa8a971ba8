//! `--tolerant`: what is left of damaged images, compared with what the host's tree and the damage say must be left.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use common::{host, succeeds, text, uxfs};
use tempfile::TempDir;
use uxfs_testkit::{judges::Judge, require};

/// Files in each folder: enough for a directory of many data blocks.
const FILES: usize = 400;

/// An image of a tree, with four allocation groups, and the paths in the tree.
struct Sample {
    folder: TempDir,
    paths: BTreeSet<String>,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        for name in ["one", "two"] {
            fs::create_dir_all(source.join(name)).unwrap();
            for number in 0..FILES {
                let file = source.join(name).join(format!("a-file-with-a-rather-long-name-{number:04}"));
                fs::write(file, format!("{name} {number}")).unwrap();
            }
        }
        let image = folder.path().join("image");
        succeeds(&["mkfs", "--from", text(&source), "--size", "320m", "-d", "agcount=4", text(&image)]);
        // The host says which paths there are.
        let found = Command::new("find").arg(".").current_dir(&source).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        let paths = found.lines().map(|line| line[1..].to_owned()).filter(|path| !path.is_empty()).collect();
        Self { folder, paths }
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.image()).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
    }

    /// What xfs_db prints for a command: the judge of where things lie.
    fn xfs_db(&self, commands: &[&str]) -> String {
        let mut xfs_db = Command::new("xfs_db");
        xfs_db.arg("-x");
        for command in commands {
            xfs_db.args(["-c", command]);
        }
        let output = xfs_db.arg(self.image()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The paths, the exit code and the messages of a tolerant listing.
    fn left(&self, options: &[&str]) -> (BTreeSet<String>, Option<i32>, String) {
        let image = self.image();
        let arguments = [&["ls", "-R", "--json"], options, &[text(&image)]].concat();
        let output = uxfs(&arguments);
        let lines = String::from_utf8(output.stdout).unwrap();
        let paths = lines.lines().map(|line| {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            document["path"].as_str().unwrap().to_owned()
        });
        (paths.collect(), output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    fn contents_are_right(&self, options: &[&str]) {
        let (image, target) = (self.image(), self.folder.path().join("target"));
        uxfs(&[&["extract"], options, &[text(&image), "--to", text(&target)]].concat());
        host("diff", &["-r", text(&self.folder.path().join("source")), text(&target)]);
    }
}

fn zeros(count: usize) -> Vec<u8> {
    vec![0; count]
}

#[test]
fn a_sound_image_reads_the_same_and_nothing_is_found() {
    let sample = Sample::new();
    assert_eq!(sample.left(&["--tolerant"]), (sample.paths.clone(), Some(0), String::new()));
    // Any superblock will do, also those that name no root directory.
    for group in ["0", "1", "2", "3", "auto"] {
        let (paths, ..) = sample.left(&["--superblock", group]);
        assert_eq!(paths, sample.paths, "{group}");
    }
    let (_, code, words) = sample.left(&["--superblock", "4"]);
    assert_eq!(code, Some(1), "{words}");
}

#[test]
fn without_the_first_superblock_everything_is_left() {
    let sample = Sample::new();
    sample.write(0, &zeros(512));
    assert_ne!(sample.left(&[]).1, Some(0));
    let (paths, code, words) = sample.left(&["--tolerant"]);
    assert_eq!((paths, code), (sample.paths.clone(), Some(3)), "{words}");
    assert!(words.contains("the superblock of group 1 is used"), "{words}");
    sample.contents_are_right(&["--tolerant"]);
    // A bad second one, too.
    let group_bytes = 80 << 20;
    sample.write(group_bytes, &zeros(512));
    let (paths, code, words) = sample.left(&["--tolerant"]);
    assert_eq!((paths, code), (sample.paths.clone(), Some(3)), "{words}");
    assert!(words.contains("the superblock of group 2 is used"), "{words}");
}

#[test]
fn without_headers_of_groups_everything_is_left() {
    let sample = Sample::new();
    for group in 0..4 {
        sample.write(group * (80 << 20) + 512, &zeros(3 * 512));
    }
    let (paths, _, words) = sample.left(&["--tolerant"]);
    assert_eq!(paths, sample.paths, "{words}");
    sample.contents_are_right(&["--tolerant"]);
}

#[test]
fn a_truncated_image_is_read_up_to_its_end() {
    let sample = Sample::new();
    let file = OpenOptions::new().write(true).open(sample.image()).unwrap();
    // All files lie in the first group or after it in order; the last group holds none.
    file.set_len(240 << 20).unwrap();
    assert_ne!(sample.left(&[]).1, Some(0));
    let (paths, code, words) = sample.left(&["--tolerant"]);
    assert!(words.contains("the device has 251658240 bytes"), "{words}");
    assert_eq!(code, Some(3));
    assert!(paths.is_subset(&sample.paths) && paths.contains("/one") && paths.contains("/two"), "{words}");
}

#[test]
fn a_lost_directory_block_costs_the_entries_in_it_and_no_others() {
    require!(Judge::XfsDb);
    let sample = Sample::new();
    // xfs_db says where the second block of /one lies, and which names are in it.
    let found = sample.xfs_db(&["path /one", "dblock 1", "print"]);
    let names: Vec<_> = found.lines().filter_map(|line| line.split_once(".name = \"")).collect();
    assert!(names.len() > 10 && names.len() < FILES, "{found}");
    let lost: BTreeSet<_> =
        names.iter().map(|(_, name)| format!("/one/{}", name.trim_end_matches('"'))).collect();
    let place = sample.xfs_db(&["path /one", "dblock 1", "daddr"]);
    let sector: u64 = place.split_whitespace().last().unwrap().parse().unwrap();
    sample.write(sector * 512, &zeros(4096));

    let (paths, code, words) = sample.left(&["--tolerant"]);
    let expected: BTreeSet<_> = sample.paths.difference(&lost).cloned().collect();
    assert_eq!((paths, code), (expected, Some(3)), "{words}");
    assert!(words.contains("left out: directory data block"), "{words}");
}

#[test]
fn an_image_marked_as_needing_repair_is_read() {
    require!(Judge::XfsDb);
    let sample = Sample::new();
    // 0x10 in the incompatible features, with the checksum made anew.
    let features = sample.xfs_db(&["sb 0", "print features_incompat"]);
    let bits = features.trim().trim_start_matches("features_incompat = 0x");
    let bits = u32::from_str_radix(bits, 16).unwrap() | 0x10;
    sample.xfs_db(&["sb 0", &format!("write features_incompat {bits:#x}")]);
    assert_eq!(sample.left(&[]).1, Some(4));
    let (paths, code, words) = sample.left(&["--tolerant"]);
    assert_eq!((paths, code), (sample.paths.clone(), Some(3)), "{words}");
    assert!(words.contains("NEEDSREPAIR"), "{words}");
}

#[test]
fn nothing_is_changed_tolerantly() {
    let sample = Sample::new();
    let before = fs::read(sample.image()).unwrap();
    for command in ["mkdir", "replay"] {
        let image = sample.image();
        let mut arguments = vec![command, "--tolerant", text(&image)];
        if command == "mkdir" {
            arguments.push("/new");
        }
        assert_eq!(uxfs(&arguments).status.code(), Some(2), "{command}");
    }
    assert!(fs::read(Path::new(&sample.image())).unwrap() == before);
}

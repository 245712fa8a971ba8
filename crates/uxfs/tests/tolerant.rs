//! `--tolerant`: what is left of damaged images, compared with what the host's tree and the damage say must be left.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require};

use crate::common::{host, succeeds, text, uxfs};

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
    assert_eq!(code, Some(2), "{words}");
}

#[test]
fn without_the_first_superblock_everything_is_left() {
    let sample = Sample::new();
    sample.write(0, &zeros(512));
    // Without the option its copy is used as well, and only that is told.
    let (paths, code, words) = sample.left(&[]);
    assert_eq!((paths, code), (sample.paths.clone(), Some(0)), "{words}");
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

/// Inode numbers of all paths of a sound image, as it is listed.
fn inodes(sample: &Sample) -> BTreeMap<String, u64> {
    let listed = succeeds(&["ls", "-R", "--json", text(&sample.image())]);
    let documents = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    documents
        .map(|document| (document["path"].as_str().unwrap().to_owned(), document["inode"].as_u64().unwrap()))
        .collect()
}

/// The byte behind the cluster of each inode, as xfs_db says.
fn ends(sample: &Sample) -> BTreeMap<String, u64> {
    let paths = inodes(sample);
    let convert: Vec<String> = paths.values().map(|inode| format!("convert inode {inode} daddr")).collect();
    let printed = sample.xfs_db(&convert.iter().map(String::as_str).collect::<Vec<_>>());
    // As `0x80 (128)`.
    let sector = |line: &str| -> u64 {
        line.split_once('(').unwrap().1.trim_end_matches(')').parse().unwrap_or_else(|_| panic!("{line}"))
    };
    let sectors: Vec<u64> = printed.lines().map(sector).collect();
    assert_eq!(sectors.len(), paths.len());
    // Clusters of 16 KiB are aligned to their size in their group.
    let cluster = |sector: u64| (sector * 512 / 16_384 + 1) * 16_384;
    paths.keys().cloned().zip(sectors.into_iter().map(cluster)).collect()
}

/// The paths whose inodes lie before this byte, with all directories that lead to them.
fn paths_before(sample: &Sample, ends: &BTreeMap<String, u64>, length_bytes: u64) -> BTreeSet<String> {
    let is_readable = |directory: &str| {
        let printed = sample.xfs_db(&[&format!("path {directory}"), "bmap"]);
        // As `data offset 0 startblock 12 (0/12) count 1 flag 0`.
        let blocks = printed.lines().filter(|line| line.starts_with("data offset"));
        blocks.map(|line| line.split_whitespace().collect::<Vec<_>>()).all(|words| {
            let (block, count) = (words[4], words[7].parse::<u64>().unwrap());
            let printed = sample.xfs_db(&[&format!("convert fsblock {block} daddr")]);
            let sector: u64 =
                printed.split_once('(').unwrap().1.trim_end_matches([')', '\n']).parse().unwrap();
            sector * 512 + count * 4096 <= length_bytes
        })
    };
    let readable: BTreeSet<&str> = ["/one", "/two"].into_iter().filter(|path| is_readable(path)).collect();
    let is_before = |path: &str| ends[path] <= length_bytes;
    sample
        .paths
        .iter()
        .filter(|path| is_before(path))
        .filter(|path| {
            let parent = path.rsplit_once('/').unwrap().0;
            parent.is_empty() || (is_before(parent) && readable.contains(parent))
        })
        .cloned()
        .collect()
}

#[test]
fn a_truncated_image_gives_all_paths_before_its_end() {
    require!(Judge::XfsDb);
    let sample = Sample::new();
    let ends = ends(&sample);
    let mut places: Vec<u64> = ends.values().copied().collect();
    places.sort_unstable();
    // Among the inodes of the second directory, then among those of the first.
    let lengths = [240 << 20, places[places.len() * 3 / 4], places[places.len() / 4]];
    let expected: Vec<_> = lengths.iter().map(|length| paths_before(&sample, &ends, *length)).collect();
    let counts: Vec<usize> = expected.iter().map(BTreeSet::len).collect();
    // A directory's blocks lie behind the inodes of its files: one of the two directories is lost, then both.
    assert_eq!(counts, [2 * FILES + 2, FILES + 2, 1]);
    for (length, expected) in lengths.into_iter().zip(expected) {
        let file = OpenOptions::new().write(true).open(sample.image()).unwrap();
        file.set_len(length).unwrap();
        assert_ne!(sample.left(&[]).1, Some(0));
        let (paths, code, words) = sample.left(&["-l", "--tolerant"]);
        assert!(words.contains(&format!("the device has {length} bytes")), "{words}");
        let missing: Vec<_> = expected.difference(&paths).take(5).collect();
        let more: Vec<_> = paths.difference(&expected).take(5).collect();
        assert!(paths == expected, "{length}: missing {missing:?}, more {more:?}");
        assert_eq!(code, Some(3));
        for path in paths.iter().filter(|path| path.contains("-00")) {
            let original = fs::read(sample.folder.path().join("source").join(&path[1..])).unwrap();
            let read = uxfs(&["cat", "--tolerant", text(&sample.image()), path]).stdout;
            assert!(!original.is_empty() && read == original, "{path}");
        }
    }
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

/// A golden image in which `xfs_db` finds the place of the damage.
fn golden(name: &str, go_to: &[&str], damage: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::named(name).unwrap().unpack_to(&image).unwrap();
    let mut xfs_db = Command::new("xfs_db");
    xfs_db.arg("-r");
    for command in go_to.iter().chain(&["daddr"]) {
        xfs_db.args(["-c", command]);
    }
    let output = xfs_db.arg(&image).output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    let sector: u64 = words.split_whitespace().last().unwrap().parse().unwrap_or_else(|_| panic!("{words}"));
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(damage, sector * 512).unwrap();
    (folder, image)
}

/// Exit code, what was printed, and the messages.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = uxfs(arguments);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), printed, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn commands_show_the_attributes_behind_a_lost_leaf() {
    require!(Judge::XfsDb);
    let path = "/attributes/node-levels";
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    GoldenImage::named("block-1k").unwrap().unpack_to(&sound).unwrap();
    let before = succeeds(&["xattr", text(&sound), path]);
    let attributes = |printed: &str| -> BTreeSet<String> {
        printed.lines().filter(|line| line.contains('=')).map(str::to_owned).collect()
    };
    let before = attributes(&before);
    assert_eq!(before.len(), 3200);
    let (_folder, image) = golden("block-1k", &["path /attributes/node-levels", "ablock 60"], &zeros(1024));

    assert_eq!(run(&["xattr", text(&image), path]).0, Some(3));
    let (code, printed, words) = run(&["xattr", "--tolerant", text(&image), path]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("left out: attribute"), "{words}");
    // A leaf of 1 KiB holds 25 of them at most.
    let left = attributes(&printed);
    let lost = before.difference(&left).count();
    assert!((1..=25).contains(&lost) && left.len() + lost == 3200, "{lost} lost, {} left", left.len());

    let (code, printed, words) = run(&["bench", "leaves", "--tolerant", text(&image), path]);
    assert!(code == Some(3) && words.contains("left out: attribute"), "{words}");
    assert!(!printed.is_empty());
    assert_eq!(run(&["bench", "leaves", "--tolerant", text(&sound), path]).0, Some(0));

    // A copy has them as well.
    let tar = folder.path().join("tar");
    let arguments = ["extract", "--tolerant", text(&image), path, "--tar", text(&tar)];
    let (code, _, words) = run(&arguments);
    assert!(code == Some(3) && words.contains("left out: attribute"), "{words}");
    let bytes = fs::read(&tar).unwrap();
    let count = bytes.windows(18).filter(|window| window.starts_with(b"SCHILY.xattr.user.")).count();
    assert_eq!(count, left.len());
}

#[test]
fn a_file_in_a_damaged_directory_is_read() {
    require!(Judge::XfsDb);
    let path = "/directories/block/a-file-in-a-block-23";
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound");
    GoldenImage::named("default").unwrap().unpack_to(&sound).unwrap();
    let contents = uxfs(&["cat", text(&sound), path]).stdout;
    assert_eq!(contents.len(), 2300);
    let (_folder, image) = golden("default", &["path /directories/block", "dblock 0"], &zeros(4));
    assert_eq!(run(&["cat", text(&image), path]).0, Some(3));
    let output = uxfs(&["cat", "--tolerant", text(&image), path]);
    assert!(output.stdout == contents && output.status.code() == Some(3));
    let (code, printed, words) = run(&["ls", "--tolerant", text(&image), "/directories/block"]);
    assert_eq!((code, printed.lines().count()), (Some(3), 24), "{words}");
}

#[test]
fn inspect_prints_what_opening_passed_over() {
    let sample = Sample::new();
    let image = sample.image();
    assert_eq!(run(&["inspect", "--tolerant", text(&image), "sb", "1"]).0, Some(0));
    sample.write(0, &zeros(512));
    let (code, printed, words) = run(&["inspect", "--tolerant", text(&image), "sb", "1"]);
    assert!(printed.contains("magicnum"), "{printed}");
    assert!(code == Some(3) && words.contains("the superblock of group 1 is used"), "{words}");
}

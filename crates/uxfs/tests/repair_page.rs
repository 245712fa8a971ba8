//! The page of `uxfs repair`: what a person reads of a badly damaged image.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, verdict::repair_is_silent};

use crate::common::{text, uxfs};

/// Standard output of a command that ends with this code.
fn page(arguments: &[&str], code: i32) -> String {
    let output = uxfs(arguments);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}{}", String::from_utf8_lossy(&output.stderr));
    words
}

fn lines_with(words: &str, part: &str) -> usize {
    words.lines().filter(|line| line.contains(part)).count()
}

fn actions(arguments: &[&str]) -> usize {
    let lines = page(arguments, 3);
    let documents = lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    documents.filter(|document| document["type"] == "action").count()
}

/// Of 50 flipped bits ten are shown, and how to see the rest: before a repair with --all, after it only once it has been taken back.
#[test]
fn ten_actions_of_a_kind_are_shown_and_the_rest_counted() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let mut bytes = fs::read(&image).unwrap();
    // Link counts of regular files, with the checksum as it was.
    let inodes: Vec<_> =
        (0..bytes.len()).step_by(512).filter(|at| bytes[*at..].starts_with(b"IN\x81")).collect();
    inodes.iter().take(50).for_each(|at| bytes[at + 19] ^= 1);
    fs::write(&image, &bytes).unwrap();
    let image = text(&image);
    let (first, all) = (page(&["repair", "-n", image], 3), page(&["repair", "-n", "--all", image], 3));
    assert_eq!((lines_with(&first, "flip bit "), lines_with(&all, "flip bit ")), (10, 50), "{first}");
    let counted = "[13] computed: 50 (single flipped bits corrected)\n";
    for told in [counted, "actions are not shown: --all shows them, uxfs help rule N explains a kind\n"] {
        assert!(first.contains(told) && !all.contains(told), "{first}");
    }
    for next in ["uxfs ls -lR --repaired ", "  to repair it: uxfs repair "] {
        assert!(first.contains(next), "{first}");
    }
    assert_eq!(actions(&["repair", "-n", "--json", image]), actions(&["repair", "-na", "--json", image]));
    assert_eq!(actions(&["repair", "-n", "--json", image]), lines_with(&all, "flip bit ") + others(&all));
    let quiet = page(&["repair", "-nq", image], 3);
    assert!(!quiet.contains("[13]") && !quiet.contains("not shown"), "{quiet}");
    let rule = page(&["help", "rule", "13"], 0);
    assert!(rule.contains("checksum") && rule.contains("Believed, in this order"), "{rule}");
    assert_eq!(uxfs(&["help", "rule", "99"]).status.code(), Some(2));
    let done = page(&["repair", image], 0);
    assert!(done.contains(counted) && !done.contains("--all shows them"), "{done}");
    let way = format!("to see every action: take it back, then uxfs repair -n --all {image}\n");
    assert!(done.contains(&way), "{done}");
}

/// Lines of a page with all actions that are about something else than flipped bits.
fn others(all: &str) -> usize {
    let lines = all.lines().take_while(|line| !line.contains(" findings: "));
    lines.filter(|line| !line.starts_with(' ') && !line.contains("flip bit ")).count()
}

/// An image in which nothing is left of the inodes of 30 files.
fn without_30_files(folder: &Path) -> PathBuf {
    let (source, image) = (folder.join("source"), folder.join("image"));
    fs::create_dir(&source).unwrap();
    (0..40).for_each(|number| fs::write(source.join(format!("file{number}")), "contents").unwrap());
    page(&["mkfs", "-q", "--size", "300M", "-m", "rmapbt=0", "--from", text(&source), text(&image)], 0);
    let inode = |number: usize| {
        let shown = page(&["--json", "stat", text(&image), &format!("/file{number}")], 0);
        serde_json::from_str::<Json>(&shown).unwrap()["inode"].as_u64().unwrap()
    };
    // The whole chunk is unreadable once one of its inodes is gone.
    let inodes: Vec<_> = (0..30).map(inode).collect();
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    inodes.iter().for_each(|inode| file.write_all_at(&[0; 512], inode * 512).unwrap());
    image
}

/// Ten of the lost files are named, and the others counted.
#[test]
fn ten_lost_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let image = without_30_files(folder.path());
    let plan = page(&["repair", "-n", text(&image)], 3);
    let is_named = "    /file";
    let loss = ": empty, since nothing of its contents is known";
    let named =
        |words: &str| words.lines().filter(|line| line.starts_with(is_named) && line.ends_with(loss)).count();
    assert_eq!(named(&plan), 10, "{plan}");
    for told in ["  files lost, or in part: 30\n", &format!("    20 more{loss}\n"), "  to save before"] {
        assert!(plan.contains(told), "{plan}");
    }
    assert_eq!(named(&page(&["repair", "-na", text(&image)], 3)), 30);
    page(&["repair", text(&image)], 3);
    if Judge::XfsRepair.is_present() {
        repair_is_silent(&image).unwrap();
    }
}

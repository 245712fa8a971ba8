//! `uxfs inodes`: the listing, which one thread prints while others scan.

use std::{fs, os::unix::fs::MetadataExt};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{succeeds, text};

/// More inodes than wait for the printing thread at once.
const FILES: u32 = 9000;

#[test]
fn inodes_are_listed_in_order_as_they_are() {
    let folder = TempDir::new().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    let length = |number: u32| number % 6000;
    for number in 0..FILES {
        fs::write(source.join(format!("{number:05}")), vec![b'x'; length(number) as usize]).unwrap();
    }
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&image)]);
    let image = text(&image);
    let listed = succeeds(&["inodes", image]);
    let count: usize = succeeds(&["inodes", "--count", image]).trim().parse().unwrap();
    assert_eq!(listed.lines().count(), count);
    let mut lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.is_sorted_by_key(|line| line[0].parse::<u64>().unwrap()));
    // The same from several threads, in any order, and as documents.
    let threads = succeeds(&["inodes", "--threads", "3", image]);
    let (mut one, mut three): (Vec<&str>, Vec<&str>) = (listed.lines().collect(), threads.lines().collect());
    one.sort_unstable();
    three.sort_unstable();
    assert!(one == three);
    let documents = succeeds(&["--json", "inodes", image]);
    assert_eq!(documents.lines().count(), count);
    for (line, document) in lines.iter().zip(documents.lines()) {
        let document: Value = serde_json::from_str(document).unwrap();
        let fields = [("inode", 0), ("link_count", 2), ("uid", 3), ("gid", 4), ("size_bytes", 5)];
        for (name, column) in fields.into_iter().chain([("generation", 6)]) {
            assert_eq!(document[name].to_string(), line[column], "{name} of {line:?}");
        }
    }
    // They are the files of the source.
    let owner = fs::metadata(source.join("00000")).unwrap();
    lines.retain(|line| line[1].starts_with('-') && line[3] == owner.uid().to_string());
    let mut sizes: Vec<u32> = lines.iter().filter_map(|line| line[5].parse().ok()).collect();
    let mut expected: Vec<u32> = (0..FILES).map(length).collect();
    sizes.sort_unstable();
    expected.sort_unstable();
    // The realtime inodes and the like are among them.
    sizes.drain(..sizes.len() - expected.len());
    assert_eq!(sizes, expected);
}

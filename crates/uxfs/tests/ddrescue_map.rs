//! `--map FILE` of check and repair: what a map of GNU ddrescue does not say to be read counts as unreadable, whatever the copy has there.

use std::{fs, path::Path, process::Output};

use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    require,
    sparse::{self, Contents},
    verdict::repair_is_silent,
};

use crate::common::{succeeds, text, uxfs};

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// A map in which these bytes were not read.
fn write_map(path: &Path, size_bytes: u64, (start, length): (u64, u64), status: char) {
    let end = start + length;
    let lines = [
        "# Mapfile. Created by GNU ddrescue version 1.27".to_owned(),
        "0x00000000     +               1".to_owned(),
        format!("0x00000000  {start:#x}  +"),
        format!("{start:#x}  {length:#x}  {status}"),
        format!("{end:#x}  {:#x}  +", size_bytes - end),
    ];
    fs::write(path, lines.join("\n")).unwrap();
}

#[test]
fn what_was_not_read_is_unreadable_and_repaired() {
    require!(Judge::XfsRepair);
    let folder = TempDir::new_in(memory_folder()).unwrap();
    let at = |name: &str| folder.path().join(name);
    let (image, map) = (at("image"), at("map"));
    fs::create_dir(at("source")).unwrap();
    for file in 0..300 {
        fs::write(at("source").join(format!("file-{file}")), vec![7; 5000]).unwrap();
    }
    let size_bytes = 300 << 20;
    succeeds(&["mkfs", "--size", "300M", "--from", text(&at("source")), text(&image)]);
    let before = Contents::read(&image).unwrap();
    let group_bytes = size_bytes / 4;
    // The headers of the second group, a file's contents, and the root directory's inode: all of them sound in the copy.
    for (range, status) in
        [((group_bytes, 4096), '-'), ((group_bytes, 4096), '?'), ((64 << 10, 16 << 10), '*')]
    {
        write_map(&map, size_bytes, range, status);
        let output = uxfs(&["check", text(&image)]);
        assert!(output.status.success(), "{}", words(&output));
        let output = uxfs(&["check", "--map", text(&map), text(&image)]);
        assert_eq!(output.status.code(), Some(3), "{range:?}: {}", words(&output));
        assert!(
            words(&output).contains("the map says that it was not read"),
            "{range:?}: {}",
            words(&output)
        );
        assert!(Contents::read(&image).unwrap() == before, "a check changes nothing");
        let output = uxfs(&["repair", "-n", "--map", text(&map), text(&image)]);
        assert_eq!(output.status.code(), Some(3), "{range:?}: {}", words(&output));
        let copy = at("copy");
        sparse::copy(&image, &copy).unwrap();
        let output = uxfs(&["repair", "--no-undo", "--map", text(&map), text(&copy)]);
        assert!(output.status.success(), "{range:?}: {}", words(&output));
        repair_is_silent(&copy).unwrap();
        assert_eq!(succeeds(&["ls", text(&copy)]).lines().count(), 300, "{range:?}");
    }
    // All of it was read.
    write_map(&map, size_bytes, (4096, 4096), '+');
    succeeds(&["check", "--map", text(&map), text(&image)]);
    assert!(words(&uxfs(&["repair", "--map", text(&map), text(&image)])).contains("nothing to repair"));
}

#[test]
fn what_is_no_map_is_refused() {
    let folder = TempDir::new_in(memory_folder()).unwrap();
    let (image, page) = (folder.path().join("image"), folder.path().join("page"));
    succeeds(&["mkfs", "--size", "300M", text(&image)]);
    succeeds(&["check", "--html", text(&page), text(&image)]);
    let before = fs::read(&page).unwrap();
    for (command, remedy) in [("check", "--html FILE draws the image as a page"), ("repair", "ddrescue")] {
        let output = uxfs(&[command, "--map", text(&page), text(&image)]);
        assert_eq!(output.status.code(), Some(2), "{}", words(&output));
        assert!(words(&output).contains(remedy), "{}", words(&output));
        let output = uxfs(&[command, "--map", text(&folder.path().join("none")), text(&image)]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        assert!(!folder.path().join("none").exists());
    }
    assert!(fs::read(&page).unwrap() == before);
}

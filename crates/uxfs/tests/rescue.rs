//! `uxfs rescue`, as people use it.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use uxfs_testkit::{golden::GoldenImage, image::memory_folder};

use crate::common::{succeeds, text, uxfs};

fn unpacked(name: &str, folder: &Path) -> PathBuf {
    let image = folder.join("image");
    GoldenImage::named(name).unwrap().unpack_to(&image).unwrap();
    image
}

fn lines(text: &[u8]) -> Vec<Json> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A file of an image, with where its first extent lies.
fn first_extent(image: &Path, path: &str) -> (u64, u64) {
    let map = succeeds(&["map", "--json", text(image), path]);
    let extent: Json = serde_json::from_str(map.lines().next().unwrap()).unwrap();
    let number = |name: &str| extent[name].as_u64().unwrap_or_else(|| panic!("{name} in {extent}"));
    let (group, block) = (number("group"), number("group_block"));
    let info: Json = serde_json::from_str(&succeeds(&["info", "--json", text(image)])).unwrap();
    let block_bytes = info["block_size_bytes"].as_u64().unwrap();
    ((group * info["group_blocks"].as_u64().unwrap() + block) * block_bytes, block_bytes)
}

const FILE: &str = "/extents/fragmented";

/// A map with one bad block: the file that has it is `NAME.partial`, with zeros there, and everything else is whole. A better map
/// and `--resume` complete it.
#[test]
fn a_map_makes_a_file_partial_and_a_better_one_whole() {
    // Where a file may have 4 EiB.
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = unpacked("default", folder.path());
    let before = fs::read(&image).unwrap();
    let (start, length) = first_extent(&image, FILE);
    let size = before.len() as u64;
    let map = folder.path().join("map");
    // As GNU ddrescue 1.27 writes them.
    let head =
        "# Mapfile. Created by GNU ddrescue version 1.27\n# current_pos  current_status  current_pass\n";
    let end = start + length;
    let blocks = format!(
        "0x00000000     +               1\n#      pos        size  status\n0x00000000  {start:#010X}  +\n{start:#010X}  {length:#010X}  -\n{end:#010X}  {:#010X}  +\n",
        size - end
    );
    fs::write(&map, format!("{head}{blocks}")).unwrap();
    let to = folder.path().join("to");
    let manifest = folder.path().join("manifest");
    let arguments =
        ["rescue", text(&image), "--map", text(&map), "--to", text(&to), "--manifest", text(&manifest)];
    let output = uxfs(&[&arguments[..], &["--digest"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(
        words(&output).contains(&format!("partial  {FILE} -> extents/fragmented.partial")),
        "{}",
        words(&output)
    );
    let found = lines(&fs::read(&manifest).unwrap());
    let partial: Vec<_> =
        found.iter().filter(|line| line["type"] == "entry" && line["state"] != "whole").collect();
    assert_eq!(partial.len(), 1, "{partial:?}");
    assert_eq!((&partial[0]["path"], &partial[0]["missing_bytes"]), (&FILE.into(), &length.into()));
    assert!(found.iter().any(|line| line["sha256"].as_str().is_some_and(|digits| digits.len() == 64)));
    let summary = found.last().unwrap();
    assert_eq!(
        (&summary["type"], &summary["partial"], &summary["lost"]),
        (&"summary".into(), &1.into(), &0.into())
    );
    let expected = uxfs(&["cat", text(&image), FILE]).stdout;
    let (name, part) = (to.join(&FILE[1..]), to.join("extents/fragmented.partial"));
    let bytes = fs::read(&part).unwrap();
    assert!(!name.exists() && bytes.len() == expected.len());
    let missing = partial[0]["missing"][0]["offset_bytes"].as_u64().unwrap() as usize;
    let missing = missing..missing + length as usize;
    assert!(bytes[missing.clone()].iter().all(|byte| *byte == 0));
    assert!(
        bytes[..missing.start] == expected[..missing.start]
            && bytes[missing.end..] == expected[missing.end..]
    );

    // A directory with contents is refused.
    assert_eq!(uxfs(&arguments).status.code(), Some(2));
    fs::write(&map, format!("{head}0 + 1\n0 {size} +\n")).unwrap();
    let output = uxfs(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(fs::read(&name).unwrap() == expected && !part.exists());
    // Every file but that one was complete.
    let again = lines(&fs::read(&manifest).unwrap());
    let files = again.iter().filter(|line| line["kind"] == "regular" && line["hard_link_to"].is_null());
    let (kept, new): (Vec<_>, Vec<_>) = files.partition(|line| line["kept"] == true);
    assert!(kept.len() > 500 && new.len() == 1, "{} {new:?}", kept.len());
    assert!(fs::read(&image).unwrap() == before, "the image was changed");
}

/// A copy of a failing disk has holes where nothing could be read. Its map says so; without one the file is counted.
#[test]
fn files_in_holes_of_the_image_file_are_counted() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = unpacked("default", folder.path());
    let rescued = |to: &str, more: &[&str]| {
        let to = folder.path().join(to);
        let output = uxfs(&[&["rescue", text(&image), "--to", text(&to), "--json"], more].concat());
        (output.status.code(), lines(&output.stdout).last().unwrap().clone())
    };
    let (code, before) = rescued("before", &[]);
    let (start, length) = first_extent(&image, FILE);
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, start, length).unwrap();
    let (code_after, after) = rescued("after", &[]);
    assert_eq!((code, code_after), (Some(0), Some(0)));
    let holes = |summary: &Json| summary["in_holes"].as_u64().unwrap();
    assert_eq!(holes(&after), holes(&before) + 1);
    let to = folder.path().join("words");
    let output = uxfs(&["rescue", text(&image), "--to", text(&to)]);
    assert!(words(&output).contains("where the image file has holes"), "{}", words(&output));
    assert!(words(&output).contains("--map"), "{}", words(&output));
    let map = folder.path().join("map");
    fs::write(&map, format!("0 + 1\n0 {} +\n", fs::metadata(&image).unwrap().len())).unwrap();
    assert_eq!(holes(&rescued("with-map", &["--map", text(&map)]).1), 0);
}

#[test]
fn chosen_files_come_out_of_an_image_without_superblock_and_root() {
    let folder = tempfile::tempdir().unwrap();
    let image = unpacked("default", folder.path());
    let expected = uxfs(&["cat", text(&image), FILE]).stdout;
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 512], 0).unwrap();
    file.write_all_at(&[0; 512], 128 * 512).unwrap();
    let to = folder.path().join("to");
    let output = uxfs(&["rescue", text(&image), "--to", text(&to), "--only", "fragment*"]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", words(&output));
    assert!(fs::read(to.join(&FILE[1..])).unwrap() == expected);
    assert!(!to.join("directories").exists(), "it was not asked for");
    // The archive has the same, and goes to a pipe with JSON beside it.
    let output = uxfs(&["rescue", text(&image), "--tar", "-", "--json", "--only", FILE]);
    let lines = lines(&output.stderr[output.stderr.iter().position(|byte| *byte == b'{').unwrap()..]);
    assert_eq!(lines.last().unwrap()["type"], "summary");
    assert!(output.stdout.windows(4096).step_by(512).any(|window| window == &expected[..4096]));
}

#[test]
fn wrong_maps_and_no_file_systems_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let to = folder.path().join("to");
    let output = uxfs(&["rescue", text(&image), "--to", text(&to)]);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(!to.exists());
    let output = uxfs(&["rescue", text(&image), "--to", text(&to), "--map", text(&image)]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    // A device without end is not read for ever.
    let output = uxfs(&["rescue", text(&image), "--to", text(&to), "--map", "/dev/zero"]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    assert!(words(&output).contains("/dev/zero: no map file of ddrescue: "), "{}", words(&output));
}

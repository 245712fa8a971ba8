//! `uxfs owner`, judged by what Linux says of every block (GETFSMAP), and of files where there is no reverse map.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require, sparse,
};

use crate::common::{succeeds, text, uxfs};

/// Most extents compared.
const MOST: usize = 600;

fn owners(image: &Path, sectors: &[u64]) -> Vec<Json> {
    let mut arguments = vec!["owner".to_owned(), "--json".to_owned(), text(image).to_owned()];
    arguments.extend(sectors.iter().flat_map(|sector| ["--sector".to_owned(), sector.to_string()]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    succeeds(&arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn xfs_io(command: &str, path: &Path) -> String {
    let output = Judge::XfsIo.command().args(["-r", "-c", command]).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The first number in `12..34`.
fn first_of(range: &str) -> u64 {
    range.trim_matches(['[', ']', ':', '(', ')']).split("..").next().unwrap().parse().unwrap()
}

#[test]
fn every_kind_of_block_has_the_owner_that_linux_says() {
    require!(Judge::Kernel, Judge::XfsIo);
    let image = GoldenImage::lean("default").unwrap().unpacked().unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let map = xfs_io("fsmap", mount.path());
    mount.unmount().unwrap();
    // "	8: 7:0 [192..199]: inode 131 data 0..7 8"
    let mut expected: Vec<(u64, String)> = map
        .lines()
        .filter_map(|line| line.trim().split_once(": ")?.1.split_once(": "))
        .map(|(place, owner)| (first_of(place.split(' ').nth(1).unwrap()), owner.to_owned()))
        .collect();
    let step = expected.len().div_ceil(MOST);
    expected = expected.into_iter().step_by(step).collect();
    assert!(expected.len() > 100, "{map}");
    let sectors: Vec<u64> = expected.iter().map(|(sector, _)| *sector).collect();
    let found = owners(&image, &sectors);
    for (sector, owner) in &expected {
        let words: Vec<&str> = owner.split(' ').collect();
        let of_sector: Vec<&Json> = found.iter().filter(|found| found["sector"] == *sector).collect();
        let has = |test: &dyn Fn(&Json) -> bool| of_sector.iter().any(|found| test(found));
        let is_same = match words.as_slice() {
            ["inode", "btree", ..] => has(&|found| found["owner"] == "inode_btrees"),
            ["inode", number, _, "extent", "map", ..] => has(&|found| {
                found["inode"] == number.parse::<u64>().unwrap() && found["file_block"].is_null()
            }),
            ["inode", number, fork @ ("data" | "attr"), offset, ..] => has(&|found| {
                let inode: u64 = number.parse().unwrap();
                let is_fork = found["fork"].as_str().unwrap().starts_with(fork);
                found["inode"] == inode && is_fork && found["offset_bytes"] == first_of(offset) * 512
            }),
            ["free", ..] => has(&|found| found["owner"] == "free"),
            ["static", ..] => has(&|found| found["owner"] == "group_headers"),
            ["per-AG", ..] => has(&|found| found["owner"] == "group_btrees"),
            ["refcount", ..] => has(&|found| found["owner"] == "reference_count_btree"),
            ["inodes", ..] => has(&|found| found["owner"] == "inode_chunk"),
            ["journalling", ..] => has(&|found| found["owner"] == "log"),
            _ => panic!("{owner}"),
        };
        assert!(is_same, "sector {sector}: Linux says {owner}, and uxfs {of_sector:?}");
    }
    judged("Linux's GETFSMAP", &format!("{} extents", expected.len()));

    // `inspect` prints the owner of a block without a structure.
    let file = found.iter().find(|found| found["owner"] == "file" && found["fork"] == "data").unwrap();
    let sector = file["sector"].to_string();
    let output = uxfs(&["inspect", text(&image), "sector", &sector]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let behind = uxfs(&["owner", text(&image), "--byte", "0xfffffffffff"]);
    assert_eq!(behind.status.code(), Some(1));
}

/// Regular files with blocks below a directory.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let status = entry.metadata().unwrap();
        match status.is_dir() {
            true if found.len() < 40 => files(&entry.path(), found),
            _ if status.is_file() && status.blocks() > 0 => found.push(entry.path()),
            _ => {}
        }
    }
}

#[test]
fn without_a_reverse_map_the_maps_of_files_are_asked() {
    require!(Judge::Kernel, Judge::XfsIo);
    let image = GoldenImage::named("no-rmapbt").unwrap().unpacked().unwrap();
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let mut paths = Vec::new();
    files(mount.path(), &mut paths);
    let mut expected = Vec::new();
    for path in paths.iter().take(40) {
        // "   0: [0..7]: 192..199"
        let map = xfs_io("bmap", path);
        let place =
            map.lines().skip(1).find_map(|line| line.trim().split_once("]: ").map(|(_, place)| place));
        let inode = fs::metadata(path).unwrap().ino();
        expected.extend(place.filter(|place| *place != "hole").map(|place| (first_of(place), inode)));
    }
    mount.unmount().unwrap();
    assert!(expected.len() > 10);
    let sectors: Vec<u64> = expected.iter().map(|(sector, _)| *sector).collect();
    let found = owners(&image, &sectors);
    // So they are behind a damaged header of the group.
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let damaged = folder.path().join("image");
    sparse::copy(&image, &damaged).unwrap();
    fs::File::options().write(true).open(&damaged).unwrap().write_all_at(&[0; 512], 512).unwrap();
    let (sector, inode) = expected.iter().min().unwrap();
    let output = uxfs(&["owner", "--tolerant", text(&damaged), "--sector", &sector.to_string()]);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains(&format!("inode {inode}")), "{output:?}");
    for (sector, inode) in expected {
        assert!(
            found.iter().any(|found| found["sector"] == sector && found["inode"] == inode),
            "sector {sector} of inode {inode}: {found:?}"
        );
    }
    let places = owners(&image, &[0]);
    assert_eq!(places[0]["owner"], "group_headers");
}

//! Entries of damaged directories. The kernel made them, but for those whose removed names must not come back.

use std::{collections::BTreeMap, ops::ControlFlow};

use uxfs_testkit::{image::TestImage, judges::Judge, require};
use uxfs_volume::{error::Error, tolerant::SuperblockChoice, volume::Volume};

use super::{FILE, damaged_image::DamagedImage, findings, mounted, write};

const BLOCK: &str = "/directories/block";
const GO_TO_BLOCK: &[&str] = &["path /directories/block", "dblock 0"];

/// Names with inode and cookie.
type Entries = BTreeMap<String, (u64, u64)>;

fn entries(volume: &Volume, path: &str) -> Result<Entries, Error> {
    let directory = volume.resolve(path.as_bytes(), false)?;
    let mut found = Entries::new();
    volume.read_directory(&directory, 0, |entry| {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        assert!(found.insert(name, (entry.inode.get(), entry.cookie)).is_none());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Where the entries of a directory block begin, as xfs_db prints them.
fn places(image: &DamagedImage, go_to: &[&str]) -> Vec<(String, u64)> {
    let printed = image.db(&[go_to, &["print"]].concat());
    let mut found = Vec::new();
    let mut name = None;
    for line in printed.lines() {
        if let Some((_, text)) = line.split_once(".name = \"") {
            name = Some(text.trim_end_matches('"').to_owned());
        } else if let Some((_, tag)) = line.split_once(".tag = 0x")
            && let Some(name) = name.take()
        {
            found.push((name, u64::from_str_radix(tag, 16).unwrap()));
        }
    }
    found
}

#[test]
fn a_damaged_region_of_a_single_block_costs_the_entries_in_it() {
    require!(Judge::XfsDb);
    for fill in [0, 0xff, 0xa5, b'x'] {
        let image = DamagedImage::golden("default");
        let sound = entries(&image.strict(), BLOCK).unwrap();
        assert_eq!(sound.len(), 26);
        let places = places(&image, GO_TO_BLOCK);
        assert_eq!(places.len(), 26);
        // From the middle of entry 7 to the middle of entry 12.
        let (begin, end) = (places[7].1 + 12, places[12].1 + 9);
        let lost: Vec<_> = places[7..=12].iter().map(|(name, _)| name.clone()).collect();
        let block = image.offset_bytes(GO_TO_BLOCK);
        image.write(block + begin, &vec![fill; (end - begin) as usize]);
        assert!(matches!(entries(&image.strict(), BLOCK), Err(Error::Corrupt(_))));

        let volume = image.tolerant();
        let mut expected = sound.clone();
        expected.retain(|name, _| !lost.contains(name));
        assert_eq!(entries(&volume, BLOCK).unwrap(), expected, "{fill:#x}");
        let words = findings(&volume);
        assert!(words.len() == 1 && words[0].contains("directory"), "{words:?}");
        // The entries are found by name, too; of the others it is not said that they do not exist.
        for name in sound.keys().filter(|name| !name.starts_with('.')) {
            let found = volume.resolve(format!("{BLOCK}/{name}").as_bytes(), false);
            match expected.get(name) {
                Some((inode, _)) => assert_eq!(found.unwrap().number.get(), *inode),
                None => assert!(matches!(found, Err(Error::Corrupt(_))), "{name}"),
            }
        }
    }
}

#[test]
fn a_damaged_index_of_a_single_block_costs_no_entry() {
    require!(Judge::XfsDb);
    for command in ["write -d btail.count 5", "write -d btail.count 100000", "write -d bleaf[4].address 0x7"]
    {
        let image = DamagedImage::golden("default");
        let sound = entries(&image.strict(), BLOCK).unwrap();
        image.db(&[GO_TO_BLOCK, &[command]].concat());
        assert!(matches!(entries(&image.strict(), BLOCK), Err(Error::Corrupt(_))), "{command}");
        let volume = image.tolerant();
        assert_eq!(entries(&volume, BLOCK).unwrap(), sound, "{command}");
        assert_eq!(findings(&volume).len(), 1);
    }
}

#[test]
fn a_block_of_another_directory_is_not_read() {
    require!(Judge::XfsDb);
    for field in ["bhdr.hdr.owner 131", "bhdr.hdr.bno 8", "bhdr.hdr.uuid 0"] {
        let image = DamagedImage::golden("default");
        image.db(&[GO_TO_BLOCK, &[&format!("write -d {field}")]].concat());
        let before = entries(&image.strict(), BLOCK);
        assert!(matches!(before, Err(Error::Corrupt(_))), "{field}: {before:?}");
        let volume = image.tolerant();
        assert!(entries(&volume, BLOCK).unwrap().is_empty(), "{field}");
        assert_eq!(findings(&volume).len(), 1);
    }
}

#[test]
fn a_damaged_region_of_a_data_block_costs_the_entries_in_it() {
    require!(Judge::XfsDb);
    let go_to = &["path /directories/node", "dblock 1"];
    let image = DamagedImage::golden("default");
    let sound = entries(&image.strict(), "/directories/node").unwrap();
    let places = places(&image, go_to);
    assert!(places.len() > 50 && sound.len() > places.len());
    let (begin, end) = (places[20].1 + 1, places[24].1 + 8);
    let lost: Vec<_> = places[20..=24].iter().map(|(name, _)| name.clone()).collect();
    image.write(image.offset_bytes(go_to) + begin, &vec![0x5a; (end - begin) as usize]);
    let volume = image.tolerant();
    let mut expected = sound.clone();
    expected.retain(|name, _| !lost.contains(name));
    assert!(entries(&volume, "/directories/node").unwrap() == expected);
    assert_eq!(findings(&volume).len(), 1);
}

#[test]
fn a_damaged_shortform_directory_gives_the_entries_before_the_fault() {
    require!(Judge::XfsDb);
    let path = "/directories/shortform";
    let cases = [
        ("u3.sfdir3.list[2].namelen 99", &["f0", "f1"][..], true),
        ("u3.sfdir3.list[4].offset 0x60", &["f0", "f1", "f2", "f3"], true),
        ("u3.sfdir3.list[0].filetype 77", &[], true),
        ("u3.sfdir3.hdr.count 200", &["f0", "f1", "f2", "f3", "f4", "child"], true),
        ("u3.sfdir3.hdr.parent.i4 0", &["f0", "f1", "f2", "f3", "f4", "child"], false),
    ];
    for (field, names, has_parent) in cases {
        let image = DamagedImage::golden("default");
        let sound = entries(&image.strict(), path).unwrap();
        assert_eq!(sound.len(), 8);
        image.db(&["path /directories/shortform", &format!("write -d {field}")]);
        assert!(matches!(entries(&image.strict(), path), Err(Error::Corrupt(_))), "{field}");
        let volume = image.tolerant();
        let mut expected = sound.clone();
        expected.retain(|name, _| match name.as_str() {
            "." => true,
            ".." => has_parent,
            name => names.contains(&name),
        });
        assert_eq!(entries(&volume, path).unwrap(), expected, "{field}");
        assert_eq!(findings(&volume).len(), 1, "{field}");
    }
}

#[test]
fn removed_names_do_not_come_back() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = TestImage::new("tolerant", 320, &[], 0);
    let file_system = mounted(&image);
    let root = file_system.open_root().unwrap();
    let names: Vec<String> = (0..30).map(|number| format!("a-name-in-the-block-{number:02}")).collect();
    for name in &names {
        file_system.create(&root, name.as_bytes(), &FILE).unwrap();
    }
    // The last one that goes joins two free regions, and its bytes stay.
    for number in [10, 12, 11] {
        file_system.unlink(&root, names[number].as_bytes()).unwrap();
    }
    drop(root);
    file_system.close().unwrap();
    image.must_satisfy_repair();
    let volume = image.mount();
    let root = volume.root().unwrap();
    let block = volume.extent_map(&root, uxfs_format::inode::Fork::Data).unwrap().to_vec()[0].start;
    let offset_bytes = volume.geometry().sector_of_block(block).unwrap().get() * 512;
    let bytes = std::fs::read(&image.path).unwrap();
    let bytes = &bytes[offset_bytes as usize..][..4096];
    // Inode number and length, 22 bytes of name, type, padding, tag.
    let name = bytes.windows(22).position(|window| window == names[11].as_bytes());
    let (begin, length) = (name.expect("the bytes of the removed entry stay") - 9, 40);
    let tag = u16::from_be_bytes([bytes[begin + length - 2], bytes[begin + length - 1]]);
    assert_eq!(usize::from(tag), begin, "it looks like an entry");
    // The head of the free region, which the first removed entry began.
    write(&image, offset_bytes + (begin - length) as u64, &[0x33; 16]);
    drop(volume);

    let volume = super::tolerant(&image, SuperblockChoice::Automatic);
    let found = entries(&volume, "/").unwrap();
    assert_eq!(findings(&volume).len(), 1);
    let expected: Vec<&String> = names.iter().filter(|name| !names[10..13].contains(name)).collect();
    let found: Vec<&String> = found.keys().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(found, expected);
}

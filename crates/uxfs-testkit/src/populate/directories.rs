//! Directories in every form.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

use anyhow::Result;

use super::Place;

/// Depth of the deep tree.
const DEPTH: usize = 64;

pub(super) fn populate(place: &Place) -> Result<()> {
    place.directory("directories")?;
    small_forms(place)?;
    large_forms(place)?;
    with_deletions(place)?;
    odd_names(place)?;
    equal_hashes(place)?;
    deep_tree(place)?;
    many_names(place)
}

fn small_forms(place: &Place) -> Result<()> {
    place.directory("directories/empty")?;
    for name in ["shortform", "shortform-deleted"] {
        place.directory(format!("directories/{name}"))?;
        for number in 0..5 {
            place.file(format!("directories/{name}/f{number}"))?;
        }
    }
    place.remove("directories/shortform-deleted/f1")?;
    place.remove("directories/shortform-deleted/f4")?;
    place.directory("directories/shortform/child")?;
    place.directory("directories/block")?;
    for number in 0..24 {
        let file = place.file(format!("directories/block/a-file-in-a-block-{number:02}"))?;
        place.write(&file, number, 0, number * 100)?;
    }
    Ok(())
}

/// Names of 24 to 40 bytes on disk: so many bytes of names that the data take more than one block.
fn leaf_names(place: &Place) -> u64 {
    place.recipe.directory_block_size_bytes / 27
}

/// More names than one index block has entries of 8 bytes.
fn node_names(place: &Place) -> u64 {
    place.recipe.directory_block_size_bytes / 8 + 300
}

fn large_forms(place: &Place) -> Result<()> {
    place.directory("directories/leaf")?;
    let of_their_own = leaf_names(place).min(160);
    for number in 0..of_their_own {
        place.file(format!("directories/leaf/a-file-in-a-leaf-{number:05}"))?;
    }
    let linked = "directories/leaf/a-file-in-a-leaf-00000";
    for number in of_their_own..leaf_names(place) {
        place.link(linked, format!("directories/leaf/a-link-in-a-leaf-{number:05}"))?;
    }
    place.directory("directories/node")?;
    place.file("directories/node/linked")?;
    links(place, "directories/node", node_names(place))
}

/// Hard links to the file `linked` of the same directory.
fn links(place: &Place, directory: &str, count: u64) -> Result<()> {
    for number in 0..count {
        place.link(format!("{directory}/linked"), format!("{directory}/link{number:06}"))?;
    }
    Ok(())
}

/// Whole data blocks freed in the middle, single entries freed elsewhere, some of them used again.
fn with_deletions(place: &Place) -> Result<()> {
    for (name, count) in [("leaf-deleted", leaf_names(place)), ("node-deleted", node_names(place))] {
        let directory = format!("directories/{name}");
        place.directory(&directory)?;
        place.file(format!("{directory}/linked"))?;
        links(place, &directory, count * 2)?;
        for number in 0..count * 2 {
            let in_the_middle = (count / 2..count + count / 4).contains(&number);
            if in_the_middle || number % 3 == 1 {
                place.remove(format!("{directory}/link{number:06}"))?;
            }
        }
        for number in 0..5 {
            place.link(format!("{directory}/linked"), format!("{directory}/{number}"))?;
        }
    }
    Ok(())
}

fn odd_names(place: &Place) -> Result<()> {
    let directory = place.directory("directories/names")?;
    let long = |byte: u8| vec![byte; 255];
    let mut names: Vec<Vec<u8>> = vec![long(b'x'), long(0xe9), "ü".repeat(127).into_bytes()];
    let short: [&[u8]; 16] = [
        b"a",
        b"...",
        b" ",
        b"-rf",
        b"two\nlines",
        b"back\\slash",
        b"\"quoted\"",
        b"tab\there",
        b"\x01\x02\x7f",
        b"\xff\xfe\xfd",
        b"latin-\xe9\xe8",
        b"half\xc3",
        b"MixedCase",
        b"UPPER-\xc9",
        "日本語".as_bytes(),
        "e\u{301}".as_bytes(),
    ];
    names.extend(short.map(<[u8]>::to_vec));
    for (number, name) in (0..).zip(names) {
        let file = fs::File::create_new(directory.join(OsStr::from_bytes(&name)))?;
        place.write(&file, number, 0, 20 + number)?;
    }
    Ok(())
}

/// Names with one hash. Of four bytes the second is shifted by 14 and the third by 7, so flipping bit 0 of the second and bit 7
/// of the third together changes nothing.
fn equal_hashes(place: &Place) -> Result<()> {
    let directory = place.directory("directories/equal-hashes")?;
    let first = directory.join(OsStr::from_bytes(&name_of_equal_hash(0)));
    fs::File::create_new(&first)?;
    for number in 1..700u32 {
        fs::hard_link(&first, directory.join(OsStr::from_bytes(&name_of_equal_hash(number))))?;
    }
    Ok(())
}

fn name_of_equal_hash(number: u32) -> Vec<u8> {
    let group =
        |bit: u32| if number >> bit & 1 == 0 { *b"abcd" } else { [b'a', b'b' ^ 1, b'c' ^ 0x80, b'd'] };
    (0..10).flat_map(group).collect()
}

fn deep_tree(place: &Place) -> Result<()> {
    let mut path = place.directory("deep")?;
    for depth in 0..DEPTH {
        path = path.join(format!("level-{depth}"));
        fs::create_dir(&path)?;
        if depth % 8 == 7 {
            place.write(&fs::File::create_new(path.join("file"))?, depth as u64, 0, 1000)?;
        }
    }
    link_out_of_the_deep(place, &path)
}

fn link_out_of_the_deep(place: &Place, deepest: &Path) -> Result<()> {
    Ok(fs::hard_link(deepest.join("file"), place.path("link-into-the-deep"))?)
}

fn many_names(place: &Place) -> Result<()> {
    if place.recipe.many_names == 0 {
        return Ok(());
    }
    place.directory("directories/levels")?;
    place.file("directories/levels/linked")?;
    let directory = place.path("directories/levels");
    let linked = directory.join("linked");
    for number in 0..place.recipe.many_names {
        fs::hard_link(&linked, directory.join(format!("{number:x}")))?;
    }
    Ok(())
}

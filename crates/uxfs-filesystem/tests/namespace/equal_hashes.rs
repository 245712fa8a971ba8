//! Names that all have one hash: a stranger's directory may be full of them.

use std::ops::ControlFlow;

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile};
use uxfs_format::directory::name_hash::NameRule;
use uxfs_lab::crash::geometry::Shape;

use super::images::{How, Volume};

const HASH: u32 = 0x0825_a5a5;

/// Names of eight letters with one hash: the second four make up for the first.
fn names() -> impl Iterator<Item = Vec<u8>> {
    let letters = |word: u32| [21, 14, 7, 0].map(|shift| (word >> shift & 0x7f) as u8);
    let is_plain = |letters: &[u8; 4]| letters.iter().all(|letter| letter.is_ascii_alphanumeric());
    (0..1_u32 << 24).filter_map(move |number| {
        // Mixed, so that what follows each other differs.
        let word = (number.wrapping_mul(0x9e_3779) & 0xff_ffff) << 4 | HASH >> 28;
        let (first, second) = (letters(word), letters(HASH ^ word.rotate_left(28)));
        (is_plain(&first) && is_plain(&second)).then(|| [first, second].concat())
    })
}

fn entries(fs: &FileSystem, directory: &InodeHandle) -> Vec<(Vec<u8>, u64)> {
    let mut all = Vec::new();
    fs.read_entries(directory, 0, |entry| {
        if !entry.name.starts_with(b".") {
            all.push((entry.name.to_vec(), entry.cookie));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    all
}

fn lookups(fs: &FileSystem) -> u64 {
    let counters = fs.cache().counters();
    counters.hits + counters.misses + counters.joined
}

/// Makes so many and removes all but a few, in some order. Gives the looks into the cache that one removal took.
fn remove(how: How, count: usize, order: impl Fn(&mut Vec<(Vec<u8>, u64)>)) -> u64 {
    let volume = Volume::new(&Shape::named("default").unwrap(), how);
    let fs = &volume.file_system;
    let directory =
        fs.create(&fs.open_root().unwrap(), b"directory", &NewFile::new(NewKind::Directory, 0o755)).unwrap();
    let rule = NameRule::of(fs.geometry());
    for name in names().take(count) {
        assert_eq!(rule.hash(&name), HASH);
        fs.create(&directory, &name, &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    }
    let mut all = entries(fs, &directory);
    assert_eq!(all.len(), count);
    order(&mut all);
    let kept = all.split_off(count - 20);
    let before = lookups(fs);
    for (name, cookie) in &all {
        fs.expect_name(&directory, name, *cookie);
        drop(fs.find(&directory, name).unwrap());
        fs.unlink(&directory, name).unwrap();
    }
    let each = (lookups(fs) - before) / all.len() as u64;
    // An expectation that is wrong costs time only.
    let (wrong, right) = (&kept[0], &kept[1]);
    fs.expect_name(&directory, &right.0, wrong.1);
    assert_eq!(
        fs.find(&directory, &right.0).unwrap().number(),
        fs.find(&directory, &right.0).unwrap().number()
    );
    fs.expect_name(&directory, &right.0, u64::MAX);
    fs.expect_name(&directory, b"none", right.1);
    assert!(fs.find(&directory, b"none").is_err());
    assert!(fs.unlink(&directory, b"none").is_err());
    let mut left = entries(fs, &directory);
    let mut kept = kept;
    left.sort();
    kept.sort();
    assert_eq!(left, kept);
    drop(directory);
    assert!(volume.judge("names of one hash") > 0);
    each
}

#[test]
fn names_of_one_hash_are_removed_without_looking_at_the_others() {
    for how in [How::Logged, How::Bulk] {
        for reverse in [false, true] {
            let [few, many] = [700, 2100].map(|count| {
                remove(how, count, |all| {
                    if reverse {
                        all.reverse();
                    }
                })
            });
            assert!(
                many <= few + 1 && many < 10,
                "{how:?}, reverse: {reverse}: {few}, then {many} looks each"
            );
        }
    }
    // In no order at all index entries are far from each other: the leaves are looked at, never what the names are.
    let shuffled = remove(How::Logged, 2100, |all| {
        all.sort_by_key(|(name, _)| name.iter().map(|byte| u32::from(*byte)).rev().collect::<Vec<_>>())
    });
    assert!(shuffled < 30, "{shuffled} looks each");
}

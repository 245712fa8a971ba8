use super::*;
use crate::{
    layout::{DeviceFacts, Layout},
    options::{Options, grammar::Group},
};

/// The smallest log for 1 GiB with these options.
fn smallest(options: &[(Group, &str)], size_bytes: u64) -> u64 {
    let layout = layout(options, size_bytes);
    minimum_blocks(&layout.geometry(), layout.log.stripe_unit_bytes, 0)
}

fn layout(options: &[(Group, &str)], size_bytes: u64) -> Layout {
    let mut all = Options::default();
    all.allow_unsupported = true;
    options.iter().for_each(|(group, text)| all.add(*group, text).unwrap());
    Layout::resolve(&all, &DeviceFacts::file(size_bytes)).unwrap().0
}

/// The limits at which mkfs.xfs 7.2 refuses a log as too small.
#[test]
fn the_smallest_logs_are_those_of_mkfs_xfs() {
    use Group::{Block, Data, Inode, Log, Metadata, Naming, Sector};
    let no_parents = (Naming, "parent=0");
    let cases: &[(&[(Group, &str)], u64)] = &[
        (&[], 2001),
        (&[no_parents], 3273),
        (&[no_parents, (Metadata, "reflink=0")], 4049),
        (&[no_parents, (Metadata, "reflink=0,rmapbt=0")], 4049),
        (&[no_parents, (Metadata, "reflink=0"), (Inode, "nrext64=0")], 975),
        (&[no_parents, (Metadata, "reflink=0,rmapbt=0"), (Inode, "nrext64=0")], 857),
        (&[(Sector, "size=4k")], 1650),
        (&[(Inode, "size=2048")], 2030),
        (&[(Naming, "size=16k")], 2666),
        (&[(Log, "su=32k")], 1920),
        (&[(Log, "su=256k")], 4032),
        (&[(Inode, "nrext64=0")], 1568),
        (&[(Block, "size=64k")], 1127),
        (&[(Block, "size=64k"), no_parents], 2180),
        (&[(Block, "size=8k")], 1766),
        (&[(Block, "size=2k")], 3172),
        (&[(Block, "size=1k")], 4862),
        (&[(Block, "size=1k"), no_parents], 6011),
        (&[(Data, "agcount=2")], 2001),
    ];
    for (options, expected) in cases {
        assert_eq!(smallest(options, 1 << 30), *expected, "{options:?}");
    }
    assert_eq!(smallest(&[], 1 << 40), 2004);
    assert_eq!(smallest(&[no_parents], 1 << 40), 4287);
}

#[test]
fn atomic_writes_need_a_larger_log() {
    let (layout, _) = Layout::resolve(&Options::default(), &DeviceFacts::file(1 << 30)).unwrap();
    let geometry = layout.geometry();
    assert_eq!(minimum_blocks(&geometry, 0, 16), 2001);
    assert_eq!(minimum_blocks(&geometry, 0, 32768), 25978);
}

/// The limits at which Linux 6.18 refuses to mount without options: it mounted golden images with this `logblocks`, and with one less it
/// did not.
#[test]
fn the_smallest_logs_that_mount_are_those_of_linux() {
    use Group::{Block, Data, Inode, Log, Naming};
    let cases: &[(&[(Group, &str)], u64)] = &[
        (&[], 1985),
        (&[(Block, "size=1k")], 4803),
        (&[(Block, "size=2k")], 3124),
        (&[(Inode, "size=1024")], 1995),
        (&[(Inode, "size=2048")], 2013),
        (&[(Inode, "nrext64=0")], 1544),
        (&[(Naming, "size=16k")], 2645),
        (&[(Naming, "size=64k")], 5285),
        (&[(Data, "su=64k,sw=2"), (Log, "su=64k")], 2208),
    ];
    for (options, expected) in cases {
        let layout = layout(options, 256 << 20);
        let found = least_mountable_blocks(&layout.geometry(), layout.log.stripe_unit_bytes);
        assert_eq!(found, *expected, "{options:?}");
    }
}

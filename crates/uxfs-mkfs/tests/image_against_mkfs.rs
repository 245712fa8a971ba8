//! Empty images beside those of mkfs.xfs: with uuid, time and seed given, every byte is the same.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use rustix::fs::{SeekFrom, seek};
use uxfs_block::engine::{self, Engine};
use uxfs_mkfs::{
    empty,
    identity::{Identity, SEED_VARIABLE, TIME_VARIABLE},
    layout::{DeviceFacts, Layout},
    options::Options,
};
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
    seeds::Seed,
    xfs_db::XfsDb,
};

use crate::common;

const UUID: &str = "11223344-5566-7788-99aa-bbccddeeff00";
const SECONDS: &str = "1700000000";
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Makes the image of mkfs.xfs; false where it refuses or fails.
fn theirs(options: &str, path: &Path, size_bytes: u64) -> bool {
    common::hole(path, size_bytes);
    let mut command = Judge::Mkfs.command();
    command.env(SEED_VARIABLE, "1").env(TIME_VARIABLE, SECONDS).args(["-f", "-q", "-m"]);
    command.arg(format!("uuid={UUID}")).args(options.split_whitespace()).arg(path);
    command.output().unwrap().status.success()
}

/// Makes ours.
fn ours(options: &str, path: &Path, size_bytes: u64) -> Layout {
    common::hole(path, size_bytes);
    let mut options = common::options(options).unwrap();
    options.add(uxfs_mkfs::options::grammar::Group::Metadata, &format!("uuid={UUID}")).unwrap();
    let (layout, _) = Layout::resolve(&options, &DeviceFacts::file(size_bytes)).unwrap();
    let fixed = |name: &str| Some(if name == TIME_VARIABLE { SECONDS } else { "1" });
    let (identity, _) = Identity::from_environment(options.uuid().unwrap(), fixed);
    let open = engine::OpenOptions { writable: true, engine: Engine::Sync, ..engine::OpenOptions::default() };
    let device = engine::open(path, &open).unwrap();
    empty::format(&*device, &layout, &identity).unwrap();
    layout
}

/// Where a sparse file holds data.
fn data_ranges(file: &File) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        let end = seek(file, SeekFrom::Hole(start)).unwrap();
        ranges.push((start, end));
        at = end;
    }
    ranges
}

/// The first places at which two files differ, as 512-byte units.
fn differences(theirs: &File, ours: &File) -> Vec<u64> {
    let mut units = Vec::new();
    let mut ranges = data_ranges(theirs);
    ranges.extend(data_ranges(ours));
    ranges.sort_unstable();
    ranges.dedup();
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for (start, end) in ranges {
        let mut at = start;
        while at < end {
            let length = usize::try_from((end - at).min(1 << 20)).unwrap();
            theirs.read_exact_at(&mut left[..length], at).unwrap();
            ours.read_exact_at(&mut right[..length], at).unwrap();
            if left[..length] != right[..length] {
                let pairs = left[..length].chunks(512).zip(right[..length].chunks(512)).enumerate();
                units.extend(pairs.filter(|(_, (a, b))| a != b).map(|(index, _)| at / 512 + index as u64));
            }
            at += length as u64;
        }
    }
    units.sort_unstable();
    units.dedup();
    units
}

/// One case per line: options of both.
const CASES: &[&str] = &[
    "",
    "-b size=1k",
    "-b size=2k",
    "-b size=8k",
    "-b size=16k",
    "-b size=32k",
    "-b size=64k",
    "-s size=4k",
    "-s size=1k -b size=1k",
    "-s size=32k -b size=64k",
    "-i size=1024",
    "-i size=2048",
    "-i size=2048 -b size=64k",
    "-b size=1k -n size=64k",
    "-n size=8k",
    "-n size=64k",
    "-d agcount=2",
    "-d agcount=7",
    "-d agcount=15",
    "-d agsize=300m",
    "-d agsize=20000b",
    "-d size=500m",
    "-d su=64k,sw=1",
    "-d su=64k,sw=4",
    "-d su=512k,sw=2",
    "-d su=12k,sw=3",
    "-d su=1m,sw=2 -s size=2k",
    "-d su=64k,sw=2 -i size=2048",
    "-l size=100m",
    "-l su=4k",
    "-l su=12k",
    "-l su=32k",
    "-l su=256k",
    "-l agnum=0",
    "-l agnum=0,su=32k",
    "-l agnum=0 -d su=64k,sw=1",
    "-l agnum=0 -d su=512k,sw=1",
    "-l agnum=3",
    "-l concurrency=16",
    "-d concurrency=16",
    "-m finobt=0",
    "-m rmapbt=0",
    "-m reflink=0",
    "-m rmapbt=0,reflink=0",
    "-m rmapbt=0,reflink=0,finobt=0",
    "-m inobtcount=0",
    "-m bigtime=0",
    "-i sparse=0",
    "-i nrext64=0",
    "-i exchange=0",
    "-i sparse=0 -b size=64k",
    "-i sparse=0 -b size=1k",
    "-l su=64k",
    "-l su=128k",
    "-i size=1024 -b size=64k",
    "-d su=12k,sw=2 -l su=20k",
    "-i maxpct=0",
    "-i maxpct=77",
    "-i max_atomic_write=128m",
    "-n version=ci",
    "-n parent=0",
    "-n parent=0 -m rmapbt=0",
    "-n parent=0 -m autofsck=check",
    "-m autofsck=none",
    "-m autofsck=0",
    "-m autofsck=1",
    "-m autofsck=check",
    "-m autofsck=optimize",
    "-m autofsck",
    "-m rmapbt=0,autofsck=repair",
    "-L label",
    "-L twelve_bytes",
    "-r extsize=16k",
    "-d rtinherit=1",
    "-d projinherit=70000",
    "-d projinherit=0",
    "-d extszinherit=16",
    "-d extszinherit=0,cowextsize=0",
    "-d cowextsize=5",
    "-d daxinherit=1",
    "-d rtinherit=1,projinherit=7,extszinherit=16,cowextsize=5,daxinherit=1",
    "-m bigtime=0,finobt=0,inobtcount=0,rmapbt=0,reflink=0 -i sparse=0,nrext64=0,exchange=0 -n parent=0",
];

/// Here the free list takes all that is free in front of the log. mkfs.xfs removes that record from the two free space
/// trees of the log's group, and leaves a copy of the one that moved up behind the last record. We leave zeros.
const LEFTOVERS: &[&str] = &["-d su=1m,sw=2 -s size=4k", "-d su=64k,sw=2 -s size=4k", "-s size=4k -l su=32k"];

/// Sizes with their own options.
const SIZES: &[(u64, &str)] = &[
    (16 * MIB, "--unsupported"),
    (17 * MIB, "--unsupported -b size=1k"),
    (40 * MIB, "--unsupported"),
    (64 * MIB, "--unsupported -b size=2k"),
    (300 * MIB, ""),
    (313 * MIB + 5 * 512, ""),
    (3 * GIB, ""),
    (20 * GIB, "-d su=64k,sw=3"),
    (500 * GIB, ""),
];

#[test]
fn only_a_leftover_record_differs() {
    require!(Judge::Mkfs);
    let folder = tempfile::tempdir().unwrap();
    let (theirs_path, ours_path) = (folder.path().join("theirs"), folder.path().join("ours"));
    for options in LEFTOVERS {
        assert!(theirs(options, &theirs_path, GIB), "{options}");
        let layout = ours(options, &ours_path, GIB);
        let (their, our) = (File::open(&theirs_path).unwrap(), File::open(&ours_path).unwrap());
        let first_block = u64::from(layout.log.group) * layout.groups.blocks;
        let roots = [layout.tables.by_block, layout.tables.by_length];
        let expected: Vec<_> = roots.iter().map(|root| (first_block + u64::from(*root)) * 8).collect();
        assert_eq!(differences(&their, &our), expected, "{options}");
        for sector in expected {
            let (mut left, mut right) = ([0; 512], [0; 512]);
            their.read_exact_at(&mut left, sector * 512).unwrap();
            our.read_exact_at(&mut right, sector * 512).unwrap();
            // A header of 56 bytes with the checksum at its end, and one record of eight.
            assert_eq!((&left[..52], &left[56..64]), (&right[..52], &right[56..64]), "{options}");
            assert_eq!((&left[64..72], &right[64..72]), (&left[56..64], &[0; 8][..]), "{options}");
        }
    }
}

fn compare(cases: impl Iterator<Item = (u64, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let (theirs_path, ours_path) = (folder.path().join("theirs"), folder.path().join("ours"));
    let (mut same, mut faults) = (0, Vec::new());
    for (size_bytes, options) in cases {
        if !theirs(&options, &theirs_path, size_bytes) {
            faults.push(format!("{size_bytes} {options}: mkfs.xfs refuses"));
            continue;
        }
        ours(&options, &ours_path, size_bytes);
        let open = |path| OpenOptions::new().read(true).open(path).unwrap();
        let units = differences(&open(&theirs_path), &open(&ours_path));
        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
        let (their_blocks, our_blocks) = (blocks(&theirs_path), blocks(&ours_path));
        if our_blocks > their_blocks {
            faults.push(format!("{size_bytes} {options}: {our_blocks} sectors, theirs {their_blocks}"));
        }
        if units.is_empty() {
            same += 1;
        } else {
            let first = &units[..units.len().min(12)];
            faults.push(format!("{size_bytes} {options}: {} sectors differ: {first:?}", units.len()));
        }
    }
    judged("mkfs.xfs", &format!("{same} empty images equal, byte for byte"));
    eprintln!("{same} empty images equal, byte for byte");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_option_gives_the_same_bytes() {
    require!(Judge::Mkfs);
    compare(CASES.iter().map(|options| (GIB, (*options).to_owned())));
}

#[test]
fn every_size_gives_the_same_bytes() {
    require!(Judge::Mkfs);
    compare(SIZES.iter().map(|(size, options)| (*size, (*options).to_owned())));
}

/// Whatever comes together, on sizes that are quickly written.
#[test]
fn random_options_give_the_same_bytes() {
    require!(Judge::Mkfs);
    let seed = Seed::from_environment("random_options_give_the_same_bytes", 20_261_120);
    let mut random = seed.random();
    let mut cases = Vec::new();
    while cases.len() < 20 {
        let (size_bytes, options) = common::random::case(&mut random);
        let layout = common::options(&options)
            .ok()
            .and_then(|options| Layout::resolve(&options, &DeviceFacts::file(size_bytes)).ok());
        let Some((layout, _)) = layout else { continue };
        let is_quick = layout.groups.count < 100
            && (u64::from(layout.log.blocks) << layout.sizes.block_log()) < 200 * MIB;
        let space = layout.space(layout.log.group);
        let end = space.free_list.last().map_or(0, |block| block + 1);
        let has_leftover = end == layout.log.start_block || space.free.len() < 2;
        if is_quick && !has_leftover {
            cases.push((size_bytes, options));
        }
    }
    compare(cases.into_iter());
}

/// Where the log leaves a group pieces that are shorter than its free list, mkfs.xfs takes several: block 6 of the list is 8 in what it makes.
/// What it removed from its trees stays behind their records, so that the bytes are not the same.
#[test]
fn a_free_list_may_be_of_pieces() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let options =
        "-s size=2k -m bigtime=0 -i maxpct=0 -d agsize=123m -d sunit=24,swidth=48 -l concurrency=300";
    let layout = Layout::resolve(&common::options(options).unwrap(), &DeviceFacts::file(GIB)).unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    assert!(theirs(options, &image, GIB));
    let (group, list) = (layout.log.group, layout.space(layout.log.group).free_list);
    let printed = XfsDb::new(&image).run(&[format!("agfl {group}"), "print bno".to_owned()]).unwrap();
    let theirs: Vec<u32> =
        printed.split_whitespace().filter_map(|slot| slot.split_once(':')?.1.parse().ok()).collect();
    assert_eq!(list, theirs);
    assert_eq!(list.len(), 6);
}

/// One tebibyte takes a few submissions and hardly any bytes.
#[test]
fn a_tebibyte_is_little_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    common::hole(&path, 1 << 40);
    let (layout, _) = Layout::resolve(&Options::default(), &DeviceFacts::file(1 << 40)).unwrap();
    let (identity, _) = Identity::from_environment(None, |_| None::<String>);
    let open = engine::OpenOptions { writable: true, ..engine::OpenOptions::default() };
    let device = engine::open(&path, &open).unwrap();
    let written = empty::format(&*device, &layout, &identity).unwrap();
    assert!(written.bytes <= 256 << 10 && written.requests <= 4, "{written:?}");
}

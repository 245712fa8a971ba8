//! Layouts beside what mkfs.xfs says for the same options and sizes: every line of its summary, and every refusal.

use std::path::Path;

use uxfs_format::units::Uuid;
use uxfs_mkfs::{
    layout::{DeviceFacts, Layout},
    options::grammar::{Kind, Setting},
    summary::Summary,
};
use uxfs_testkit::{
    judges::{Judge, judged},
    require,
    seeds::Seed,
};

use crate::common;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The summary of mkfs.xfs, or nothing where it refuses.
fn theirs(options: &str, path: &Path, size_bytes: u64) -> Option<String> {
    common::hole(path, size_bytes);
    let output = common::mkfs(options, &["-N"], path);
    // What it says of configuration files stands before it.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text[text.find("meta-data=").unwrap_or(0)..].to_owned())
}

/// Whether mkfs.xfs makes what it printed.
fn makes(options: &str, path: &Path) -> bool {
    common::mkfs(options, &[], path).status.success()
}

/// Ours, or why not.
fn ours(options: &str, path: &Path, size_bytes: u64) -> Result<String, String> {
    let options = common::options(options).map_err(|error| error.to_string())?;
    let (layout, _) =
        Layout::resolve(&options, &DeviceFacts::file(size_bytes)).map_err(|error| error.to_string())?;
    let superblock = layout.superblock(Uuid::NIL);
    Ok(Summary { superblock: &superblock, name: &path.display().to_string() }.to_string())
}

fn compare(cases: impl IntoIterator<Item = (u64, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let (mut made, mut refused, mut failed, mut differences) = (0, 0, 0, Vec::new());
    for (size_bytes, options) in cases {
        let theirs = theirs(&options, &path, size_bytes);
        let ours = ours(&options, &path, size_bytes);
        match (&theirs, &ours) {
            (Some(theirs), Ok(ours)) if theirs.trim_end() == ours.trim_end() => made += 1,
            (None, Err(_)) => refused += 1,
            (Some(_), Ok(_)) if !makes(&options, &path) => failed += 1,
            (Some(theirs), Ok(ours)) => {
                let lines = theirs.lines().zip(ours.lines()).filter(|(theirs, ours)| theirs != ours);
                let lines: Vec<_> =
                    lines.map(|(theirs, ours)| format!("   theirs {theirs}\n   ours   {ours}")).collect();
                differences.push(format!("{size_bytes} {options}:\n{}", lines.join("\n")));
            }
            (Some(_), Err(_)) if !makes(&options, &path) => failed += 1,
            (Some(_), Err(error)) => differences.push(format!("{size_bytes} {options}: we refuse: {error}")),
            (None, Ok(_)) => differences.push(format!("{size_bytes} {options}: they refuse, we do not")),
        }
    }
    let result = format!("{made} layouts equal, {refused} refused by both, {failed} at which it fails later");
    judged("mkfs.xfs", &result);
    eprintln!("{result}");
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

/// Sizes by themselves, from the smallest to the largest that a file can have.
#[test]
fn sizes() {
    require!(Judge::Mkfs);
    let mut cases = Vec::new();
    let edges = [15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 299, 300, 301, 313, 1000, 1023];
    for mib in edges {
        cases.push((mib * MIB, "--unsupported".to_owned()));
        cases.push((mib * MIB, String::new()));
    }
    for gib in [1, 2, 3, 7, 8, 9, 128, 129, 512, 513, 1023, 1024, 3000, 4095, 4096, 4097] {
        cases.push((gib * GIB, String::new()));
    }
    for tib in [7, 15] {
        cases.push((tib * TIB + 17 * MIB, String::new()));
    }
    // Odd tails, and tails too short for a group.
    for bytes in
        [GIB + 512, GIB + 4 * KIB, GIB + 5 * MIB, 10 * GIB + 77 * KIB, 4 * TIB + 3 * MIB, 400 * MIB + 1]
    {
        cases.push((bytes, String::new()));
    }
    compare(cases);
}

/// Every kind of size and feature, on sizes where the log, the groups or both are at their limits.
#[test]
fn sizes_and_features() {
    require!(Judge::Mkfs);
    let sets = [
        "-b size=1k",
        "-b size=2k",
        "-b size=8k",
        "-b size=16k",
        "-b size=32k",
        "-b size=64k",
        "-s size=4k",
        "-b size=1k -s size=1k",
        "-b size=64k -s size=32k",
        "-i size=1024",
        "-i size=2048",
        "-n size=16k",
        "-n size=64k",
        "-b size=1k -n size=64k -i size=512",
        "-n parent=0",
        "-n parent=0 -m rmapbt=0",
        "-n parent=0 -m reflink=0",
        "-n parent=0 -m rmapbt=0,reflink=0",
        "-m rmapbt=0",
        "-m reflink=0",
        "-m finobt=0",
        "-m rmapbt=0,reflink=0,finobt=0",
        "-i nrext64=0",
        "-i sparse=0",
        "-i exchange=0 -m bigtime=0,inobtcount=0",
        "-n version=ci",
        "-l su=256k",
        "-l su=32k -b size=1k",
        "-n parent=0 -b size=1k",
        "-n parent=0 -b size=64k -n size=64k",
        "-n parent=0 -m reflink=0 -i nrext64=0",
        "-n parent=0 -m reflink=0,rmapbt=0 -i nrext64=0",
        "-n parent=0 -l su=256k -i max_atomic_write=16m",
    ];
    let sizes = [16 * MIB, 64 * MIB, 150 * MIB, 300 * MIB, GIB, 100 * GIB, 2 * TIB];
    let cases = sizes.into_iter().flat_map(|size| {
        let prefix = if size < 300 * MIB { "--unsupported " } else { "" };
        sets.iter().map(move |set| (size, format!("{prefix}{set}")))
    });
    compare(cases);
}

/// Groups, stripes and threads.
#[test]
fn groups_and_stripes() {
    require!(Judge::Mkfs);
    let sets = [
        "-d agcount=1",
        "-d agcount=2",
        "-d agcount=3",
        "-d agcount=7",
        "-d agcount=16",
        "-d agcount=1000000",
        "-d agsize=64m",
        "-d agsize=65m",
        "-d agsize=20000b",
        "-d agsize=100m",
        "-d agsize=300m",
        "-d agsize=510m",
        "-d agsize=1g",
        "-d agsize=2g",
        "-d agsize=100000000",
        "-d agsize=15m",
        "-d agcount=4,agsize=100m",
        "-d su=64k,sw=4",
        "-d su=64k,sw=1",
        "-d su=64k,sw=2",
        "-d su=4k,sw=3",
        "-d su=12k,sw=3",
        "-d su=12k,sw=2",
        "-d su=256k,sw=7",
        "-d su=260k,sw=7",
        "-d su=512k,sw=4",
        "-d su=1000k,sw=3",
        "-d su=1m,sw=16",
        "-d su=64m,sw=1",
        "-d su=64m,sw=2",
        "-d su=128m,sw=2",
        "-d su=256m,sw=1",
        "-d sunit=128,swidth=512",
        "-d sunit=128,swidth=500",
        "-d sunit=7,swidth=14",
        "-d sunit=0,swidth=0",
        "-d su=0,sw=4",
        "-d su=64k",
        "-d sw=4",
        "-d su=64k,sw=0",
        "-d su=2k,sw=2",
        "-d su=5000,sw=2",
        "-d su=64k,sw=65535",
        "-d su=64k,swidth=512",
        "-d su=64k,sw=4,noalign",
        "-d noalign",
        "-d noalign=2",
        "-d su=512k,sw=4,agcount=8",
        "-d su=512k,sw=4,agcount=7",
        "-d su=64k,sw=4,agsize=128m",
        "-d su=64k,sw=5,agsize=100m",
        "-d su=96k,sw=5,agsize=100m",
        "-d su=64k,sw=4 -s size=4k",
        "-d su=512k,sw=4 -s size=4k",
        "-d su=512k,sw=2 -b size=64k",
        "-d su=16b,sw=2 -b size=1k",
        "-d su=64k,sw=4 -l su=4k",
        "-d concurrency=0",
        "-d concurrency=5",
        "-d concurrency=16",
        "-d concurrency=100",
        "-d concurrency=16,su=64k,sw=2",
        "-d concurrency=32,su=64k,sw=1",
        "-d concurrency=-1",
        "-d concurrency=x",
        "-d agcount=4,concurrency=4",
    ];
    let sizes = [400 * MIB, GIB, 100 * GIB, 6 * TIB];
    compare(sizes.into_iter().flat_map(|size| sets.iter().map(move |set| (size, (*set).to_owned()))));
}

/// Logs.
#[test]
fn logs() {
    require!(Judge::Mkfs);
    let sets = [
        "-l size=2000b --unsupported",
        "-l size=2001b --unsupported",
        "-l size=512b --unsupported",
        "-l size=1m --unsupported",
        "-l size=63m",
        "-l size=64m",
        "-l size=67108865",
        "-l size=67109376",
        "-l size=67112960",
        "-l size=65524b",
        "-l size=65525b",
        "-l size=2038m",
        "-l size=2039m",
        "-l size=65523b,agnum=0",
        "-l size=65493b,agnum=0",
        "-l size=65492b,agnum=0",
        "-l size=65492b,agnum=0 -i size=1024",
        "-l size=262000b,agnum=0 -b size=1k",
        "-l size=130996b,agnum=0 -b size=2k",
        "-l size=130997b,agnum=0 -b size=2k",
        "-l size=65489b,agnum=0 -s size=4k",
        "-l size=65490b,agnum=0 -s size=4k",
        "-l size=32736b -d su=64k,sw=2",
        "-l size=32740b -d su=64k,sw=2",
        "-l size=32720b -d su=64k,sw=2",
        "-l agnum=0",
        "-l agnum=0 -d su=64k,sw=2",
        "-l agnum=0 -d su=1m,sw=2",
        "-l agnum=3",
        "-l agnum=4",
        "-l internal",
        "-l internal=0",
        "-l su=4k",
        "-l su=12k",
        "-l su=32k",
        "-l su=256k",
        "-l su=260k",
        "-l su=5000",
        "-l su=2k",
        "-l sunit=8",
        "-l sunit=9",
        "-l sunit=8,su=4k",
        "-l su=4k,version=1",
        "-l su=1b",
        "-l su=8s",
        "-l su=20k,size=20001b",
        "-l su=20k,size=20000b",
        "-l version=1",
        "-l version=2",
        "-l version=3",
        "-l lazy-count=0",
        "-l lazy-count",
        "-l sectsize=512",
        "-l sectsize=4096",
        "-l sectsize=4k -s size=4k",
        "-l file",
        "-l concurrency=8",
        "-l concurrency=64",
        "-l concurrency=83,su=32k",
        "-l concurrency=512",
        "-l concurrency=512,su=32k",
        "-l concurrency=512,agnum=0",
        "-l concurrency=512 -d su=64k,sw=2",
        "-l concurrency=512 -b size=1k",
        "-l concurrency=512 -n parent=0",
        "-l concurrency=100 -n parent=0",
        "-l concurrency=100 -n parent=0 -m reflink=0",
        "-l concurrency=100 -n parent=0 -m rmapbt=0",
        "-l concurrency=100 -n parent=0 -m reflink=0 -i nrext64=0",
        "-l concurrency=100 -n parent=0 -m reflink=0,rmapbt=0 -i nrext64=0",
        "-l concurrency=100 -n parent=0 -b size=1k",
        "-l concurrency=100 -n size=64k",
        "-l size=2038m,agnum=0",
        "-l size=64m,concurrency=4",
        "-i max_atomic_write=4k",
        "-i max_atomic_write=64k",
        "-i max_atomic_write=8m",
        "-i max_atomic_write=64m",
        "-i max_atomic_write=128m",
        "-i max_atomic_write=256m",
        "-i max_atomic_write=1g",
        "-i max_atomic_write=2g",
        "-i max_atomic_write=3k",
        "-i max_atomic_write=512",
        "-i max_atomic_write=128m -m rmapbt=0",
        "-i max_atomic_write=64m -b size=1k",
        "-i max_atomic_write=64m -n parent=0",
        "-i max_atomic_write=4k -m reflink=0",
        "-i max_atomic_write=1m -d su=64k,sw=4",
        "-i max_atomic_write=64k -d su=12k,sw=2",
    ];
    let sizes = [GIB, 10 * GIB, 700 * GIB];
    compare(sizes.into_iter().flat_map(|size| sets.iter().map(move |set| (size, (*set).to_owned()))));
}

/// Values and combinations one by one; most are refused.
#[test]
fn single_options() {
    require!(Judge::Mkfs);
    let sets = [
        "-b size=512",
        "-b size=128k",
        "-b size=3000",
        "-b log=12",
        "-b size=4096,size=4096",
        "-b size=1b",
        "-b size=",
        "-s size=8k",
        "-s size=8k,size=8k",
        "-s size=64k -b size=64k",
        "-s size=1000",
        "-s size=1s",
        "-d sectsize=4096",
        "-d sectsize=4k -s size=512",
        "-d size=500m",
        "-d size=2g",
        "-d size=500000000",
        "-d size=500000256",
        "-d size=100000b",
        "-d size=100000s -s size=4k",
        "-d size=300m",
        "-d size=299m",
        "-d size=0x19000000",
        "-d size=400M",
        "-d size=400mb",
        "-d size=-1",
        "-d agcount=0",
        "-d agcount=4k",
        "-d agcount=010",
        "-d agcount=99999999999999999999",
        "-d rtinherit",
        "-d rtinherit=2",
        "-d projinherit=4294967295",
        "-d projinherit=4294967296",
        "-d extszinherit=0",
        "-d extszinherit=32767",
        "-d extszinherit=32768",
        "-d extszinherit=32769",
        "-d extszinherit=4k",
        "-d cowextsize=32768",
        "-d cowextsize=32769",
        "-d cowextsize=5 -m reflink=0",
        "-d daxinherit=1",
        "-d daxinherit=2",
        "-d unwritten=0",
        "-d foo",
        "-i size=256",
        "-i size=4096",
        "-i size=1000",
        "-i size=1k",
        "-i size=0x400",
        "-i perblock=1",
        "-i perblock=2",
        "-i perblock=3",
        "-i perblock=8",
        "-i perblock=16",
        "-i perblock=16 -b size=8k",
        "-i size=1024,perblock=4",
        "-i size=2048 -b size=2k",
        "-i size=1024 -b size=2k",
        "-i maxpct=0",
        "-i maxpct=100",
        "-i maxpct=101",
        "-i attr=1",
        "-i attr=2",
        "-i align=0",
        "-i align",
        "-i projid32bit=0",
        "-i projid32bit",
        "-i sparse=2",
        "-i nrext64",
        "-i ,size=512",
        "-i size=512,",
        "-i size",
        "-m finobt=0,inobtcount=1",
        "-m inobtcount=0",
        "-m crc=1",
        "-m crc",
        "-m crc=2",
        "-m uuid=01234567-89ab-cdef-0123-456789abcdef",
        "-m uuid=foo",
        "-m uuid",
        "-m autofsck=none",
        "-m autofsck=check",
        "-m autofsck=bogus",
        "-m autofsck=0",
        "-m autofsck=2",
        "-m autofsck",
        "-m autofsck=repair,rmapbt=0",
        "-m metadir=0",
        "-m uquota=2",
        "-n size=2k",
        "-n size=128k",
        "-n size=5k",
        "-n size=8k -b size=64k",
        "-n size=8b",
        "-n size=2b -b size=2k",
        "-n version=1",
        "-n version=2",
        "-n version=3",
        "-n version",
        "-n ftype=0",
        "-n ftype",
        "-n parent=2",
        "-n log=13",
        "-r noalign",
        "-r extsize=4k",
        "-r extsize=8k",
        "-r extsize=2m",
        "-r extsize=1k",
        "-r extsize=2g",
        "-r extsize=5000",
        "-d extszinherit=8,rtinherit=1 -r extsize=16k",
        "-d extszinherit=6,rtinherit=1 -r extsize=16k",
        "-L abcdefghijkl",
        "-L abcdefghijklm",
    ];
    compare(sets.into_iter().map(|set| (GIB, set.to_owned())));
}

/// Whatever comes together.
#[test]
fn random_options() {
    require!(Judge::Mkfs);
    let seed = Seed::from_environment("random_options", 20_261_120);
    let mut random = seed.random();
    compare((0..200).map(|_| common::random::case(&mut random)));
}

/// Every sub-option at the edges of what it may be, alone.
#[test]
fn edges_of_every_number() {
    require!(Judge::Mkfs);
    let mut cases = Vec::new();
    for setting in Setting::ALL {
        let rule = setting.rule();
        let (min, max) = match rule.kind {
            Kind::Number { min, max, .. }
            | Kind::Size { min, max, .. }
            | Kind::NumberOrWord { min, max, .. } => (min, max),
            Kind::Text | Kind::Refused { .. } => continue,
        };
        // These decide about files, or about version 4, or cannot stand alone.
        if matches!(setting, Setting::DataFile | Setting::ProtoAccessTime | Setting::ProtoSlashesAreSpaces) {
            continue;
        }
        let mut values = vec![min.wrapping_sub(1), min, min + 1, max - 1, max, max.saturating_add(1)];
        if *setting == Setting::DataConcurrency {
            // mkfs.xfs counts up to it: for 7 seconds up to the largest.
            values.retain(|value| !(1 << 24..=max).contains(value));
            values.push(1 << 20);
        }
        values.sort_unstable();
        values.dedup();
        let name = format!("-{} {}", rule.group.letter(), rule.name);
        let is_version_4 = |value| *setting == Setting::MetadataChecksums && value == 0;
        let single = values.into_iter().filter(|value| !is_version_4(*value));
        cases.extend(single.map(|value| (GIB, format!("--unsupported {name}={value}"))));
        cases.push((GIB, format!("--unsupported {name}")));
    }
    compare(cases);
}

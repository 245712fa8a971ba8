//! Every kind of finding has a damage that is planted on purpose, and the exact list of findings that it gives.

use std::{collections::BTreeSet, fs, os::unix::fs::FileExt, path::Path, sync::Arc};

use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation},
    engine::sync::SyncDevice,
};
use uxfs_format::{geometry::Geometry, superblock::Superblock, units::InodeNumber};
use uxfs_repair::{
    CheckOptions, Finding, check,
    check::all,
    opening::{self, OpeningOptions},
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::{make, memory_folder},
    judges::Judge,
    require,
};
use uxfs_volume::{inode::scan::ScanOptions, tolerant};

use crate::common::{
    damages::{CONTRADICTIONS, Damage, FIELDS, UNSEEN},
    findings_of, plant,
};

/// A damage that `xfs_repair -n` does not see or that `xfs_db` does not make, and the numbers of all findings that it gives.
type Planted = (&'static str, fn(&Path) -> Vec<Finding>, &'static [u16]);

const PLANTED: &[Planted] = &[
    ("reverse-map-key", reverse_map_key, &[21]),
    ("device-fails", inodes_unreadable, &[2, 4]),
    ("external-log", external_log, &[3, 32, 36]),
    ("groups-that-are-not-there", absent_groups, &[2, 5, 6, 10]),
    ("more-than-are-kept", more_than_are_kept, &[6, 7]),
    ("log-not-replayed", log_not_replayed, &[1, 8]),
    ("log-unwritten", log_unwritten, &[9]),
];

/// Planted in `lost_writes.rs`, by a log of the kernel.
const IN_LOST_WRITES: &[u16] = &[46, 90];
/// Planted in `block_use/compare_tests.rs`, where temporary files fail, and in `extent_map/check_tests.rs`: what reads extents refuses those
/// that overlap before.
const IN_UNIT_TESTS: &[u16] = &[35, 42, 80];

/// Planted in `quota.rs`, on an image of its own.
const OF_QUOTAS: &[u16] = &[91, 92, 93];
/// Planted in `inode_blocks.rs`.
const IN_INODE_BLOCKS: &[u16] = &[38];
/// Planted in `metadata_directory.rs`.
const IN_METADATA_DIRECTORY: &[u16] = &[94, 95];

/// Planted in `other_owners.rs`, on an image with a realtime section.
const OF_REALTIME_GROUPS: &[u16] = &[96];

#[test]
fn every_finding_has_a_planted_damage() {
    let damages = CONTRADICTIONS.iter().chain(FIELDS).chain(UNSEEN).map(|damage| damage.expected);
    let elsewhere = [
        IN_UNIT_TESTS,
        IN_LOST_WRITES,
        OF_QUOTAS,
        IN_INODE_BLOCKS,
        IN_METADATA_DIRECTORY,
        OF_REALTIME_GROUPS,
    ];
    let planted = PLANTED.iter().map(|(_, _, expected)| *expected).chain(elsewhere);
    let planted: BTreeSet<u16> = damages.chain(planted).flatten().copied().collect();
    let all: BTreeSet<u16> = Finding::NUMBERS.iter().copied().collect();
    assert_eq!(all.len(), Finding::NUMBERS.len(), "a number stands for two kinds of finding");
    let missing: Vec<_> = all.difference(&planted).collect();
    assert!(missing.is_empty(), "no damage is planted for findings {missing:?}");
    let unknown: Vec<_> = planted.difference(&all).collect();
    assert!(unknown.is_empty(), "findings that do not exist are planted: {unknown:?}");
}

/// Kinds of damage, with the names of their damages.
const KINDS: &[(&str, &[&str])] = &[
    ("entries against hash index and free index", &["leaf-hash", "node-hash", "leaf-best", "free-index"]),
    (
        "names",
        &["name-twice", "names-that-cannot-be", "entry-named-as-parent", "entry-of-no-inode", "entry-type"],
    ),
    (
        "longest free region of a directory block, extent size hint, NUL in a target or attribute name, log sequence number of a group",
        &["fields-that-verifiers-know"],
    ),
    ("size of a directory", &["size-of-a-directory"]),
    ("`.`, `..`, circles", &["dot", "dot-dot", "directory-below-itself", "directory-named-twice"]),
    ("parent pointers, generations", &["entry-of-other-inode", "parent-directory", "parent-generation"]),
    (
        "link counts, unlinked lists",
        &["links-of-file", "no-links-and-a-name", "agi-unlinked-circle", "next-in-no-list"],
    ),
    (
        "keys, siblings and fill of btrees",
        &["keys-of-btrees", "siblings-in-btrees", "neighbour-of-a-node", "btree-fill"],
    ),
    (
        "log sequence numbers ahead of the log",
        &["sequence-number", "log-number-of-the-superblock", "log-numbers-of-inodes"],
    ),
    (
        "times, flags, hints, fork offset",
        &["nanoseconds", "unknown-flag", "directory-flag", "hint-without-flag", "fork-offset"],
    ),
    (
        "cross-links, shared blocks, copy on write",
        &["cross-link", "file-in-free-space", "reference-count", "shared-without-the-flag", "copy-on-write"],
    ),
    ("blocks marked as never written", &["unwritten-link", "unwritten-and-shared"]),
    ("sparse inode chunks", &["holes-of-an-inode-chunk"]),
    ("unused inodes", &["free-blocks", "free-version", "free-number", "free-next", "free-flags"]),
    ("blocks of symbolic links", &["link-too-long"]),
    (
        "attributes",
        &[
            "attributes-twice",
            "value-of-two-attributes",
            "place-of-another-value",
            "attribute-first-name-nowhere",
            "place-of-the-next-value",
            "length-of-a-value",
            "length-of-a-remote-value",
            "blocks-of-a-value",
            "attribute-half-set",
        ],
    ),
    ("access control lists", &["access-list-tag", "access-list-permissions", "access-list-count"]),
    (
        "copies of the superblock",
        &["superblock-copy", "fields-of-copies", "inodes-in-copies", "unused-bytes"],
    ),
    ("features of the log", &["log-features-of-the-future"]),
    ("quota flags", &["quota-flags", "quota-in-a-copy"]),
];

/// The page has this table. Other tests see to it that it is true: they plant each damage.
#[test]
fn the_page_shows_what_both_checks_see() {
    let page = include_str!("../../../docs/check.md");
    let seen = CONTRADICTIONS.iter().chain(FIELDS).map(|damage| (damage, "objects"));
    let all: Vec<(&Damage, &str)> = seen.chain(UNSEEN.iter().map(|damage| (damage, "silent"))).collect();
    let mut rows = String::new();
    for (kind, names) in KINDS {
        for name in *names {
            let (damage, judged) = all.iter().find(|(damage, _)| damage.name == *name).unwrap();
            let numbers: Vec<String> = damage.expected.iter().map(u16::to_string).collect();
            rows += &format!("| {kind} | `{name}` | {judged} | {} |\n", numbers.join(", "));
        }
    }
    let unlisted =
        UNSEEN.iter().filter(|damage| !KINDS.iter().any(|(_, names)| names.contains(&damage.name)));
    assert_eq!(unlisted.map(|damage| damage.name).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(page.contains(&rows), "docs/check.md must show:\n{rows}");
}

#[test]
fn damages_that_no_judge_plants_or_sees_give_exactly_these_findings() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    for (name, plant, expected) in PLANTED {
        GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
        let findings = plant(&image);
        let numbers: BTreeSet<u16> = findings.iter().map(Finding::number).collect();
        if numbers != expected.iter().copied().collect() {
            let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
            wrong.push(format!("{name}: {numbers:?} {shown:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A device that cannot read some bytes.
#[derive(Debug)]
struct BadSpot {
    inner: SyncDevice,
    bad: std::ops::Range<u64>,
}

impl BlockDevice for BadSpot {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn engine(&self) -> &'static str {
        "bad spot"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let end = offset_bytes + buffer.len() as u64;
        if offset_bytes < self.bad.end && self.bad.start < end {
            let source = std::io::Error::other("a bad spot");
            return Err(DeviceError {
                operation: DeviceOperation::Read,
                offset_bytes,
                length_bytes: buffer.len() as u64,
                source,
            });
        }
        self.inner.read(offset_bytes, buffer)
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        unreachable!("a check writes nothing")
    }

    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        unreachable!("a check discards nothing")
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn check_device(device: &Arc<dyn BlockDevice>) -> Vec<Finding> {
    let mut opened = opening::open(device, &OpeningOptions::default()).unwrap();
    let mut findings = std::mem::take(&mut opened.findings);
    check(
        &opened.volume,
        &CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() },
        &mut all(&mut findings),
    );
    findings
}

fn reverse_map_key(image: &Path) -> Vec<Finding> {
    plant(image, &["agf 2", "addr rmaproot", "write -d keys[2].startblock 900"]);
    findings_of(image)
}

/// The inodes of the second group's first chunk, none of which is a directory's of much.
fn inodes_unreadable(image: &Path) -> Vec<Finding> {
    let inner = SyncDevice::open_read_only(image, 0).unwrap();
    let geometry = geometry_of(image);
    let place = geometry.inode_place(InodeNumber::new(132_736)).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    let start = Geometry::byte_of_sector(sector);
    let device: Arc<dyn BlockDevice> = Arc::new(BadSpot { inner, bad: start..start + 1 });
    check_device(&device)
}

fn geometry_of(image: &Path) -> Geometry {
    let mut bytes = vec![0; 512];
    fs::File::open(image).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    Geometry::new(Superblock::parse(&bytes).unwrap().0)
}

fn external_log(image: &Path) -> Vec<Finding> {
    for group in 0..4 {
        plant(image, &[&format!("sb {group}"), "write -d logstart 0"]);
    }
    findings_of(image)
}

/// The superblock claims many groups behind the end of the device.
fn absent_groups(image: &Path) -> Vec<Finding> {
    let count = 3000;
    let blocks = u64::from(geometry_of(image).ag_blocks) * count;
    plant(image, &["sb 0", &format!("write -d agcount {count}"), &format!("write -d dblocks {blocks}")]);
    findings_of(image)
}

fn more_than_are_kept(image: &Path) -> Vec<Finding> {
    let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let opened = opening::open(&device, &OpeningOptions::default()).unwrap();
    let passed_over = opened.volume.findings().unwrap();
    for inode in 0..=tolerant::MOST_FINDINGS as u64 {
        let (inode, origin) = (InodeNumber::new(inode), tolerant::root::RootOrigin::Computed);
        passed_over.add(tolerant::Finding::RootInode { named: None, inode, origin });
    }
    let mut findings = Vec::new();
    check(
        &opened.volume,
        &CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() },
        &mut all(&mut findings),
    );
    findings
}

/// A header of a group that the log wants to change is gone.
fn log_unwritten(image: &Path) -> Vec<Finding> {
    make(image, 300 << 20, &[]).unwrap();
    let geometry = geometry_of(image);
    let start = Geometry::byte_of_sector(geometry.sector_of_block(geometry.log_start.unwrap()).unwrap());
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    file.write_all_at(&vec![0; (geometry.log_blocks as usize) << geometry.block_log], start).unwrap();
    findings_of(image)
}

fn log_not_replayed(image: &Path) -> Vec<Finding> {
    GoldenImage::dirty_log().unpack_to(image).unwrap();
    let geometry = geometry_of(image);
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    for group in geometry.groups() {
        let sector = geometry.sector_of_group_header(group, 1).unwrap();
        file.write_all_at(&[0; 512], Geometry::byte_of_sector(sector)).unwrap();
    }
    findings_of(image)
}

//! What a tolerant volume reads of images that were made by `mkfs.xfs` and damaged, compared with what the sound image held.
//! `xfs_db` says where the damaged blocks lie.
//!
//! | module | holds |
//! |---|---|
//! | here | extent maps, btrees of allocation groups, the bulk scan, superblocks, short devices |
//! | `attributes` | attributes behind damage |
//! | `directories` | entries of damaged directories |
//! | `damaged_image` | golden images that a test damages |
//! | `root` | the root directory that the superblock does not name |

mod attributes;
mod damaged_image;
mod directories;
mod root;

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    ops::ControlFlow,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
};

use damaged_image::DamagedImage;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::{bulk::create::NewKind, options::LogOptions};
use uxfs_filesystem::{file::Touch, filesystem::FileSystem, operations::create::NewFile};
use uxfs_format::{
    btree::extent_map::Extent,
    inode::{FileType, Fork},
    superblock::Superblock,
    units::AgNumber,
};
use uxfs_testkit::{
    image::{self, TestImage},
    judges::Judge,
    require,
};
use uxfs_volume::{
    error::Error,
    file_data::reader::FilePiece,
    inode::scan::{ScanEvent, ScanOptions, ScanSummary},
    tolerant::{SuperblockChoice, TolerantOptions},
    volume::Volume,
};

const BLOCK: u64 = 1024;
/// Small blocks make high btrees.
const SMALL: &[&str] = &["-b", "size=1024", "-d", "agcount=2"];
const FILE: NewFile<'static> = NewFile::new(NewKind::Regular, 0o600);

fn mounted(image: &TestImage) -> Arc<FileSystem> {
    image.mount_logged(LogOptions { has_background: false, ..LogOptions::default() })
}

fn tolerant(image: &TestImage, superblock: SuperblockChoice) -> Volume {
    let device = SyncDevice::open(&image.path, &Default::default()).unwrap();
    let options = TolerantOptions { superblock, ..TolerantOptions::default() };
    Volume::open_tolerantly(Arc::new(device), &options).unwrap()
}

fn findings(volume: &Volume) -> Vec<String> {
    volume.findings().unwrap().take().0.iter().map(ToString::to_string).collect()
}

fn write(image: &TestImage, offset_bytes: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(&image.path).unwrap().write_all_at(bytes, offset_bytes).unwrap();
}

/// Clears the block that `xfs_db` goes to.
fn clear(image: &TestImage, commands: &[&str]) {
    let mut judge = Judge::XfsDb.command();
    judge.arg("-r");
    for command in commands.iter().chain(&["daddr"]) {
        judge.args(["-c", command]);
    }
    let output = judge.arg(&image.path).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let sector: u64 = words.split_whitespace().last().unwrap().parse().unwrap_or_else(|_| panic!("{words}"));
    assert!(sector > 0, "{words}");
    write(image, sector * 512, &[0; BLOCK as usize]);
}

/// A file with an extent in every second block, 1000 of them, which say their number.
fn fragmented() -> TestImage {
    let image = TestImage::new("tolerant", 64, SMALL, 0);
    let file_system = mounted(&image);
    let root = file_system.open_root().unwrap();
    let file = file_system.create(&root, b"file", &FILE).unwrap();
    let other = file_system.create(&root, b"other", &FILE).unwrap();
    for number in 0..1000_u64 {
        let bytes = [number as u8 | 1; BLOCK as usize];
        file_system.write(&file, number * 2 * BLOCK, &bytes, Touch::NOTHING).unwrap();
        file_system.write(&other, number * 2 * BLOCK, &bytes, Touch::NOTHING).unwrap();
    }
    drop((file, other, root));
    file_system.close().unwrap();
    image.must_satisfy_repair();
    image
}

fn extents_of(volume: &Volume, path: &[u8]) -> Vec<Extent> {
    let inode = volume.resolve(path, false).unwrap();
    volume.extent_map(&inode, Fork::Data).unwrap().to_vec()
}

#[test]
fn a_lost_leaf_of_an_extent_map_costs_its_extents_only() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = fragmented();
    let sound = extents_of(&image.mount(), b"/file");
    assert_eq!(sound.len(), 1000);
    let inode = image.mount().resolve(b"/file", false).unwrap().number;
    clear(&image, &[&format!("inode {inode}"), "addr u3.bmbt.ptrs[1]", "addr ptrs[3]"]);
    let strict = image.mount();
    let file = strict.resolve(b"/file", false).unwrap();
    assert!(matches!(strict.extent_map(&file, Fork::Data), Err(Error::Corrupt(_))));

    let volume = tolerant(&image, SuperblockChoice::Automatic);
    let left = extents_of(&volume, b"/file");
    let lost: Vec<_> = sound.iter().filter(|extent| !left.contains(extent)).collect();
    assert!(lost.len() > 10 && lost.len() < 500 && left.len() + lost.len() == 1000, "{}", lost.len());
    let (first, last) = (lost[0].file_block.get(), lost[lost.len() - 1].file_block.get());
    assert_eq!((last - first) / 2 + 1, lost.len() as u64, "one leaf");
    assert!(findings(&volume).iter().any(|words| words.contains("extent map")));

    // Each block is what it was, or an error.
    let file = volume.resolve(b"/file", false).unwrap();
    let mut buffer = [0; BLOCK as usize];
    for extent in &sound {
        let block = extent.file_block.get();
        let read = volume.read_file(&file, block * BLOCK, &mut buffer);
        match (first..=last).contains(&block) {
            true => assert!(matches!(read, Err(Error::Corrupt(_))), "{block}: {read:?}"),
            false => assert!(read.unwrap() == 1024 && buffer == [(block / 2) as u8 | 1; 1024], "{block}"),
        }
    }
    assert!(matches!(volume.data_ranges(&file), Err(Error::Corrupt(_))));
    // From the beginning to the end: one error, and everything else.
    let mut reader = volume.file_reader(&file).unwrap();
    let (mut errors, mut data_bytes, mut after) = (0, 0, 0);
    loop {
        match reader.next_piece() {
            Ok(None) => break,
            Ok(Some(FilePiece::Data { offset_bytes, bytes })) => {
                assert_eq!(bytes[0], (offset_bytes / BLOCK / 2) as u8 | 1);
                data_bytes += bytes.len() as u64;
                after += usize::from(errors > 0);
            }
            Ok(Some(FilePiece::Hole { .. })) => {}
            Err(error) => {
                assert!(matches!(error, Error::Corrupt(_)), "{error}");
                errors += 1;
            }
        }
    }
    assert_eq!((errors, data_bytes), (1, left.len() as u64 * BLOCK));
    assert!(after > 0, "goes on behind the lost part");
    // The neighbour is whole.
    assert_eq!(extents_of(&volume, b"/other").len(), 1000);
}

#[test]
fn walks_over_btrees_of_groups_go_on_behind_lost_blocks() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let group = AgNumber::new(0);
    let all = |volume: &Volume| -> Vec<_> {
        volume.group(group).reverse_mappings().unwrap().map(Result::unwrap).collect()
    };
    // A leaf.
    let image = fragmented();
    let sound = all(&image.mount());
    assert!(sound.len() > 2000);
    clear(&image, &["agf 0", "addr rmaproot", "addr ptrs[1]", "addr ptrs[3]"]);
    assert!(image.mount().group(group).reverse_mappings().unwrap().any(|record| record.is_err()));
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    let left = all(&volume);
    let lost = sound.iter().filter(|record| !left.contains(record)).count();
    assert!((1..=40).contains(&lost) && left.len() + lost == sound.len(), "{lost}");
    assert_eq!(findings(&volume).len(), 1);
    // An interior block: the leaves below it are found by their siblings.
    let image = fragmented();
    clear(&image, &["agf 0", "addr rmaproot", "addr ptrs[2]"]);
    assert!(image.mount().group(group).reverse_mappings().unwrap().any(|record| record.is_err()));
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    assert!(all(&volume) == sound, "{} of {}", all(&volume).len(), sound.len());
    assert_eq!(findings(&volume).len(), 1);
    // The root: nothing, and it is said.
    let image = fragmented();
    clear(&image, &["agf 0", "addr rmaproot"]);
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    assert!(all(&volume).is_empty());
    assert_eq!(findings(&volume).len(), 1);
}

#[test]
fn pointers_that_lead_to_one_block_do_not_multiply_the_reads() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = fragmented();
    let run = |commands: &[&str]| {
        let mut judge = Judge::XfsDb.command();
        judge.arg("-x");
        for command in commands {
            judge.args(["-c", command]);
        }
        String::from_utf8(judge.arg(&image.path).output().unwrap().stdout).unwrap()
    };
    let root = ["agf 0", "addr rmaproot"];
    let header = run(&[&root[..], &["print level numrecs ptrs"]].concat());
    let number = |name: &str| -> usize {
        let line = header.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.unwrap_or_else(|| panic!("{header}")).parse().unwrap()
    };
    let pointers = number("numrecs");
    assert!(number("level") == 2 && pointers > 2, "{header}");
    let last = header.rsplit([':', ' ']).next().unwrap().trim();
    let writes: Vec<_> = (1..pointers).map(|index| format!("write -d ptrs[{index}] {last}")).collect();
    let writes: Vec<_> = writes.iter().map(String::as_str).collect();
    run(&[&root[..], &writes].concat());

    let volume = tolerant(&image, SuperblockChoice::Automatic);
    let group = volume.group(AgNumber::new(0));
    let records: Vec<_> = group.reverse_mappings().unwrap().map(Result::unwrap).collect();
    assert!(records.len() > 20 && records.is_sorted_by_key(|record| record.start), "once, in order");
    assert_eq!(
        findings(&volume).len(),
        1,
        "the block is out of order, and the leaves below it are not read again"
    );
}

#[test]
fn walks_over_free_space_and_reference_counts_go_on_behind_a_lost_block() {
    require!(Judge::XfsDb);
    // Each btree, the allocation group in which it has leaves, and how its records come.
    let by_block = |volume: &Volume| {
        let tree = volume.group(AgNumber::new(1)).free_space_by_block().unwrap();
        texts(tree.records())
    };
    let by_length = |volume: &Volume| {
        let tree = volume.group(AgNumber::new(1)).free_space_by_length().unwrap();
        texts(tree.records())
    };
    let counts = |volume: &Volume| {
        let tree = volume.group(AgNumber::new(2)).reference_counts().unwrap();
        texts(tree.unwrap().records())
    };
    let cases: [(&str, &str, &ReadRecords); 3] = [
        ("agf 1", "addr bnoroot", &by_block),
        ("agf 1", "addr cntroot", &by_length),
        ("agf 2", "addr refcntroot", &counts),
    ];
    for (group, root, records) in cases {
        let image = DamagedImage::golden("default");
        let (sound, errors) = records(&image.strict());
        assert!(sound.len() > 300 && errors == 0, "{root}: {}", sound.len());
        // xfs_db says how many records the second leaf has, and where in the order they lie.
        let count = |leaf: &str| -> usize {
            let printed = image.db(&[group, root, &format!("addr ptrs[{leaf}]"), "print numrecs"]);
            printed.trim().rsplit(' ').next().unwrap().parse().unwrap()
        };
        let (before, lost) = (count("1"), count("2"));
        image.clear(&[group, root, "addr ptrs[2]"], 4096);
        assert!(records(&image.strict()).1 > 0, "{root}: a strict volume gives the error");
        let volume = image.tolerant();
        let (left, errors) = records(&volume);
        let expected = [&sound[..before], &sound[before + lost..]].concat();
        assert!(left == expected && errors == 0, "{root}: {} of {}", left.len(), expected.len());
        assert_eq!(findings(&volume).len(), 1, "{root}");
    }
}

/// Gives what [`texts`] gives of one btree.
type ReadRecords = dyn Fn(&Volume) -> (Vec<String>, usize);

/// The records that can be read, and the number of errors.
fn texts<R: std::fmt::Debug>(records: impl Iterator<Item = Result<R, Error>>) -> (Vec<String>, usize) {
    let (mut texts, mut errors) = (Vec::new(), 0);
    for record in records {
        match record {
            Ok(record) => texts.push(format!("{record:?}")),
            Err(_) => errors += 1,
        }
    }
    (texts, errors)
}

fn inodes(volume: &Volume) -> (Vec<u64>, ScanSummary) {
    let numbers = Mutex::new(Vec::new());
    let (summary, _) = volume.scan_inodes(
        &ScanOptions::in_order(),
        || (),
        |(), event| {
            if let ScanEvent::Inode(inode) = event
                && inode.core.is_ok()
            {
                numbers.lock().unwrap().push(inode.number.get());
            }
            ControlFlow::Continue(())
        },
    );
    (numbers.into_inner().unwrap(), summary)
}

#[test]
fn the_bulk_scan_goes_on_behind_lost_chunks_and_lost_blocks_of_the_index() {
    require!(Judge::Mkfs, Judge::XfsDb, Judge::XfsRepair);
    let image = TestImage::new("tolerant", 64, SMALL, 12_000);
    let (sound, summary) = inodes(&image.mount());
    assert!(summary.is_clean() && sound.len() > 12_000);
    // One inode in the middle, with all that lies in its sector.
    let path = image.mount().resolve(b"/file-5000", false).unwrap().number;
    clear(&image, &[&format!("inode {path}")]);
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    let (left, summary) = inodes(&volume);
    let in_block = BLOCK / 512;
    let gone: Vec<_> = sound.iter().copied().filter(|number| !left.contains(number)).collect();
    assert!(gone.contains(&path.get()) && gone.len() as u64 <= in_block, "{gone:?}");
    assert_eq!(summary.damaged_inodes, gone.len() as u64);
    // And a leaf of the index, with at most 60 chunks.
    clear(&image, &["agi 0", "addr root", "addr ptrs[2]"]);
    let (strict, _) = inodes(&image.mount());
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    let (left, summary) = inodes(&volume);
    assert!(left.len() > strict.len(), "{} and {}", left.len(), strict.len());
    assert!(left.len() < sound.len() && left.len() + 61 * 64 >= sound.len(), "{}", left.len());
    assert!(left.last() == sound.last() && left.is_sorted(), "goes on to the end");
    assert!(!summary.is_clean() && summary.damaged_indexes == 1);
    assert_eq!(findings(&volume).len(), 1);
}

#[test]
fn a_given_superblock_needs_no_copy_on_the_device() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("tolerant", 64, &["-d", "agcount=2"], 20);
    let mut bytes = [0; 512];
    File::open(&image.path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let superblock = *Superblock::parse(&bytes).unwrap().0;
    let (sound, _) = inodes(&image.mount());
    for group in 0..2 {
        write(&image, group * (32 << 20), &[0; 512]);
    }
    let device = Arc::new(SyncDevice::open(&image.path, &Default::default()).unwrap());
    Volume::open_tolerantly(device, &TolerantOptions::default()).unwrap_err();
    // A superblock made from an inferred geometry has no checksum.
    let mut given = superblock;
    given.checksum = Default::default();
    let volume = tolerant(&image, SuperblockChoice::Given(Box::new(given)));
    assert_eq!(inodes(&volume).0, sound);
    volume.resolve(b"/file-7", false).unwrap();
}

#[test]
fn an_image_within_a_file_is_not_taken_for_the_file_system() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("tolerant", 320, &["-d", "agcount=4"], 20);
    let folder = tempfile::tempdir_in(image::memory_folder()).unwrap();
    let inner = folder.path().join("inner");
    image::make(&inner, 64 << 20, &["-d", "agcount=4", "-m", "uuid=0b5e7c1e-7d0b-4d53-9d3c-0d7d8a1b2c3d"])
        .unwrap();
    // Where a file's contents may well lie: in free space of the first group, at a multiple of the inner group's size.
    let bytes = std::fs::read(&inner).unwrap();
    write(&image, 32 << 20, &bytes[..1 << 20]);
    let sound = image.mount().superblock().uuid;
    write(&image, 0, &[0; 512]);
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    assert!(volume.superblock().uuid == sound, "the image within a file was taken");
    volume.resolve(b"/file-7", false).unwrap();
}

/// Where everything of a path lies before this byte, and the contents of the file.
fn whole_paths(volume: &Volume, end_bytes: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let geometry = volume.geometry().clone();
    let is_before = |inode: &uxfs_volume::inode::Inode| {
        let place = geometry.inode_place(inode.number).unwrap();
        let block = geometry.fs_block(place.group, place.block).unwrap();
        let map = volume.extent_map(inode, Fork::Data).unwrap();
        let ends = map.iter().map(|extent| (extent.start, extent.length_blocks)).chain([(block, 1)]);
        ends.into_iter().all(|(start, length)| {
            let sector = geometry.sector_of_block(start).unwrap().get();
            sector * 512 + length * u64::from(geometry.block_size_bytes) <= end_bytes
        })
    };
    let mut found = BTreeMap::new();
    let mut waiting = vec![(Vec::new(), volume.root().unwrap())];
    while let Some((path, directory)) = waiting.pop() {
        if !is_before(&directory) {
            continue;
        }
        let mut entries = Vec::new();
        let read = volume.read_directory(&directory, 0, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                entries.push((entry.name.to_vec(), entry.inode));
            }
            ControlFlow::Continue(())
        });
        read.unwrap();
        for (name, number) in entries {
            let path = [path.as_slice(), b"/", &name].concat();
            let Ok(inode) = volume.inode_of_entry(&directory, number) else { continue };
            if inode.file_type() == Some(FileType::Directory) {
                waiting.push((path, inode));
            } else if is_before(&inode) {
                let mut bytes = vec![0; inode.size_bytes() as usize];
                volume.read_file(&inode, 0, &mut bytes).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

#[test]
fn a_device_that_is_too_short_gives_every_file_of_the_groups_that_are_there() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("tolerant", 320, &["-d", "agcount=4"], 0);
    let file_system = mounted(&image);
    let root = file_system.open_root().unwrap();
    for directory in 0..12 {
        let kind = NewFile::new(NewKind::Directory, 0o700);
        let made = file_system.create(&root, format!("directory-{directory}").as_bytes(), &kind).unwrap();
        for number in 0..10 {
            let file = file_system.create(&made, format!("file-{number}").as_bytes(), &FILE).unwrap();
            let bytes = [directory * 10 + number + 1; 9000];
            file_system.write(&file, 0, &bytes, Touch::NOTHING).unwrap();
        }
    }
    drop(root);
    file_system.close().unwrap();
    let length_bytes = 160 << 20;
    let (all, expected) = (whole_paths(&image.mount(), u64::MAX), whole_paths(&image.mount(), length_bytes));
    assert_eq!(all.len(), 120);
    assert!((30..90).contains(&expected.len()), "{}", expected.len());
    OpenOptions::new().write(true).open(&image.path).unwrap().set_len(length_bytes).unwrap();
    let volume = tolerant(&image, SuperblockChoice::Automatic);
    assert!(whole_paths(&volume, length_bytes) == expected);
    assert!(findings(&volume).iter().any(|words| words.contains("the device has 167772160 bytes")));
}

//! Every form of inode, as the kernel wrote it and as it describes it: `testdata/inode_forms`.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use uxfs_format::{
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    units::InodeNumber,
};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    error::{Error, OperationError},
    file_data::reader::FilePiece,
    inode::{FileType, Fork, ForkFormat, Inode, InodeFork, Timestamp},
};

use crate::common::{PatchedDevice, inode_forms};

const MANIFEST: &str = include_str!("../testdata/inode_forms/manifest.txt");

/// One `file` line of the manifest.
struct Entry {
    path: &'static str,
    number: InodeNumber,
    fields: Vec<&'static str>,
}

fn entries() -> Vec<Entry> {
    let lines = MANIFEST.lines().filter_map(|line| line.strip_prefix("file "));
    let entries = lines.map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        Entry { path: fields[0], number: InodeNumber::new(fields[1].parse().unwrap()), fields }
    });
    entries.collect()
}

fn number_of(path: &str) -> InodeNumber {
    entries().iter().find(|entry| entry.path == path).unwrap().number
}

fn file_system() -> Volume {
    PatchedDevice::new(inode_forms()).mount()
}

fn nanoseconds(time: Timestamp) -> String {
    (i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)).to_string()
}

fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Number and hash of the extents, neighbours joined, as the manifest has them.
fn extents(file_system: &Volume, inode: &Inode) -> (String, String) {
    let geometry = file_system.geometry();
    let mut merged: Vec<(u64, u64, u64, bool)> = Vec::new();
    for extent in file_system.extent_map(inode, Fork::Data).unwrap().iter() {
        let sector = geometry.sector_of_block(extent.start).unwrap();
        let logical = extent.file_block.get() << geometry.block_log;
        let physical = Geometry::byte_of_sector(sector);
        let length = extent.length_blocks << geometry.block_log;
        match merged.last_mut() {
            Some(last)
                if (last.0 + last.2, last.1 + last.2, last.3) == (logical, physical, extent.is_unwritten) =>
            {
                last.2 += length;
            }
            _ => merged.push((logical, physical, length, extent.is_unwritten)),
        }
    }
    let text: String = merged
        .iter()
        .map(|(logical, physical, length, unwritten)| {
            format!("{logical} {physical} {length} {}\n", u8::from(*unwritten))
        })
        .collect();
    (merged.len().to_string(), hex(Sha256::digest(text)))
}

/// Hash of where data lies and what it is. Neighbouring ranges count as one, as in `SEEK_HOLE`.
fn content(file_system: &Volume, inode: &Inode) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for range in file_system.data_ranges(inode).unwrap() {
        match runs.last_mut() {
            Some(last) if last.1 == range.offset_bytes => last.1 = range.end_bytes(),
            _ => runs.push((range.offset_bytes, range.end_bytes())),
        }
    }
    let mut hasher = Sha256::new();
    for (start, end) in runs {
        hasher.update(format!("{start} {end}\n"));
        let mut bytes = vec![0xaa; (end - start) as usize];
        assert_eq!(file_system.read_file(inode, start, &mut bytes).unwrap(), bytes.len());
        hasher.update(&bytes);
    }
    hex(hasher.finalize())
}

#[test]
fn every_file_is_what_the_kernel_says() {
    let file_system = file_system();
    for entry in entries() {
        let inode = file_system.inode(entry.number).unwrap();
        let ours = [
            entry.path.to_string(),
            inode.number.to_string(),
            format!("{:o}", inode.mode()),
            inode.link_count().to_string(),
            inode.uid().to_string(),
            inode.gid().to_string(),
            inode.size_bytes().to_string(),
            inode.blocks().to_string(),
            nanoseconds(inode.access_time()),
            nanoseconds(inode.modification_time()),
            nanoseconds(inode.change_time()),
            inode.device_number().to_string(),
        ];
        assert_eq!(&ours[..], &entry.fields[..12]);
        match inode.file_type() {
            Some(FileType::Regular) => {
                let (count, hash) = extents(&file_system, &inode);
                let ours = [content(&file_system, &inode), count, hash];
                assert_eq!(ours, entry.fields[12..15], "{}", entry.path);
            }
            Some(FileType::SymbolicLink) => {
                let target = file_system.read_symlink(&inode).unwrap();
                assert_eq!(target, entry.fields[12].as_bytes(), "{}", entry.path);
            }
            _ => {}
        }
    }
}

#[test]
fn the_forms_are_all_there() {
    let file_system = file_system();
    let inode = |path| file_system.inode(number_of(path)).unwrap();
    assert_eq!(inode("symlink").local_fork(Fork::Data), Some(&b"target"[..]));
    assert!(inode("remote_symlink").has_extents(Fork::Data));
    assert_eq!(inode("empty").data, InodeFork::empty());
    assert!(matches!(inode("fifo").data, InodeFork::Device(_)));
    assert!(matches!(inode("small").attribute, Some(InodeFork::Local(_))));
    for (path, level) in [("root_level_1", 1), ("root_level_2", 2), ("two_root_entries", 2)] {
        assert_eq!(inode(path).fork_format(Fork::Data), Some(ForkFormat::Btree));
        let bytes = file_system.inode_bytes(number_of(path)).unwrap();
        assert_eq!(bytes[INODE_CORE_SIZE_BYTES as usize..][..2], [0, level], "{path}");
    }
    let attributes = inode("attributes");
    assert_eq!(attributes.fork_format(Fork::Attribute), Some(ForkFormat::Extents));
    let map = file_system.extent_map(&attributes, Fork::Attribute).unwrap();
    assert_eq!(map.len() as u64, attributes.extent_count(Fork::Attribute));
    assert!(map.iter().all(|extent| !extent.is_unwritten));
    let unwritten = inode("unwritten");
    let unwritten = file_system.extent_map(&unwritten, Fork::Data).unwrap();
    assert_eq!(unwritten.iter().filter(|extent| extent.is_unwritten).count(), 3);
}

#[test]
fn inodes_in_use_are_those_that_bulkstat_gives() {
    let file_system = file_system();
    let in_use: BTreeSet<u64> =
        MANIFEST.lines().filter_map(|line| line.strip_prefix("inode ")?.parse().ok()).collect();
    let chunks: BTreeSet<u64> = in_use.iter().map(|number| number / 64 * 64).collect();
    let numbers = chunks.iter().flat_map(|first| *first..first + 64);
    let mut found = BTreeSet::new();
    for number in numbers {
        match file_system.inode(InodeNumber::new(number)) {
            Ok(inode) => {
                // The kernel keeps its own inodes (realtime bitmap and summary) to itself.
                let is_internal = number == 65 || number == 66;
                assert_eq!(inode.number.get(), number);
                if !is_internal {
                    found.insert(number);
                }
            }
            Err(Error::Operation(OperationError::NoSuchInode)) => {}
            Err(error) => panic!("inode {number}: {error}"),
        }
    }
    assert_eq!(found, in_use);
    for number in [0, u64::MAX, 1 << 40] {
        let result = file_system.inode(InodeNumber::new(number));
        assert!(matches!(result, Err(Error::Operation(OperationError::NoSuchInode))), "{number}");
    }
    // Blocks of other things, and free inodes.
    for number in [0, 2, 63, 20_000, 1 << 40, 79] {
        let result = file_system.inode_from_outside(InodeNumber::new(number));
        assert!(matches!(result, Err(Error::Operation(OperationError::NoSuchInode))), "{number}");
    }
    assert!(matches!(file_system.inode(InodeNumber::new(63)), Err(Error::Corrupt(_))));
    assert_eq!(file_system.inode_from_outside(InodeNumber::new(64)).unwrap().number.get(), 64);
    file_system.prefetch_inodes([0, 64, 65, 29504, u64::MAX].map(InodeNumber::new));
}

#[test]
fn random_access_and_sequential_reading_agree() {
    let file_system = file_system();
    for path in ["blocks", "unwritten", "past_end", "two_root_entries", "clone", "small", "empty"] {
        let inode = file_system.inode(number_of(path)).unwrap();
        let mut whole = Vec::new();
        let mut reader = file_system.file_reader(&inode).unwrap();
        while let Some(piece) = reader.next_piece().unwrap() {
            match piece {
                FilePiece::Hole { offset_bytes, length_bytes } => {
                    assert_eq!(offset_bytes, whole.len() as u64);
                    whole.resize(whole.len() + length_bytes as usize, 0);
                }
                FilePiece::Data { offset_bytes, bytes } => {
                    assert_eq!(offset_bytes, whole.len() as u64);
                    whole.extend_from_slice(bytes);
                }
            }
        }
        assert_eq!(whole.len() as u64, inode.size_bytes(), "{path}");
        for (offset, length) in
            [(0, 1), (1, 5000), (1023, 2), (9999, 33333), (1 << 20, 1 << 20), (0, 4 << 20)]
        {
            let mut buffer = vec![0xaa; length];
            let count = file_system.read_file(&inode, offset as u64, &mut buffer).unwrap();
            let expected = whole.get(offset..whole.len().min(offset + length)).unwrap_or_default();
            assert_eq!(&buffer[..count], expected, "{path} from {offset}");
        }
    }
}

#[test]
fn a_hole_of_a_tebibyte_costs_nothing() {
    let file_system = file_system();
    let inode = file_system.inode(number_of("sparse")).unwrap();
    let mut reader = file_system.file_reader(&inode).unwrap();
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece().unwrap() {
        pieces.push(match piece {
            FilePiece::Hole { offset_bytes, length_bytes } => ("hole", offset_bytes, length_bytes),
            FilePiece::Data { offset_bytes, bytes } => ("data", offset_bytes, bytes.len() as u64),
        });
    }
    let end = (1 << 20) + 3 * 1024;
    let expected = [
        ("hole", 0, 5120),
        ("data", 5120, 1024),
        ("hole", 6144, (1 << 20) - 6144),
        ("data", 1 << 20, 3 * 1024),
        ("hole", end, (1 << 40) + 12345 - end),
    ];
    assert_eq!(pieces, expected);
    let mut buffer = [0xaa; 4096];
    assert_eq!(file_system.read_file(&inode, 1 << 39, &mut buffer).unwrap(), 4096);
    assert_eq!(buffer, [0; 4096]);
    assert_eq!(file_system.read_file(&inode, u64::MAX, &mut buffer).unwrap(), 0);
}

#[test]
fn only_regular_files_have_contents_and_only_links_targets() {
    let file_system = file_system();
    let inode = |path| file_system.inode(number_of(path)).unwrap();
    let read = |path| file_system.read_file(&inode(path), 0, &mut [0]).unwrap_err();
    assert!(matches!(read("directory"), Error::Operation(OperationError::IsADirectory)));
    assert!(matches!(read("fifo"), Error::Operation(OperationError::WrongFileType)));
    assert!(matches!(read("symlink"), Error::Operation(OperationError::WrongFileType)));
    let error = file_system.read_symlink(&inode("small")).unwrap_err();
    assert!(matches!(error, Error::Operation(OperationError::WrongFileType)));
}

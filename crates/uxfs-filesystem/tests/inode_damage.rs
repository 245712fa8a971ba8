//! Damaged extent maps and symbolic links: the exact fault for each, and an answer for any bytes.

use proptest::prelude::*;
use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapFault, ExtentRecord},
    fault::{Fault, HeaderFault},
    geometry::Geometry,
    inode::{core::CHECKSUM_OFFSET_BYTES, symlink::SymlinkFault},
    units::{FileBlock, FsBlock, InodeNumber},
};
use uxfs_volume::{error::Error, file_data::reader::FilePiece, inode::Fork, volume::Volume};
use zerocopy::IntoBytes;

use crate::common::{PatchedDevice, inode_forms};

const MANIFEST: &str = include_str!("../testdata/inode_forms/manifest.txt");
/// Of a long btree block.
const BLOCK_CHECKSUM: u32 = 64;
/// Of a fork's first byte in an inode.
const FORK: usize = 176;
const BLOCK_SIZE: usize = 1024;
/// Of a long btree block.
const BLOCK_HEADER: usize = 72;

fn number_of(path: &str) -> InodeNumber {
    let line = MANIFEST.lines().find(|line| line.starts_with(&format!("file {path} "))).unwrap();
    InodeNumber::new(line.split(' ').nth(2).unwrap().parse().unwrap())
}

fn original() -> Volume {
    PatchedDevice::new(inode_forms()).mount()
}

fn inode_offset(geometry: &Geometry, number: InodeNumber) -> usize {
    let place = geometry.inode_place(number).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    Geometry::byte_of_sector(sector) as usize + place.offset_bytes as usize
}

/// Mounts with the inode of `path` changed.
fn with_inode(path: &str, change: impl FnOnce(&mut [u8])) -> Volume {
    let device = PatchedDevice::new(inode_forms());
    let offset = inode_offset(original().geometry(), number_of(path));
    device.patch(offset, 512, CHECKSUM_OFFSET_BYTES, change);
    device.mount()
}

/// The btree block that the root in the inode of `path` leads to first.
fn first_child(file_system: &Volume, path: &str) -> u64 {
    let inode = file_system.inode(number_of(path)).unwrap();
    let bytes = file_system.inode_bytes(inode.number).unwrap();
    let room = inode.fork_room_bytes(Fork::Data, file_system.geometry()) as usize;
    let root = &bytes[FORK..FORK + room];
    let pointer_at = 4 + 8 * ((root.len() - 4) / 16);
    u64::from_be_bytes(root[pointer_at..pointer_at + 8].try_into().unwrap())
}

fn block_offset(geometry: &Geometry, block: u64) -> usize {
    Geometry::byte_of_sector(geometry.sector_of_block(FsBlock::new(block)).unwrap()) as usize
}

/// Mounts with the first leaf of the tree of `path` changed.
fn with_leaf(path: &str, change: impl FnOnce(&mut [u8])) -> Volume {
    let file_system = original();
    let offset = block_offset(file_system.geometry(), first_child(&file_system, path));
    let device = PatchedDevice::new(inode_forms());
    device.patch(offset, BLOCK_SIZE, BLOCK_CHECKSUM, change);
    device.mount()
}

/// Makes `entries` of a btree node lead to one block: keys in `keys` of `room` entries, pointers behind them.
fn lead_to(keys: &mut [u8], room: usize, entries: usize, block: u64) {
    for index in 0..entries {
        keys[8 * index..][..8].copy_from_slice(&(index as u64).to_be_bytes());
        keys[8 * (room + index)..][..8].copy_from_slice(&block.to_be_bytes());
    }
}

#[test]
fn blocks_with_many_parents_are_read_once() {
    const ENTRIES: usize = (BLOCK_SIZE - BLOCK_HEADER) / 16;
    let path = "root_level_2";
    let sound = original();
    let geometry = sound.geometry();
    let device = PatchedDevice::new(inode_forms());
    let mut node = vec![0; BLOCK_SIZE];
    sound.device().read(block_offset(geometry, first_child(&sound, path)) as u64, &mut node).unwrap();
    let pointers = &node[BLOCK_HEADER + 8 * ENTRIES..];
    let [leaf, lower, upper] =
        [0, 1, 2].map(|index| u64::from_be_bytes(pointers[8 * index..][..8].try_into().unwrap()));
    for (level, block, child) in [(1_u16, lower, leaf), (2, upper, lower)] {
        device.patch(block_offset(geometry, block), BLOCK_SIZE, BLOCK_CHECKSUM, |block| {
            block[4..6].copy_from_slice(&level.to_be_bytes());
            block[6..8].copy_from_slice(&(ENTRIES as u16).to_be_bytes());
            lead_to(&mut block[BLOCK_HEADER..], ENTRIES, ENTRIES, child);
        });
    }
    let room = sound.inode(number_of(path)).unwrap().fork_room_bytes(Fork::Data, geometry) as usize;
    let entries = (room - 4) / 16;
    device.patch(inode_offset(geometry, number_of(path)), 512, CHECKSUM_OFFSET_BYTES, |inode| {
        let root = &mut inode[FORK..];
        root[..2].copy_from_slice(&3_u16.to_be_bytes());
        root[2..4].copy_from_slice(&(entries as u16).to_be_bytes());
        lead_to(&mut root[4..], entries, entries, upper);
    });
    let volume = device.open_tolerantly();
    let inode = volume.inode(number_of(path)).unwrap();
    let left = volume.extent_map(&inode, Fork::Data).unwrap().len();
    assert!(left > 10, "the leaf is read: {left} extents");
    let (kept, others) = volume.findings().unwrap().take();
    // One for each block that is reached a second time.
    assert_eq!((kept.len(), others), (3, 0));
    assert_eq!(volume.lost_extents(&inode, Fork::Data).unwrap().len(), 1, "adjacent lost parts are one");
}

/// Contents that cannot be read are an error; they must not come out as a hole when reading goes on.
#[test]
fn reading_goes_on_behind_a_failed_read() {
    let sound = original();
    let inode = sound.inode(number_of("root_level_2")).unwrap();
    let ranges: Vec<_> = sound.data_ranges(&inode).unwrap().collect();
    let device = PatchedDevice::new(inode_forms());
    device.fail_at(ranges[1].device_offset_bytes as usize);
    let volume = device.mount();
    let inode = volume.inode(inode.number).unwrap();
    let mut reader = volume.file_reader(&inode).unwrap();
    let (mut errors, mut data_bytes, mut next) = (0, 0, 0);
    loop {
        match reader.next_piece() {
            Ok(None) => break,
            Ok(Some(FilePiece::Data { offset_bytes, bytes })) => {
                data_bytes += bytes.len() as u64;
                next = offset_bytes + bytes.len() as u64;
            }
            Ok(Some(FilePiece::Hole { offset_bytes, length_bytes })) => {
                let hole = offset_bytes..offset_bytes + length_bytes;
                assert!(!hole.contains(&ranges[1].offset_bytes), "{hole:?} is no hole");
                next = hole.end;
            }
            Err(error) => {
                assert!(matches!(error, Error::Io(_)), "{error}");
                errors += 1;
            }
        }
    }
    let all_bytes: u64 = ranges.iter().map(|range| range.length_bytes).sum();
    assert_eq!((errors, next), (1, inode.size_bytes()));
    assert_eq!(data_bytes, all_bytes - ranges[1].length_bytes);
}

fn fault_of(error: Error) -> Fault {
    match error {
        Error::Corrupt(corruption) => corruption.fault,
        other => panic!("{other}"),
    }
}

fn map_fault(file_system: &Volume, path: &str, fork: Fork) -> Fault {
    let inode = file_system.inode(number_of(path)).unwrap();
    fault_of(file_system.extent_map(&inode, fork).unwrap_err())
}

fn data_fault(file_system: &Volume, path: &str) -> Fault {
    map_fault(file_system, path, Fork::Data)
}

fn set_extent(fork: &mut [u8], index: usize, extent: &Extent) {
    fork[16 * index..16 * (index + 1)].copy_from_slice(ExtentRecord::new(extent).unwrap().as_bytes());
}

fn extent(file_block: u64, start: u64, length_blocks: u64) -> Extent {
    let (file_block, start) = (FileBlock::new(file_block), FsBlock::new(start));
    Extent { file_block, start, length_blocks, is_unwritten: false }
}

#[test]
fn extents_in_the_inode() {
    let set = |extents: &'static [(usize, Extent)]| {
        with_inode("clone", move |inode| {
            extents.iter().for_each(|(index, extent)| set_extent(&mut inode[FORK..], *index, extent));
        })
    };
    const fn at(file_block: u64, start: u64, length_blocks: u64) -> Extent {
        let (file_block, start) = (FileBlock::new(file_block), FsBlock::new(start));
        Extent { file_block, start, length_blocks, is_unwritten: false }
    }
    let file_system = set(const { &[(1, at(5, 5000, 1))] });
    let fault = ExtentMapFault::Overlap { file_block: FileBlock::new(5), end: FileBlock::new(20) };
    assert_eq!(data_fault(&file_system, "clone"), fault.into());

    let file_system = set(const { &[(1, at(20, 5000, 0))] });
    let fault = ExtentMapFault::NoLength { file_block: FileBlock::new(20) };
    assert_eq!(data_fault(&file_system, "clone"), fault.into());

    // Behind the last group, over the end of one, and over the headers of one.
    for (start, length_blocks) in [(3 << 15, 1), (32767, 2), (1, 1)] {
        let file_system = with_inode("clone", |inode| {
            set_extent(&mut inode[FORK..], 1, &extent(20, start, length_blocks));
        });
        let fault = ExtentMapFault::Place { start: FsBlock::new(start), length_blocks };
        assert_eq!(data_fault(&file_system, "clone"), fault.into());
    }
}

#[test]
fn attribute_extents_are_written() {
    let file_system = with_inode("attributes", |inode| {
        let fork = FORK + 8 * usize::from(inode[82]);
        inode[fork] |= 0x80;
    });
    let fault = ExtentMapFault::UnwrittenAttribute { file_block: FileBlock::new(0) };
    assert_eq!(map_fault(&file_system, "attributes", Fork::Attribute), fault.into());
}

#[test]
fn extents_in_a_btree() {
    let path = "root_level_1";
    let number = number_of(path);
    let file_system = with_leaf(path, |block| block[63] ^= 1);
    let fault = HeaderFault::WrongOwner { found: number.get() ^ 1, expected: number.get() };
    assert_eq!(data_fault(&file_system, path), fault.into());

    let file_system = with_leaf(path, |block| {
        block[6..8].fill(0);
        block[8..24].fill(0xff);
    });
    assert_eq!(data_fault(&file_system, path), ExtentMapFault::EmptyChild.into());

    let file_system = with_leaf(path, |block| block[7] -= 1);
    let fault = ExtentMapFault::Count { found: 39, expected: 40 };
    assert_eq!(data_fault(&file_system, path), fault.into());

    let file_system = with_inode(path, |inode| inode[31] -= 1);
    let fault = ExtentMapFault::Count { found: 40, expected: 39 };
    assert_eq!(data_fault(&file_system, path), fault.into());

    let file_system = with_inode(path, |inode| inode[FORK + 1] = 2);
    let fault = ExtentMapFault::ChildLevel { found: 0, expected: 1 };
    assert_eq!(data_fault(&file_system, path), fault.into());

    // A child that is reached twice.
    let path = "two_root_entries";
    let file_system = with_inode(path, |inode| {
        let pointers = FORK + 4 + 8 * ((8 * usize::from(inode[82]) - 4) / 16);
        inode.copy_within(pointers..pointers + 8, pointers + 8);
    });
    let fault = data_fault(&file_system, path);
    assert!(matches!(fault, Fault::ExtentMap(ExtentMapFault::Overlap { .. })), "{fault}");
}

#[test]
fn targets_of_symbolic_links() {
    let link_fault = |file_system: &Volume, path| {
        let inode = file_system.inode(number_of(path)).unwrap();
        fault_of(file_system.read_symlink(&inode).unwrap_err())
    };
    let file_system = with_inode("symlink", |inode| inode[FORK + 2] = 0);
    let fault = SymlinkFault::ZeroByte { offset_bytes: 2 };
    assert_eq!(link_fault(&file_system, "symlink"), fault.into());

    let file_system =
        with_inode("remote_symlink", |inode| inode[56..64].copy_from_slice(&[0, 0, 0, 0, 0, 0, 4, 0]));
    let fault = SymlinkFault::TargetLength { length_bytes: 1024 };
    assert_eq!(link_fault(&file_system, "remote_symlink"), fault.into());

    let file_system = with_inode("remote_symlink", |inode| inode[63] += 1);
    let fault = SymlinkFault::PieceLength { found: 300, expected: 301 };
    assert_eq!(link_fault(&file_system, "remote_symlink"), fault.into());

    let file_system = with_inode("remote_symlink", |inode| inode[FORK + 6] |= 2);
    let fault = SymlinkFault::MissingExtent { held_bytes: 0, length_bytes: 300 };
    assert_eq!(link_fault(&file_system, "remote_symlink"), fault.into());

    // The blocks of another link.
    let file_system = original();
    let other = file_system.inode(number_of("block_symlink")).unwrap();
    let bytes = file_system.inode_bytes(other.number).unwrap()[FORK..FORK + 16].to_vec();
    let file_system = with_inode("remote_symlink", |inode| inode[FORK..FORK + 16].copy_from_slice(&bytes));
    let found = other.number.get();
    let fault = HeaderFault::WrongOwner { found, expected: number_of("remote_symlink").get() };
    assert_eq!(link_fault(&file_system, "remote_symlink"), fault.into());
}

const PATHS: &[&str] = &[
    "symlink",
    "remote_symlink",
    "longest_symlink",
    "unwritten",
    "sparse",
    "root_level_1",
    "root_level_2",
    "attributes",
    "fifo",
    "directory",
];

/// Asks for all that an inode offers; any answer will do.
fn look_at_everything(file_system: &Volume, path: &str) {
    let Ok(inode) = file_system.inode(number_of(path)) else { return };
    for fork in [Fork::Data, Fork::Attribute] {
        inode.fork(fork);
        let _ = file_system.extent_map(&inode, fork).map(|map| map.blocks());
    }
    let _ = file_system.read_symlink(&inode);
    let mut buffer = [0; 3000];
    for offset in [0, 1 << 20, inode.size_bytes().saturating_sub(10), u64::MAX - 5] {
        let _ = file_system.read_file(&inode, offset, &mut buffer);
    }
    if let Ok(mut reader) = file_system.file_reader(&inode) {
        for _ in 0..50 {
            if !matches!(reader.next_piece(), Ok(Some(_))) {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_sealed_inode_gets_an_answer(
        which in 0..PATHS.len(),
        patches in prop::collection::vec((0usize..512, any::<u8>()), 1..6),
    ) {
        let file_system = with_inode(PATHS[which], |inode| {
            patches.iter().for_each(|(offset, value)| inode[*offset] = *value);
        });
        look_at_everything(&file_system, PATHS[which]);
    }

    #[test]
    fn any_sealed_tree_block_gets_an_answer(
        two_levels in any::<bool>(),
        patches in prop::collection::vec((0usize..BLOCK_SIZE, any::<u8>()), 1..6),
    ) {
        let path = if two_levels { "root_level_2" } else { "root_level_1" };
        let file_system = with_leaf(path, |block| {
            patches.iter().for_each(|(offset, value)| block[*offset] = *value);
        });
        look_at_everything(&file_system, path);
    }
}

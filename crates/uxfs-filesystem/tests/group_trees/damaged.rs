//! Trees whose blocks contradict each other. Each block alone is as it should be: the damage is sealed.

use std::{fs::File, os::unix::fs::FileExt};

use tempfile::NamedTempFile;
use uxfs_format::{
    allocation_group::{free_list::FreeListFault, free_space_header},
    btree::{
        BtreeKind,
        block::BtreeBlock,
        check::BtreeFault,
        free_space::ByBlock,
        reverse_map::{ReverseMap, ReverseMapRecord},
    },
    checksum,
    fault::{Fault, HeaderFault},
    geometry::Geometry,
    units::{AgBlock, AgNumber, Sector},
};
use uxfs_testkit::{golden::GoldenImage, seeds::Seed};
use uxfs_volume::error::Error;
use uxfs_volume::volume::Volume;

use super::mount;

/// Its trees by block and of owners have 2 and 3 levels in `block-1k`.
const GROUP: AgNumber = AgNumber::new(1);
const BLOCK_CHECKSUM: u32 = 52;
const LEFT_SIBLING: usize = 8;
const RIGHT_SIBLING: usize = 12;

/// A copy of a golden image to damage.
struct Damaged {
    file: NamedTempFile,
    geometry: Geometry,
}

impl Damaged {
    fn new() -> Self {
        let file = NamedTempFile::new().unwrap();
        GoldenImage::named("block-1k").unwrap().unpack_to(file.path()).unwrap();
        let geometry = mount(file.path()).geometry().clone();
        Self { file, geometry }
    }

    fn mount(&self) -> Volume {
        mount(self.file.path())
    }

    fn device(&self) -> &File {
        self.file.as_file()
    }

    fn sector(&self, block: u32) -> Sector {
        self.geometry.sector_of_group_block(GROUP, AgBlock::new(block)).unwrap()
    }

    fn read(&self, sector: Sector, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device().read_exact_at(&mut bytes, Geometry::byte_of_sector(sector)).unwrap();
        bytes
    }

    fn block(&self, block: u32) -> Vec<u8> {
        self.read(self.sector(block), self.geometry.block_size())
    }

    fn patch(&self, block: u32, offset: usize, value: &[u8]) {
        let mut bytes = self.block(block);
        bytes[offset..offset + value.len()].copy_from_slice(value);
        assert!(checksum::seal(&mut bytes, BLOCK_CHECKSUM));
        self.device().write_all_at(&bytes, Geometry::byte_of_sector(self.sector(block))).unwrap();
    }

    fn patch_header(&self, index: u32, checksum_offset: u32, offset: usize, value: u32) {
        let sector = self.geometry.sector_of_group_header(GROUP, index).unwrap();
        let mut bytes = self.read(sector, self.geometry.sector_size_bytes as usize);
        bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
        assert!(checksum::seal(&mut bytes, checksum_offset));
        self.device().write_all_at(&bytes, Geometry::byte_of_sector(sector)).unwrap();
    }

    fn children<K>(&self, block: u32) -> Vec<u32>
    where
        K: BtreeKind<Header = uxfs_format::btree::block_header::ShortBlockHeader>,
    {
        let bytes = self.block(block);
        let node = BtreeBlock::<K>::parse(&bytes).unwrap();
        node.pointers().iter().map(|pointer| pointer.get()).collect()
    }

    /// Where pointer `index` (from 0) of a node lies.
    fn pointer_offset<K: BtreeKind>(&self, index: usize) -> usize {
        let capacity = K::max_node_entries(self.geometry.block_size_bytes) as usize;
        56 + capacity * size_of::<K::Key>() + 4 * index
    }

    fn by_block_root(&self) -> u32 {
        self.mount().group(GROUP).free_space_header().unwrap().by_block_root.get()
    }

    fn reverse_map_root(&self) -> u32 {
        self.mount().group(GROUP).free_space_header().unwrap().reverse_map_root.get()
    }
}

fn fault(result: Result<(), Error>) -> Fault {
    match result {
        Err(Error::Corrupt(corruption)) => corruption.fault,
        other => panic!("{other:?}"),
    }
}

/// What reading all free extents of the group gives.
fn walk(damaged: &Damaged) -> Fault {
    let file_system = damaged.mount();
    fault(file_system.group(GROUP).free_space_by_block().unwrap().records().visit_leaves(|_| Ok(())))
}

/// The same for owners.
fn walk_owners(damaged: &Damaged) -> Fault {
    let file_system = damaged.mount();
    fault(file_system.group(GROUP).reverse_map().unwrap().unwrap().records().visit_leaves(|_| Ok(())))
}

#[test]
fn blocks_of_another_group_or_level_are_refused() {
    let damaged = Damaged::new();
    let children = damaged.children::<ByBlock>(damaged.by_block_root());
    damaged.patch(children[1], 48, &7u32.to_be_bytes());
    assert_eq!(walk(&damaged), HeaderFault::WrongOwner { found: 7, expected: 1 }.into());

    let damaged = Damaged::new();
    let nodes = damaged.children::<ReverseMap>(damaged.reverse_map_root());
    let offset = damaged.pointer_offset::<ReverseMap>(0);
    damaged.patch(nodes[0], offset, &nodes[1].to_be_bytes());
    assert_eq!(walk_owners(&damaged), BtreeFault::WrongLevel { found: 1, expected: 0 }.into());

    let damaged = Damaged::new();
    damaged.patch_header(1, free_space_header::CHECKSUM_OFFSET_BYTES, 28, 1);
    assert_eq!(walk(&damaged), BtreeFault::WrongLevel { found: 1, expected: 0 }.into());
    damaged.patch_header(1, free_space_header::CHECKSUM_OFFSET_BYTES, 28, 3);
    assert_eq!(walk(&damaged), BtreeFault::WrongLevel { found: 1, expected: 2 }.into());
    let owners = damaged.reverse_map_root();
    damaged.patch_header(1, free_space_header::CHECKSUM_OFFSET_BYTES, 16, owners);
    assert!(matches!(walk(&damaged), Fault::Header(HeaderFault::BadMagic { .. })));
}

#[test]
fn children_in_the_wrong_order_are_refused() {
    let damaged = Damaged::new();
    let root = damaged.by_block_root();
    let (children, offset) = (damaged.children::<ByBlock>(root), damaged.pointer_offset::<ByBlock>(0));
    let swapped = [children[1].to_be_bytes(), children[0].to_be_bytes()].concat();
    damaged.patch(root, offset, &swapped);
    assert_eq!(walk(&damaged), BtreeFault::BlockOrder.into());
    let twice = [children[0].to_be_bytes(), children[0].to_be_bytes()].concat();
    damaged.patch(root, offset, &twice);
    assert_eq!(walk(&damaged), BtreeFault::BlockOrder.into());
}

#[test]
fn siblings_must_agree_with_the_parents() {
    let damaged = Damaged::new();
    let root = damaged.by_block_root();
    let children = damaged.children::<ByBlock>(root);
    let wrong = |side, found: u32, expected: u64| {
        let found = if found == u32::MAX { u64::MAX } else { found.into() };
        Fault::from(BtreeFault::WrongSibling { side, found, expected })
    };
    let sibling = |block, offset, value: u32| damaged.patch(block, offset, &value.to_be_bytes());
    let (first, second) = (children[0], children[1]);
    sibling(first, RIGHT_SIBLING, root);
    assert_eq!(walk(&damaged), wrong("right", root, second.into()));
    sibling(first, RIGHT_SIBLING, u32::MAX);
    assert_eq!(walk(&damaged), wrong("right", u32::MAX, second.into()));
    sibling(first, RIGHT_SIBLING, second);
    sibling(second, LEFT_SIBLING, root);
    assert_eq!(walk(&damaged), wrong("left", root, first.into()));
    sibling(second, LEFT_SIBLING, first);
    let last = *children.last().unwrap();
    sibling(last, RIGHT_SIBLING, first);
    assert_eq!(walk(&damaged), wrong("right", first, u64::MAX));
    sibling(last, RIGHT_SIBLING, u32::MAX);
    sibling(root, LEFT_SIBLING, first);
    assert_eq!(walk(&damaged), wrong("left", first, u64::MAX));
}

#[test]
fn leaves_must_not_overlap() {
    let damaged = Damaged::new();
    let root = damaged.by_block_root();
    let children = damaged.children::<ByBlock>(root);
    let bytes = damaged.block(children[0]);
    let last = BtreeBlock::<ByBlock>::parse(&bytes).unwrap().records().last().copied().unwrap();
    // The second leaf, and the key that leads to it, begin with the first one's last block.
    let start = last.start.get().to_be_bytes();
    damaged.patch(children[1], 56, &start);
    damaged.patch(root, 56 + 8, &start);
    assert_eq!(walk(&damaged), BtreeFault::BlockOrder.into());
}

#[test]
fn active_slots_of_the_free_list_lie_in_the_group() {
    let damaged = Damaged::new();
    let first = damaged.mount().group(GROUP).free_space_header().unwrap().free_list_first.get();
    damaged.patch_header(3, 32, 36 + 4 * first as usize, 0);
    let block = AgBlock::new(0);
    let found = fault(damaged.mount().group(GROUP).free_list().map(|_| ()));
    assert_eq!(found, FreeListFault::ActiveBlock { slot: first, block }.into());
}

/// Whatever one changes in the blocks of a tree: walks and lookups end, with records in order or an error.
#[test]
fn no_change_makes_a_walk_panic_or_run_on() {
    let damaged = Damaged::new();
    let seed = Seed::from_environment("damaged trees", 1);
    let mut random = seed.random();
    let root = damaged.reverse_map_root();
    let nodes = damaged.children::<ReverseMap>(root);
    let leaves: Vec<u32> = nodes.iter().flat_map(|node| damaged.children::<ReverseMap>(*node)).collect();
    let blocks: Vec<u32> = [root].into_iter().chain(nodes).chain(leaves).collect();
    for _ in 0..150 {
        let block = blocks[random.below(blocks.len() as u64) as usize];
        let (offset, original) = (random.below(1020) as usize, damaged.block(block));
        // A pointer or sibling to another block of the tree as often as noise.
        let other = blocks[random.below(blocks.len() as u64) as usize];
        let value = if random.below(2) == 0 { other } else { random.below(1 << 32) as u32 };
        damaged.patch(block, offset & !3, &value.to_be_bytes());
        walk_everything(&damaged.mount());
        damaged.patch(block, 0, &original);
    }
}

fn walk_everything(file_system: &Volume) {
    let Ok(Some(tree)) = file_system.group(GROUP).reverse_map() else { return };
    let mut last: Option<ReverseMapRecord> = None;
    for record in tree.records() {
        let Ok(record) = record else { break };
        assert!(last.is_none_or(|last| ReverseMap::may_follow(&last, &record)), "records in order");
        last = Some(record);
    }
    let mut cursor = tree.cursor();
    if let Some(record) = last {
        let _ = cursor.at_or_before(ReverseMap::position_of_record(&record));
        let _ = cursor.at_or_after(ReverseMap::position_of_record(&record));
    }
    let _ = cursor.last();
    while let Ok(Some(_)) = cursor.previous() {}
}

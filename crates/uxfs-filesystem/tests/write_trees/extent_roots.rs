//! A tree whose root lies in an inode, with the root's room as an inode may have it.

use std::collections::BTreeMap;

use uxfs_engine::{
    allocation_group::free_space::choose::GroupRequest,
    btree::{BtreeStorage, EditCursor, TreeOwner, TreeRoot},
    inode::edit::ExtentRoot,
    transaction::{GroupEdit, Transaction},
};
use uxfs_format::{
    btree::extent_map::{Extent, ExtentMap, ExtentRecord},
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber},
};
use uxfs_journal::transaction::TransactionBuffers;
use uxfs_testkit::{
    image::TestImage,
    judges::Judge,
    require,
    seeds::{Random, Seed},
};
use uxfs_volume::error::Result;

use super::check::{Checked, check_extent_map};

const INODE: u64 = 131;

/// Keeps the root, and takes blocks from one group.
struct Home<'a, 'g, 'fs> {
    group: &'a mut GroupEdit<'g, 'fs>,
    root: &'a mut ExtentRoot,
    capacity: usize,
}

impl<'fs> BtreeStorage<'fs, ExtentMap> for Home<'_, '_, 'fs> {
    type Inline = ExtentRoot;

    fn buffers(&mut self) -> &mut TransactionBuffers<'fs> {
        self.group.buffers
    }

    fn owner(&self) -> TreeOwner {
        TreeOwner::Inode(InodeNumber::new(INODE))
    }

    fn root(&self) -> Result<TreeRoot<FsBlock>> {
        Ok(TreeRoot::Inline)
    }

    fn set_root(&mut self, _: FsBlock, _: u32) -> Result<()> {
        panic!("the root is not a block")
    }

    fn inline_root(&mut self) -> Option<&mut ExtentRoot> {
        Some(self.root)
    }

    fn inline_capacity(&self) -> usize {
        self.capacity
    }

    fn allocate_block(&mut self, _: Option<FsBlock>) -> Result<FsBlock> {
        let (block, _) = self.group.allocate(&GroupRequest::blocks(1))?.unwrap();
        let group = self.group.state.group();
        Ok(self.group.volume.geometry().fs_block(group, block).unwrap())
    }

    fn free_block(&mut self, block: FsBlock) -> Result<()> {
        let (_, block) = self.group.volume.geometry().split_fs_block(block).unwrap();
        self.group.free(block, 1)
    }
}

struct Tree<'a, 'g, 'fs> {
    group: &'a mut GroupEdit<'g, 'fs>,
    root: ExtentRoot,
    capacity: usize,
    model: BTreeMap<u64, Extent>,
    highest: u16,
}

impl<'fs> Tree<'_, '_, 'fs> {
    fn cursor<'c>(&'c mut self) -> EditCursor<'fs, ExtentMap, impl BtreeStorage<'fs, ExtentMap> + 'c>
    where
        'fs: 'c,
    {
        EditCursor::new(Home { group: self.group, root: &mut self.root, capacity: self.capacity })
    }

    /// A leaf without records below a root with one entry, as an inode gets it when its list becomes too long.
    fn begin(&mut self) {
        use uxfs_format::btree::{BtreeKind, block_edit::BlockEdit, block_header::BlockIdentity};
        let (block, _) = self.group.allocate(&GroupRequest::blocks(1)).unwrap().unwrap();
        let geometry = self.group.volume.geometry();
        let group = self.group.state.group();
        let sector = geometry.sector_of_group_block(group, block).unwrap();
        let mut buffer =
            self.group.buffers.create(ExtentMap::STRUCTURE, sector, geometry.block_size_bytes).unwrap();
        let place = BlockIdentity { sector, uuid: geometry.metadata_uuid, owner: INODE };
        BlockEdit::<ExtentMap>::new(buffer.edit()).format(0, place);
        let pointers = vec![geometry.fs_block(group, block).unwrap()];
        self.root = ExtentRoot { level: 1, keys: vec![0], pointers };
    }

    fn end(&mut self) {
        assert!(self.model.is_empty());
        assert_eq!((self.root.level, self.root.pointers.len()), (1, 1), "shrunk to one leaf");
        let geometry = self.group.volume.geometry();
        let (group, block) = geometry.split_fs_block(self.root.pointers[0]).unwrap();
        let sector = geometry.sector_of_group_block(group, block).unwrap();
        self.group.buffers.invalidate(&[(sector, geometry.block_size_bytes)]);
        self.group.free(block, 1).unwrap();
    }

    fn insert(&mut self, file_block: u64) {
        let start = FsBlock::new(file_block);
        let extent =
            Extent { file_block: FileBlock::new(file_block), start, length_blocks: 1, is_unwritten: false };
        self.cursor().insert(&ExtentRecord::new(&extent).unwrap()).unwrap();
        self.model.insert(file_block, extent);
    }

    fn delete(&mut self, file_block: u64) {
        let mut cursor = self.cursor();
        assert!(cursor.seek_exact(FileBlock::new(file_block)).unwrap().is_some());
        cursor.delete().unwrap();
        drop(cursor);
        self.model.remove(&file_block);
    }

    fn check(&mut self) -> Checked<ExtentMap> {
        assert!(self.root.keys.len() <= self.capacity.max(1));
        let checked = check_extent_map(self.group.volume, INODE, &self.root);
        let found = checked.records.iter().map(ExtentRecord::get);
        assert!(found.eq(self.model.values().copied()), "extents differ from the model");
        self.highest = self.highest.max(self.root.level);
        checked
    }
}

fn grow_and_shrink(group: &mut GroupEdit<'_, '_>, capacity: usize, mut random: Random) -> u16 {
    let (model, root) = (BTreeMap::new(), ExtentRoot::default());
    let mut tree = Tree { group, root, capacity, model, highest: 0 };
    tree.begin();
    for inserts in [90, 50, 95, 30, 60] {
        for _ in 0..3000 {
            let file_block = random.below(20_000);
            match (tree.model.contains_key(&file_block), random.below(100) < inserts) {
                (false, true) => tree.insert(file_block),
                (true, false) => tree.delete(file_block),
                _ => {}
            }
        }
        tree.check();
    }
    while let Some(last) = tree.model.len().checked_sub(1) {
        let index = [0, last, random.below(last as u64 + 1) as usize][random.below(3) as usize];
        let next: Vec<u64> = tree.model.keys().skip(index).take(100).copied().collect();
        next.into_iter().for_each(|file_block| tree.delete(file_block));
        tree.check();
    }
    let highest = tree.highest;
    tree.end();
    highest
}

#[test]
fn roots_in_inodes_of_every_room_grow_and_shrink() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("roots in inodes", 64, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let seed = Seed::from_environment("roots in inodes", 5);
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for capacity in [2, 3, 11, 20, 59] {
        let mut group = transaction.group(AgNumber::new(1)).unwrap();
        let highest = grow_and_shrink(&mut group, capacity, seed.random());
        assert!(highest >= 2, "{highest} levels with room for {capacity}");
    }
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// The room of a root changes with the place of the attribute fork.
#[test]
fn roots_fit_the_room_that_they_get() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("room for roots", 64, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let (model, root) = (BTreeMap::new(), ExtentRoot::default());
    let mut tree = Tree { group: &mut group, root, capacity: 20, model, highest: 0 };
    tree.begin();
    (0..700).for_each(|number| tree.insert(number * 2));
    assert_eq!((tree.root.level, tree.root.keys.len()), (1, 12));
    for (capacity, level, entries) in [(11, 2, 1), (12, 1, 12), (3, 2, 1), (11, 2, 1), (20, 1, 12)] {
        tree.capacity = capacity;
        tree.cursor().fit_root().unwrap();
        assert_eq!((tree.root.level, tree.root.keys.len()), (level, entries), "room for {capacity}");
        tree.check();
    }
    (0..700).for_each(|number| tree.delete(number * 2));
    tree.end();
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// What a file that is written from its start leaves.
#[test]
fn extents_added_in_order_leave_full_leaves() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("extents in order", 64, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let (model, root) = (BTreeMap::new(), ExtentRoot::default());
    let mut tree = Tree { group: &mut group, root, capacity: 11, model, highest: 0 };
    tree.begin();
    (0..10_000).for_each(|number| tree.insert(number * 2));
    let checked = tree.check();
    assert!(checked.fill_percent >= 95, "{} %", checked.fill_percent);
    let blocks = AgBlock::new(0).get() + checked.blocks;
    assert!(blocks < 10_000 / 59 * 105 / 100 + 6, "{blocks} blocks");
}

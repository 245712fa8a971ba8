//! Checks every block of a tree against the invariants of `btree::edit`.

use uxfs_engine::{allocation_group::trees::GroupTree, inode::edit::ExtentRoot, transaction::GroupEdit};
use uxfs_format::{
    btree::{
        BlockPointer, BtreeKind,
        block::{BtreeBlock, Pointer},
        block_edit::key_of_block,
        block_header::{BlockHeader, ShortBlockHeader},
        extent_map::ExtentMap,
    },
    units::{AgBlock, AgNumber},
};
use uxfs_volume::volume::MetadataBuffer;
use uxfs_volume::volume::Volume;
use zerocopy::big_endian::U64;

/// What a tree holds, and of how many blocks it is made.
#[derive(Debug)]
pub struct Checked<K: BtreeKind> {
    pub records: Vec<K::Record>,
    pub levels: u32,
    pub blocks: u32,
    /// Leaves, and how many of the places in them are taken.
    pub fill_percent: usize,
}

struct Walk<'fs, K: BtreeKind> {
    file_system: &'fs Volume,
    group: Option<AgNumber>,
    owner: u64,
    records: Vec<K::Record>,
    /// Blocks of each level from left to right, with their siblings.
    levels: Vec<Vec<[Option<u64>; 3]>>,
}

/// The tree of a group that is being changed.
pub fn check_tree<K: GroupTree>(group: &mut GroupEdit<'_, '_>) -> Checked<K> {
    let number = group.state.group();
    let (root, levels) = K::root(group.state.headers().unwrap());
    check_blocks(group.volume, number, root, levels)
}

/// The blocks of a tree of a group.
pub fn blocks_of<K: GroupTree>(group: &mut GroupEdit<'_, '_>) -> Vec<u64> {
    let (root, levels) = K::root(group.state.headers().unwrap());
    let owner = u64::from(group.state.group().get());
    let mut walk = Walk::<K>::new(group.volume, Some(group.state.group()), owner, levels as usize);
    walk.block(Pointer::<K>::from_address(AgBlock::new(root)), levels as u16 - 1, true);
    walk.levels.iter().flatten().filter_map(|[_, own, _]| *own).collect()
}

/// The tree of a group with this root.
pub fn check_blocks<K: BtreeKind<Header = ShortBlockHeader>>(
    file_system: &Volume,
    group: AgNumber,
    root: u32,
    levels: u32,
) -> Checked<K> {
    let owner = u64::from(group.get());
    let mut walk = Walk::<K>::new(file_system, Some(group), owner, levels as usize);
    walk.block(Pointer::<K>::from_address(AgBlock::new(root)), levels as u16 - 1, true);
    walk.finish()
}

/// A tree below a root in an inode.
pub fn check_extent_map(file_system: &Volume, inode: u64, root: &ExtentRoot) -> Checked<ExtentMap> {
    let mut walk = Walk::<ExtentMap>::new(file_system, None, inode, usize::from(root.level));
    assert_eq!(root.keys.len(), root.pointers.len());
    for (key, child) in root.keys.iter().zip(&root.pointers) {
        let is_only = root.keys.len() == 1;
        let found = walk.block(U64::new(child.get()), root.level - 1, is_only);
        assert!(found.is_none_or(|found| found.file_block.get() == *key), "invariant 2: key in the root");
    }
    walk.finish()
}
impl<'fs, K: BtreeKind> Walk<'fs, K> {
    fn new(file_system: &'fs Volume, group: Option<AgNumber>, owner: u64, levels: usize) -> Self {
        Self { file_system, group, owner, records: Vec::new(), levels: vec![Vec::new(); levels] }
    }

    fn finish(self) -> Checked<K> {
        for blocks in &self.levels {
            // Invariant 4: linked in the order of the parents.
            let mut previous = None;
            for [left, own, _] in blocks {
                assert_eq!(*left, previous, "left sibling of {own:?}");
                previous = *own;
            }
            let mut next = None;
            for [_, own, right] in blocks.iter().rev() {
                assert_eq!(*right, next, "right sibling of {own:?}");
                next = *own;
            }
        }
        let positions: Vec<_> = self.records.iter().map(K::position_of_record).collect();
        assert!(positions.is_sorted_by(|a, b| a < b), "invariant 1 over the blocks of a level");
        let capacity = K::max_leaf_records(self.file_system.geometry().block_size_bytes) as usize;
        let leaves = self.levels[0].len();
        Checked {
            levels: self.levels.len() as u32,
            blocks: self.levels.iter().map(|level| level.len() as u32).sum(),
            fill_percent: self.records.len() * 100 / (leaves * capacity),
            records: self.records,
        }
    }

    fn read(&self, pointer: Pointer<K>) -> MetadataBuffer {
        let geometry = self.file_system.geometry();
        let sector = pointer.sector(geometry, self.group).unwrap();
        self.file_system.metadata().read(K::STRUCTURE, sector, geometry.block_size_bytes).unwrap()
    }

    fn block(&mut self, pointer: Pointer<K>, level: u16, is_root: bool) -> Option<K::Key> {
        let buffer = self.read(pointer);
        let block = BtreeBlock::<K>::parse(&buffer).unwrap();
        assert_eq!(block.level(), level);
        assert_eq!(block.header().owner(), self.owner);
        let fewest = match (is_root, level) {
            (true, 0) => 0,
            (true, _) => 2,
            _ => K::min_entries(buffer.len() as u32, level) as usize,
        };
        assert!(block.len() >= fewest, "invariant 3: {} of at least {fewest} at level {level}", block.len());
        let raw = |address| Pointer::<K>::from_address(address).raw();
        let siblings = [block.left_sibling().map(raw), Some(pointer.raw()), block.right_sibling().map(raw)];
        self.levels[level as usize].push(siblings);
        if level == 0 {
            let pairs = block.records().windows(2);
            pairs.for_each(|pair| assert!(K::may_follow(&pair[0], &pair[1]), "invariant 1: {pair:?}"));
            self.records.extend(block.records());
        }
        for (key, child) in block.keys().iter().zip(block.pointers()) {
            let found = self.block(*child, level - 1, false);
            assert_eq!(found, Some(*key), "invariant 2: key of a child at level {level}");
        }
        key_of_block(&block)
    }
}

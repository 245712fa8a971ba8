//! Directories in memory: every step is compared with a model, every block verified after every change, and what no
//! block shows alone (index against data, bests, neighbours, sizes) checked across all blocks.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    directory::{
        block::SingleBlock,
        data::{DataBlock, DataRecord, DataRecords},
        data_edit::longest_free_bytes,
        free_index::FreeIndexBlock,
        leaf::LeafBlock,
        leaf_edit,
        shortform::Shortform,
        shortform_edit,
    },
    name_tree::{
        TreeKind,
        header_edit::neighbours,
        node::{self, NodeBlock},
    },
    superblock::Superblock,
};

use super::{find::EntryPosition, *};
use crate::name_tree::testing::{MemoryFork, OWNER};
use uxfs_volume::inode::FileType;

impl<'fs> DirectoryStore<'fs> for MemoryFork<'fs> {
    fn reserve(&mut self, block: FileBlock, count: u64) -> Result<()> {
        self.reserve_blocks(block, count);
        Ok(())
    }

    fn create_reserved(&mut self, _: Structure, block: FileBlock) -> Result<Self::Buffer> {
        Ok(self.reserved(block))
    }

    fn local(&mut self) -> Option<&mut Vec<u8>> {
        self.local.as_mut()
    }

    fn set_local(&mut self, bytes: Option<Vec<u8>>) {
        assert!(bytes.is_none() || self.places().is_empty(), "contents in the inode, and blocks");
        self.local = bytes;
    }

    fn room_bytes(&self) -> u32 {
        self.room_bytes
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn set_size_bytes(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
    }
}

pub(super) const PARENT: InodeNumber = InodeNumber::new(128);

/// A file system of 1 KiB blocks with directory blocks of `1 << directory_block_log` blocks.
pub(super) fn geometry(directory_block_log: u32) -> &'static Geometry {
    let (superblock, _) =
        Superblock::parse(include_bytes!("../../../uxfs-format/testdata/names/superblock.bin")).unwrap();
    let mut geometry = Geometry::new(superblock);
    // Groups enough for inode numbers of more than 32 bits.
    geometry.ag_count = 1 << 20;
    geometry.data_blocks = u64::from(geometry.ag_blocks) << 20;
    geometry.directory_block_log = directory_block_log;
    geometry.directory_block_size_bytes = geometry.block_size_bytes << directory_block_log;
    Box::leak(Box::new(geometry))
}

/// The inode of a name, and its cookie once it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) inode: u64,
    pub(super) cookie: Option<u32>,
}

/// A directory, and what should be in it.
pub(super) struct Twin {
    pub(super) fork: MemoryFork<'static>,
    pub(super) hint: DirectoryHint,
    pub(super) model: BTreeMap<Vec<u8>, Target>,
    pub(super) parent: InodeNumber,
    /// Forms that it had.
    pub(super) forms: BTreeSet<&'static str>,
    /// Names that the hint led to.
    pub(super) removed_at_hint: u32,
}

pub(super) fn file(name: &[u8], inode: u64) -> NewName<'_> {
    NewName { name, inode: InodeNumber::new(inode), file_type: FileType::Regular }
}

impl Twin {
    pub(super) fn new(geometry: &'static Geometry) -> Self {
        let mut fork = MemoryFork::new(geometry, TreeKind::Directory);
        fork.room_bytes = 336;
        fork.local = Some(shortform_edit::empty(PARENT));
        fork.size_bytes = 6;
        let (hint, model) = (DirectoryHint::default(), BTreeMap::new());
        Self { fork, hint, model, parent: PARENT, forms: BTreeSet::new(), removed_at_hint: 0 }
    }

    pub(super) fn edit(&mut self) -> Directory<'_, MemoryFork<'static>> {
        Directory::new(&mut self.fork, &mut self.hint)
    }

    pub(super) fn add(&mut self, name: &[u8], inode: u64) {
        assert_eq!(self.edit().find(name).unwrap(), None);
        self.add_new(name, inode);
    }

    pub(super) fn add_new(&mut self, name: &[u8], inode: u64) {
        self.edit().insert(&file(name, inode).entry()).unwrap();
        self.model.insert(name.to_vec(), Target { inode, cookie: None });
        self.fork.verify_changed();
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        let found = self.edit().find(name).unwrap().expect("the name is there");
        let inode = self.model.remove(name).unwrap().inode;
        assert_eq!(found.inode.get(), inode);
        // Every other time with the hint that a lookup leaves, else with an old one: that must be right, or of no use.
        if self.model.len().is_multiple_of(2) {
            let (leaf, entry) = match found.place {
                EntryPosition::Node { path, pointer, .. } => (Some(path.leaf), Some(pointer)),
                EntryPosition::Leaf { pointer, .. } => (None, Some(pointer)),
                _ => (None, None),
            };
            self.hint.note_lookup(0, leaf, entry);
        }
        match self.edit().remove_at_hint(name).unwrap() {
            Some(target) => {
                assert_eq!(target.inode.get(), inode);
                self.removed_at_hint += 1;
            }
            None => self.edit().remove(&found).unwrap(),
        }
        self.fork.verify_changed();
    }

    pub(super) fn replace(&mut self, name: &[u8], inode: u64) {
        let found = self.edit().find(name).unwrap().expect("the name is there");
        self.edit().replace(name, &found, InodeNumber::new(inode), 1).unwrap();
        match self.model.get_mut(name) {
            Some(target) => target.inode = inode,
            None => self.parent = InodeNumber::new(inode),
        }
        self.fork.verify_changed();
    }

    /// Compares everything with the model, and all blocks with each other.
    pub(super) fn check(&mut self) {
        let form = self.edit().form().unwrap();
        self.forms.insert(match form {
            Form::Shortform => "shortform",
            Form::Block => "block",
            Form::Leaf => "leaf",
            Form::Node => "node",
        });
        let mut names = match form {
            Form::Shortform => self.check_shortform(),
            Form::Block => self.check_block(),
            Form::Leaf | Form::Node => self.check_indexed(),
        };
        if form != Form::Shortform {
            assert_eq!(names.remove(b".".as_slice()).unwrap().inode, OWNER.get());
            assert_eq!(names.remove(b"..".as_slice()).unwrap().inode, self.parent.get());
        }
        assert_eq!(names.len(), self.model.len());
        for (name, found) in names {
            let expected = self.model.get_mut(&name).expect("a name that was added");
            expected.cookie = expected.cookie.or(found.cookie);
            assert_eq!(found, *expected, "{}", String::from_utf8_lossy(&name));
        }
        let is_empty = self.model.is_empty();
        assert_eq!(self.edit().is_empty().unwrap(), is_empty);
    }

    fn check_shortform(&self) -> BTreeMap<Vec<u8>, Target> {
        let (geometry, bytes) = (self.fork.geometry(), self.fork.local.as_ref().unwrap());
        assert_eq!(Shortform::verify(bytes, geometry), Ok(()));
        assert_eq!(self.fork.size_bytes, bytes.len() as u64);
        assert!(bytes.len() <= 336);
        let view = Shortform::parse(bytes, geometry).unwrap();
        assert_eq!(view.parent, self.parent);
        let entries = view.entries().map(|entry| {
            let entry = entry.unwrap();
            let target = Target { inode: entry.inode.get(), cookie: Some(entry.pointer().get()) };
            (entry.name.to_vec(), target)
        });
        entries.collect()
    }

    fn check_block(&self) -> BTreeMap<Vec<u8>, Target> {
        assert_eq!(self.fork.places(), [FileBlock::new(0)]);
        assert_eq!(self.fork.size_bytes, u64::from(self.fork.geometry().directory_block_size_bytes));
        let bytes = self.fork.bytes(FileBlock::new(0));
        let block = SingleBlock::parse(&bytes, self.fork.geometry()).unwrap();
        entries_of(block.records(), 0, NameRule::of(self.fork.geometry()))
            .map(|(name, target, _)| (name, target))
            .collect()
    }

    fn check_indexed(&self) -> BTreeMap<Vec<u8>, Target> {
        let geometry = self.fork.geometry();
        let (leaf_start, free_start) = (geometry.directory_leaf_start(), geometry.directory_free_start());
        let places = self.fork.places();
        let (mut names, mut expected, mut bests) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        for place in places.iter().filter(|place| **place < leaf_start) {
            let number = (place.get() >> geometry.directory_block_log) as u32;
            let bytes = self.fork.bytes(*place);
            let data = DataBlock::parse(&bytes, geometry).unwrap();
            let base = place.get() << geometry.block_log;
            let before = names.len();
            for (name, target, hash) in entries_of(data.records(), base, NameRule::of(geometry)) {
                expected.insert((hash, target.cookie.unwrap()));
                assert!(names.insert(name, target).is_none());
            }
            assert!(names.len() > before, "data block {number} is empty");
            bests.insert(number, longest_free_bytes(&bytes));
        }
        let end = places.iter().rfind(|place| **place < leaf_start).unwrap().get() << geometry.block_log;
        assert_eq!(self.fork.size_bytes, end + u64::from(geometry.directory_block_size_bytes));
        let mut visited = BTreeSet::new();
        let root = self.fork.bytes(leaf_start);
        let index = if magic_of(&root) == Some(SINGLE_MAGIC) {
            visited.insert(leaf_start);
            self.check_bests(LeafBlock::parse(&root, geometry).unwrap().bests().unwrap(), 0, &bests);
            live(&root, geometry)
        } else {
            let free = places.iter().filter(|place| **place >= free_start);
            let known: usize = free.map(|place| self.check_free_index(*place, &bests)).sum();
            assert_eq!(known, bests.len());
            let mut chain = vec![Vec::new(); 6];
            let (index, _) = self.check_tree(leaf_start, &mut visited, &mut chain);
            chain.iter().for_each(|level| self.check_chain(level));
            index
        };
        let found: BTreeSet<(u32, u32)> = index.iter().copied().collect();
        assert_eq!((found.len(), found), (index.len(), expected));
        let tree = places.iter().filter(|place| (leaf_start..free_start).contains(*place)).copied();
        assert_eq!(tree.collect::<BTreeSet<_>>(), visited);
        names
    }

    fn check_bests(
        &self,
        found: &[zerocopy::big_endian::U16],
        first: u32,
        expected: &BTreeMap<u32, u16>,
    ) -> usize {
        assert_ne!(found.last().unwrap().get(), NO_DATA_BLOCK, "a hole at the end");
        for (number, best) in (first..).zip(found) {
            assert_eq!(best.get(), expected.get(&number).copied().unwrap_or(NO_DATA_BLOCK), "{number}");
        }
        found.iter().filter(|best| best.get() != NO_DATA_BLOCK).count()
    }

    fn check_free_index(&self, place: FileBlock, expected: &BTreeMap<u32, u16>) -> usize {
        let bytes = self.fork.bytes(place);
        let view = FreeIndexBlock::parse(&bytes, self.fork.geometry()).unwrap();
        let distance = place.get() - self.fork.geometry().directory_free_start().get();
        let number = (distance >> self.fork.geometry().directory_block_log) as u32;
        let first = view.header.first_data_block.get();
        assert_eq!(first, number * most_bests(self.fork.geometry().directory_block_size_bytes));
        self.check_bests(view.bests, first, expected)
    }

    /// Gives the live entries below a block, and the largest hash, removed entries included.
    fn check_tree(
        &self,
        place: FileBlock,
        visited: &mut BTreeSet<FileBlock>,
        chain: &mut [Vec<FileBlock>],
    ) -> (Vec<(u32, u32)>, u32) {
        assert!(visited.insert(place));
        let bytes = self.fork.bytes(place);
        if magic_of(&bytes) != Some(node::MAGIC) {
            chain[0].push(place);
            let entries = live(&bytes, self.fork.geometry());
            assert!(!entries.is_empty(), "an empty leaf");
            return (entries, leaf_edit::last_hash(&bytes).unwrap());
        }
        let node = NodeBlock::parse(&bytes).unwrap();
        let is_root = place == self.fork.geometry().directory_leaf_start();
        assert!(node.entries.len() > usize::from(is_root));
        chain[usize::from(node.header.level.get())].push(place);
        let mut all = Vec::new();
        for (index, entry) in node.entries.iter().enumerate() {
            let (entries, last) = self.check_tree(node.child(index).unwrap(), visited, chain);
            assert_eq!(entry.hash.get(), last, "key of a child");
            all.extend(entries);
        }
        (all, node.last_hash().unwrap())
    }

    fn check_chain(&self, level: &[FileBlock]) {
        for (index, place) in level.iter().enumerate() {
            let previous = index.checked_sub(1).map(|before| level[before]);
            let next = level.get(index + 1).copied();
            assert_eq!(neighbours(&self.fork.bytes(*place)), (next, previous));
        }
    }
}

pub(super) fn live(leaf: &[u8], geometry: &Geometry) -> Vec<(u32, u32)> {
    let view = LeafBlock::parse(leaf, geometry).unwrap();
    let entries = view.entries.iter().filter(|entry| entry.pointer().is_some());
    entries.map(|entry| (entry.hash.get(), entry.address.get())).collect()
}

pub(super) fn entries_of<'a>(
    records: DataRecords<'a>,
    base_bytes: u64,
    rule: NameRule,
) -> impl Iterator<Item = (Vec<u8>, Target, u32)> + 'a {
    records.filter_map(move |record| match record.unwrap() {
        DataRecord::Entry(entry) => {
            let cookie = ((base_bytes + u64::from(entry.offset_bytes)) >> 3) as u32;
            let target = Target { inode: entry.inode.get(), cookie: Some(cookie) };
            Some((entry.name.to_vec(), target, rule.hash(entry.name)))
        }
        DataRecord::Free { .. } => None,
    })
}

/// The name with this number, of many lengths.
pub(super) fn name(number: u32) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) >> 28) as usize * 3;
    let mut name = format!("n{number}").into_bytes();
    name.resize(name.len() + length, b'x');
    name
}

/// 512 names with the same hash: the top bit of a byte and the lowest of the one before cancel each other.
pub(super) fn same_hash(number: u32) -> Vec<u8> {
    (0..9).flat_map(|pair| if number >> pair & 1 == 0 { *b"ab" } else { [b'a' ^ 1, b'b' ^ 0x80] }).collect()
}

/// Numbers below `count`, each once, in an order that looks random.
pub(super) fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    assert!(count.is_power_of_two());
    (0..count).map(move |number| number.wrapping_mul(0x9e37_79b1).wrapping_add(77) & (count - 1))
}

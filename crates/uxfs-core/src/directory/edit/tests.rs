//! Directories in memory: every step is compared with a model, every block verified after every change, and what no
//! block shows alone (index against data, bests, neighbours, sizes) checked across all blocks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use uxfs_format::{
    directory::{
        block::SingleBlock,
        data::{DataBlock, DataRecord, DataRecords},
        data_edit::longest_free_bytes,
        free_index::FreeIndexBlock,
        leaf::LeafBlock,
        leaf_edit,
        name_hash::hash,
        shortform::Shortform,
        shortform_edit,
    },
    features::{Incompatible, VersionBits},
    name_tree::{
        TreeKind,
        header_edit::neighbours,
        node::{self, NodeBlock},
    },
    superblock::Superblock,
};

use super::*;
use crate::{
    inode::FileType,
    name_tree::edit::testing::{MemoryFork, OWNER},
};

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

const PARENT: InodeNumber = InodeNumber::new(128);

/// A file system of 1 KiB blocks with directory blocks of `1 << directory_block_log` blocks.
fn geometry(directory_block_log: u32) -> &'static Geometry {
    let (superblock, _) =
        Superblock::parse(include_bytes!("../../../../uxfs-format/testdata/names/superblock.bin")).unwrap();
    let mut geometry = Geometry::new(superblock);
    // Groups enough for inode numbers of more than 32 bits.
    geometry.ag_count = 1 << 20;
    geometry.data_blocks = u64::from(geometry.ag_blocks) << 20;
    geometry.directory_block_log = directory_block_log;
    geometry.directory_block_size_bytes = geometry.block_size_bytes << directory_block_log;
    Box::leak(Box::new(geometry))
}

/// What a name leads to, and its cookie once it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    inode: u64,
    cookie: Option<u32>,
}

/// A directory, and what should be in it.
struct Twin {
    fork: MemoryFork<'static>,
    hint: DirectoryHint,
    model: BTreeMap<Vec<u8>, Target>,
    parent: InodeNumber,
    /// Forms that it had.
    forms: BTreeSet<&'static str>,
}

fn file(name: &[u8], inode: u64) -> NewName<'_> {
    NewName { name, inode: InodeNumber::new(inode), file_type: FileType::Regular }
}

impl Twin {
    fn new(geometry: &'static Geometry) -> Self {
        let mut fork = MemoryFork::new(geometry, TreeKind::Directory);
        fork.room_bytes = 336;
        fork.local = Some(shortform_edit::empty(PARENT));
        fork.size_bytes = 6;
        let (hint, model) = (DirectoryHint::default(), BTreeMap::new());
        Self { fork, hint, model, parent: PARENT, forms: BTreeSet::new() }
    }

    fn edit(&mut self) -> Directory<'_, MemoryFork<'static>> {
        Directory::new(&mut self.fork, &mut self.hint)
    }

    fn add(&mut self, name: &[u8], inode: u64) {
        assert_eq!(self.edit().find(name).unwrap(), None);
        self.add_new(name, inode);
    }

    fn add_new(&mut self, name: &[u8], inode: u64) {
        self.edit().insert(&file(name, inode).entry()).unwrap();
        self.model.insert(name.to_vec(), Target { inode, cookie: None });
        self.fork.verify_changed();
    }

    fn remove(&mut self, name: &[u8]) {
        let found = self.edit().find(name).unwrap().expect("the name is there");
        assert_eq!(found.inode.get(), self.model.remove(name).unwrap().inode);
        self.edit().remove(&found).unwrap();
        self.fork.verify_changed();
    }

    fn replace(&mut self, name: &[u8], inode: u64) {
        let found = self.edit().find(name).unwrap().expect("the name is there");
        self.edit().replace(name, &found, InodeNumber::new(inode), 1).unwrap();
        match self.model.get_mut(name) {
            Some(target) => target.inode = inode,
            None => self.parent = InodeNumber::new(inode),
        }
        self.fork.verify_changed();
    }

    /// Compares everything with the model, and all blocks with each other.
    fn check(&mut self) {
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

fn live(leaf: &[u8], geometry: &Geometry) -> Vec<(u32, u32)> {
    let view = LeafBlock::parse(leaf, geometry).unwrap();
    let entries = view.entries.iter().filter(|entry| entry.pointer().is_some());
    entries.map(|entry| (entry.hash.get(), entry.address.get())).collect()
}

fn entries_of<'a>(
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
fn name(number: u32) -> Vec<u8> {
    let length = (number.wrapping_mul(2_654_435_761) >> 28) as usize * 3;
    let mut name = format!("n{number}").into_bytes();
    name.resize(name.len() + length, b'x');
    name
}

/// 512 names with the same hash: the top bit of a byte and the lowest of the one before cancel each other.
fn same_hash(number: u32) -> Vec<u8> {
    (0..9).flat_map(|pair| if number >> pair & 1 == 0 { *b"ab" } else { [b'a' ^ 1, b'b' ^ 0x80] }).collect()
}

/// Numbers below `count`, each once, in an order that looks random.
fn shuffled(count: u32) -> impl Iterator<Item = u32> {
    assert!(count.is_power_of_two());
    (0..count).map(move |number| number.wrapping_mul(0x9e37_79b1).wrapping_add(77) & (count - 1))
}

#[test]
fn a_directory_grows_through_all_forms_and_back() {
    for (log, count) in [(0, 4096), (2, 4096), (6, 16384)] {
        let mut twin = Twin::new(geometry(log));
        for number in 0..count {
            twin.add(&name(number), 64 + u64::from(number % 1000));
            if number % 512 == 0 || number < 200 {
                twin.check();
            }
        }
        twin.check();
        for (step, number) in shuffled(count).enumerate() {
            twin.remove(&name(number));
            if step % 512 == 0 || twin.model.len() < 200 {
                twin.check();
            }
        }
        twin.check();
        assert!(twin.fork.places().is_empty());
        assert_eq!(twin.fork.local, Some(shortform_edit::empty(PARENT)));
        assert_eq!(twin.forms.len(), 4, "{:?}", twin.forms);
    }
}

#[test]
fn names_with_one_hash_run_over_many_leaves() {
    let mut twin = Twin::new(geometry(0));
    for number in 0..300 {
        twin.add(&name(number), 70);
    }
    for number in 0..512 {
        assert_eq!(hash(&same_hash(number)), hash(&same_hash(0)));
        twin.add(&same_hash(number), 64 + u64::from(number));
    }
    twin.check();
    for number in shuffled(512) {
        twin.replace(&same_hash(number), 200);
        twin.remove(&same_hash(number));
        if number % 64 == 0 {
            twin.check();
        }
    }
    twin.check();
}

#[test]
fn entries_without_file_type_and_names_without_case() {
    let mut without_type = geometry(0).clone();
    without_type.features.incompatible.remove(Incompatible::FILE_TYPE);
    let mut without_case = geometry(0).clone();
    without_case.features.version_bits |= VersionBits::ASCII_CASE_INSENSITIVE;
    for geometry in [without_type, without_case] {
        let geometry: &'static Geometry = Box::leak(Box::new(geometry));
        let is_folded = NameRule::of(geometry) == NameRule::CaseFolded;
        let mut twin = Twin::new(geometry);
        for number in 0..3000 {
            let mut name = name(number);
            if number % 2 == 1 {
                name.make_ascii_uppercase();
            }
            twin.add(&name, 70);
            if is_folded && number % 50 == 0 {
                let found = twin.edit().find(&name.to_ascii_uppercase()).unwrap();
                assert_eq!(found, twin.edit().find(&name).unwrap());
            }
        }
        twin.check();
        let names: Vec<Vec<u8>> = twin.model.keys().cloned().collect();
        for (step, name) in names.iter().enumerate() {
            twin.remove(name);
            if step % 200 == 0 {
                twin.check();
            }
        }
        twin.check();
    }
}

#[test]
fn removed_room_is_used_again() {
    let mut twin = Twin::new(geometry(0));
    for number in 0..3000 {
        twin.add(&name(number), 70);
    }
    let blocks = twin.fork.places().len();
    for round in 0..3 {
        for number in (0..3000).filter(|number| number % 3 == round) {
            twin.remove(&name(number));
        }
        twin.check();
        for number in (0..3000).filter(|number| number % 3 == round) {
            twin.hint = DirectoryHint::default();
            twin.add(&name(number), 71);
        }
        twin.check();
    }
    assert!(
        twin.fork.places().len() <= blocks + blocks / 4,
        "{blocks} blocks became {}",
        twin.fork.places().len()
    );
}

#[test]
fn the_directory_above_changes_in_every_form() {
    let mut twin = Twin::new(geometry(2));
    for count in [0, 20, 200, 2000] {
        while twin.model.len() < count {
            let number = twin.model.len() as u32;
            twin.add(&name(number), 70);
        }
        twin.replace(b"..", 64 + count as u64);
        twin.replace(b"..", 0x1_0000_0000 + count as u64);
        let found = twin.edit().find(b"..").unwrap().unwrap();
        assert_eq!(found.inode.get(), 0x1_0000_0000 + count as u64);
        twin.replace(b"..", 65);
        twin.check();
        assert_eq!(twin.edit().find(b".").unwrap().unwrap().inode, OWNER);
    }
    assert_eq!(twin.forms.len(), 4);
}

#[test]
fn all_names_at_once_are_what_one_after_the_other_would_be() {
    for log in [0, 2, 6] {
        for count in [0, 1, 10, 30, 100, 300, 1000, 5000, 20000] {
            let mut twin = Twin::new(geometry(log));
            let names: Vec<Vec<u8>> = (0..count).map(name).collect();
            let new: Vec<NewName<'_>> = names.iter().map(|name| file(name, 99)).collect();
            twin.edit().fill(&new).unwrap();
            twin.fork.verify_changed();
            twin.model =
                names.iter().map(|name| (name.clone(), Target { inode: 99, cookie: None })).collect();
            twin.check();
            let mut other = Twin::new(geometry(log));
            if count <= 1000 {
                names.iter().for_each(|name| other.add_new(name, 99));
                other.check();
                // Places may differ: where a long name does not fit, a later short one may.
                assert_eq!(other.forms, twin.forms);
                assert!(other.model.keys().eq(twin.model.keys()));
            }
            // A second time there are names already, and room that others left.
            let is_removed = |index: usize| index.is_multiple_of(3) || (500..900).contains(&index);
            let removed = names.iter().enumerate().filter(|(index, _)| is_removed(*index));
            removed.for_each(|(_, name)| twin.remove(name));
            twin.check();
            let more: Vec<Vec<u8>> = (count..count + 700).map(name).collect();
            let new: Vec<NewName<'_>> = more.iter().map(|name| file(name, 98)).collect();
            twin.edit().fill(&new).unwrap();
            twin.fork.verify_changed();
            let target = Target { inode: 98, cookie: None };
            twin.model.extend(more.iter().map(|name| (name.clone(), target)));
            twin.check();
            for number in count + 700..count + 1000 {
                twin.add(&name(number), 98);
            }
            twin.check();
            let left = names.iter().enumerate().filter(|(index, _)| !is_removed(*index));
            left.for_each(|(_, name)| twin.remove(name));
            twin.check();
        }
    }
}

#[test]
fn names_are_found_in_a_directory_of_many_levels() {
    let mut twin = Twin::new(geometry(0));
    let names: Vec<Vec<u8>> = (0..40000).map(name).collect();
    names.iter().for_each(|name| twin.add_new(name, 99));
    twin.check();
    let root = twin.fork.bytes(twin.fork.geometry().directory_leaf_start());
    assert_eq!(NodeBlock::parse(&root).unwrap().header.level.get(), 2);
    for number in shuffled(1 << 15) {
        twin.remove(&names[number as usize]);
    }
    twin.check();
    for name in names.iter().skip(1 << 15) {
        assert!(twin.edit().find(name).unwrap().is_some());
        twin.remove(name);
    }
    twin.check();
    assert!(twin.fork.local.is_some(), "back in the inode");
}

/// A number that is in a block, or near one that could be: what blocks say of each other.
fn plausible(bytes: &[u8], kind: u32, geometry: &Geometry) -> (usize, Vec<u8>) {
    let word = |number: u32| number.to_be_bytes().to_vec();
    let (leaf, random) = (geometry.directory_leaf_start().get() as u32, kind >> 8);
    let block = leaf + random % 40 * geometry.blocks_per_directory_block();
    let entry = 64 + random as usize % 30 * 8;
    match kind % 8 {
        0 => (0, word(block)),
        1 => (4, word(block)),
        2 => (entry + 4, word(block)),
        3 => (entry + 4, word(8 + random % 3000)),
        4 => (entry, word(random)),
        5 => (56 + random as usize % 4 * 2, vec![0, random as u8]),
        6 => (bytes.len() - 4 - random as usize % 8 * 2, vec![(random >> 4) as u8, (random & 0xf8) as u8]),
        _ => (random as usize % bytes.len(), vec![(random >> 3) as u8]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever blocks that pass their verifiers say of each other: an error, and neither a panic nor an endless walk
    /// nor a block that is waited for by who holds it.
    #[test]
    fn damage_is_an_error(
        count in prop::sample::select(vec![60_u32, 250, 3000]),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 1..40),
        steps in prop::collection::vec((any::<bool>(), any::<u32>()), 1..60),
    ) {
        let mut twin = Twin::new(geometry(0));
        (0..count).for_each(|number| twin.add_new(&name(number), 70));
        twin.fork.is_damaged = true;
        for (index, kind) in damages {
            // What the verifier would refuse is not worth trying.
            let mut places = twin.fork.places();
            // The index is where blocks speak of each other.
            let leaf_start = twin.fork.geometry().directory_leaf_start();
            if count > 60 && kind >> 28 > 1 {
                places.retain(|place| *place >= leaf_start);
            }
            let place = *index.get(&places);
            let bytes = twin.fork.bytes(place);
            let (offset, value) = plausible(&bytes, kind, twin.fork.geometry());
            if offset + value.len() > bytes.len() {
                continue;
            }
            twin.fork.damage(place, offset, &value);
            let structure = match place {
                _ if place >= twin.fork.geometry().directory_free_start() => Structure::DirectoryFreeIndex,
                _ if place >= twin.fork.geometry().directory_leaf_start() => Structure::DirectoryAnyIndex,
                _ => Structure::DirectoryAnyData,
            };
            if twin.fork.edit(structure, place).is_err() {
                twin.fork.damage(place, 0, &bytes);
            }
        }
        for (is_removal, number) in steps {
            let name = name(number % (count + 20));
            let found = twin.edit().find(&name);
            let _ = match (found, is_removal) {
                (Ok(Some(found)), true) => twin.edit().remove(&found),
                (Ok(Some(found)), false) => twin.edit().replace(&name, &found, InodeNumber::new(71), 1),
                (Ok(None), _) => twin.edit().insert(&file(&name, 72).entry()),
                (Err(error), _) => Err(error),
            };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn changes_equal_the_model(
        log in prop::sample::select(vec![0_u32, 2, 6]),
        range in prop::sample::select(vec![20_u32, 150, 600]),
        steps in prop::collection::vec((0_u8..10, any::<u32>(), prop::bool::weighted(0.02)), 1..1200),
    ) {
        let mut twin = Twin::new(geometry(log));
        let mut hints = vec![DirectoryHint::default()];
        // Phases in which names mostly come, and in which they mostly go.
        for (step, (kind, number, is_large)) in steps.into_iter().enumerate() {
            let name = if number & 7 == 0 { same_hash(number >> 3 & 255) } else { name(number % range) };
            let inode = 64 + u64::from(number % 448) + if is_large { 0x1_0000_0000 } else { 0 };
            let is_falling = step / 300 % 2 == 1;
            // Hints of long ago must do no harm.
            hints.push(twin.hint);
            if number & 0x30 == 0 {
                twin.hint = hints[number as usize % hints.len()];
            }
            match (twin.model.contains_key(&name), kind) {
                (true, 0..2) => twin.replace(&name, inode),
                (true, 2..4) => twin.remove(&name),
                (true, _) if is_falling => twin.remove(&name),
                (false, 0..4) if is_falling => prop_assert_eq!(twin.edit().find(&name).unwrap(), None),
                (false, _) => twin.add(&name, inode),
                (true, _) => {}
            }
            twin.check();
        }
    }
}

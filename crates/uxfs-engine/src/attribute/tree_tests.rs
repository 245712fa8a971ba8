use std::collections::BTreeMap;

use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest},
    sample,
};
use uxfs_format::{
    attribute::{flags::Namespace, leaf::LeafBlock, remote},
    directory::name_hash,
    fault::Fault,
    field_table::OnDisk,
    geometry::Geometry,
    name_tree::{TreeKind, fault::NameTreeFault, header::BlockHeader, node::NodeBlock, node_edit::NodeEdit},
    superblock::Superblock,
    units::FileBlock,
};

use super::{
    SetMode, Target,
    hint::AttributeHint,
    tree::{AttributeTree, ROOT, ValueStore},
};
use crate::name_tree::{BlockBuffer, ForkStore, testing::MemoryFork};
use uxfs_volume::error::{Error, OperationError, Result};

fn geometry(block_log: u32) -> Geometry {
    const SUPERBLOCK: &[u8] = include_bytes!("../../../uxfs-format/testdata/names/superblock.bin");
    let (superblock, _) = Superblock::parse(SUPERBLOCK).unwrap();
    let mut geometry = Geometry::new(superblock);
    geometry.block_log = block_log;
    geometry.block_size_bytes = 1 << block_log;
    geometry
}

/// Values of their own, as in the real fork: a run of blocks each of which has a header.
impl<'fs> ValueStore<'fs> for MemoryFork<'fs> {
    fn write_value(&mut self, value: &[u8]) -> Result<FileBlock> {
        let geometry = self.geometry();
        let first = self.extents().last().map_or(0, |extent| extent.end().get());
        let mut parts = (0_u32..).zip(value.chunks(remote::part_size_bytes(geometry) as usize));
        for (index, part) in parts.by_ref() {
            let place = FileBlock::new(first + u64::from(index));
            let mut buffer = self.create(uxfs_format::fault::Structure::AttributeRemoteValue, place)?;
            let identity = self.identity(buffer.sector());
            let offset = index * remote::part_size_bytes(geometry);
            remote::write_block(buffer.edit().all(), &identity, offset, part);
        }
        Ok(FileBlock::new(first))
    }

    fn read_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<Vec<u8>> {
        let geometry = self.geometry();
        let mut value = Vec::new();
        for index in 0..remote::block_count(geometry, length_bytes) {
            let bytes = self.bytes(FileBlock::new(first_block.get() + u64::from(index)));
            value.extend_from_slice(remote::RemoteBlock::parse(&bytes, geometry).unwrap().part);
        }
        assert_eq!(value.len(), length_bytes as usize);
        Ok(value)
    }

    fn hint(&mut self) -> &mut AttributeHint {
        &mut self.hint
    }

    fn free_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<()> {
        for index in 0..remote::block_count(self.geometry(), length_bytes) {
            self.free(FileBlock::new(first_block.get() + u64::from(index)))?;
        }
        Ok(())
    }
}

type Model = BTreeMap<(Namespace, Vec<u8>), Vec<u8>>;

/// The results of a search.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Shape {
    leaves: usize,
    nodes: usize,
    level: u16,
    values: usize,
    /// Of the leaves.
    used_percent: usize,
}

struct Fork<'fs> {
    store: MemoryFork<'fs>,
    model: Model,
}

impl<'fs> Fork<'fs> {
    fn new(geometry: &'fs Geometry) -> Self {
        let mut store = MemoryFork::new(geometry, TreeKind::Attribute);
        AttributeTree::new(&mut store).make_root().unwrap();
        Self { store, model: Model::new() }
    }

    fn set(&mut self, namespace: Namespace, name: &[u8], value: &[u8], mode: SetMode) {
        let target =
            Target { namespace, name, hash: name_hash::hash(name), value: None, is_half_made: false };
        let result = AttributeTree::new(&mut self.store).set(&target, value, mode);
        let key = (namespace, name.to_vec());
        let existed = self.model.contains_key(&key);
        match (mode, existed) {
            (SetMode::Create, true) => {
                assert!(matches!(result, Err(Error::Operation(OperationError::Exists))));
            }
            (SetMode::Replace, false) => {
                assert!(matches!(result, Err(Error::Operation(OperationError::NoSuchAttribute))));
            }
            _ => {
                assert_eq!(result.unwrap(), existed);
                self.model.insert(key, value.to_vec());
            }
        }
    }

    fn remove(&mut self, namespace: Namespace, name: &[u8]) {
        let target =
            Target { namespace, name, hash: name_hash::hash(name), value: None, is_half_made: false };
        let removed = AttributeTree::new(&mut self.store).remove(&target).unwrap();
        assert_eq!(removed, self.model.remove(&(namespace, name.to_vec())).is_some());
    }

    fn get(&mut self, namespace: Namespace, name: &[u8]) -> Option<Vec<u8>> {
        let target =
            Target { namespace, name, hash: name_hash::hash(name), value: None, is_half_made: false };
        AttributeTree::new(&mut self.store).get(&target).unwrap()
    }

    /// Looks at every block: all verify, parents have the last hashes of their children, neighbours agree, all blocks
    /// belong to something, and the attributes are those of the model.
    fn check(&mut self) -> Shape {
        self.store.verify_changed();
        let mut shape = Shape::default();
        let mut seen = Model::new();
        let mut used_bytes = 0;
        let mut level = vec![(ROOT, None::<u32>)];
        loop {
            let mut below = Vec::new();
            for (place, (block, last)) in level.iter().enumerate() {
                let bytes = self.store.bytes(*block);
                let header = BlockHeader::prefix_of(&bytes).unwrap();
                assert_eq!(header.next(), level.get(place + 1).map(|(block, _)| *block));
                assert_eq!(header.previous(), place.checked_sub(1).map(|before| level[before].0));
                if header.magic.get() == uxfs_format::name_tree::node::MAGIC {
                    let node = NodeBlock::parse(&bytes).unwrap();
                    (shape.nodes, shape.level) = (shape.nodes + 1, shape.level.max(node.header.level.get()));
                    let own = node.entries.last().map(|entry| entry.hash.get());
                    assert!(last.is_none() || *last == own, "{last:?} in the parent, {own:?} in the node");
                    below.extend(
                        node.entries
                            .iter()
                            .map(|entry| (FileBlock::new(entry.child.get().into()), Some(entry.hash.get()))),
                    );
                    continue;
                }
                let leaf = LeafBlock::of_block(&bytes).unwrap();
                assert!(last.is_none() || *last == leaf.last_hash(), "{last:?} in the parent, {leaf:?}");
                shape.leaves += 1;
                used_bytes += 80 + leaf.entries.len() * 8 + usize::from(leaf.header.used_bytes.get());
                shape.values += self.collect(&leaf, &mut seen);
            }
            if below.is_empty() {
                break;
            }
            level = below;
        }
        assert_eq!(seen.len(), self.model.len());
        assert!(seen == self.model, "the attributes are not those of the model");
        assert_eq!(self.store.places().len(), shape.leaves + shape.nodes + shape.values);
        shape.used_percent = used_bytes * 100 / (shape.leaves * self.store.geometry().block_size());
        shape
    }

    fn collect(&mut self, leaf: &LeafBlock<'_>, seen: &mut Model) -> usize {
        let mut blocks = 0;
        for attribute in leaf.attributes().map(std::result::Result::unwrap) {
            use uxfs_format::attribute::leaf::LeafValue::{Local, Remote};
            let value = match attribute.value {
                Local(value) => value.to_vec(),
                Remote { first_block, length_bytes } => {
                    blocks += remote::block_count(self.store.geometry(), length_bytes) as usize;
                    self.store.read_value(first_block, length_bytes).unwrap()
                }
            };
            let key = (attribute.flags.namespace().unwrap(), attribute.name.to_vec());
            assert!(seen.insert(key, value).is_none(), "an attribute is there twice");
        }
        blocks
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Set { name: Vec<u8>, length: usize, namespace: usize, mode: usize },
    Again { which: sample::Index, length: usize },
    Remove(sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = prop_oneof![5 => vec(1_u8..=255, 1..24), 1 => vec(1_u8..=255, 1..=255)];
    let length = prop_oneof![6 => 0_usize..64, 3 => 0_usize..1000, 1 => 0_usize..=65536];
    prop_oneof![
        5 => (name, length.clone(), 0_usize..3, 0_usize..5)
            .prop_map(|(name, length, namespace, mode)| Operation::Set { name, length, namespace, mode }),
        1 => (any::<sample::Index>(), length)
            .prop_map(|(which, length)| Operation::Again { which, length }),
        2 => any::<sample::Index>().prop_map(Operation::Remove),
    ]
}

fn value_of(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + length) as u8).collect()
}

fn apply(fork: &mut Fork<'_>, operation: &Operation) {
    const NAMESPACES: [Namespace; 3] = [Namespace::User, Namespace::Trusted, Namespace::Security];
    let existing = |which: &sample::Index| {
        let count = fork.model.len();
        (count > 0).then(|| fork.model.keys().nth(which.index(count)).unwrap().clone())
    };
    match operation {
        Operation::Set { name, length, namespace, mode } => {
            let mode = match mode {
                0 => SetMode::Create,
                1 => SetMode::Replace,
                _ => SetMode::Upsert,
            };
            fork.set(NAMESPACES[*namespace], name, &value_of(*length), mode);
        }
        Operation::Again { which, length } => {
            if let Some((namespace, name)) = existing(which) {
                fork.set(namespace, &name, &value_of(*length), SetMode::Replace);
            }
        }
        Operation::Remove(which) => {
            if let Some((namespace, name)) = existing(which) {
                fork.remove(namespace, &name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_fork_is_whole_after_every_change(
        block_log in 10_u32..=16,
        operations in vec(operation(), 1..200),
        back in any::<bool>(),
    ) {
        let geometry = geometry(block_log);
        let mut fork = Fork::new(&geometry);
        for operation in &operations {
            apply(&mut fork, operation);
            fork.check();
        }
        let names: Vec<_> = fork.model.keys().cloned().collect();
        for (namespace, name) in names.iter().take(20) {
            assert_eq!(fork.get(*namespace, name), fork.model.get(&(*namespace, name.clone())).cloned());
        }
        let all: Vec<_> = if back { names.into_iter().rev().collect() } else { names };
        for (namespace, name) in all {
            fork.remove(namespace, &name);
            fork.check();
        }
        assert_eq!(fork.store.places(), [ROOT]);
    }
}

/// Names with the hashes that are asked for: five bytes reach every hash.
fn name_with_hash(hash: u32) -> Vec<u8> {
    let last = |bits: u32| 0x80 | (bits & 0x7f) as u8;
    let mut name: Vec<u8> = [28, 21, 14, 7, 0].map(|shift| last(hash >> shift)).to_vec();
    // Each byte's high bit runs into the next one: correct from the front.
    for place in 0..5 {
        let wrong = name_hash::hash(&name) ^ hash;
        name[place] ^= (wrong >> (28 - 7 * place)) as u8 & 0x7f;
    }
    name
}

#[test]
fn large_trees_grow_and_shrink_in_any_order() {
    let geometry = geometry(10);
    let orders: [fn(u32, u32) -> u32; 3] = [
        |index, _| index,
        |index, count| count - 1 - index,
        |index, count| (u64::from(index) * 7919 % u64::from(count)) as u32,
    ];
    for (grow, shrink) in [(0, 0), (0, 1), (1, 2), (2, 0), (2, 2)] {
        let mut fork = Fork::new(&geometry);
        let count = 12_000;
        let name = |index: u32| format!("attribute{index:06}").into_bytes();
        for index in 0..count {
            fork.set(Namespace::User, &name(orders[grow](index, count)), b"value", SetMode::Create);
        }
        let shape = fork.check();
        assert!(shape.level == 2 && shape.used_percent >= 60, "{shape:?}");
        for index in 0..count {
            fork.remove(Namespace::User, &name(orders[shrink](index, count)));
            if index % 1000 == 0 {
                fork.check();
            }
        }
        assert_eq!(fork.check(), Shape { leaves: 1, used_percent: 7, ..Shape::default() });
    }
}

#[test]
fn names_by_rising_or_falling_hash_fill_their_leaves() {
    let geometry = geometry(12);
    for is_falling in [false, true] {
        let mut fork = Fork::new(&geometry);
        for index in 0..4000_u32 {
            let index = if is_falling { 4000 - index } else { index };
            fork.set(Namespace::User, &name_with_hash(0x1000_0000 + index * 3), b"v", SetMode::Create);
        }
        let shape = fork.check();
        assert!(shape.used_percent >= 95, "{is_falling}: {shape:?}");
    }
}

#[test]
fn equal_hashes_go_on_over_many_leaves() {
    let geometry = geometry(10);
    let mut fork = Fork::new(&geometry);
    // The same name and other values: parent pointers of one hash.
    let values: Vec<[u8; 12]> = (0..400_u32)
        .map(|index| {
            let mut value = [0; 12];
            value[8..].copy_from_slice(&index.to_be_bytes());
            value
        })
        .collect();
    let target = |value| Target::of_parent_pointer(b"name", value, &geometry);
    for value in &values {
        let set = AttributeTree::new(&mut fork.store).set(&target(value), value, SetMode::Create);
        assert!(!set.unwrap());
    }
    // Directories refuse names that they have. The newest of one hash lies in the first leaf, where it is found again.
    let newest = values.last().unwrap();
    let again = AttributeTree::new(&mut fork.store).set(&target(newest), newest, SetMode::Create);
    assert!(matches!(again, Err(Error::Operation(OperationError::Exists))));
    for value in &values {
        let found = AttributeTree::new(&mut fork.store).get(&target(value)).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_slice()));
    }
    fork.store.verify_changed();
    assert!(fork.store.places().len() > 10);
    for value in values.iter().rev() {
        assert!(AttributeTree::new(&mut fork.store).remove(&target(value)).unwrap());
        assert!(!AttributeTree::new(&mut fork.store).remove(&target(value)).unwrap());
    }
    fork.check();
    assert_eq!(fork.store.places(), [ROOT]);
}

#[test]
fn one_of_equal_hashes_comes_and_goes_without_looking_at_all_of_them() {
    let geometry = geometry(10);
    let mut fork = Fork::new(&geometry);
    let mut most = 0;
    for index in 0..2000_u32 {
        let mut value = [0; 12];
        value[8..].copy_from_slice(&index.to_be_bytes());
        let target = Target::of_parent_pointer(b"name", &value, &geometry);
        let before = fork.store.asked;
        assert!(!AttributeTree::new(&mut fork.store).set(&target, &value, SetMode::Create).unwrap());
        most = most.max(fork.store.asked - before);
    }
    assert!(fork.store.places().len() > 60);
    // A path down, a split with its neighbours, and the path again.
    assert!(most < 20, "one took {most} blocks");
    // Removed in the order in which they were made, then in the opposite one.
    most = 0;
    for index in (0..1000_u32).chain((1000..2000).rev()) {
        let mut value = [0; 12];
        value[8..].copy_from_slice(&index.to_be_bytes());
        let target = Target::of_parent_pointer(b"name", &value, &geometry);
        let before = fork.store.asked;
        assert!(AttributeTree::new(&mut fork.store).remove(&target).unwrap());
        most = most.max(fork.store.asked - before);
    }
    assert!(most < 60, "one took {most} blocks");
    assert_eq!(fork.store.places(), [ROOT]);
}

#[test]
fn an_attribute_too_large_for_both_halves_gets_a_leaf_of_its_own() {
    let geometry = geometry(10);
    let mut fork = Fork::new(&geometry);
    for hash in [10, 30] {
        fork.set(Namespace::User, &name_with_hash(hash), &[1; 400], SetMode::Create);
    }
    fork.set(Namespace::User, &name_with_hash(20), &[2; 750], SetMode::Create);
    let shape = fork.check();
    assert_eq!((shape.leaves, shape.nodes, shape.level), (3, 1, 1));
    fork.set(Namespace::User, &name_with_hash(20), &[2; 7], SetMode::Replace);
    fork.remove(Namespace::User, &name_with_hash(10));
    let shape = fork.check();
    assert_eq!((shape.leaves, shape.nodes), (1, 0));
}

#[test]
fn nodes_that_lead_to_one_leaf_for_ever_are_an_error() {
    let geometry = geometry(10);
    let mut fork = Fork::new(&geometry);
    let values: Vec<[u8; 12]> = (0..200_u32).map(|index| [index as u8; 12]).collect();
    let target = |value| Target::of_parent_pointer(b"name", value, &geometry);
    // All parents have halves that cancel out: one hash.
    for value in &values {
        AttributeTree::new(&mut fork.store).set(&target(value), value, SetMode::Create).unwrap();
    }
    let hash = target(&values[0]).hash;
    let mut root = fork.store.edit(uxfs_format::fault::Structure::AttributeAnyIndex, ROOT).unwrap();
    let child = NodeBlock::parse(&root).unwrap().first_child().unwrap();
    let mut node = NodeEdit::new(root.edit());
    for _ in 0..100 {
        node.insert(0, hash, child);
    }
    drop(root);
    let missing = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
    assert_eq!(target(&missing).hash, hash);
    let result = AttributeTree::new(&mut fork.store).get(&target(&missing));
    let Err(Error::Corrupt(corruption)) = result else { panic!("{result:?}") };
    assert!(matches!(corruption.fault, Fault::NameTree(NameTreeFault::TooManyBlocks { .. })));
}

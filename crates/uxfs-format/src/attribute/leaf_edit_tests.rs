use std::collections::BTreeMap;

use proptest::{
    collection::vec,
    prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest},
    sample,
};

use super::*;
use crate::{
    checksum,
    directory::name_hash,
    edit::DirtyMap,
    geometry::Geometry,
    name_tree::golden,
    units::{FileBlock, InodeNumber, Sector},
    verify::VerifyContext,
};

const SECTOR: u64 = 4096;

fn geometry(block_log: u32) -> Geometry {
    Geometry { block_log, block_size_bytes: 1 << block_log, ..golden::geometry() }
}

/// A block with the map of what has changed in it.
#[derive(Clone)]
struct Block {
    bytes: Vec<u8>,
    dirty: DirtyMap,
    geometry: Geometry,
}

impl Block {
    fn new(geometry: &Geometry) -> Self {
        let (bytes, dirty) = (vec![0; geometry.block_size()], DirtyMap::clean());
        let mut block = Self { bytes, dirty, geometry: geometry.clone() };
        let place = BlockIdentity {
            owner: InodeNumber::new(132),
            sector: Sector::new(SECTOR),
            uuid: geometry.metadata_uuid,
        };
        LeafEdit::init(Edit::new(&mut block.bytes, &mut block.dirty), &place);
        block
    }

    fn edit(&mut self) -> LeafEdit<'_> {
        LeafEdit::new(Edit::new(&mut self.bytes, &mut self.dirty))
    }

    /// The verifier accepts the leaf, the free map names only free bytes, and all that is free where it says so.
    fn check(&self, model: &Model) {
        let mut sealed = self.bytes.clone();
        checksum::seal(&mut sealed, 12);
        let context = VerifyContext::new(&self.geometry, Sector::new(SECTOR));
        LeafBlock::verify(&sealed, &context).unwrap();
        let leaf = LeafBlock::of_block(&self.bytes).unwrap();
        let found: Vec<_> = leaf.attributes().map(Result::unwrap).map(own).collect();
        let expected: Vec<_> = model.values().flatten().cloned().collect();
        assert_eq!(found.len(), expected.len());
        for attribute in &expected {
            assert!(found.contains(attribute), "{attribute:?} is missing");
        }
        check_free_map(&leaf, &self.bytes);
    }
}

fn check_free_map(leaf: &LeafBlock<'_>, bytes: &[u8]) {
    let mut is_used = vec![false; bytes.len()];
    is_used[..80 + leaf.entries.len() * 8].fill(true);
    for (entry, attribute) in leaf.entries.iter().zip(leaf.attributes()) {
        let offset = usize::from(entry.name_offset.get());
        is_used[offset..offset + attribute.unwrap().stored_bytes() as usize].fill(true);
    }
    let lowest = leaf.entries.iter().map(|entry| u32::from(entry.name_offset.get())).min();
    assert_eq!(leaf.first_used(), lowest.unwrap_or(bytes.len() as u32));
    let has_holes = is_used[leaf.first_used() as usize..].contains(&false);
    assert!(!has_holes || leaf.header.has_holes != 0, "Linux would believe that there are no holes");
    let mut mapped = 0;
    for region in &leaf.header.free_map {
        let (base, size) = (usize::from(region.base_bytes.get()), usize::from(region.size_bytes.get()));
        assert!(!is_used[base..base + size].contains(&true), "free region of {size} bytes at {base}");
        is_used[base..base + size].fill(true);
        mapped += size;
    }
    let free = is_used.iter().filter(|used| !**used).count();
    assert!(free == 0 || leaf.header.has_holes != 0, "{free} bytes are forgotten beside {mapped}");
}

type Owned = (AttributeFlags, Vec<u8>, Option<Vec<u8>>, u32);
type Model = BTreeMap<u32, Vec<Owned>>;

fn own(attribute: LeafAttribute<'_>) -> Owned {
    let flags = attribute.flags;
    match attribute.value {
        LeafValue::Local(value) => (flags, attribute.name.to_vec(), Some(value.to_vec()), 0),
        LeafValue::Remote { length_bytes, .. } => (flags, attribute.name.to_vec(), None, length_bytes),
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Insert { name: Vec<u8>, value_length: usize, flags: AttributeFlags },
    Remove(sample::Index),
    Replace { which: sample::Index, value_length: usize },
    Toggle(sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let name = vec(1_u8..=255, 1..40);
    let long_name = vec(1_u8..=255, 1..=255);
    let length = prop_oneof![4 => 0_usize..64, 2 => 0_usize..800, 1 => 0_usize..70_000];
    let flags =
        prop_oneof![Just(AttributeFlags::empty()), Just(AttributeFlags::ROOT), Just(AttributeFlags::SECURE)];
    prop_oneof![
        5 => (prop_oneof![4 => name, 1 => long_name], length.clone(), flags)
            .prop_map(|(name, value_length, flags)| Operation::Insert { name, value_length, flags }),
        3 => any::<sample::Index>().prop_map(Operation::Remove),
        1 => (any::<sample::Index>(), length)
            .prop_map(|(which, value_length)| Operation::Replace { which, value_length }),
        1 => any::<sample::Index>().prop_map(Operation::Toggle),
    ]
}

/// A new attribute with a value of the given length, local where it may be.
fn with_new<T>(
    geometry: &Geometry,
    flags: AttributeFlags,
    name: &[u8],
    value_length: usize,
    then: impl FnOnce(NewAttribute<'_>) -> T,
) -> T {
    let value = vec![value_length as u8; value_length];
    let length_bytes = (value_length as u32).min(65536);
    let value = if is_local(geometry.block_size_bytes, name.len() as u32, length_bytes) {
        LeafValue::Local(&value)
    } else {
        LeafValue::Remote { first_block: FileBlock::new(7), length_bytes }
    };
    then(NewAttribute { hash: name_hash::hash(name), flags, name, value })
}

fn position(leaf: &LeafBlock<'_>, hash: u32) -> u32 {
    leaf.entries.partition_point(|entry| entry.hash.get() <= hash) as u32
}

fn add(model: &mut Model, new: &NewAttribute<'_>) {
    let owned = match new.value {
        LeafValue::Local(value) => {
            (new.flags | AttributeFlags::LOCAL, new.name.to_vec(), Some(value.to_vec()), 0)
        }
        LeafValue::Remote { length_bytes, .. } => (new.flags, new.name.to_vec(), None, length_bytes),
    };
    model.entry(new.hash).or_default().push(owned);
}

fn take(model: &mut Model, attribute: LeafAttribute<'_>) {
    let owned = own(attribute);
    let all = model.get_mut(&attribute.hash).unwrap();
    let at = all.iter().position(|one| *one == owned).unwrap();
    all.swap_remove(at);
}

fn apply(block: &mut Block, model: &mut Model, operation: &Operation) {
    let geometry = block.geometry.clone();
    let count = block.edit().count() as usize;
    match operation {
        Operation::Insert { name, value_length, flags } => {
            with_new(&geometry, *flags, name, *value_length, |new| {
                let mut edit = block.edit();
                let index = position(&edit.view().unwrap(), new.hash);
                let (fits, free) = (edit.has_room(new.whole_bytes()), edit.free_bytes());
                assert_eq!(edit.insert(index, &new), fits, "{free} bytes are free");
                if fits {
                    add(model, &new);
                }
            });
        }
        Operation::Remove(which) if count > 0 => {
            let index = which.index(count) as u32;
            take(model, block.edit().attribute(index).unwrap());
            block.edit().remove(index);
        }
        Operation::Replace { which, value_length } if count > 0 => {
            let index = which.index(count) as u32;
            let mut edit = block.edit();
            let old = own(edit.attribute(index).unwrap());
            let flags = old.0.difference(AttributeFlags::LOCAL);
            with_new(&geometry, flags, &old.1, *value_length, |new| {
                let before = edit.view().unwrap().entries[index as usize];
                let attribute = edit.attribute(index).unwrap();
                let fits = attribute.stored_bytes() == new.stored_bytes()
                    && old.2.is_some() == matches!(new.value, LeafValue::Local(_));
                let mut model_after = model.clone();
                take(&mut model_after, attribute);
                add(&mut model_after, &new);
                assert_eq!(edit.replace_in_place(index, &new), fits);
                if fits {
                    assert_eq!(edit.view().unwrap().entries[index as usize], before);
                    *model = model_after;
                }
            });
        }
        Operation::Toggle(which) if count > 0 => {
            let index = which.index(count) as u32;
            let mut edit = block.edit();
            let attribute = edit.attribute(index).unwrap();
            // Only remote values are ever half made; complete local ones must stay so for the reader.
            let is_complete = attribute.is_complete();
            take(model, attribute);
            edit.set_incomplete(index, is_complete);
            let attribute = edit.attribute(index).unwrap();
            model.entry(attribute.hash).or_default().push(own(attribute));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_changes_keep_the_leaf_whole(block_log in 10_u32..=16, operations in vec(operation(), 1..250)) {
        let geometry = geometry(block_log);
        let (mut block, mut model) = (Block::new(&geometry), Model::new());
        for operation in &operations {
            apply(&mut block, &mut model, operation);
            block.check(&model);
        }
    }

    #[test]
    fn splits_and_joins_lose_nothing(
        block_log in 10_u32..=16,
        operations in vec(operation(), 50..400),
        more in vec(operation(), 1..30),
    ) {
        let geometry = geometry(block_log);
        let (mut left, mut model) = (Block::new(&geometry), Model::new());
        for operation in &operations {
            apply(&mut left, &mut model, operation);
        }
        let count = left.edit().count();
        let half = count / 2;
        let mut right = Block::new(&geometry);
        left.edit().move_to(half, count, &mut right.edit(), 0);
        let mut right_model = Model::new();
        for attribute in LeafBlock::of_block(&right.bytes).unwrap().attributes().map(Result::unwrap) {
            take(&mut model, attribute);
            right_model.entry(attribute.hash).or_default().push(own(attribute));
        }
        left.check(&model);
        right.check(&right_model);
        for operation in &more {
            // Only what shrinks, so that the halves fit together again.
            if let Operation::Remove(_) | Operation::Toggle(_) = operation {
                apply(&mut right, &mut right_model, operation);
                apply(&mut left, &mut model, operation);
            }
        }
        left.edit().take_all(&right.bytes, MoveSide::Back);
        for (hash, attributes) in right_model {
            model.entry(hash).or_default().extend(attributes);
        }
        left.check(&model);
    }

    #[test]
    fn split_plans_leave_room_for_everything(
        block_log in 10_u32..=13,
        operations in vec(operation(), 50..400),
        name in vec(1_u8..=255, 1..=255),
        value_length in 0_usize..6000,
    ) {
        let geometry = geometry(block_log);
        let (mut block, mut model) = (Block::new(&geometry), Model::new());
        for operation in &operations {
            apply(&mut block, &mut model, operation);
        }
        with_new(&geometry, AttributeFlags::empty(), &name, value_length, |new| {
            let edit = block.edit();
            let leaf = edit.view().unwrap();
            let index = position(&leaf, new.hash);
            let mut sizes: Vec<u32> =
                leaf.attributes().map(|attribute| attribute.unwrap().stored_bytes() + 8).collect();
            sizes.insert(index as usize, new.whole_bytes());
            let capacity = geometry.block_size_bytes - 80;
            if edit.has_room(new.whole_bytes()) {
                return;
            }
            for bias in [SplitBias::Even, SplitBias::Last, SplitBias::First] {
                let at = index as usize;
                let parts: Vec<&[u32]> = match edit.plan_split(index, new.whole_bytes(), bias) {
                    SplitPlan::Two { stay } => {
                        let (left, right) = sizes.split_at(stay as usize);
                        vec![left, right]
                    }
                    SplitPlan::Three => vec![&sizes[..at], &sizes[at..=at], &sizes[at + 1..]],
                };
                for part in parts {
                    assert!(!part.is_empty() && part.iter().sum::<u32>() <= capacity, "{part:?}");
                }
            }
        });
    }
}

#[test]
fn names_in_the_order_of_their_hashes_fill_leaves() {
    let geometry = geometry(12);
    let mut block = Block::new(&geometry);
    let mut hash = 0;
    loop {
        let mut edit = block.edit();
        let name = [b'n', 1 + (hash / 100) as u8, 1 + (hash % 100) as u8];
        let new = NewAttribute {
            hash: name_hash::hash(&name),
            flags: AttributeFlags::empty(),
            name: &name,
            value: LeafValue::Local(b"v"),
        };
        let index = position(&edit.view().unwrap(), new.hash);
        assert_eq!(index, hash);
        if !edit.insert(index, &new) {
            assert_eq!(
                edit.plan_split(index, new.whole_bytes(), SplitBias::Last),
                SplitPlan::Two { stay: hash }
            );
            assert!(edit.free_bytes() < 16);
            return;
        }
        hash += 1;
    }
}

#[test]
fn a_large_name_between_large_names_takes_a_leaf_of_its_own() {
    let geometry = geometry(10);
    let mut block = Block::new(&geometry);
    let place = |hash: u32, value: usize| -> (u32, Vec<u8>) { (hash, vec![1; value]) };
    for (index, (hash, value)) in (0..).zip([place(1, 400), place(5, 400)]) {
        let new = NewAttribute {
            hash,
            flags: AttributeFlags::empty(),
            name: b"x",
            value: LeafValue::Local(&value),
        };
        assert!(block.edit().insert(index, &new));
    }
    assert!(is_local(1024, 1, 760));
    assert!(!is_local(1024, 1, 764));
    assert_eq!(block.edit().plan_split(1, 768, SplitBias::Even), SplitPlan::Three);
    assert_eq!(block.edit().plan_split(1, 300, SplitBias::Even), SplitPlan::Two { stay: 1 });
}

/// After moving entries to another leaf, Linux leaves firstused below the first name.
#[test]
fn a_leaf_that_was_emptied_knows_where_its_names_begin() {
    let geometry = geometry(12);
    let mut block = Block::new(&geometry);
    let insert = |block: &mut Block, name: &[u8]| {
        with_new(&geometry, AttributeFlags::empty(), name, 20, |new| assert!(block.edit().insert(0, &new)));
    };
    insert(&mut block, b"first");
    let first_used = LeafBlock::of_block(&block.bytes).unwrap().first_used();
    // The header's numbers begin at byte 56; its mark of holes lies at 62.
    block.bytes[60..62].copy_from_slice(&(first_used as u16 - 276).to_be_bytes());
    block.bytes[62] = 1;
    block.edit().remove(0);
    insert(&mut block, b"second");
    let leaf = LeafBlock::of_block(&block.bytes).unwrap();
    leaf.verify_first_name().unwrap();
    check_free_map(&leaf, &block.bytes);
}

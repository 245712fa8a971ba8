//! Random records in every kind of tree, against a sorted map.

use std::collections::BTreeMap;

use uxfs_engine::{
    allocation_group::{free_space::choose::GroupRequest, trees::GroupTree},
    transaction::{GroupEdit, Transaction},
};
use uxfs_format::{
    btree::{
        inode_index::{FreeInodeIndex, InodeIndex, InodeIndexRecord},
        reference_count::{ReferenceCount, ReferenceCountRecord, SharedExtent},
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    units::{AgBlock, AgNumber, FileBlock, InodeNumber},
};
use uxfs_testkit::{
    image::TestImage,
    judges::Judge,
    require,
    seeds::{Random, Seed},
};
use zerocopy::big_endian::{U16, U32, U64};

use super::check::check_tree;

/// Makes records with distinct places from numbers.
trait Sample: GroupTree {
    /// The same number gives the same place; `other` differs in what does not change the place.
    fn sample(number: u32, other: u32, base: AgBlock) -> Self::Record;

    /// Whether a record is not one that trees make themselves for their blocks.
    fn is_sample(_: &Self::Record) -> bool {
        true
    }
}

impl Sample for InodeIndex {
    fn sample(number: u32, other: u32, _: AgBlock) -> InodeIndexRecord {
        InodeIndexRecord {
            start: U32::new(1_000_000 + number * 64),
            hole_mask: U16::new(0),
            count: 64,
            free_count: 1,
            free: U64::new(1 << (other % 64)),
        }
    }
}

impl Sample for FreeInodeIndex {
    fn sample(number: u32, other: u32, base: AgBlock) -> InodeIndexRecord {
        InodeIndex::sample(number, other, base)
    }
}

impl Sample for ReferenceCount {
    fn sample(number: u32, other: u32, _: AgBlock) -> ReferenceCountRecord {
        SharedExtent {
            start: AgBlock::new(5000 + number * 3),
            length_blocks: 1 + other % 3,
            count: 2 + other,
            is_cow_staging: false,
        }
        .into()
    }
}

impl Sample for ReverseMap {
    fn is_sample(record: &ReverseMapRecord) -> bool {
        matches!(record.get().owner, Owner::Inode(_))
    }

    /// Many owners of the same blocks, of very different lengths: what the high keys are for.
    fn sample(number: u32, other: u32, base: AgBlock) -> ReverseMapRecord {
        let length = if other.is_multiple_of(17) { 1 + other % 500 } else { 1 + other % 4 };
        Mapping {
            start: AgBlock::new(base.get() + number / 8),
            length_blocks: length,
            owner: Owner::Inode(InodeNumber::new(u64::from(128 + number % 8))),
            file_block: FileBlock::new(u64::from(number)),
            is_attribute_fork: false,
            is_extent_map_block: false,
            is_unwritten: other.is_multiple_of(2),
        }
        .into()
    }
}

type Model<K> =
    BTreeMap<<K as uxfs_format::btree::BtreeKind>::Position, <K as uxfs_format::btree::BtreeKind>::Record>;

struct Churn<'a, 't, 'fs, K: Sample> {
    group: &'a mut GroupEdit<'t, 'fs>,
    model: Model<K>,
    random: Random,
    base: AgBlock,
    numbers: u32,
}

impl<K: Sample<Position: std::hash::Hash>> Churn<'_, '_, '_, K> {
    fn random_record(&mut self) -> K::Record {
        let (number, other) =
            (self.random.below(self.numbers.into()) as u32, self.random.below(1 << 20) as u32);
        K::sample(number, other, self.base)
    }

    /// One random operation; `inserts` of 100 add.
    fn step(&mut self, inserts: u64) {
        self.group.fill_free_list().unwrap();
        let record = self.random_record();
        let position = K::position_of_record(&record);
        let mut cursor = self.group.tree::<K>();
        let found = cursor.seek_exact(position).unwrap();
        assert_eq!(found, self.model.get(&position).copied());
        match (found, self.random.below(100)) {
            (None, draw) if draw < inserts => {
                cursor.insert(&record).unwrap();
                self.model.insert(position, record);
            }
            (None, draw) if draw % 2 == 0 => {
                let expected = self.model.range(..position).next_back().map(|(_, record)| *record);
                let found = cursor.seek_at_or_before(position).unwrap();
                assert_same::<K>(found, expected);
                if found == expected && expected.is_some() {
                    let next = self.model.range(position..).next().map(|(_, record)| *record);
                    assert_same::<K>(cursor.next().unwrap(), next);
                }
            }
            (None, _) => {
                let expected = self.model.range(position..).next().map(|(_, record)| *record);
                let found = cursor.seek_at_or_after(position).unwrap();
                assert_same::<K>(found, expected);
                if found == expected && expected.is_some() {
                    let previous = self.model.range(..position).next_back().map(|(_, record)| *record);
                    assert_same::<K>(cursor.previous().unwrap(), previous);
                }
            }
            (Some(_), draw) if draw < inserts => {
                cursor.update(&record).unwrap();
                self.model.insert(position, record);
            }
            (Some(_), _) => {
                cursor.delete().unwrap();
                self.model.remove(&position);
            }
        }
    }

    fn check(&mut self) -> (u32, u32) {
        let checked = check_tree::<K>(self.group);
        let samples = checked.records.iter().filter(|record| K::is_sample(record));
        assert!(samples.eq(self.model.values()), "records differ from the model");
        (checked.levels, checked.blocks)
    }
}

/// What was found is what the model says, or a record that the trees made for a block of theirs.
fn assert_same<K: Sample>(found: Option<K::Record>, expected: Option<K::Record>) {
    if found.is_none_or(|found| K::is_sample(&found)) {
        assert_eq!(found, expected);
    }
}

/// Fills, churns and empties a tree; gives the most levels it had.
fn churn<K: Sample<Position: std::hash::Hash>>(
    group: &mut GroupEdit<'_, '_>,
    random: Random,
    base: AgBlock,
    numbers: u32,
) -> u32 {
    let before = check_tree::<K>(group);
    let model: Model<K> = before
        .records
        .iter()
        .filter(|record| K::is_sample(record))
        .map(|record| (K::position_of_record(record), *record))
        .collect();
    let original: Vec<K::Position> = model.keys().copied().collect();
    let mut churn = Churn::<K> { group, model, random, base, numbers };
    let mut highest = 0;
    for inserts in [95, 60, 40, 90, 10] {
        for _ in 0..4 {
            (0..numbers / 3).for_each(|_| churn.step(inserts));
            highest = highest.max(churn.check().0);
        }
    }
    // Empties it, from the front, the back and the middle.
    loop {
        let added: Vec<K::Position> =
            churn.model.keys().filter(|position| !original.contains(position)).copied().collect();
        let Some(last) = added.len().checked_sub(1) else { break };
        let index = match churn.random.below(3) {
            0 => 0,
            1 => last,
            _ => churn.random.below(added.len() as u64) as usize,
        };
        for position in &added[index..=last.min(index + 200)] {
            churn.group.fill_free_list().unwrap();
            let mut cursor = churn.group.tree::<K>();
            assert!(cursor.seek_exact(*position).unwrap().is_some());
            cursor.delete().unwrap();
            churn.model.remove(position);
        }
        churn.check();
    }
    let after = check_tree::<K>(churn.group);
    assert_eq!((after.levels, after.blocks), (before.levels, before.blocks), "as before");
    highest
}

fn churn_in_image<K: Sample<Position: std::hash::Hash>>(name: &'static str, seed: u64, numbers: u32) {
    let image = TestImage::new(name, 96, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let seed = Seed::from_environment(name, seed);
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    // A region in which no block of a tree comes to lie: made-up owners are noted there.
    let request = GroupRequest::blocks(6000);
    let (base, length) = group.allocate(&request).unwrap().unwrap();
    let highest = churn::<K>(&mut group, seed.random(), base, numbers);
    assert!(highest >= 3, "only {highest} levels: this tests nothing");
    group.free(base, length).unwrap();
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

#[test]
fn the_inode_index_holds_what_a_map_holds() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    churn_in_image::<InodeIndex>("inode index", 1, 12_000);
}

#[test]
fn the_free_inode_index_holds_what_a_map_holds() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    churn_in_image::<FreeInodeIndex>("free inode index", 2, 12_000);
}

#[test]
fn the_reference_count_tree_holds_what_a_map_holds() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    churn_in_image::<ReferenceCount>("reference count", 3, 12_000);
}

#[test]
fn the_reverse_map_holds_what_a_map_holds() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    churn_in_image::<ReverseMap>("reverse map", 4, 12_000);
}

/// Trees that are built in order are dense, and cursors that follow each other find their leaf without a descent.
#[test]
fn records_added_in_order_leave_full_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("in order", 96, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    for number in 0..10_000 {
        group.tree::<InodeIndex>().insert(&InodeIndex::sample(number, 1, AgBlock::new(0))).unwrap();
    }
    let checked = check_tree::<InodeIndex>(&mut group);
    assert_eq!(checked.records.len(), 10_000);
    assert!(checked.fill_percent >= 97, "{} % of the leaves' places are taken", checked.fill_percent);
}

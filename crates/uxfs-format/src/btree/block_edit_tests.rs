use proptest::prelude::*;
use zerocopy::big_endian::U32;

use super::*;
use crate::{
    btree::{
        free_space::{ByBlock, FreeSpaceRecord},
        golden,
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    checksum,
    edit::DirtyMap,
    fault::Structure,
    units::{AgBlock, FileBlock, InodeNumber, Sector, Uuid},
    verify::{self, VerifyContext},
};

const PLACE: BlockIdentity = BlockIdentity { sector: Sector::new(64), uuid: Uuid([7; 16]), owner: 3 };

fn record(start: u32) -> FreeSpaceRecord {
    FreeSpaceRecord { start: U32::new(start), length_blocks: U32::new(1) }
}

fn starts(bytes: &[u8]) -> Vec<u32> {
    BtreeBlock::<ByBlock>::parse(bytes).unwrap().records().iter().map(|record| record.start.get()).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(usize, u32),
    Remove(usize),
    Set(usize, u32),
    Front(usize),
    Keep(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..200usize, any::<u32>()).prop_map(|(index, start)| Step::Insert(index, start)),
        3 => (0..200usize).prop_map(Step::Remove),
        2 => (0..200usize, any::<u32>()).prop_map(|(index, start)| Step::Set(index, start)),
        1 => (0..20usize).prop_map(Step::Front),
        1 => (0..200usize).prop_map(Step::Keep),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    #[test]
    fn a_leaf_is_a_list_that_marks_what_it_changes(steps in steps()) {
        let (mut bytes, mut dirty) = (vec![0; 1024], DirtyMap::clean());
        BlockEdit::<ByBlock>::new(Edit::new(&mut bytes, &mut dirty)).format(0, PLACE);
        let capacity = ByBlock::max_leaf_records(1024) as usize;
        let mut model: Vec<u32> = Vec::new();
        for step in steps {
            let (before, mut dirty) = (bytes.clone(), DirtyMap::clean());
            let mut block = BlockEdit::<ByBlock>::new(Edit::new(&mut bytes, &mut dirty));
            match step {
                Step::Insert(index, start) => {
                    block.insert_record(index, &record(start));
                    if index <= model.len() && model.len() < capacity {
                        model.insert(index, start);
                    }
                }
                Step::Remove(index) => {
                    block.remove(index);
                    if index < model.len() {
                        model.remove(index);
                    }
                }
                Step::Set(index, start) => {
                    block.set_record(index, &record(start));
                    if let Some(slot) = model.get_mut(index) {
                        *slot = start;
                    }
                }
                Step::Front(count) => {
                    block.drop_front(count);
                    if count <= model.len() {
                        model.drain(..count);
                    }
                }
                Step::Keep(count) => {
                    block.truncate(count);
                    model.truncate(count);
                }
            }
            prop_assert_eq!(&starts(&bytes), &model);
            for (index, (old, new)) in before.chunks(128).zip(bytes.chunks(128)).enumerate() {
                prop_assert!(old == new || dirty.is_dirty(index as u32), "run {} is not marked", index);
            }
        }
    }

    /// Bytes from disk: whatever the header claims, changes stay within the block.
    #[test]
    fn any_bytes_can_be_changed(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        other in prop::collection::vec(any::<u8>(), 0..300),
        numbers in prop::array::uniform3(0..70_000usize),
    ) {
        let [index, first, count] = numbers;
        let mut dirty = DirtyMap::clean();
        let length = bytes.len();
        let mut block = BlockEdit::<ReverseMap>::new(Edit::new(&mut bytes, &mut dirty));
        let record = ReverseMapRecord {
            start: U32::new(1), length_blocks: U32::new(2), owner: 3.into(), offset: 4.into(),
        };
        block.insert_record(index, &record);
        block.insert_entry(index % 5, &ReverseMap::key_of_record(&record), &U32::new(7));
        block.set_record(index, &record);
        block.set_key(index, &ReverseMap::key_of_record(&record));
        if let Ok(source) = BtreeBlock::parse(&other) {
            block.append(&source, first % 7, count % 5);
            block.prepend(&source, first, count);
        }
        block.remove(index % 3);
        block.drop_front(count % 4);
        block.truncate(first % 9);
        block.append_records(&[record; 3]);
        block.set_left_sibling(U32::new(9));
        let _ = block.view().and_then(|view| key_of_block(&view));
        prop_assert_eq!(bytes.len(), length);
    }

    #[test]
    fn blocks_give_to_each_other_without_loss(left in 0..100usize, right in 0..100usize, moved in 0..100usize) {
        let fill = |bytes: &mut Vec<u8>, starts: std::ops::Range<usize>| {
            let mut dirty = DirtyMap::clean();
            let mut block = BlockEdit::<ByBlock>::new(Edit::new(bytes, &mut dirty));
            block.format(0, PLACE);
            starts.for_each(|start| block.insert_record(block.len(), &record(start as u32)));
        };
        let (mut a, mut b) = (vec![0; 1024], vec![0; 1024]);
        fill(&mut a, 0..left);
        fill(&mut b, left..left + right);
        let mut dirty = DirtyMap::clean();
        let capacity = ByBlock::max_leaf_records(1024) as usize;
        let mut target = BlockEdit::<ByBlock>::new(Edit::new(&mut a, &mut dirty));
        target.append(&BtreeBlock::parse(&b).unwrap(), 0, moved);
        if moved <= right && left + moved <= capacity {
            BlockEdit::<ByBlock>::new(Edit::new(&mut b, &mut dirty)).drop_front(moved);
        }
        let all: Vec<u32> = (0..(left + right) as u32).collect();
        prop_assert_eq!([starts(&a), starts(&b)].concat(), all);
    }
}

#[test]
fn pointers_lie_behind_room_for_the_most_keys() {
    let (mut bytes, mut dirty) = (vec![0; 1024], DirtyMap::clean());
    let mut block = BlockEdit::<ByBlock>::new(Edit::new(&mut bytes, &mut dirty));
    block.format(1, PLACE);
    for (index, child) in [10, 30, 20].into_iter().enumerate() {
        block.insert_entry(index.min(1), &record(child), &U32::new(child + 1));
    }
    block.set_key(2, &record(31));
    block.remove(0);
    let view = block.view().unwrap();
    assert_eq!(view.keys(), [record(20), record(31)]);
    assert_eq!(view.pointers(), [U32::new(21), U32::new(31)]);
    let room = ByBlock::max_node_entries(1024) as usize;
    assert_eq!(bytes[56 + room * 8..][..4], 21u32.to_be_bytes());
}

#[test]
fn a_block_made_here_passes_the_verifier_once_sealed() {
    let geometry = golden::geometry();
    let sector = Sector::new(golden::FREE_SPACE_BY_BLOCK_LEAF.sector);
    let (mut bytes, mut dirty) = (vec![0; 1024], DirtyMap::clean());
    let mut block = BlockEdit::<ByBlock>::new(Edit::new(&mut bytes, &mut dirty));
    block.format(0, BlockIdentity { sector, uuid: geometry.metadata_uuid, owner: 0 });
    block.append_records(&[record(500), record(600)]);
    checksum::seal(&mut bytes, 52);
    let context = VerifyContext::new(&geometry, sector);
    verify::verify(Structure::FreeSpaceByBlock, &bytes, &context).unwrap();
}

/// Only records that changed, and those behind them, are looked at again; with another count, all of them.
#[test]
fn changes_of_a_verified_block_are_verified() {
    let geometry = golden::geometry();
    let sector = Sector::new(golden::FREE_SPACE_BY_BLOCK_LEAF.sector);
    let (mut bytes, mut dirty) = (vec![0; 1024], DirtyMap::clean());
    let mut block = BlockEdit::<ByBlock>::new(Edit::new(&mut bytes, &mut dirty));
    block.format(0, BlockIdentity { sector, uuid: geometry.metadata_uuid, owner: 0 });
    let records: Vec<_> = (0..60).map(|index| record(100 + 10 * index)).collect();
    block.append_records(&records);
    let verify = |bytes: &[u8], changes: &DirtyMap| {
        let context = VerifyContext::of_changes(&geometry, sector, changes);
        verify::verify(Structure::FreeSpaceByBlock, bytes, &context)
    };
    // The checksum is not set.
    verify(&bytes, &dirty).unwrap();
    let whole = VerifyContext::new(&geometry, sector);
    verify::verify(Structure::FreeSpaceByBlock, &bytes, &whole).unwrap_err();
    // Every record that may not follow the one before it, or be followed by the next one.
    for index in 1..records.len() - 1 {
        for wrong in [record(1), record(4000)] {
            let (mut bytes, mut changes) = (bytes.clone(), DirtyMap::clean());
            Edit::new(&mut bytes, &mut changes).put_value(56 + 8 * index, &wrong);
            verify(&bytes, &changes).unwrap_err();
            // What no change marks is not looked at, unless the count of records may be another.
            let elsewhere = if index < 30 { 1000 } else { 70 };
            let mut changes = DirtyMap::clean();
            changes.mark(elsewhere, 1);
            if elsewhere == 1000 {
                verify(&bytes, &changes).unwrap();
            } else {
                verify(&bytes, &changes).unwrap_err();
            }
        }
    }
}

#[test]
fn a_key_reaches_as_far_as_the_longest_record_not_the_last() {
    let mapping = |start, length_blocks| {
        ReverseMapRecord::from(Mapping {
            start: AgBlock::new(start),
            length_blocks,
            owner: Owner::Inode(InodeNumber::new(131)),
            file_block: FileBlock::new(5),
            is_attribute_fork: false,
            is_extent_map_block: false,
            is_unwritten: false,
        })
    };
    let (mut bytes, mut dirty) = (vec![0; 1024], DirtyMap::clean());
    let mut block = BlockEdit::<ReverseMap>::new(Edit::new(&mut bytes, &mut dirty));
    block.format(0, PLACE);
    block.append_records(&[mapping(100, 50), mapping(110, 1)]);
    let key = key_of_block(&block.view().unwrap()).unwrap();
    assert_eq!((key.low_start.get(), key.high_start.get(), key.high_offset.get()), (100, 149, 54));
    assert!(ReverseMap::reaches_only_to(&key, &ReverseMap::key_of_record(&mapping(100, 50))));
    assert!(!ReverseMap::reaches_only_to(&key, &ReverseMap::key_of_record(&mapping(110, 1))));
}

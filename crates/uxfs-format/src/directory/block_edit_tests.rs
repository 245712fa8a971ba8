use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    directory::{
        block::SingleBlock,
        data::DataBlock,
        edit_testing::{TestBlock, geometry, name},
        name_hash::hash,
    },
    fault::Structure,
    geometry::Geometry,
};

fn entry(name: &[u8], inode: u64) -> NewEntry<'_> {
    NewEntry { name, inode: InodeNumber::new(inode), file_type_code: 1 }
}

/// A block with "." and ".." only.
fn fresh(geometry: &Geometry) -> TestBlock {
    let mut block = TestBlock::new(geometry);
    let (identity, format) = (block.identity(), EntryFormat::of(geometry));
    let entries = [(64, entry(b".", 131)), (80, entry(b"..", 128))];
    let index = [(hash(b"."), DataPointer::new(8)), (hash(b".."), DataPointer::new(10))];
    BlockEdit::init(block.edit(), &identity, format, entries.into_iter(), &index);
    block
}

fn index_of(block: &TestBlock, geometry: &Geometry) -> Vec<IndexEntry> {
    let single = SingleBlock::parse(&block.bytes, geometry).unwrap();
    single.entries.iter().filter_map(|entry| Some((entry.hash.get(), entry.pointer()?))).collect()
}

/// Where the entry lies, and its index entry.
fn find(block: &TestBlock, geometry: &Geometry, name: &[u8]) -> Option<(usize, u32)> {
    let single = SingleBlock::parse(&block.bytes, geometry).unwrap();
    single.entries.iter().enumerate().find_map(|(index, found)| {
        let (_, offset) = found.pointer()?.split(geometry);
        (single.entry_at(offset).unwrap().name == name).then_some((index, offset))
    })
}

#[test]
fn a_full_block_becomes_data_and_a_block_again() {
    for log in [0, 2, 6] {
        let geometry = geometry(log);
        let format = EntryFormat::of(&geometry);
        let mut block = fresh(&geometry);
        let added = (0..).take_while(|number| {
            let name = name(*number);
            BlockEdit::new(block.edit(), format).insert(hash(&name), &entry(&name, 200)).is_some()
        });
        let added = added.count() as u32;
        assert!(added >= 10, "{added}");
        assert_eq!(block.verify(), Ok(Structure::DirectoryBlock));
        let mut index = index_of(&block, &geometry);
        BlockEdit::new(block.edit(), format).become_data();
        assert_eq!(block.verify(), Ok(Structure::DirectoryData));
        // Room at the end decides: without the last names the rest fits again.
        let last = DataBlock::parse(&block.bytes, &geometry).unwrap().records().count();
        assert!(last > 3);
        assert!(BlockEdit::from_data(block.edit(), format, &index), "what fitted fits");
        assert_eq!(block.verify(), Ok(Structure::DirectoryBlock));
        assert_eq!(index_of(&block, &geometry), index);
        BlockEdit::new(block.edit(), format).become_data();
        let mut data = DataEdit::new(block.edit(), format);
        while let Some(region) = data.room_for(16) {
            let offset = data.insert(region, &entry(b"f", 300));
            index.push((u32::MAX, DataPointer::of_byte(offset.into()).unwrap()));
        }
        let before = block.bytes.clone();
        assert!(!BlockEdit::from_data(block.edit(), format, &index));
        assert_eq!(block.bytes, before);
    }
}

fn change(log: u32, steps: Vec<(bool, u32)>) -> Result<(), TestCaseError> {
    let geometry = geometry(log);
    let format = EntryFormat::of(&geometry);
    let mut block = fresh(&geometry);
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::from([(b".".to_vec(), 131), (b"..".to_vec(), 128)]);
    let mut was_full = false;
    for (is_removal, number) in steps {
        let name = name(number % 400);
        let inode = 64 + u64::from(number % 1000);
        match (find(&block, &geometry, &name), is_removal) {
            (Some((index, offset)), true) => {
                BlockEdit::new(block.edit(), format).remove(index, offset).unwrap();
                model.remove(&name);
            }
            (Some((_, offset)), false) => {
                BlockEdit::new(block.edit(), format).replace(offset, InodeNumber::new(inode), 1).unwrap();
                model.insert(name, inode);
            }
            (None, _) => {
                match BlockEdit::new(block.edit(), format).insert(hash(&name), &entry(&name, inode)) {
                    Some(_) => drop(model.insert(name, inode)),
                    None => was_full = true,
                }
            }
        }
        prop_assert_eq!(block.verify(), Ok(Structure::DirectoryBlock));
        let single = SingleBlock::parse(&block.bytes, &geometry).unwrap();
        let entries = single.records().filter_map(|record| match record.unwrap() {
            super::data::DataRecord::Entry(entry) => Some((entry.name.to_vec(), entry.inode.get())),
            super::data::DataRecord::Free { .. } => None,
        });
        prop_assert_eq!(entries.collect::<BTreeMap<_, _>>(), model.clone());
        prop_assert_eq!(index_of(&block, &geometry).len(), model.len());
    }
    prop_assert!(was_full || log > 0 || model.len() < 60);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn changes_equal_the_model(steps in prop::collection::vec((prop::bool::weighted(0.5), any::<u32>()), 1..300)) {
        for log in [0, 2] {
            change(log, steps.clone())?;
        }
    }
}

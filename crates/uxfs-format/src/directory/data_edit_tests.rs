use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    directory::{
        data::DataBlock,
        edit_testing::{TestBlock, geometry, name},
    },
    fault::Structure,
};

fn entry(name: &[u8], inode: u64) -> NewEntry<'_> {
    NewEntry { name, inode: InodeNumber::new(inode), file_type_code: 1 }
}

#[test]
fn a_new_block_is_one_free_region() {
    for log in 0..=6 {
        let geometry = geometry(log);
        let mut block = TestBlock::new(&geometry);
        let (identity, format) = (block.identity(), EntryFormat::of(&geometry));
        let data = DataEdit::init(block.edit(), &identity, format);
        assert!(data.is_empty());
        assert_eq!(data.longest_bytes(), empty_block_bytes(geometry.directory_block_size_bytes));
        assert_eq!(block.verify(), Ok(Structure::DirectoryData));
    }
}

#[test]
fn an_insertion_marks_what_it_touches_only() {
    let geometry = geometry(6);
    let mut block = TestBlock::new(&geometry);
    let (identity, format) = (block.identity(), EntryFormat::of(&geometry));
    DataEdit::init(block.edit(), &identity, format);
    block.take_dirty();
    let mut data = DataEdit::new(block.edit(), format);
    let region = data.room_for(16).unwrap();
    assert_eq!(data.insert(region, &entry(b"a", 64)), 64);
    // Header, entry and the free region behind it; its tag at the end of the block.
    assert_eq!(block.take_dirty().ranges().collect::<Vec<_>>(), [(0, 128), (65408, 128)]);
}

fn change(log: u32, steps: Vec<(bool, u32)>) -> Result<(), TestCaseError> {
    let geometry = geometry(log);
    let mut block = TestBlock::new(&geometry);
    let (identity, format) = (block.identity(), EntryFormat::of(&geometry));
    DataEdit::init(block.edit(), &identity, format);
    let mut model: BTreeMap<u32, (Vec<u8>, u64)> = BTreeMap::new();
    for (is_removal, number) in steps {
        let mut data = DataEdit::new(block.edit(), format);
        let name = name(number);
        let inode = 64 + u64::from(number % 1000);
        let size = format.entry_size_bytes(name_length(&name));
        let chosen = model.keys().nth(number as usize % model.len().max(1)).copied();
        match (is_removal, chosen, data.room_for(size)) {
            (true, Some(offset), _) => {
                data.remove(offset).unwrap();
                model.remove(&offset);
            }
            (false, Some(offset), None) => {
                data.replace(offset, InodeNumber::new(inode), 2).unwrap();
                model.get_mut(&offset).unwrap().1 = inode;
            }
            (false, _, Some(region)) => {
                let offset = data.insert(region, &entry(&name, inode));
                prop_assert!(model.insert(offset, (name, inode)).is_none());
            }
            _ => continue,
        }
        prop_assert_eq!(data.is_empty(), model.is_empty());
        prop_assert_eq!(block.verify(), Ok(Structure::DirectoryData));
        let data = DataBlock::parse(&block.bytes, &geometry).unwrap();
        let entries = data.records().filter_map(|record| match record.unwrap() {
            DataRecord::Entry(entry) => Some((entry.offset_bytes, (entry.name.to_vec(), entry.inode.get()))),
            DataRecord::Free { .. } => None,
        });
        prop_assert_eq!(entries.collect::<BTreeMap<_, _>>(), model.clone());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn changes_equal_the_model(steps in prop::collection::vec((prop::bool::weighted(0.45), any::<u32>()), 1..300)) {
        for log in [0, 2, 6] {
            change(log, steps.clone())?;
        }
    }
}

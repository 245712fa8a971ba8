use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::directory::edit_testing::{geometry, name};

const LARGE: InodeNumber = InodeNumber::new(0x1_0000_0080);

fn entry(name: &[u8], inode: InodeNumber) -> NewEntry<'_> {
    NewEntry { name, inode, file_type_code: 1 }
}

/// The golden geometry, with groups enough for inode numbers of more than 32 bits.
fn wide(directory_block_log: u32) -> Geometry {
    let mut geometry = geometry(directory_block_log);
    geometry.ag_count = 1 << 20;
    geometry.data_blocks = u64::from(geometry.ag_blocks) << 20;
    geometry
}

#[test]
fn one_large_number_widens_all_and_its_loss_narrows_all() {
    let geometry = wide(2);
    let mut bytes = empty(InodeNumber::new(128));
    let mut edit = ShortformEdit::new(&mut bytes, &geometry);
    assert!(edit.insert(&entry(b"a", InodeNumber::new(64)), 300).unwrap());
    assert!(!edit.insert(&entry(b"b", LARGE), 33).unwrap(), "10 + 2 * 13 bytes");
    assert!(edit.insert(&entry(b"b", LARGE), 36).unwrap());
    assert!(edit.set_parent(LARGE, 36).unwrap());
    assert_eq!((edit.view().unwrap().large_count, bytes.len()), (2, 36));
    assert_eq!(Shortform::verify(&bytes, &geometry), Ok(()));
    let mut edit = ShortformEdit::new(&mut bytes, &geometry);
    edit.remove(1).unwrap();
    assert!(edit.set_parent(InodeNumber::new(128), 36).unwrap());
    assert_eq!(bytes, [1, 0, 0, 0, 0, 128, 1, 0, 0x60, b'a', 1, 0, 0, 0, 64]);
    assert!(!ShortformEdit::new(&mut bytes, &geometry).set_parent(LARGE, 22).unwrap());
    assert!(!ShortformEdit::new(&mut bytes, &geometry).replace(0, LARGE, 2, 22).unwrap());
    assert!(ShortformEdit::new(&mut bytes, &geometry).replace(0, LARGE, 2, 23).unwrap());
    assert_eq!(Shortform::verify(&bytes, &geometry), Ok(()));
    assert!(ShortformEdit::new(&mut bytes, &geometry).replace(0, InodeNumber::new(65), 2, 23).unwrap());
    assert_eq!(bytes, [1, 0, 0, 0, 0, 128, 1, 0, 0x60, b'a', 2, 0, 0, 0, 65]);
}

#[test]
fn a_directory_that_would_not_fit_its_block_takes_no_more() {
    let geometry = geometry(0);
    let mut bytes = empty(InodeNumber::new(128));
    let added = (0..).take_while(|number| {
        let name = format!("{number:03}");
        let mut edit = ShortformEdit::new(&mut bytes, &geometry);
        edit.insert(&entry(name.as_bytes(), InodeNumber::new(64)), u32::MAX).unwrap()
    });
    // 1024 bytes, 0x60 of them before the first entry; 16 for each and 8 for its index entry; 24 for the fixed ones.
    assert_eq!(added.count(), (1024 - 0x60 - 24) / 24);
    assert_eq!(Shortform::verify(&bytes, &geometry), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn changes_equal_the_model_and_places_stay(
        steps in prop::collection::vec((0_u8..10, any::<u32>(), prop::bool::weighted(0.1)), 1..200)
    ) {
        let geometry = wide(2);
        let mut bytes = empty(InodeNumber::new(128));
        let mut model: BTreeMap<Vec<u8>, (u64, Option<u16>)> = BTreeMap::new();
        for (kind, number, is_large) in steps {
            let name = name(number % 20);
            let inode = InodeNumber::new(u64::from(number % 512) + if is_large { LARGE.get() } else { 64 });
            let mut entries = Shortform::parse(&bytes, &geometry).unwrap().entries();
            let index = Iterator::position(&mut entries, |entry| entry.unwrap().name == name);
            let mut edit = ShortformEdit::new(&mut bytes, &geometry);
            match (kind, index) {
                (0..4, Some(index)) => {
                    edit.remove(index as u8).unwrap();
                    model.remove(&name);
                }
                (4..8, Some(index)) => if edit.replace(index as u8, inode, 1, 336).unwrap() {
                    model.get_mut(&name).unwrap().0 = inode.get();
                },
                (_, None) => if edit.insert(&entry(&name, inode), 336).unwrap() {
                    model.insert(name, (inode.get(), None));
                },
                _ => drop(edit.set_parent(inode, 336).unwrap()),
            }
            prop_assert!(bytes.len() <= 336);
            prop_assert_eq!(Shortform::verify(&bytes, &geometry), Ok(()));
            let view = Shortform::parse(&bytes, &geometry).unwrap();
            prop_assert_eq!(view.entries().count(), model.len());
            for entry in view.entries() {
                let entry = entry.unwrap();
                let (inode, place) = model.get_mut(entry.name).unwrap();
                prop_assert_eq!(entry.inode.get(), *inode);
                prop_assert_eq!(*place.get_or_insert(entry.data_offset), entry.data_offset);
            }
        }
    }
}

//! Directories in memory, beside a model.

use proptest::prelude::*;
use uxfs_format::{
    directory::{name_hash::hash, shortform_edit},
    features::{Incompatible, VersionBits},
    name_tree::node::NodeBlock,
};

use super::{
    testing::{PARENT, Target, Twin, file, geometry, name, same_hash, shuffled},
    *,
};
use crate::name_tree::testing::OWNER;

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
        assert!(twin.removed_at_hint > count / 4, "{} of {count}", twin.removed_at_hint);
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
            twin.edit().filler().fill(&new).unwrap();
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
            twin.edit().filler().fill(&new).unwrap();
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
    /// nor a wait for a block that the waiting thread holds.
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
            // Damage that the verifier refuses is not worth trying.
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

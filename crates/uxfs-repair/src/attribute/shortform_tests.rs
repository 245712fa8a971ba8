#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use uxfs_format::{features::Incompatible, superblock::Superblock};

use super::*;

fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../uxfs-format/testdata/superblock.bin");
    let mut geometry = Geometry::new(Superblock::parse(bytes).unwrap().0);
    geometry.features.incompatible |= Incompatible::PARENT_POINTERS;
    geometry
}

/// A fork with a parent pointer between two attributes, and room behind the list.
fn fork(geometry: &Geometry) -> Vec<u8> {
    let mut pointer = geometry.root_inode.get().to_be_bytes().to_vec();
    pointer.extend([1, 2, 3, 4]);
    let mut fork = vec![0, 0, 3, 0];
    let attributes: [(&[u8], &[u8], u8); 3] =
        [(b"of-a-node", b"fifo", 2), (b"name.txt", &pointer, 8), (b"mime_type", b"text/plain", 0)];
    for (name, value, flags) in attributes {
        fork.extend([name.len() as u8, value.len() as u8, flags]);
        fork.extend(name);
        fork.extend(value);
    }
    let total = fork.len() as u16;
    fork[..2].copy_from_slice(&total.to_be_bytes());
    fork.extend([0; 40]);
    fork
}

/// Heads of the three attributes.
const HEADS: [usize; 3] = [4, 20, 43];

fn attributes(fork: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let list = Shortform::parse(fork).unwrap();
    list.attributes()
        .map(|found| found.map(|found| (found.name.into(), found.value.into())).unwrap())
        .collect()
}

#[test]
fn any_wrong_length_count_or_size_is_corrected() {
    let geometry = geometry();
    let sound = fork(&geometry);
    let expected = attributes(&sound);
    let header = [1, 2].map(|place| (place, None));
    let lengths = HEADS
        .into_iter()
        .enumerate()
        .flat_map(|(index, head)| [(head, Some(index)), (head + 1, Some(index))]);
    for (place, owner) in header.into_iter().chain(lengths) {
        for value in (0..=u8::MAX).filter(|value| *value != sound[place]) {
            let mut damaged = sound.clone();
            damaged[place] = value;
            assert!(mend(&mut damaged, &geometry), "byte {place} as {value}");
            let found = attributes(&damaged);
            assert_eq!(found.len(), expected.len(), "byte {place} as {value}");
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Where the name of an attribute ends nothing else says, but of parent pointers.
                let is_joined = owner == Some(index) && index != 1;
                match is_joined {
                    true => assert_eq!([&*found.0, &found.1].concat(), [&*expected.0, &expected.1].concat()),
                    false => assert_eq!(found, expected, "byte {place} as {value}"),
                }
            }
        }
    }
}

#[test]
fn of_wrong_flags_those_are_taken_back_that_no_attribute_may_have() {
    let geometry = geometry();
    let sound = fork(&geometry);
    for head in HEADS {
        for bit in [0x01, 0x10, 0x40, 0x80] {
            let mut damaged = sound.clone();
            damaged[head + 2] |= bit;
            assert!(mend(&mut damaged, &geometry) && damaged == sound, "{bit} at {head}");
        }
    }
}

#[test]
fn what_no_single_field_explains_stays() {
    let geometry = geometry();
    let sound = fork(&geometry);
    assert!(!mend(&mut sound.clone(), &geometry), "a sound list is left alone");
    for fill in [0xff, 0x01] {
        let mut damaged = sound.clone();
        damaged[4..].fill(fill);
        let before = damaged.clone();
        assert!(!mend(&mut damaged, &geometry) && damaged == before);
    }
    for length in 0..4 {
        assert!(!mend(&mut sound[..length].to_vec(), &geometry));
    }
}

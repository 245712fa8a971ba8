#![allow(clippy::unwrap_used)]

use super::*;
use uxfs_testkit::seeds::Random;

#[test]
fn segments_say_what_bytes_would() {
    let mut random = Random::new(5);
    let size = 40_000_u64;
    let (mut contents, mut plain) = (Contents::default(), vec![0; size as usize]);
    for version in 1..400 {
        let start = random.below(size - 5000);
        let end = start + random.below(5000);
        let (from, to) = (start as usize, end as usize);
        match random.below(5) {
            0 => {
                contents.zero(start..end);
                plain[from..to].fill(0);
            }
            1 => {
                contents.collapse(&(start..end));
                plain.drain(from..to);
                plain.resize(size as usize, 0);
            }
            2 => {
                contents.insert(&(start..end));
                plain.splice(from..from, vec![0; to - from]);
                plain.truncate(size as usize);
                contents.zero(size..u64::MAX);
            }
            3 => {
                let target = random.below(size - 5000);
                let bytes = plain[from..to].to_vec();
                contents.copy(&contents.clone(), &(start..end), target);
                plain[target as usize..target as usize + bytes.len()].copy_from_slice(&bytes);
            }
            _ => {
                let origin = Origin { file: 3, version, offset: start };
                contents.write(start..end, origin);
                pattern(origin, &mut plain[from..to]);
            }
        }
        let mut found = vec![1; size as usize];
        contents.read(0, &mut found);
        assert!(found == plain, "after {version}");
        assert_eq!(first_foreign(&[&contents], &plain), None);
    }
}

#[test]
fn every_word_says_who_wrote_it() {
    let origin = Origin { file: 77, version: 1234, offset: 8 * 4321 };
    let mut bytes = [0; 8];
    pattern(origin, &mut bytes);
    assert_eq!(origin_of(bytes), Some(origin));
    assert!(describe(&bytes, 3).contains("of file 76 as operation 1233"));
    assert_eq!(origin_of([0xc5; 8]), None);
}

#[test]
fn old_new_and_zeros_are_not_foreign_and_all_else_is() {
    let (mut old, mut new) = (Contents::default(), Contents::default());
    old.write(0..8192, Origin { file: 1, version: 1, offset: 0 });
    new.copy(&old, &(0..8192), 0);
    new.write(4096..8192, Origin { file: 1, version: 2, offset: 4096 });
    let bytes = |contents: &Contents| {
        let mut bytes = vec![0; 8192];
        contents.read(0, &mut bytes);
        bytes
    };
    let (old_bytes, new_bytes) = (bytes(&old), bytes(&new));
    let versions = [&old, &new];
    let mut mixed = old_bytes.clone();
    mixed[5120..5632].copy_from_slice(&new_bytes[5120..5632]);
    mixed[6000..7000].fill(0);
    for good in [&old_bytes, &new_bytes, &mixed] {
        assert_eq!(first_foreign(&versions, good), None);
    }
    // Nothing has changed the first half: zeros are wrong there, and other files everywhere.
    mixed[100..200].fill(0);
    assert!(first_foreign(&versions, &mixed).is_some_and(|at| (100..108).contains(&at)));
    let mut foreign = old_bytes;
    pattern(Origin { file: 2, version: 1, offset: 4096 }, &mut foreign[4096..8192]);
    assert!(first_foreign(&versions, &foreign).is_some_and(|at| (4096..4104).contains(&at)));
}

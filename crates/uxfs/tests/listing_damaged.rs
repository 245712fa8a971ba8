//! Commands that list and search on damaged images: they end, name the damage, and go on.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/damaged.rs"]
mod damaged;

use std::time::Duration;

use common::text;
use damaged::{DamagedCopies, ended};
use uxfs_testkit::seeds::Seed;

/// Damaged copies of the image.
const COPIES: usize = 25;

#[test]
fn damage_is_told_and_ends_nothing() {
    let seed = Seed::from_environment("damage_is_told_and_ends_nothing", 20_261_150);
    let mut copies = DamagedCopies::new(seed.random());
    let mut damaged = 0;
    for _ in 0..COPIES {
        let copy = copies.damage();
        let copy = text(&copy);
        for words in [
            &["ls", "-lR", copy][..],
            &["ls", "-RtZF", "--color=always", copy],
            &["--json", "ls", "-lR", copy],
            &["ls", "-d", copy, "**/*1?.txt", "a/*/c/*"],
            &["grep", "-c", "needle", copy],
            &["grep", "-q", "thread", copy],
            &["ls", "-lR", "--tolerant", copy],
        ] {
            let (code, _, said) = ended(words, Duration::from_secs(5));
            let is_sound = code == 0 || words[0] == "grep" && code == 1;
            assert_eq!(is_sound, said.is_empty(), "{words:?}: {code} {said}");
            damaged += usize::from(code == 3);
        }
    }
    assert!(damaged > COPIES, "{damaged}");
}

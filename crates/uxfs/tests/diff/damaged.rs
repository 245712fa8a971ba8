//! Damaged images: the comparison ends, names the damage, and goes on.

use std::time::Duration;

use uxfs_testkit::{judges::Judge, require, seeds::Seed};

use super::{
    common::text,
    damage::{self, DamagedCopies, ended},
};

/// Damaged copies of the image.
const COPIES: usize = 30;

#[test]
fn damage_is_told_and_ends_nothing() {
    let seed = Seed::from_environment("damage_is_told_and_ends_nothing", 20_261_160);
    let mut copies = DamagedCopies::new(seed.random());
    let (mut damaged, mut compared) = (0, 0);
    for _ in 0..COPIES {
        let (copy, sound, source) = (copies.damage(), copies.sound(), copies.source());
        let (copy, sound, source) = (text(&copy), text(&sound), text(&source));
        for words in [
            &["diff", copy, sound][..],
            &["diff", sound, copy, "--all"],
            &["--json", "diff", copy, sound, "--also", "atime,ctime,btime"],
            &["diff", copy, copy],
            &["diff", "--tolerant", "--threads", "1", copy, sound],
            &["diff", copy, source],
        ] {
            let (code, output, said) = ended(words, Duration::from_secs(10));
            assert_eq!(code < 2, said.is_empty(), "{words:?}: {code} {said}");
            damaged += usize::from(code == 3);
            if words == ["diff", copy, copy] {
                assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
                compared += usize::from(code == 3);
            }
        }
    }
    assert!(damaged > COPIES && compared > COPIES / 2, "{damaged} {compared}");
}

#[test]
fn a_directory_that_holds_itself_is_gone_into_once() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsDb);
    let looped = damage::looped();
    for words in [
        &["diff", "IMAGE", "IMAGE"][..],
        &["diff", "IMAGE", "/none-such"],
        &["diff", "--all", "IMAGE", "IMAGE", "/outer"],
    ] {
        let output = looped.uxfs(words);
        let told = String::from_utf8(output.stderr).unwrap();
        match words.contains(&"/none-such") {
            true => assert_eq!(output.status.code(), Some(2), "{told}"),
            false => {
                assert_eq!(output.status.code(), Some(3), "{words:?}: {told}");
                assert!(told.contains("a second time"), "{told}");
            }
        }
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn damage_with_right_checksums_ends_nothing() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsDb);
    damage::survives(&["diff", "IMAGE", "IMAGE", "--also", "atime,ctime,btime"]);
    damage::survives(&["diff", "--threads", "1", "--all", "IMAGE", "IMAGE"]);
}

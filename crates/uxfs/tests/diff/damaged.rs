//! Damaged images: the comparison ends, says what is wrong, and goes on.

use std::{
    fs,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, judges::Judge, require, seeds::Seed};

use crate::{
    common::{succeeds, text, uxfs},
    damage,
};

/// Damaged copies of the image.
const COPIES: usize = 30;
/// Blocks that may be hit: all metadata of the small image lies there.
const BLOCKS: u64 = 400;

#[test]
fn damage_is_told_and_ends_nothing() {
    let seed = Seed::from_environment("damage_is_told_and_ends_nothing", 20_261_160);
    let mut random = seed.random();
    let folder = TempDir::with_prefix_in("uxfs-diff-", memory_folder()).unwrap();
    let (source, sound) = (folder.path().join("source"), folder.path().join("sound"));
    for directory in ["a", "a/b", "a/b/c", "d"] {
        let directory = source.join(directory);
        fs::create_dir_all(&directory).unwrap();
        for number in 0..150 {
            fs::write(directory.join(format!("file-{number}.txt")), format!("needle {number}\n")).unwrap();
        }
    }
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", text(&source), text(&sound)]);
    let copy = folder.path().join("copy");
    let (mut damaged, mut compared) = (0, 0);
    for _ in 0..COPIES {
        fs::copy(&sound, &copy).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&copy).unwrap();
        for _ in 0..40 {
            // The superblock stays.
            let place = 4096 + random.below((BLOCKS - 1) * 4096);
            let bytes = random.next_u64().to_le_bytes();
            file.write_all_at(&bytes[..1 + random.index(8)], place).unwrap();
        }
        let (copy, sound, source) = (text(&copy), text(&sound), text(&source));
        for arguments in [
            &["diff", copy, sound][..],
            &["diff", sound, copy, "--all"],
            &["--json", "diff", copy, sound, "--also", "atime,ctime,btime"],
            &["diff", copy, copy],
            &["diff", "--tolerant", "--threads", "1", copy, sound],
            &["diff", copy, source],
        ] {
            let began = Instant::now();
            let output = uxfs(arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(began.elapsed() < Duration::from_secs(10), "{arguments:?}");
            assert!(!said.contains("panicked"), "{arguments:?}: {said}");
            let code = output.status.code().unwrap();
            assert!(code <= 4, "{arguments:?}: {code} {said}");
            assert_eq!(code < 2, said.is_empty(), "{arguments:?}: {code} {said}");
            damaged += usize::from(code == 3);
            if arguments == ["diff", copy, copy] {
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

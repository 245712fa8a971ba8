//! Commands that list and search on damaged images: they end, name the damage, and go on.

use std::{fs, time::Duration};

use uxfs_testkit::{judges::Judge, require, seeds::Seed, xfs_db::XfsDb};

use crate::common::damaged::{DamagedCopies, ended};
use crate::common::{succeeds, text, uxfs};

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

/// Names that cannot be read are not taken for names that there are none of.
#[test]
fn a_list_of_users_that_cannot_be_read_is_told() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("image"));
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    fs::write(tree.join("etc/group"), "root:x:0:\n").unwrap();
    let image = text(&image);
    succeeds(&["mkfs", "--unsupported", "--size", "64M", "--from", text(&tree), image]);
    assert_eq!(succeeds(&["find", image, "-nouser"]), "");
    let numbers = succeeds(&["find", image, "/etc/passwd", "-printf", "%i"]);
    XfsDb::new(image)
        .write(&[format!("inode {numbers}"), "write -d u3.bmx[0].startblock 99999999".into()])
        .unwrap();
    for (words, code) in [
        (&["find", image, "-nouser"][..], 3),
        (&["find", image, "-user", "someone"], 2),
        (&["ls", "-l", image, "/"], 3),
        (&["find", image, "-ls"], 0),
        (&["chown", image, "someone", "/etc"], 1),
    ] {
        let output = uxfs(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains("/etc/passwd of the image cannot be read"), "{words:?}: {said}");
    }
}

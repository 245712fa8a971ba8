//! `uxfs copy`, also called as xfs_copy, beside xfs_copy.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    seeds::Seed,
    verdict::repair_is_silent,
};

use crate::common::random_tree::{Names, RandomTree, Shape};
use crate::common::{program, succeeds, text, uxfs};

fn folder() -> TempDir {
    TempDir::with_prefix_in("uxfs-copy-", memory_folder()).unwrap()
}

fn is_same(one: &Path, other: &Path) -> bool {
    Command::new("cmp").arg("-s").args([one, other]).status().unwrap().success()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

fn document(words: &str) -> serde_json::Value {
    serde_json::from_str(words.lines().next().unwrap()).unwrap()
}

#[test]
fn copies_are_those_of_xfs_copy_and_mount_beside_the_original() {
    require!(Judge::Mkfs, Judge::Kernel, Judge::XfsRepair, Judge::XfsCopy);
    let seed = Seed::from_environment("copies_are_those_of_xfs_copy", 20_261_170);
    let mut random = seed.random();
    let shapes: [&[&str]; 3] =
        [&[], &["-b", "size=1024", "-n", "size=4096"], &["-s", "size=4096", "-d", "agcount=7"]];
    for options in shapes {
        let shape = Shape { options, hole_bytes: 8 << 20, ..Shape::of(Names::Plain, 200) };
        // Files that are gone leave old bytes in free blocks.
        let tree = RandomTree::new(&mut random, &shape).changed(|mount, made| {
            for path in made.iter().step_by(5) {
                let _ = fs::remove_file(mount.join("tree").join(String::from_utf8(path.clone()).unwrap()));
            }
        });
        tree.mount.unmount().unwrap();
        let image = tree.folder.path().join("image");
        let at = |name: &str| tree.folder.path().join(name);
        let by_judge = Judge::XfsCopy.command().arg("-d").args([&image, &at("judge")]).output().unwrap();
        assert!(by_judge.status.success(), "{}", told(&by_judge));
        succeeds(&["copy", "--duplicate", text(&image), text(&at("duplicate"))]);
        assert!(is_same(&at("judge"), &at("duplicate")), "{options:?}");
        let [ours, theirs] = ["duplicate", "judge"].map(|name| fs::metadata(at(name)).unwrap());
        assert!(ours.blocks() <= theirs.blocks(), "{} {}", ours.blocks(), theirs.blocks());
        let words = succeeds(&["--json", "copy", text(&image), text(&at("one")), text(&at("two"))]);
        let uuids: Vec<_> = words.lines().map(|line| document(line)["uuid"].clone()).collect();
        assert!(uuids.len() == 2 && uuids[0] != uuids[1], "{words}");
        for (name, uuid) in ["one", "two"].iter().zip(&uuids) {
            repair_is_silent(&at(name)).unwrap();
            assert_eq!(document(&succeeds(&["--json", "info", text(&at(name))]))["uuid"], *uuid);
            assert_eq!(succeeds(&["diff", text(&image), text(&at(name)), "--also", "atime,ctime,btime"]), "");
        }
        // All at once, which takes three uuids; and each can be changed.
        let original = LoopMount::new(&image, Access::ReadOnly).unwrap();
        let copies = ["one", "two"].map(|name| LoopMount::new(&at(name), Access::ReadWrite).unwrap());
        for copy in copies {
            fs::write(copy.join("new"), vec![1; 1 << 20]).unwrap();
            copy.unmount().unwrap();
        }
        original.unmount().unwrap();
        repair_is_silent(&at("one")).unwrap();
        judged("xfs_copy", &format!("{options:?}: the same bytes"));
    }
}

#[test]
fn a_dirty_log_is_refused_or_copied_as_it_is() {
    require!(Judge::Kernel, Judge::XfsCopy);
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    GoldenImage::named("dirty-log").unwrap().unpack_to(&at("dirty")).unwrap();
    symlink(program(), at("xfs_copy")).unwrap();
    for (program, expected) in [(at("xfs_copy"), 1), (Judge::XfsCopy.path().unwrap(), 1)] {
        let output = Command::new(program).args([&at("dirty"), &at("refused")]).output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{}", told(&output));
        assert!(!at("refused").exists());
    }
    let output = uxfs(&["copy", text(&at("dirty")), text(&at("refused"))]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("uxfs replay"), "{}", told(&output));
    let output = Command::new(at("xfs_copy")).arg("-d").args([&at("dirty"), &at("copy")]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert!(is_same(&at("dirty"), &at("copy")));
    // The kernel replays it.
    LoopMount::new(&at("copy"), Access::ReadWrite).unwrap().unmount().unwrap();
    repair_is_silent(&at("copy")).unwrap();
}

#[test]
fn targets_that_cannot_be_meant_and_targets_that_fail() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", "src", text(&at("image"))]);
    let image = at("image");
    let image = text(&image);
    fs::write(at("full"), vec![7; 1 << 20]).unwrap();
    symlink(at("image"), at("link")).unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["full"], 1, "not empty"),
        (&["image"], 2, "itself would be overwritten"),
        (&["link", "-f"], 2, "itself would be overwritten"),
        (&["new", "new"], 2, "two outputs"),
        (&["none/new"], 1, "none/new"),
    ];
    for (words, code, message) in cases {
        let words: Vec<String> = words
            .iter()
            .map(|word| if word.starts_with('-') { (*word).to_owned() } else { text(&at(word)).to_owned() })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = uxfs(&[&["copy", image], &words[..]].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", told(&output));
        assert!(told(&output).contains(message), "{words:?}: {}", told(&output));
        assert!(!at("new").exists() && fs::metadata(at("full")).unwrap().len() == 1 << 20);
    }
    // One fails, the other is complete.
    let output = uxfs(&["copy", image, "/dev/full", text(&at("good"))]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(succeeds(&["diff", image, text(&at("good"))]), "");
    // What was in a file that is overwritten is gone.
    succeeds(&["copy", "-f", "-d", image, text(&at("full"))]);
    assert!(is_same(&at("full"), &at("image")));
    // A copy has holes; a file may have that name.
    let run = |target: &str| {
        let mut copy = Command::new(program());
        copy.args(["copy", image, target]).current_dir(folder.path()).output().unwrap()
    };
    let output = run("-");
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("standard output") && told(&output).contains("./-"), "{}", told(&output));
    assert!(output.stdout.is_empty() && !at("-").exists());
    assert!(run("./-").status.success() && at("-").exists());
    let output = uxfs(&["copy", "--tolerant", image, text(&at("new"))]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_block_device_is_written_and_must_be_large_enough() {
    require!(Judge::Kernel);
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", "src", text(&at("image"))]);
    for (name, size, code) in [("small", 100_u64 << 20, 1), ("large", 320 << 20, 0)] {
        fs::File::create(at(name)).unwrap().set_len(size).unwrap();
        let old = fs::OpenOptions::new().write(true).open(at(name)).unwrap();
        old.write_all_at(&vec![0xa5; 8 << 20], 0).unwrap();
        let output = Command::new("losetup").args(["-f", "--show"]).arg(at(name)).output().unwrap();
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let copy = |words: &[&str]| uxfs(&[&["copy", text(&at("image")), &device], words].concat());
        let refused = copy(&[]);
        let copied = copy(&["-f"]);
        let status = Command::new("losetup").args(["-d", &device]).status().unwrap();
        assert!(status.success());
        assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
        assert_eq!(copied.status.code(), Some(code), "{}", told(&copied));
        if code == 0 {
            repair_is_silent(&at(name)).unwrap();
            assert_eq!(succeeds(&["diff", text(&at("image")), text(&at(name))]), "");
        }
    }
}

#[test]
fn of_a_group_whose_free_space_is_damaged_all_is_copied() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    succeeds(&["mkfs", "-q", "--size", "300M", "--from", "src", text(&at("image"))]);
    let file = fs::OpenOptions::new().read(true).write(true).open(at("image")).unwrap();
    // The root of the btree by block is in block 1 of the group.
    file.write_all_at(&[0xff; 64], 4096 + 8).unwrap();
    // It is free, and nothing tells that any more.
    file.write_all_at(b"old", 40 << 20).unwrap();
    let output = uxfs(&["copy", "-d", text(&at("image")), text(&at("copy"))]);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(told(&output).contains("all of its blocks are copied"), "{}", told(&output));
    assert!(is_same(&at("image"), &at("copy")));
}

#[test]
fn as_xfs_copy() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    symlink(program(), at("xfs_copy")).unwrap();
    succeeds(&["mkfs", "-q", "--size", "300M", text(&at("image"))]);
    let call = |words: &[&str]| {
        Command::new(at("xfs_copy")).args(words).current_dir(folder.path()).output().unwrap()
    };
    assert!(told(&call(&["-V"])).starts_with("xfs_copy version "));
    fs::write(at("copy"), "it is overwritten").unwrap();
    let output = call(&["-b", "-L", "log", "image", "copy"]);
    assert!(output.status.success() && told(&output).is_empty(), "{}", told(&output));
    assert_eq!(fs::read_to_string(at("log")).unwrap(), "all copies are complete\n");
    for words in [&[][..], &["image"], &["none", "copy"], &["-q", "image", "copy"]] {
        assert_eq!(call(words).status.code(), Some(1), "{words:?}");
    }
}

//! `uxfs repair`, as people use it.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use uxfs_format::{
    checksum,
    features::Incompatible,
    field_table::OnDisk,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::Judge,
    require,
    sparse::{self, Contents},
    verdict::repair_is_silent,
    xfs_db::XfsDb,
};

use crate::common::{text, uxfs};

fn unpacked(name: &str, folder: &Path) -> PathBuf {
    let image = folder.join("image");
    GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
    image
}

fn overwrite(image: &Path, offset_bytes: u64, length: usize) {
    OpenOptions::new().write(true).open(image).unwrap().write_all_at(&vec![0; length], offset_bytes).unwrap();
}

fn documents(output: &Output) -> Vec<Json> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listing(image: &Path) -> String {
    let output = uxfs(&["ls", "-lR", text(image)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_sound_image_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let image = unpacked("default", folder.path());
    let before = Contents::read(&image).unwrap();
    let output = uxfs(&["repair", text(&image)]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), "nothing to repair\n".as_bytes()));
    assert!(before == Contents::read(&image).unwrap(), "it was changed");
}

#[test]
fn headers_of_all_groups_come_back() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let image = unpacked("default", folder.path());
    let expected = listing(&image);
    let group_bytes = {
        let document = documents(&uxfs(&["info", "--json", text(&image)])).remove(0);
        document["group_blocks"].as_u64().or(document["ag_blocks"].as_u64()).unwrap_or(16384) * 4096
    };
    // The first superblock, and the other headers of every group.
    overwrite(&image, 0, 512);
    for group in 0..4 {
        overwrite(&image, group * group_bytes + 512, 3 * 512);
    }
    let damaged = Contents::read(&image).unwrap();
    let plan = uxfs(&["repair", "--dry-run", "--json", text(&image)]);
    assert_eq!(plan.status.code(), Some(3));
    assert!(damaged == Contents::read(&image).unwrap(), "a dry run changed the image");
    let done = uxfs(&["repair", "--json", text(&image)]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stdout));
    let (plan, done) = (documents(&plan), documents(&done));
    let actions = |all: &[Json]| -> Vec<Json> {
        all.iter().filter(|document| document["type"] == "action").cloned().collect()
    };
    assert_eq!(actions(&plan), actions(&done));
    let summary = done.last().unwrap();
    assert_eq!((&summary["written"], &summary["left"]), (&true.into(), &0.into()));
    repair_is_silent(&image).unwrap();
    assert_eq!(listing(&image), expected);
    assert_eq!(uxfs(&["repair", text(&image)]).stdout, "nothing to repair\n".as_bytes());
    let whole = Contents::read(&image).unwrap();
    // And back.
    let undone = uxfs(&["undo", text(&image)]);
    assert_eq!(undone.status.code(), Some(0), "{}", String::from_utf8_lossy(&undone.stderr));
    assert!(Contents::read(&image).unwrap() == damaged, "undo did not restore it");
    // A repair of which only a part was written is finished from the file, to the same bytes.
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let bytes = whole.to_bytes();
    file.write_all_at(&marked(&bytes[..512]), 0).unwrap();
    file.write_all_at(&bytes[512..2048], 512).unwrap();
    let finished = uxfs(&["repair", text(&image)]);
    let words = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert!(words.contains("finished an earlier repair"), "{words}");
    assert!(Contents::read(&image).unwrap() == whole, "it came to something else");
}

/// A superblock as it is while a repair is being written: it comes first, and says that the file system needs one.
fn marked(superblock: &[u8]) -> Vec<u8> {
    let mut bytes = superblock.to_vec();
    let fields = Superblock::prefix_of_mut(&mut bytes).unwrap();
    fields.incompatible.set(fields.incompatible.get() | Incompatible::NEEDS_REPAIR.bits());
    assert!(checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES));
    bytes
}

/// An empty file at its path looks like the original: exit code, summary and rescue manifest report it as lost.
#[test]
fn a_file_of_which_only_the_name_is_left_is_told_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("lost"), "contents").unwrap();
    fs::write(source.join("kept"), "contents").unwrap();
    let arguments = ["mkfs", "-q", "--size", "300M", "-m", "rmapbt=0", "--from", text(&source), text(&image)];
    assert_eq!(uxfs(&arguments).status.code(), Some(0));
    let shown = uxfs(&["--json", "stat", text(&image), "/lost"]);
    let inode = documents(&shown)[0]["inode"].as_u64().unwrap();
    overwrite(&image, inode * 512, 512);

    let rescued = uxfs(&["--json", "rescue", text(&image), "--to", text(&folder.path().join("rescued"))]);
    assert_eq!(rescued.status.code(), Some(3));
    let is_lost = |line: &Json| line["path"] == "/lost" && line["state"] == "lost";
    assert!(documents(&rescued).iter().any(is_lost), "{}", String::from_utf8_lossy(&rescued.stdout));

    let repaired = uxfs(&["repair", "-q", text(&image)]);
    let words = String::from_utf8_lossy(&repaired.stdout);
    assert_eq!(repaired.status.code(), Some(3), "{words}");
    for told in ["but a file is lost", "/lost: empty, since nothing of its contents is known\n"] {
        assert!(words.contains(told), "{words}");
    }
    assert!(!words.contains("/kept"), "{words}");
    assert_eq!(uxfs(&["repair", text(&image)]).status.code(), Some(0), "there is nothing more to repair");
    if Judge::XfsRepair.is_present() {
        repair_is_silent(&image).unwrap();
    }
}

/// Without the root directory's inode and one more, `--repaired` shows the tree of the sound image, also without its
/// first superblock. The image stays as it is.
#[test]
fn reading_commands_show_what_a_repair_would_leave() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir().unwrap();
    let image = unpacked("default", folder.path());
    let sound = folder.path().join("sound");
    sparse::copy(&image, &sound).unwrap();
    let expected = listing(&sound);
    let lost = ["inode 128", "write -d core.magic 0", "write -d core.mode 0"];
    XfsDb::new(&image).write(&lost).unwrap();
    XfsDb::new(&image)
        .write(&["path /directories", "write -d core.magic 0", "write -d core.mode 0"])
        .unwrap();
    overwrite(&image, 0, 512);
    let damaged = Contents::read(&image).unwrap();
    for command in ["ls", "tree", "info", "freespace"] {
        let output = uxfs(&[command, "--repaired", text(&image)]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{command}: {words}");
        assert!(words.contains("nothing is written"), "{command}: {words}");
    }
    let shown = uxfs(&["ls", "-lR", "--repaired", text(&image)]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), expected);
    // Contents, owners, attributes: what Linux sees in the sound image, by the test of `extract`.
    let archive = |image: &Path, more: &[&str]| {
        let output = uxfs(&[&["extract", text(image), "--tar", "-"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert!(archive(&image, &["--repaired"]) == archive(&sound, &[]));
    assert!(Contents::read(&image).unwrap() == damaged, "the image was changed");
    // It is for reading, and says so.
    for command in ["check", "repair", "replay"] {
        let refused = uxfs(&[command, "--repaired", text(&image)]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
    }
    for other in ["--tolerant", "--ignore-log"] {
        assert_eq!(uxfs(&["ls", "--repaired", other, text(&image)]).status.code(), Some(2));
    }
    let sound = uxfs(&["ls", "--repaired", text(&sound)]);
    assert_eq!(sound.stderr, b"uxfs: --repaired: there is nothing to repair\n");
}

#[test]
fn what_cannot_be_repaired_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let output = uxfs(&["repair", text(&image)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not an XFS file system"));
    assert!(fs::read(&image).unwrap() == vec![0; 1 << 20]);
}

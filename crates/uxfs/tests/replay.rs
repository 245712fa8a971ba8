//! `uxfs replay` and reading commands on an image that was not unmounted cleanly.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use uxfs_testkit::{
    golden::GoldenImage,
    judges::{Judge, all_present},
    manifest::{Header, differences, report},
    sparse::Contents,
    verdict, walk,
    xfs_db::XfsDb,
};

use crate::common::program;

fn uxfs(words: &[&str], image: &Path) -> Output {
    let (command, options) = words.split_first().expect("a command");
    let mut uxfs = Command::new(program());
    uxfs.arg(command).arg(image).args(options).output().expect("uxfs runs")
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).expect("output is text")
}

#[test]
fn a_dirty_image_reads_as_it_will_be_and_is_replayed_when_asked() {
    let golden = GoldenImage::dirty_log();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    golden.unpack_to(&image).unwrap();
    let before = Contents::read(&image).unwrap();
    let raw = uxfs(&["ls", "-R", "--ignore-log"], &image);
    let listing = uxfs(&["ls", "-lR"], &image);
    let (expected, stale) = (text(&listing).to_owned(), String::from_utf8_lossy(&raw.stdout).into_owned());
    assert!(expected.lines().count() > stale.lines().count(), "{expected}\nraw:\n{stale}");

    let dry = uxfs(&["replay", "--dry-run"], &image);
    assert!(text(&dry).contains("would be replayed"), "{}", text(&dry));
    let list = uxfs(&["replay", "--list"], &image);
    assert!(text(&list).lines().any(|line| line.ends_with(": replayed")), "{}", text(&list));
    assert!(before == Contents::read(&image).unwrap(), "reading changed the image");

    let done = uxfs(&["replay", "--json"], &image);
    let done: serde_json::Value = serde_json::from_str(text(&done)).unwrap();
    assert_eq!((&done["state"], &done["changed"]), (&"dirty".into(), &true.into()));
    assert_eq!(text(&uxfs(&["ls", "-lR"], &image)), expected);
    let after = Contents::read(&image).unwrap();
    assert_eq!(text(&uxfs(&["replay"], &image)), "the log is clean: nothing to do\n");
    assert!(after == Contents::read(&image).unwrap(), "the second replay changed the image");

    let manifest = golden.manifest().unwrap();
    let header = Header { judge: "uxfs".into(), ..manifest.header.clone() };
    let found = walk::from_image(&image, header).unwrap();
    assert_eq!(report(&differences(&manifest, &found), 20), None);
    if all_present(&[Judge::XfsRepair], "a replayed image is sound") {
        verdict::repair_is_silent(&image).unwrap();
    }
}

/// What Linux's own recovery of the image makes of user 3 and group 2, as `xfs_db` prints it after a mount with quota.
#[test]
fn records_of_quota_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::dirty_log_with_quota().unpack_to(&image).unwrap();
    assert_eq!(text(&uxfs(&["ls", "-U"], &image)).lines().count(), 6);
    let list = uxfs(&["replay", "--list"], &image);
    assert!(text(&list).lines().any(|line| line.contains("DQUOT") && line.ends_with(": replayed")));
    text(&uxfs(&["check"], &image));
    text(&uxfs(&["replay"], &image));
    if !all_present(&[Judge::XfsRepair, Judge::XfsDb], "replayed records of quota are those of Linux") {
        return;
    }
    verdict::repair_is_silent(&image).unwrap();
    let database = XfsDb::new(&image);
    for (command, expected) in
        [("dquot -u 3", [512, 256, 0, 0, 0, 6]), ("dquot -g 2", [0, 0, 200, 100, 0, 9])]
    {
        let names = ["blk_hardlimit", "blk_softlimit", "ino_hardlimit", "ino_softlimit", "bcount", "icount"];
        let printed = database.print(&[command]).unwrap();
        let found = names.map(|name| {
            let field = printed.iter().find(|field| field.name == format!("diskdq.{name}"));
            field.unwrap_or_else(|| panic!("{name} in {printed:?}")).value.parse::<u64>().unwrap()
        });
        assert_eq!(found, expected, "{command}");
    }
}

#[test]
fn what_is_being_changed_is_not_changed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::dirty_log().unpack_to(&image).unwrap();
    let file = fs::File::open(&image).unwrap();
    file.lock().unwrap();
    let refused = uxfs(&["replay"], &image);
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(words.contains("another program is changing it"), "{words}");
    // Nor is it read, unless that is asked for.
    let refused = uxfs(&["ls"], &image);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--no-lock"));
    text(&uxfs(&["ls", "--no-lock"], &image));
}

#[test]
fn packed_images_are_read_but_not_replayed() {
    let golden = GoldenImage::dirty_log();
    text(&uxfs(&["ls"], golden.packed()));
    assert_eq!(uxfs(&["replay"], golden.packed()).status.code(), Some(1));
    text(&uxfs(&["replay", "--dry-run"], golden.packed()));
    assert_eq!(uxfs(&["replay", "--ignore-log"], golden.packed()).status.code(), Some(2));
}

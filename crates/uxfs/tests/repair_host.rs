//! `uxfs repair` where the host is the problem: no room, closed streams, links, devices; and the way back.

use std::{
    fs,
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value as Json;
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, loop_device::LoopDevice, require,
    sparse::Contents, verdict::repair_is_silent, xfs_db::XfsDb,
};

use crate::common;
use crate::common::{host, program, text, uxfs};

fn unpacked(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    GoldenImage::lean("groups-2").unwrap().unpack_to(&image).unwrap();
    image
}

/// Without the headers of the first group.
fn damaged(folder: &Path) -> PathBuf {
    let image = unpacked(folder);
    overwrite(&image, 512, 3 * 512);
    image
}

/// With its only damage in the headers of the last group.
fn far_damaged(folder: &Path) -> PathBuf {
    let image = folder.join("far");
    GoldenImage::lean("groups-2").unwrap().unpack_to(&image).unwrap();
    overwrite(&image, fs::metadata(&image).unwrap().len() / 2 + 512, 512);
    image
}

fn overwrite(image: &Path, offset_bytes: u64, length: usize) {
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    file.write_all_at(&vec![0x5a; length], offset_bytes).unwrap();
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn shell(script: &str, image: &Path) -> Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, program(), text(image)]);
    command.output().unwrap()
}

/// Each of these is repaired, once, and taken back to the last byte.
#[test]
fn a_repair_is_taken_back_byte_for_byte() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let damages: [&[&str]; 5] = [
        &["agf 1", "write -d magicnum 0"],
        &["path /", "write -d core.magic 0", "write -d core.mode 0"],
        &["path /directories", "write -d core.nlinkv2 77"],
        &["sb 0", "write -d fdblocks 1", "agi 0", "write -d count 3"],
        &["agf 0", "addr rmaproot", "write -d magic 0"],
    ];
    for damage in damages {
        let image = unpacked(folder.path());
        XfsDb::new(&image).write(damage).unwrap();
        let before = Contents::read(&image).unwrap();
        let done = uxfs(&["repair", text(&image)]);
        assert_eq!(done.status.code(), Some(0), "{damage:?}: {}", words(&done));
        assert!(words(&done).contains("to take it back: uxfs undo "), "{damage:?}: {}", words(&done));
        repair_is_silent(&image).unwrap();
        let repaired = Contents::read(&image).unwrap();
        assert_eq!(uxfs(&["repair", text(&image)]).stdout, b"nothing to repair\n");
        assert!(
            repaired == Contents::read(&image).unwrap(),
            "{damage:?}: the second repair changed something"
        );
        let undone = uxfs(&["undo", "--remove", text(&image)]);
        assert_eq!(undone.status.code(), Some(0), "{}", words(&undone));
        assert!(before == Contents::read(&image).unwrap(), "{damage:?}: undo did not restore it");
    }
}

#[test]
fn without_room_for_the_undo_file_nothing_is_written() {
    require!(Judge::Kernel);
    let folder = tempfile::tempdir().unwrap();
    let image = damaged(folder.path());
    let before = Contents::read(&image).unwrap();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    host("mount", &["-t", "tmpfs", "-o", "size=8k", "tmpfs", text(&small)]);
    let undo = small.join("undo");
    let full = uxfs(&["repair", "--undo", text(&undo), text(&image)]);
    let left = fs::read_dir(&small).unwrap().count();
    host("umount", &[text(&small)]);
    assert_eq!((full.status.code(), left), (Some(1), 0), "{}", words(&full));
    for expected in ["there is room for 8192", "nothing was written", "--undo FILE", "--no-undo"] {
        assert!(words(&full).contains(expected), "{}", words(&full));
    }
    // A limit of the process, which would kill it while it writes.
    let limited = shell("ulimit -f 8; exec \"$0\" repair \"$1\"", &image);
    assert_eq!(limited.status.code(), Some(1), "{}", words(&limited));
    let told = words(&limited);
    assert!(told.contains("(ulimit -f), and writes here up to byte ") || told.contains("room for"), "{told}");
    let limited = shell("ulimit -f 100; exec \"$0\" repair --no-undo \"$1\"", &far_damaged(folder.path()));
    assert_eq!(limited.status.code(), Some(1), "{}", words(&limited));
    assert!(words(&limited).contains("nothing was changed; raise the limit"), "{}", words(&limited));
    assert!(before == Contents::read(&image).unwrap(), "it was changed");
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("undo")), "{names:?}");
}

#[test]
fn closed_and_full_streams_do_not_stop_a_repair() {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    for (streams, code) in [("2>&-", 0), (">&-", 0), (">&- 2>&- <&-", 0), (">/dev/full", 1), ("| true", 0)] {
        let image = damaged(folder.path());
        let before = Contents::read(&image).unwrap();
        let output = shell(&format!("\"$0\" repair \"$1\" {streams}"), &image);
        assert_eq!(output.status.code(), Some(code), "{streams}: {}", words(&output));
        assert_eq!(uxfs(&["repair", text(&image)]).stdout, b"nothing to repair\n", "{streams}");
        if streams == ">/dev/full" {
            for expected in [": repaired, ", "to take it back: uxfs undo ", "No space left on device"] {
                assert!(words(&output).contains(expected), "{}", words(&output));
            }
            let output = shell("\"$0\" undo \"$1\" >/dev/full", &image);
            assert_eq!(output.status.code(), Some(1), "{}", words(&output));
            assert!(
                words(&output).starts_with("uxfs: ") && words(&output).contains(": restored: "),
                "{}",
                words(&output)
            );
            assert!(before == Contents::read(&image).unwrap(), "undo did not restore it");
        }
        fs::remove_file(folder.path().join("image.uxfs-undo")).unwrap();
    }
}

/// The exit code tells whether damage remains, or would be repaired, also where the text cannot be printed. Where the reader of the text is
/// gone, standard error tells of a change.
#[test]
fn the_exit_code_tells_the_state_without_output() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    for streams in [">/dev/full", ">&-", "| true"] {
        let script = format!("{{ \"$0\" repair --dry-run \"$1\"; echo \"code $?\" >&2; }} {streams}");
        let output = shell(&script, &damaged(folder.path()));
        assert!(words(&output).contains("code 3\n"), "{streams}: {}", words(&output));
        let is_full = streams == ">/dev/full";
        let count = words(&output).matches("/image: ").count();
        assert!(!is_full || count == 1, "{}", words(&output));
        assert_eq!(
            words(&output).contains("; nothing was written (cannot write output: "),
            is_full,
            "{}",
            words(&output)
        );
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let image = damaged(folder.path());
    let mut command = Command::new(program());
    let output = command.args(["repair", text(&image)]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(words(&output).contains("to take it back: uxfs undo "), "{}", words(&output));
    let output = shell("\"$0\" repair --json \"$1\" > /dev/full", &damaged(folder.path()));
    let told: Json = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(told["error"]["exit_code"], 1);
    assert!(told["error"]["message"].as_str().unwrap().contains(": repaired, "), "{told}");
}

/// A plan for programs: which object, by which rule, how sure, what else.
#[test]
fn the_plan_says_what_is_a_guess_and_what_else_may_be_true() {
    require!(Judge::XfsDb);
    let folder = tempfile::tempdir().unwrap();
    let image = unpacked(folder.path());
    XfsDb::new(&image).write(&["path /directories", "write -d core.nlinkv2 77"]).unwrap();
    let plan = uxfs(&["repair", "--dry-run", "--json", text(&image)]);
    assert_eq!(plan.status.code(), Some(3), "{}", words(&plan));
    let lines = std::str::from_utf8(&plan.stdout).unwrap().lines();
    let documents: Vec<Json> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let action = documents.iter().find(|document| document["what"] == "link_count").unwrap();
    assert_eq!(action["kind"], "inode");
    assert_eq!((&action["rule"], &action["certainty"]), (&71.into(), &"guess".into()));
    assert_eq!(action["fields"]["found"], 77);
    assert_eq!(action["paths"][0]["path"], "/directories");
    assert!(action["alternative"].as_str().unwrap().contains("more names that are lost"));
    let summary = documents.last().unwrap();
    assert_eq!((&summary["type"], &summary["guesses"]), (&"summary".into(), &1.into()));
    let spoken = words(&uxfs(&["repair", "-n", text(&image)]));
    for expected in
        ["    a guess; otherwise the count is right", " is /directories\n", "  guessed: 1 inode\n"]
    {
        assert!(spoken.contains(expected), "{spoken}");
    }
    let quiet = words(&uxfs(&["repair", "-nq", text(&image)]));
    assert!(!quiet.contains("set the link count") && quiet.contains("guessed: 1 inode"), "{quiet}");
}

/// One entry says another inode than the parent pointer of the first: both readings are told.
#[test]
fn two_inodes_for_one_name_are_both_told() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    common::succeeds(&["mkfs", "--unsupported", "--size", "64M", text(&image)]);
    common::succeeds(&["shell", text(&image), "-c", "mkdir /folder; touch /folder/first /folder/second"]);
    let number = |path: &str| -> u64 {
        let stat: Json =
            serde_json::from_str(&common::succeeds(&["stat", "--json", text(&image), path])).unwrap();
        stat["inode"].as_u64().unwrap()
    };
    let (folder_inode, second) = (number("/folder"), number("/folder/second"));
    let entry = format!("write -d u3.sfdir3.list[0].inumber.i4 {second}");
    XfsDb::new(&image).write(&[format!("inode {folder_inode}").as_str(), &entry]).unwrap();
    let done = uxfs(&["repair", "--json", text(&image)]);
    assert_eq!(done.status.code(), Some(0), "{}", words(&done));
    repair_is_silent(&image).unwrap();
    let lines = std::str::from_utf8(&done.stdout).unwrap().lines();
    let documents: Vec<Json> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let removed = documents.iter().find(|document| document["what"] == "name_removed").unwrap();
    assert_eq!((&removed["rule"], &removed["certainty"]), (&61.into(), &"guess".into()), "{removed}");
    let fields = &removed["fields"];
    assert_eq!((&fields["name"], &fields["inode"]), (&"first".into(), &second.into()), "{removed}");
    assert_eq!((&fields["kept_by"], &fields["rejected_by"]), (&"parent_pointer".into(), &"entry".into()));
    let other = removed["alternative"].as_str().unwrap();
    assert!(other.contains(&format!("that of inode {second}, as an entry says")), "{other}");
    assert_eq!(common::succeeds(&["ls", text(&image), "/folder"]), "first\nsecond\n");
}

#[test]
fn links_devices_and_read_only_images() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let image = damaged(folder.path());
    // Through a symbolic link: the undo file lies beside the link.
    let link = folder.path().join("link");
    symlink(&image, &link).unwrap();
    let linked = uxfs(&["repair", text(&link)]);
    assert_eq!(linked.status.code(), Some(0), "{}", words(&linked));
    assert!(folder.path().join("link.uxfs-undo").exists());
    assert_eq!(uxfs(&["undo", text(&link)]).status.code(), Some(0));
    // Standard input is no image.
    let dash = Command::new(program())
        .args(["repair", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(dash.status.code(), Some(1), "{}", words(&dash));
    assert!(words(&dash).starts_with("uxfs: -: "), "{}", words(&dash));
    // A read-only mount of the host.
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    host("mount", &["--bind", text(folder.path()), text(&mounted)]);
    host("mount", &["-o", "remount,ro,bind", text(&mounted)]);
    let there = mounted.join("image");
    let (read_only, plan) = (uxfs(&["repair", text(&there)]), uxfs(&["repair", "-n", text(&there)]));
    host("umount", &[text(&mounted)]);
    assert_eq!(read_only.status.code(), Some(1), "{}", words(&read_only));
    assert!(words(&read_only).to_lowercase().contains("read-only"), "{}", words(&read_only));
    assert_eq!(plan.status.code(), Some(3), "{}", words(&plan));
    // A block device needs a path for its undo file, and says so.
    let device = LoopDevice::attach(&image, &[]).unwrap();
    let undo = folder.path().join("device.undo");
    let refused = uxfs(&["repair", text(device.path())]);
    let done = uxfs(&["repair", "--undo", text(&undo), text(device.path())]);
    drop(device);
    assert_eq!(refused.status.code(), Some(1), "{}", words(&refused));
    assert!(words(&refused).contains("--undo"), "{}", words(&refused));
    assert_eq!(done.status.code(), Some(0), "{}", words(&done));
    repair_is_silent(&image).unwrap();
}

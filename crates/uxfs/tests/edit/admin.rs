//! `uxfs admin`: what it writes is what xfs_db and the kernel read, on images with clean and with dirty logs.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use uxfs_filesystem::identity::{self, IdentityChange, UuidChange};
use uxfs_lab::crash::{image::Image, recording::RecordingDevice};
use uxfs_mkfs::options::parse_uuid;
use uxfs_testkit::{
    image,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require, verdict,
};

use crate::common::{succeeds, text, uxfs};

const UUID: &str = "12345678-9abc-4def-8123-456789abcdef";
const ORIGINAL: &str = "5a0d9f0e-0b6c-4a36-8d2f-0f8f4a8a1a11";

/// What xfs_db prints.
fn ask(path: &Path, commands: &[&str]) -> String {
    let mut db = Judge::XfsDb.command();
    db.args(["-f", "-r"]).args(commands.iter().flat_map(|command| ["-c", command])).arg(path);
    String::from_utf8(db.output().unwrap().stdout).unwrap()
}

/// Everybody finds this label and this uuid, and nothing wrong, and the kernel can change the file system.
fn agree(path: &Path, label: &str, uuid: &str) {
    let shown = succeeds(&["admin", text(path)]);
    assert_eq!(shown, format!("label = \"{label}\"\nUUID = {uuid}\n"));
    assert_eq!(ask(path, &["label", "uuid"]), shown);
    for group in 0..4 {
        let secondary = ask(path, &[&format!("sb {group}"), "p uuid fname"]);
        assert_eq!(
            secondary,
            format!("uuid = {uuid}\nfname = \"{label}{}\"\n", "\\000".repeat(12 - label.len())),
            "group {group}"
        );
    }
    verdict::repair_is_silent(path).unwrap();
    succeeds(&["shell", text(path), "-c", "mkdir ours; rmdir ours"]);
    verdict::repair_is_silent(path).unwrap();
    let mount = LoopMount::new(path, Access::ReadWrite).unwrap();
    fs::write(mount.join("theirs"), "x").unwrap();
    mount.unmount().unwrap();
    verdict::repair_is_silent(path).unwrap();
    assert_eq!(succeeds(&["cat", text(path), "/theirs"]), "x");
    judged("xfs_db, xfs_repair and the kernel", &format!("{label:?} {uuid}"));
}

#[test]
fn label_and_uuid_of_clean_images() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb, Judge::Kernel);
    for shape in [&[][..], &["-b", "size=1024"], &["-s", "size=4096"], &["-l", "su=64k"]] {
        let folder = TempDir::with_prefix_in("uxfs-admin-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 128 << 20, shape).unwrap();
        let name = text(&path);
        succeeds(&["admin", "--label", "twelve bytes", name]);
        agree(&path, "twelve bytes", ORIGINAL);
        succeeds(&["admin", "--uuid", UUID, "--label", "b", name]);
        agree(&path, "b", UUID);
        let features = ask(&path, &["version"]);
        assert!(features.contains("META_UUID"), "{features}");
        assert!(ask(&path, &["sb 0", "p meta_uuid"]).contains(ORIGINAL));
        succeeds(&["admin", "--uuid", "random", "--clear-label", name]);
        let shown = succeeds(&["admin", name]);
        let uuid = shown.lines().last().unwrap().trim_start_matches("UUID = ").to_owned();
        assert_ne!(uuid, UUID);
        agree(&path, "", &uuid);
        succeeds(&["admin", "--uuid", "restore", name]);
        agree(&path, "", ORIGINAL);
        assert!(!ask(&path, &["version"]).contains("META_UUID"));
        // What xfs_admin writes can be changed again.
        let mut db = Judge::XfsDb.command();
        assert!(
            db.args(["-f", "-x", "-c", &format!("uuid {UUID}")])
                .arg(&path)
                .output()
                .unwrap()
                .status
                .success()
        );
        agree(&path, "", UUID);
    }
}

#[test]
fn the_log_of_a_killed_kernel_is_replayed_first() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb, Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-admin-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    image::make(&path, 128 << 20, &[]).unwrap();
    let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
    fs::create_dir(mount.join("made-before")).unwrap();
    let stopped = Command::new("xfs_io").args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status();
    assert!(stopped.unwrap().success());
    mount.unmount().unwrap();
    succeeds(&["admin", "--label", "again", "--uuid", UUID, text(&path)]);
    agree(&path, "again", UUID);
    assert!(succeeds(&["ls", text(&path)]).contains("made-before"));
}

#[test]
fn what_cannot_be_a_label_or_uuid() {
    let folder = TempDir::with_prefix_in("uxfs-admin-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    succeeds(&["mkfs", "-q", "--size", "300M", text(&path)]);
    for (arguments, words) in [
        (["--label", "thirteen byte"], "at most 12 bytes"),
        (["--uuid", "nil"], "does not mount"),
        (["--uuid", "00000000-0000-0000-0000-000000000000"], "uuid"),
        (["--uuid", "1234"], "uuid"),
    ] {
        let output = uxfs(&["admin", arguments[0], arguments[1], text(&path)]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn a_crash_while_the_uuid_changes_leaves_what_linux_mounts() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb, Judge::Kernel);
    let folder = TempDir::with_prefix_in("uxfs-admin-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    image::make(&path, 128 << 20, &[]).unwrap();
    succeeds(&["mkdir", text(&path), "/made-before"]);
    let device = RecordingDevice::new(Image::load(&path).unwrap());
    let uuid = Some(UuidChange::To(parse_uuid(UUID).unwrap()));
    let change = IdentityChange { uuid, ..IdentityChange::default() };
    identity::change(&device, &change).unwrap();
    let history = device.history();
    let mut state = history.base.clone();
    let mut states = 0;
    for event in &history.events {
        if !event.is_change() {
            continue;
        }
        state.save(&path).unwrap();
        check_identity_state(&state, &path, &format!("state {states}"));
        let mount = LoopMount::new(&path, Access::ReadOnly).unwrap();
        assert!(mount.join("made-before").is_dir());
        mount.unmount().unwrap();
        assert_eq!(succeeds(&["ls", text(&path)]), "made-before\n");
        succeeds(&["admin", "--uuid", UUID, text(&path)]);
        agree(&path, "", UUID);
        event.apply(&mut state);
        states += 1;
    }
    // Twice the log, and four superblocks.
    assert_eq!((states, history.flushes()), (6, 4));
    judged("kernel", &format!("{states} crash states of a change of uuid"));
}

/// A crash state of a change of uuid: `xfs_repair` finds nothing but superblocks that are behind, and the next change of any kind
/// brings them up to the first.
fn check_identity_state(state: &Image, path: &Path, name: &str) {
    let findings = verdict::repair_findings(path).unwrap();
    let is_behind = |line: &&String| line.starts_with("would fix incompat feature mismatch in AG ");
    let others: Vec<&String> = findings.iter().filter(|line| !is_behind(line)).collect();
    assert!(others.is_empty(), "{name}: {others:?}");
    let identity =
        |group: u32| ask(path, &[&format!("sb {group}"), "p uuid meta_uuid fname features_incompat"]);
    let first = identity(0);
    succeeds(&["mkdir", text(path), "/made-later"]);
    verdict::repair_is_silent(path).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    for group in 0..4 {
        assert_eq!(identity(group), first, "{name}, group {group}");
    }
    judged("xfs_repair", &format!("{name}: finished by the next change"));
    state.save(path).unwrap();
}

#[test]
fn superblocks_that_a_lost_write_left_behind_are_brought_up_to_the_first() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsDb);
    let folder = TempDir::with_prefix_in("uxfs-admin-", image::memory_folder()).unwrap();
    let path = folder.path().join("image");
    image::make(&path, 128 << 20, &[]).unwrap();
    succeeds(&["mkdir", text(&path), "/made-before"]);
    let there = UuidChange::To(parse_uuid(UUID).unwrap());
    for (uuid, label) in [(Some(there), None), (Some(UuidChange::Restore), None), (None, Some(&b"label"[..]))]
    {
        let device = RecordingDevice::new(Image::load(&path).unwrap());
        identity::change(&device, &IdentityChange { uuid, label }).unwrap();
        let history = device.history();
        let changes: Vec<_> = history.events.iter().filter(|event| event.is_change()).collect();
        // The last three are the superblocks of the other groups: between two flushes, so any of them may be lost.
        for lost in 0..8_usize {
            let mut state = history.base.clone();
            for (index, event) in changes.iter().enumerate() {
                let of_others = (index + 3).checked_sub(changes.len());
                if of_others.is_none_or(|bit| lost >> bit & 1 == 0) {
                    event.apply(&mut state);
                }
            }
            state.save(&path).unwrap();
            check_identity_state(&state, &path, &format!("{uuid:?} {label:?} without {lost:03b}"));
        }
        device.image().save(&path).unwrap();
    }
}

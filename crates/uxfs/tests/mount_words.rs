//! What `uxfs mount`, `uxfs umount` and `uxfs stats` say where the command was not meant so, and options that have two names.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::{Command, Output},
};

use serde_json::Value;
use uxfs_testkit::{judges::Judge, require};

use crate::common::mount_place::{Place, processes, succeeded};
use crate::common::{program, succeeds, text, uxfs};

/// What a command says that fails with this code.
#[track_caller]
fn refusal(output: &Output, code: i32) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}");
    words
}

#[track_caller]
fn is_refused(output: &Output, parts: &[&str]) {
    let words = refusal(output, 1);
    for part in parts {
        assert!(words.contains(part), "`{part}` in: {words}");
    }
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[test]
fn an_image_in_use_names_its_mount_also_in_json() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let directory = text(&place.directory);
    is_refused(&place.mount(&[]), &["another program is changing it", directory, "uxfs umount"]);
    for how in [&["--json"][..], &["--json", "-f"]] {
        let words = refusal(&place.mount(how), 1);
        let document: Value = serde_json::from_str(&words).unwrap();
        assert_eq!(document["error"]["exit_code"], 1);
        assert!(document["error"]["message"].as_str().unwrap().contains(directory), "{words}");
    }
    for command in [["ls", text(&place.image), "/"], ["mkdir", text(&place.image), "/a"]] {
        is_refused(&uxfs(&command), &["another program is changing it", directory]);
    }
    is_refused(&uxfs(&["repair", text(&place.image)]), &["another program is changing it", directory]);
    // The image stands for its mount.
    succeeds(&["umount", text(&place.image)]);
    is_refused(&uxfs(&["umount", text(&place.image)]), &["nothing is mounted here"]);
    assert_eq!(processes(&place.image), [""; 0]);
}

#[test]
fn what_cannot_be_unmounted_is_told_with_the_reason() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    is_refused(&uxfs(&["umount", "/proc"]), &["proc is mounted here", "not by uxfs"]);
    succeeded(&place.mount(&[]));
    let inside = place.directory.join("inside");
    fs::create_dir(&inside).unwrap();
    is_refused(&uxfs(&["umount", text(&inside)]), &["lies in what is mounted on", text(&place.directory)]);
    succeeded(&Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&inside).output().unwrap());
    let output = uxfs(&["umount", text(&place.directory)]);
    succeeded(&Command::new("umount").arg(&inside).output().unwrap());
    is_refused(&output, &[text(&inside), "must be unmounted first"]);
    let used = File::open(&inside).unwrap();
    let user = format!("(process {})", std::process::id());
    is_refused(&uxfs(&["umount", text(&place.directory)]), &["busy", &user]);
    drop(used);
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let by_other = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program(), "umount"])
        .arg(&place.directory)
        .output();
    is_refused(&by_other.unwrap(), &["the user with the number 0 has mounted it"]);
    place.unmount();
}

/// A server that is stopped keeps the image: that is told soon.
#[test]
fn a_stopped_server_is_told_after_force() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.file(), "contents").unwrap();
    File::open(place.file()).unwrap().sync_all().unwrap();
    let processes_before = processes(&place.image);
    let signal = |name: &str| {
        succeeded(&Command::new("kill").arg(name).args(&processes_before).output().unwrap());
    };
    signal("-STOP");
    is_refused(
        &uxfs(&["umount", "--force", text(&place.directory)]),
        &["still has", text(&place.image), "kill -9"],
    );
    signal("-KILL");
    assert_eq!(succeeds(&["cat", text(&place.image), "/file"]), "contents");
}

#[test]
fn files_of_another_form_and_places_that_are_not_there_are_told() {
    let place = Place::new();
    is_refused(&place.mount(&["-o", "offset=1T"]), &["the image ends before byte 1099511627776"]);
    is_refused(&place.mount(&["--partition", "3"]), &["no partition table"]);
    refusal(&place.mount(&["--partition", "3", "--offset", "1M"]), 2);
    let packed = |beginning: &[u8]| fs::write(&place.image, [beginning, &[7; 65536]].concat()).unwrap();
    for (beginning, form, remedy) in [
        (&[0x28, 0xb5, 0x2f, 0xfd][..], "compressed with zstd", "zstd -d"),
        (b"\x1f\x8b\x08\0", "compressed with gzip", "gzip -d"),
        (b"QFI\xfb\0\0\0\x03", "a qcow2 disk", "qemu-img convert"),
    ] {
        packed(beginning);
        is_refused(&place.mount(&[]), &[form, remedy]);
        is_refused(&place.mount(&["-o", "ro"]), &[form, remedy]);
    }
}

#[test]
fn options_of_commands_are_those_of_a_list() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&["-r", "-o", "uid=daemon,gid=root,inode64,logbufs=8"]));
    assert!(fs::write(place.file(), "").is_err());
    let root = fs::metadata(&place.directory).unwrap();
    let daemon = fs::read_to_string("/etc/passwd").unwrap();
    let daemon = daemon.lines().find(|line| line.starts_with("daemon:")).unwrap().split(':').nth(2).unwrap();
    assert_eq!((root.uid().to_string().as_str(), root.gid()), (daemon, 0));
    place.unmount();
    // The same file system behind a mebibyte of something else.
    let bytes = [vec![7; 1 << 20], fs::read(&place.image).unwrap()].concat();
    fs::write(&place.image, bytes).unwrap();
    succeeded(&place.mount(&["--offset", "1M"]));
    fs::write(place.file(), "contents").unwrap();
    succeeds(&["umount", text(&place.directory)]);
    assert_eq!(succeeds(&["cat", "--offset", "1M", text(&place.image), "/file"]), "contents");
}

/// A screen is for terminals.
#[test]
fn watched_counters_in_a_file_steer_no_terminal() {
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let line = format!("timeout 1 {} stats --watch 0.1 {}", program(), text(&place.directory));
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    succeeds(&["umount", text(&place.directory)]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("operation") && !shown.contains('\x1b'), "{shown}");
}

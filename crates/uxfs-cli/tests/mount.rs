//! `uxfs mount` and `uxfs umount` as a user calls them.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use common::{succeeds, text, uxfs};
use tempfile::TempDir;
use uxfs_testkit::{image::memory_folder, judges::Judge, require, verdict::repair_is_silent};

/// An image and a directory to mount it on, which is free again afterwards.
struct Place {
    folder: TempDir,
    image: PathBuf,
    directory: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (image, directory) = (folder.path().join("image"), folder.path().join("mount"));
        succeeds(&["mkfs", "--size", "300M", text(&image)]);
        fs::create_dir(&directory).unwrap();
        Self { folder, image, directory }
    }

    fn mount(&self, options: &[&str]) -> Output {
        uxfs(&[&["mount"], options, &[text(&self.image), text(&self.directory)]].concat())
    }

    fn unmount(&self) {
        succeeds(&["umount", text(&self.directory)]);
        repair_is_silent(&self.image).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.directory.join("file")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.directory).stderr(Stdio::null()).status();
        let _ = self.folder.path();
    }
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn server_of(image: &Path) -> String {
    let pattern = format!("{} .*--is-awaited", text(image));
    let output = Command::new("pgrep").args(["-f", &pattern]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned()
}

#[test]
fn an_image_is_mounted_used_and_unmounted() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.file(), "contents").unwrap();
    // The image is in use.
    assert!(!uxfs(&["rm", text(&place.image), "/file"]).status.success());
    place.unmount();
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    succeeded(&place.mount(&["-o", "ro"]));
    assert_eq!(fs::read(place.file()).unwrap(), b"contents");
    assert_eq!(fs::write(place.file(), "other").unwrap_err().raw_os_error(), Some(30));
    place.unmount();
}

#[test]
fn what_was_synced_survives_the_end_of_the_server() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let mut file = File::create(place.file()).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let killed = Command::new("kill").args(["-9", &server_of(&place.image)]).status().unwrap();
    assert!(killed.success());
    thread::sleep(Duration::from_millis(100));
    // The mount is dead, and is told as such.
    let again = place.mount(&[]);
    assert!(!again.status.success());
    assert!(Command::new("umount").arg("-l").arg(&place.directory).status().unwrap().success());
    succeeded(&place.mount(&[]));
    assert_eq!(fs::read(place.file()).unwrap(), [7; 100_000]);
    place.unmount();
}

#[test]
fn a_mount_that_cannot_be_says_why() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    for (options, words) in [("no_such_option", "no_such_option"), ("lazytime", "lazytime")] {
        let output = place.mount(&["-o", options]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(words));
    }
    fs::write(&place.image, "no file system").unwrap();
    let output = place.mount(&[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(text(&place.image)));
}

#[test]
fn an_ordinary_user_mounts_an_image() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for path in [&place.image, &place.directory] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_uxfs");
    let script = format!(
        "set -e; {program} mount {image} {directory}; cd {directory}; id -u > \"$0\"; cat \"$0\"; cd /; {program} umount {directory}",
        image = text(&place.image),
        directory = text(&place.directory),
    );
    // The image belongs to root inside: its root directory is made writable first.
    succeeds(&["chmod", text(&place.image), "777", "/"]);
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", &script, "own"])
        .output()
        .unwrap();
    succeeded(&output);
    assert_eq!(output.stdout, b"65534\n");
    repair_is_silent(&place.image).unwrap();
    assert_eq!(uxfs(&["cat", text(&place.image), "/own"]).stdout, b"65534\n");
}

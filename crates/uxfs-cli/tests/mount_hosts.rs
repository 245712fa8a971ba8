//! Mounts and what else on the machine is in play: wrappers of system calls, other mounts of the image, a server that has died, the host's
//! block size, damage that an earlier mount has left to recovery.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use common::{succeeds, text, uxfs};
use tempfile::TempDir;
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    verdict::repair_is_silent,
    watchdog::Watchdog,
};

/// A command that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

struct Place {
    folder: TempDir,
    image: PathBuf,
    directory: PathBuf,
    _watchdog: Watchdog,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let (image, directory) = (folder.path().join("image"), folder.path().join("mount"));
        succeeds(&["mkfs", "--size", "300M", text(&image)]);
        fs::create_dir(&directory).unwrap();
        let watchdog = Watchdog::new(&[&directory]);
        Self { folder, image, directory, _watchdog: watchdog }
    }

    fn mount(&self, options: &str) -> Output {
        uxfs(&["mount", "-o", options, text(&self.image), text(&self.directory)])
    }

    fn is_refused(&self, options: &str, words: &str) {
        let output = self.mount(options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{options}: {said}");
    }

    fn unmount(&self) {
        succeeds(&["umount", text(&self.directory)]);
        repair_is_silent(&self.image).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        let _ = unmount.arg("-l").arg(&self.directory).stderr(Stdio::null()).status();
    }
}

/// Its library asks for more of a mount than it is asked for.
#[test]
fn a_mount_under_fakeroot_does_not_wait_for_itself() {
    require!(Judge::XfsRepair, Judge::Fakeroot);
    let place = Place::new();
    let mut command = Command::new("fakeroot");
    command.args([env!("CARGO_BIN_EXE_uxfs"), "mount"]).args([&place.image, &place.directory]);
    let mut mounting = command.stdin(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = mounting.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < LONGEST, "the mount waits for itself");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success());
    fs::write(place.directory.join("file"), "contents").unwrap();
    place.unmount();
}

/// What a mount has read it keeps.
#[test]
fn an_image_that_the_kernel_has_mounted_is_not_shown() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    let kernel = LoopMount::new(&place.image, Access::ReadWrite).unwrap();
    for options in ["rw", "ro", "ro,norecovery"] {
        place.is_refused(options, text(kernel.path()));
    }
    kernel.unmount().unwrap();
    assert!(place.mount("ro").status.success());
    place.unmount();
}

#[test]
fn direct_writes_that_the_host_does_not_take_are_refused() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    // The host may take them: then they are used.
    if place.mount("direct").status.success() {
        fs::write(place.directory.join("file"), "contents").unwrap();
    } else {
        place.is_refused("direct", "mount it without direct");
        assert!(place.mount("direct,ro").status.success());
    }
    place.unmount();
}

#[test]
fn a_mount_whose_processes_have_died_is_unmounted_with_a_word() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    assert!(place.mount("rw").status.success());
    fs::write(place.directory.join("file"), "contents").unwrap();
    let own = |process: &str| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("uxfs-"))
            && fs::read_to_string(format!("/proc/{process}/cmdline"))
                .is_ok_and(|line| line.contains(text(&place.image)))
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let processes: Vec<String> = names.filter(|name| name.parse::<u32>().is_ok() && own(name)).collect();
    assert_eq!(processes.len(), 2);
    // At once: the one that mounted would take the mount away.
    assert!(Command::new("kill").arg("-9").args(&processes).status().unwrap().success());
    let begun = Instant::now();
    while processes.iter().any(|process| own(process)) {
        assert!(begun.elapsed() < LONGEST);
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = uxfs(&["umount", text(&place.directory)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("its server had ended"), "{said}");
    assert!(place.mount("rw").status.success());
    place.unmount();
}

/// An inode that lies about its blocks cannot be freed: recovery cuts it off, as Linux does, and says so.
#[test]
fn damage_that_recovery_meets_is_told() {
    require!(Judge::XfsDb);
    let place = Place::new();
    assert!(place.mount("rw").status.success());
    fs::write(place.directory.join("large"), vec![7; 4 << 20]).unwrap();
    place.unmount();
    let mut database = Command::new("xfs_db");
    let changed = database.args(["-x", "-c", "path /large", "-c", "write -d core.nblocks 99999999"]);
    assert!(changed.arg(&place.image).stdout(Stdio::null()).status().unwrap().success());
    assert!(place.mount("rw").status.success());
    // Its blocks are freed when it is closed: the removal is in the log before.
    let open = fs::File::open(place.directory.join("large")).unwrap();
    fs::remove_file(place.directory.join("large")).unwrap();
    fs::File::open(&place.directory).unwrap().sync_all().unwrap();
    drop(open);
    let _ = uxfs(&["umount", text(&place.directory)]);
    let output = place.mount("rw");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("recovery met damage"), "{said}");
    succeeds(&["umount", text(&place.directory)]);
}

#[test]
fn remounting_changes_the_mount_that_is_meant_and_nothing_that_it_cannot() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    assert!(place.mount("rw").status.success());
    place.is_refused("remount,noatime", "give one of them");
    let other = place.folder.path().join("other");
    let output = uxfs(&["mount", "-o", "remount,ro", text(&other), text(&place.directory)]);
    assert!(!output.status.success());
    fs::write(place.directory.join("file"), "contents").unwrap();
    assert!(place.mount("remount,ro").status.success());
    assert!(fs::write(place.directory.join("file"), "other").is_err());
    place.unmount();
}

#[test]
fn an_image_in_the_place_of_a_command_is_told_as_such() {
    let place = Place::new();
    let output = uxfs(&[text(&place.image), text(&place.directory), "-o", "rw"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("mount.fuse.uxfs"));
    assert_eq!(output.status.code(), Some(2));
}

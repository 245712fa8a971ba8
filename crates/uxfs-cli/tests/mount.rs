//! `uxfs mount` and `uxfs umount` as a user calls them.
#![allow(clippy::unwrap_used, clippy::panic)]

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

/// The process that serves a mount, and the one that mounted it.
fn processes_of(image: &Path) -> [String; 2] {
    let of = |name: &str| {
        let mut found = processes(image).into_iter().filter(|process| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        });
        let only = found.next().unwrap();
        assert_eq!(found.next(), None);
        only
    };
    [of("uxfs-serve"), of("uxfs-mount")]
}

/// The processes that have an image on their command line.
fn processes(image: &Path) -> Vec<String> {
    let output = Command::new("pgrep").args(["-f", text(image)]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

/// Waits until nothing serves or mounts the image any more.
fn wait_for_the_end(image: &Path) {
    for _ in 0..100 {
        if processes(image).is_empty() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the processes of a mount do not end");
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

fn write_and_sync(place: &Place, byte: u8) {
    let mut file = File::create(place.file()).unwrap();
    file.write_all(&[byte; 100_000]).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn what_was_synced_survives_the_end_of_the_server() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    write_and_sync(&place, 7);
    // The process that mounted takes the dead mount away.
    let [server, _] = processes_of(&place.image);
    kill("-9", &server);
    wait_for_the_end(&place.image);
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    succeeded(&place.mount(&[]));
    assert_eq!(fs::read(place.file()).unwrap(), [7; 100_000]);
    // Without it the mount is dead, and is told as such.
    write_and_sync(&place, 8);
    let [server, supervisor] = processes_of(&place.image);
    kill("-9", &supervisor);
    kill("-9", &server);
    wait_for_the_end(&place.image);
    let again = place.mount(&[]);
    assert!(!again.status.success());
    assert!(Command::new("umount").arg("-l").arg(&place.directory).status().unwrap().success());
    succeeded(&place.mount(&[]));
    assert_eq!(fs::read(place.file()).unwrap(), [8; 100_000]);
    place.unmount();
}

/// The image as a crash leaves it: the log has what was synced, and the rest of it does not.
#[test]
fn without_recovery_the_state_before_the_log_is_shown() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.directory.join("before"), "before").unwrap();
    place.unmount();
    succeeded(&place.mount(&[]));
    write_and_sync(&place, 7);
    for process in processes_of(&place.image) {
        kill("-9", &process);
    }
    wait_for_the_end(&place.image);
    assert!(Command::new("umount").arg("-l").arg(&place.directory).status().unwrap().success());
    let bytes = fs::read(&place.image).unwrap();
    let names = |place: &Place| {
        let entries = fs::read_dir(&place.directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for (options, expected) in [("ro,norecovery", &["before"][..]), ("ro", &["before", "file"])] {
        succeeded(&place.mount(&["-o", options]));
        assert_eq!(names(&place), expected, "{options}");
        assert_eq!(fs::read(place.directory.join("before")).unwrap(), b"before");
        succeeds(&["umount", text(&place.directory)]);
        assert!(fs::read(&place.image).unwrap() == bytes, "{options}: the image has changed");
    }
    let listed = succeeds(&["ls", "--ignore-log", text(&place.image)]);
    assert!(listed.contains("before") && !listed.contains("file"), "{listed}");
    let refused = place.mount(&["-o", "norecovery"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("norecovery,ro"));
    succeeded(&place.mount(&[]));
    assert_eq!(names(&place), ["before", "file"]);
    place.unmount();
}

#[test]
fn a_signal_unmounts_and_makes_the_image_whole() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    for of_server in [true, false] {
        succeeded(&place.mount(&[]));
        fs::write(place.file(), "contents").unwrap();
        let [server, supervisor] = processes_of(&place.image);
        kill("-TERM", if of_server { &server } else { &supervisor });
        wait_for_the_end(&place.image);
        assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
        repair_is_silent(&place.image).unwrap();
        assert_eq!(succeeds(&["cat", text(&place.image), "/file"]), "contents");
    }
}

/// The process that serves is confined, holds the image and the mount, and nothing else of the host that could be opened by path.
#[test]
fn the_process_that_serves_holds_what_it_needs() {
    require!(Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let [server, supervisor] = processes_of(&place.image);
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let held = |process: &str| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
        let paths = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        paths.filter(|path| path.starts_with("/")).collect::<Vec<_>>()
    };
    let usual = ["/dev/fuse", "/dev/null", "/proc", "/sys/fs/cgroup"];
    for path in held(&server) {
        let is_temporary = path.ends_with("(deleted)") || text(&path).contains("/#");
        let is_usual = usual.iter().any(|usual| path.starts_with(usual));
        assert!(is_temporary || is_usual || path == place.image, "{}", path.display());
    }
    assert!(held(&server).contains(&place.image));
    let devices = ["/dev/fuse".into(), place.image.clone()];
    assert!(held(&supervisor).iter().all(|path| !devices.contains(path)), "{:?}", held(&supervisor));
    place.unmount();
}

#[test]
fn a_mount_tells_what_it_counts() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&["-o", "nouring"]));
    for file in 0..10 {
        fs::write(place.directory.join(format!("file-{file}")), "contents").unwrap();
    }
    assert!(fs::metadata(place.directory.join("missing")).is_err());
    File::open(place.directory.join("file-3")).unwrap().sync_all().unwrap();
    let told: serde_json::Value =
        serde_json::from_str(&succeeds(&["stats", "--json", text(&place.directory)])).unwrap();
    assert_eq!(told["operations"]["create"]["count"], 10);
    assert_eq!(told["operations"]["lookup"]["errors"], 0, "a missing name is an answer");
    assert!(told["operations"]["fsync"]["longest_nanoseconds"].as_u64().unwrap() > 0);
    assert!(told["numbers"]["journal_forces"].as_u64().unwrap() > 0, "{told}");
    assert!(told["numbers"]["nodes"].as_u64().unwrap() >= 10, "{told}");
    let requests = told["requests"]["device"].as_u64().unwrap();
    let counts = told["operations"].as_object().unwrap().values();
    assert_eq!(counts.map(|operation| operation["count"].as_u64().unwrap()).sum::<u64>(), requests);
    let table = succeeds(&["stats", text(&place.directory)]);
    assert!(table.lines().any(|line| line.starts_with("create ") && line.contains(" 10 ")), "{table}");
    let lines = succeeds(&["stats", "--prometheus", text(&place.directory)]);
    assert!(lines.contains("uxfs_operation_seconds_count{operation=\"create\"} 10\n"), "{lines}");
    let other = uxfs(&["stats", text(place.folder.path())]);
    assert_eq!(other.status.code(), Some(1));
    place.unmount();
}

/// df and others open every mount for a moment.
#[test]
fn a_mount_that_is_busy_for_a_moment_is_unmounted() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.file(), "contents").unwrap();
    let held = File::open(place.file()).unwrap();
    let busy = uxfs(&["umount", text(&place.directory)]);
    assert_eq!(busy.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&busy.stderr).contains("busy"));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        place.unmount();
    });
}

/// As mount(8) and umount(8) call their helpers.
#[test]
fn helpers_mount_and_unmount() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    let helper = |name: &str, arguments: &[&str]| {
        let link = place.folder.path().join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_uxfs"), &link).unwrap();
        }
        Command::new(link).args(arguments).output().unwrap()
    };
    let (image, directory) = (text(&place.image), text(&place.directory));
    succeeded(&helper("mount.fuse.uxfs", &[image, directory, "-f", "-o", "rw"]));
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    let wrong = helper("mount.fuse.uxfs", &[image, directory, "-o", "rw,no_such_option"]);
    assert_eq!(wrong.status.code(), Some(1));
    for (name, unmounting) in [("mount.fuse.uxfs", "umount.fuse.uxfs"), ("mount.uxfs", "umount.uxfs")] {
        succeeded(&helper(
            name,
            &[image, directory, "-o", "rw,noauto,user,nofail,_netdev,x-systemd.automount"],
        ));
        fs::write(place.file(), name).unwrap();
        let table = fs::read_to_string("/proc/mounts").unwrap();
        assert!(table.contains(&format!("{image} {directory} fuse.uxfs rw")), "{table}");
        // A mount that is there is no place for another one of the image.
        assert_eq!(helper(name, &[image, directory]).status.code(), Some(32));
        succeeded(&helper(unmounting, &[directory]));
        repair_is_silent(&place.image).unwrap();
        assert_eq!(succeeds(&["cat", image, "/file"]), name);
    }
    assert_eq!(helper("umount.uxfs", &[directory]).status.code(), Some(32));
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

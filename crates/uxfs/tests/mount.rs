//! `uxfs mount` and `uxfs umount` as a user calls them.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    sparse::{self, Contents},
    verdict::repair_is_silent,
};

use crate::common::mount_place::{Place, processes, succeeded};
use crate::common::{program, succeeds, text, uxfs};

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

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

/// Ends both processes at once, and takes the dead mount away.
fn crash(place: &Place) {
    let [server, supervisor] = processes_of(&place.image);
    // It would take the mount away itself.
    kill("-9", &supervisor);
    kill("-9", &server);
    wait_for_the_end(&place.image);
    assert!(Command::new("umount").arg("-l").arg(&place.directory).status().unwrap().success());
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
    // The image is in use, and it is told where.
    let again = place.mount(&[]);
    assert_eq!(again.status.code(), Some(1));
    let words = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(words.contains(&format!("is mounted on {}", text(&place.directory))), "{words}");
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
    crash(&place);
    let bytes = Contents::read(&place.image).unwrap();
    let names = |place: &Place| {
        let entries = fs::read_dir(&place.directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let listed = || succeeds(&["ls", "--ignore-log", text(&place.image)]);
    for (options, expected) in [("ro,norecovery", &["before"][..]), ("ro", &["before", "file"])] {
        succeeded(&place.mount(&["-o", options]));
        assert_eq!(names(&place), expected, "{options}");
        assert_eq!(fs::read(place.directory.join("before")).unwrap(), b"before");
        succeeds(&["umount", text(&place.directory)]);
        // Recovery goes to the image.
        let is_left = options == "ro,norecovery";
        assert_eq!(Contents::read(&place.image).unwrap() == bytes, is_left, "{options}");
        assert_eq!(!listed().contains("file"), is_left, "{options}: {}", listed());
    }
    repair_is_silent(&place.image).unwrap();
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

/// A frozen file system, which goes on again when this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: &Path) -> Self {
        assert!(Command::new("fsfreeze").arg("-f").arg(path).status().unwrap().success());
        Self(path.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0).status();
    }
}

/// The file system that has the image is frozen: a thread of the server waits in the kernel, and no signal ends it.
#[test]
fn a_server_that_does_not_end_leaves_no_mount_that_hangs() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let outer = Place::new();
    let host = LoopMount::new(&outer.image, Access::ReadWrite).unwrap();
    let image = host.path().join("inner");
    succeeds(&["mkfs", "--size", "300M", text(&image)]);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mount")).unwrap();
    let inner = Place::of(folder, image);
    succeeded(&inner.mount(&[]));
    write_and_sync(&inner, 7);
    let [server, supervisor] = processes_of(&inner.image);
    let frozen = Frozen::new(host.path());
    // Another process writes: what this one has open there every program that it starts would close, and wait for the server.
    let mut writer = Command::new("dd");
    writer.args(["if=/dev/zero", "bs=100k", "count=1", "oflag=append", "conv=notrunc,fsync"]);
    let mut writer = writer.arg(format!("of={}", text(&inner.file()))).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    let killed = Instant::now();
    kill("-9", &server);
    let written = loop {
        if let Some(status) = writer.try_wait().unwrap() {
            break status;
        }
        assert!(killed.elapsed() < Duration::from_secs(30), "the writer waits");
        thread::sleep(Duration::from_millis(50));
    };
    assert!(!written.success());
    while fs::read_to_string("/proc/self/mounts").unwrap().contains(text(&inner.image)) {
        assert!(killed.elapsed() < Duration::from_secs(30), "the mount stays");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read_dir(&inner.directory).unwrap().count(), 0);
    // Nothing waits for the server for ever.
    while Path::new("/proc").join(&supervisor).exists() {
        assert!(killed.elapsed() < Duration::from_secs(60), "the process that mounted waits");
        thread::sleep(Duration::from_millis(50));
    }
    drop(frozen);
    wait_for_the_end(&inner.image);
    succeeded(&inner.mount(&[]));
    assert_eq!(fs::read(inner.file()).unwrap()[..100_000], [7; 100_000]);
    inner.unmount();
    drop(inner);
    host.unmount().unwrap();
}

/// A mount whose process stays in the foreground: what it says goes to a file.
struct Foreground<'p> {
    place: &'p Place,
    child: Child,
}

impl<'p> Foreground<'p> {
    fn new(place: &'p Place, options: &str) -> Self {
        let lines = File::create(place.folder.path().join("lines")).unwrap();
        let mut command = Command::new(program());
        command.args(["mount", "-f", "-o", options]).args([&place.image, &place.directory]).stderr(lines);
        let child = command.spawn().unwrap();
        let begun = Instant::now();
        while !fs::read_to_string("/proc/self/mounts").unwrap().contains(text(&place.directory)) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing is mounted");
            thread::sleep(Duration::from_millis(10));
        }
        Self { place, child }
    }

    /// Unmounts. Gives what `uxfs umount` said, the exit code of the mount, and its lines.
    fn unmount(mut self) -> (Output, i32, Vec<String>) {
        let output = uxfs(&["umount", text(&self.place.directory)]);
        let code = self.child.wait().unwrap().code().unwrap();
        let lines = fs::read_to_string(self.place.folder.path().join("lines")).unwrap();
        (output, code, lines.lines().map(str::to_owned).collect())
    }
}

#[test]
fn a_mount_in_the_foreground_ends_with_its_command_however_it_ends() {
    let place = Place::new();
    let mut foreground = Foreground::new(&place, "rw");
    fs::write(place.file(), [7; 100_000]).unwrap();
    foreground.child.kill().unwrap();
    foreground.child.wait().unwrap();
    wait_for_the_end(&place.image);
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(text(&place.directory)));
    repair_is_silent(&place.image).unwrap();
    assert!(succeeds(&["cat", text(&place.image), "/file"]) == "\u{7}".repeat(100_000));
}

#[test]
fn requests_are_told_one_by_one_if_asked_for() {
    require!(Judge::Kernel);
    let place = Place::new();
    let mount = Foreground::new(&place, "debug,nouring");
    fs::write(place.file(), "contents").unwrap();
    let (output, code, lines) = mount.unmount();
    succeeded(&output);
    assert_eq!(code, 0);
    let has = |words: &[&str]| lines.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["FUSE_CREATE", "inode 1 \"file\"", " us, device"]), "{lines:?}");
    assert!(has(&["FUSE_LOOKUP"]) && has(&["FUSE_WRITE", "8 bytes"]) && has(&["mounted"]), "{lines:?}");
    for (options, is_told) in [("log=error", false), ("log=warn", false), ("log=info", true)] {
        let (_, code, lines) = Foreground::new(&place, options).unmount();
        assert_eq!((code, lines.is_empty()), (0, !is_told), "{options}: {lines:?}");
    }
}

/// Each request gets its error, and the log has the place once.
#[test]
fn damage_that_is_met_is_told_once() {
    require!(Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.file(), "contents").unwrap();
    let inode = fs::metadata(place.file()).unwrap().ino();
    place.unmount();
    // In the first group, with inodes of 512 bytes, an inode lies at its number.
    let image = File::options().read(true).write(true).open(&place.image).unwrap();
    let at = inode * 512 + 100;
    let mut byte = [0];
    image.read_exact_at(&mut byte, at).unwrap();
    image.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let mount = Foreground::new(&place, "log=warn");
    for _ in 0..3 {
        assert_eq!(fs::read(place.file()).unwrap_err().raw_os_error(), Some(117));
    }
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 1);
    fs::write(place.directory.join("other"), "other").unwrap();
    let (output, code, lines) = mount.unmount();
    succeeded(&output);
    assert_eq!((code, lines.len()), (0, 1), "{lines:?}");
    assert!(lines[0].contains("inode") && lines[0].contains("FUSE_LOOKUP of inode 1"), "{lines:?}");
}

/// The file system that has the image is full: what the log cannot hold is told at the latest when the image is unmounted.
#[test]
fn what_did_not_reach_the_image_is_told() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let outer = Place::new();
    let host = outer.folder.path().join("host");
    fs::create_dir(&host).unwrap();
    rustix::mount::mount("none", &host, "tmpfs", rustix::mount::MountFlags::empty(), Some(c"size=8M"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("mount")).unwrap();
    let inner = Place::of(folder, host.join("image"));
    succeeds(&["mkfs", "--size", "300M", text(&inner.image)]);
    let mount = Foreground::new(&inner, "log=warn");
    write_and_sync(&inner, 7);
    let mut large = File::create(inner.directory.join("large")).unwrap();
    large.write_all(&vec![1; 20 << 20]).unwrap();
    assert!(large.sync_all().is_err());
    drop(large);
    for file in 0..50 {
        // Changes are taken until one of them meets the full log.
        let _ = fs::write(inner.directory.join(format!("file-{file}")), "contents");
    }
    let (output, code, lines) = mount.unmount();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), code), (Some(1), 1), "{words}{lines:?}");
    assert!(words.contains("the last changes did not reach the image: "), "{words}");
    assert!(words.contains("No space left on device"), "{words}");
    assert!(
        lines.iter().any(|line| line.contains("FUSE_WRITE") && line.contains("No space left")),
        "{lines:?}"
    );
    // With room the log is recovered.
    let remounted = Command::new("mount").args(["-o", "remount,size=500M"]).arg(&host).status().unwrap();
    assert!(remounted.success());
    succeeded(&inner.mount(&[]));
    assert_eq!(fs::read(inner.file()).unwrap(), [7; 100_000]);
    inner.unmount();
    drop(inner);
    rustix::mount::unmount(&host, rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[test]
fn a_mount_whose_server_does_not_answer_can_be_taken_away() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    write_and_sync(&place, 7);
    let [server, _] = processes_of(&place.image);
    kill("-STOP", &server);
    let begun = Instant::now();
    let unmounting = thread::spawn({
        let directory = place.directory.clone();
        move || succeeds(&["umount", "--force", text(&directory)])
    });
    while fs::read_to_string("/proc/self/mounts").unwrap().contains(text(&place.directory)) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 0);
    kill("-CONT", &server);
    // It waits until the image is whole.
    unmounting.join().unwrap();
    wait_for_the_end(&place.image);
    assert_eq!(succeeds(&["ls", text(&place.image)]), "file\n");
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
    for process in [&server, &supervisor] {
        let directory = fs::read_link(format!("/proc/{process}/cwd")).unwrap();
        assert_eq!(directory, Path::new("/"), "the caller's file system could not be unmounted");
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
    assert!(!held(&supervisor).contains(&"/dev/fuse".into()), "{:?}", held(&supervisor));
    // It only watches what becomes of the image file, by descriptors that cannot be read.
    for descriptor in fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap().flatten() {
        if fs::read_link(descriptor.path()).is_ok_and(|path| path == place.image) {
            let number = descriptor.file_name();
            let information = format!("/proc/{supervisor}/fdinfo/{}", number.to_string_lossy());
            let flags = fs::read_to_string(information).unwrap();
            let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            let flags = u32::from_str_radix(flags, 8).unwrap();
            assert!(OFlags::from_bits_retain(flags).contains(OFlags::PATH), "{flags:o}");
        }
    }
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
    let mut watching = Command::new(program());
    let watching = watching.args(["stats", "--watch", text(&place.directory)]);
    let mut watching = watching.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(uxfs(&["stats", "--watch", "0.001", text(&place.directory)]).status.code(), Some(2));
    assert_eq!(watching.try_wait().unwrap(), None, "it watches until it is ended");
    watching.kill().unwrap();
    watching.wait().unwrap();
    let table = succeeds(&["stats", text(&place.directory)]);
    assert!(table.lines().any(|line| line.starts_with("create ") && line.contains(" 10 ")), "{table}");
    let lines = succeeds(&["stats", "--prometheus", text(&place.directory)]);
    assert!(lines.contains("uxfs_operation_seconds_count{operation=\"create\"} 10\n"), "{lines}");
    let other = uxfs(&["stats", text(place.folder.path())]);
    assert_eq!(other.status.code(), Some(1));
    place.unmount();
}

/// What has been freed waits for its checkpoint, and counts as free at once.
#[test]
fn freed_space_is_told_at_once() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let free = || {
        let told = rustix::fs::statvfs(&place.directory).unwrap();
        told.f_bfree * told.f_frsize
    };
    let before = free();
    fs::write(place.file(), vec![7; 50 << 20]).unwrap();
    File::open(place.file()).unwrap().sync_all().unwrap();
    assert!(free() < before - (49 << 20));
    File::options().write(true).open(place.file()).unwrap().set_len(0).unwrap();
    assert!(free() > before - (1 << 20), "{} of {before}", free());
    place.unmount();
}

/// An access time alone is kept, shown, and written with the next change or at the end.
#[test]
fn times_alone_are_written_late_if_asked_for() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.file(), "contents").unwrap();
    place.unmount();
    let accessed = |path: &Path| fs::metadata(path).unwrap().accessed().unwrap();
    for (way, ends_by_crash) in [("sync", true), ("change", true), ("forget", true), ("unmount", false)] {
        succeeded(&place.mount(&["-o", "lazytime,strictatime,nouring"]));
        let before = accessed(&place.file());
        thread::sleep(Duration::from_millis(20));
        // The kernel keeps what it has read: another mount of the image reads it anew.
        assert_eq!(fs::read(place.file()).unwrap(), b"contents");
        let shown = accessed(&place.file());
        match way {
            "sync" => File::open(place.file()).unwrap().sync_all().unwrap(),
            "change" => fs::set_permissions(place.file(), fs::Permissions::from_mode(0o600)).unwrap(),
            "forget" => fs::write("/proc/sys/vm/drop_caches", "2").unwrap(),
            _ => {}
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(accessed(&place.file()), shown, "{way}: kept times are shown");
        if ends_by_crash {
            File::create(place.directory.join("other")).unwrap().sync_all().unwrap();
            File::open(&place.directory).unwrap().sync_all().unwrap();
            crash(&place);
        } else {
            place.unmount();
        }
        succeeded(&place.mount(&["-o", "ro"]));
        assert!(shown > before, "{way}: the file was read");
        assert_eq!(accessed(&place.file()), shown, "{way}");
        succeeds(&["umount", text(&place.directory)]);
    }
    succeeded(&place.mount(&[]));
    place.unmount();
}

/// As `mount -o remount,ro` asks its helper: the image may be copied then.
#[test]
fn a_mount_that_is_made_read_only_has_a_clean_log() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    succeeded(&place.mount(&["-o", "strictatime"]));
    fs::write(place.file(), "contents").unwrap();
    for round in 0..3 {
        succeeded(&place.mount(&["-o", "remount,ro"]));
        assert_eq!(fs::read(place.file()).unwrap(), b"contents");
        assert_eq!(fs::write(place.file(), "other").unwrap_err().raw_os_error(), Some(30));
        let copy = place.folder.path().join("copy");
        sparse::copy(&place.image, &copy).unwrap();
        repair_is_silent(&copy).unwrap();
        assert_eq!(succeeds(&["cat", "--ignore-log", text(&copy), "/file"]), "contents");
        succeeded(&place.mount(&["-o", "remount,rw"]));
        fs::write(place.directory.join(format!("file-{round}")), "more").unwrap();
    }
    // A crash after that finds the log.
    File::open(place.directory.join("file-2")).unwrap().sync_all().unwrap();
    File::open(&place.directory).unwrap().sync_all().unwrap();
    crash(&place);
    succeeded(&place.mount(&[]));
    assert_eq!(fs::read_dir(&place.directory).unwrap().count(), 4);
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
            std::os::unix::fs::symlink(program(), &link).unwrap();
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
    for (options, words) in
        [("no_such_option", "no_such_option"), ("partition=1,offset=1M", "offset="), ("log=all", "debug")]
    {
        let output = place.mount(&["-o", options]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(words));
    }
    // The root directory: in the first group, with inodes of 512 bytes, an inode lies at its number.
    let root = 128 * 512;
    let image = File::options().write(true).open(&place.image).unwrap();
    image.write_all_at(&[0x55; 512], root).unwrap();
    let output = place.mount(&[]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("root directory") && words.contains("uxfs repair"), "{words}");
    fs::write(&place.image, "no file system").unwrap();
    let output = place.mount(&[]);
    assert!(!output.status.success());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(text(&place.image)) && words.contains("-o partition= or -o offset="), "{words}");
}

#[test]
fn an_ordinary_user_mounts_an_image() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    for path in [&place.image, &place.directory] {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let program = program();
    // Only root remounts; that is said in the way that fits.
    let script = format!(
        "set -e; {program} mount {image} {directory}; cd {directory}; id -u > \"$0\"; cat \"$0\"; cd /
        for how in ro rw; do if {program} mount -o remount,$how {image} {directory}; then exit 9; fi; done
        {program} umount {directory}",
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("remounting is not permitted (it needs root): unmount it").count(), 2, "{said}");
    repair_is_silent(&place.image).unwrap();
    assert_eq!(uxfs(&["cat", text(&place.image), "/own"]).stdout, b"65534\n");
}

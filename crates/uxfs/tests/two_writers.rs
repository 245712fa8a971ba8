//! One image, two programs: whichever way they come to it, one writer keeps away all others that ask, and readers do not see
//! an image in change. With real loop devices.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{FileExt, symlink},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    sparse::data_runs,
    verdict::repair_is_silent,
};

use crate::common;
use crate::common::{program, succeeds, text, uxfs};

const CHANGING: &str = "another program is changing it";
const PARTITION_START: u64 = 1 << 20;
const SIZE: u64 = 310 << 20;

/// A loop device that goes with this.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn attach(options: &[&str], file: &Path) -> Self {
        let output = Command::new("losetup").args(["-f", "--show"]).args(options).arg(file).output().unwrap();
        assert!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        Self(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()))
    }

    /// Gives it a partition: not every kernel reads the tables that say where they are.
    fn partition(&self) -> PathBuf {
        let number = |bytes: u64| (bytes / 512).to_string();
        common::host("addpart", &[text(&self.0), "1", &number(PARTITION_START), &number(SIZE)]);
        let path = PathBuf::from(format!("{}p1", text(&self.0)));
        let deadline = Instant::now() + Duration::from_secs(10);
        while !path.exists() {
            assert!(Instant::now() < deadline, "{} has not come", path.display());
            thread::sleep(Duration::from_millis(20));
        }
        path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// A shell that has the image open for changes until this goes.
struct Holder {
    child: Child,
    input: Option<ChildStdin>,
}

impl Holder {
    fn open(image: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.arg("shell").args(options).arg(image).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // From its first change on the shell keeps the image.
        input.write_all(b"mkdir /held; rmdir /held; pwd\n").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "/\n", "the shell has the image");
        Self { child, input: Some(input) }
    }

    /// It changes something, and ends well.
    fn finish(mut self) {
        let mut input = self.input.take().unwrap();
        input.write_all(b"mkdir /by-holder; rmdir /by-holder\n").unwrap();
        drop(input);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every command that writes to an image.
fn writers<'a>(image: &'a str, source: &'a str) -> Vec<Vec<&'a str>> {
    vec![
        vec!["put", image, source, "/new"],
        vec!["rm", "-f", image, "/nothing"],
        vec!["shell", image, "-c", "mkdir /a"],
        vec!["admin", "--label", "other", image],
        vec!["replay", image],
        vec!["mkfs", "-f", "-q", image],
        vec!["mkfs", "-f", "-q", "-p", "/dev/null", image],
        vec!["bench", "fsmark", "--image", image, "-n", "10"],
        vec!["bench", "fsmark", "--image", image, "-n", "10", "--log-mode", "bulk"],
    ]
}

fn readers(image: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["ls", "-lR", image],
        vec!["info", image],
        vec!["admin", image],
        vec!["replay", "-n", image],
        vec!["extract", "--tar", "/dev/null", image],
        vec!["inspect", image, "sb", "0"],
    ]
}

fn is_refused(arguments: &[&str], words: &[&str]) {
    let Output { status, stderr, .. } = uxfs(arguments);
    let found = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{arguments:?}: {found}");
    assert!(words.iter().any(|words| found.contains(words)), "{arguments:?}: {found}");
}

struct Place {
    folder: TempDir,
    disk: PathBuf,
    source: PathBuf,
}

impl Place {
    /// An empty disk.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (disk, source) = (folder.path().join("disk"), folder.path().join("source"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), "contents").unwrap();
        let file = File::create(&disk).unwrap();
        file.set_len(SIZE + 2 * PARTITION_START).unwrap();
        Self { folder, disk, source }
    }

    fn file(&self) -> String {
        text(&self.source.join("file")).to_owned()
    }

    /// None of the ways to the image lets a writer in; the holder goes on.
    fn all_are_kept_away(&self, holder: Holder, ways: &[&Path], words: &[&str]) {
        let before = fs::metadata(&self.disk).unwrap().len();
        for way in ways {
            for writer in writers(text(way), &self.file()) {
                is_refused(&writer, words);
            }
            for reader in readers(text(way)) {
                is_refused(&reader, words);
            }
        }
        assert_eq!(fs::metadata(&self.disk).unwrap().len(), before, "nothing cut the image off");
        holder.finish();
    }
}

#[test]
fn an_image_file_has_one_writer() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeds(&["mkfs", "-q", text(&place.disk)]);
    let [hard, soft] = ["hard", "soft"].map(|name| place.folder.path().join(name));
    fs::hard_link(&place.disk, &hard).unwrap();
    symlink("disk", &soft).unwrap();
    let holder = Holder::open(&place.disk, &[]);
    is_refused(
        &["bench", "fsmark", "--image", text(&hard), "--size", "300M", "--force", "-n", "10"],
        &[CHANGING],
    );
    is_refused(&["mkfs", "-f", "--size", "600M", text(&hard)], &[CHANGING]);
    is_refused(&["mkfs", "-f", "-d", "file=1,size=400m", text(&hard)], &[CHANGING]);
    // What changes nothing and reads nothing of the image may look.
    succeeds(&["mkfs", "-f", "-N", text(&hard)]);
    place.all_are_kept_away(holder, &[&place.disk, &hard, &soft], &[CHANGING]);
    repair_is_silent(&place.disk).unwrap();
    succeeds(&["put", text(&hard), &place.file(), "/"]);
    repair_is_silent(&place.disk).unwrap();
}

/// `mkfs` and `bench` hold what they write to.
#[test]
fn mkfs_and_bench_keep_others_away() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    let image = place.folder.path().join("image");
    let endless = ["bench", "fsmark", "-n", "1000", "-L", "1000000", "-s", "0"];
    for mode in ["delayed", "bulk"] {
        succeeds(&["mkfs", "-q", "-f", "--size", "310M", text(&image)]);
        let mut bench = Command::new(program());
        bench.args(endless).args(["--image", text(&image), "--log-mode", mode]).stdout(Stdio::null());
        let mut child = bench.spawn().unwrap();
        until_held(&image);
        // It keeps what it has, and fills no disk meanwhile.
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        for writer in writers(text(&image), &place.file()) {
            is_refused(&writer, &[CHANGING]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Filled from a pipe that does not end yet.
    fs::remove_file(&image).unwrap();
    let mut mkfs = Command::new(program());
    mkfs.args(["mkfs", "-q", "--size", "310M", "--from", "-", text(&image)]).stdin(Stdio::piped());
    let mut child = mkfs.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let archive =
        Command::new("tar").args(["-C", text(&place.source), "-cf", "-", "."]).output().unwrap().stdout;
    let (head, tail) = archive.split_at(1024);
    input.write_all(head).unwrap();
    until_held(&image);
    for writer in writers(text(&image), &place.file()) {
        is_refused(&writer, &[CHANGING]);
    }
    assert!(image.exists(), "those who were refused have not removed it");
    input.write_all(tail).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    repair_is_silent(&image).unwrap();
    assert_eq!(succeeds(&["cat", text(&image), "/file"]), "contents");
}

fn until_held(image: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_held = || String::from_utf8_lossy(&uxfs(&["info", text(image)]).stderr).contains(CHANGING);
    while !is_held() {
        assert!(Instant::now() < deadline, "{} is not held", image.display());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reader_keeps_writers_away_and_no_readers() {
    let place = Place::new();
    let image = text(&place.disk);
    succeeds(&["mkfs", "-q", image]);
    let large = place.folder.path().join("large");
    fs::write(&large, vec![7; 8 << 20]).unwrap();
    succeeds(&["put", image, text(&large), "/"]);
    let mut command = Command::new(program());
    // It waits with the rest until the pipe is read on.
    let mut reader = command.args(["cat", image, "/large"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = reader.stdout.take().unwrap();
    output.read_exact(&mut [0; 100]).unwrap();
    for writer in writers(image, &place.file()) {
        is_refused(&writer, &["another program is reading it"]);
    }
    for other in readers(image) {
        succeeds(&other);
    }
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(rest.len() + 100, 8 << 20);
    succeeds(&["put", image, &place.file(), "/"]);
}

/// The disk is held, and others come through loop devices; and the other way round.
#[test]
fn a_loop_device_and_its_file_have_one_writer() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let place = Place::new();
    succeeds(&["mkfs", "-q", text(&place.disk)]);
    let attached = "for writing (losetup -d";
    {
        let holder = Holder::open(&place.disk, &[]);
        let hard = place.folder.path().join("hard");
        fs::hard_link(&place.disk, &hard).unwrap();
        let first = LoopDevice::attach(&[], &place.disk);
        // The path that sysfs tells of this one leads nowhere.
        let second = LoopDevice::attach(&[], &hard);
        let nested = LoopDevice::attach(&[], &first.0);
        fs::remove_file(&hard).unwrap();
        place.all_are_kept_away(holder, &[&first.0, &nested.0], &[CHANGING, attached]);
        drop((nested, second));
        let holder = Holder::open(&first.0, &[]);
        place.all_are_kept_away(holder, &[&first.0, &place.disk], &[CHANGING, attached, "in use"]);
        // Read-only it could be written to through no other device.
        let other = LoopDevice::attach(&["-r"], &place.disk);
        let holder = Holder::open(&first.0, &[]);
        for reader in readers(text(&other.0)) {
            is_refused(&reader, &[CHANGING]);
        }
        holder.finish();
        succeeds(&["put", text(&first.0), &place.file(), "/file-by-loop"]);
    }
    repair_is_silent(&place.disk).unwrap();
    // No program has it open, but it is attached.
    let device = LoopDevice::attach(&[], &place.disk);
    for writer in writers(text(&place.disk), &place.file()) {
        is_refused(&writer, &[attached]);
    }
    let nested = LoopDevice::attach(&[], &device.0);
    for writer in writers(text(&device.0), &place.file()) {
        is_refused(&writer, &[attached]);
    }
    let holder = Holder::open(&nested.0, &[]);
    place.all_are_kept_away(holder, &[&nested.0, &device.0, &place.disk], &[CHANGING, attached, "in use"]);
    drop((nested, device));
    let read_only = LoopDevice::attach(&["-r"], &place.disk);
    succeeds(&["put", text(&place.disk), &place.file(), "/file-beside"]);
    drop(read_only);
    let mount = LoopMount::new(&place.disk, Access::ReadOnly).unwrap();
    for writer in writers(text(&place.disk), &place.file()) {
        is_refused(&writer, &["it is mounted at"]);
    }
    mount.unmount().unwrap();
    succeeds(&["put", text(&place.disk), &place.file(), "/file-after"]);
    repair_is_silent(&place.disk).unwrap();
}

/// As systemd-repart and `udevadm lock` do it for the tools that they call.
#[test]
fn a_lock_of_the_caller_is_no_other_user() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = TempDir::new().unwrap();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(SIZE).unwrap();
    let device = LoopDevice::attach(&[], &image);
    let mkfs = ["mkfs", "-q", "-f", text(&device.0)];
    let mut caller = Command::new("flock");
    let done = caller.arg(&device.0).arg(program()).args(mkfs).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // Anybody else's keeps this one away.
    let mut other = Command::new("flock");
    let mut other = other.arg("-o").arg(&device.0).args(["sleep", "8"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while uxfs(&mkfs).status.success() {
        assert!(Instant::now() < deadline, "it does not lock");
    }
    is_refused(&mkfs, &[CHANGING]);
    assert!(other.wait().unwrap().success());
    drop(device);
    repair_is_silent(&image).unwrap();
}

#[test]
fn partitions_are_parts_of_their_disk() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let place = Place::new();
    let offset = PARTITION_START.to_string();
    let disk = LoopDevice::attach(&["-P"], &place.disk);
    let partition = disk.partition();
    succeeds(&["mkfs", "-q", text(&partition)]);
    let holder = Holder::open(&partition, &[]);
    is_refused(&["ls", "--offset", &offset, text(&place.disk)], &[CHANGING]);
    is_refused(
        &["put", "--offset", &offset, text(&place.disk), &place.file(), "/new"],
        &[CHANGING, "for writing (losetup -d"],
    );
    is_refused(&["mkfs", "-f", text(&place.disk)], &[CHANGING, "for writing (losetup -d"]);
    is_refused(&["mkfs", "-f", text(&disk.0)], &["in use"]);
    // The same bytes through a loop device of its own.
    let same = LoopDevice::attach(&["-o", &offset, "--sizelimit", &SIZE.to_string()], &place.disk);
    place.all_are_kept_away(holder, &[&partition, &same.0], &[CHANGING, "in use", "for writing (losetup -d"]);
    // No program has it open, but both are attached to the same bytes.
    is_refused(&["put", text(&partition), &place.file(), "/new"], &["for writing (losetup -d"]);
    drop(same);
    // Other bytes of the disk are no matter of this one.
    let other = LoopDevice::attach(&["-o", "0", "--sizelimit", &offset], &place.disk);
    succeeds(&["put", text(&partition), &place.file(), "/new"]);
    drop((other, disk));
    succeeds(&["put", "--offset", &offset, text(&place.disk), &place.file(), "/by-offset"]);
    let holder = Holder::open(&place.disk, &["--offset", &offset]);
    let disk = LoopDevice::attach(&["-P"], &place.disk);
    let partition = disk.partition();
    place.all_are_kept_away(holder, &[&partition], &[CHANGING]);
    repair_is_silent(&partition).unwrap();
}

/// Bulk mode changes an image without a journal: if it is interrupted, the image is marked as in progress.
#[test]
fn an_image_changed_in_bulk_mode_says_so_until_it_is_closed() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    // Little memory, so that much is written before the end.
    let bulk = ["bench", "fsmark", "--image", text(&image), "--log-mode", "bulk", "-s", "0", "--cache", "4M"];
    succeeds(&["mkfs", "-q", "--size", "310M", text(&image)]);
    succeeds(&[&bulk[..], &["-n", "1000"]].concat());
    repair_is_silent(&image).unwrap();
    for milliseconds in [0, 30, 300] {
        fs::remove_file(&image).unwrap();
        // It has room for more files than are made before the end.
        succeeds(&["mkfs", "-q", "--size", "32G", text(&image)]);
        let mut command = Command::new(program());
        let mut child =
            command.args(bulk).args(["-n", "1000", "-L", "1000000"]).stdout(Stdio::null()).spawn().unwrap();
        until_held(&image);
        let first = behind_mark(&image);
        let deadline = Instant::now() + Duration::from_secs(20);
        // The mark comes before any other change.
        while sector(&image)[126] == 0 {
            assert!(behind_mark(&image) == first, "changed before it was marked");
            assert!(Instant::now() < deadline);
        }
        thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended before");
        for arguments in readers(text(&image)) {
            if arguments[0] != "inspect" {
                let Output { status, stderr, .. } = uxfs(&arguments);
                assert_eq!(status.code(), Some(3), "{arguments:?}");
                assert!(String::from_utf8_lossy(&stderr).contains("it is unfinished"), "{arguments:?}");
            }
        }
        let put = uxfs(&["put", text(&image), text(&image), "/new"]);
        assert_eq!(put.status.code(), Some(3));
        assert!(LoopMount::new(&image, Access::ReadOnlyNoRecovery).is_err(), "Linux refuses it, too");
    }
}

fn sector(image: &Path) -> [u8; 512] {
    let mut sector = [0; 512];
    File::open(image).unwrap().read_exact_at(&mut sector, 0).unwrap();
    sector
}

/// All data of an image but its first sector, which has the mark and its checksum.
fn behind_mark(image: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(image).unwrap();
    let mut data = Vec::new();
    for (at, length) in data_runs(&file).unwrap() {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, at).unwrap();
        if at == 0 {
            bytes[..512].fill(0);
        }
        data.push((at, bytes));
    }
    data
}

//! What a mount must not accept, because it could not keep it: changes of a mount for reading, bytes without room, flags that XFS does not
//! have; and devices that take no writes.

use std::{
    fs::{self, File, OpenOptions},
    io::{Error, Write},
    os::fd::AsFd,
    process::{Command, Output},
    time::{Duration, Instant},
};

use rustix::{fs::IFlags, io::Errno};
use uxfs_testkit::{judges::Judge, loop_device::LoopDevice, require, sparse::Contents};

use crate::common::mount_place::{Place, succeeded};
use crate::common::{program, succeeds, text, uxfs};

fn host(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    succeeded(&output);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn errno(error: &Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// What is written to its device is held back: mount(2) can make it writable without asking.
#[test]
fn a_mount_for_reading_accepts_no_change_whatever_the_kernel_allows() {
    require!(Judge::XfsRepair);
    for options in ["ro", "ro,norecovery"] {
        let place = Place::new();
        succeeded(&place.mount(&[]));
        fs::write(place.file(), "contents").unwrap();
        place.unmount();
        let before = Contents::read(&place.image).unwrap();
        succeeded(&place.mount(&["-o", options]));
        // Without the helper.
        host("mount", &["-i", "-o", "remount,rw", text(&place.directory)]);
        let is_refused = |outcome: std::io::Result<()>, what: &str| {
            assert_eq!(outcome.map_err(|error| errno(&error)), Err(Some(Errno::ROFS)), "{options}: {what}");
        };
        is_refused(fs::write(place.file(), "new"), "write");
        is_refused(OpenOptions::new().append(true).open(place.file()).map(drop), "open");
        is_refused(fs::write(place.directory.join("other"), ""), "create");
        is_refused(fs::create_dir(place.directory.join("other")), "mkdir");
        is_refused(fs::remove_file(place.file()), "unlink");
        is_refused(fs::rename(place.file(), place.directory.join("other")), "rename");
        is_refused(fs::hard_link(place.file(), place.directory.join("other")), "link");
        is_refused(std::os::unix::fs::symlink("x", place.directory.join("other")), "symlink");
        is_refused(std::os::unix::fs::chown(place.file(), Some(1), None), "chown");
        let value = rustix::fs::setxattr(place.file(), "user.a", b"b", rustix::fs::XattrFlags::empty());
        is_refused(value.map_err(Error::from), "setxattr");
        let file = File::open(place.file()).unwrap();
        is_refused(rustix::fs::ioctl_setflags(&file, IFlags::NODUMP).map_err(Error::from), "chattr");
        drop(file);
        assert_eq!(fs::read(place.file()).unwrap(), b"contents");
        succeeds(&["umount", text(&place.directory)]);
        assert!(Contents::read(&place.image).unwrap() == before, "{options}: the image has changed");
    }
}

/// The kernel's cache takes bytes without asking whether there is room: a program that fills the disk must end all the same.
#[test]
fn a_program_that_fills_the_disk_ends() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.directory.join("ballast"), vec![1; 16 << 20]).unwrap();
    let mut file = File::create(place.file()).unwrap();
    let (chunk, begun) = (vec![7; 1 << 20], Instant::now());
    let mut written_mebibytes = 0;
    let error = loop {
        assert!(begun.elapsed() < Duration::from_secs(120), "it still writes after {written_mebibytes} MiB");
        match file.write_all(&chunk) {
            Ok(()) => written_mebibytes += 1,
            Err(error) => break error,
        }
        // What is cached is written; the error of that is told once, and is not the write's.
        if written_mebibytes % 64 == 0 {
            let _ = file.sync_data();
        }
    };
    assert_eq!(errno(&error), Some(Errno::NOSPC), "after {written_mebibytes} MiB");
    assert!((200..400).contains(&written_mebibytes), "{written_mebibytes} MiB");
    // Again and again, until there is room.
    assert_eq!(errno(&file.write_all(b"more").unwrap_err()), Some(Errno::NOSPC));
    assert!(fs::metadata(place.file()).is_ok());
    fs::remove_file(place.directory.join("ballast")).unwrap();
    let begun = Instant::now();
    while let Err(error) = file.write_all(b"more") {
        assert!(errno(&error) == Some(Errno::NOSPC) && begun.elapsed() < Duration::from_secs(20), "{error}");
    }
    // The errors of what was lost are told once more.
    let _ = file.sync_all();
    file.set_len(5).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(place.file()).unwrap(), [7; 5]);
    place.unmount();
}

#[test]
fn flags_of_other_file_systems_and_copies_to_what_is_fixed_are_refused() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    fs::write(place.directory.join("source"), vec![7; 65536]).unwrap();
    fs::write(place.file(), "contents").unwrap();
    let file = OpenOptions::new().read(true).write(true).open(place.file()).unwrap();
    for flag in [IFlags::COMPRESSED, IFlags::DIRSYNC, IFlags::TOPDIR] {
        assert_eq!(rustix::fs::ioctl_setflags(&file, flag), Err(Errno::OPNOTSUPP), "{flag:?}");
    }
    rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE).unwrap();
    let source = File::open(place.directory.join("source")).unwrap();
    let copied = rustix::fs::copy_file_range(source.as_fd(), None, file.as_fd(), None, 65536);
    assert_eq!(copied, Err(Errno::PERM));
    rustix::fs::ioctl_setflags(&file, IFlags::APPEND).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(&file, punch, 0, 4096), Err(Errno::PERM));
    rustix::fs::ioctl_setflags(&file, IFlags::empty()).unwrap();
    drop((file, source));
    assert_eq!(fs::read(place.file()).unwrap(), b"contents");
    place.unmount();
}

/// Its log is clean, and stays so.
#[test]
fn a_label_is_not_set_while_the_mount_takes_no_changes() {
    require!(Judge::XfsRepair, Judge::XfsIo);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    succeeded(&place.mount(&["-o", "remount,ro"]));
    let before = Contents::read(&place.image).unwrap();
    let mut label = Command::new("xfs_io");
    let output = label.args(["-r", "-c", "label -s new"]).arg(&place.directory).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("Read-only file system"), "{words}");
    assert!(Contents::read(&place.image).unwrap() == before, "the image has changed");
    place.unmount();
}

/// The rest of the file system is used on: nothing waits for its server.
#[test]
fn a_directory_that_is_mounted_twice_is_unmounted_at_once() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let (inside, twice) = (place.directory.join("inside"), place.folder.path().join("twice"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&twice).unwrap();
    host("mount", &["--bind", text(&inside), text(&twice)]);
    let begun = Instant::now();
    let output = uxfs(&["umount", text(&twice)]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && words.contains("still in use at"), "{words}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    fs::write(inside.join("file"), "contents").unwrap();
    place.unmount();
}

#[test]
fn a_block_device_is_mounted_for_changes_unless_it_takes_none() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    let mount = |device: &LoopDevice, options| {
        uxfs(&["mount", "-o", options, text(device.path()), text(&place.directory)])
    };
    let device = LoopDevice::attach(&place.image, &[]).unwrap();
    succeeded(&mount(&device, "rw"));
    fs::write(place.file(), "contents").unwrap();
    succeeds(&["umount", text(&place.directory)]);
    succeeded(&mount(&device, "ro"));
    assert_eq!(fs::read(place.file()).unwrap(), b"contents");
    succeeds(&["umount", text(&place.directory)]);
    host("blockdev", &["--setro", text(device.path())]);
    let is_refused = |output: Output, remedy| {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && words.contains("write-protected"), "{words}");
        assert!(words.contains(remedy), "{words}");
    };
    is_refused(mount(&device, "rw"), "-r mounts it for reading only");
    is_refused(uxfs(&["rm", text(device.path()), "/file"]), "uxfs copy");
    is_refused(uxfs(&["repair", text(device.path())]), "--dry-run");
    succeeded(&mount(&device, "ro"));
    succeeds(&["umount", text(&place.directory)]);
    host("blockdev", &["--setrw", text(device.path())]);
    drop(device);
    let device = LoopDevice::attach(&place.image, &["--read-only"]).unwrap();
    is_refused(mount(&device, "rw"), "-r mounts");
    drop(device);
    uxfs_testkit::verdict::repair_is_silent(&place.image).unwrap();
}

/// A limit that is lower than the server's own confines it all the same.
#[test]
fn a_limit_of_address_space_is_kept() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    let program = program();
    let line = format!(
        "ulimit -v {}; exec {program} mount {} {}",
        12 << 20,
        text(&place.image),
        text(&place.directory)
    );
    succeeded(&Command::new("bash").args(["-c", &line]).output().unwrap());
    fs::write(place.file(), "contents").unwrap();
    place.unmount();
}

#[test]
fn more_threads_than_a_process_may_have_are_refused() {
    let place = Place::new();
    let output = uxfs(&["check", "--memory", "1T", "-t", "65535", text(&place.image)]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && words.contains("from 1 to 1024"), "{words}");
    succeeds(&["check", "--memory", "1T", "-t", "1024", text(&place.image)]);
}

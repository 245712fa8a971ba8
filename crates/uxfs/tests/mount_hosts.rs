//! Mounts and what else on the machine is in play: wrappers of system calls, other mounts of the image, a server that has died, the host's
//! block size, damage that an earlier mount has left to recovery.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    loop_device::LoopDevice,
    mount::{Access, LoopMount},
    require,
    sparse::Contents,
    verdict::repair_is_silent,
};

use crate::common::mount_place;
use crate::common::mount_place::{KernelMount, Place, processes};
use crate::common::{host, program, succeeds, text, uxfs};

/// A command that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

fn is_mounted(place: &Place, options: &str) -> bool {
    place.mount(&["-o", options]).status.success()
}

fn is_refused(place: &Place, options: &str, words: &str) {
    let output = place.mount(&["-o", options]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{options}: {said}");
}

/// Its library asks for more of a mount than it is asked for.
#[test]
fn a_mount_under_fakeroot_does_not_wait_for_itself() {
    require!(Judge::XfsRepair, Judge::Fakeroot);
    let place = Place::new();
    let mut command = Command::new("fakeroot");
    command.args([program(), "mount"]).args([&place.image, &place.directory]);
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
        is_refused(&place, options, text(kernel.path()));
    }
    kernel.unmount().unwrap();
    assert!(is_mounted(&place, "ro"));
    place.unmount();
}

#[test]
fn direct_writes_that_the_host_does_not_take_are_refused() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    // The host may take them: then they are used.
    if is_mounted(&place, "direct") {
        fs::write(place.directory.join("file"), "contents").unwrap();
    } else {
        is_refused(&place, "direct", "mount it without direct");
        assert!(is_mounted(&place, "direct,ro"));
    }
    place.unmount();
}

#[test]
fn a_mount_whose_processes_have_died_is_unmounted_with_a_word() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    assert!(is_mounted(&place, "rw"));
    fs::write(place.directory.join("file"), "contents").unwrap();
    let processes = processes(&place.image);
    assert_eq!(processes.len(), 2);
    // At once: the one that mounted would take the mount away.
    assert!(Command::new("kill").arg("-9").args(&processes).status().unwrap().success());
    let begun = Instant::now();
    while !mount_place::processes(&place.image).is_empty() {
        assert!(begun.elapsed() < LONGEST);
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = uxfs(&["umount", text(&place.directory)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("its server had ended"), "{said}");
    assert!(is_mounted(&place, "rw"));
    place.unmount();
}

/// Of a group whose header is damaged nothing can be allocated. Reading needs none of it.
#[test]
fn a_damaged_header_of_a_group_leaves_the_image_to_readers() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    for header in ["agf 1", "agi 1", "agfl 1"] {
        let place = Place::new();
        assert!(is_mounted(&place, "rw"));
        fs::write(place.directory.join("file"), "contents").unwrap();
        place.unmount();
        let mut database = Command::new("xfs_db");
        let changed = database.args(["-x", "-c", header, "-c", "write -d magicnum 0"]);
        assert!(changed.arg(&place.image).stdout(Stdio::null()).status().unwrap().success());
        let before = Contents::read(&place.image).unwrap();
        is_refused(&place, "rw", "uxfs repair mends it");
        let output = place.mount(&["-o", "ro"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("its headers are damaged"), "{header}: {said}");
        assert_eq!(fs::read(place.directory.join("file")).unwrap(), b"contents");
        assert!(fs::write(place.directory.join("another"), "").is_err());
        is_refused(&place, "remount,rw", "what changes need is damaged");
        let output = uxfs(&["umount", text(&place.directory)]);
        assert!(output.status.success(), "{output:?}");
        assert!(Contents::read(&place.image).unwrap() == before, "{header}: the image has changed");
    }
}

fn set_in_superblock(image: &Path, field: &str, value: &str) {
    let write = format!("write -d {field} {value}");
    let changed =
        Command::new("xfs_db").args(["-x", "-c", "sb 0", "-c", &write]).arg(image).output().unwrap();
    assert!(changed.status.success(), "{changed:?}");
}

/// What Linux mounts for reading only, and what it does not mount: the kernel is asked.
#[test]
fn unknown_features_that_forbid_changes_leave_the_image_to_readers() {
    require!(Judge::XfsDb, Judge::XfsRepair, Judge::Kernel);
    let clean = Place::new();
    assert!(is_mounted(&clean, "rw"));
    fs::write(clean.directory.join("file"), "contents").unwrap();
    clean.unmount();
    let (dirty, expected) = dirty_place();
    for (place, field, value, is_dirty) in [
        (&clean, "features_ro_compat", "0x100f", false),
        (&dirty, "features_ro_compat", "0x100f", true),
        (&clean, "features_ro_compat", "0xf", false),
        (&clean, "features_log_incompat", "0x10", false),
        (&dirty, "features_ro_compat", "0xf", true),
        (&dirty, "features_log_incompat", "0x10", true),
    ] {
        set_in_superblock(&place.image, field, value);
        if value == "0xf" {
            continue;
        }
        let before = Contents::read(&place.image).unwrap();
        let output = place.mount(&[]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("-o ro mounts it"), "{output:?}");
        let is_shown = !is_dirty || field == "features_ro_compat";
        for options in ["ro", "ro,norecovery"] {
            if options == "ro" && !is_shown {
                let output = place.mount(&["-o", options]);
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.code() == Some(4) && said.contains("-o ro,norecovery"), "{said}");
                continue;
            }
            assert!(is_mounted(place, options), "{field}, {options}");
            if options == "ro" || !is_dirty {
                let shown = everything_in(&place.directory);
                assert!(if is_dirty { shown == expected } else { shown.contains("file f 8") }, "{shown}");
            }
            is_refused(place, "remount,rw", "it can only be read");
            succeeds(&["umount", text(&place.directory)]);
        }
        assert!(Contents::read(&place.image).unwrap() == before, "{field}: the image has changed");
        // Linux, on a copy: it recovers the log into the image.
        let copy = place.folder.path().join("copy");
        host("cp", &["--sparse=always", text(&place.image), text(&copy)]);
        let device = LoopDevice::attach(&copy, &[]).unwrap();
        let kernel = KernelMount::new(device.path(), "ro,nouuid");
        assert_eq!(kernel.is_some(), is_shown, "{field}");
        assert!(!is_dirty || kernel.is_none_or(|kernel| everything_in(kernel.path()) == expected));
        drop(device);
        fs::remove_file(copy).unwrap();
    }
}

/// A remedy that is named works, and there is one.
#[test]
fn what_cannot_be_mounted_at_all_has_a_remedy_that_works() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let place = Place::new();
    let image = text(&place.image);
    succeeds(&["mkdir", image, "/folder"]);
    let mut sound = vec![0; 512];
    File::open(&place.image).unwrap().read_exact_at(&mut sound, 0).unwrap();
    set_in_superblock(&place.image, "dblocks", "0xffffffffff");
    for options in ["rw", "ro", "ro,norecovery"] {
        let output = place.mount(&["-o", options]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("(uxfs repair mends it; uxfs ls --tolerant shows what can be read)"), "{said}");
    }
    assert!(String::from_utf8_lossy(&uxfs(&["ls", "--tolerant", image]).stdout).contains("folder"));

    let writable = File::options().write(true).open(&place.image).unwrap();
    writable.write_all_at(&sound, 0).unwrap();
    let ask = |commands: &[&str]| {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let output = Command::new("xfs_db").arg("-r").args(commands).arg(&place.image).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        said.split(['(', ')']).find_map(|word| word.trim().rsplit(' ').next()?.parse::<u64>().ok()).unwrap()
    };
    let log = ask(&["sb 0", "print logstart"]);
    let log_bytes = ask(&[&format!("convert fsblock {log} byte")]);
    writable.write_all_at(&[0x55; 1 << 20], log_bytes).unwrap();
    let output = place.mount(&["-o", "ro"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let remedy =
        "(uxfs repair makes a new log; -o ro,norecovery shows the image without what only the log has)";
    assert!(output.status.code() == Some(3) && said.contains(remedy), "{said}");
    assert!(is_mounted(&place, "ro,norecovery"));
    assert!(place.directory.join("folder").is_dir());
    succeeds(&["umount", text(&place.directory)]);
}

/// An inode that lies about its blocks cannot be freed: recovery cuts it off, as Linux does, and says so.
#[test]
fn damage_that_recovery_meets_is_told() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let place = Place::new();
    assert!(is_mounted(&place, "rw"));
    fs::write(place.directory.join("large"), vec![7; 4 << 20]).unwrap();
    place.unmount();
    let mut database = Command::new("xfs_db");
    let changed = database.args(["-x", "-c", "path /large", "-c", "write -d core.nblocks 99999999"]);
    assert!(changed.arg(&place.image).stdout(Stdio::null()).status().unwrap().success());
    assert!(is_mounted(&place, "rw"));
    // Its blocks are freed when it is closed: the removal is in the log before.
    let open = fs::File::open(place.directory.join("large")).unwrap();
    fs::remove_file(place.directory.join("large")).unwrap();
    fs::File::open(&place.directory).unwrap().sync_all().unwrap();
    drop(open);
    let _ = uxfs(&["umount", text(&place.directory)]);
    let output = place.mount(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("recovery met damage"), "{said}");
    succeeds(&["umount", text(&place.directory)]);
}

#[test]
fn remounting_changes_the_mount_that_is_meant_and_nothing_that_it_cannot() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    assert!(is_mounted(&place, "rw"));
    is_refused(&place, "remount,noatime", "give one of them");
    let other = place.folder.path().join("other");
    let output = uxfs(&["mount", "-o", "remount,ro", text(&other), text(&place.directory)]);
    assert!(!output.status.success());
    fs::write(place.directory.join("file"), "contents").unwrap();
    assert!(is_mounted(&place, "remount,ro"));
    assert!(fs::write(place.directory.join("file"), "other").is_err());
    place.unmount();
}

/// Contents and metadata of all files below a directory.
fn everything_in(directory: &Path) -> String {
    let script = "find . -printf '%P %y %s %m %U %G %T@ %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha256sum";
    let output = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn has_clean_log(image: &Path) -> bool {
    let output = Command::new("xfs_logprint").arg("-t").arg(image).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("state: <CLEAN>")
}

/// An image whose log this machine's kernel left dirty, and what its kernel makes of a copy.
fn dirty_place() -> (Place, String) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let (image, copy) = (folder.path().join("image"), folder.path().join("copy"));
    fs::create_dir(folder.path().join("mount")).unwrap();
    for path in [&image, &copy] {
        GoldenImage::dirty_log().unpack_to(path).unwrap();
    }
    let kernel = LoopMount::new(&copy, Access::ReadWrite).unwrap();
    let expected = everything_in(kernel.path());
    kernel.unmount().unwrap();
    fs::remove_file(copy).unwrap();
    (Place::of(folder, image), expected)
}

/// As Linux: a mount for reading recovers the log into the image, and writes nothing else.
#[test]
fn a_mount_for_reading_recovers_the_log_into_the_image() {
    require!(Judge::XfsLogprint, Judge::XfsRepair, Judge::Kernel);
    let (place, expected) = dirty_place();
    assert!(!has_clean_log(&place.image));
    assert!(is_mounted(&place, "ro"));
    assert_eq!(everything_in(&place.directory), expected);
    assert!(has_clean_log(&place.image), "while it is mounted");
    let recovered = Contents::read(&place.image).unwrap();
    assert_eq!(fs::write(place.directory.join("another"), "").unwrap_err().raw_os_error(), Some(30));
    place.unmount();
    assert!(Contents::read(&place.image).unwrap() == recovered, "the image has changed after recovery");
    let kernel = LoopMount::new(&place.image, Access::ReadOnly).unwrap();
    assert_eq!(everything_in(kernel.path()), expected);
    kernel.unmount().unwrap();
}

#[test]
fn a_mount_for_reading_takes_changes_once_it_is_remounted() {
    require!(Judge::XfsLogprint, Judge::XfsRepair, Judge::Kernel);
    let (dirty, _) = dirty_place();
    for place in [dirty, Place::new()] {
        assert!(is_mounted(&place, "ro"));
        let before = Contents::read(&place.image).unwrap();
        let large = vec![7; 3 << 20];
        for round in 0..2 {
            assert!(is_mounted(&place, "remount,rw"));
            fs::write(place.directory.join(format!("new-{round}")), &large).unwrap();
            assert!(!uxfs(&["ls", text(&place.image)]).status.success(), "another may read what changes");
            assert!(is_mounted(&place, "remount,ro"));
            assert!(fs::write(place.directory.join("another"), "").is_err());
            assert!(has_clean_log(&place.image));
        }
        assert!(Contents::read(&place.image).unwrap() != before);
        place.unmount();
        let kernel = LoopMount::new(&place.image, Access::ReadOnly).unwrap();
        assert!((0..2).all(|round| fs::read(kernel.join(format!("new-{round}"))).unwrap() == large));
        kernel.unmount().unwrap();
    }
}

/// Recovery and changes keep to images that may be written and that no other program reads.
#[test]
fn a_mount_for_reading_stays_so_where_the_image_must_not_change() {
    require!(Judge::XfsLogprint, Judge::XfsRepair, Judge::Kernel);
    let (place, expected) = dirty_place();
    let before = Contents::read(&place.image).unwrap();
    let is_untouched = |what: &str| {
        assert!(Contents::read(&place.image).unwrap() == before, "{what}: the image has changed");
    };
    assert!(is_mounted(&place, "ro,norecovery"));
    is_refused(&place, "remount,rw", "norecovery");
    succeeds(&["umount", text(&place.directory)]);
    is_untouched("norecovery");

    let device = LoopDevice::attach(&place.image, &["--read-only"]).unwrap();
    let arguments = |options| ["mount", "-o", options, text(device.path()), text(&place.directory)];
    succeeds(&arguments("ro"));
    assert_eq!(everything_in(&place.directory), expected, "recovered in memory");
    let output = uxfs(&arguments("remount,rw"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("cannot write the image"), "{words}");
    succeeds(&["umount", text(&place.directory)]);
    drop(device);
    is_untouched("write-protected");

    let reader = File::open(&place.image).unwrap();
    flock(&reader, FlockOperation::LockShared).unwrap();
    assert!(is_mounted(&place, "ro"));
    assert_eq!(everything_in(&place.directory), expected);
    is_refused(&place, "remount,rw", "another program has the image open");
    is_untouched("a reader");
    drop(reader);
    assert!(is_mounted(&place, "remount,rw"));
    fs::write(place.directory.join("new"), "contents").unwrap();
    place.unmount();
    assert!(has_clean_log(&place.image));
    let kernel = LoopMount::new(&place.image, Access::ReadOnly).unwrap();
    assert_eq!(fs::read(kernel.join("new")).unwrap(), b"contents");
    kernel.unmount().unwrap();
}

/// The kernel claims the device for the mount; the server has it open for writing.
#[test]
fn a_block_device_that_is_mounted_for_reading_is_recovered_and_takes_changes() {
    require!(Judge::XfsLogprint, Judge::XfsRepair, Judge::Kernel);
    let (place, expected) = dirty_place();
    let device = LoopDevice::attach(&place.image, &[]).unwrap();
    let arguments = |options| ["mount", "-o", options, text(device.path()), text(&place.directory)];
    succeeds(&arguments("ro"));
    assert_eq!(everything_in(&place.directory), expected);
    assert!(has_clean_log(device.path()));
    succeeds(&arguments("remount,rw"));
    fs::write(place.directory.join("new"), "contents").unwrap();
    succeeds(&["umount", text(&place.directory)]);
    drop(device);
    repair_is_silent(&place.image).unwrap();
    let kernel = LoopMount::new(&place.image, Access::ReadOnly).unwrap();
    assert_eq!(fs::read(kernel.join("new")).unwrap(), b"contents");
    kernel.unmount().unwrap();
}

#[test]
fn an_image_in_the_place_of_a_command_is_told_as_such() {
    let place = Place::new();
    let output = uxfs(&[text(&place.image), text(&place.directory), "-o", "rw"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("mount.fuse.uxfs"));
    assert_eq!(output.status.code(), Some(2));
}

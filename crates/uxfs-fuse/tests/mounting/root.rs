//! Mounts by root.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    mount::{MountFlags, UnmountFlags},
};
use uxfs_fuse::mounting::{
    MountError,
    device::FuseDevice,
    direct::{self, DirectError},
    kernel_limits::{KernelLimits, LimitError},
    mount,
    mounted::UnmountError,
    remount,
};
use uxfs_testkit::{judges::judged, loop_device::LoopDevice};

use super::{
    children::Ground,
    judges::{Need, have},
    scenarios::{self, entry_at, mounted, options},
    server::Server,
};

#[test]
fn root_mounts_and_unmounts() {
    if have(&[Need::Root], "root_mounts_and_unmounts") {
        scenarios::life(&Ground::new().path());
        judged("kernel", "a FUSE mount's life");
    }
}

#[test]
fn root_is_told_of_a_dead_mount() {
    if have(&[Need::Root], "root_is_told_of_a_dead_mount") {
        scenarios::dead(&Ground::new().path());
    }
}

#[test]
fn a_mount_that_is_dropped_stays_unless_it_is_to_go() {
    if !have(&[Need::Root], "a_mount_that_is_dropped_stays_unless_it_is_to_go") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    drop(mounted("image", &directory, ""));
    assert_eq!(entry_at(&directory), None);

    let mut mounted = mounted("image", &directory, "");
    mounted.set_unmounted_on_drop(false);
    drop(mounted);
    assert!(ground.is_mounted());
    direct::unmount(&directory, true).unwrap();
    assert!(matches!(direct::unmount(&directory, true), Err(DirectError::NotMounted(_))));
}

#[test]
fn unmounting_tells_what_is_in_its_way() {
    if !have(&[Need::Root], "unmounting_tells_what_is_in_its_way") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut mounted = mounted("image", &directory, "");
    let server = Server::start(mounted.take_device().unwrap());
    server.wait_for_init();

    let used = openat(CWD, &directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    assert!(matches!(mounted.unmount(false), Err(UnmountError::Direct(DirectError::Busy(_)))));

    rustix::mount::mount("none", &directory, "tmpfs", MountFlags::empty(), None).unwrap();
    assert!(matches!(mounted.unmount(true), Err(UnmountError::Covered(_))));
    rustix::mount::unmount(&directory, UnmountFlags::empty()).unwrap();

    mounted.unmount(true).unwrap();
    assert_eq!(entry_at(&directory), None);
    drop(used);
    assert_eq!(server.end(), Errno::NODEV);
}

#[test]
fn another_mount_in_its_place_is_left_alone() {
    if !have(&[Need::Root], "another_mount_in_its_place_is_left_alone") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut first = mounted("image", &directory, "");
    direct::unmount(&directory, true).unwrap();
    rustix::mount::mount("none", &directory, "tmpfs", MountFlags::empty(), None).unwrap();
    first.unmount(false).unwrap();
    assert_eq!(entry_at(&directory).unwrap().file_system_type, "tmpfs");
    direct::unmount(&directory, false).unwrap();
}

/// The kernel gives the numbers of a mount that has gone to the next one: the table shows the same.
#[test]
fn a_later_mount_of_the_same_image_is_left_alone() {
    if !have(&[Need::Root], "a_later_mount_of_the_same_image_is_left_alone") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut was_same = false;
    for is_lazy in [true, false, true, false] {
        let mut first = mounted("image", &directory, "");
        drop(first.take_device());
        direct::unmount(&directory, true).unwrap();
        let mut second = mounted("image", &directory, "");
        was_same |= second.entry().is_same_mount(first.entry());
        first.unmount(is_lazy).unwrap();
        assert!(entry_at(&directory).is_some_and(|entry| entry.is_same_mount(second.entry())));
        second.unmount(true).unwrap();
        assert_eq!(entry_at(&directory), None);
    }
    assert!(was_same, "otherwise this tests nothing: the kernel gave other numbers");
}

#[test]
fn a_remount_keeps_the_other_flags() {
    if !have(&[Need::Root], "a_remount_keeps_the_other_flags") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut mounted = mounted("image", &directory, "noexec,suid,noatime,sync");
    let server = Server::start(mounted.take_device().unwrap());
    server.wait_for_init();
    let before = entry_at(&directory).unwrap();
    assert_eq!(before.flags(), options("noexec,suid,noatime,sync").mount_flags());
    for list in ["remount,ro", "remount,rw"] {
        remount(&directory, &options(list)).unwrap();
        let after = entry_at(&directory).unwrap();
        assert_eq!(after.is_read_only(), options(list).is_read_only);
        assert_eq!(after.flags() - MountFlags::RDONLY, before.flags());
        let file = File::create(directory.join("file")).unwrap_err();
        let expected = if after.is_read_only() { Errno::ROFS } else { Errno::NOSYS };
        // Before it refuses, the kernel asks whether the file is there.
        assert!(
            [expected, Errno::NOSYS]
                .map(|error| error.raw_os_error())
                .contains(&file.raw_os_error().unwrap())
        );
    }
    assert!(matches!(
        mount(OsStr::new("image"), &directory, &options("remount")),
        Err(MountError::IsRemount)
    ));
    mounted.unmount(false).unwrap();
    assert!(matches!(
        remount(&directory, &options("remount,ro")),
        Err(MountError::Direct(DirectError::NotMounted(_)))
    ));
    assert_eq!(server.end(), Errno::NODEV);
}

#[test]
fn a_mount_can_wait_for_init() {
    if !have(&[Need::Root, Need::WaitingMount], "a_mount_can_wait_for_init") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let device = FuseDevice::open().unwrap();
    assert!(device.wait_for_init().unwrap());
    let server = Server::start(FuseDevice::from(rustix::io::fcntl_dupfd_cloexec(&device, 0).unwrap()));
    direct::mount(&device, OsStr::new("image"), &directory, &options(""), false).unwrap();
    drop(device);
    assert!(server.has_answered_init());
    direct::unmount(&directory, false).unwrap();
    assert_eq!(server.end(), Errno::NODEV);
    judged("kernel", "FUSE_DEV_IOC_SYNC_INIT");
}

#[test]
fn a_device_without_a_mount_cannot_be_connected() {
    if have(&[Need::Root], "a_device_without_a_mount_cannot_be_connected") {
        let error = FuseDevice::open().unwrap().connect_another().unwrap_err();
        assert!(error.to_string().ends_with("connected to the mount: Operation not permitted"), "{error}");
    }
}

#[test]
fn limits_of_the_kernel_are_set() {
    if !have(&[Need::Root], "limits_of_the_kernel_are_set") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut mounted = mounted("image", &directory, "");
    let server = Server::start(mounted.take_device().unwrap());
    server.wait_for_init();
    let number = mounted.device_number();
    check_limits(&number.to_string(), &LIMITS.set(number, mounted.is_block_device()));
    mounted.unmount(false).unwrap();
    assert_eq!(LIMITS.set(mounted.device_number(), false).len(), 3);
    assert_eq!(server.end(), Errno::NODEV);
}

const LIMITS: KernelLimits = KernelLimits {
    read_ahead_kibibytes: Some(2048),
    written_pages_percent: Some(30),
    is_strict: Some(false),
};

fn check_limits(name: &str, errors: &[LimitError]) {
    assert!(errors.is_empty(), "{errors:?}");
    let folder = Path::new("/sys/class/bdi").join(name);
    let value = |file: &str| fs::read_to_string(folder.join(file)).unwrap().trim().to_owned();
    assert_eq!(["read_ahead_kb", "max_ratio", "strict_limit"].map(value), ["2048", "30", "0"]);
}

#[test]
fn a_guardian_leaves_later_mounts_alone() {
    if !have(&[Need::Root], "a_guardian_leaves_later_mounts_alone") {
        return;
    }
    let ground = Ground::new();
    let directory = ground.path();
    let mut first = mounted("image", &directory, "auto_unmount");
    let server = Server::start(first.take_device().unwrap());
    server.wait_for_init();
    first.unmount(false).unwrap();
    assert_eq!(server.end(), Errno::NODEV);
    rustix::mount::mount("none", &directory, "tmpfs", MountFlags::empty(), None).unwrap();
    drop(first);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(entry_at(&directory).unwrap().file_system_type, "tmpfs");
}

#[test]
fn a_block_device_is_mounted_as_such() {
    if !have(&[Need::Root, Need::LoopDevice], "a_block_device_is_mounted_as_such") {
        return;
    }
    let (file, ground, second) = (tempfile::NamedTempFile::new().unwrap(), Ground::new(), Ground::new());
    file.as_file().set_len(1 << 20).unwrap();
    let device = LoopDevice::attach(file.path(), &[]).unwrap();
    let image = device.path();
    let directory = ground.path();
    let path = image.to_str().unwrap();
    let mut first = mounted(path, &directory, "ro");
    let server = Server::start(first.take_device().unwrap());
    server.wait_for_init();
    assert!(first.is_block_device());
    let entry = entry_at(&directory).unwrap();
    assert_eq!(entry.file_system_type, "fuseblk.uxfs");
    assert_eq!(entry.source, image);
    assert!(entry.file_system_options.contains("blksize=4096"), "{entry:?}");
    let number = first.device_number();
    assert_eq!(rustix::fs::makedev(number.major, number.minor), fs::metadata(image).unwrap().rdev());
    check_limits(&format!("{number}-fuseblk"), &LIMITS.set(number, true));

    let busy = mount(OsStr::new(path), &second.path(), &options("ro")).unwrap_err();
    assert!(matches!(&busy, MountError::Direct(DirectError::DeviceBusy(busy)) if busy == image), "{busy}");
    // With changes the server has claimed the device.
    for list in ["ro,nofuseblk", ""] {
        let mut plain = mounted(path, &second.path(), list);
        assert!(!plain.is_block_device(), "{list}");
        plain.unmount(true).unwrap();
    }

    // The kernel waits for the answer to DESTROY, which the server's thread gives.
    first.unmount(false).unwrap();
    assert_eq!(server.end(), Errno::NODEV);
    judged("kernel", "fuseblk");
}

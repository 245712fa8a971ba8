//! What happens to a mount, for root, for an ordinary user, and in a user namespace.

use std::{
    ffi::OsStr,
    fs,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
    time::Duration,
};

use rustix::io::Errno;
use uxfs_fuse::mounting::{
    MountError, direct,
    fusermount::FusermountError,
    mount,
    mount_point::{self, MountPointError},
    mount_table::{MountEntry, MountTable},
    mounted::Mounted,
    options::FuseMountOptions,
};

use super::server::Server;

pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

pub fn options(list: &str) -> FuseMountOptions {
    FuseMountOptions::parse(list).unwrap()
}

pub fn entry_at(directory: &Path) -> Option<MountEntry> {
    MountTable::read().unwrap().at(directory).cloned()
}

/// Mounts, with a guard against whatever fails later.
pub fn mounted(image: &str, directory: &Path, list: &str) -> Mounted {
    let mut mounted =
        mount(OsStr::new(image), directory, &options(list)).unwrap_or_else(|error| panic!("{error}"));
    mounted.set_unmounted_on_drop(true);
    mounted
}

/// Mounts, serves, unmounts.
pub fn life(directory: &Path) {
    let mut mounted = mounted(r"/images/a, b\.img", directory, "noexec,max_read=65536");
    assert_eq!(mounted.is_direct(), direct::may_mount());
    assert_eq!(mounted.mount_point(), directory);
    assert!(mounted.warnings().is_empty(), "{}", mounted.warnings());
    let device = mounted.take_device().unwrap();
    let another = device.connect_another().unwrap();
    let server = Server::start(device);
    assert!(server.wait_for_init() >= 31);

    let entry = entry_at(directory).unwrap();
    assert_eq!((entry.file_system_type.as_str(), entry.device), ("fuse.uxfs", mounted.device_number()));
    assert_eq!(entry.source, r"/images/a, b\.img");
    let has = |option: &str| {
        let mut all = entry.mount_options.split(',').chain(entry.file_system_options.split(','));
        assert!(all.any(|found| found == option), "{option} of {entry:?}");
    };
    ["rw", "nosuid", "nodev", "noexec", "default_permissions", "max_read=65536"].into_iter().for_each(has);
    // The server tells the mode, the kernel the device.
    let root = fs::metadata(directory).unwrap();
    let number = mounted.device_number();
    assert_eq!((root.mode(), root.dev()), (0o040_755, rustix::fs::makedev(number.major, number.minor)));
    assert_eq!(
        fs::metadata(directory.join("file")).unwrap_err().raw_os_error(),
        Some(Errno::NOSYS.raw_os_error())
    );

    mounted.unmount(false).unwrap_or_else(|error| panic!("{error}"));
    assert!(mounted.wait_until_gone(PATIENCE).unwrap());
    assert_eq!(entry_at(directory), None);
    assert_eq!(server.end(), Errno::NODEV);
    assert_eq!(rustix::io::read(another.as_fd(), &mut [0; 128 << 10]), Err(Errno::NODEV));
    mounted.unmount(false).expect("a mount that has gone is fine");
}

/// A server ends without unmounting: that is told, and a lazy unmount helps.
pub fn dead(directory: &Path) {
    let mut mounted = mounted("image", directory, "");
    drop(mounted.take_device());
    assert!(matches!(mount_point::check(directory), Err(MountPointError::Dead(path)) if path == directory));
    let error = mount(OsStr::new("image"), directory, &options("")).unwrap_err();
    assert!(matches!(error, MountError::MountPoint(MountPointError::Dead(_))), "{error}");
    mounted.unmount(true).unwrap();
    assert_eq!(mount_point::check(directory).unwrap(), directory);
}

/// The process ends without unmounting, but with `auto_unmount`.
pub fn abandoned(directory: &Path) {
    let mut mounted = mounted("image", directory, "auto_unmount");
    assert_eq!(mounted.is_direct(), direct::may_mount());
    let server = Server::start(mounted.take_device().unwrap());
    server.wait_for_init();
    assert!(entry_at(directory).is_some());
    std::process::exit(0);
}

/// What fusermount3 says reaches the user.
pub fn refused(directory: &Path) {
    let mounted = mounted("image", directory, "suid,dev");
    let warnings = mounted.warnings();
    assert!(warnings.contains("suid") && warnings.contains("dev"), "{warnings}");
    drop(mounted);
    assert_eq!(entry_at(directory), None);

    let error = mount(OsStr::new("image"), Path::new("/"), &options("")).unwrap_err();
    assert!(matches!(error, MountError::Fusermount(FusermountError::Refused { .. })), "{error}");
    assert!(error.to_string().starts_with("fusermount3: "), "{error}");
    let permits_others = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if !permits_others.lines().any(|line| line.trim() == "user_allow_other") {
        let error = mount(OsStr::new("image"), directory, &options("allow_other")).unwrap_err();
        assert!(error.to_string().contains("user_allow_other"), "{error}");
    }
}

/// Root of a user namespace that has no mounts of its own.
pub fn no_way(directory: &Path) {
    let error = mount(OsStr::new("image"), directory, &options("")).unwrap_err();
    assert!(matches!(error, MountError::NeitherWay(_)), "{error}");
    let remounting = uxfs_fuse::mounting::remount(Path::new("/"), &options("remount,ro")).unwrap_err();
    assert!(
        matches!(remounting, MountError::Direct(direct::DirectError::RemountNotPermitted)),
        "{remounting}"
    );
}

use std::{ffi::OsStr, io, num::NonZeroU16, os::fd::AsFd};

use proptest::prelude::*;
use rustix::{
    mount::MountFlags,
    process::{Gid, Uid},
};

use super::{kernel::MountOwner, *};

fn parsed(list: &str) -> FuseMountOptions {
    FuseMountOptions::parse(list).unwrap()
}

fn changed(change: impl FnOnce(&mut FuseMountOptions)) -> FuseMountOptions {
    let mut options = FuseMountOptions::default();
    change(&mut options);
    options
}

fn refusal(list: &str) -> String {
    FuseMountOptions::parse(list).unwrap_err().to_string()
}

#[test]
fn each_flag_sets_its_option() {
    let table: Vec<(&str, FuseMountOptions)> = vec![
        ("", FuseMountOptions::default()),
        ("ro", changed(|o| (o.is_read_only, o.says_access) = (true, true))),
        ("remount", changed(|o| o.is_remount = true)),
        ("norecovery", changed(|o| o.ignores_log = true)),
        ("allow_other", changed(|o| o.allows_other_users = Some(true))),
        ("no_allow_other", changed(|o| o.allows_other_users = Some(false))),
        ("suid", changed(|o| o.allows_set_user_id = true)),
        ("allow_suid", changed(|o| o.allows_set_user_id = true)),
        ("dev", changed(|o| o.allows_devices = true)),
        ("allow_dev", changed(|o| o.allows_devices = true)),
        ("noexec", changed(|o| o.allows_programs = false)),
        ("noatime", changed(|o| o.access_times = AccessTimes::Never)),
        ("strictatime", changed(|o| o.access_times = AccessTimes::Always)),
        ("nodiratime", changed(|o| o.has_directory_access_times = false)),
        ("lazytime", changed(|o| o.has_lazy_times = true)),
        ("sync", changed(|o| o.is_synchronous = true)),
        ("dirsync", changed(|o| o.has_synchronous_directories = true)),
        ("direct", changed(|o| o.has_direct_image_io = true)),
        ("debug", changed(|o| o.log_level = Level::Debug)),
        ("log=error", changed(|o| o.log_level = Level::Error)),
        ("log=info", changed(|o| o.log_level = Level::Info)),
        ("writeback_cache", changed(|o| o.has_writeback_cache = Some(true))),
        ("no_writeback_cache", changed(|o| o.has_writeback_cache = Some(false))),
        ("uring", changed(|o| o.has_ring = Some(true))),
        ("nouring", changed(|o| o.has_ring = Some(false))),
        ("auto_unmount", changed(|o| o.has_automatic_unmount = true)),
        ("nofuseblk", changed(|o| o.may_claim_block_device = false)),
    ];
    for (list, expected) in table {
        assert_eq!(parsed(list), expected, "{list}");
    }
}

#[test]
fn each_key_takes_its_value() {
    let table: Vec<(&str, FuseMountOptions)> = vec![
        ("uid=0,gid=4294967294", {
            changed(|o| o.shown_owner = ShownOwner { user_id: Some(0), group_id: Some(u32::MAX - 1) })
        }),
        ("uid=root,gid=root", {
            changed(|o| o.shown_owner = ShownOwner { user_id: Some(0), group_id: Some(0) })
        }),
        ("commit=5", changed(|o| o.commit_interval = Some(Duration::from_secs(5)))),
        ("commit=5,commit=0", FuseMountOptions::default()),
        ("cache=64M", changed(|o| o.cache_size_bytes = Some(64 << 20))),
        ("offset=1048576", changed(|o| o.offset_bytes = Some(1 << 20))),
        ("partition=2", changed(|o| o.partition = Some("2".to_owned()))),
        ("max_read=131072", changed(|o| o.max_read_bytes = Some(131_072))),
        (r"fsname=a\,b", changed(|o| o.source_name = Some("a,b".to_owned()))),
        ("subtype=other", changed(|o| o.subtype = "other".to_owned())),
        ("threads=8", changed(|o| o.threads = NonZeroU16::new(8))),
    ];
    for (list, expected) in table {
        assert_eq!(parsed(list), expected, "{list}");
    }
}

#[test]
fn the_last_of_contradicting_words_wins() {
    for list in [
        "ro,rw",
        "suid,nosuid",
        "dev,nodev",
        // mount(8) puts its own words first.
        "nosuid,allow_suid",
        "allow_suid,nosuid",
        "nodev,allow_dev",
        "noexec,exec",
        "noatime,relatime",
        "strictatime,atime",
        "nodiratime,diratime",
        "lazytime,nolazytime",
        "sync,async",
        "nofuseblk,fuseblk",
        "subtype=a,subtype=uxfs",
    ] {
        let expected = FuseMountOptions { says_access: list == "ro,rw", ..FuseMountOptions::default() };
        assert_eq!(parsed(list), expected, "{list}");
    }
    assert!(parsed("rw,ro").is_read_only);
    assert_eq!(parsed("uid=1,uid=2").shown_owner.user_id, Some(2));
    let mut options = parsed("ro,noexec");
    options.apply("rw").unwrap();
    assert!(!options.is_read_only && !options.allows_programs);
}

#[test]
fn words_for_other_programs_are_ignored() {
    let fstab = "defaults,auto,noauto,user,users,nouser,owner,group,nofail,_netdev,x-systemd.automount,x-gvfs-name=a,\
        X-mount.mkdir=0755,comment=mine,loop,loop=/dev/loop3,user=anna";
    assert_eq!(parsed(fstab), FuseMountOptions::default());
    // A line of /etc/fstab that was for the kernel's XFS.
    let of_xfs = "defaults,inode64,nouuid,logbufs=8,logbsize=256k,noquota,discard,swalloc,allocsize=64m,sunit=128,swidth=256";
    assert_eq!(parsed(of_xfs), FuseMountOptions::default());
    assert_eq!(parsed("wsync"), parsed("dirsync"));
    // As a remount gives back what the table of mounts says.
    let table = "rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,blksize=4096";
    assert_eq!(parsed(table), FuseMountOptions { says_access: true, ..FuseMountOptions::default() });
}

#[test]
fn errors_name_the_word() {
    for (list, message) in [
        ("ro,frobnicate,rw", "unknown mount option `frobnicate`"),
        ("logbuf=8", "unknown mount option `logbuf=8`"),
        (" ro", "unknown mount option ` ro`"),
        ("=", "unknown mount option `=`"),
        ("ro=1", "mount option `ro` takes no value, but `1` was given"),
        ("uid", "mount option `uid` needs a value: uid=VALUE"),
        ("fsname=", "mount option `fsname` needs a value: fsname=VALUE"),
        (
            "uid=4294967295",
            "mount option `uid=4294967295`: the value must be a number from 0 to 4294967294, or a name in /etc/passwd",
        ),
        ("threads=0", "mount option `threads=0`: the value must be a number from 1 to 1024"),
        ("threads=100000", "mount option `threads=100000`: the value must be a number from 1 to 1024"),
        (
            "gid=no such group",
            "mount option `gid=no such group`: the value must be a number from 0 to 4294967294, or a name in /etc/group",
        ),
        ("commit=-1", "mount option `commit=-1`: the value must be a number from 0 to 86400"),
        ("cache=lots", "mount option `cache=lots`: the value must be a size such as 4096, 64K, 256M or 1G"),
        ("cache=1", "mount option `cache=1`: the value must be 1M or more, such as 256M"),
        ("uquota", "mount option `uquota` is not supported: uxfs enforces no quotas"),
        (
            "logdev=/dev/sdb",
            "mount option `logdev` is not supported: the log and all data must lie in the image",
        ),
        (
            "allow_root",
            "mount option `allow_root` is not supported: the kernel cannot let in root alone (use allow_other, or mount as \
             root)",
        ),
        ("mand", "mount option `mand` is not supported: Linux has no mandatory locks any more"),
    ] {
        assert_eq!(refusal(list), message);
    }
}

#[test]
fn options_become_flags_of_the_kernel() {
    let usual = MountFlags::NOSUID | MountFlags::NODEV;
    for (list, flags) in [
        ("", usual | MountFlags::RELATIME),
        ("ro,noexec,noatime", { usual | MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NOATIME }),
        ("suid,dev,strictatime,nodiratime", MountFlags::STRICTATIME | MountFlags::NODIRATIME),
        ("sync,dirsync,lazytime", {
            usual
                | MountFlags::RELATIME
                | MountFlags::SYNCHRONOUS
                | MountFlags::DIRSYNC
                | MountFlags::LAZYTIME
        }),
    ] {
        assert_eq!(parsed(list).mount_flags(), flags, "{list}");
    }
}

#[test]
fn options_become_data_of_the_kernel() {
    let owner = MountOwner { user: Uid::from_raw(7), group: Gid::from_raw(8) };
    let input = io::stdin();
    for (list, is_block_device, expected) in [
        ("", false, "default_permissions,allow_other,max_read=524288"),
        ("no_allow_other,max_read=65536", false, "default_permissions,max_read=65536"),
        ("", true, "default_permissions,allow_other,max_read=524288,blksize=4096"),
    ] {
        let data = parsed(list).kernel_data(input.as_fd(), owner, is_block_device);
        assert_eq!(data.to_str().unwrap(), format!("fd=0,rootmode=40000,user_id=7,group_id=8,{expected}"));
    }
    assert_eq!(parsed("").file_system_type(false), "fuse.uxfs");
    assert_eq!(parsed("").file_system_type(true), "fuseblk.uxfs");
}

#[test]
fn options_become_a_list_for_fusermount() {
    for (list, image, expected) in [
        ("", "/a b.img", "default_permissions,max_read=524288,subtype=uxfs,fsname=/a b.img"),
        (
            "ro,noexec,noatime,allow_other,max_read=4096,uid=5,lazytime,threads=3",
            "a,b\\c",
            r"default_permissions,ro,noexec,noatime,allow_other,max_read=4096,subtype=uxfs,fsname=a\,b\\c",
        ),
        ("fsname=x,subtype=y,auto_unmount", "i", "default_permissions,max_read=524288,subtype=y,fsname=x"),
        ("", "", "default_permissions,max_read=524288,subtype=uxfs,fsname=uxfs"),
    ] {
        assert_eq!(parsed(list).fusermount_list(OsStr::new(image)), *expected, "{list}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(list in ".{0,200}") {
        let _ = FuseMountOptions::parse(&list);
    }

    #[test]
    fn no_mixture_of_words_makes_the_parser_panic(
        list in r"((ro|uid|cache|fsname|threads|commit|x-|allow_root|\\|=|,|[0-9]{1,25}|[KMGT]|[äΩ]){0,20})"
    ) {
        let _ = FuseMountOptions::parse(&list);
    }

    #[test]
    fn any_source_name_comes_back(name in ".{1,50}") {
        let list = format!("fsname={}", name.replace('\\', r"\\").replace(',', r"\,"));
        prop_assert_eq!(parsed(&list).source_name, Some(name));
    }

    #[test]
    fn any_image_stands_in_the_list_for_fusermount(image in ".{1,50}") {
        let list = FuseMountOptions::default().fusermount_list(OsStr::new(&image));
        let list = list.into_string().unwrap();
        prop_assert_eq!(parsed(&list).source_name, Some(image));
    }
}

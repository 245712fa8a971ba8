//! Changes that take set-id bits away: which bits go, and that nothing is lost while the kernel writes back what another one wrote before.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt, chown},
    path::Path,
    sync::Arc,
    thread,
};

use rustix::{
    fs::{FallocateFlags, copy_file_range, fallocate},
    process::{Gid, Uid, getegid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use uxfs_fuse::protocol::{
    flags::WriteFlags,
    request::{Operation, Request},
};

use uxfs_testkit::{
    image::{self, memory_folder},
    mount::{Access, LoopMount},
};

use super::{
    Judge, Served, require,
    slow::{DELAY, Slow},
};

const USER: u32 = 1000;
const GROUP: u32 = 2000;

fn takes_set_id(request: &Request<'_>) -> bool {
    matches!(&request.operation, Operation::Write(write) if write.write_flags.contains(WriteFlags::KILL_SET_ID))
}

/// Linux 6.18 zeroes what lies behind the old end of the file in a page that it writes back, and so what a write past its cache put there.
#[test]
fn a_write_that_takes_set_id_is_not_lost_to_writeback() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let slow = |server| Slow { server, is_slow: takes_set_id, lent: Arc::default() };
    let closed = Served::new("set-id", 300).used_and_closed("allow_other,nouring", slow, |root| {
        let path = root.join("file");
        let file = File::create_new(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
        file.write_all_at(&[5; 100], 0).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Of this thread alone.
                set_thread_res_uid(Uid::from_raw(USER), Uid::from_raw(USER), Uid::ROOT).unwrap();
                File::options().write(true).open(&path).unwrap().write_all_at(&[7; 50], 200).unwrap();
            });
            thread::sleep(DELAY / 2);
            // Unlike fsync(2) it does not wait for the other write.
            rustix::fs::syncfs(&file).unwrap();
        });
        let mut expected = vec![5; 100];
        expected.extend([0; 100]);
        expected.extend([7; 50]);
        assert_eq!(fs::read(&path).unwrap(), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o777);
    });
    closed.unwrap();
}

/// Users that change a file of [`GROUP`]: name, user, first group, further groups.
const CALLERS: [(&str, u32, u32, &[u32]); 4] = [
    ("member", USER, GROUP, &[]),
    ("stranger", USER, USER, &[]),
    (BY_FURTHER_GROUP, USER, USER, &[GROUP]),
    ("root", 0, 0, &[]),
];
/// FUSE tells the first group of a caller alone.
const BY_FURTHER_GROUP: &str = "member by a further group";

type Change = fn(&Path);

/// Opens a file for writing.
fn opened(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

const CHANGES: [(&str, Change); 9] = [
    ("write", |path| opened(path).write_all_at(b"x", 10).unwrap()),
    ("truncate", |path| opened(path).set_len(5).unwrap()),
    ("truncate to the same size", |path| opened(path).set_len(fs::metadata(path).unwrap().len()).unwrap()),
    ("O_TRUNC", |path| drop(File::create(path).unwrap())),
    ("allocate", |path| fallocate(opened(path), FallocateFlags::empty(), 0, 1 << 16).unwrap()),
    ("punch", |path| {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(opened(path), flags, 0, 4096).unwrap();
    }),
    ("zero", |path| fallocate(opened(path), FallocateFlags::ZERO_RANGE, 0, 4096).unwrap()),
    ("copy_file_range", |path| {
        let source = File::open(path.with_file_name("source")).unwrap();
        assert_eq!(copy_file_range(source, None, opened(path), None, 100).unwrap(), 100);
    }),
    ("chown", |path| chown(path, None, Some(getegid().as_raw())).unwrap()),
];

/// The mode before a change, the change, its caller, and the mode after it.
type Found = (u32, &'static str, &'static str, u32);

fn modes_after_changes(root: &Path) -> Vec<Found> {
    let path = root.join("changed");
    fs::write(root.join("source"), [1; 100]).unwrap();
    fs::write(&path, "contents of a file").unwrap();
    let mut found = Vec::new();
    for mode in [0o2666, 0o2676, 0o4666, 0o6666, 0o6777] {
        for ((change, make), (caller, user, group, groups)) in
            CHANGES.iter().flat_map(|change| CALLERS.map(|caller| (*change, caller)))
        {
            chown(&path, Some(USER), Some(GROUP)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            thread::scope(|scope| {
                // Of this thread alone.
                scope.spawn(|| {
                    let groups: Vec<_> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
                    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
                    set_thread_groups(&groups).unwrap();
                    set_thread_res_gid(group, group, group).unwrap();
                    set_thread_res_uid(user, user, Uid::ROOT).unwrap();
                    make(&path);
                });
            });
            let after = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            found.push((mode, change, caller, after));
        }
    }
    found
}

/// What a mount is to show where Linux shows this. Set-group-ID without group execute goes where it is not known that the caller is a member of
/// the group. Before a write, an allocation and a copy the kernel, which knows all groups, asks for it only where a bit must go.
fn of_a_mount((before, change, caller, after): Found) -> Found {
    let is_asked = before & 0o4000 != 0
        || matches!(change, "truncate" | "truncate to the same size" | "O_TRUNC" | "chown");
    let is_lost = caller == BY_FURTHER_GROUP && is_asked;
    (before, change, caller, if is_lost { after & !0o2000 } else { after })
}

#[test]
fn set_id_bits_go_as_on_linux() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    image::make(&image, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    fs::set_permissions(mount.path(), Permissions::from_mode(0o755)).unwrap();
    let expected: Vec<_> = modes_after_changes(mount.path()).into_iter().map(of_a_mount).collect();
    mount.unmount().unwrap();
    for options in ["allow_other", "allow_other,no_writeback_cache"] {
        Served::new("set-id-modes", 300).used(options, |root| {
            let differences: Vec<_> = modes_after_changes(root)
                .into_iter()
                .zip(&expected)
                .filter(|(found, expected)| found != *expected)
                .map(|(found, expected)| {
                    format!(
                        "{options}: {:o} {} {} {:o}, not {:o}",
                        found.0, found.1, found.2, found.3, expected.3
                    )
                })
                .collect();
            assert_eq!(differences, [""; 0]);
        });
    }
}

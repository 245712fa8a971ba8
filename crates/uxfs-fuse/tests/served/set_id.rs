//! Writes that take set-id bits away, while the kernel writes back what another one wrote before.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt, chown},
    path::Path,
    sync::Arc,
    thread,
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    process::{Gid, Uid},
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

/// The mode after each kind of change, by a member of the file's group and by a stranger.
fn modes_after_changes(root: &Path) -> Vec<(u32, &'static str, u32, u32)> {
    type Change = fn(&File);
    let changes: [(&str, Change); 5] = [
        ("write", |file| file.write_all_at(b"x", 10).unwrap()),
        ("truncate", |file| file.set_len(5).unwrap()),
        ("allocate", |file| fallocate(file, FallocateFlags::empty(), 0, 1 << 16).unwrap()),
        ("punch", |file| {
            fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096).unwrap();
        }),
        ("zero", |file| fallocate(file, FallocateFlags::ZERO_RANGE, 0, 4096).unwrap()),
    ];
    let path = root.join("changed");
    fs::write(&path, "contents of a file").unwrap();
    chown(&path, None, Some(GROUP)).unwrap();
    let mut found = Vec::new();
    for mode in [0o2666, 0o2676, 0o4666, 0o6666, 0o6777] {
        for (name, change) in changes {
            for group in [GROUP, USER] {
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let (user, group) = (Uid::from_raw(USER), Gid::from_raw(group));
                        set_thread_groups(&[]).unwrap();
                        set_thread_res_gid(group, group, group).unwrap();
                        set_thread_res_uid(user, user, Uid::ROOT).unwrap();
                        change(&File::options().write(true).open(&path).unwrap());
                    });
                });
                let after = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
                found.push((mode, name, group, after));
            }
        }
    }
    found
}

#[test]
fn set_id_bits_go_as_on_linux() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    image::make(&image, 300 << 20, &[]).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    fs::set_permissions(mount.path(), Permissions::from_mode(0o755)).unwrap();
    let expected = modes_after_changes(mount.path());
    mount.unmount().unwrap();
    Served::new("set-id-modes", 300)
        .used("allow_other", |root| assert_eq!(modes_after_changes(root), expected));
}

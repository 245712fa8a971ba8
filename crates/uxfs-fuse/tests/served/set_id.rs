//! Writes that take set-id bits away, while the kernel writes back what another one wrote before.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
    sync::Arc,
    thread,
};

use rustix::{process::Uid, thread::set_thread_res_uid};
use uxfs_fuse::protocol::{
    flags::WriteFlags,
    request::{Operation, Request},
};

use super::{
    Judge, Served, require,
    slow::{DELAY, Slow},
};

const USER: u32 = 1000;

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

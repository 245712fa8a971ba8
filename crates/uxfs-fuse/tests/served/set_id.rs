//! Writes that take set-id bits away, while the kernel writes back what another one wrote before.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
    sync::Barrier,
    thread,
};

use rustix::{process::Uid, thread::set_thread_res_uid};

use super::{Judge, Served, require};

const ROUNDS: u32 = 400;
const USER: u32 = 1000;

/// Linux 6.18 zeroes what lies behind the old end of the file in a page that it writes back, and so what a write past its cache put there.
#[test]
fn a_write_that_takes_set_id_is_not_lost_to_writeback() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    Served::new("set-id", 300).used("allow_other", |root| {
        let path = root.join("file");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let user_file = File::options().write(true).open(&path).unwrap();
        let (begin, end) = (Barrier::new(3), Barrier::new(3));
        // A panic would leave the others at a barrier.
        let mut wrong = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                // Of this thread alone.
                set_thread_res_uid(Uid::from_raw(USER), Uid::from_raw(USER), Uid::ROOT).unwrap();
                for _ in 0..ROUNDS {
                    begin.wait();
                    user_file.write_all_at(&[7; 50], 200).unwrap();
                    end.wait();
                }
            });
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    begin.wait();
                    file.sync_data().unwrap();
                    end.wait();
                }
            });
            for round in 0..ROUNDS {
                file.set_len(0).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
                file.write_all_at(&[5; 100], 0).unwrap();
                begin.wait();
                end.wait();
                let mut expected = vec![5; 100];
                expected.extend([0; 100]);
                expected.extend([7; 50]);
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
                if fs::read(&path).unwrap() != expected || mode != 0o777 {
                    wrong.push(round);
                }
            }
        });
        assert_eq!(wrong, Vec::<u32>::new());
    });
}

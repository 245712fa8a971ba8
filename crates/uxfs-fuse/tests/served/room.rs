//! Room that comes back later than a program expects.

use std::{
    fs::{self, File},
    io::Write,
};

use super::{
    Judge, Served, require,
    slow::{Slow, forgets},
};

const MEBIBYTE: usize = 1 << 20;

/// The kernel tells that it has forgotten a file beside all other requests: what is written next may come before that.
#[test]
fn a_file_that_was_removed_makes_room_for_the_next_write() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for options in ["nouring", "nouring,no_writeback_cache"] {
        let served = Served::new("room", 300);
        let slow = |server| Slow { server, is_slow: forgets, lent: std::sync::Arc::default() };
        let closed = served.used_and_closed(options, slow, |root| {
            let free = rustix::fs::statvfs(root).unwrap();
            let ballast = (free.f_bavail * free.f_bsize) as usize - 12 * MEBIBYTE;
            fs::write(root.join("ballast"), vec![1; ballast]).unwrap();
            for round in 0..20 {
                let path = root.join(format!("file-{round}"));
                let mut file = File::create_new(&path).unwrap();
                file.write_all(&vec![7; 8 * MEBIBYTE]).unwrap();
                file.sync_all().unwrap();
                drop(file);
                fs::remove_file(&path).unwrap();
            }
        });
        closed.unwrap();
        served.image.must_be_sound();
    }
}

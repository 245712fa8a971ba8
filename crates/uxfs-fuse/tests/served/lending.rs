//! Long reads, whose data go from the image to the kernel through a pipe.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use rustix::fs::OFlags;

use super::{Judge, Served, all_ways, require, slow::Slow};

const MEBIBYTE: usize = 1 << 20;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 4096 * 7 + index % 251) as u8).collect()
}

fn synced(path: &Path, bytes: &[u8], at: u64) {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

/// Each read is a request: the kernel caches nothing of it.
fn direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

fn read_at(file: &File, at: usize, length: usize) -> Vec<u8> {
    let (mut bytes, mut done) = (vec![0xaa; length], 0);
    while done < length {
        match file.read_at(&mut bytes[done..], (at + done) as u64).unwrap() {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    bytes
}

#[test]
fn long_reads_give_what_was_written() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        let (served, lent) = (Served::new("lending", 300), Arc::new(AtomicU64::new(0)));
        let wrap = |server| Slow { server, is_slow: |_| false, lent: Arc::clone(&lent) };
        let usage = |root: &Path| {
            let whole = pattern(3 * MEBIBYTE + 777);
            synced(&root.join("whole"), &whole, 0);
            let mut holed = pattern(3 * MEBIBYTE);
            holed[MEBIBYTE..2 * MEBIBYTE].fill(0);
            synced(&root.join("holed"), &holed[..MEBIBYTE], 0);
            synced(&root.join("holed"), &holed[2 * MEBIBYTE..], 2 * MEBIBYTE as u64);
            for (name, bytes) in [("whole", &whole), ("holed", &holed)] {
                let file = direct(&root.join(name));
                for at in [0, 1, 4095, 4096, 300_000, MEBIBYTE - 512, 2 * MEBIBYTE + 3] {
                    for length in [1, 65_535, 65_536, 66_000, 524_288, 700_001, 4 * MEBIBYTE] {
                        let expected = &bytes[at..(at + length).min(bytes.len())];
                        assert!(read_at(&file, at, length) == expected, "{options}: {name} {at} {length}");
                    }
                }
                assert!(fs::read(root.join(name)).unwrap() == *bytes, "{options}: {name}");
            }
        };
        served.used_and_closed(options, wrap, usage).unwrap();
        served.image.must_be_sound();
        let lent = lent.load(Ordering::Relaxed);
        assert!(
            if options == "uring" { lent == 0 } else { lent > 20 },
            "{options}: {lent} replies were lent"
        );
    });
}

/// Pages that are lent belong to the file until they have been copied: blocks that it gives up meanwhile have another file's bytes at once.
#[test]
fn a_read_shows_no_other_files_bytes() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    const ROUNDS: usize = 80;
    // The other file soon needs the blocks that are given up.
    let served = Served::new("lending-races", 300);
    served.used("nouring", |root| {
        let (file, other) = (root.join("file"), root.join("other"));
        let free = rustix::fs::statvfs(root).unwrap();
        let filler = (free.f_bavail * free.f_bsize) as usize - 12 * MEBIBYTE;
        synced(&root.join("filler"), &vec![b'f'; filler], 0);
        synced(&file, &vec![b'a'; 8 * MEBIBYTE], 0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let reader = direct(&file);
                    while !is_over.load(Ordering::Relaxed) {
                        let bytes = read_at(&reader, 0, 8 * MEBIBYTE);
                        let strange = bytes.iter().find(|byte| !matches!(byte, 0 | b'a'));
                        assert_eq!(strange, None);
                    }
                });
            }
            for _ in 0..ROUNDS {
                OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap();
                synced(&other, &vec![b'b'; 8 * MEBIBYTE], 0);
                fs::remove_file(&other).unwrap();
                synced(&file, &vec![b'a'; 8 * MEBIBYTE], 0);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
    served.image.must_be_sound();
}

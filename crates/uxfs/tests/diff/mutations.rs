//! Random changes of a tree, through the kernel's mount.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use uxfs_testkit::seeds::Random;

use super::random_tree::access_list;

/// Kinds of changes.
pub const KINDS: u64 = 16;

pub struct Mutator<'r> {
    pub random: &'r mut Random,
    pub root: PathBuf,
    /// Paths below the root that were there.
    pub made: Vec<Vec<u8>>,
}

impl Mutator<'_> {
    fn full(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// A file that is still there and fits.
    fn pick(&mut self, fits: impl Fn(&fs::Metadata) -> bool) -> Option<PathBuf> {
        for _ in 0..60 {
            let index = self.random.index(self.made.len());
            let path = self.full(&self.made[index]);
            if path.symlink_metadata().is_ok_and(|found| fits(&found)) {
                return Some(path);
            }
        }
        None
    }

    /// Makes a change of a kind, where a file fits.
    pub fn change(&mut self, kind: u64) {
        let regular = |found: &fs::Metadata| found.is_file() && found.len() > 0;
        let plain = |found: &fs::Metadata| found.is_file() || found.is_dir();
        let any = |_: &fs::Metadata| true;
        let single = |found: &fs::Metadata| !found.is_dir();
        let path = match kind {
            0 | 1 | 13 => self.pick(regular),
            2 => self.pick(|found| !found.is_symlink()),
            4 | 5 => self.pick(plain),
            7 => self.pick(fs::Metadata::is_symlink),
            8 => self.pick(single),
            12 => self.pick(|found| found.is_file() && found.nlink() > 1),
            14 => self.pick(|found| found.rdev() != 0),
            _ => self.pick(any),
        };
        if let Some(path) = path {
            self.change_file(kind, &path);
        }
    }

    fn change_file(&mut self, kind: u64, path: &Path) {
        let found = path.symlink_metadata().unwrap();
        match kind {
            0 => self.flip(path, found.len()),
            1 => zeros(path, self.random.below(found.len())),
            2 => {
                let mode = self.random.below(0o10000) as u32;
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            3 => {
                lchown(path, Some(self.random.below(3) as u32), Some(self.random.below(3) as u32)).unwrap();
            }
            4 => self.attribute(path),
            5 => self.list(path),
            6 => {
                let time =
                    Timespec { tv_sec: found.mtime(), tv_nsec: (found.mtime_nsec() + 1) % 1_000_000_000 };
                set_time(path, &found, time);
            }
            7 => {
                fs::remove_file(path).unwrap();
                symlink(format!("to/{}", self.random.below(1000)), path).unwrap();
            }
            8 => {
                fs::remove_file(path).unwrap();
                match self.random.below(3) {
                    0 => fs::create_dir(path).unwrap(),
                    1 => symlink("elsewhere", path).unwrap(),
                    _ => fs::write(path, "plain").unwrap(),
                }
            }
            9 | 15 => {
                let new = path.with_file_name(format!("new-{}", self.random.below(50)));
                if new.symlink_metadata().is_err() {
                    match kind {
                        9 => fs::write(new, "new").unwrap(),
                        _ => fs::create_dir_all(new.join("below/that")).unwrap(),
                    }
                }
            }
            10 => match found.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            },
            11 => {
                let new = path.with_file_name(format!("moved-{}", self.random.below(50)));
                if new.symlink_metadata().is_err() {
                    fs::rename(path, new).unwrap();
                }
            }
            12 => {
                let copy = path.with_file_name("copy-of-a-link");
                let status = Command::new("cp").arg("-a").args([path, &copy]).status().unwrap();
                assert!(status.success());
                fs::rename(copy, path).unwrap();
            }
            13 => {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(found.len() / 2).unwrap();
            }
            _ => {
                let kind = FileType::from_raw_mode(found.mode());
                fs::remove_file(path).unwrap();
                let device = rustix::fs::makedev(9, self.random.below(1000) as u32);
                rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), device).unwrap();
            }
        }
    }

    /// Another byte, and the time as it was.
    fn flip(&mut self, path: &Path, length: u64) {
        let found = path.symlink_metadata().unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let place = self.random.below(length);
        let mut byte = [0];
        file.read_exact_at(&mut byte, place).unwrap();
        file.write_all_at(&[byte[0] ^ 1], place).unwrap();
        restore(path, &found);
    }

    fn attribute(&mut self, path: &Path) {
        let name = format!("user.name-{}", self.random.below(5));
        match self.random.below(3) {
            0 => drop(rustix::fs::lremovexattr(path, name)),
            _ => {
                let value = vec![b'w'; self.random.index(20)];
                rustix::fs::lsetxattr(path, name, &value, XattrFlags::empty()).unwrap();
            }
        }
    }

    fn list(&mut self, path: &Path) {
        let name = "system.posix_acl_access";
        match self.random.below(3) {
            0 => drop(rustix::fs::lremovexattr(path, name)),
            _ => {
                let list = access_list(self.random.below(4) as u32);
                rustix::fs::lsetxattr(path, name, &list, XattrFlags::empty()).unwrap();
            }
        }
    }
}

/// Zeros are written where there are zeros already, perhaps in a hole: nothing differs.
fn zeros(path: &Path, place: u64) {
    let found = path.symlink_metadata().unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; 5000];
    let length = file.read_at(&mut bytes, place).unwrap();
    if bytes.iter().all(|byte| *byte == 0) {
        file.write_all_at(&bytes[..length], place).unwrap();
    }
    restore(path, &found);
}

fn restore(path: &Path, found: &fs::Metadata) {
    set_time(path, found, Timespec { tv_sec: found.mtime(), tv_nsec: found.mtime_nsec() });
    fs::set_permissions(path, found.permissions()).unwrap();
}

fn set_time(path: &Path, found: &fs::Metadata, time: Timespec) {
    let access = Timespec { tv_sec: found.atime(), tv_nsec: found.atime_nsec() };
    let times = Timestamps { last_access: access, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

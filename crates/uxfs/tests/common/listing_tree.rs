//! Random trees, written through the kernel's mount, for commands that are judged by GNU's tools in that mount.
#![allow(dead_code, clippy::unwrap_used)] // Each test file is a crate of its own and uses a part.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, PermissionsExt, chown, lchown, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, SystemTime},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
    seeds::Random,
};

/// Which names a tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Letters, digits and signs that are no special ones anywhere.
    Plain,
    /// Any bytes, also ends of lines, signs of patterns and what is not UTF-8.
    Wild,
}

/// An image with a random tree, mounted by the kernel for reading.
pub struct RandomTree {
    pub folder: TempDir,
    pub image: PathBuf,
    pub mount: LoopMount,
    /// Paths of all files in the directory `tree`.
    pub paths: Vec<Vec<u8>>,
    pub directories: Vec<Vec<u8>>,
}

impl RandomTree {
    pub fn new(random: &mut Random, names: Names, files: usize) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-tree-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 320 << 20, &[]).unwrap();
        let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
        let (paths, directories) = Writer { root: &mount.join("tree"), random, names }.write(files);
        mount.unmount().unwrap();
        let mount = LoopMount::new(&path, Access::ReadOnly).unwrap();
        Self { folder, image: path, mount, paths, directories }
    }

    /// Runs the command on the image, as the judge runs.
    pub fn ours(&self, arguments: &[OsString]) -> Output {
        plainly(Command::new(env!("CARGO_BIN_EXE_uxfs")).args(arguments))
    }

    /// Runs a judge in the mount.
    pub fn judge(&self, program: &str, arguments: &[OsString]) -> Output {
        plainly(Command::new(program).args(arguments).current_dir(self.mount.path()))
    }

    pub fn finish(self) {
        self.mount.unmount().unwrap();
    }
}

/// In the C locale and universal time, without what a user has set.
fn plainly(command: &mut Command) -> Output {
    command
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env_remove("COLUMNS")
        .env_remove("LS_COLORS")
        .output()
        .unwrap()
}

struct Writer<'a> {
    root: &'a Path,
    random: &'a mut Random,
    names: Names,
}

impl Writer<'_> {
    fn write(&mut self, files: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        self.people();
        let mut directories = vec![Vec::new()];
        let mut paths: Vec<Vec<u8>> = Vec::new();
        for _ in 0..files {
            let above = directories[self.random.index(directories.len())].clone();
            let name = self.name();
            let path = if above.is_empty() { name } else { [&above[..], b"/", &name].concat() };
            let full = self.root.join(OsStr::from_bytes(&path));
            if full.symlink_metadata().is_ok() || path.len() > 900 {
                continue;
            }
            match self.random.below(16) {
                0..4 if directories.len() < 60 => {
                    fs::create_dir(&full).unwrap();
                    directories.push(path.clone());
                }
                4 | 5 => self.link(&full, &paths),
                6 => self.special(&full),
                7 if !paths.is_empty() => {
                    let other = self.root.join(OsStr::from_bytes(&paths[self.random.index(paths.len())]));
                    if !other.is_dir() || other.is_symlink() {
                        let _ = fs::hard_link(other, &full);
                    }
                }
                _ => self.file(&full),
            }
            if full.symlink_metadata().is_ok() {
                self.metadata(&full);
                paths.push(path);
            }
        }
        // Directories got their times from what was made in them.
        for directory in &directories {
            self.times(&self.root.join(OsStr::from_bytes(directory)));
        }
        (paths, directories)
    }

    /// The host's, so that a judge knows the same names.
    fn people(&self) {
        fs::create_dir(self.root).unwrap();
        let top = self.root.parent().unwrap();
        fs::create_dir(top.join("etc")).unwrap();
        for list in ["etc/passwd", "etc/group"] {
            fs::copy(Path::new("/").join(list), top.join(list)).unwrap();
        }
    }

    fn name(&mut self) -> Vec<u8> {
        const STEMS: [&str; 16] = [
            "a", "b", "ab", "file", "x", "Data", "img", "v1", "v10", "v2", "lib-1", "lib-12", "00", "7",
            "zz", "README",
        ];
        const ENDS: [&str; 14] =
            ["", "", "", ".txt", ".tar", ".gz", ".c", ".1", ".10", ".2.0", "~", ".jpg", "-x", ".TXT"];
        if self.names == Names::Wild && self.random.below(3) == 0 {
            const BYTES: &[u8] = b"ab.*?[]!-^\\ \n\t'\"$#~\xff\xc3\xa9\x80z09A,{}";
            let length = 1 + self.random.index(6);
            let name: Vec<u8> = (0..length).map(|_| BYTES[self.random.index(BYTES.len())]).collect();
            return if matches!(&name[..], b"." | b"..") { b"dots".to_vec() } else { name };
        }
        let dot = if self.random.below(8) == 0 { "." } else { "" };
        let stem = STEMS[self.random.index(STEMS.len())];
        let end = ENDS[self.random.index(ENDS.len())];
        let number =
            if self.random.below(2) == 0 { self.random.below(120).to_string() } else { String::new() };
        format!("{dot}{stem}{number}{end}").into_bytes()
    }

    fn file(&mut self, path: &Path) {
        let file = fs::File::create(path).unwrap();
        match self.random.below(6) {
            0 => {}
            1 => file.write_all_at(b"end", self.random.below(3 << 20)).unwrap(),
            2 => file.set_len(self.random.below(1 << 34)).unwrap(),
            3 => {
                let length = self.random.below(60_000) as usize;
                file.write_all_at(&vec![b'x'; length], 0).unwrap();
            }
            _ => file.write_all_at(&vec![b'y'; self.random.index(1200)], 0).unwrap(),
        }
    }

    fn link(&mut self, path: &Path, paths: &[Vec<u8>]) {
        let up = path.strip_prefix(self.root).unwrap().components().count() - 1;
        let target = match self.random.below(4) {
            0 => b"nowhere/at all".to_vec(),
            1 => b".".to_vec(),
            _ if paths.is_empty() => b"..".to_vec(),
            _ => [b"../".repeat(up), paths[self.random.index(paths.len())].clone()].concat(),
        };
        symlink(OsString::from_vec(target), path).unwrap();
    }

    fn special(&mut self, path: &Path) {
        let kind = [FileType::Fifo, FileType::Socket, FileType::CharacterDevice, FileType::BlockDevice]
            [self.random.index(4)];
        let device = rustix::fs::makedev(self.random.below(300) as u32, self.random.below(70_000) as u32);
        let device = if matches!(kind, FileType::Fifo | FileType::Socket) { 0 } else { device };
        mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), device).unwrap();
    }

    fn metadata(&mut self, path: &Path) {
        const OWNERS: [u32; 6] = [0, 0, 1, 33, 65_534, 123_456];
        let owners = [OWNERS[self.random.index(6)], OWNERS[self.random.index(6)]];
        if path.is_symlink() {
            lchown(path, Some(owners[0]), Some(owners[1])).unwrap();
        } else {
            chown(path, Some(owners[0]), Some(owners[1])).unwrap();
            let mode = match self.random.below(4) {
                0 => self.random.below(0o10000) as u32,
                1 => 0o755,
                _ => 0o644,
            };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        if !path.is_symlink() && self.random.below(12) == 0 {
            self.attribute(path);
        }
        self.times(path);
    }

    fn attribute(&mut self, path: &Path) {
        let none = rustix::fs::XattrFlags::empty();
        match self.random.below(3) {
            // Version 2: owner rwx, user 33 r, group r, mask rx, others none.
            0 => {
                let entry = |tag: u16, permissions: u16, id: u32| {
                    [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
                };
                let anyone = u32::MAX;
                let list = [
                    2_u32.to_le_bytes().to_vec(),
                    entry(1, 7, anyone),
                    entry(2, 4, 33),
                    entry(4, 4, anyone),
                    entry(16, 5, anyone),
                    entry(32, 0, anyone),
                ];
                rustix::fs::setxattr(path, "system.posix_acl_access", &list.concat(), none).unwrap();
            }
            1 => {
                let context = b"system_u:object_r:etc_t:s0\0";
                rustix::fs::setxattr(path, "security.selinux", context, none).unwrap();
            }
            _ if path.is_file() || path.is_dir() => {
                rustix::fs::setxattr(path, "user.note", b"some text", none).unwrap();
            }
            _ => {}
        }
    }

    fn times(&mut self, path: &Path) {
        use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        let mut moment = || {
            let seconds = match self.random.below(5) {
                0 => now - self.random.below(15_000_000) as i64,
                1 => now + 1_000_000 + self.random.below(1 << 30) as i64,
                // Some are equal.
                2 => 1_000_000_000 + self.random.below(3) as i64,
                _ => self.random.below(now as u64) as i64,
            };
            Timespec { tv_sec: seconds, tv_nsec: self.random.below(1_000_000_000) as i64 }
        };
        let times = Timestamps { last_access: moment(), last_modification: moment() };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// Words as arguments.
pub fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A time that is too long for one test.
pub fn is_late(began: SystemTime) -> bool {
    began.elapsed().is_ok_and(|elapsed| elapsed > Duration::from_secs(15))
}

//! Random trees, written through the kernel's mount: odd names, modes, owners, times, sizes, links, special files and attributes.
#![allow(dead_code, clippy::unwrap_used)] // Each test file is a crate of its own and uses a part.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileExt, PermissionsExt, chown, lchown, symlink},
        },
    },
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use tempfile::TempDir;
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
    seeds::Random,
};

/// Bytes of names: those that patterns, formats, shells and terminals take for something else, and some of no encoding.
const NAME_BYTES: &[u8] = b"abcABC019 *?[]!\\\n\t\"'-.{}()+^$%\xff\xc3\xa9\x80";

/// An image with a random tree, mounted for reading by the kernel.
pub struct RandomTree {
    folder: TempDir,
    pub mount: LoopMount,
    /// Paths below the mount, as `./a/b`.
    pub paths: Vec<PathBuf>,
    /// Seconds since 1970 when it was begun, and half a minute behind a full one.
    pub began: i64,
}

impl RandomTree {
    /// Makes an image by these options, and fills it.
    pub fn new(random: &mut Random, options: &[&str], files: usize) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-tree-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 320 << 20, options).unwrap();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
        let mut filler =
            Filler { random, root: mount.path().to_owned(), began, directories: vec![PathBuf::new()] };
        filler.fill(files);
        mount.unmount().unwrap();
        let mount = LoopMount::new(&path, Access::ReadOnly).unwrap();
        let paths = paths(mount.path());
        Self { folder, mount, paths, began }
    }

    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// What a program of the host prints in the root of the mount, in universal time and the C locale.
    pub fn host(&self, program: &str, words: &[OsString]) -> Vec<u8> {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.mount.path()).env("LC_ALL", "C").env("TZ", "UTC");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {told}");
        output.stdout
    }

    /// What the command prints for the image: `words` come behind it.
    pub fn uxfs(&self, command: &str, words: &[OsString]) -> Vec<u8> {
        let mut uxfs = Command::new(env!("CARGO_BIN_EXE_uxfs"));
        uxfs.arg(command).arg(self.image()).args(words);
        let output = uxfs.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && told.is_empty(), "uxfs {command} {words:?}: {told}");
        output.stdout
    }
}

/// Records that end with a zero byte, sorted.
pub fn records(bytes: &[u8]) -> Vec<String> {
    let mut records: Vec<_> =
        bytes.split(|byte| *byte == 0).map(|record| record.escape_ascii().to_string()).collect();
    records.sort();
    records
}

fn paths(root: &Path) -> Vec<PathBuf> {
    let output = Command::new("find").args([".", "-print0"]).current_dir(root).output().unwrap();
    let records = output.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records.map(|record| PathBuf::from(OsStr::from_bytes(record))).collect()
}

/// A random name.
pub fn name(random: &mut Random) -> OsString {
    loop {
        let length = if random.below(30) == 0 { 255 } else { 1 + random.index(9) };
        let name: Vec<u8> = (0..length).map(|_| NAME_BYTES[random.index(NAME_BYTES.len())]).collect();
        if !matches!(name.as_slice(), b"." | b"..") {
            return OsString::from_vec(name);
        }
    }
}

/// Owners of files: with names on the host, and without.
pub const IDS: [u32; 6] = [0, 1, 2, 1000, 54_321, 4_294_967_294];

struct Filler<'r> {
    random: &'r mut Random,
    root: PathBuf,
    began: i64,
    directories: Vec<PathBuf>,
}

impl Filler<'_> {
    fn fill(&mut self, files: usize) {
        // Owners have the names that the judge knows them by.
        fs::create_dir(self.root.join("etc")).unwrap();
        for list in ["passwd", "group"] {
            fs::copy(Path::new("/etc").join(list), self.root.join("etc").join(list)).unwrap();
        }
        self.deep();
        let mut regular: Vec<PathBuf> = Vec::new();
        for _ in 0..files {
            let above = self.directories[self.random.index(self.directories.len())].clone();
            let path = above.join(name(self.random));
            let full = self.root.join(&path);
            if full.as_os_str().len() > 3000 || full.symlink_metadata().is_ok() {
                continue;
            }
            match self.random.below(14) {
                0..3 => {
                    fs::create_dir(&full).unwrap();
                    self.directories.push(path.clone());
                }
                3 => symlink(name(self.random), &full).unwrap(),
                4 if !regular.is_empty() => {
                    let first = &regular[self.random.index(regular.len())];
                    fs::hard_link(self.root.join(first), &full).unwrap();
                }
                5 => self.special(&full),
                _ => {
                    self.regular(&full);
                    regular.push(path.clone());
                }
            }
            self.dress(&full);
        }
        // Names were added to directories meanwhile.
        let lists = ["etc/passwd", "etc/group", "etc"].map(PathBuf::from);
        for path in self.directories.clone().into_iter().chain(lists) {
            self.times(&self.root.join(path));
        }
    }

    fn special(&mut self, path: &Path) {
        let (kind, device) = match self.random.below(4) {
            0 => (FileType::Fifo, 0),
            1 => (FileType::Socket, 0),
            2 => (FileType::CharacterDevice, rustix::fs::makedev(5, self.random.below(300) as u32)),
            _ => (FileType::BlockDevice, rustix::fs::makedev(300, 7)),
        };
        rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), device).unwrap();
    }

    fn regular(&mut self, path: &Path) {
        let file = File::create(path).unwrap();
        let length = match self.random.below(6) {
            0 => 0,
            1 => self.random.below(10),
            2 => 512 * self.random.below(9),
            3 => self.random.below(100_000),
            _ => self.random.below(5000),
        };
        file.write_all_at(&vec![b'x'; length as usize], 0).unwrap();
        if self.random.below(8) == 0 {
            // A hole, and perhaps data behind it.
            file.set_len(length + self.random.below(1 << 32)).unwrap();
            if self.random.below(2) == 0 {
                file.write_all_at(b"end", 3 << 20).unwrap();
            }
        }
    }

    /// Owner, mode, attributes and times.
    fn dress(&mut self, path: &Path) {
        let kind = path.symlink_metadata().unwrap().file_type();
        let mut id = || IDS[self.random.index(IDS.len())];
        let (user, group) = (id(), id());
        lchown(path, Some(user), Some(group)).unwrap();
        if !kind.is_symlink() {
            chown(path, Some(user), Some(group)).unwrap();
            let mode = match self.random.below(3) {
                0 => self.random.below(0o10000) as u32,
                _ => [0o644, 0o755, 0o600, 0o4755, 0o2750, 0o1777][self.random.index(6)],
            };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        if (kind.is_file() || kind.is_dir()) && self.random.below(6) == 0 {
            for _ in 0..=self.random.below(3) {
                let space = ["user", "trusted"][self.random.index(2)];
                let name = format!("{space}.name-{}", self.random.below(5));
                let value = vec![b'v'; self.random.index(3000)];
                rustix::fs::lsetxattr(path, name.as_str(), &value, XattrFlags::empty()).unwrap();
            }
        }
        if (kind.is_file() || kind.is_dir()) && self.random.below(12) == 0 {
            // Version 2; owner, user 1000, group, mask and others.
            let entries =
                [(1, 6, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)];
            let mut list = 2_u32.to_le_bytes().to_vec();
            for (tag, permissions, id) in entries {
                list.extend(u16::to_le_bytes(tag));
                list.extend(u16::to_le_bytes(permissions));
                list.extend(u32::to_le_bytes(id));
            }
            rustix::fs::lsetxattr(path, "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
        }
        self.times(path);
    }

    fn times(&mut self, path: &Path) {
        let mut time = || {
            let seconds = match self.random.below(8) {
                0 => -(self.random.below(2_000_000_000).cast_signed()),
                1 => 2_000_000_000 + self.random.below(10_000_000_000).cast_signed(),
                // Half a minute behind a full one: ages do not change while the test runs.
                2..5 => self.began - 30 - 60 * self.random.below(300).cast_signed(),
                _ => self.began - 30 - 3600 * self.random.below(24 * 30).cast_signed(),
            };
            let nanoseconds = if self.random.below(2) == 0 { 0 } else { self.random.below(1_000_000_000) };
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ }
        };
        let times = Timestamps { last_access: time(), last_modification: time() };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    /// Directories whose path is longer than any system call takes.
    fn deep(&self) {
        let open = |directory: &OwnedFd, name: &str| {
            rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755)).unwrap();
            rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        let root = rustix::fs::open(&self.root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut directories = vec![open(&root, "deep")];
        for level in 0..100 {
            let next = open(&directories[level], &format!("{level:03}-{}", "d".repeat(60)));
            directories.push(next);
        }
        // GNU find takes files of the last second for files of the future.
        let time = Timespec { tv_sec: self.began - 90, tv_nsec: 0 };
        for directory in directories {
            rustix::fs::futimens(directory, &Timestamps { last_access: time, last_modification: time })
                .unwrap();
        }
    }
}

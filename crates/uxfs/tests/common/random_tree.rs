//! Random trees, written through the kernel's mount, for commands that are judged by other tools in that mount: odd names, modes, owners,
//! times, sizes, links, special files and attributes.

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
    process::{Command, Output},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use tempfile::TempDir;
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
    seeds::Random,
};

use crate::common::program;

/// Which names a tree has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Letters, digits and signs that are no special ones anywhere.
    Plain,
    /// Some of any bytes, also ends of lines, signs of patterns and what is not UTF-8.
    Wild,
    /// All of such bytes, up to the longest; and directories whose path is longer than any system call takes, in `deep`.
    Any,
}

/// What a tree is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'o> {
    /// Of mkfs.xfs.
    pub options: &'o [&'o str],
    pub names: Names,
    /// How many files are tried.
    pub files: usize,
    /// Longest hole.
    pub hole_bytes: u64,
}

impl Shape<'static> {
    pub fn of(names: Names, files: usize) -> Self {
        Self { options: &[], names, files, hole_bytes: 1 << 33 }
    }
}

/// An image with a random tree in the directory `tree`, mounted for reading by the kernel.
pub struct RandomTree {
    pub folder: TempDir,
    pub mount: LoopMount,
    /// All paths below the mount, as `./a/b`.
    pub paths: Vec<PathBuf>,
    /// What was made in `tree`, as paths from there.
    pub made: Vec<Vec<u8>>,
    /// The directories of these; the first is `tree` itself.
    pub directories: Vec<Vec<u8>>,
    /// Seconds since 1970 when it was begun; times of files are half a minute behind a full one.
    pub began: i64,
}

impl RandomTree {
    /// Makes an image, and fills it.
    pub fn new(random: &mut Random, shape: &Shape<'_>) -> Self {
        let folder = TempDir::with_prefix_in("uxfs-tree-", image::memory_folder()).unwrap();
        let path = folder.path().join("image");
        image::make(&path, 320 << 20, shape.options).unwrap();
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
        let mut filler = Filler {
            random,
            shape,
            root: mount.join("tree"),
            began,
            directories: vec![Vec::new()],
            made: Vec::new(),
        };
        filler.fill();
        let Filler { directories, made, .. } = filler;
        mount.unmount().unwrap();
        let mount = LoopMount::new(&path, Access::ReadOnly).unwrap();
        let paths = paths(mount.path());
        Self { folder, mount, paths, made, directories, began }
    }

    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// With other contents, which are written to a mount.
    pub fn changed(self, change: impl FnOnce(&LoopMount, &[Vec<u8>])) -> Self {
        let path = self.image();
        let Self { folder, mount, made, directories, began, .. } = self;
        mount.unmount().unwrap();
        let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
        change(&mount, &made);
        mount.unmount().unwrap();
        let mount = LoopMount::new(&path, Access::ReadOnly).unwrap();
        let paths = paths(mount.path());
        Self { folder, mount, paths, made, directories, began }
    }

    /// Runs the command, as [`judge`](Self::judge) runs.
    pub fn ours(&self, arguments: &[OsString]) -> Output {
        plainly(Command::new(program()).args(arguments))
    }

    /// Runs a program of the host in the root of the mount.
    pub fn judge(&self, program: &str, arguments: &[OsString]) -> Output {
        plainly(Command::new(program).args(arguments).current_dir(self.mount.path()))
    }

    /// What a program of the host prints, which must succeed.
    pub fn host(&self, program: &str, words: &[OsString]) -> Vec<u8> {
        let output = self.judge(program, words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {told}");
        output.stdout
    }

    /// What a command prints for the image: `words` come behind it.
    pub fn uxfs(&self, command: &str, words: &[OsString]) -> Vec<u8> {
        let output = self.ours(&[&[command.into(), self.image().into_os_string()], words].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && told.is_empty(), "uxfs {command} {words:?}: {told}");
        output.stdout
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

/// Records that end with a zero byte, sorted.
pub fn records(bytes: &[u8]) -> Vec<String> {
    let mut records: Vec<_> =
        bytes.split(|byte| *byte == 0).map(|record| record.escape_ascii().to_string()).collect();
    records.sort();
    records
}

/// Words as arguments.
pub fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A time that is too long for one test.
pub fn is_late(began: SystemTime) -> bool {
    began.elapsed().is_ok_and(|elapsed| elapsed > Duration::from_secs(15))
}

fn paths(root: &Path) -> Vec<PathBuf> {
    let output = Command::new("find").args([".", "-print0"]).current_dir(root).output().unwrap();
    let records = output.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    records.map(|record| PathBuf::from(OsStr::from_bytes(record))).collect()
}

/// Owners of files: with names on the host, and without.
pub const IDS: [u32; 8] = [0, 0, 1, 33, 1000, 54_321, 65_534, 4_294_967_294];

struct Filler<'r> {
    random: &'r mut Random,
    shape: &'r Shape<'r>,
    root: PathBuf,
    began: i64,
    directories: Vec<Vec<u8>>,
    made: Vec<Vec<u8>>,
}

impl Filler<'_> {
    fn fill(&mut self) {
        self.people();
        if self.shape.names == Names::Any {
            self.deep();
        }
        let (most_directories, most_bytes) = match self.shape.names {
            Names::Any => (usize::MAX, 2900),
            Names::Plain | Names::Wild => (60, 900),
        };
        for _ in 0..self.shape.files {
            let above = self.directories[self.random.index(self.directories.len())].clone();
            let name = self.name();
            let path = if above.is_empty() { name } else { [&above[..], b"/", &name].concat() };
            let full = self.root.join(OsStr::from_bytes(&path));
            if full.symlink_metadata().is_ok() || path.len() > most_bytes {
                continue;
            }
            match self.random.below(15) {
                0..3 if self.directories.len() < most_directories => {
                    fs::create_dir(&full).unwrap();
                    self.directories.push(path.clone());
                }
                3 | 4 => self.link(&full),
                5 => self.special(&full),
                6 if !self.made.is_empty() => {
                    let other = &self.made[self.random.index(self.made.len())];
                    let other = self.root.join(OsStr::from_bytes(other));
                    if !other.is_dir() || other.is_symlink() {
                        fs::hard_link(other, &full).unwrap();
                    }
                }
                _ => self.regular(&full),
            }
            if full.symlink_metadata().is_ok() {
                self.dress(&full);
                self.made.push(path);
            }
        }
        // Names were added to directories meanwhile.
        for path in self.directories.clone() {
            self.times(&self.root.join(OsStr::from_bytes(&path)));
        }
    }

    /// Owners have the names that a judge knows them by.
    fn people(&mut self) {
        fs::create_dir(&self.root).unwrap();
        let etc = self.root.parent().unwrap().join("etc");
        fs::create_dir(&etc).unwrap();
        for list in ["passwd", "group"] {
            fs::copy(Path::new("/etc").join(list), etc.join(list)).unwrap();
            self.times(&etc.join(list));
        }
        self.times(&etc);
    }

    fn name(&mut self) -> Vec<u8> {
        match self.shape.names {
            Names::Any => self.any_name(),
            Names::Wild if self.random.below(3) == 0 => self.short_name(),
            Names::Plain | Names::Wild => self.plain_name(),
        }
    }

    /// Of bytes that patterns, formats, shells and terminals take for something else, and some of no encoding.
    fn any_name(&mut self) -> Vec<u8> {
        const BYTES: &[u8] = b"abcABC019 *?[]!\\\n\t\"'-.{}()+^$%\xff\xc3\xa9\x80";
        let length = if self.random.below(30) == 0 { 255 } else { 1 + self.random.index(9) };
        self.name_of(BYTES, length)
    }

    fn short_name(&mut self) -> Vec<u8> {
        const BYTES: &[u8] = b"ab.*?[]!-^\\ \n\t'\"$#~\xff\xc3\xa9\x80z09A,{}";
        let length = 1 + self.random.index(6);
        self.name_of(BYTES, length)
    }

    fn name_of(&mut self, bytes: &[u8], length: usize) -> Vec<u8> {
        let name: Vec<u8> = (0..length).map(|_| bytes[self.random.index(bytes.len())]).collect();
        if matches!(&name[..], b"." | b"..") { b"dots".to_vec() } else { name }
    }

    fn plain_name(&mut self) -> Vec<u8> {
        const STEMS: [&str; 16] = [
            "a", "b", "ab", "file", "x", "Data", "img", "v1", "v10", "v2", "lib-1", "lib-12", "00", "7",
            "zz", "README",
        ];
        const ENDS: [&str; 14] =
            ["", "", "", ".txt", ".tar", ".gz", ".c", ".1", ".10", ".2.0", "~", ".jpg", "-x", ".TXT"];
        let dot = if self.random.below(8) == 0 { "." } else { "" };
        let stem = STEMS[self.random.index(STEMS.len())];
        let end = ENDS[self.random.index(ENDS.len())];
        let number =
            if self.random.below(2) == 0 { self.random.below(120).to_string() } else { String::new() };
        format!("{dot}{stem}{number}{end}").into_bytes()
    }

    fn link(&mut self, path: &Path) {
        let up = path.strip_prefix(&self.root).unwrap().components().count() - 1;
        let target = match self.random.below(6) {
            0 => b"nowhere/at all".to_vec(),
            1 => b".".to_vec(),
            2 => self.name(),
            _ if self.made.is_empty() => b"..".to_vec(),
            _ => {
                let target =
                    [b"../".repeat(up), self.made[self.random.index(self.made.len())].clone()].concat();
                if target.len() > 1000 { b"..".to_vec() } else { target }
            }
        };
        symlink(OsString::from_vec(target), path).unwrap();
    }

    fn special(&mut self, path: &Path) {
        let device = rustix::fs::makedev(self.random.below(300) as u32, self.random.below(70_000) as u32);
        let (kind, device) = match self.random.below(4) {
            0 => (FileType::Fifo, 0),
            1 => (FileType::Socket, 0),
            2 => (FileType::CharacterDevice, device),
            _ => (FileType::BlockDevice, device),
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
        if self.random.below(6) == 0 {
            // A hole, and perhaps data behind it.
            file.set_len(length + self.random.below(self.shape.hole_bytes)).unwrap();
            if self.random.below(2) == 0 {
                file.write_all_at(b"end", self.random.below(3 << 20)).unwrap();
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
        if kind.is_file() || kind.is_dir() {
            self.attributes(path);
        }
        self.times(path);
    }

    fn attributes(&mut self, path: &Path) {
        let set = |name: &str, value: &[u8]| {
            rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
        };
        if self.random.below(6) == 0 {
            for _ in 0..=self.random.below(3) {
                let space = ["user", "trusted"][self.random.index(2)];
                let name = format!("{space}.name-{}", self.random.below(5));
                set(&name, &vec![b'v'; self.random.index(3000)]);
            }
        }
        if self.random.below(24) == 0 {
            set("security.selinux", b"system_u:object_r:etc_t:s0\0");
        }
        if self.random.below(12) == 0 {
            set("system.posix_acl_access", &access_list([33, 1000][self.random.index(2)]));
        }
    }

    fn times(&mut self, path: &Path) {
        let mut time = || {
            let seconds = match self.random.below(10) {
                0 => -(self.random.below(2_000_000_000).cast_signed()),
                1 => 2_000_000_000 + self.random.below(10_000_000_000).cast_signed(),
                // Half a minute behind a full one: ages do not change while the test runs.
                2..5 => self.began - 30 - 60 * self.random.below(300).cast_signed(),
                5 => self.began - 30 - 86_400 * self.random.below(3000).cast_signed(),
                // Some are equal.
                6 => 1_000_000_000 + self.random.below(3).cast_signed(),
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
        let top = self.root.parent().unwrap();
        let root = rustix::fs::open(top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut directories = vec![open(&root, "deep")];
        for level in 0..100 {
            let next = open(&directories[level], &format!("{level:03}-{}", "d".repeat(60)));
            directories.push(next);
        }
        // GNU find takes files of the last second for files of the future.
        let time = Timespec { tv_sec: self.began - 90, tv_nsec: 0 };
        for directory in directories {
            rustix::fs::futimens(&directory, &Timestamps { last_access: time, last_modification: time })
                .unwrap();
        }
    }
}

/// A list of version 2: owner, this user, group, mask and others.
pub fn access_list(user: u32) -> Vec<u8> {
    let entries = [(1, 6, u32::MAX), (2, 4, user), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(permissions));
        list.extend(u32::to_le_bytes(id));
    }
    list
}

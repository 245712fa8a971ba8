//! What the kernel is kept busy with: every kind of change, on few names, so that they meet.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags,
    fallocate, ioctl_ficlone, linkat, mknodat, renameat_with, setxattr, utimensat,
};

use crate::{judges::Judge, seeds::Random};

/// Names in use in each directory.
const NAMES: u64 = 24;
const DIRECTORIES: u64 = 5;
/// Files stay shorter than this.
const FILE_BYTES: u64 = 1 << 20;

/// Among the names are fifos, which would be waited for.
const PROMPT: i32 = OFlags::NONBLOCK.bits() as i32;

/// Errors that only say that the file system was shut down: then the work is over.
fn is_over(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Changes things below `root` until the file system is gone, or `is_gone` says so: what is not there fails without asking the
/// file system. Gives the files that are still open.
pub fn operate(root: &Path, seed: u64, is_gone: &AtomicBool) -> Vec<File> {
    let mut worker = Worker { root: root.to_path_buf(), random: Random::new(seed), open: Vec::new() };
    let _ = fs::create_dir_all(root);
    for directory in 0..DIRECTORIES {
        let _ = fs::create_dir_all(root.join(format!("d{directory}")));
    }
    while !is_gone.load(Relaxed) && !worker.step().is_err_and(|error| is_over(&error)) {}
    worker.open
}

/// Forces the log now and then until the file system is gone.
pub fn force_log(root: &Path, seed: u64) {
    let mut random = Random::new(seed);
    loop {
        std::thread::sleep(std::time::Duration::from_micros(random.below(15_000)));
        let forced = File::open(root).and_then(|root| Ok(rustix::fs::syncfs(&root)?));
        if random.below(8) == 0 {
            // Then nothing is forced for a while.
            std::thread::sleep(std::time::Duration::from_millis(random.below(120)));
        }
        if forced.is_err() {
            return;
        }
    }
}

struct Worker {
    root: PathBuf,
    random: Random,
    open: Vec<File>,
}

impl Worker {
    fn directory(&mut self) -> PathBuf {
        let number = self.random.below(DIRECTORIES);
        self.root.join(format!("d{number}"))
    }

    fn name(&mut self) -> PathBuf {
        let long = if self.random.below(6) == 0 { "x".repeat(120) } else { String::new() };
        let number = self.random.below(NAMES);
        self.directory().join(format!("n{number}{long}"))
    }

    fn file(&mut self) -> io::Result<File> {
        let path = self.name();
        OpenOptions::new().read(true).write(true).custom_flags(PROMPT).open(path)
    }

    fn place(&mut self) -> (u64, u64) {
        let start = self.random.below(FILE_BYTES) & !4095;
        (start, (1 + self.random.below(12)) * 4096)
    }

    fn write_somewhere(&mut self, file: &mut File) -> io::Result<()> {
        let (start, length) = self.place();
        let byte = self.random.below(255) as u8;
        file.seek(SeekFrom::Start(start))?;
        file.write_all(&vec![byte; length as usize])
    }

    fn step(&mut self) -> io::Result<()> {
        match self.random.below(34) {
            choice @ 0..15 => self.change_contents(choice),
            choice @ 15..26 => self.change_names(choice),
            choice => self.change_attributes(choice),
        }
    }

    fn change_contents(&mut self, choice: u64) -> io::Result<()> {
        match choice {
            0..4 => {
                let path = self.name();
                let mut file = OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .custom_flags(PROMPT)
                    .open(path)?;
                self.write_somewhere(&mut file)
            }
            4..7 => {
                let mut file = self.file()?;
                for _ in 0..1 + self.random.below(16) {
                    self.write_somewhere(&mut file)?;
                }
                if self.random.below(3) == 0 { file.sync_all() } else { Ok(()) }
            }
            7 => {
                let length = self.random.below(FILE_BYTES);
                self.file()?.set_len(length)
            }
            8 => self.file()?.set_len(0),
            9..11 => {
                let (from, to) = (self.file()?, self.file()?);
                Ok(ioctl_ficlone(to.as_fd(), from.as_fd())?)
            }
            _ => {
                let (start, length) = self.place();
                let flags = [
                    FallocateFlags::empty(),
                    FallocateFlags::KEEP_SIZE,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                    FallocateFlags::ZERO_RANGE,
                    FallocateFlags::COLLAPSE_RANGE,
                    FallocateFlags::INSERT_RANGE,
                    FallocateFlags::UNSHARE_RANGE,
                ];
                let flags = flags[self.random.below(flags.len() as u64) as usize];
                Ok(fallocate(self.file()?, flags, start, length)?)
            }
        }
    }

    fn change_names(&mut self, choice: u64) -> io::Result<()> {
        match choice {
            15 => {
                let path = self.name();
                // What stays open lives without a name.
                if self.random.below(3) == 0
                    && self.open.len() < 40
                    && let Ok(file) = OpenOptions::new().read(true).custom_flags(PROMPT).open(&path)
                {
                    self.open.push(file);
                }
                fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path))
            }
            16..18 => {
                let path = self.name();
                fs::remove_file(path)
            }
            18..21 => {
                let (from, to) = (self.name(), self.name());
                fs::rename(from, to)
            }
            21 => {
                let (from, to) = (self.name(), self.name());
                let flags = [RenameFlags::EXCHANGE, RenameFlags::NOREPLACE, RenameFlags::WHITEOUT];
                let flags = flags[self.random.below(3) as usize];
                Ok(renameat_with(CWD, from, CWD, to, flags)?)
            }
            22 => {
                let (from, to) = (self.name(), self.name());
                fs::hard_link(from, to)
            }
            23 => {
                let (path, length) = (self.name(), [5, 300, 1000][self.random.below(3) as usize]);
                std::os::unix::fs::symlink("t".repeat(length), path)
            }
            24 => {
                let path = self.name();
                fs::create_dir(&path)?;
                for number in 0..self.random.below(80) {
                    File::create(path.join(format!("file-with-a-longer-name-{number}")))?;
                }
                Ok(())
            }
            _ => {
                let path = self.name();
                let kinds = [FileType::Fifo, FileType::CharacterDevice, FileType::Socket];
                let kind = kinds[self.random.below(3) as usize];
                Ok(mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), rustix::fs::makedev(4000, 1))?)
            }
        }
    }

    /// Attributes, times and modes, and what else there is.
    fn change_attributes(&mut self, choice: u64) -> io::Result<()> {
        match choice {
            26..29 => {
                let path = self.name();
                let name = format!("user.{}", self.random.below(12));
                let length = [3, 60, 300, 3000, 9000][self.random.below(5) as usize];
                let value = vec![self.random.below(255) as u8; length];
                Ok(setxattr(&path, name, &value, XattrFlags::empty())?)
            }
            29 => {
                let path = self.name();
                let name = format!("user.{}", self.random.below(12));
                Ok(rustix::fs::removexattr(&path, name)?)
            }
            30 => {
                let (path, seconds) = (self.name(), self.random.below(1 << 33) as i64);
                let time = Timespec { tv_sec: seconds, tv_nsec: 5 };
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                let mode = fs::Permissions::from_mode_bits(self.random.below(0o777) as u32);
                fs::set_permissions(&path, mode)
            }
            31 => {
                // A file that never had a name, and perhaps gets one.
                let directory = self.directory();
                let flags = OFlags::TMPFILE.bits() as i32;
                let mut file =
                    OpenOptions::new().read(true).write(true).custom_flags(flags).open(directory)?;
                self.write_somewhere(&mut file)?;
                if self.random.below(2) == 0 {
                    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
                    let path = self.name();
                    linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
                } else if self.open.len() < 40 {
                    self.open.push(file);
                }
                Ok(())
            }
            32 => {
                let path = self.name();
                set_acl(&path, self.random.below(30) as u32)
            }
            _ => {
                if self.random.below(4) == 0 {
                    let (from, to) = (self.name(), self.name());
                    let command = format!("exchangerange {}", from.display());
                    // Refused more often than not: sizes differ.
                    let _ = Judge::XfsIo.command().args(["-c", &command]).arg(to).output();
                    return Ok(());
                }
                self.open.pop();
                Ok(())
            }
        }
    }
}

trait FromModeBits {
    fn from_mode_bits(bits: u32) -> Self;
}

impl FromModeBits for fs::Permissions {
    fn from_mode_bits(bits: u32) -> Self {
        std::os::unix::fs::PermissionsExt::from_mode(bits)
    }
}

/// An access control list with one named user.
fn set_acl(path: &Path, user: u32) -> io::Result<()> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, user), (4, 4, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, u32::MAX)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    Ok(setxattr(path, "system.posix_acl_access", &acl, XattrFlags::empty())?)
}

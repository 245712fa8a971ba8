//! Making names in a directory that is open.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, linkat, makedev, mkdirat, mknodat, openat,
        renameat_with, statat, symlinkat, unlinkat,
    },
    io::Errno,
};

use crate::entry::{Special, Timestamp, is_safe_component};

/// A name in an open directory, checked.
#[derive(Debug, Clone, Copy)]
pub struct OutputName<'a> {
    pub directory: BorrowedFd<'a>,
    pub name: &'a [u8],
}

impl<'a> OutputName<'a> {
    pub fn new(directory: BorrowedFd<'a>, name: &'a [u8]) -> io::Result<Self> {
        if is_safe_component(name) {
            Ok(Self { directory, name })
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))
        }
    }

    /// Makes the directory. `false` says that there was one, which is kept.
    pub fn make_directory(self, overwrite: bool) -> io::Result<bool> {
        let made = || mkdirat(self.directory, self.name, Mode::RWXU);
        match made() {
            Err(Errno::EXIST) if self.is_directory()? => Ok(false),
            Err(Errno::EXIST) if overwrite => {
                self.must_not_be_device()?;
                self.unlink()?;
                made()?;
                Ok(true)
            }
            result => Ok(result.map(|()| true)?),
        }
    }

    /// Makes an empty file and opens it for writing.
    pub fn make_file(self, overwrite: bool) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.make(overwrite, || openat(self.directory, self.name, flags, Mode::RUSR | Mode::WUSR))
    }

    /// Makes a symbolic link.
    pub fn make_symlink(self, target: &[u8], overwrite: bool) -> io::Result<()> {
        self.make(overwrite, || symlinkat(target, self.directory, self.name))
    }

    /// Makes a device, fifo or socket.
    pub fn make_special(self, special: Special, overwrite: bool) -> io::Result<()> {
        let (file_type, device) = match special {
            Special::CharacterDevice(device) => {
                (FileType::CharacterDevice, makedev(device.major, device.minor))
            }
            Special::BlockDevice(device) => (FileType::BlockDevice, makedev(device.major, device.minor)),
            Special::Fifo => (FileType::Fifo, 0),
            Special::Socket => (FileType::Socket, 0),
        };
        let mode = Mode::RUSR | Mode::WUSR;
        self.make_over(
            overwrite,
            || mknodat(self.directory, self.name, file_type, mode, device),
            || match special {
                Special::CharacterDevice(_) | Special::BlockDevice(_) => Ok(()),
                Special::Fifo | Special::Socket => self.must_not_be_device(),
            },
        )
    }

    /// Gives the file at `target` a second name here. A symbolic link there is linked itself, not followed.
    pub fn make_link(self, target: OutputName<'_>, overwrite: bool) -> io::Result<()> {
        self.make(overwrite, || {
            linkat(target.directory, target.name, self.directory, self.name, AtFlags::empty())
        })
    }

    /// Gives the file the name `to`, in the same directory, where nothing may be.
    pub fn rename(self, to: &[u8]) -> io::Result<()> {
        let to = OutputName::new(self.directory, to)?;
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(self.directory, self.name, to.directory, to.name, flags) {
            // The file system has no such flag: a link does not replace anything either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                to.make_link(self, false)?;
                self.unlink()
            }
            result => Ok(result?),
        }
    }

    /// Whether something is here.
    pub fn is_taken(self) -> bool {
        statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether a regular file of this size and modification time is here.
    pub fn is_file_of(self, size_bytes: u64, modified: Timestamp) -> bool {
        statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && u64::try_from(stat.st_size) == Ok(size_bytes)
                && stat.st_mtime == modified.seconds
                && u32::try_from(stat.st_mtime_nsec) == Ok(modified.nanoseconds)
        })
    }

    fn make<T>(self, overwrite: bool, make: impl Fn() -> Result<T, Errno>) -> io::Result<T> {
        self.make_over(overwrite, make, || self.must_not_be_device())
    }

    fn make_over<T>(
        self,
        overwrite: bool,
        make: impl Fn() -> Result<T, Errno>,
        may_replace: impl Fn() -> io::Result<()>,
    ) -> io::Result<T> {
        match make() {
            Err(Errno::EXIST) if overwrite => {
                may_replace()?;
                self.unlink()?;
                Ok(make()?)
            }
            result => Ok(result?),
        }
    }

    /// Refuses to replace a device node by something else: the host may need it.
    fn must_not_be_device(self) -> io::Result<()> {
        let stat = statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice | FileType::BlockDevice => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a device node is there, and is not replaced",
            )),
            _ => Ok(()),
        }
    }

    /// Removes the name. A directory stays, and with it what it holds.
    pub fn unlink(self) -> io::Result<()> {
        Ok(unlinkat(self.directory, self.name, AtFlags::empty())?)
    }

    fn is_directory(self) -> io::Result<bool> {
        let stat = statat(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

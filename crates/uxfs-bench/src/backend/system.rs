//! Directories of a mounted file system, by system calls.
//!
//! Names are looked up from the descriptor of their directory, so that the length of the path to it does not matter. Threads
//! share one table of descriptors, where fs_mark's processes have one each: a lock more for each opening and closing.

use std::{fs, io, path::PathBuf};

use rustix::{
    fd::OwnedFd,
    fs::{
        AtFlags, CWD, Mode, OFlags, XattrFlags, fgetxattr, fremovexattr, fsetxattr, fsync, mkdirat, openat,
        renameat, statvfs, syncfs, unlinkat,
    },
    io::{Errno, pwrite},
};

use super::{Backend, Space, Worker};
use crate::{BenchError, Result};

/// Directories somewhere.
#[derive(Debug)]
pub struct MountedDirectories {
    roots: Vec<PathBuf>,
}

impl MountedDirectories {
    /// Makes those that are not there.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn new(roots: Vec<PathBuf>) -> io::Result<Self> {
        roots.iter().try_for_each(fs::create_dir_all)?;
        Ok(Self { roots })
    }
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> BenchError {
    move |errno| BenchError::System { call, errno }
}

impl Backend for MountedDirectories {
    type Worker<'b> = SystemCalls<'b>;

    fn worker(&self) -> Result<SystemCalls<'_>> {
        Ok(SystemCalls { roots: &self.roots })
    }

    fn root_count(&self) -> usize {
        self.roots.len()
    }

    fn space(&self) -> Result<Space> {
        let root =
            self.roots.first().ok_or_else(|| BenchError::Options("no directory is given".to_owned()))?;
        let found = statvfs(root).map_err(failed("statvfs"))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { total_bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) })
    }
}

/// One thread's system calls.
#[derive(Debug)]
pub struct SystemCalls<'b> {
    roots: &'b [PathBuf],
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The umask decides, as for every program.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

impl Worker for SystemCalls<'_> {
    type Directory = OwnedFd;
    type File = OwnedFd;

    fn root(&mut self, index: usize) -> Result<OwnedFd> {
        let path = self.roots.get(index % self.roots.len().max(1));
        let path = path.ok_or_else(|| BenchError::Options("no directory is given".to_owned()))?;
        openat(CWD, path, DIRECTORY, Mode::empty()).map_err(failed("open"))
    }

    fn directory(&mut self, parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd> {
        match mkdirat(parent, name, DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("mkdir")(errno)),
        }
        openat(parent, name, DIRECTORY, Mode::empty()).map_err(failed("open"))
    }

    fn create(&mut self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::TRUNC | OFlags::CLOEXEC;
        openat(directory, name, flags, FILE_MODE).map_err(failed("creat"))
    }

    fn open(&mut self, directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd> {
        openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed("open"))
    }

    fn close(&mut self, file: OwnedFd) -> Result<()> {
        drop(file);
        Ok(())
    }

    fn write(&mut self, file: &OwnedFd, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let (mut rest, mut offset_bytes) = (bytes, offset_bytes);
        while !rest.is_empty() {
            let written = pwrite(file, rest, offset_bytes).map_err(failed("write"))?;
            if written == 0 {
                return Err(failed("write")(Errno::IO));
            }
            rest = rest.get(written..).unwrap_or_default();
            offset_bytes += written as u64;
        }
        Ok(())
    }

    fn fsync(&mut self, file: &OwnedFd) -> Result<()> {
        fsync(file).map_err(failed("fsync"))
    }

    fn fsync_directory(&mut self, directory: &OwnedFd) -> Result<()> {
        fsync(directory).map_err(failed("fsync of a directory"))
    }

    fn syncfs(&mut self, directory: &OwnedFd) -> Result<()> {
        syncfs(directory).map_err(failed("syncfs"))
    }

    fn rename(&mut self, directory: &OwnedFd, from: &[u8], to: &[u8]) -> Result<()> {
        renameat(directory, from, directory, to).map_err(failed("rename"))
    }

    fn unlink(&mut self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        unlinkat(directory, name, AtFlags::empty()).map_err(failed("unlink"))
    }

    fn rmdir(&mut self, parent: &OwnedFd, name: &[u8]) -> Result<()> {
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed("rmdir")(errno)),
        }
    }

    fn setxattr(&mut self, file: &OwnedFd, name: &[u8], value: &[u8]) -> Result<()> {
        fsetxattr(file, name, value, XattrFlags::empty()).map_err(failed("setxattr"))
    }

    fn getxattr(&mut self, file: &OwnedFd, name: &[u8], value: &mut [u8]) -> Result<usize> {
        fgetxattr(file, name, value).map_err(failed("getxattr"))
    }

    fn removexattr(&mut self, file: &OwnedFd, name: &[u8]) -> Result<()> {
        fremovexattr(file, name).map_err(failed("removexattr"))
    }
}

//! Operations by system calls, below a mount.

use std::{
    fs,
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
};

use anyhow::Result;
use rustix::fs::XattrFlags;

use super::Side;

/// The kernel's side.
#[derive(Debug)]
pub struct ByKernel {
    root: PathBuf,
}

impl ByKernel {
    /// On a mount.
    pub fn new(root: &Path) -> Result<Self> {
        Ok(Self { root: root.to_owned() })
    }
}

impl Side for ByKernel {
    fn directory(&mut self, path: &str) -> Result<()> {
        Ok(fs::create_dir(self.root.join(path))?)
    }

    fn write(&mut self, path: &str, contents: &[u8]) -> Result<()> {
        Ok(fs::write(self.root.join(path), contents)?)
    }

    fn write_at(&mut self, path: &str, offset_bytes: u64, contents: &[u8]) -> Result<()> {
        let file = fs::File::options().write(true).open(self.root.join(path))?;
        Ok(file.write_all_at(contents, offset_bytes)?)
    }

    fn truncate(&mut self, path: &str, size_bytes: u64) -> Result<()> {
        Ok(fs::File::options().write(true).open(self.root.join(path))?.set_len(size_bytes)?)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        Ok(fs::rename(self.root.join(from), self.root.join(to))?)
    }

    fn link(&mut self, from: &str, to: &str) -> Result<()> {
        Ok(fs::hard_link(self.root.join(from), self.root.join(to))?)
    }

    fn symlink(&mut self, target: &str, path: &str) -> Result<()> {
        Ok(symlink(target, self.root.join(path))?)
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        Ok(fs::remove_file(self.root.join(path))?)
    }

    fn remove_directory(&mut self, path: &str) -> Result<()> {
        Ok(fs::remove_dir(self.root.join(path))?)
    }

    fn set_attribute(&mut self, path: &str, name: &str, value: &[u8]) -> Result<()> {
        Ok(rustix::fs::lsetxattr(self.root.join(path), name, value, XattrFlags::empty())?)
    }

    fn remove_attribute(&mut self, path: &str, name: &str) -> Result<()> {
        Ok(rustix::fs::lremovexattr(self.root.join(path), name)?)
    }
}

//! The recipe that fills a golden image: every form of every thing that a path can lead to.
//!
//! It works on a mounted XFS through ordinary system calls and, for what those do not offer, `xfs_io`. Sizes follow the
//! image's block sizes, so that the same names take the same form in every geometry.
//!
//! | module | fills |
//! |---|---|
//! | `content` | file contents whose every sector says where it belongs |
//! | `directories` | shortform, block, leaf and node directories, deleted entries, odd names, equal hashes, deep trees |
//! | `attributes` | shortform, leaf, node, remote and fragmented attributes, ACLs |
//! | `extents` | holes, unwritten and fragmented extents, reflinks |
//! | `special` | symlinks, devices, owners, modes, times, flags and hints |
//! | `changes` | a short history of every kind of change, for an image that needs log recovery |
//! | `sparse_inodes` | inode chunks that are only partly there |

mod attributes;
mod changes;
mod content;
mod directories;
mod extents;
mod sparse_inodes;
mod special;

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use rustix::fs::syncfs;

use crate::judges::Judge;

pub use changes::changes;
pub use content::pattern;

/// The facts of the file system for the recipe.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// File-system block.
    pub block_size_bytes: u64,
    /// Directory block.
    pub directory_block_size_bytes: u64,
    /// Inode.
    pub inode_size_bytes: u64,
    /// Blocks can be shared.
    pub has_reflink: bool,
    /// Inode chunks may be sparse.
    pub has_sparse_inodes: bool,
    /// Times reach past 2038.
    pub has_bigtime: bool,
    /// A tree on another file system, for `mkfs.xfs -p`: leaves out what only XFS can do.
    pub is_plain_tree: bool,
    /// Names that one directory gets, so many that its index takes several levels; 0 for none.
    pub many_names: u64,
}

impl Recipe {
    /// Fills `root`, the mounted, empty file system, and writes everything out.
    ///
    /// # Errors
    /// Any call fails: an image is complete or not made.
    pub fn populate(&self, root: &Path) -> Result<()> {
        let place = Place { recipe: self, root: root.to_path_buf() };
        directories::populate(&place).context("directories")?;
        attributes::populate(&place).context("attributes")?;
        extents::populate(&place).context("extents")?;
        special::populate(&place).context("special files")?;
        if self.has_sparse_inodes && !self.is_plain_tree {
            place.write_out()?;
            sparse_inodes::populate(&place).context("sparse inodes")?;
        }
        special::set_times(&place).context("times")?;
        place.write_out()
    }
}

/// The file system being filled.
struct Place<'a> {
    recipe: &'a Recipe,
    root: PathBuf,
}

impl Place<'_> {
    fn path(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.as_ref()))
    }

    fn directory(&self, path: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path(path);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// A new empty file, opened for reading and writing.
    fn file(&self, path: impl AsRef<[u8]>) -> Result<File> {
        let path = self.path(path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    /// Writes the pattern of the file numbered `number`.
    fn write(&self, file: &File, number: u64, offset: u64, length: u64) -> Result<()> {
        content::write_pattern(file, self.recipe.block_size_bytes, number, offset, length)
    }

    fn link(&self, existing: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let new = self.path(new);
        fs::hard_link(self.path(existing), &new).with_context(|| format!("cannot link {}", new.display()))
    }

    fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        Ok(fs::remove_file(self.path(path))?)
    }

    fn xfs_io(&self, command: &str, path: &str) -> Result<()> {
        let output = Judge::XfsIo.command().args(["-c", command]).arg(self.path(path)).output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && words.is_empty(), "xfs_io {command} {path}: {}", words.trim());
        Ok(())
    }

    /// Writes everything out, so that delayed allocation happens at this point and not later.
    fn write_out(&self) -> Result<()> {
        syncfs(File::open(&self.root)?)?;
        Ok(())
    }
}

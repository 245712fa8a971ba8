//! What a mount shows, and what the kernel's XFS shows of the same image.

use std::path::Path;

use anyhow::{Context, Result};
use uxfs_testkit::{
    manifest::{self, Header, Manifest},
    mount::{Access, LoopMount},
    verdict::{portable, same},
};

/// A tree of files: every path with its inode and contents.
#[derive(Clone)]
pub struct Tree(Manifest);

impl Tree {
    /// Of a directory.
    ///
    /// # Errors
    /// Something in it cannot be read.
    pub fn of(directory: &Path) -> Result<Self> {
        let header = Header {
            image: directory.display().to_string(),
            judge: "system calls".into(),
            made_by: "cargo xtask mount-load".into(),
        };
        Ok(Self(kept(manifest::from_tree(directory, header)?)))
    }

    /// Of an image, in the words of the kernel's XFS.
    ///
    /// # Errors
    /// The kernel does not mount it.
    pub fn in_image(image: &Path) -> Result<Self> {
        let mount = LoopMount::new(image, Access::ReadOnly)?;
        let tree = Self::of(mount.path()).context("as the kernel's XFS shows it")?;
        mount.unmount()?;
        Ok(tree)
    }

    /// Without what another file system has otherwise: inode numbers, times of change and birth, sizes of directories.
    pub fn portable(self) -> Self {
        Self(portable(self.0))
    }

    /// Paths.
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Both are the same.
    ///
    /// # Errors
    /// The first differences.
    pub fn must_equal(&self, found: &Self) -> Result<()> {
        same(&self.0, &found.0)
    }
}

/// All that both must say alike: not the access time, which looking changes, nor the space taken, which shrinks with the last close.
fn kept(mut manifest: Manifest) -> Manifest {
    for details in manifest.entries.iter_mut().filter_map(|entry| entry.details.as_deref_mut()) {
        details.access_time = None;
        details.sectors = None;
        // The walk has seen them; cookies of directories are the file system's business.
        details.entries = None;
        if let Some(attributes) = &mut details.attributes {
            // What ACLs of XFS look like beside the names that all file systems know.
            attributes.retain(|attribute| !attribute.name.0.starts_with(b"trusted.SGI_ACL_"));
        }
    }
    manifest
}

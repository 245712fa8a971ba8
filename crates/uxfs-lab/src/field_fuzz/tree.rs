//! The tree of a sound image beside that of a damaged or repaired one, as the kernel reads both.

use std::path::Path;

use anyhow::Result;
use uxfs_testkit::{
    judges::Judge,
    manifest::{self, FileKind, Header, Manifest},
    mount::{Access, LoopMount},
};

/// Differences that are told.
const SHOWN: usize = 2;

/// What the kernel reads of a sound image.
#[derive(Debug)]
pub struct Truth(Manifest);

/// A tree beside the truth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TreeFound {
    /// The kernel was not shown the image.
    #[default]
    NotAsked,
    /// The same paths, types, contents, owners, modes, times, attributes and flags.
    Same,
    /// The first differences, or why the kernel refuses the image.
    Other(String),
}

impl Truth {
    /// Reads a sound image; `None` where no kernel here mounts it.
    ///
    /// # Errors
    /// The kernel mounts it and cannot read all of it.
    pub fn of(image: &Path) -> Result<Option<Self>> {
        if !Judge::Kernel.is_present() {
            return Ok(None);
        }
        let Ok(mount) = LoopMount::new(image, Access::ReadOnlyNoRecovery) else { return Ok(None) };
        let manifest = manifest::from_mount(mount.path(), header());
        mount.unmount()?;
        Ok(Some(Self(comparable(manifest?))))
    }

    /// Compares an image that `xfs_repair -n` is silent about.
    pub fn compare(&self, image: &Path) -> TreeFound {
        let read = || {
            let mount = LoopMount::new(image, Access::ReadOnlyNoRecovery)?;
            let manifest = manifest::from_damaged_mount(mount.path(), header());
            mount.unmount()?;
            manifest
        };
        match read() {
            Ok(found) => {
                let found = comparable(found);
                match manifest::report(&manifest::differences(&self.0, &found), SHOWN) {
                    Some(differences) => TreeFound::Other(differences.replace('\n', "; ")),
                    None => TreeFound::Same,
                }
            }
            Err(error) => TreeFound::Other(format!("{error:#}")),
        }
    }
}

fn header() -> Header {
    Header { image: String::new(), judge: "kernel".into(), made_by: String::new() }
}

/// Without where things lie: a repair may write directories and attributes elsewhere, and leave an empty `lost+found`.
fn comparable(mut manifest: Manifest) -> Manifest {
    for entry in &mut manifest.entries {
        let is_directory = entry.kind == FileKind::Directory;
        let Some(details) = entry.details.as_deref_mut() else { continue };
        (details.attribute_extents, details.sectors) = (None, None);
        if is_directory {
            (details.size_bytes, details.extents, details.entries) = (None, None, None);
        }
    }
    manifest
}

//! The golden images of the repository: `tests/golden/<name>.img.zst` with `<name>.manifest.zst`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::{
    image,
    judges::workspace_directory,
    manifest::{Manifest, read_independent, to_hex},
    mount::{Access, LoopMount},
    sparse,
};

/// The image that an independent generator made, in a folder of its own.
pub const INDEPENDENT: &str = "independent";
/// The image whose log holds changes that are not in place: not among [`GoldenImage::all`].
pub const DIRTY_LOG: &str = "dirty-log";
/// The directory of names with one hash.
const EQUAL_HASHES: &str = "directories/equal-hashes";
/// Names that stay in it.
const KEPT_NAMES: usize = 20;
const PACKED_SUFFIX: &str = ".img.zst";

/// One golden image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenImage {
    name: String,
    packed: PathBuf,
    manifest: PathBuf,
}

impl GoldenImage {
    /// The image called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self> {
        let mut all = Self::all()?;
        all.push(Self::dirty_log());
        all.into_iter().find(|image| image.name == name).with_context(|| format!("no golden image {name}"))
    }

    /// The image that needs log recovery, with the manifest of what the kernel's recovery makes of it.
    pub fn dirty_log() -> Self {
        let at = |suffix: &str| golden_directory().join(format!("{DIRTY_LOG}{suffix}"));
        Self { name: DIRTY_LOG.to_owned(), packed: at(PACKED_SUFFIX), manifest: at(".manifest.zst") }
    }

    /// Every golden image with a clean log, by name, [`INDEPENDENT`] last.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let folder = golden_directory();
        let files = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut all = Vec::new();
        for file in files {
            let packed = file?.path();
            let file_name = packed.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(name) = file_name.strip_suffix(PACKED_SUFFIX).filter(|name| *name != DIRTY_LOG) {
                let manifest = folder.join(format!("{name}.manifest.zst"));
                all.push(Self { name: name.to_owned(), packed, manifest });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let independent = folder.join(INDEPENDENT).join("populated-xfs-1k.img.zst");
        if independent.exists() {
            let manifest = independent.with_file_name("populated-xfs-1k.manifest.zst");
            all.push(Self { name: INDEPENDENT.to_owned(), packed: independent, manifest });
        }
        Ok(all)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The packed image.
    pub fn packed(&self) -> &Path {
        &self.packed
    }

    /// The image unpacked, sparse, in the cache of images: for reading only.
    ///
    /// # Errors
    /// Unpacking fails.
    pub fn unpacked(&self) -> Result<PathBuf> {
        let version = to_hex(&Sha256::digest(fs::read(&self.packed)?));
        let name = format!("{}-{}.img", self.name, version.get(..12).unwrap_or_default());
        image::cached(&name, |fresh| sparse::unpack(&self.packed, fresh))
    }

    /// The image unpacked to `path`, to be written to.
    ///
    /// # Errors
    /// Unpacking fails.
    pub fn unpack_to(&self, path: &Path) -> Result<()> {
        sparse::copy(&self.unpacked()?, path)
    }

    /// As [`unpack_to`](Self::unpack_to), but the kernel has removed most names of equal hash, with which `xfs_repair` spends nearly all of its
    /// time: it grows with the square of their number. Other files are as they were.
    ///
    /// # Errors
    /// The kernel does not mount the image.
    pub fn unpack_lean_to(&self, path: &Path) -> Result<()> {
        let whole = self.unpacked()?;
        let name = whole.with_extension("lean");
        let name = name.file_name().and_then(|name| name.to_str()).context("a name")?;
        let lean = image::cached(name, |fresh| {
            sparse::copy(&whole, fresh)?;
            let mount = LoopMount::new(fresh, Access::ReadWrite)?;
            let mut names: Vec<PathBuf> = fs::read_dir(mount.join(EQUAL_HASHES))?
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<_>>()?;
            names.sort();
            names.into_iter().skip(KEPT_NAMES).try_for_each(fs::remove_file)?;
            mount.unmount()
        })?;
        sparse::copy(&lean, path)
    }

    /// The manifest of the image, by its judge.
    ///
    /// # Errors
    /// Reading fails.
    pub fn manifest(&self) -> Result<Manifest> {
        if self.name == INDEPENDENT {
            read_independent(&self.manifest)
        } else {
            Manifest::read(&self.manifest)
        }
    }
}

/// Where the golden images lie.
pub fn golden_directory() -> PathBuf {
    workspace_directory().join("tests/golden")
}

//! The golden images of the repository: `tests/golden/<name>.img.zst` with `<name>.manifest.zst`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use sha2::{Digest, Sha256};

use crate::{
    image,
    judges::workspace_directory,
    manifest::{self, FileKind, Header, Manifest, read_independent, to_hex},
    mount::{Access, LoopMount, kernel_release},
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
/// Images of [`GoldenImage::all_mostly_lean`] that are not lean.
const KEPT_WHOLE: [&str; 3] = ["block-1k", "block-64k", "default"];
const PACKED_SUFFIX: &str = ".img.zst";

/// One golden image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenImage {
    name: String,
    packed: PathBuf,
    manifest: PathBuf,
    is_lean: bool,
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
        Self {
            name: DIRTY_LOG.to_owned(),
            packed: at(PACKED_SUFFIX),
            manifest: at(".manifest.zst"),
            is_lean: false,
        }
    }

    /// The image with quota records in its dirty log. It has no manifest: many kernels lack quota.
    pub fn dirty_log_with_quota() -> Self {
        let name = format!("{DIRTY_LOG}-quota");
        let packed = golden_directory().join(format!("{name}{PACKED_SUFFIX}"));
        Self { name, manifest: PathBuf::new(), packed, is_lean: false }
    }

    /// The image called `name`, [lean](Self::into_lean).
    ///
    /// # Errors
    /// There is none.
    pub fn lean(name: &str) -> Result<Self> {
        Self::named(name).map(Self::into_lean)
    }

    /// A smaller image, faster to copy and to judge. The kernel has removed most names of equal hash, because the time of `xfs_repair`
    /// grows with the square of their number. Files keep their extents and contain zeros. An image that this kernel cannot mount is
    /// unchanged.
    #[must_use]
    pub fn into_lean(self) -> Self {
        Self { is_lean: true, ..self }
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
            if let Some(name) =
                file_name.strip_suffix(PACKED_SUFFIX).filter(|name| !name.starts_with(DIRTY_LOG))
            {
                let manifest = folder.join(format!("{name}.manifest.zst"));
                all.push(Self { name: name.to_owned(), packed, manifest, is_lean: false });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let independent = folder.join(INDEPENDENT).join("populated-xfs-1k.img.zst");
        if independent.exists() {
            let manifest = independent.with_file_name("populated-xfs-1k.manifest.zst");
            all.push(Self { name: INDEPENDENT.to_owned(), packed: independent, manifest, is_lean: false });
        }
        Ok(all)
    }

    /// All images, most of them [lean](Self::into_lean), for tests that visit every file or structure.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all_mostly_lean() -> Result<Vec<Self>> {
        let lean = |image: Self| if KEPT_WHOLE.contains(&&*image.name) { image } else { image.into_lean() };
        Ok(Self::all()?.into_iter().map(lean).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is [lean](Self::into_lean).
    pub fn is_lean(&self) -> bool {
        self.is_lean
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
        let whole = image::cached(&name, |fresh| sparse::unpack(&self.packed, fresh))?;
        if self.is_lean { self.made_lean(&whole) } else { Ok(whole) }
    }

    /// The image unpacked to `path`, to be written to.
    ///
    /// # Errors
    /// Unpacking fails.
    pub fn unpack_to(&self, path: &Path) -> Result<()> {
        sparse::copy(&self.unpacked()?, path)
    }

    fn made_lean(&self, whole: &Path) -> Result<PathBuf> {
        image::cached(&cached_name(whole, "lean")?, |fresh| {
            sparse::copy(whole, fresh)?;
            let Ok(mount) = LoopMount::new(fresh, Access::ReadWrite) else { return Ok(()) };
            let names = fs::read_dir(mount.join(EQUAL_HASHES)).into_iter().flatten();
            let mut names: Vec<PathBuf> =
                names.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            names.sort();
            names.into_iter().skip(KEPT_NAMES).try_for_each(fs::remove_file)?;
            mount.unmount()?;
            empty_files(&self.kernels_manifest(fresh)?, fresh)
        })
    }

    /// The manifest of the image, by its judge.
    ///
    /// # Errors
    /// Reading fails.
    pub fn manifest(&self) -> Result<Manifest> {
        if !self.is_lean {
            return self.manifest_of_whole();
        }
        let image = self.unpacked()?;
        let manifest = image::cached(&cached_name(&image, "manifest")?, |fresh| {
            self.kernels_manifest(&image).or_else(|_| self.manifest_of_whole())?.write(fresh, 1)
        })?;
        Manifest::read(&manifest)
    }

    fn manifest_of_whole(&self) -> Result<Manifest> {
        if self.name == INDEPENDENT {
            read_independent(&self.manifest)
        } else {
            Manifest::read(&self.manifest)
        }
    }

    /// The kernel's manifest of an image derived from this one.
    fn kernels_manifest(&self, image: &Path) -> Result<Manifest> {
        let header = Header { image: self.name.clone(), judge: kernel_release(), made_by: String::new() };
        let mount = LoopMount::new(image, Access::ReadOnly)?;
        let manifest = manifest::from_mount(mount.path(), header)?;
        mount.unmount()?;
        Ok(manifest)
    }
}

/// Punches holes into an image at the data extents of its files.
fn empty_files(manifest: &Manifest, image: &Path) -> Result<()> {
    let image = File::options().write(true).open(image)?;
    let files = manifest.entries.iter().filter(|entry| entry.kind == FileKind::Regular);
    let extents = files.filter_map(|file| file.details.as_ref()?.extents.as_ref()).flatten();
    for extent in extents {
        fallocate(
            &image,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            extent.disk_bytes,
            extent.length_bytes,
        )?;
    }
    Ok(())
}

/// Cache name of a file derived from a cached image.
fn cached_name(image: &Path, extension: &str) -> Result<String> {
    let name = image.with_extension(extension);
    Ok(name.file_name().and_then(|name| name.to_str()).context("a name")?.to_owned())
}

/// Where the golden images lie.
pub fn golden_directory() -> PathBuf {
    workspace_directory().join("tests/golden")
}

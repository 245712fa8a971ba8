//! Which golden images there are, how each file system is made and how it is filled.
//!
//! Made by `mkfs.xfs` and filled through the kernel, each is then judged by `xfs_repair -n`. Its log is formatted anew, since what
//! a filled log holds does not compress. [`GoldenSpec::make`] does all of it.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    golden::DIRTY_LOG,
    judges::Judge,
    manifest::{self, FileKind, Header, Manifest},
    mount::{Access, LoopMount, kernel_release},
    populate::{self, Recipe},
    shapes::Shape,
    sparse,
};

/// No golden image may be larger when packed.
pub const PACKED_LIMIT_BYTES: u64 = 1 << 20;
const MEBIBYTE: u64 = 1 << 20;
/// With a cycle that no metadata has reached.
const FORMAT_LOG: &str = "logformat -c 100";

/// The program that fills an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilledBy {
    /// The kernel, mounted read-write.
    Kernel,
    /// `mkfs.xfs -p`, from a tree: where the kernel cannot mount the image.
    Mkfs,
    /// The kernel, cut off with changes in the log that are not in place; the manifest tells what recovery makes of it.
    KernelCutOff,
}

/// How one golden image is made.
#[derive(Debug, Clone)]
pub struct GoldenSpec {
    /// Its name.
    pub name: &'static str,
    size_bytes: u64,
    /// Options of `mkfs.xfs`.
    options: Vec<&'static str>,
    filled_by: FilledBy,
    recipe: Recipe,
    /// `xfs_db -x` commands once it is filled.
    finishing: Vec<&'static str>,
}

impl GoldenSpec {
    fn new(name: &'static str, options: &[&'static str]) -> Self {
        let recipe = Recipe {
            block_size_bytes: 4096,
            directory_block_size_bytes: 4096,
            inode_size_bytes: 512,
            has_reflink: true,
            has_sparse_inodes: true,
            has_bigtime: true,
            is_plain_tree: false,
            many_names: 0,
        };
        let (options, finishing) = (options.to_vec(), Vec::new());
        Self { name, size_bytes: 256 * MEBIBYTE, options, filled_by: FilledBy::Kernel, recipe, finishing }
    }

    /// A golden image of one of the shapes.
    fn of_shape(name: &'static str) -> Self {
        let words: Vec<_> = Shape::named(name).words().collect();
        Self::new(name, &words)
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn with_recipe(self, change: impl FnOnce(&mut Recipe)) -> Self {
        self.with(|spec| change(&mut spec.recipe))
    }

    /// Every golden image.
    pub fn all() -> Vec<Self> {
        let mut all = geometries();
        all.extend(features());
        all.push(GoldenSpec::new(DIRTY_LOG, &[]).with(|spec| {
            spec.filled_by = FilledBy::KernelCutOff;
            spec.size_bytes = 64 * MEBIBYTE;
        }));
        all
    }

    /// Makes the image and its manifest in `folder`.
    ///
    /// # Errors
    /// A step fails, a judge does not agree, or the packed image is too large.
    pub fn make(&self, folder: &Path) -> Result<()> {
        let work = tempfile::tempdir()?;
        let image = work.path().join("image");
        File::create(&image)?.set_len(self.size_bytes)?;
        let manifest = match self.filled_by {
            FilledBy::Kernel => self.fill_by_kernel(&image)?,
            FilledBy::Mkfs => self.fill_by_mkfs(&image)?,
            FilledBy::KernelCutOff => self.fill_and_cut_off(&image)?,
        };
        if self.filled_by != FilledBy::KernelCutOff {
            check(&image)?;
        }
        let packed = folder.join(format!("{}.img.zst", self.name));
        sparse::pack(&image, &packed)?;
        let size = fs::metadata(&packed)?.len();
        ensure!(size <= PACKED_LIMIT_BYTES, "{} takes {size} bytes packed", self.name);
        manifest.write(&folder.join(format!("{}.manifest.zst", self.name)), 19)
    }

    /// Writes the manifest anew for the image that is in `folder` already.
    ///
    /// # Errors
    /// The kernel does not mount it.
    pub fn describe(&self, folder: &Path) -> Result<()> {
        if self.filled_by != FilledBy::Kernel {
            // Only their making tells what they hold.
            return Ok(());
        }
        let work = tempfile::tempdir()?;
        let image = work.path().join("image");
        sparse::unpack(&folder.join(format!("{}.img.zst", self.name)), &image)?;
        self.kernel_manifest(&image)?.write(&folder.join(format!("{}.manifest.zst", self.name)), 19)
    }

    fn kernel_manifest(&self, image: &Path) -> Result<Manifest> {
        let mount = LoopMount::new(image, Access::ReadOnly)?;
        manifest::from_mount(mount.path(), self.header(&format!("Linux {} mount", kernel_release())))
    }

    fn fill_by_kernel(&self, image: &Path) -> Result<Manifest> {
        self.mkfs(image, &[])?;
        let mount = LoopMount::new(image, Access::ReadWrite)?;
        self.recipe.populate(mount.path())?;
        mount.unmount()?;
        self.finish(image)?;
        self.kernel_manifest(image)
    }

    fn fill_and_cut_off(&self, image: &Path) -> Result<Manifest> {
        self.mkfs(image, &[])?;
        let mount = LoopMount::new(image, Access::ReadWrite)?;
        populate::changes(mount.path())?;
        let cut = ["-x", "-c", "shutdown -f"];
        run(Judge::XfsIo.command().args(cut).arg(mount.path()))?;
        mount.unmount()?;
        let recovered = image.with_extension("recovered");
        sparse::copy(image, &recovered)?;
        LoopMount::new(&recovered, Access::ReadWrite)?.unmount()?;
        check(&recovered)?;
        let mount = LoopMount::new(&recovered, Access::ReadOnly)?;
        manifest::from_mount(mount.path(), self.header(&format!("Linux {} recovery", kernel_release())))
    }

    /// The manifest is that of the tree, without what is not the tree's to say.
    fn fill_by_mkfs(&self, image: &Path) -> Result<Manifest> {
        let work = tempfile::tempdir()?;
        let scratch = work.path().join("scratch");
        File::create(&scratch)?.set_len(512 * MEBIBYTE)?;
        run(Judge::Mkfs.command().args(["-q", "-f", "-m", "rmapbt=0"]).arg(&scratch))?;
        let mount = LoopMount::new(&scratch, Access::ReadWrite)?;
        self.recipe.populate(mount.path())?;
        let source = mount.path().to_str().context("a folder whose name is not text")?;
        self.mkfs(image, &["-p", source])?;
        let mut manifest = manifest::from_tree(mount.path(), self.header("the tree it was made from"))?;
        for entry in &mut manifest.entries {
            entry.inode = None;
            if let Some(details) = &mut entry.details {
                details.sectors = None;
                details.access_time = None;
                details.change_time = None;
                details.birth_time = None;
                details.entries = None;
                if entry.kind == FileKind::Directory {
                    // Made anew, without the gaps of the tree.
                    details.size_bytes = None;
                }
                if entry.path.0 == b"/" {
                    // The root is mkfs.xfs's own.
                    details.modification_time = None;
                    details.attributes = None;
                }
            }
        }
        Ok(manifest)
    }

    fn header(&self, judge: &str) -> Header {
        let made_by = format!("mkfs.xfs {} ({} MiB)", self.options.join(" "), self.size_bytes / MEBIBYTE);
        Header { image: self.name.to_owned(), judge: judge.to_owned(), made_by }
    }

    fn mkfs(&self, image: &Path, more: &[&str]) -> Result<()> {
        let mut command = Judge::Mkfs.command();
        command.env("DETERMINISTIC_SEED", "1").env("SOURCE_DATE_EPOCH", "1700000000");
        command.args(["-q", "-f", "--unsupported", "-m", &format!("uuid={}", self.uuid())]);
        command.args(&self.options).args(more).arg(image);
        run(&mut command)
    }

    /// One for each image, so that two may be mounted at once.
    fn uuid(&self) -> String {
        let number = self.name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(257) ^ u64::from(byte));
        format!("75786673-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
    }

    fn finish(&self, image: &Path) -> Result<()> {
        let mut command = Judge::XfsDb.command();
        command.arg("-x");
        for text in self.finishing.iter().chain(&[FORMAT_LOG]) {
            command.args(["-c", text]);
        }
        run(command.arg(image))
    }
}

/// Sizes of blocks, sectors, inodes, directory blocks, groups.
fn geometries() -> Vec<GoldenSpec> {
    vec![
        GoldenSpec::new("default", &["-L", "golden"]),
        GoldenSpec::of_shape("block-1k").with_recipe(|recipe| recipe.block_size_bytes = 1024),
        GoldenSpec::of_shape("block-2k").with_recipe(|recipe| recipe.block_size_bytes = 2048),
        GoldenSpec::of_shape("block-64k").with(|spec| {
            spec.size_bytes = 512 * MEBIBYTE;
            spec.recipe.block_size_bytes = 65536;
            spec.recipe.directory_block_size_bytes = 65536;
            spec.recipe.has_sparse_inodes = false;
        }),
        GoldenSpec::of_shape("sector-4k"),
        GoldenSpec::of_shape("inode-1k").with_recipe(|recipe| recipe.inode_size_bytes = 1024),
        GoldenSpec::of_shape("inode-2k").with_recipe(|recipe| recipe.inode_size_bytes = 2048),
        GoldenSpec::of_shape("directory-16k").with_recipe(|recipe| recipe.directory_block_size_bytes = 16384),
        GoldenSpec::of_shape("directory-64k").with_recipe(|recipe| recipe.directory_block_size_bytes = 65536),
        GoldenSpec::new("groups-2", &["-d", "agcount=2", "-l", "agnum=0"]),
        GoldenSpec::new("groups-16", &["-d", "agcount=16"]).with(|spec| spec.size_bytes = 512 * MEBIBYTE),
        GoldenSpec::new("stripes", &["-d", "su=64k,sw=2,agcount=4"]),
        GoldenSpec::new(
            "large-inode-numbers",
            &["-d", "agsize=600g", "-l", "size=64m", "-i", "maxpct=100", "-m", "rmapbt=0"],
        )
        .with(|spec| {
            spec.size_bytes = 1224 << 30;
            spec.recipe.has_sparse_inodes = false;
        }),
    ]
}

/// Features off, one by one and all together, and those that are off by default.
fn features() -> Vec<GoldenSpec> {
    vec![
        GoldenSpec::of_shape("no-rmapbt"),
        GoldenSpec::of_shape("no-reflink").with_recipe(|recipe| recipe.has_reflink = false),
        GoldenSpec::of_shape("no-finobt"),
        GoldenSpec::of_shape("no-sparse").with_recipe(|recipe| recipe.has_sparse_inodes = false),
        GoldenSpec::of_shape("no-bigtime").with_recipe(|recipe| recipe.has_bigtime = false),
        GoldenSpec::of_shape("no-nrext64"),
        GoldenSpec::of_shape("no-parent"),
        GoldenSpec::of_shape("no-feature").with_recipe(|recipe| {
            recipe.has_reflink = false;
            recipe.has_sparse_inodes = false;
            recipe.has_bigtime = false;
        }),
        GoldenSpec::new("meta-uuid", &[])
            .with(|spec| spec.finishing = vec!["uuid 75786673-ffff-4fff-8fff-ffffffffffff"]),
        GoldenSpec::of_shape("metadir"),
        GoldenSpec::of_shape("ascii-ci").with(|spec| {
            spec.filled_by = FilledBy::Mkfs;
            spec.recipe.is_plain_tree = true;
        }),
        GoldenSpec { name: "directory-levels", ..GoldenSpec::of_shape("no-parent") }
            .with_recipe(|recipe| recipe.many_names = 130_000),
    ]
}

/// `xfs_repair -n` must find nothing.
fn check(image: &Path) -> Result<()> {
    let output = Judge::XfsRepair.command().args(["-n", "-f"]).arg(image).output()?;
    let words = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "xfs_repair -n: {words}{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", words.trim());
    Ok(())
}

//! The sound image that is damaged: made through the kernel once, with the kernel's word of what it holds.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use uxfs_format::{
    features::{Incompatible, RoCompatible},
    geometry::Geometry,
    superblock::{MAX_SECTOR_SIZE_BYTES, Superblock},
};
use uxfs_testkit::{
    golden::{DIRTY_LOG, GoldenImage},
    image,
    manifest::{self, Header, Manifest},
    mount::{Access, LoopMount},
    populate::Recipe,
    shapes::Shape,
    sparse,
    verdict::repair_is_silent,
};

use super::{filling, survival::Tree};

const SIZE_BYTES: u64 = 512 << 20;
/// Of blocks beyond this size the image has as many as of blocks of this size: each small file takes one.
const LARGE_BLOCK_BYTES: u64 = 16 << 10;
/// To be raised when samples are filled in another way: those made before are not used then.
const VERSION: u32 = 1;

/// A sound image.
pub struct Sample {
    /// The shape, or the golden image.
    pub name: String,
    /// To be copied, never to be written.
    pub image: PathBuf,
    /// As it was before the second round of changes.
    pub older: Option<PathBuf>,
    /// The kernel's word.
    pub truth: Tree,
}

impl Sample {
    /// The sample in this shape, kept in `directory`.
    pub fn filled(directory: &Path, shape: Shape) -> Result<Self> {
        let folder = format!("sample-{}-{VERSION}", shape.name);
        Self::kept(&directory.join(folder), shape.name, |folder| {
            let (path, older) = (folder.join("image"), folder.join("older"));
            image::make(&path, size_bytes(shape), &shape.words().collect::<Vec<_>>())?;
            let recipe = recipe_of(&path)?;
            let mount = LoopMount::new(&path, Access::ReadWrite)?;
            recipe.populate(mount.path())?;
            filling::first_round(mount.path(), &recipe)?;
            mount.unmount()?;
            sparse::copy(&path, &older)?;
            let mount = LoopMount::new(&path, Access::ReadWrite)?;
            filling::second_round(mount.path(), &recipe)?;
            mount.unmount()
        })
    }

    /// A golden image. It has no older version.
    pub fn golden(directory: &Path, name: &str) -> Result<Self> {
        ensure!(name != DIRTY_LOG, "an image that needs log recovery is no sound image");
        let golden = GoldenImage::named(name)?;
        let version = golden.unpacked()?;
        let version = version.file_stem().context("an image without a name")?.to_string_lossy().into_owned();
        let folder = directory.join(format!("golden-{version}"));
        Self::kept(&folder, name, |folder| golden.unpack_to(&folder.join("image")))
    }

    /// Removes a kept sample.
    pub fn remove(self) -> Result<()> {
        Ok(fs::remove_dir_all(self.image.parent().context("an image without a folder")?)?)
    }

    /// A new image with a copy of what `fill` puts into its root directory.
    pub fn fresh(
        folder: &Path,
        name: &str,
        size_bytes: u64,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let image = folder.join("image");
        image::make(&image, size_bytes, &[])?;
        let mount = LoopMount::new(&image, Access::ReadWrite)?;
        fill(mount.path())?;
        mount.unmount()?;
        let truth = Tree::new(&describe(&image)?);
        Ok(Self { name: name.to_owned(), image, older: None, truth })
    }

    fn kept(folder: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let (image, older, truth) = (folder.join("image"), folder.join("older"), folder.join("truth.zst"));
        // Written last: what is there without it is not complete.
        if !truth.exists() {
            eprintln!("revive: making {} (once)", folder.display());
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
            fs::create_dir_all(folder)?;
            make(folder)?;
            repair_is_silent(&image)?;
            let manifest = describe(&image)?;
            let fresh = folder.join("truth.new");
            manifest.write(&fresh, 1)?;
            fs::rename(&fresh, &truth)?;
        }
        let manifest = Manifest::read(&truth)?;
        let older = older.exists().then_some(older);
        Ok(Self { name: name.to_owned(), image, older, truth: Tree::new(&manifest) })
    }
}

fn size_bytes(shape: Shape) -> u64 {
    let block_size =
        shape.settings().into_iter().find(|(letter, value)| *letter == 'b' && value.starts_with("size="));
    let block_bytes = block_size.and_then(|(_, value)| value.strip_prefix("size=")?.parse::<u64>().ok());
    SIZE_BYTES * (block_bytes.unwrap_or(0) / LARGE_BLOCK_BYTES).max(1)
}

/// What the kernel reads of an image.
type Describe = fn(&Path, Header) -> Result<Manifest>;

/// What the kernel reads of a sound image.
fn describe(image: &Path) -> Result<Manifest> {
    described(image, manifest::from_mount)
}

/// What the kernel reads of a repaired image. Only for images that `xfs_repair -n` calls clean: parts of them may be unreadable.
pub fn describe_repaired(image: &Path) -> Result<Manifest> {
    described(image, manifest::from_damaged_mount)
}

fn described(image: &Path, describe: Describe) -> Result<Manifest> {
    let mount = LoopMount::new(image, Access::ReadOnlyNoRecovery)?;
    let name = image.display().to_string();
    let header = Header { image: name, judge: "kernel".into(), made_by: "xtask revive".into() };
    let manifest = describe(mount.path(), header);
    mount.unmount()?;
    manifest
}

fn recipe_of(image: &Path) -> Result<Recipe> {
    let mut bytes = vec![0; MAX_SECTOR_SIZE_BYTES];
    fs::File::open(image)?.read_exact_at(&mut bytes, 0)?;
    let (superblock, _) = Superblock::parse(&bytes)?;
    let geometry = Geometry::new(superblock);
    let (read_only, both) = (geometry.features.ro_compatible, geometry.features.incompatible);
    Ok(Recipe {
        block_size_bytes: geometry.block_size_bytes.into(),
        directory_block_size_bytes: geometry.directory_block_size_bytes.into(),
        inode_size_bytes: geometry.inode_size_bytes.into(),
        has_reflink: read_only.contains(RoCompatible::REFLINK),
        // A chunk of one block has no holes.
        has_sparse_inodes: both.contains(Incompatible::SPARSE_INODES)
            && geometry.blocks_per_inode_chunk() > 1,
        has_bigtime: both.contains(Incompatible::BIG_TIME),
        is_plain_tree: false,
        many_names: 0,
    })
}

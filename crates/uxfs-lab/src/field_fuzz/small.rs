//! A golden image with few names of one file and few of one hash: the time of `xfs_repair` grows with the square of their number.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use uxfs_block::device::BlockDevice;
use uxfs_engine::{
    bulk::create::NewKind,
    options::{Clock, Generations, MountOptions},
};
use uxfs_filesystem::{filesystem::FileSystem, operations::create::NewFile};
use uxfs_format::directory::name_hash;
use uxfs_testkit::golden::GoldenImage;
use uxfs_volume::inode::FileType;

use crate::crash::{
    geometry::NOW,
    image::{Image, ImageDevice},
};

/// Before the name of a golden image, for `--image`.
pub const PREFIX: &str = "small-";
/// Names that a file keeps.
const MOST_NAMES: u32 = 3;
/// Names of one hash that a directory keeps.
const MOST_OF_A_HASH: u32 = 20;

/// Makes a copy of the golden image in `folder`, if there is none. All names of a file but a few become files of their own, and
/// names of equal hashes are removed.
///
/// # Errors
/// The image cannot be changed or written.
pub fn make(golden: &GoldenImage, folder: &Path) -> Result<PathBuf> {
    make_until(golden, folder, usize::MAX)
}

/// As [`make`], until so many names have become files of their own.
///
/// # Errors
/// As there.
pub fn make_until(golden: &GoldenImage, folder: &Path, most_files: usize) -> Result<PathBuf> {
    let source = golden.unpacked()?;
    let path = folder.join(source.file_name().context("a file name")?);
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(folder)?;
    let device: Arc<ImageDevice> = Arc::new(ImageDevice::new(Image::load(&source)?));
    let options = MountOptions {
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(NOW),
        ..MountOptions::default()
    };
    let filesystem = FileSystem::mount_logged(Arc::clone(&device) as Arc<dyn BlockDevice>, &options)?;
    part_names(&filesystem, most_files)?;
    filesystem.close()?;
    // Several workers may make it at once: the name leads to a complete image.
    let made = path.with_extension(std::process::id().to_string());
    device.image().save(&made)?;
    std::fs::rename(&made, &path)?;
    Ok(path)
}

fn part_names(filesystem: &FileSystem, most_files: usize) -> Result<()> {
    let mut files = 0;
    let mut names: HashMap<u64, u32> = HashMap::new();
    let mut directories = vec![filesystem.open_root()?];
    while let Some(directory) = directories.pop() {
        let mut entries = Vec::new();
        filesystem.read_entries(&directory, 0, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                entries.push((entry.name.to_vec(), entry.inode));
            }
            ControlFlow::Continue(())
        })?;
        let mut hashes: HashMap<u32, u32> = HashMap::new();
        for (name, number) in entries {
            let inode = filesystem.find(&directory, &name)?;
            if filesystem.stat(&inode)?.file_type == FileType::Directory {
                directories.push(inode);
                continue;
            }
            let of_hash = hashes.entry(name_hash::hash(&name)).or_default();
            *of_hash += 1;
            if *of_hash > MOST_OF_A_HASH {
                filesystem.unlink(&directory, &name)?;
                continue;
            }
            let count = names.entry(number.get()).or_default();
            *count += 1;
            if *count > MOST_NAMES {
                if files == most_files {
                    return Ok(());
                }
                files += 1;
                filesystem.unlink(&directory, &name)?;
                filesystem.create(&directory, &name, &NewFile::new(NewKind::Regular, 0o600))?;
            }
        }
    }
    Ok(())
}

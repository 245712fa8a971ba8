//! Images made in tests.
#![allow(dead_code)] // Each test file is a crate of its own and uses a part.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};
use uxfs_block::engine::{self, OpenOptions};
use uxfs_core::{
    filesystem::FileSystem,
    inode::Timestamp,
    mount::{Clock, Generations, MountOptions},
};
use uxfs_populate::{
    Options,
    adjust::Adjustments,
    report::{Progress, Report},
    stream::populate_streams,
    tree::populate_tree,
};
use uxfs_source::{
    directory::{DirectoryOptions, DirectorySource},
    stream::StreamSource,
    tree::Reading,
};
use uxfs_testkit::judges::Judge;

/// An empty image made by mkfs.xfs.
pub fn empty_image(directory: &Path, name: &str, size_mebibytes: u64, arguments: &[&str]) -> Result<PathBuf> {
    let image = directory.join(name);
    File::create(&image)?.set_len(size_mebibytes << 20)?;
    let status = Judge::Mkfs
        .command()
        .args(["-q", "-f", "-m", "uuid=5a0d9f0e-0b6c-4a36-8d2f-0f8f4a8a1a11"])
        .args(arguments)
        .arg(&image)
        .env("DETERMINISTIC_SEED", "1")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .status()?;
    ensure!(status.success(), "mkfs.xfs {arguments:?}");
    Ok(image)
}

/// Changes an image in bulk mode and closes it.
pub fn change<T>(
    image: &Path,
    cache_bytes: Option<u64>,
    change: impl FnOnce(&FileSystem) -> Result<T>,
) -> Result<T> {
    let device = engine::open(image, &OpenOptions { writable: true, ..OpenOptions::default() })?;
    let options = MountOptions {
        cache_budget_bytes: cache_bytes,
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(Timestamp { seconds: 1_700_000_000, nanoseconds: 5 }),
        ..MountOptions::default()
    };
    let file_system = FileSystem::mount_bulk(device, &options)?;
    let result = change(&file_system)?;
    file_system.close()?;
    Ok(result)
}

fn options(threads: usize) -> Options {
    Options { threads, keeps_access_times: true, ..Options::default() }
}

/// Fills an image from a directory.
pub fn fill(image: &Path, source: &Path, threads: usize) -> Result<Report> {
    fill_with(image, source, threads, None)
}

/// As [`fill`], with so much cache.
pub fn fill_with(image: &Path, source: &Path, threads: usize, cache_bytes: Option<u64>) -> Result<Report> {
    let how = options(threads);
    change(image, cache_bytes, |file_system| {
        let options = DirectoryOptions { threads, ..DirectoryOptions::default() };
        let mut source = DirectorySource::open(source, options, Reading::Everything)?;
        Ok(populate_tree(file_system, &mut source, &mut Adjustments::default(), &how, &Progress::default())?)
    })
}

/// Fills an image from archives, one after the other.
pub fn fill_from_streams(image: &Path, sources: &mut [Box<dyn StreamSource>]) -> Result<Report> {
    change(image, None, |file_system| {
        Ok(populate_streams(
            file_system,
            sources,
            &mut Adjustments::default(),
            &options(2),
            &Progress::default(),
        )?)
    })
}

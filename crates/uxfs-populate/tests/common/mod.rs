//! Images made in tests.
#![allow(dead_code)] // Each test file is a crate of its own and uses a part.

use std::path::{Path, PathBuf};

use anyhow::Result;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_populate::{
    Options,
    adjust::Adjustments,
    report::{Progress, Report},
    tree::populate_tree,
};
use uxfs_source::{
    directory::{DirectoryOptions, DirectorySource},
    tree::{Reading, TreeSource},
};
use uxfs_testkit::image::{make, mount_bulk, mount_options};

/// An empty image made by mkfs.xfs.
pub fn empty_image(directory: &Path, name: &str, size_mebibytes: u64, arguments: &[&str]) -> Result<PathBuf> {
    let image = directory.join(name);
    make(&image, size_mebibytes << 20, arguments)?;
    Ok(image)
}

/// Changes an image in bulk mode and closes it.
pub fn change<T>(
    image: &Path,
    cache_bytes: Option<u64>,
    change: impl FnOnce(&FileSystem) -> Result<T>,
) -> Result<T> {
    let file_system =
        mount_bulk(image, &MountOptions { cache_budget_bytes: cache_bytes, ..mount_options(0) })?;
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
    let options = DirectoryOptions { threads, ..DirectoryOptions::default() };
    let mut source = DirectorySource::open(source, options, Reading::Everything)?;
    fill_with_source(image, &mut source, threads, cache_bytes)
}

/// Fills an image from any tree.
pub fn fill_from(image: &Path, source: &mut dyn TreeSource) -> Result<Report> {
    fill_with_source(image, source, 2, None)
}

fn fill_with_source(
    image: &Path,
    source: &mut dyn TreeSource,
    threads: usize,
    cache_bytes: Option<u64>,
) -> Result<Report> {
    let how = options(threads);
    change(image, cache_bytes, |file_system| {
        Ok(populate_tree(file_system, source, &mut Adjustments::default(), &how, &Progress::default())?)
    })
}

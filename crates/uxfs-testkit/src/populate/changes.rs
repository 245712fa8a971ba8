//! A short history of every kind of change, so that a log holds every kind of item.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
    path::Path,
};

use anyhow::Result;
use rustix::fs::{
    FallocateFlags, XattrFlags, fallocate, ftruncate, ioctl_ficlone, lsetxattr, removexattr, syncfs,
};

use super::pattern;

const BLOCK_BYTES: u64 = 4096;

/// Makes, changes and removes things below `root`, the last ones with a file still open that has no name left.
///
/// # Errors
/// Any call fails.
pub fn changes(root: &Path) -> Result<()> {
    fs::create_dir(root.join("kept"))?;
    let original = File::create_new(root.join("kept/original"))?;
    original.write_all_at(&pattern(BLOCK_BYTES, 1, 0, 40 * BLOCK_BYTES), 0)?;
    syncfs(File::open(root)?)?;
    names(root)?;
    extents(root, &original)?;
    attributes(root)?;
    let unnamed = File::create_new(root.join("unnamed"))?;
    unnamed.write_all_at(&pattern(BLOCK_BYTES, 2, 0, 3 * BLOCK_BYTES), 0)?;
    fs::remove_file(root.join("unnamed"))?;
    unnamed.sync_all()?;
    Ok(())
}

fn names(root: &Path) -> Result<()> {
    fs::create_dir(root.join("many"))?;
    for number in 0..200 {
        File::create_new(root.join(format!("many/a-name-in-the-log-{number:03}")))?;
    }
    for number in (0..200).step_by(3) {
        fs::remove_file(root.join(format!("many/a-name-in-the-log-{number:03}")))?;
    }
    fs::rename(root.join("many/a-name-in-the-log-001"), root.join("renamed"))?;
    fs::rename(root.join("many/a-name-in-the-log-002"), root.join("many/a-name-in-the-log-004"))?;
    fs::hard_link(root.join("renamed"), root.join("many/linked"))?;
    symlink("a/target/".repeat(60), root.join("symlink"))?;
    fs::create_dir(root.join("removed"))?;
    Ok(fs::remove_dir(root.join("removed"))?)
}

fn extents(root: &Path, original: &File) -> Result<()> {
    let copy = File::create_new(root.join("copy"))?;
    ioctl_ficlone(&copy, original)?;
    copy.write_all_at(&pattern(BLOCK_BYTES, 3, 10 * BLOCK_BYTES, BLOCK_BYTES), 10 * BLOCK_BYTES)?;
    copy.sync_all()?;
    let unwritten = File::create_new(root.join("unwritten"))?;
    fallocate(&unwritten, FallocateFlags::empty(), 0, 30 * BLOCK_BYTES)?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&unwritten, punch, 10 * BLOCK_BYTES, 5 * BLOCK_BYTES)?;
    ftruncate(original, 20 * BLOCK_BYTES)?;
    Ok(())
}

fn attributes(root: &Path) -> Result<()> {
    let file = root.join("renamed");
    for number in 0..30 {
        lsetxattr(&file, format!("user.attribute{number}"), &[b'v'; 100], XattrFlags::empty())?;
    }
    for number in (0..30).step_by(4) {
        removexattr(&file, format!("user.attribute{number}"))?;
    }
    lsetxattr(&file, "user.remote", &[b'r'; 9000], XattrFlags::empty())?;
    Ok(())
}

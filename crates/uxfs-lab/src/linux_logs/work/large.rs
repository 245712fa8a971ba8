//! Large objects: files of very many extents, directories of very many names, inodes of very many attributes. A step of this
//! takes a while, so that most cuts come in the middle of one.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::PathBuf,
};

use rustix::fs::{FallocateFlags, XattrFlags, fallocate, ioctl_ficlone, lremovexattr, lsetxattr};

use super::{PROMPT, Weighted, Worker};

const BLOCK_BYTES: u64 = 4096;
/// Blocks of such a file.
const MOST_BLOCKS: u64 = 1500;
/// Such files, and such directories.
const NAMES: u64 = 4;

pub(super) const KINDS: &[Weighted] = &[
    (3, fragment),
    (3, exchange),
    (2, share),
    (3, reshape),
    (1, cut),
    (1, remove),
    (3, link),
    (2, move_names),
    (1, remove_names),
    (2, set_attributes),
    (1, remove_attributes),
];

fn path(worker: &mut Worker, kind: &str) -> PathBuf {
    let number = worker.random.below(NAMES);
    worker.root.join(format!("{kind}-{number}"))
}

fn file(worker: &mut Worker) -> io::Result<File> {
    let path = path(worker, "large");
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).custom_flags(PROMPT).open(path)
}

/// Something else in every other block.
fn fragment(worker: &mut Worker) -> io::Result<()> {
    let file = file(worker)?;
    let (blocks, step) = (100 + worker.random.below(MOST_BLOCKS - 100), 2 + worker.random.below(3));
    let byte = worker.random.below(255) as u8;
    file.write_all_at(&vec![byte; (blocks * BLOCK_BYTES) as usize], 0)?;
    let flags = worker.one_of([
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::ZERO_RANGE,
    ]);
    for block in (0..blocks).step_by(step as usize) {
        fallocate(&file, flags, block * BLOCK_BYTES, BLOCK_BYTES)?;
    }
    Ok(())
}

fn exchange(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (path(worker, "large"), path(worker, "large"));
    let (start, blocks) = (worker.random.below(50) * BLOCK_BYTES, worker.random.below(MOST_BLOCKS));
    let what = match worker.random.below(4) {
        0 => String::new(),
        1 => format!("-w -s 0 -d 0 -l {}", blocks * BLOCK_BYTES),
        2 => format!("-f -s {start} -d 0 -l {}", blocks * BLOCK_BYTES),
        _ => format!("-s {start} -d {start} -l {}", blocks * BLOCK_BYTES),
    };
    worker.ask_tool(&to, "", &format!("exchangerange {what} {}", from.display()))
}

fn share(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (file(worker)?, file(worker)?);
    Ok(ioctl_ficlone(to.as_fd(), from.as_fd())?)
}

/// Space of much of a file.
fn reshape(worker: &mut Worker) -> io::Result<()> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let flags = worker.one_of([
        FallocateFlags::empty(),
        punch,
        FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::COLLAPSE_RANGE,
        FallocateFlags::INSERT_RANGE,
        FallocateFlags::UNSHARE_RANGE,
    ]);
    let is_shift = flags == FallocateFlags::COLLAPSE_RANGE || flags == FallocateFlags::INSERT_RANGE;
    let most_blocks = if is_shift { 20 } else { MOST_BLOCKS };
    let file = file(worker)?;
    if flags == FallocateFlags::INSERT_RANGE && file.metadata()?.len() > 2 * MOST_BLOCKS * BLOCK_BYTES {
        return Ok(());
    }
    let (start, blocks) = (worker.random.below(100), 1 + worker.random.below(most_blocks));
    Ok(fallocate(&file, flags, start * BLOCK_BYTES, blocks * BLOCK_BYTES)?)
}

fn cut(worker: &mut Worker) -> io::Result<()> {
    let length = worker.random.below(MOST_BLOCKS * BLOCK_BYTES);
    file(worker)?.set_len(length)
}

/// Open or not.
fn remove(worker: &mut Worker) -> io::Result<()> {
    let path = path(worker, "large");
    if worker.chance(3) && worker.open.len() < super::OPEN_MAX {
        worker.open.push(File::open(&path)?);
    }
    fs::remove_file(path)
}

fn name(number: u64) -> String {
    format!("{number:0>200}")
}

fn link(worker: &mut Worker) -> io::Result<()> {
    let (directory, target) = (path(worker, "directory"), path(worker, "large"));
    let _ = fs::create_dir(&directory);
    let (first, count) = (worker.random.below(3000), 50 + worker.random.below(1500));
    for number in first..first + count {
        match fs::hard_link(&target, directory.join(name(number))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Of some, those that are there.
fn each_name(
    worker: &mut Worker,
    mut change: impl FnMut(&mut Worker, PathBuf, String) -> io::Result<()>,
) -> io::Result<()> {
    let directory = path(worker, "directory");
    let (first, count) = (worker.random.below(3000), 50 + worker.random.below(1500));
    for number in first..first + count {
        let old = directory.join(name(number));
        match change(worker, old, name(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn move_names(worker: &mut Worker) -> io::Result<()> {
    let other = path(worker, "directory");
    let _ = fs::create_dir(&other);
    each_name(worker, |_, old, name| fs::rename(old, other.join(name)))
}

fn remove_names(worker: &mut Worker) -> io::Result<()> {
    each_name(worker, |_, old, _| fs::remove_file(old))
}

fn set_attributes(worker: &mut Worker) -> io::Result<()> {
    let path = path(worker, "large");
    let (first, count) = (worker.random.below(400), 20 + worker.random.below(300));
    for number in first..first + count {
        let length = worker.one_of([10, 100, 1000, 3000, 10_000, 40_000]);
        let value = vec![number as u8; length];
        lsetxattr(&path, format!("trusted.{}", name(number)), &value, XattrFlags::empty())?;
    }
    Ok(())
}

fn remove_attributes(worker: &mut Worker) -> io::Result<()> {
    let path = path(worker, "large");
    let (first, count) = (worker.random.below(400), 20 + worker.random.below(300));
    for number in first..first + count {
        match lremovexattr(&path, format!("trusted.{}", name(number))) {
            Err(error) if error != rustix::io::Errno::NODATA => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

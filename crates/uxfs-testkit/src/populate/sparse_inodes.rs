//! Inode chunks that are only partly there: made where free space is too broken up for a whole chunk.
//!
//! All space is taken and holes smaller than a chunk are punched all over it. What each allocation group holds in reserve is still
//! in one piece then, and would be found as soon as anything is free; so a second file takes all that is left, the large pieces
//! first. The reserve now lies in the small holes, and a few more are punched for the inodes.

use std::fs::File;

use anyhow::Result;
use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};

use super::Place;

const INODES_PER_CHUNK: u64 = 64;
const FILLERS: [&str; 2] = ["filler", "second-filler"];
/// Holes offered to the inodes.
const OFFERED_HOLES: u64 = 40;
const FILES: u64 = 400;

pub(super) fn populate(place: &Place) -> Result<()> {
    let chunk_bytes = INODES_PER_CHUNK * place.recipe.inode_size_bytes;
    let block = place.recipe.block_size_bytes;
    // One block less than a chunk: a part of a chunk fits, however it is aligned, and never a whole one.
    let hole_bytes = chunk_bytes - block;
    place.directory("sparse-inodes")?;
    let filler = place.file(FILLERS[0])?;
    let cells = fill(&filler, block)? / (2 * chunk_bytes);
    for cell in 0..cells {
        punch(&filler, cell * 2 * chunk_bytes, hole_bytes)?;
    }
    fill(&place.file(FILLERS[1])?, block)?;
    for number in 0..OFFERED_HOLES {
        let cell = number * cells / OFFERED_HOLES;
        punch(&filler, (cell * 2 + 1) * chunk_bytes, hole_bytes)?;
    }
    create(place)?;
    drop(filler);
    FILLERS.iter().try_for_each(|name| place.remove(name))
}

fn punch(file: &File, offset: u64, length: u64) -> Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)?)
}

/// Takes all free space; gives how many bytes that were.
fn fill(filler: &File, block: u64) -> Result<u64> {
    let mut step = fstatvfs(filler)?.f_bavail * block;
    let mut filled = 0;
    while step >= block {
        match fallocate(filler, FallocateFlags::empty(), filled, step) {
            Ok(()) => filled += step,
            Err(Errno::NOSPC) => step = step / 2 / block * block,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// As many as find room.
fn create(place: &Place) -> Result<()> {
    for number in 0..FILES {
        match place.file(format!("sparse-inodes/{number}")) {
            Err(error) if error.downcast_ref::<std::io::Error>().is_some_and(is_no_space) => break,
            other => drop(other?),
        }
    }
    Ok(())
}

fn is_no_space(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::StorageFull
}

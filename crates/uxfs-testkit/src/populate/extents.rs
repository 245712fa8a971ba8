//! Files with every kind of extent.

use std::fs::File;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, copy_file_range, fallocate, ftruncate, ioctl_ficlone};

use super::Place;

pub(super) fn populate(place: &Place) -> Result<()> {
    place.directory("extents")?;
    small(place)?;
    holes(place)?;
    if place.recipe.is_plain_tree {
        return Ok(());
    }
    unwritten(place)?;
    fragmented(place)?;
    if place.recipe.has_reflink {
        shared(place)?;
    }
    Ok(())
}

fn block(place: &Place) -> u64 {
    place.recipe.block_size_bytes
}

/// Pieces of a fragmented file: thousands where blocks are small enough.
fn piece_count(place: &Place) -> u64 {
    if block(place) > 4096 { 1500 } else { 4000 }
}

fn small(place: &Place) -> Result<()> {
    let block = block(place);
    for (number, size) in (10..).zip([0, 1, block - 1, block, block + 1, 3 * block + 7]) {
        place.write(&place.file(format!("extents/of-{size}-bytes"))?, number, 0, size)?;
    }
    place.write(&place.file("extents/large")?, 20, 0, 6 << 20)
}

fn holes(place: &Place) -> Result<()> {
    let block = block(place);
    let start = place.file("extents/hole-at-start")?;
    place.write(&start, 30, 5 * block, block)?;
    let end = place.file("extents/hole-at-end")?;
    place.write(&end, 31, 0, block)?;
    ftruncate(&end, 20 * block + 5)?;
    ftruncate(place.file("extents/only-a-hole")?, 100 * block)?;
    if place.recipe.is_plain_tree {
        return Ok(());
    }
    let tebibyte = place.file("extents/tebibyte")?;
    for offset in [0, 1 << 30, 1 << 36, (1 << 40) - block - 3] {
        place.write(&tebibyte, 32, offset, block)?;
    }
    let far = place.file("extents/far")?;
    place.write(&far, 33, (1 << 62) + block, 2 * block)
}

fn preallocate(file: &File, flags: FallocateFlags, offset: u64, length: u64) -> Result<()> {
    fallocate(file, flags, offset, length).context("cannot preallocate")
}

fn unwritten(place: &Place) -> Result<()> {
    let block = block(place);
    let only = place.file("extents/only-unwritten")?;
    preallocate(&only, FallocateFlags::empty(), 0, 50 * block)?;
    let past = place.file("extents/unwritten-past-the-end")?;
    place.write(&past, 40, 0, block + 100)?;
    preallocate(&past, FallocateFlags::KEEP_SIZE, 10 * block, 30 * block)?;
    let comb = place.file("extents/unwritten-comb")?;
    preallocate(&comb, FallocateFlags::empty(), 0, 600 * block)?;
    for number in 0..300 {
        place.write(&comb, 41, number * 2 * block, block)?;
    }
    let zeroed = place.file("extents/zeroed-range")?;
    place.write(&zeroed, 42, 0, 20 * block)?;
    zeroed.sync_all()?;
    preallocate(&zeroed, FallocateFlags::ZERO_RANGE, 5 * block, 6 * block)
}

fn fragmented(place: &Place) -> Result<()> {
    let block = block(place);
    let sparse = place.file("extents/fragmented")?;
    for number in 0..piece_count(place) {
        // Most pieces are data; every fourth is only preallocated.
        if number % 4 == 3 {
            preallocate(&sparse, FallocateFlags::empty(), number * 2 * block, block)?;
        } else {
            place.write(&sparse, 50, number * 2 * block, block)?;
        }
    }
    sparse.sync_all()?;
    let punched = place.file("extents/punched")?;
    place.write(&punched, 51, 0, 300 * block)?;
    punched.sync_all()?;
    for number in 0..100 {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        preallocate(&punched, flags, (number * 3 + 1) * block, block)?;
    }
    fragment_free_space(place)?;
    intertwined(place)
}

/// Leaves so many single free blocks that the free-space trees take more than one block.
fn fragment_free_space(place: &Place) -> Result<()> {
    let block = block(place);
    let comb = place.file("extents/free-space-comb")?;
    let count = piece_count(place) / 4;
    preallocate(&comb, FallocateFlags::empty(), 0, count * 2 * block)?;
    for number in 0..count {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        preallocate(&comb, flags, number * 2 * block, block)?;
    }
    Ok(())
}

/// Two dense files whose blocks take turns on the disk.
fn intertwined(place: &Place) -> Result<()> {
    let block = block(place);
    let files = [place.file("extents/warp")?, place.file("extents/weft")?];
    for number in 0..120 {
        for (index, file) in (60..).zip(&files) {
            preallocate(file, FallocateFlags::empty(), number * block, block)?;
            place.write(file, index, number * block, block)?;
        }
    }
    Ok(())
}

fn shared(place: &Place) -> Result<()> {
    let block = block(place);
    place.directory("extents/shared")?;
    let original = place.file("extents/shared/original")?;
    place.write(&original, 70, 0, 64 * block)?;
    for number in 0..3 {
        let copy = place.file(format!("extents/shared/copy-{number}"))?;
        ioctl_ficlone(&copy, &original).context("cannot clone")?;
        // The first stays shared, the second is changed in the middle, the third at the end and cut.
        match number {
            1 => place.write(&copy, 71, 20 * block, 4 * block)?,
            2 => {
                place.write(&copy, 72, 64 * block, 2 * block)?;
                ftruncate(&copy, 40 * block + 9)?;
            }
            _ => {}
        }
    }
    let twice = place.file("extents/shared/twice-in-one-file")?;
    place.write(&twice, 73, 0, 8 * block)?;
    clone_range(&twice, 0, &twice, 16 * block, 8 * block)?;
    comb(place)
}

/// Every other block of a dense file shared: a record for each in the reference-count tree.
fn comb(place: &Place) -> Result<()> {
    let block = block(place);
    let count = piece_count(place) / 5;
    let dense = place.file("extents/shared/dense")?;
    place.write(&dense, 74, 0, count * 2 * block)?;
    dense.sync_all()?;
    let comb = place.file("extents/shared/comb")?;
    for number in 0..count {
        clone_range(&dense, number * 2 * block, &comb, number * 2 * block, block)?;
    }
    Ok(())
}

fn clone_range(from: &File, from_offset: u64, to: &File, to_offset: u64, length: u64) -> Result<()> {
    let (mut read_at, mut write_at) = (from_offset, to_offset);
    let copied =
        copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), usize::try_from(length)?)?;
    ensure!(copied as u64 == length, "only {copied} of {length} bytes cloned");
    Ok(())
}

//! Writes, holes, space, sharing, exchanges.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
};

use rustix::fs::{FallocateFlags, copy_file_range, fallocate, ioctl_ficlone};

use super::{PROMPT, Weighted, Worker};

/// Most of a file lies before this.
const NEAR_BYTES: u64 = 256 << 10;
/// Files stay shorter than this, but for what they have beyond their end.
const FAR_BYTES: u64 = 1 << 20;

pub(super) const KINDS: &[Weighted] = &[
    (4, write),
    (2, write_unaligned),
    (3, write_often),
    (2, write_around_the_cache),
    (1, write_to_a_mapping),
    (1, fragment),
    (2, truncate),
    (1, truncate_to_nothing),
    (6, reserve),
    (2, share_all),
    (2, share_some),
    (1, share_equals),
    (1, unshare),
    (1, exchange),
    (1, sync),
];

fn place(worker: &mut Worker) -> (u64, u64) {
    let most = if worker.chance(8) { FAR_BYTES } else { NEAR_BYTES };
    let start = worker.random.below(most) & !4095;
    (start, (1 + worker.random.below(12)) * 4096)
}

fn bytes(worker: &mut Worker, length: u64) -> Vec<u8> {
    vec![worker.random.below(255) as u8; length as usize]
}

pub(super) fn write_to(worker: &mut Worker, file: &std::fs::File) -> io::Result<()> {
    let (start, length) = place(worker);
    let bytes = bytes(worker, length);
    file.write_all_at(&bytes, start)
}

fn write(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).custom_flags(PROMPT).open(path)?;
    write_to(worker, &file)
}

fn write_unaligned(worker: &mut Worker) -> io::Result<()> {
    let file = worker.file()?;
    let (start, length) = (worker.random.below(NEAR_BYTES), 1 + worker.random.below(9000));
    let bytes = bytes(worker, length);
    file.write_all_at(&bytes, start)
}

fn write_often(worker: &mut Worker) -> io::Result<()> {
    let file = worker.file()?;
    for _ in 0..1 + worker.random.below(16) {
        write_to(worker, &file)?;
    }
    if worker.chance(3) { file.sync_all() } else { Ok(()) }
}

fn write_around_the_cache(worker: &mut Worker) -> io::Result<()> {
    let (path, (start, length)) = (worker.name(), place(worker));
    let command = match worker.random.below(3) {
        // In one piece or not at all: the kernel may have to set blocks aside for it.
        0 => format!("pwrite -q -A -D -V 1 -b {} {} {}", 16384, start & !16383, 16384),
        _ => format!("pwrite -q -b {length} {start} {length}"),
    };
    worker.ask_tool(&path, "-d", &command)
}

fn write_to_a_mapping(worker: &mut Worker) -> io::Result<()> {
    let (path, (start, length)) = (worker.name(), place(worker));
    // Beyond the end it would be killed: the file is made long enough first.
    let end = start + length;
    let commands = format!("falloc 0 {end}\nmmap -rw 0 {end}\nmwrite -S 77 {start} {length}\nmunmap");
    worker.ask_tool(&path, "", &commands)
}

/// A hole in every other block: soon the extents have a tree of their own.
fn fragment(worker: &mut Worker) -> io::Result<()> {
    let file = worker.file()?;
    let (start, count) = (worker.random.below(NEAR_BYTES) & !4095, 4 + worker.random.below(60));
    let is_punched = worker.chance(2);
    if is_punched {
        let bytes = bytes(worker, 2 * 4096 * count);
        file.write_all_at(&bytes, start)?;
    }
    for number in 0..count {
        let at = start + 2 * 4096 * number;
        if is_punched {
            fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, 4096)?;
        } else {
            file.write_all_at(&[7; 4096], at)?;
        }
    }
    if worker.chance(2) { file.sync_data() } else { Ok(()) }
}

fn truncate(worker: &mut Worker) -> io::Result<()> {
    let length = worker.random.below(NEAR_BYTES);
    worker.file()?.set_len(length)
}

fn truncate_to_nothing(worker: &mut Worker) -> io::Result<()> {
    worker.file()?.set_len(0)
}

fn reserve(worker: &mut Worker) -> io::Result<()> {
    let (start, length) = place(worker);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let flags = worker.one_of([
        FallocateFlags::empty(),
        FallocateFlags::KEEP_SIZE,
        punch,
        punch,
        FallocateFlags::ZERO_RANGE,
        FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        FallocateFlags::COLLAPSE_RANGE,
        FallocateFlags::INSERT_RANGE,
    ]);
    let file = worker.file()?;
    if flags == FallocateFlags::INSERT_RANGE && file.metadata()?.len() > 2 * FAR_BYTES {
        return Ok(());
    }
    Ok(fallocate(file, flags, start, length)?)
}

fn share_all(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.file()?, worker.file()?);
    Ok(ioctl_ficlone(to.as_fd(), from.as_fd())?)
}

/// XFS shares what is copied where it can.
fn share_some(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.file()?, worker.file()?);
    let ((mut at, length), (mut target, _)) = (place(worker), place(worker));
    copy_file_range(from, Some(&mut at), to, Some(&mut target), length as usize).map(drop)?;
    Ok(())
}

fn share_equals(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    let (start, length) = place(worker);
    // The same bytes in both, or they would not be shared.
    for path in [&from, &to] {
        let file = OpenOptions::new().write(true).custom_flags(PROMPT).open(path)?;
        file.write_all_at(&vec![99; length as usize], start)?;
    }
    worker.ask_tool(&to, "", &format!("dedupe {} {start} {start} {length}", from.display()))
}

fn unshare(worker: &mut Worker) -> io::Result<()> {
    let (start, length) = place(worker);
    Ok(fallocate(worker.file()?, FallocateFlags::UNSHARE_RANGE, start, 4 * length)?)
}

fn exchange(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    let (start, length) = place(worker);
    let what = match worker.random.below(4) {
        // To the ends: sizes change places, too.
        0 => String::new(),
        1 => format!("-w -s {start} -d {start} -l {length}"),
        2 => format!("-f -s {start} -d {start} -l {length}"),
        _ => format!("-s {} -d {start} -l {}", (start / 2) & !4095, 4 * length),
    };
    worker.ask_tool(&to, "", &format!("exchangerange {what} {}", from.display()))
}

fn sync(worker: &mut Worker) -> io::Result<()> {
    let file = worker.file()?;
    if worker.chance(2) { file.sync_all() } else { file.sync_data() }
}

//! Names that come and go, files without any.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, linkat, mknodat, renameat_with};

use super::{OPEN_MAX, PROMPT, Weighted, Worker, contents};

pub(super) const KINDS: &[Weighted] = &[
    (4, create),
    (4, unlink),
    (2, unlink_open),
    (2, remove),
    (5, rename),
    (2, rename_specially),
    (1, whiteout),
    (2, link),
    (2, make_symlink),
    (2, make_directory),
    (1, fill_directory),
    (1, empty_directory),
    (2, make_special),
    (2, make_temporary),
    (2, close),
];

pub(super) fn create(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    OpenOptions::new().create_new(true).write(true).open(path).map(drop)
}

fn unlink(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    fs::remove_file(path)
}

/// Unlinks a file that stays open.
fn unlink_open(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    if worker.open.len() < OPEN_MAX {
        let file = OpenOptions::new().read(true).custom_flags(PROMPT).open(&path)?;
        worker.open.push(file);
    }
    fs::remove_file(&path).or_else(|_| fs::remove_dir(&path))
}

fn remove(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path))
}

fn rename(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    fs::rename(from, to)
}

fn rename_specially(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    let flags = worker.one_of([RenameFlags::EXCHANGE, RenameFlags::EXCHANGE, RenameFlags::NOREPLACE]);
    Ok(renameat_with(CWD, from, CWD, to, flags)?)
}

fn whiteout(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    Ok(renameat_with(CWD, from, CWD, to, RenameFlags::WHITEOUT)?)
}

fn link(worker: &mut Worker) -> io::Result<()> {
    let (from, to) = (worker.name(), worker.name());
    fs::hard_link(from, to)
}

fn make_symlink(worker: &mut Worker) -> io::Result<()> {
    let (path, length) = (worker.name(), worker.one_of([5, 300, 1000]));
    std::os::unix::fs::symlink("t".repeat(length), path)
}

fn make_directory(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    fs::create_dir(path)
}

/// Enough names for blocks, leaves, and sometimes nodes.
fn fill_directory(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    if !path.is_dir() {
        fs::create_dir(&path)?;
    }
    let most = worker.one_of([6, 6, 30, 160]);
    let is_linked = worker.chance(2);
    let first = path.join("first");
    let _ = File::create(&first)?;
    for number in 0..worker.random.below(most) {
        let name = path.join(format!("name-that-is-longer-{number}"));
        if is_linked {
            fs::hard_link(&first, name)?
        } else {
            File::create(name).map(drop)?
        };
    }
    Ok(())
}

/// Of a directory with many names some go: blocks in the middle become free.
fn empty_directory(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    for entry in fs::read_dir(path)?.flatten() {
        if !worker.chance(5) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn make_special(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let kinds = [FileType::Fifo, FileType::CharacterDevice, FileType::BlockDevice, FileType::Socket];
    let kind = worker.one_of(kinds);
    Ok(mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), rustix::fs::makedev(4000, 1))?)
}

/// A file that never had a name, and perhaps gets one.
fn make_temporary(worker: &mut Worker) -> io::Result<()> {
    let directory = worker.directory();
    let flags = OFlags::TMPFILE.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(directory)?;
    contents::write_to(worker, &file)?;
    if worker.chance(2) {
        let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let path = worker.name();
        linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
    } else if worker.open.len() < OPEN_MAX {
        worker.open.push(file);
    }
    Ok(())
}

fn close(worker: &mut Worker) -> io::Result<()> {
    if !worker.open.is_empty() {
        let which = worker.random.below(worker.open.len() as u64) as usize;
        drop(worker.open.swap_remove(which));
    }
    Ok(())
}

//! Extended attributes, modes, owners, flags.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use rustix::fs::{
    AtFlags, CWD, Timespec, Timestamps, XattrFlags, llistxattr, lremovexattr, lsetxattr, utimensat,
};

use super::{Weighted, Worker};

/// The longest value that there is.
const VALUE_MAX: usize = 65536;

pub(super) const KINDS: &[Weighted] = &[
    (5, set),
    (1, set_many),
    (1, set_large),
    (2, remove),
    (1, remove_all),
    (2, set_acl),
    (2, set_mode_and_times),
    (1, set_owner),
    (1, set_flags),
];

fn name(worker: &mut Worker) -> String {
    let space = worker.one_of(["user", "user", "trusted", "security"]);
    let long = if worker.chance(6) { "long".repeat(40) } else { String::new() };
    format!("{space}.{}{long}", worker.random.below(12))
}

fn value(worker: &mut Worker, length: usize) -> Vec<u8> {
    vec![worker.random.below(255) as u8; length]
}

fn set(worker: &mut Worker) -> io::Result<()> {
    let (path, name) = (worker.name(), name(worker));
    let length = worker.one_of([0, 3, 60, 250, 300, 3000, 9000]);
    let value = value(worker, length);
    let flags =
        worker.one_of([XattrFlags::empty(), XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
    Ok(lsetxattr(path, name, &value, flags)?)
}

fn set_large(worker: &mut Worker) -> io::Result<()> {
    let (path, name) = (worker.name(), name(worker));
    let length = worker.one_of([20_000, VALUE_MAX - 1, VALUE_MAX]);
    let value = value(worker, length);
    Ok(lsetxattr(path, name, &value, XattrFlags::empty())?)
}

/// Enough for several leaves.
fn set_many(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let first = worker.random.below(40);
    for number in first..first + worker.random.below(90) {
        let length = worker.one_of([10, 100, 300]);
        let value = value(worker, length);
        lsetxattr(&path, format!("trusted.many-{number}"), &value, XattrFlags::empty())?;
    }
    Ok(())
}

fn remove(worker: &mut Worker) -> io::Result<()> {
    let (path, name) = (worker.name(), name(worker));
    Ok(lremovexattr(path, name)?)
}

fn remove_all(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let mut names = vec![0; 64 << 10];
    let length = llistxattr(&path, names.as_mut_slice())?;
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if worker.chance(10) {
            return Ok(());
        }
        lremovexattr(&path, name)?;
    }
    Ok(())
}

/// An access control list with one named user, of the file, or of what will be made in the directory.
fn set_acl(worker: &mut Worker) -> io::Result<()> {
    let (is_default, user) = (worker.chance(3), worker.random.below(30) as u32);
    let path = if is_default { worker.directory() } else { worker.name() };
    acl(&path, is_default, user)
}

fn acl(path: &Path, is_default: bool, user: u32) -> io::Result<()> {
    let mut acl = 2_u32.to_le_bytes().to_vec();
    let no_id = u32::MAX;
    for (tag, permissions, id) in
        [(1_u16, 6_u16, no_id), (2, 4, user), (4, 4, no_id), (0x10, 6, no_id), (0x20, 0, no_id)]
    {
        acl.extend(tag.to_le_bytes());
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    let kind = if is_default { "default" } else { "access" };
    Ok(lsetxattr(path, format!("system.posix_acl_{kind}"), &acl, XattrFlags::empty())?)
}

fn set_mode_and_times(worker: &mut Worker) -> io::Result<()> {
    let (path, seconds) = (worker.name(), worker.random.below(1 << 33) as i64);
    let time = Timespec { tv_sec: seconds, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    let bits = worker.random.below(0o7777) as u32;
    fs::set_permissions(&path, fs::Permissions::from_mode(bits))
}

fn set_owner(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let (user, group) = (worker.random.below(1 << 20) as u32, worker.random.below(70_000) as u32);
    std::os::unix::fs::lchown(path, Some(user), Some(group))
}

fn set_flags(worker: &mut Worker) -> io::Result<()> {
    let path = worker.name();
    let blocks = 4 * worker.random.below(8);
    let command = match worker.random.below(8) {
        0 => format!("chproj {}", worker.random.below(1 << 31)),
        1 => format!("extsize {blocks}k"),
        2 => format!("cowextsize {blocks}k"),
        3 => "chattr +sAdf".to_owned(),
        4 => "chattr +P".to_owned(),
        5 => "chattr -sAdfP".to_owned(),
        // What must not be changed stays so for a moment only.
        6 => "chattr +i\nchattr -i".to_owned(),
        _ => "chattr +a\nchattr -a".to_owned(),
    };
    worker.ask_tool(&path, "-r", &command)
}

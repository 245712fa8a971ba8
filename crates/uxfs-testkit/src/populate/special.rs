//! Symbolic links, devices, owners, modes, times, flags and hints.

use std::{fs, os::unix::fs as unix, path::Path};

use anyhow::Result;
use rustix::fs::{
    AtFlags, CWD, FileType, IFlags, Mode, Timespec, Timestamps, XattrFlags, chmod, chown, ioctl_getflags,
    ioctl_setflags, lsetxattr, makedev, mknodat, utimensat,
};
use rustix::process::{Gid, Uid};

use super::Place;

pub(super) fn populate(place: &Place) -> Result<()> {
    place.directory("special")?;
    symlinks(place)?;
    nodes(place)?;
    owners_and_modes(place)?;
    freed_inodes(place)?;
    if place.recipe.is_plain_tree {
        return Ok(());
    }
    flags_and_hints(place)
}

/// Around the room in the inode, and the longest, which takes more than one block of 1 KiB.
fn symlinks(place: &Place) -> Result<()> {
    let fork = place.recipe.inode_size_bytes - 176;
    place.directory("special/symlinks")?;
    for length in [1, 30, 192, 193, fork - 1, fork, fork + 1, 900, 1023] {
        let target = "0123456789/".repeat(100).chars().take(usize::try_from(length)?).collect::<String>();
        let link = place.path(format!("special/symlinks/of-{length}-bytes"));
        if fs::symlink_metadata(&link).is_err() && length < 1024 {
            unix::symlink(target, link)?;
        }
    }
    for (name, target) in
        [("up", "../.."), ("absolute", "/etc/passwd"), ("dangling", "no-such-file"), ("loop", "loop")]
    {
        unix::symlink(target, place.path(format!("special/symlinks/{name}")))?;
    }
    let with_attribute = place.path("special/symlinks/up");
    Ok(lsetxattr(&with_attribute, "trusted.of-a-symlink", b"value", XattrFlags::empty())?)
}

fn nodes(place: &Place) -> Result<()> {
    let devices = [
        ("null", FileType::CharacterDevice, 1, 3),
        ("largest-numbers", FileType::CharacterDevice, 511, 262_143),
        ("disk", FileType::BlockDevice, 8, 17),
        ("fifo", FileType::Fifo, 0, 0),
        ("socket", FileType::Socket, 0, 0),
    ];
    // `mkfs.xfs -p` opens every device that it copies.
    let is_there = |name| !place.recipe.is_plain_tree || name == "null";
    for (name, kind, major, minor) in devices.into_iter().filter(|device| is_there(device.0)) {
        let path = place.path(format!("special/{name}"));
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o640), makedev(major, minor))?;
        lsetxattr(&path, "trusted.of-a-node", name.as_bytes(), XattrFlags::empty())?;
    }
    Ok(mknodat(CWD, place.path("special/bare-fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
}

fn owners_and_modes(place: &Place) -> Result<()> {
    place.directory("special/owners")?;
    for (name, user, group, mode) in [
        ("plain", 1000, 1000, 0o644),
        ("large", 4_000_000_000, 3_000_000_000, 0o600),
        ("set-id", 65534, 5, 0o6755),
        ("none", 0, 0, 0),
    ] {
        place.file(format!("special/owners/{name}"))?;
        let path = place.path(format!("special/owners/{name}"));
        chown(&path, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        chmod(&path, Mode::from_raw_mode(mode))?;
    }
    chmod(place.directory("special/owners/sticky")?, Mode::from_raw_mode(0o1777))?;
    Ok(())
}

/// Chunks with free inodes among used ones.
fn freed_inodes(place: &Place) -> Result<()> {
    place.directory("special/freed")?;
    for number in 0..200 {
        place.file(format!("special/freed/{number}"))?;
    }
    for number in (0..200).filter(|number| number % 5 != 0) {
        place.remove(format!("special/freed/{number}"))?;
    }
    Ok(())
}

fn flags_and_hints(place: &Place) -> Result<()> {
    let block = place.recipe.block_size_bytes;
    place.directory("special/flags")?;
    for (name, command) in [
        ("extent-size", format!("extsize {}", 16 * block)),
        ("project", "chproj 42".to_owned()),
        ("large-project", "chproj 4000000000".to_owned()),
        ("no-defragmentation", "chattr +f".to_owned()),
    ] {
        place.file(format!("special/flags/{name}"))?;
        place.xfs_io(&command, &format!("special/flags/{name}"))?;
    }
    place.write(
        &fs::File::options().write(true).open(place.path("special/flags/extent-size"))?,
        80,
        0,
        100,
    )?;
    if place.recipe.has_reflink {
        place.file("special/flags/cow-extent-size")?;
        place.xfs_io(&format!("cowextsize {}", 8 * block), "special/flags/cow-extent-size")?;
    }
    place.directory("special/flags/inherits")?;
    for command in ["chproj 7".to_owned(), "chattr +P".to_owned(), format!("extsize {}", 4 * block)] {
        place.xfs_io(&command, "special/flags/inherits")?;
    }
    place.file("special/flags/inherits/child")?;
    place.directory("special/flags/no-symlinks")?;
    place.xfs_io("chattr +n", "special/flags/no-symlinks")?;
    for (name, flags) in [
        ("immutable", IFlags::IMMUTABLE),
        ("append-only", IFlags::APPEND),
        ("no-dump", IFlags::NODUMP),
        ("no-access-time", IFlags::NOATIME),
        ("synchronous", IFlags::SYNC),
    ] {
        let file = place.file(format!("special/flags/{name}"))?;
        place.write(&file, 81, 0, 50)?;
        ioctl_setflags(&file, ioctl_getflags(&file)? | flags)?;
    }
    Ok(())
}

/// Times at the edges. Last, since other work changes them.
pub(super) fn set_times(place: &Place) -> Result<()> {
    place.directory("special/times")?;
    let past = [("before-1970", -1_000_000_000, 999_999_999), ("earliest", -(1 << 31), 1), ("epoch", 0, 0)];
    let last: i64 = if place.recipe.has_bigtime { 16_299_260_424 } else { i32::MAX.into() };
    let future = [("2038", i32::MAX.into(), 123_456_789), ("latest", last, 0)];
    for (name, seconds, nanoseconds) in past.into_iter().chain(future) {
        place.file(format!("special/times/{name}"))?;
        set_time(&place.path(format!("special/times/{name}")), seconds, nanoseconds)?;
    }
    if place.recipe.has_bigtime {
        place.file("special/times/after-2038")?;
        set_time(&place.path("special/times/after-2038"), 5_000_000_000, 5)?;
    }
    Ok(())
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) -> Result<()> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

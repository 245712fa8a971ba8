//! Work of the kernel on a repaired image: a repair that left something wrong shows when space and names come and go.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::{Context, Result};
use rustix::fs::{
    IFlags, Mode, OFlags, XattrFlags, ioctl_getflags, ioctl_setflags, lsetxattr, open, openat, syncfs,
};
use uxfs_testkit::{
    mount::{Access, LoopMount},
    populate::pattern,
    seeds::Random,
    verdict::{kernel_removes_everything, repair_is_silent},
};

/// Directories that are made, with so many files each.
const DIRECTORIES: u64 = 8;
const FILES: u64 = 60;

/// Makes files, then removes everything; `xfs_repair -n` is silent after each.
///
/// # Errors
/// The kernel or `xfs_repair` says no.
pub fn work_on(image: &Path, seed: u64) -> Result<()> {
    let mount = LoopMount::new(image, Access::ReadWrite)?;
    make_files(mount.path(), &mut Random::new(seed)).context("making files")?;
    unprotect(mount.path())?;
    mount.unmount()?;
    repair_is_silent(image).context("after files were made")?;
    kernel_removes_everything(image, seed).map(drop)
}

fn make_files(root: &Path, random: &mut Random) -> Result<()> {
    for directory in 0..DIRECTORIES {
        let folder = root.join(format!("made-after-repair-{directory}"));
        fs::create_dir(&folder)?;
        for number in 0..FILES {
            let path = folder.join(format!("file-{number:03}-{}", "x".repeat(random.index(120))));
            let file = File::create_new(&path)?;
            file.write_all_at(&pattern(4096, number, 0, random.below(20 << 10)), 0)?;
            if random.below(8) == 0 {
                let length = random.index(3000);
                lsetxattr(&path, "user.made", &vec![b'x'; length], XattrFlags::empty())?;
            }
        }
    }
    Ok(syncfs(File::open(root)?)?)
}

/// Files that may not be changed or removed become like others.
fn unprotect(directory: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = open(directory, flags, Mode::empty())?;
    let clear = |file: &rustix::fd::OwnedFd| -> Result<()> {
        let protected = IFlags::IMMUTABLE | IFlags::APPEND;
        let now = ioctl_getflags(file)?;
        if now.intersects(protected) {
            ioctl_setflags(file, now - protected)?;
        }
        Ok(())
    };
    clear(&opened)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            unprotect(&entry.path())?;
        } else if kind.is_file() {
            clear(&openat(&opened, entry.file_name(), flags, Mode::empty())?)?;
        }
    }
    Ok(())
}

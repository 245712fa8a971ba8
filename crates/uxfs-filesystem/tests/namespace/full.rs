//! Without space: what cannot be done leaves nothing half done, and names can always be taken away. How much space there
//! is the kernel says, too.

use std::collections::BTreeSet;

use rustix::fs::statvfs;
use uxfs_engine::{attribute::SetMode, bulk::create::NewKind, engine::statistics::Statistics};
use uxfs_filesystem::{
    file::{Touch, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_lab::crash::geometry::{SHAPES, Shape};
use uxfs_testkit::{
    judges::{self, Judge},
    mount::{Access, LoopMount},
    require,
    seeds::Random,
};
use uxfs_volume::error::{Error, OperationError, Result};

use super::images::{How, Volume};

fn is_full(result: &Result<()>) -> bool {
    match result {
        Ok(()) => false,
        Err(Error::Operation(OperationError::NoSpace)) => true,
        Err(error) => panic!("{error}"),
    }
}

fn name(random: &mut Random) -> Vec<u8> {
    let length = [12, 60, 250][random.below(3) as usize];
    let mut name = format!("{:x}-", random.next_u64()).into_bytes();
    name.resize(length.max(name.len()), b'n');
    name
}

/// Makes names of all kinds until nothing goes any more, then takes all away.
fn fill_and_empty(shape: &Shape, seed: u64) {
    let volume = Volume::new(shape, How::Logged);
    let fs = &*volume.file_system;
    let mut random = Random::new(seed);
    let root = fs.open_root().unwrap();
    let directories: Vec<InodeHandle> = (0..4)
        .map(|number| {
            let name = format!("directory-{number}").into_bytes();
            fs.create(&root, &name, &NewFile::new(NewKind::Directory, 0o755)).unwrap()
        })
        .collect();
    // Most of the space goes to one file, so that the rest is soon full.
    let ballast = fs.create(&root, b"ballast", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    let status = fs.statistics();
    let bytes = (status.free_blocks * 3 / 4) * u64::from(status.block_size_bytes);
    fs.allocate_range(&ballast, 0, bytes, SizeChange::Grow, Touch::NOTHING).unwrap();
    let free = fs.statistics().free_blocks;
    let mut names: BTreeSet<(usize, Vec<u8>)> = BTreeSet::new();
    let (mut full, mut done) = (0, 0);
    let target = [b't'; 1000];
    while full < 300 {
        let which = random.below(4) as usize;
        let (directory, new) = (&directories[which], name(&mut random));
        let old = names.range((which, new.clone())..).next().filter(|(there, _)| *there == which).cloned();
        let result = match (random.below(6), &old) {
            (0, Some((_, old))) => fs.find(directory, old).and_then(|file| fs.link(&file, directory, &new)),
            (1, Some((_, old))) if full > 0 => {
                let options = RenameOptions { whiteout: Some((0, 0)), ..RenameOptions::default() };
                fs.rename(directory, old, directory, &new, &options)
            }
            (2, Some((_, old))) if full > 0 => {
                // This must always go.
                let removed = fs.unlink(directory, old);
                assert!(!is_full(&removed), "{shape}: a name could not be taken away");
                names.remove(&(which, old.clone()));
                done += 1;
                continue;
            }
            _ => fs.create(directory, &new, &NewFile::new(NewKind::Symlink(&target), 0o777)).map(drop),
        };
        if is_full(&result) {
            full += 1;
            assert!(fs.find(directory, &new).is_err(), "{shape}: half done");
        } else {
            done += 1;
            names.insert((which, new));
        }
    }
    for (which, name) in &names {
        fs.find(&directories[*which], name).unwrap();
    }
    let left = fs.statistics().free_blocks;
    take_no_more_than_there_is(fs, &ballast, shape);
    for (which, name) in names {
        fs.unlink(&directories[which], &name).unwrap_or_else(|error| panic!("{shape}: {error}"));
    }
    drop(directories);
    for number in 0..4 {
        fs.remove_directory(&root, format!("directory-{number}").as_bytes()).unwrap();
    }
    drop((root, ballast));
    fs.force().unwrap();
    fs.complete_pending_frees().unwrap();
    let again = fs.statistics().free_blocks;
    // The last chunk of inodes, and what trees of groups have grown to.
    assert!(again + 64 > free, "{shape}: {again} of {free} blocks are free again");
    assert_eq!(volume.judge("fill_and_empty"), 2);
    let what = format!("{shape}: {done} operations until {left} of {free} blocks were left");
    judges::judged("xfs_repair and the kernel", &what);
}

/// Attributes without a value leave what is kept for removing, like all that comes.
fn take_no_more_than_there_is(fs: &FileSystem, file: &InodeHandle, shape: &Shape) {
    // Names of ten bytes, with eight for the record of each.
    let most = (fs.statistics().free_blocks + 2) * u64::from(fs.statistics().block_size_bytes) / 18;
    let set = |number: u64| fs.set_xattr(file, format!("user.{number:010}").as_bytes(), b"", SetMode::Create);
    let stored = (0..=most).take_while(|number| !is_full(&set(*number))).count() as u64;
    assert!(stored <= most, "{shape}: {stored} attributes");
    for number in 0..stored {
        fs.remove_xattr(file, format!("user.{number:010}").as_bytes()).unwrap();
    }
}

#[test]
fn a_full_file_system_can_be_emptied() {
    // With a journal: without one an image that is full is abandoned.
    for name in ["default", "plain", "no-parent", "block-1k-directory-8k"] {
        fill_and_empty(&Shape::named(name).unwrap(), 99);
    }
}

/// Of an empty file system, as the kernel counts it.
#[test]
fn there_is_as_much_space_as_the_kernel_says() {
    require!(Judge::Kernel);
    let folder = tempfile::tempdir().unwrap();
    for shape in &SHAPES {
        let image = folder.path().join("image");
        shape.make().unwrap().save(&image).unwrap();
        let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
        let status = statvfs(mount.path()).unwrap();
        mount.unmount().unwrap();
        let kernel = Statistics {
            block_size_bytes: status.f_frsize as u32,
            blocks: status.f_blocks,
            free_blocks: status.f_bfree,
            files: status.f_files,
            free_files: status.f_ffree,
            most_name_bytes: status.f_namemax as u32,
        };
        let volume = Volume::new(shape, How::Logged);
        assert_eq!(volume.file_system.statistics(), kernel, "{shape}");
    }
    judges::judged("the kernel", "how much space there is in all shapes");
}

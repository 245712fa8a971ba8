//! Directory blocks that lie in several extents: logged and replayed piece by piece, and sound as a whole afterwards.

use std::path::Path;

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    file::{Touch, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_format::inode::Fork;
use uxfs_lab::crash::{image::Image, states::Plan};
use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    require,
    verdict::repair_is_silent,
};
use uxfs_volume::error::{Error, OperationError};

use super::{
    crashes::{in_each_state, names_of, record},
    logs::replay,
};

const NAMES: u32 = 200;

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Operation(OperationError::NoSpace))
}

fn make(file_system: &FileSystem) -> Vec<InodeHandle> {
    let root = file_system.open_root().unwrap();
    file_system.create(&root, b"directory", &NewFile::new(NewKind::Directory, 0o755)).unwrap();
    let file = |number| {
        let new = NewFile::new(NewKind::Regular, 0o600);
        file_system.create(&root, format!("file {number}").as_bytes(), &new).unwrap()
    };
    (0..24).map(file).collect()
}

/// All that is free are single blocks.
fn scatter(file_system: &FileSystem) {
    let root = file_system.open_root().unwrap();
    let file = file_system.create(&root, b"ballast", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    let block = u64::from(file_system.geometry().block_size_bytes);
    let (mut blocks, mut at) = (file_system.free_blocks(), 0);
    while blocks > 0 {
        let length = blocks * block;
        match file_system.allocate_range(&file, at * block, length, SizeChange::Grow, Touch::NOTHING) {
            Ok(()) => at += blocks,
            Err(error) if is_full(&error) => blocks /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    for number in (0..at / 2).step_by(2) {
        file_system.punch_range(&file, number * block, block, Touch::NOTHING).unwrap();
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("{number:0>60}").into_bytes()
}

/// Extents that are shorter than any directory block here.
fn pieces(directory: &InodeHandle) -> usize {
    directory.read().extents(Fork::Data).iter().filter(|extent| extent.length_blocks < 4).count()
}

/// A directory with names of few files, as many as it takes until nothing is left but single blocks.
fn fill(file_system: &FileSystem, files: &[InodeHandle]) -> u32 {
    let root = file_system.open_root().unwrap();
    let directory = file_system.find(&root, b"directory").unwrap();
    for number in 0..20_000 {
        file_system.link(&files[number as usize % files.len()], &directory, &name(number)).unwrap();
        if pieces(&directory) >= 32 {
            return number;
        }
    }
    panic!("otherwise this tests less than it says");
}

/// Names come, go and lead elsewhere.
fn change(file_system: &FileSystem, first: u32) {
    let root = file_system.open_root().unwrap();
    let directory = file_system.find(&root, b"directory").unwrap();
    let before = pieces(&directory);
    for number in first..first + NAMES {
        let file = file_system.find(&directory, &name(number - 64)).unwrap();
        file_system.link(&file, &directory, &name(number + 1)).unwrap();
        if number % 5 == 4 {
            file_system.unlink(&directory, &name(number - first)).unwrap();
        }
        if number % 7 == 6 {
            let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
            file_system.rename(&directory, &name(number), &directory, &name(number - 9), &exchange).unwrap();
        }
        if number % 16 == 15 {
            file_system.force().unwrap();
        }
        if number % 64 == 63 {
            file_system.push_active_items(true).unwrap();
        }
    }
    assert!(pieces(&directory) >= before, "otherwise this tests less than it says");
}

/// Recovers a state on its device; `xfs_repair` has nothing to say then.
fn must_be_sound(state: &Image, folder: &Path, what: &str) {
    let path = folder.join("state");
    state.save(&path).unwrap();
    replay(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
    repair_is_silent(&path).unwrap_or_else(|error| panic!("{what}: {error:#}"));
}

#[test]
fn directory_blocks_in_several_extents_are_whole_after_every_crash() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for directory_bytes in ["size=4096", "size=8192", "size=16384"] {
        let (states, repaired) = every_crash(directory_bytes);
        let what = format!("directory blocks in pieces, {directory_bytes}: {states} crash states");
        judged("recovery", &what);
        judged("xfs_repair", &format!("{what}, {repaired} of them"));
    }
}

fn every_crash(directory_bytes: &str) -> (u32, u32) {
    // Groups keep no space for trees that there are not.
    let features = "rmapbt=0,reflink=0,finobt=0,inobtcount=0";
    let options = ["-b", "size=1024", "-n", directory_bytes, "-m", features];
    let image = TestImage::new("directory blocks in pieces", 64, &options, 0);
    let file_system = image.mount_bulk();
    let files = make(&file_system);
    scatter(&file_system);
    let first = fill(&file_system, &files);
    drop(files);
    file_system.close().unwrap();
    drop(file_system);
    let device = record(&image, |file_system| change(file_system, first));
    let folder = tempfile::tempdir().unwrap();
    let mut plan = Plan::new(1);
    (plan.subsets, plan.torn) = (2, 1);
    let (mut repaired, mut most) = (0, 0);
    let states = in_each_state(&device, &plan, |state, read| {
        most = most.max(names_of(read)?);
        if state.number % 397 == 13 {
            let what = format!("{directory_bytes}, state {} ({:?})", state.number, state.kind);
            must_be_sound(&state.image, folder.path(), &what);
            repaired += 1;
        }
        Ok(())
    });
    assert!(states > 100 && most > first, "otherwise this tests less than it says: {states}, {most}");
    (states, repaired)
}

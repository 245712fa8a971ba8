//! Files after a crash: no stale contents, no byte that was not written there, all durable contents, and structures that
//! agree.

use std::{ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::{
    options::{LogOptions, MountOptions},
    transaction::Transaction,
};
use uxfs_filesystem::{
    file::{Touch, exchange::ExchangeRange, share::CloneRange},
    filesystem::FileSystem,
    recovery::mount_recovered,
};
use uxfs_format::geometry::Geometry;
use uxfs_lab::crash::{
    consistency,
    image::{Image, ImageDevice},
    recording::{Mark, RecordingDevice},
    states::{Kind, Plan, promises, visit},
    tree::Tree,
};
use uxfs_testkit::{
    image::{TestImage, file, memory_folder, mount_options},
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
    verdict::repair_is_silent,
};

use super::{first_difference, model::Model, random::World};

/// What lies in every free block, and what no file is ever written.
pub const CANARY: u8 = 0xca;

pub fn mount_device(device: Arc<dyn BlockDevice>, log: LogOptions) -> Arc<FileSystem> {
    let options = MountOptions { log, ..mount_options(16 << 20) };
    FileSystem::mount_logged(device, &options).unwrap()
}

/// An image whose free blocks are full of what must never be seen.
fn image_with_canaries(image: &TestImage) -> Image {
    let mut bytes = Image::load(&image.path).unwrap();
    let file_system = image.mount();
    let geometry = file_system.geometry();
    for group in geometry.groups() {
        for extent in file_system.group(group).free_extents().unwrap() {
            let extent = extent.unwrap();
            let sector = geometry.sector_of_group_block(group, extent.start).unwrap();
            let length = u64::from(extent.length_blocks) << geometry.block_log;
            bytes.fill(Geometry::byte_of_sector(sector), length, CANARY).unwrap();
        }
    }
    bytes
}

/// The contents of the files in the root directory after a crash.
pub fn recovered(image: Image, files: usize, is_checked: bool, what: &str) -> Vec<Vec<u8>> {
    let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(image));
    let (file_system, _) = mount_recovered(&device, &mount_options(16 << 20))
        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
    if is_checked {
        let tree = Tree::read(&file_system).unwrap();
        consistency::check(&file_system, &tree).unwrap();
    }
    let read = |index| {
        let inode = file_system.inode(file(&file_system, index)).unwrap();
        let mut bytes = vec![0; inode.size_bytes() as usize];
        file_system.read_file(&inode, 0, &mut bytes).unwrap();
        bytes
    };
    (0..files).map(read).collect()
}

/// Each byte must have been there at some time since it was made durable. What is written in place to a block that has moved
/// meanwhile (to other file blocks, to another file) is seen where the block was: then it is at the same place in a block
/// of some file.
fn must_be_of(found: &[u8], history: &[Vec<Model>], index: usize, block: usize, what: &str) {
    let models: Vec<&Model> = history.iter().map(|models| &models[index]).collect();
    let (least, most) = models
        .iter()
        .fold((usize::MAX, 0), |(least, most), model| (least.min(model.size()), most.max(model.size())));
    assert!((least..=most).contains(&found.len()), "{what}: {} bytes, not {least} to {most}", found.len());
    let unknown = found.chunks(block).enumerate().filter(|(number, bytes)| {
        let at = number * block;
        !models.iter().any(|model| model.holds(at, bytes))
    });
    for (at, byte) in unknown.flat_map(|(number, bytes)| (number * block..).zip(bytes)) {
        let is_known = models.iter().any(|model| model.bytes.get(at).copied().unwrap_or(0) == *byte);
        let is_elsewhere = || {
            let mut all = history.iter().flatten();
            all.any(|model| model.bytes.iter().skip(at % block).step_by(block).any(|known| known == byte))
        };
        assert!(is_known || is_elsewhere(), "{what}: byte {at} is {byte:#x}");
    }
}

/// Linux recovers the same, and `xfs_repair` has nothing to say afterwards.
pub fn linux_must_recover(image: &Image, expected: &[Vec<u8>], what: &str) {
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let path = folder.path().join("image");
    image.save(&path).unwrap();
    let mount = LoopMount::new(&path, Access::ReadWrite).unwrap();
    for (index, expected) in expected.iter().enumerate() {
        let found = std::fs::read(mount.join(format!("file-{index}"))).unwrap();
        let wrong = first_difference(&found, expected);
        let sizes = (found.len(), expected.len());
        assert!(
            wrong.is_none() && sizes.0 == sizes.1,
            "{what}: Linux finds something else in file {index}: at {wrong:?}, sizes {sizes:?}"
        );
    }
    mount.unmount().unwrap();
    repair_is_silent(&path).unwrap_or_else(|error| panic!("{what}: {error:#}"));
}

#[test]
fn no_crash_shows_what_nobody_wrote() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    const FILES: usize = 3;
    const KINDS: &[(&str, &[&str])] = &[
        ("default", &["-d", "agcount=2"]),
        ("block-1k", &["-b", "size=1024"]),
        ("no-reverse-map", &["-m", "rmapbt=0"]),
    ];
    let seeds = std::env::var("UXFS_CRASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(2);
    for (name, options) in KINDS {
        let image = TestImage::new(&format!("crash, {name}"), 48, options, FILES);
        let base = image_with_canaries(&image);
        let (mut states, mut of_linux) = (0, 0);
        for seed in 0..seeds {
            let device = Arc::new(RecordingDevice::new(base.clone()));
            let log = LogOptions { is_immediate: seed % 2 == 1, ..LogOptions::default() };
            let file_system = mount_device(device.clone(), log);
            let mut world = World::new(&file_system, vec![Model::default(); FILES], 24, 900 + seed);
            let mut history = vec![world.models.clone()];
            for number in 0..60 {
                device.mark(Mark::Begun(number));
                world.step();
                history.push(world.models.clone());
                if number % 9 == 8 {
                    file_system.force().unwrap();
                    device.mark(Mark::Synced(number + 1));
                }
                if number % 20 == 19 {
                    file_system.complete_pending_frees().unwrap();
                    file_system.push_active_items(true).unwrap();
                }
            }
            let block = file_system.geometry().block_size();
            drop(file_system);
            let events = device.history();
            let promises = promises(&events.events, 0);
            let mut plan = Plan::new(seed);
            (plan.subsets, plan.torn) = (1, 1);
            let _ = visit(&events, &plan, &mut |state| {
                let promise = promises[state.events];
                let what = format!("{name}, seed {seed}, state {} ({:?})", state.number, state.kind);
                let found = recovered(state.image.clone(), FILES, state.number % 8 == 0, &what);
                // Linux takes a torn block of metadata for a newer one.
                if state.number % 61 == 7 && matches!(state.kind, Kind::Prefix | Kind::Lost(_)) {
                    linux_must_recover(&state.image, &found, &what);
                    of_linux += 1;
                }
                for (index, bytes) in found.iter().enumerate() {
                    assert!(!bytes.contains(&CANARY), "{what}: old contents in file {index}");
                    let range = promise.fewest..=promise.most.min(history.len() - 1);
                    must_be_of(bytes, &history[range], index, block, &format!("{what}, file {index}"));
                }
                states += 1;
                ControlFlow::Continue(())
            });
        }
        assert!(states > 100, "{name}: otherwise this tests less than it says: {states}");
        judged("recovery", &format!("{name}: {states} crash states, {of_linux} of them by Linux, too"));
    }
}

#[test]
fn a_large_exchange_is_done_or_not_begun() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let image = TestImage::new("exchange, crashed", 64, &[], 2);
    let device = Arc::new(RecordingDevice::new(Image::load(&image.path).unwrap()));
    let log = LogOptions { is_immediate: true, ..LogOptions::default() };
    let file_system = mount_device(device.clone(), LogOptions::default());
    let block = file_system.geometry().block_size();
    let mut tx = Transaction::begin(&file_system).unwrap();
    let [mut first, mut second] = [0, 1].map(|index| tx.load_inode(file(&file_system, index)).unwrap());
    tx.commit().unwrap();
    drop(tx);
    let mut models = [Model::default(), Model::default()];
    for number in 0..400 {
        for (index, inode) in [&mut first, &mut second].into_iter().enumerate() {
            let bytes = vec![1 + index as u8 + (number % 100) as u8 * 2; block];
            let offset = (2 * number + index * 3) * block;
            let mut edit = file_system.edit_file(inode).unwrap();
            edit.write(offset as u64, &bytes, Touch::NOTHING).unwrap();
            models[index].write(offset, &bytes, block);
        }
    }
    file_system.close().unwrap();
    drop(file_system);
    device.begin_again();
    let file_system = mount_device(device.clone(), log);
    let range = ExchangeRange { to_end: true, ..ExchangeRange::default() };
    file_system.exchange_range(&mut first, Some(&mut second), &range, Touch::NOTHING).unwrap();
    drop(file_system);
    let (mut done, mut undone) = (0, 0);
    let history = device.history();
    let mut plan = Plan::new(1);
    (plan.subsets, plan.torn) = (1, 1);
    let _ = visit(&history, &plan, &mut |state| {
        let what = format!("state {} ({:?})", state.number, state.kind);
        let found = recovered(state.image.clone(), 2, state.number % 8 == 0, &what);
        if state.number % 11 == 5 && matches!(state.kind, Kind::Prefix | Kind::Lost(_)) {
            linux_must_recover(&state.image, &found, &what);
        }
        let is = |order: [usize; 2]| (0..2).all(|index| found[index] == models[order[index]].bytes);
        assert!(is([0, 1]) || is([1, 0]), "{what}");
        *(if is([1, 0]) { &mut done } else { &mut undone }) += 1;
        ControlFlow::Continue(())
    });
    assert!(done > 20 && undone > 0, "otherwise this tests less than it says: {done}, {undone}");
    judged("recovery", &format!("an exchange of 800 extents: {done} states done, {undone} not begun"));
}

/// A clone behind the end of a file zeroes the rest of its last block, and makes the file larger in several transactions.
#[test]
fn a_clone_in_steps_shows_nothing_of_a_truncated_block() {
    require!(Judge::Mkfs);
    const EXTENTS: usize = 300;
    const OLD: u8 = 0xee;
    let image = TestImage::new("clone, crashed", 64, &[], 2);
    let device = Arc::new(RecordingDevice::new(Image::load(&image.path).unwrap()));
    let file_system = mount_device(device.clone(), LogOptions::default());
    let block = file_system.geometry().block_size();
    let [source, target] = [0, 1].map(|index| file_system.open(file(&file_system, index)).unwrap());
    for number in 0..EXTENTS {
        file_system.write(&source, (2 * number * block) as u64, &vec![7; block], Touch::NOTHING).unwrap();
    }
    // Both say that they share blocks, so that the clone begins with no transaction that flushes the zeros.
    let first = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: block as u64 };
    file_system.clone_range(&source, &target, &first, Touch::NOTHING).unwrap();
    file_system.write(&target, 0, &vec![OLD; block], Touch::NOTHING).unwrap();
    file_system.set_size(&target, 10, Touch::NOTHING).unwrap();
    drop((source, target));
    file_system.close().unwrap();
    drop(file_system);
    device.begin_again();
    let file_system =
        mount_device(device.clone(), LogOptions { is_immediate: true, ..LogOptions::default() });
    let [source, target] = [0, 1].map(|index| file_system.open(file(&file_system, index)).unwrap());
    let range = CloneRange { source_bytes: 0, target_bytes: block as u64, length_bytes: 0 };
    file_system.clone_range(&source, &target, &range, Touch::NOTHING).unwrap();
    drop((source, target));
    drop(file_system);
    let (mut states, mut grown) = (0, 0);
    let mut plan = Plan::new(2);
    (plan.subsets, plan.torn) = (0, 0);
    let _ = visit(&device.history(), &plan, &mut |state| {
        let what = format!("state {} ({:?})", state.number, state.kind);
        let found = recovered(state.image.clone(), 2, false, &what);
        let of_block = &found[1][..block.min(found[1].len())];
        assert!(of_block.iter().skip(10).all(|byte| *byte == 0), "{what}: truncated contents are back");
        states += 1;
        grown += usize::from(found[1].len() > block);
        // The first step has the zeros before it; later ones follow its flush.
        if grown > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(grown > 20 && grown < states, "otherwise this tests less than it says: {grown} of {states}");
}

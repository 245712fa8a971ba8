//! An intent to exchange more than one transaction could hold: it is finished in steps, each with an intent for what is left,
//! also where the log has little room behind it.

use std::{ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::{extent_map::map::Mapping, options::MountOptions, transaction::Transaction};
use uxfs_filesystem::recovery::{mount_recovered, recover};
use uxfs_format::{
    btree::extent_map::Extent,
    log::{exchange::ExchangeIntent, item::ItemType},
    units::{FileBlock, InodeNumber},
};
use uxfs_lab::crash::{
    image::{Image, ImageDevice},
    recording::RecordingDevice,
    states::{Plan, visit},
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{all_present, judged},
};
use uxfs_volume::inode::Fork;
use zerocopy::{FromZeros, IntoBytes};

use super::{
    JUDGES, as_the_kernel_but_for,
    logs::{buffer, device, geometry, replay, write},
};

const BLOCK_BYTES: usize = 4096;
/// Of each file: too many for one checkpoint of the small log.
const EXTENTS: u64 = 6000;
/// The name of the intent.
const INTENT: u64 = 77;

/// Two files of `extents` extents of one block each, with holes between them, and an intent to exchange all of them.
fn image_with_intent(extents: u64) -> Option<(TestImage, [InodeNumber; 2])> {
    image_with_intent_and_room(extents, u32::MAX, |_| {})
}

/// With about so many basic blocks of the log left behind it, and whatever else the intent is to say.
fn image_with_intent_and_room(
    extents: u64,
    left_blocks: u32,
    change: impl FnOnce(&mut ExchangeIntent),
) -> Option<(TestImage, [InodeNumber; 2])> {
    let name = "a large exchange";
    // Nearly the smallest log that Linux takes there.
    let small = ["-l", "size=2001b", "-d", "agcount=4"];
    if !all_present(&JUDGES, name) {
        return None;
    }
    let image = TestImage::new(name, 64, &small, 2);
    let file_system = image.mount_bulk();
    let numbers = [0, 1].map(|index| file(&file_system, index));
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inodes = numbers.map(|number| transaction.load_inode(number).unwrap());
    let blocks = 2 * extents;
    for piece in 0..extents {
        for (index, inode) in inodes.iter_mut().enumerate() {
            // Every third time an extent is exchanged with a hole.
            let shift = if piece % 3 == 0 { index as u64 } else { 0 };
            let at = FileBlock::new(2 * piece + shift);
            transaction.extent_maps().map_blocks(inode, Fork::Data, at, 1, Mapping::default()).unwrap();
        }
    }
    for inode in &mut inodes {
        inode.set_size_bytes(blocks * BLOCK_BYTES as u64);
        transaction.store_inode(inode).unwrap();
    }
    transaction.commit().unwrap();
    drop(transaction);
    for (inode, byte) in inodes.iter().zip([1_u8, 2]) {
        for (number, extent) in inode.extents(Fork::Data).iter().enumerate() {
            let sector = file_system.geometry().sector_of_block(extent.start).unwrap();
            let bytes = vec![byte + (number % 100) as u8 * 2; extent.length_blocks as usize * BLOCK_BYTES];
            file_system.device().write(sector.get() * 512, &bytes).unwrap();
        }
    }
    file_system.close().unwrap();
    drop(file_system);
    let mut intent = ExchangeIntent::new_zeroed();
    intent.kind = ItemType::ExchangeIntent.raw().into();
    intent.region_count = 1.into();
    intent.id = INTENT.into();
    intent.first_inode = numbers[0].get().into();
    intent.second_inode = numbers[1].get().into();
    intent.first_generation = inodes[0].core.generation.get().into();
    intent.second_generation = inodes[1].core.generation.get().into();
    intent.length_blocks = blocks.into();
    change(&mut intent);
    let mut transactions = vec![vec![vec![intent.as_bytes().to_vec()]]];
    let geometry = geometry(&image.path);
    let mut room_blocks = (geometry.log_blocks * 8).saturating_sub(left_blocks.saturating_add(4));
    // Cancelled buffers change nothing.
    let cancelled = |count| (0..count).map(|_| buffer(100_000, 8, 2, 0, &[])).collect::<Vec<_>>();
    for (count, blocks) in [(600, 44), (1, 2)] {
        while room_blocks >= blocks {
            transactions.push(cancelled(count));
            room_blocks -= blocks;
        }
    }
    write(&image.path, &transactions);
    Some((image, numbers))
}

/// Which blocks each file has once the log has been recovered, and whether a further intent was found.
fn mappings(device: Arc<dyn BlockDevice>, numbers: [InodeNumber; 2]) -> ([Vec<Extent>; 2], bool) {
    let (read, report) = mount_recovered(&device, &MountOptions::default()).unwrap();
    let mappings = numbers.map(|number| {
        let inode = read.inode(number).unwrap();
        read.extent_map(&inode, Fork::Data).unwrap().iter().collect::<Vec<_>>()
    });
    let intents = report.map_or(Vec::new(), |report| report.intents);
    (mappings, intents.iter().any(|intent| intent.id != INTENT && intent.other_inode.is_some()))
}

#[test]
fn a_large_exchange_is_finished_in_steps() {
    let Some((image, _)) = image_with_intent(EXTENTS) else { return };
    // How full the blocks of a tree are is for each to decide.
    as_the_kernel_but_for(&image, |details| details.sectors = None);
}

/// Recovery after a crashed recovery continues where that one stopped.
#[test]
fn a_large_exchange_goes_on_after_crashes_of_its_recovery() {
    let Some((image, numbers)) = image_with_intent(EXTENTS) else { return };
    let before = Image::load(&image.path).unwrap();
    let (wanted, _) = mappings(Arc::new(ImageDevice::read_only(before.clone())), numbers);
    let device = Arc::new(RecordingDevice::new(before));
    let recording: Arc<dyn BlockDevice> = device.clone();
    recover(&recording, &MountOptions::default(), &mut ()).unwrap().unwrap().write().unwrap();
    drop(recording);
    let mut plan = Plan::new(3);
    (plan.subsets, plan.torn) = (1, 1);
    let (mut states, mut went_on) = (0, 0);
    let _ = visit(&device.history(), &plan, &mut |state| {
        let what = format!("state {} ({:?})", state.number, state.kind);
        let (found, is_going_on) = mappings(Arc::new(ImageDevice::read_only(state.image.clone())), numbers);
        assert!(found == wanted, "{what}");
        states += 1;
        went_on += u32::from(is_going_on);
        ControlFlow::Continue(())
    });
    assert!(went_on > 0, "otherwise this tests less than it says: {states}");
    let told =
        format!("a large exchange: {states} states of its crashed recovery, {went_on} of them in the middle");
    judged("recovery", &told);
}

/// The intent holds the tail, right behind the head: recovery takes what there is, and less than it needs is an error that
/// leaves the log as it was.
#[test]
fn a_log_nearly_full_is_recovered_or_left_alone() {
    let (mut done, mut refused) = (0, 0);
    for left_blocks in [0, 8, 30, 60, 200, 1600] {
        let Some((image, numbers)) = image_with_intent_and_room(64, left_blocks, |_| {}) else { return };
        let (wanted, _) = mappings(device(&image.path), numbers);
        match replay(&image.path) {
            Ok(_) => {
                image.must_satisfy_repair();
                done += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("the log is full"), "{left_blocks}: {error}");
                refused += 1;
            }
        }
        assert!(mappings(device(&image.path), numbers).0 == wanted, "{left_blocks}");
    }
    assert!(done > 0 && refused > 0, "otherwise this tests less than it says: {done}, {refused}");
}

/// A range that no file can have: what lies within the largest file is exchanged, and there is nothing behind it.
#[test]
fn a_range_without_end_ends() {
    let Some((image, numbers)) = image_with_intent(64) else { return };
    let (wanted, _) = mappings(device(&image.path), numbers);
    for second_offset_blocks in [0, 1 << 53, 1 << 63, u64::MAX] {
        let change = |intent: &mut ExchangeIntent| {
            intent.length_blocks = u64::MAX.into();
            intent.second_offset_blocks = second_offset_blocks.into();
        };
        let Some((image, _)) = image_with_intent_and_room(64, u32::MAX, change) else { return };
        match mount_recovered(&device(&image.path), &MountOptions::default()) {
            Ok(_) if second_offset_blocks == 0 => {
                assert!(mappings(device(&image.path), numbers).0 == wanted);
            }
            // There it may lie, and here there is nothing to exchange with.
            Ok(_) => assert!([1 << 53, u64::MAX].contains(&second_offset_blocks), "{second_offset_blocks}"),
            Err(error) => assert_eq!(second_offset_blocks, 1 << 63, "{error}"),
        }
    }
}

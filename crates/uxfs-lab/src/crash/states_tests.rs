//! The laboratory is tried on a toy: two blocks that always change together, under a log of one record. It must find
//! nothing wrong with the toy as it should be, and each of the mistakes that can be built into it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use uxfs_block::device::{BlockDevice, DeviceError};

use super::*;
use crate::crash::{
    image::{ImageDevice, hash},
    recording::RecordingDevice,
};

const BLOCK: u64 = 4096;
const LOG: u64 = 0;
const HOME: [u64; 2] = [4 * BLOCK, 9 * BLOCK];
const RECORD_BYTES: usize = 8192;

/// A mistake in the toy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Blocks go home before the log is durable.
    NoFlushBehindTheLog,
    /// The log is used again before the blocks are durable at home.
    NoFlushBehindTheBlocks,
    /// Success is told before the flush.
    EarlyIntent,
    /// Recovery does not look at the checksum.
    NoChecksum,
    /// Recovery writes the second block only if the first one was old.
    HalfRecovery,
}

/// Operation `number` gives both blocks this content.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&number.to_le_bytes()));
    bytes
}

fn record(number: u64) -> Vec<u8> {
    let mut bytes = [number.to_le_bytes().repeat(256), content(number), content(number)].concat();
    bytes.resize(RECORD_BYTES - 8, 0);
    let sum = hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn write(device: &RecordingDevice, mistake: Mistake, number: u64) {
    device.mark(Mark::Begun(number as usize - 1));
    device.write(LOG, &record(number)).unwrap();
    if mistake == Mistake::EarlyIntent {
        device.mark(Mark::Synced(number as usize));
    }
    if mistake != Mistake::NoFlushBehindTheLog {
        device.flush().unwrap();
    }
    device.mark(Mark::Synced(number as usize));
    HOME.iter().for_each(|home| device.write(*home, &content(number)).unwrap());
    if mistake != Mistake::NoFlushBehindTheBlocks {
        device.flush().unwrap();
    }
}

fn recover(device: &dyn BlockDevice, mistake: Mistake) -> Result<(), DeviceError> {
    let mut log = vec![0; RECORD_BYTES];
    device.read(LOG, &mut log)?;
    let (bytes, sum) = log.split_at(RECORD_BYTES - 8);
    let is_whole = hash(bytes).to_le_bytes() == *sum;
    if bytes[..8] == [0; 8] || !(is_whole || mistake == Mistake::NoChecksum) {
        return Ok(());
    }
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let mut first = vec![0; 2048];
    device.read(HOME[0], &mut first)?;
    device.write(HOME[0], &bytes[2048..4096])?;
    if mistake != Mistake::HalfRecovery || first != content(number) {
        device.write(HOME[1], &bytes[4096..6144])?;
    }
    device.flush()
}

/// Which operation's state the two blocks are in.
fn judge(device: &dyn BlockDevice) -> Option<usize> {
    let [first, second] = HOME.map(|home| {
        let mut bytes = vec![0; 2048];
        device.read(home, &mut bytes).unwrap();
        bytes
    });
    let number = u64::from_le_bytes(first[..8].try_into().unwrap());
    (first == content(number) && first == second).then_some(number as usize)
}

/// Tries every state, and every state of a crashed recovery: how many, and the first that is wrong.
fn try_all(mistake: Mistake, operations: u64) -> (u64, Option<CrashState>) {
    let device = RecordingDevice::new(Image::filled(64 * 1024, 0));
    (1..=operations).for_each(|number| write(&device, mistake, number));
    let history = device.history();
    let promises = promises(&history.events, 0);
    let (mut tried, mut wrong) = (0, None);
    let plan = Plan::new(3);
    let _ = visit(&history, &plan, &mut |state| {
        let promise = promises[state.events];
        let is_right = |image: Image| {
            let device = ImageDevice::new(image);
            recover(&device, mistake).unwrap();
            judge(&device).is_some_and(|found| (promise.fewest..=promise.most).contains(&found))
        };
        let recovery = RecordingDevice::new(state.image.clone());
        recover(&recovery, mistake).unwrap();
        let mut all_right = is_right(recovery.image());
        let _ = visit(&recovery.history(), &plan, &mut |again| {
            tried += 1;
            all_right &= is_right(again.image);
            ControlFlow::Continue(())
        });
        if all_right {
            return ControlFlow::Continue(());
        }
        wrong = Some(state);
        ControlFlow::Break(())
    });
    (tried, wrong)
}

#[test]
fn finds_every_mistake_in_a_toy_journal_and_none_where_there_is_none() {
    let (tried, wrong) = try_all(Mistake::None, 12);
    assert!(wrong.is_none(), "{wrong:?}");
    assert!(tried > 500, "{tried} states");
    for mistake in [
        Mistake::NoFlushBehindTheLog,
        Mistake::NoFlushBehindTheBlocks,
        Mistake::EarlyIntent,
        Mistake::NoChecksum,
        Mistake::HalfRecovery,
    ] {
        let (_, wrong) = try_all(mistake, 12);
        assert!(wrong.is_some(), "{mistake:?} not found");
    }
}

#[test]
fn every_state_is_what_a_cache_may_leave() {
    let device = RecordingDevice::new(Image::filled(64 * 1024, 0));
    for value in 1..=3_u8 {
        device.write(u64::from(value) * BLOCK, &[value; 1024]).unwrap();
    }
    device.flush().unwrap();
    device.write(BLOCK, &[4; 512]).unwrap();
    let history = device.history();
    let (mut kinds, mut digests) = (Vec::new(), BTreeSet::new());
    let plan = Plan { subsets: 100, torn: 20, ..Plan::new(1) };
    let _ = visit(&history, &plan, &mut |state| {
        assert_eq!(state.number, kinds.len() as u64);
        if state.events > 4 {
            // What was flushed is there.
            let mut byte = [0];
            state.image.read(3 * BLOCK + 1000, &mut byte).unwrap();
            assert_eq!(byte, [3]);
        }
        kinds.push(state.kind);
        digests.insert(state.image.digest());
        ControlFlow::Continue(())
    });
    let count = |kind: Kind| kinds.iter().filter(|other| **other == kind).count();
    // Before everything and behind each write.
    assert_eq!(count(Kind::Prefix), 5);
    assert_eq!((0..5).map(|index| count(Kind::Lost(index))).sum::<usize>(), 4);
    assert_eq!(count(Kind::Torn), 60);
    assert_eq!(count(Kind::Subset), 100);
    // Each of three writes of two sectors is there in one of four ways, before the flush; the last is or is not.
    assert!(digests.len() >= 20 && digests.len() <= 65, "{}", digests.len());
}

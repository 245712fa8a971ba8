//! Hostile images with right checksums: check and repair end, within bounds of what they read and of memory, and what a repair makes is sound,
//! can be edited. A few lies are told each time; `cargo xtask hostile` tells all, on images of any shape, and asks `xfs_repair -n`.
#![allow(clippy::unwrap_used)]

use std::{path::Path, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_lab::{
    crash::image::{Image, ImageDevice},
    field_fuzz::small,
    hostile::{Liar, budget::CountedDevice, lies::LIES},
    repair_fuzz::promises::{Outcome, Promises},
};
use uxfs_testkit::{
    golden::GoldenImage,
    limits::{peak_bytes, reset_peak},
    seeds::Seed,
};

/// What may be read of an image of 256 MiB: check, repair with its passes, and the judgement of the result.
const MOST_READ_BYTES: u64 = 4 << 30;
/// Lies of one run. The seed chooses them.
const LIES_TOLD: usize = 8;
/// Beyond what the process has before.
const MOST_MEMORY_BYTES: u64 = 192 << 20;

#[test]
fn lies_cost_no_more_than_an_error() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small-images");
    let path = small::make(&GoldenImage::named("block-1k").unwrap(), &folder).unwrap();
    let image = Image::load(&path).unwrap();
    let sound = Liar::new(image.clone()).unwrap();
    let mut random = Seed::from_environment("hostile", 13).random();
    let mut broken = Vec::new();
    let mut left: Vec<_> = LIES.iter().collect();
    for _ in 0..LIES_TOLD {
        let lie = left.swap_remove(random.index(left.len()));
        let mut liar = sound.again(&image);
        (lie.tell)(&mut liar).unwrap_or_else(|error| panic!("{}: {error:#}", lie.name));
        let lied = liar.image().clone();
        reset_peak().unwrap();
        let before = peak_bytes().unwrap();
        let started = std::time::Instant::now();
        let counted =
            Arc::new(CountedDevice::new(Arc::new(ImageDevice::read_only(lied.clone())), MOST_READ_BYTES));
        let device: Arc<dyn BlockDevice> = Arc::<CountedDevice>::clone(&counted);
        let promises = Promises { threads: false, edits: true, judge: false };
        let outcome = promises.try_on(&device, || lied.clone(), 1);
        let memory = peak_bytes().unwrap().saturating_sub(before);
        let read = counted.read_bytes();
        let word = match &outcome {
            Ok(Outcome::Nothing) => "nothing to do".to_owned(),
            Ok(Outcome::Refused(why)) => format!("refused: {why}"),
            Ok(Outcome::Left(left)) => format!("left: {}", left.first().unwrap()),
            Ok(Outcome::Repaired(findings, actions)) => {
                format!("{findings} findings, {} actions", actions.len())
            }
            Err(why) => format!("BROKEN: {why}"),
        };
        let cost =
            format!("{} MiB read, {} MiB of memory, {:?}", read >> 20, memory >> 20, started.elapsed());
        eprintln!("{:36} {cost}: {}", lie.name, &word[..word.len().min(300)]);
        if outcome.is_err() || counted.is_exceeded() || memory > MOST_MEMORY_BYTES {
            broken.push(format!("{}: {word} ({cost})", lie.name));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

//! Damaged fields of every kind of structure: the check of the whole image ends without a panic and in time, and finds something
//! wherever reading does; a repair ends, and is complete or refused.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use uxfs_block::device::BlockDevice;
use uxfs_lab::field_fuzz::{
    reading::{self, Extent, Outcome},
    slice::Slice,
};
use uxfs_repair::{
    CheckOptions, check,
    repair::{RepairOptions, repair},
};
use uxfs_testkit::seeds::Seed;
use uxfs_volume::{
    inode::scan::ScanOptions,
    tolerant::TolerantOptions,
    volume::{Volume, VolumeOptions},
};

const CASES: usize = 100;
/// Of each shape.
const REPAIRS: usize = 10;
const CACHE_BYTES: u64 = 16 << 20;
/// Generous, for busy machines: a check takes a fraction of a second.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// The number of findings of a volume that is opened strictly if possible; `None` where it cannot be opened at all. Odd cases are
/// opened tolerantly.
fn findings(device: Arc<dyn BlockDevice>, is_tolerant: bool) -> Option<u64> {
    let strict = VolumeOptions { cache_budget_bytes: Some(CACHE_BYTES), ..VolumeOptions::default() };
    let tolerant = TolerantOptions { cache_budget_bytes: Some(CACHE_BYTES), ..TolerantOptions::default() };
    let volume = match is_tolerant {
        true => Volume::open_tolerantly(device, &tolerant),
        false => {
            Volume::open(Arc::clone(&device), &strict).or_else(|_| Volume::open_tolerantly(device, &tolerant))
        }
    };
    let options = CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() };
    let mut take = |finding: uxfs_repair::Finding| {
        assert!(!finding.to_string().is_empty(), "finding {} has no words", finding.number());
        ControlFlow::Continue(())
    };
    Some(check(&volume.ok()?, &options, &mut take).findings)
}

#[test]
fn every_fault_that_reading_meets_is_a_finding() {
    let slice = Slice::new("block-1k").unwrap();
    let seed = Seed::from_environment("check_damaged", 11);
    let mut random = seed.random();
    let (mut read, mut found) = (0, 0);
    for (index, case) in slice.cases(CASES, random.next_u64()).enumerate() {
        let case = case.unwrap();
        let outcome = reading::read(Arc::new(case.image()), &case.damage, Extent::Owner);
        let found_by_check = case.run(CASE_LIMIT, |image| findings(Arc::new(image), index % 2 == 1));
        let Some(findings) = found_by_check.unwrap() else { continue };
        if matches!(outcome, Outcome::Corrupt(_)) {
            read += 1;
            assert!(findings > 0, "reading says {outcome:?}, and there are no findings: {}", case.what);
        }
        found += usize::from(findings > 0);
    }
    eprintln!("{CASES} damages: {read} noticed by reading, {found} by the check");
    assert!(found > CASES / 2 && found > read, "{found} of {CASES}, {read} by reading");
}

/// Damaged fields with the right checksum: a repair ends without a panic and in time, and what it stages is sound or refused.
#[test]
fn a_repair_ends_on_every_damage() {
    let seed = Seed::from_environment("repair_damaged", 12);
    let mut random = seed.random();
    let (mut repaired, mut refused) = (0, 0);
    for name in ["block-1k", "default", "no-rmapbt"] {
        let slice = Slice::new(name).unwrap();
        for case in slice.cases(REPAIRS, random.next_u64()) {
            let case = case.unwrap();
            let is_repaired = case.run(CASE_LIMIT, |image| {
                let device: Arc<dyn BlockDevice> = Arc::new(image);
                let options = RepairOptions { scan: ScanOptions::in_order(), ..RepairOptions::default() };
                let staged = repair(&device, &options).ok()?;
                if !staged.remaining.is_empty() {
                    return Some(false);
                }
                let again: Arc<dyn BlockDevice> = staged.overlay;
                assert_eq!(repair(&again, &options).unwrap().findings, 0, "a second repair finds more");
                Some(true)
            });
            match is_repaired.unwrap() {
                Some(true) => repaired += 1,
                Some(false) => refused += 1,
                None => {}
            }
        }
    }
    eprintln!("{repaired} images are sound after a repair, {refused} were refused");
    assert!(repaired > 2 * REPAIRS, "{repaired}, {refused}");
}

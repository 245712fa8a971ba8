//! Damaged fields of every kind of structure: the check of the whole image ends without a panic and in time, and finds something
//! wherever reading does.
#![allow(clippy::unwrap_used)]

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use uxfs_block::device::BlockDevice;
use uxfs_format::{fault::Structure, units::InodeNumber};
use uxfs_lab::field_fuzz::{
    plan::Plan,
    reading::{self, Extent, Outcome},
    sparse_device::{DamagedImage, SparseImage},
};
use uxfs_repair::{CheckOptions, check};
use uxfs_testkit::{
    golden::GoldenImage,
    seeds::Seed,
    structures::{Instance, Owner},
};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::scan::ScanOptions,
    tolerant::TolerantOptions,
    volume::{Volume, VolumeOptions},
};

const CASES: usize = 240;
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
    let options = CheckOptions { scan: ScanOptions::in_order() };
    let mut take = |finding: uxfs_repair::Finding| {
        assert!(!finding.to_string().is_empty(), "finding {} has no words", finding.number());
        ControlFlow::Continue(())
    };
    Some(check(&volume.ok()?, &options, &mut take).findings)
}

/// Whether a structure is an inode that is not in use: a check compares its magic and mode only, as `xfs_repair` does.
fn is_free_inode(volume: &Volume, instance: &Instance) -> bool {
    let Owner::Inode(number) = instance.owner else { return false };
    let inode = volume.inode(InodeNumber::new(number));
    instance.structure == Structure::Inode
        && matches!(inode, Err(Error::Operation(OperationError::NoSuchInode)))
}

#[test]
fn every_fault_that_reading_meets_is_a_finding() {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let base = SparseImage::load(&image).unwrap();
    let sound = DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound).unwrap();
    let sound_volume =
        Volume::open(Arc::new(DamagedImage::sound(Arc::clone(&base))), &VolumeOptions::default()).unwrap();
    let seed = Seed::from_environment("check_damaged", 11);
    let mut random = seed.random();
    let (mut read, mut found) = (0, 0);
    for (index, case) in plan.cases(CASES, random.next_u64()).iter().enumerate() {
        let damage = plan.damage(&sound, case).unwrap();
        let device = || -> Arc<dyn BlockDevice> {
            Arc::new(DamagedImage::new(Arc::clone(&base), &damage.instance.pieces, &damage.bytes))
        };
        let what = format!("{:?}, {} {}", damage.instance, damage.field, case.transform.name());
        let outcome = reading::read(device(), &damage, Extent::Owner);
        let started = Instant::now();
        let findings = catch_unwind(AssertUnwindSafe(|| findings(device(), index % 2 == 1)));
        assert!(findings.is_ok(), "panics: {what}");
        assert!(started.elapsed() < CASE_LIMIT, "hangs: {what}");
        let Some(findings) = findings.unwrap() else { continue };
        if matches!(outcome, Outcome::Corrupt(_)) && !is_free_inode(&sound_volume, &damage.instance) {
            read += 1;
            assert!(findings > 0, "reading says {outcome:?}, and there are no findings: {what}");
        }
        found += usize::from(findings > 0);
    }
    eprintln!("{CASES} damages: {read} noticed by reading, {found} by the check");
    assert!(found > CASES / 2 && found > read, "{found} of {CASES}, {read} by reading");
}

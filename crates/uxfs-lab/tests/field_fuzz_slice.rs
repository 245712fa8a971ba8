//! A slice of `cargo xtask field-fuzz`: damaged fields of every kind of structure, read in this process.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use uxfs_lab::field_fuzz::{
    plan::Plan,
    reading::{self, Extent, Outcome},
    sparse_device::{DamagedImage, SparseImage},
};
use uxfs_testkit::{golden::GoldenImage, seeds::Seed};

const CASES: usize = 3000;
/// One case in this many reads the whole image.
const WHOLE: usize = 200;
/// Generous, for busy machines: a case takes milliseconds.
const CASE_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn damaged_fields_are_errors_or_do_no_harm() {
    let image = GoldenImage::named("block-1k").unwrap().unpacked().unwrap();
    let base = SparseImage::load(&image).unwrap();
    let sound = DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound).unwrap();
    let seed = Seed::from_environment("field_fuzz_slice", 7);
    let mut random = seed.random();
    let mut noticed = 0;
    for (index, case) in plan.cases(CASES, random.next_u64()).iter().enumerate() {
        let damage = plan.damage(&sound, case).unwrap();
        let device = Arc::new(DamagedImage::new(Arc::clone(&base), &damage.instance.pieces, &damage.bytes));
        let extent = if index % WHOLE == 0 { Extent::All } else { Extent::Owner };
        let started = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| reading::read(device, &damage, extent)));
        let what = format!("{:?}, {} {}", damage.instance, damage.field, case.transform.name());
        assert!(outcome.is_ok(), "panics: {what}");
        assert!(started.elapsed() < CASE_LIMIT, "hangs: {what}");
        noticed += usize::from(matches!(outcome, Ok(Outcome::Corrupt(_))));
    }
    assert!(noticed > CASES / 3, "only {noticed} of {CASES} were noticed: the fuzzer damages nothing?");
}

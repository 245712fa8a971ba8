//! A slice of `cargo xtask field-fuzz`: damaged fields of every kind of structure, read in this process.

use std::{sync::Arc, time::Duration};

use uxfs_lab::field_fuzz::{
    reading::{self, Extent, Outcome},
    slice::Slice,
};
use uxfs_testkit::seeds::Seed;

const CASES: usize = 3000;
/// One case in this many reads the whole image.
const WHOLE: usize = 200;
/// Generous, for busy machines: a case takes milliseconds.
const CASE_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn damaged_fields_are_errors_or_do_no_harm() {
    let slice = Slice::new("block-1k").unwrap();
    let seed = Seed::from_environment("field_fuzz_slice", 7);
    let mut random = seed.random();
    let mut noticed = 0;
    for (index, case) in slice.cases(CASES, random.next_u64()).enumerate() {
        let extent = if index % WHOLE == 0 { Extent::All } else { Extent::Owner };
        let case = case.unwrap();
        let outcome = case.run(CASE_LIMIT, |image| reading::read(Arc::new(image), &case.damage, extent));
        noticed += usize::from(matches!(outcome.unwrap(), Outcome::Corrupt(_)));
    }
    assert!(noticed > CASES / 3, "only {noticed} of {CASES} were noticed: the fuzzer damages nothing?");
}

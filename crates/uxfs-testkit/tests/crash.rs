//! A slice of the crash states of a slice of the workloads: `cargo xtask crash` tries as many as there is time for.
#![allow(clippy::unwrap_used)]

use uxfs_testkit::{
    crash::{
        geometry::SHAPES,
        run::{Depth, Setup, Tally, record},
    },
    judges,
    seeds::Seed,
};

/// Crash states of each run.
const STATES: u64 = 1500;

#[test]
fn crash_states_recover_to_what_the_model_says() {
    let seed = Seed::from_environment("crash_states_recover_to_what_the_model_says", 1);
    let mut random = seed.random();
    let mut tally = Tally::default();
    for shape in &SHAPES {
        let setup = Setup::new(random.next_u64() >> 40, Some(shape.clone()));
        let recording = record(&setup).unwrap();
        let depth = Depth::new(STATES);
        let part = recording.explore(&recording.plan(), &depth).unwrap_or_else(|failure| {
            if let Some(folder) = std::env::var_os("UXFS_CRASH_KEEP") {
                failure.state.image.save(&std::path::Path::new(&folder).join("crash.img")).unwrap();
            }
            panic!("{failure}")
        });
        eprintln!("{setup}: {part} in {:.1} s", part.elapsed.as_secs_f64());
        tally.add(&part);
    }
    judges::judged("model", &format!("crash states: {tally}"));
}

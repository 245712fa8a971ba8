//! A slice of the crash states of a slice of the workloads: `cargo xtask crash` tries as many as there is time for.
#![allow(clippy::unwrap_used)]

use uxfs_testkit::{
    crash::{
        geometry::SHAPES,
        run::{Depth, Setup, Tally, record},
    },
    judges::{self, Judge},
    seeds::Seed,
};

/// Crash states of each run.
const STATES: u64 = 300;

#[test]
fn crash_states_recover_to_what_the_model_says() {
    let seed = Seed::from_environment("crash_states_recover_to_what_the_model_says", 1);
    let mut random = seed.random();
    let mut tally = Tally::default();
    let has_linux =
        judges::all_present(&[Judge::XfsRepair, Judge::XfsIo, Judge::Kernel], "crash states, by Linux");
    for shape in &SHAPES {
        let setup = Setup::new(random.next_u64() >> 40, Some(shape.clone()));
        let recording = record(&setup).unwrap();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let linux_every = number("UXFS_CRASH_LINUX_EVERY").unwrap_or(if has_linux { 64 } else { 0 });
        let depth = Depth { linux_every, ..Depth::new(number("UXFS_CRASH_STATES").unwrap_or(STATES)) };
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

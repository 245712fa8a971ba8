//! A slice of the crash states of a slice of the workloads: `cargo xtask crash` tries as many as there is time for.
#![allow(clippy::unwrap_used)]

use uxfs_testkit::{
    crash::{
        geometry::{SHAPES, Shape},
        run::{Depth, Setup, Tally, record},
    },
    judges::{self, Judge},
    seeds::Seed,
};

/// Crash states of each run.
const STATES: u64 = 300;

/// A log goes round more often than this.
const TURNS: u64 = 5;

/// The log is overwritten many times, and whatever is left in it of earlier rounds is not taken for something new.
#[test]
fn the_smallest_log_goes_round() {
    let seed = Seed::from_environment("the_smallest_log_goes_round", 7);
    let mut tally = Tally::default();
    for (name, warm_up) in [("smallest-log", 4000), ("log-stripe", 1200)] {
        let shape = Shape::named(name).unwrap();
        let setup = Setup {
            warm_up,
            is_immediate: true,
            free_blocks: None,
            ..Setup::new(seed.random().next_u64() >> 40, Some(shape))
        };
        let recording = record(&setup).unwrap();
        let part = recording
            .explore(&recording.plan(), &Depth::new(STATES))
            .unwrap_or_else(|failure| panic!("{failure}"));
        assert!(part.most_turns > TURNS, "{setup}: {part}");
        tally.add(&part);
    }
    judges::judged("model", &format!("logs that go round: {tally}"));
}

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

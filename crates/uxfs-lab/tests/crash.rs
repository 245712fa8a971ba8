//! A slice of the crash states of a slice of the workloads: `cargo xtask crash` tries as many as there is time for.

use uxfs_lab::crash::{
    geometry::{SHAPES, Shape},
    image::Image,
    run::{Depth, Setup, Tally, record},
    sweep::{Sweep, SweepTally},
    workload::{NewFile, Operation, ROOT, Reshape},
};
use uxfs_testkit::{
    judges::{self, Judge},
    seeds::Seed,
    verdict::repair_is_silent,
};

/// Crash states of each run.
const STATES: u64 = 300;

/// A log goes round more often than this.
const TURNS: u64 = 4;

/// The log is overwritten many times, and whatever is left in it of earlier rounds is not taken for something new.
#[test]
fn the_smallest_log_goes_round() {
    let seed = Seed::from_environment("the_smallest_log_goes_round", 7);
    let mut tally = Tally::default();
    for (name, warm_up) in [("smallest-log", 12_000), ("log-stripe", 1400)] {
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

/// Every state of a few operations that are given.
fn all_states_of(shape: &str, script: Vec<Operation>) {
    let shape = Shape::named(shape).unwrap();
    let operations = script.len();
    for is_immediate in [false, true] {
        let setup = Setup {
            warm_up: 0,
            operations,
            is_immediate,
            free_blocks: None,
            script: script.clone(),
            ..Setup::new(1, Some(shape.clone()))
        };
        let recording = record(&setup).unwrap();
        recording
            .explore(&recording.plan(), &Depth::new(u64::MAX))
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}

fn create(name: &str) -> Operation {
    let (name, file) = (name.as_bytes().to_vec(), NewFile::Regular);
    Operation::Create { parent: ROOT, name, file, mode: 0o600, owner: (0, 0) }
}

/// A block that two files share is copied by the one and zeroed, in its place, by the other, which writes to it then: after a
/// crash the first must not show that.
#[test]
fn what_was_shared_and_zeroed_is_not_written_too_early() {
    let write = |node, length| Operation::Write { node, offset: 0, length };
    all_states_of(
        "sector-4k",
        vec![
            create("first"),
            create("second"),
            write(1, 32 << 10),
            Operation::Clone { source: 1, source_offset: 0, target: 2, target_offset: 0, length: 32 << 10 },
            Operation::Sync,
            write(1, 32 << 10),
            Operation::Reshape { node: 2, how: Reshape::Zero, offset: 0, length: 32 << 10 },
            write(2, 32 << 10),
        ],
    );
}

#[test]
fn threads_recover_to_what_each_of_them_did() {
    let seed = Seed::from_environment("threads_recover_to_what_each_of_them_did", 11);
    let mut random = seed.random();
    let mut tally = Tally::default();
    for (threads, has_background) in [(2, false), (3, true)] {
        let setup = Setup {
            warm_up: 100,
            operations: 40,
            threads,
            has_background,
            free_blocks: None,
            ..Setup::new(random.next_u64() >> 40, None)
        };
        let recording = record(&setup).unwrap();
        let part = recording.explore(&recording.plan(), &Depth::new(STATES)).unwrap_or_else(|failure| {
            keep(&failure.state.image);
            panic!("{failure}")
        });
        tally.add(&part);
    }
    judges::judged("model", &format!("crash states of several threads: {tally}"));
}

/// A thread that waits for log space also waits for threads that are not scheduled and hold the tail.
#[test]
fn threads_share_a_small_log() {
    let setup = Setup {
        warm_up: 700,
        operations: 10,
        is_immediate: true,
        threads: 3,
        has_background: true,
        free_blocks: None,
        ..Setup::new(3_000_028, Some(Shape::named("block-1k-directory-8k").unwrap()))
    };
    let recording = record(&setup).unwrap_or_else(|error| panic!("{error:#}"));
    let part = recording
        .explore(&recording.plan(), &Depth::new(STATES / 10))
        .unwrap_or_else(|failure| panic!("{failure}"));
    judges::judged("model", &format!("threads in a small log: {part}"));
}

/// Each kind of operation at some levels of fullness: what is refused has changed nothing, and names can be removed.
#[test]
fn full_file_systems_refuse_whole_operations() {
    let seed = Seed::from_environment("full_file_systems_refuse_whole_operations", 13);
    let mut random = seed.random();
    let has_repair = judges::all_present(&[Judge::XfsRepair], "full file systems");
    let folder = tempfile::tempdir().unwrap();
    let mut tally = SweepTally::default();
    for name in ["default", "no-parent", "block-1k", "smallest-log"] {
        let shape = Shape::named(name).unwrap();
        let setup = Setup {
            is_immediate: random.below(2) == 0,
            free_blocks: None,
            ..Setup::new(random.next_u64() >> 40, Some(shape))
        };
        let sweep = Sweep::new(&setup).unwrap();
        for level in [0, 1, random.below(10), 10 + random.below(60), 64, 70 + random.below(300)] {
            let image = sweep.level(level, &mut tally).unwrap_or_else(|error| panic!("{error:#}"));
            if has_repair {
                let path = folder.path().join("image");
                image.save_written(&path).unwrap();
                repair_is_silent(&path).unwrap_or_else(|error| panic!("{setup}, level {level}: {error:#}"));
            }
        }
    }
    assert!(tally.refused > 20 && tally.removed > 100, "otherwise this tests less than it says: {tally}");
    judges::judged("model", &format!("full file systems: {tally}"));
}

fn keep(image: &Image) {
    if let Some(folder) = std::env::var_os("UXFS_CRASH_KEEP") {
        image.save(&std::path::Path::new(&folder).join("crash.img")).unwrap();
    }
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
        let setup = Setup { warm_up: setup.warm_up.min(400), ..setup };
        let recording = record(&setup).unwrap();
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        // Each state of the largest one takes ten times as long.
        let states = if shape.name == "largest-log" { STATES / 10 } else { STATES };
        let linux_every = number("UXFS_CRASH_LINUX_EVERY").unwrap_or(if has_linux { 64 } else { 0 });
        let depth = Depth { linux_every, ..Depth::new(number("UXFS_CRASH_STATES").unwrap_or(states)) };
        let part = recording.explore(&recording.plan(), &depth).unwrap_or_else(|failure| {
            keep(&failure.state.image);
            panic!("{failure}")
        });
        eprintln!("{setup}: {part} in {:.1} s", part.elapsed.as_secs_f64());
        tally.add(&part);
    }
    judges::judged("model", &format!("crash states: {tally}"));
}

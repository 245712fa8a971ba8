//! Threads that work beside each other, each in a directory of its own with a model of its own.
//!
//! After a crash each directory equals the model of its thread after some number of operations; the checkpoints decide which
//! numbers go together. Runs of several threads are not reproducible, so a failing run keeps its image.

use std::thread;

use anyhow::{Context, Result, anyhow};
use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::operations::create::NewFile;
use uxfs_volume::inode::FileType;

use super::{
    generator::Generator,
    judge::Chronicle,
    model::Model,
    recording::{Mark, RecordingDevice},
    run::{Lane, Setup, Work},
    states::promises_within,
    tree::{self, facts_of},
    volume::Volume,
};
use uxfs_testkit::seeds::Random;

/// Operations of a thread are numbered from a multiple of this on.
const NUMBERS: usize = 30_000;

/// Makes a directory for each thread, and records what they do there together.
pub(super) fn record(
    setup: &Setup,
    device: &RecordingDevice,
    file_system: &FileSystem,
) -> Result<(Vec<Lane>, u64)> {
    let mut workers = Vec::new();
    for index in 0..setup.threads {
        let root = file_system.open(file_system.geometry().root_inode)?;
        let name = format!("thread-{index}").into_bytes();
        let made = file_system.create(&root, &name, &NewFile::new(NewKind::Directory, 0o755))?;
        let inode = file_system.inode(made.number())?;
        let mut facts = facts_of(file_system, &inode)?;
        facts.kind = FileType::Directory;
        workers.push((index, Model::within(facts, root.number().get())));
    }
    if let Some(free_blocks) = setup.free_blocks {
        // In files beside the directories, which stay as they are.
        let root = facts_of(file_system, &*file_system.root()?)?;
        let mut filler = worker(setup, device, file_system, (Model::new(root), setup.seed));
        filler.fill(free_blocks).with_context(|| setup.to_string())?;
    }
    let run = |workers: Vec<(usize, Model)>, operations: usize, skipped: usize| -> Result<Vec<Done>> {
        thread::scope(|scope| {
            let threads: Vec<_> = workers
                .into_iter()
                .map(|(index, model)| {
                    scope.spawn(move || work(setup, device, file_system, index, model, operations, skipped))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .collect::<Result<Vec<_>>>()
        })
    };
    let warm = run(workers, setup.warm_up, 0).with_context(|| setup.to_string())?;
    file_system.force()?;
    device.begin_again();
    let models =
        warm.iter().enumerate().map(|(index, done)| (index, done.chronicle.last().clone())).collect();
    let done = run(models, setup.operations, setup.warm_up).with_context(|| setup.to_string())?;
    let refused = warm.iter().chain(&done).map(|done| done.refused).sum();
    let lanes = done
        .into_iter()
        .enumerate()
        .map(|(index, done)| Lane {
            root: Some(done.chronicle.models[0].root_inode()),
            within: index * NUMBERS..(index + 1) * NUMBERS,
            chronicle: done.chronicle,
            promises: Vec::new(),
        })
        .collect();
    Ok((lanes, refused))
}

struct Done {
    chronicle: Chronicle,
    refused: u64,
}

fn work(
    setup: &Setup,
    device: &RecordingDevice,
    file_system: &FileSystem,
    index: usize,
    model: Model,
    operations: usize,
    skipped: usize,
) -> Result<Done> {
    let seed = setup.seed.wrapping_mul(31).wrapping_add((index + 7 * skipped) as u64);
    let start = index * NUMBERS + skipped;
    let mut work = worker(setup, device, file_system, (model, seed));
    // What another thread's names were does not come again in the second part.
    work.generator.skip_names(100 * skipped as u64);
    let mut chronicle = Chronicle::new(start, work.model.clone());
    for number in start..start + operations {
        let operation = work.step(number)?;
        chronicle.push(operation, work.model.clone());
    }
    // What is open belongs to this thread alone; it is closed before the others go on.
    work.volume.close_all()?;
    work.model.close_all();
    chronicle.replace_last(work.model);
    Ok(Done { chronicle, refused: work.refused })
}

fn worker<'a>(
    setup: &Setup,
    device: &'a RecordingDevice,
    file_system: &'a FileSystem,
    (model, seed): (Model, u64),
) -> Work<'a> {
    Work {
        volume: Volume::new(file_system),
        generator: Generator::new(seed, |kind| setup.allows(kind)),
        model,
        upkeep: Random::new(seed ^ 0xacc0_7ab1e),
        device,
        file_system,
        refused: 0,
        is_alone: false,
    }
}

/// Fills in what is promised to each lane after each event.
pub(super) fn add_promises(lanes: &mut [Lane], events: &[super::recording::Event]) {
    for lane in lanes {
        lane.promises = promises_within(events, lane.chronicle.start, lane.within.clone());
    }
}

/// The parts of a tree that belong to the lanes.
pub(super) fn split(tree: tree::Tree, lanes: &[Lane]) -> Vec<tree::Tree> {
    match lanes {
        [only] if only.root.is_none() => vec![tree],
        _ => tree.split(lanes.iter().filter_map(|lane| lane.root)),
    }
}

/// Says that a mark is of one of these operations.
pub(super) fn is_within(mark: &Mark, within: &std::ops::Range<usize>) -> bool {
    match mark {
        Mark::Begun(operation) => within.contains(operation),
        Mark::Synced(operations) | Mark::FileSynced { operations, .. } => {
            within.start < *operations && *operations <= within.end
        }
    }
}

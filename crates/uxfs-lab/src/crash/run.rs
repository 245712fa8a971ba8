//! A workload on a recording device, and what its crash states are found to be.

use std::{
    fmt,
    ops::{ControlFlow, Range},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_volume::error::{Error, OperationError};

use super::{
    examine::{Examiner, Seen},
    fill,
    generator::Generator,
    geometry::Shape,
    judge::Chronicle,
    model::Model,
    recording::{Event, History, Mark, RecordingDevice},
    states::{CrashState, Kind, Plan, Promise, visit},
    team,
    tree::facts_of,
    volume::{Volume, mount_options},
    workload::{Operation, OperationKind},
};
use uxfs_testkit::seeds::Random;

/// Setup of a run. It follows from the seed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Decides everything.
    pub seed: u64,
    /// The file system.
    pub shape: Shape,
    /// Operations before the recording begins: they fill trees and turn the log round.
    pub warm_up: usize,
    /// Operations that are recorded.
    pub operations: usize,
    /// One checkpoint for each step.
    pub is_immediate: bool,
    /// Size of log records; 0 for the usual.
    pub record_size_bytes: u32,
    /// Whether it is unmounted in the end.
    pub is_closed: bool,
    /// No more free blocks than this at the beginning.
    pub free_blocks: Option<u64>,
    /// Operations to be done first; for all of them `warm_up` is 0.
    pub script: Vec<Operation>,
    /// Threads that work beside each other; each does all the operations.
    pub threads: usize,
    /// Whether the journal has a thread of its own. No two histories are the same then.
    pub has_background: bool,
}

impl Setup {
    /// All from the seed, but for what is given.
    pub fn new(seed: u64, shape: Option<Shape>) -> Self {
        let mut random = Random::new(seed ^ 0x005e_ed00_c4a5);
        let any = Shape::any(&mut random);
        Self {
            seed,
            shape: shape.unwrap_or(any),
            warm_up: [0, 0, 100, 400, 2000][random.below(5) as usize],
            operations: 30 + random.below(120) as usize,
            is_immediate: random.below(4) == 0,
            record_size_bytes: [0, 0, 64 << 10, 256 << 10][random.below(4) as usize],
            is_closed: random.below(3) == 0,
            free_blocks: (random.below(6) == 0).then(|| {
                let most = [8, 40, 400][random.below(3) as usize];
                random.below(most)
            }),
            script: Vec::new(),
            threads: 1,
            has_background: false,
        }
    }

    /// Whether an operation is possible. Zeroing that runs out of space may have zeroed a part, as in Linux, which the model
    /// cannot predict (the sweep over levels of fullness covers it).
    pub(super) fn allows(&self, kind: OperationKind) -> bool {
        let zeroes = matches!(kind, OperationKind::Zero | OperationKind::Punch);
        self.shape.allows(kind) && !(zeroes && self.free_blocks.is_some())
    }

    /// How it is mounted.
    pub(super) fn mount_options(&self) -> MountOptions {
        let log = LogOptions {
            is_immediate: self.is_immediate,
            record_size_bytes: self.record_size_bytes,
            has_background: self.has_background,
            checkpoint_interval: None,
        };
        MountOptions { log, ..mount_options(4) }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} on {}: {} + {} operations", self.seed, self.shape, self.warm_up, self.operations)?;
        if self.threads > 1 || self.has_background {
            let background = if self.has_background { " and the journal's" } else { "" };
            write!(f, ", {} threads{background}", self.threads)?;
        }
        if let Some(blocks) = self.free_blocks {
            write!(f, ", {blocks} free blocks")?;
        }
        write!(f, "{}", if self.is_immediate { ", immediate" } else { "" })
    }
}

/// A recorded run.
#[derive(Debug)]
pub struct Recording {
    /// Of this.
    pub setup: Setup,
    /// The work of each thread.
    pub lanes: Vec<Lane>,
    /// The events of the device.
    pub history: History,
    /// Where the log lies on the device, in bytes.
    pub log: Range<u64>,
    /// Bytes written to the log, those before the recording, too.
    pub log_bytes: u64,
    /// Operations that found no space.
    pub refused: u64,
}

/// The work of one thread.
#[derive(Debug)]
pub struct Lane {
    /// The directory that it worked in; none for the whole file system.
    pub root: Option<u64>,
    /// Numbers of its operations.
    pub within: Range<usize>,
    /// The expected tree after each operation.
    pub chronicle: Chronicle,
    /// The promise after each number of events.
    pub promises: Vec<Promise>,
}

/// Mounts, works and records.
///
/// # Errors
/// The file system fails where it should not.
pub fn record(setup: &Setup) -> Result<Recording> {
    let (image, log) = setup.shape.make_with_log()?;
    let device = Arc::new(RecordingDevice::new(image));
    let file_system = FileSystem::mount_logged(device.clone(), &setup.mount_options())?;
    let (mut lanes, refused) = match setup.threads {
        0 | 1 => alone(setup, &device, &file_system)?,
        _ => team::record(setup, &device, &file_system)?,
    };
    let log_bytes = file_system.journal_counters().log_bytes;
    // The journal's own thread ends with it.
    drop(file_system);
    let history = device.history();
    team::add_promises(&mut lanes, &history.events);
    Ok(Recording { setup: setup.clone(), lanes, history, log, log_bytes, refused })
}

fn alone(setup: &Setup, device: &RecordingDevice, file_system: &FileSystem) -> Result<(Vec<Lane>, u64)> {
    let mut work = Work {
        volume: Volume::new(file_system),
        generator: Generator::scripted(setup.seed, &setup.script, |kind| setup.allows(kind)),
        refused: 0,
        model: Model::new(facts_of(file_system, &*file_system.root()?)?),
        upkeep: Random::new(setup.seed ^ 0xacc0_7ab1e),
        device,
        file_system,
        is_alone: true,
    };
    let mut start = 0;
    if let Some(free_blocks) = setup.free_blocks {
        start = work.fill(free_blocks).with_context(|| setup.to_string())?;
    }
    for _ in 0..setup.warm_up {
        work.step(start).with_context(|| setup.to_string())?;
        start += 1;
    }
    file_system.force()?;
    // What has not been written home goes on being that: the log is dirty in the first state already.
    device.begin_again();
    let mut chronicle = Chronicle::new(start, work.model.clone());
    for number in start..start + setup.operations {
        let operation = work.step(number).with_context(|| setup.to_string())?;
        chronicle.push(operation, work.model.clone());
    }
    if setup.is_closed {
        work.volume.close_all()?;
        file_system.close()?;
        device.mark(Mark::Synced(chronicle.done()));
    }
    let lane = Lane { root: None, within: 0..usize::MAX, chronicle, promises: Vec::new() };
    Ok((vec![lane], work.refused))
}

/// A thread at work.
pub(super) struct Work<'a> {
    pub volume: Volume<'a>,
    pub generator: Generator,
    pub model: Model,
    pub upkeep: Random,
    pub device: &'a RecordingDevice,
    pub file_system: &'a FileSystem,
    pub refused: u64,
    /// No other thread changes the file system, so that it equals the model.
    pub is_alone: bool,
}

impl Work<'_> {
    /// Takes space until so many blocks are left; gives how many operations that took.
    pub fn fill(&mut self, free_blocks: u64) -> Result<usize> {
        let (mut number, mut fillers) = (0, fill::Fillers::new(free_blocks));
        while self.refused == 0
            && let Some(operation) = fillers.next(self.file_system, &self.model, &mut self.upkeep)
        {
            self.perform(number, operation)?;
            number += 1;
        }
        Ok(number)
    }

    /// Background work at random moments of the workload.
    fn upkeep(&mut self) -> Result<()> {
        match self.upkeep.below(48) {
            0 | 1 => self.file_system.force()?,
            2 => self.file_system.push_active_items(false)?,
            3 => self.file_system.push_active_items(true)?,
            4 | 5 => self.file_system.complete_pending_frees()?,
            6 => {
                self.file_system.force()?;
                self.file_system.push_active_items(true)?;
                self.file_system.complete_pending_frees()?;
            }
            _ => {}
        }
        Ok(())
    }

    pub fn step(&mut self, number: usize) -> Result<Operation> {
        self.upkeep()?;
        let operation = self.generator.next(&self.model);
        self.perform(number, operation)
    }

    fn perform(&mut self, number: usize, operation: Operation) -> Result<Operation> {
        self.device.mark(Mark::Begun(number));
        let outcome = match self.volume.perform(number, &operation, &self.model) {
            Ok(outcome) => Some(outcome),
            Err(Error::Operation(OperationError::NoSpace)) => {
                if self.is_alone {
                    fill::is_just(self.file_system, &self.model)
                        .with_context(|| format!("operation {number} found no space: {operation:?}"))?;
                }
                None
            }
            Err(error) => return Err(anyhow!(error).context(format!("operation {number}: {operation:?}"))),
        };
        match operation {
            Operation::Sync => {
                self.file_system.force()?;
                self.device.mark(Mark::Synced(number + 1));
            }
            Operation::SyncFile { node } => {
                self.file_system.force()?;
                self.device.mark(Mark::FileSynced { operations: number + 1, file: node });
            }
            _ => {}
        }
        let Some(outcome) = outcome else {
            self.refused += 1;
            return Ok(Operation::Sync);
        };
        let operation = operation.as_done(&outcome);
        self.model.apply(number, &operation, outcome);
        Ok(operation)
    }
}

/// Counts.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Workloads.
    pub runs: u64,
    /// Operations in them.
    pub operations: u64,
    /// Crash states.
    pub states: u64,
    /// Of these, states that held what an earlier one held and promised the same.
    pub repeated: u64,
    /// States by kind: prefixes, single losses, torn requests, subsets.
    pub kinds: [u64; 4],
    /// States that lack operations which were not synced.
    pub behind: u64,
    /// States whose recovery was carried to the device, and repeated.
    pub carried: u64,
    /// Crash states of such recoveries, recovered in turn.
    pub crashed_recoveries: u64,
    /// States that Linux recovered as well.
    pub linux: u64,
    /// How often logs went round, those that went round at least once.
    pub log_turns: u64,
    /// The most of one log.
    pub most_turns: u64,
    /// Operations that found no space.
    pub refused: u64,
    /// Time.
    pub elapsed: Duration,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.operations += other.operations;
        self.states += other.states;
        self.repeated += other.repeated;
        self.kinds.iter_mut().zip(other.kinds).for_each(|(sum, part)| *sum += part);
        self.behind += other.behind;
        self.carried += other.carried;
        self.crashed_recoveries += other.crashed_recoveries;
        self.linux += other.linux;
        self.log_turns += other.log_turns;
        self.most_turns = self.most_turns.max(other.most_turns);
        self.refused += other.refused;
        self.elapsed += other.elapsed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [prefixes, lost, torn, subsets] = self.kinds;
        write!(
            f,
            "{} states ({prefixes} prefixes, {lost} single losses, {torn} torn, {subsets} subsets; {} repeated) of {} \
             operations in {} runs",
            self.states, self.repeated, self.operations, self.runs
        )?;
        write!(
            f,
            "; recovery carried to the device and done twice {} times and crashed {} times; recovered by Linux, too, {}",
            self.carried, self.crashed_recoveries, self.linux
        )?;
        write!(
            f,
            "; logs went round {} times, one of them {}; no space for {} operations",
            self.log_turns, self.most_turns, self.refused
        )
    }
}

/// A crash state that was found to be wrong.
#[derive(Debug)]
pub struct Failure {
    /// Where it comes from.
    pub setup: Setup,
    /// The state.
    pub state: CrashState,
    /// The promise to each thread.
    pub promises: Vec<Promise>,
    /// The failure in words.
    pub what: String,
    /// The last events.
    pub events: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = &self.state;
        write!(f, "{}: state {} ({:?}, {} events;", self.setup, state.number, state.kind, state.events)?;
        for promise in &self.promises {
            write!(f, " {} to {} operations", promise.fewest, promise.most)?;
        }
        write!(f, "): {}", self.what)?;
        self.events.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

/// How thoroughly states are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Depth {
    /// No more states than this.
    pub states: u64,
    /// Only this one.
    pub only: Option<u64>,
    /// About one state in so many is recovered on the device, twice, and crashed meanwhile; 0 for none.
    pub carry_every: u64,
    /// Crash states of each such recovery that are tried.
    pub crashes: u64,
    /// About one state in so many is shown to Linux; 0 for none.
    pub linux_every: u64,
}

impl Depth {
    /// As deep as is quick.
    pub const fn new(states: u64) -> Self {
        Self { states, only: None, carry_every: 64, crashes: 2, linux_every: 0 }
    }

    /// Everything of one state.
    pub const fn only(state: u64) -> Self {
        Self { states: u64::MAX, only: Some(state), carry_every: 1, crashes: u64::MAX, linux_every: 1 }
    }
}

impl Recording {
    /// The crash states that are judged: all kinds.
    pub fn plan(&self) -> Plan {
        let (seed, sector_bytes) = (self.setup.seed, self.setup.shape.sector_bytes);
        Plan { sector_bytes, log: (self.log.start, self.log.end), ..Plan::new(seed) }
    }

    fn operation(&self, number: usize) -> Option<&Operation> {
        let lane = self.lanes.iter().find(|lane| lane.within.contains(&number))?;
        lane.chronicle.operations.get(number.checked_sub(lane.chronicle.start)?)
    }

    /// The last events before a number of them, one line for each.
    pub fn events_before(&self, events: usize, count: usize) -> Vec<String> {
        let first = events.saturating_sub(count);
        let mut lines = Vec::new();
        for (index, event) in self.history.events.iter().enumerate().take(events).skip(first) {
            lines.push(match event {
                Event::Write { offset_bytes, bytes } => {
                    format!("{index}: write of {} bytes at sector {}", bytes.len(), offset_bytes / 512)
                }
                Event::Discard { offset_bytes, length_bytes } => {
                    format!("{index}: discard of {length_bytes} bytes at sector {}", offset_bytes / 512)
                }
                Event::Flush => format!("{index}: flush"),
                Event::Mark(Mark::Begun(number)) => {
                    let operation = self.operation(*number);
                    format!("{index}: operation {number} begins: {operation:?}")
                }
                Event::Mark(mark) => format!("{index}: {mark:?}"),
            });
        }
        lines
    }

    /// Judges the crash states of the recording.
    ///
    /// # Errors
    /// The first one that is wrong.
    pub fn explore(&self, plan: &Plan, depth: &Depth) -> Result<Tally, Box<Failure>> {
        let started = Instant::now();
        let turns = self.log_bytes / (self.log.end - self.log.start).max(1);
        let mut tally = Tally {
            runs: 1,
            operations: (self.setup.operations * self.lanes.len()) as u64,
            log_turns: turns,
            most_turns: turns,
            refused: self.refused,
            ..Tally::default()
        };
        let mut examiner = Examiner::new(self, depth);
        let mut failure = None;
        let _ = visit(&self.history, plan, &mut |state| {
            if depth.only.is_some_and(|only| only != state.number) {
                return ControlFlow::Continue(());
            }
            tally.states += 1;
            tally.kinds[match state.kind {
                Kind::Prefix => 0,
                Kind::Lost(_) => 1,
                Kind::Torn => 2,
                Kind::Subset => 3,
            }] += 1;
            let promises: Vec<Promise> = self.lanes.iter().map(|lane| lane.promises[state.events]).collect();
            match catch_unwind(AssertUnwindSafe(|| examiner.judge(&state, &promises))) {
                Ok(Ok(Seen::Before)) => tally.repeated += 1,
                Ok(Ok(Seen::Now(done))) => {
                    let is_behind = done.iter().zip(&promises).any(|(done, promise)| *done < promise.most);
                    tally.behind += u64::from(is_behind);
                }
                Ok(Err(error)) => failure = Some((state, promises, format!("{error:#}"))),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    failure = Some((state, promises, format!("panic: {}", text.unwrap_or_default())));
                }
            }
            match failure.is_none() && tally.states < depth.states {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        tally.elapsed = started.elapsed();
        let counts = examiner.counts();
        (tally.carried, tally.crashed_recoveries, tally.linux) =
            (counts.carried, counts.crashed_recoveries, counts.linux);
        match failure {
            None => Ok(tally),
            Some((state, promises, what)) => {
                let events = self.events_before(state.events, 24);
                Err(Box::new(Failure { setup: self.setup.clone(), state, promises, what, events }))
            }
        }
    }
}

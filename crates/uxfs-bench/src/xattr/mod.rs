//! Very many attributes on one inode: inserts, overwrites and deletes, and what each further million costs.
//!
//! | module | holds |
//! |---|---|
//! | [`case`] | a case by its published name |
//! | here | running it |
//! | [`leaves`] | how full the leaves are afterwards |

pub mod case;
pub mod leaves;

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use uxfs_volume::attribute::leaf_use::{LeafFigures, LeafUse};

use self::case::{Action, Case};
use crate::{
    BenchError, Result,
    backend::{Backend, JournalFigures, Worker},
    fsmark::report::cells,
    histogram::{Histogram, Stopwatch, Summary},
    random,
    table::Table,
};

/// Options of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which attributes.
    pub case: Case,
    /// The cost is reported after each this many attributes.
    pub step: u64,
    /// Whose names: `trusted.` needs root where the kernel is asked.
    pub prefix: String,
    /// The file.
    pub file: String,
    /// Leave the file there.
    pub keep: bool,
    /// Of which attributes are overwritten and deleted.
    pub seed: u64,
    /// Look at each leaf afterwards.
    pub looks_at_leaves: bool,
}

/// So many attributes of a phase.
#[derive(Debug, Clone)]
pub struct Step {
    /// The operation: `insert`, `overwrite` or `delete`.
    pub action: &'static str,
    /// Attributes of this phase, these included.
    pub done: u64,
    /// How many these are.
    pub count: u64,
    /// Wall time of these.
    pub elapsed: Duration,
    /// Processor time of the thread: what is left of the wall time on a machine that does other things too.
    pub processor: Duration,
    /// Time of each operation, with making its name and value.
    pub latencies: Histogram,
    /// Counters of the journal.
    pub journal: Option<JournalFigures>,
}

impl Step {
    /// Seconds for a million.
    pub fn seconds_per_million(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e6 / self.count.max(1) as f64
    }
}

/// Which attributes there are, by their number.
#[derive(Debug, Clone, Default)]
struct Present {
    numbers: Vec<bool>,
}

impl Present {
    /// The numbers of those that are there, or are gone, ascending.
    fn which(&self, are_there: bool) -> impl Iterator<Item = u64> {
        let all = (0_u64..).zip(&self.numbers);
        all.filter(move |(_, there)| **there == are_there).map(|(index, _)| index)
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All steps of all phases.
    pub steps: Vec<Step>,
    /// The leaves at the end, where they were asked for and can be looked at in process.
    pub leaves: Option<(LeafUse, Vec<LeafFigures>)>,
}

/// Runs all phases of a case. `tell` learns of each step when it has ended.
///
/// # Errors
/// The file system failed.
pub fn run<B: Backend>(backend: &B, options: &Options, mut tell: impl FnMut(&Step)) -> Result<Outcome> {
    if options.step == 0 || options.case.sizes.is_empty() {
        return Err(BenchError::Options("without attributes there is nothing to measure".to_owned()));
    }
    let mut worker = backend.worker()?;
    let root = worker.root(0)?;
    let file = worker.create(&root, options.file.as_bytes())?;
    let mut running = Running {
        backend,
        worker: &mut worker,
        file: &file,
        options,
        steps: Vec::new(),
        present: Present::default(),
    };
    running.phase(&Action::Insert(options.case.count), 0, &mut tell)?;
    for (number, action) in (1..).zip(&options.case.actions) {
        running.phase(action, number, &mut tell)?;
    }
    let steps = running.steps;
    let mut leaves = None;
    if options.looks_at_leaves {
        let mut series = Vec::new();
        let found = worker.attribute_leaves(&file, &mut |leaf| series.push(*leaf))?;
        leaves = found.map(|found| (found, series));
    }
    worker.close(file)?;
    if !options.keep {
        worker.unlink(&root, options.file.as_bytes())?;
    }
    Ok(Outcome { steps, leaves })
}

struct Running<'r, 'b, B: Backend + 'b> {
    backend: &'r B,
    worker: &'r mut B::Worker<'b>,
    file: &'r <B::Worker<'b> as Worker>::File,
    options: &'r Options,
    steps: Vec<Step>,
    present: Present,
}

impl<'b, B: Backend + 'b> Running<'_, 'b, B> {
    fn phase(&mut self, action: &Action, number: u64, tell: &mut impl FnMut(&Step)) -> Result<()> {
        let first = self.present.numbers.len() as u64;
        let numbers: Vec<u64> = match action {
            Action::Insert(count) => {
                self.present.numbers.resize((first + count) as usize, true);
                (first..first + count).collect()
            }
            Action::Overwrite(percent) | Action::Delete(percent) => {
                let seed = random::at(self.options.seed, number);
                let is_chosen = |index: &u64| random::at(seed, *index) % 100 < u64::from(*percent);
                self.present.which(true).filter(is_chosen).collect()
            }
            Action::DeleteEvery(interval) => {
                self.present.which(true).filter(|index| index.is_multiple_of(*interval)).collect()
            }
            Action::Refill(count) => self.present.which(false).take(*count as usize).collect(),
            Action::DeleteFirst(count) => self.present.which(true).take(*count as usize).collect(),
        };
        let is_there = !matches!(action.name(), "delete");
        for index in &numbers {
            if let Some(there) = self.present.numbers.get_mut(*index as usize) {
                *there = is_there;
            }
        }
        let mut done = 0;
        for part in numbers.chunks(self.options.step as usize) {
            let step = self.step(action, part, done)?;
            done = step.done;
            tell(&step);
            self.steps.push(step);
        }
        Ok(())
    }

    fn step(&mut self, action: &Action, numbers: &[u64], done: u64) -> Result<Step> {
        let before = self.backend.journal();
        let mut latencies = Histogram::default();
        let (mut name, mut value) = (self.options.prefix.clone().into_bytes(), Vec::new());
        let prefix_bytes = name.len();
        let (started, processor) = (Instant::now(), thread_time());
        let mut watch = Stopwatch::start();
        for (turn, number) in (done..).zip(numbers) {
            name.truncate(prefix_bytes);
            push_number(&mut name, *number);
            let case = &self.options.case;
            let size = match action {
                Action::Insert(_) => Some(case.size_of(*number, true)),
                // Sizes come in turn again.
                Action::Refill(_) => Some(case.size_of(turn, true)),
                Action::Overwrite(_) => Some(case.size_of(*number, false)),
                Action::Delete(_) | Action::DeleteEvery(_) | Action::DeleteFirst(_) => None,
            };
            match size {
                None => self.worker.removexattr(self.file, &name)?,
                Some(size) => {
                    fill(&mut value, size, *number);
                    self.worker.setxattr(self.file, &name, &value)?;
                }
            }
            watch.lap(&mut latencies);
        }
        let (elapsed, processor) = (started.elapsed(), thread_time().saturating_sub(processor));
        Ok(Step {
            action: action.name(),
            done: done + numbers.len() as u64,
            count: numbers.len() as u64,
            elapsed,
            processor,
            latencies,
            journal: self.backend.journal().zip(before).map(|(now, before)| now.since(&before)),
        })
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

/// Eleven digits, without the cost of formatting.
fn push_number(name: &mut Vec<u8>, number: u64) {
    let (mut digits, mut rest) = ([b'0'; 11], number);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name.extend_from_slice(&digits);
}

fn fill(value: &mut Vec<u8>, length: usize, number: u64) {
    value.resize(length, 0);
    for (chunk, place) in value.chunks_mut(8).zip(0..) {
        let word = number.wrapping_add(place).to_le_bytes();
        for (byte, from) in chunk.iter_mut().zip(word) {
            *byte = from;
        }
    }
}

/// For people.
pub fn table(steps: &[Step]) -> String {
    let mut costs = Table::new(&["phase", "done", "seconds", "cpu s", "s/million", "of first"]);
    for step in steps {
        let first = steps.iter().find(|first| first.action == step.action);
        let share =
            first.map_or(1.0, |first| step.seconds_per_million() / first.seconds_per_million().max(1e-12));
        costs.row([
            step.action.to_owned(),
            step.done.to_string(),
            format!("{:.3}", step.elapsed.as_secs_f64()),
            format!("{:.3}", step.processor.as_secs_f64()),
            format!("{:.3}", step.seconds_per_million()),
            format!("{share:.2}"),
        ]);
    }
    let mut calls = Table::new(&["microseconds", "count", "min", "avg", "p50", "p90", "p99", "p99.9", "max"]);
    for action in ["insert", "overwrite", "delete"] {
        let mut all = Histogram::default();
        steps.iter().filter(|step| step.action == action).for_each(|step| all.merge(&step.latencies));
        if all.count() > 0 {
            calls.row(cells(action, &all.summary()));
        }
    }
    format!("{costs}\n{calls}")
}

/// One step in JSON.
#[derive(Debug, Serialize)]
pub struct Document {
    phase: &'static str,
    done: u64,
    count: u64,
    elapsed_seconds: f64,
    processor_seconds: f64,
    seconds_per_million: f64,
    latencies: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalFigures>,
}

impl Document {
    /// Takes what a step gave.
    pub fn new(step: &Step) -> Self {
        Self {
            phase: step.action,
            done: step.done,
            count: step.count,
            elapsed_seconds: step.elapsed.as_secs_f64(),
            processor_seconds: step.processor.as_secs_f64(),
            seconds_per_million: step.seconds_per_million(),
            latencies: step.latencies.summary(),
            journal: step.journal,
        }
    }
}

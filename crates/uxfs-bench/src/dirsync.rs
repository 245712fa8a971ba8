//! Names that come into one directory and then change, with the directory made durable every so often.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    BenchError, Result,
    backend::{Backend, JournalFigures, Worker},
    fsmark::report::cells,
    histogram::{Histogram, Stopwatch, Summary},
    table::Table,
};

/// Options of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Files that are made, and then renamed.
    pub files: u64,
    /// After so many the directory is made durable.
    pub every: u64,
    /// Leave the files there.
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { files: 10_000, every: 100, keep: false }
    }
}

/// One of the two phases.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The operation.
    pub name: &'static str,
    /// Wall time.
    pub elapsed: Duration,
    /// Making the directory durable.
    pub fsync: Histogram,
    /// Time of each name.
    pub operation: Histogram,
    /// Counters of the journal.
    pub journal: Option<JournalFigures>,
}

/// The directory that is worked in, below the first one of the backend.
const DIRECTORY: &[u8] = b"dirsync";

/// Runs both phases.
///
/// # Errors
/// The file system failed.
pub fn run<B: Backend>(backend: &B, options: &Options) -> Result<Vec<Phase>> {
    if options.every == 0 || options.files == 0 {
        return Err(BenchError::Options("without files there is nothing to measure".to_owned()));
    }
    let mut worker = backend.worker()?;
    let root = worker.root(0)?;
    let directory = worker.directory(&root, DIRECTORY)?;
    worker.fsync_directory(&directory)?;
    let creates = phase(backend, &mut worker, &directory, options, "create", |worker, index| {
        let file = worker.create(&directory, name_of("file", index).as_bytes())?;
        worker.close(file)?;
        Ok(())
    })?;
    let renames = phase(backend, &mut worker, &directory, options, "rename", |worker, index| {
        let (from, to) = (name_of("file", index), name_of("renamed", index));
        worker.rename(&directory, from.as_bytes(), to.as_bytes())
    })?;
    if !options.keep {
        for index in 0..options.files {
            worker.unlink(&directory, name_of("renamed", index).as_bytes())?;
        }
        worker.rmdir(&root, DIRECTORY)?;
    }
    Ok(vec![creates, renames])
}

fn name_of(word: &str, index: u64) -> String {
    format!("{word}_{index}")
}

fn phase<'b, B: Backend + 'b>(
    backend: &B,
    worker: &mut B::Worker<'b>,
    directory: &<B::Worker<'b> as Worker>::Directory,
    options: &Options,
    name: &'static str,
    mut operation: impl FnMut(&mut B::Worker<'b>, u64) -> Result<()>,
) -> Result<Phase> {
    let before = backend.journal();
    let mut result = Phase {
        name,
        elapsed: Duration::ZERO,
        fsync: Histogram::default(),
        operation: Histogram::default(),
        journal: None,
    };
    let (started, mut watch) = (Instant::now(), Stopwatch::start());
    for index in 0..options.files {
        operation(worker, index)?;
        watch.lap(&mut result.operation);
        if (index + 1).is_multiple_of(options.every) || index + 1 == options.files {
            worker.fsync_directory(directory)?;
            watch.lap(&mut result.fsync);
        }
    }
    result.elapsed = started.elapsed();
    result.journal = backend.journal().zip(before).map(|(now, before)| now.since(&before));
    Ok(result)
}

/// For people.
pub fn table(phases: &[Phase]) -> String {
    let mut text = String::new();
    let columns =
        ["phase", "count", "total s", "in fsync s", "fsyncs", "log bytes", "changed bytes", "checkpoints"];
    let mut totals = Table::new(&columns);
    for phase in phases {
        let journal = |get: fn(&JournalFigures) -> u64| {
            phase.journal.as_ref().map_or_else(|| "-".to_owned(), |journal| get(journal).to_string())
        };
        totals.row([
            phase.name.to_owned(),
            phase.operation.count().to_string(),
            format!("{:.3}", phase.elapsed.as_secs_f64()),
            format!("{:.3}", phase.fsync.total().as_secs_f64()),
            phase.fsync.count().to_string(),
            journal(|journal| journal.log_bytes),
            journal(|journal| journal.changed_bytes),
            journal(|journal| journal.checkpoints),
        ]);
    }
    let mut calls = Table::new(&["microseconds", "count", "min", "avg", "p50", "p90", "p99", "p99.9", "max"]);
    for phase in phases {
        calls.row(cells(phase.name, &phase.operation.summary()));
        calls.row(cells(&format!("fsync ({})", phase.name), &phase.fsync.summary()));
    }
    let _ = write!(text, "{totals}\n{calls}");
    text
}

/// One phase in JSON.
#[derive(Debug, Serialize)]
pub struct Document {
    phase: &'static str,
    elapsed_seconds: f64,
    fsync_seconds: f64,
    operation: Summary,
    fsync: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalFigures>,
}

impl Document {
    /// Takes what a phase gave.
    pub fn new(phase: &Phase) -> Self {
        Self {
            phase: phase.name,
            elapsed_seconds: phase.elapsed.as_secs_f64(),
            fsync_seconds: phase.fsync.total().as_secs_f64(),
            operation: phase.operation.summary(),
            fsync: phase.fsync.summary(),
            journal: phase.journal,
        }
    }
}

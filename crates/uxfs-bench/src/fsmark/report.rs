//! fs_mark's columns, and JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Delete, Iteration, Latencies, Options, Outcome};
use crate::{
    backend::JournalFigures,
    histogram::{Histogram, Summary},
    table::{Table, microseconds},
};

/// The lines before those of iterations.
pub fn heading(options: &Options, roots: usize, is_verbose: bool) -> String {
    let mut text = format!(
        "#  {} thread(s) in {roots} directories, seed {}\n#  Sync method: {}\n",
        options.threads,
        options.seed,
        options.sync.describe()
    );
    let _ = match (options.subdirectories, options.files_per_subdirectory) {
        (0, _) => writeln!(text, "#  Directories: no subdirectories"),
        (many, 0) => writeln!(text, "#  Directories: {many} subdirectories, one for each iteration"),
        (many, files) => writeln!(text, "#  Directories: {many} subdirectories in turn, {files} files each"),
    };
    let Options { name_bytes, random_bytes, size_bytes, write_bytes, .. } = *options;
    let _ = writeln!(text, "#  File names: {name_bytes} bytes, the last {random_bytes} random");
    let _ = writeln!(text, "#  Files: {size_bytes} bytes, written {write_bytes} bytes at a time");
    let _ = writeln!(text, "#  App overhead: microseconds of all threads outside of the file system");
    let _ = writeln!(
        text,
        "\n{:>6} {:>12} {:>12} {:>12} {:>16}{}",
        "FSUse%",
        "Count",
        "Size",
        "Files/sec",
        "App Overhead",
        if is_verbose { verbose_heading() } else { String::new() }
    );
    text
}

fn verbose_heading() -> String {
    ["CREAT", "WRITE", "FSYNC", "SYNC", "CLOSE", "UNLINK"]
        .iter()
        .fold(String::new(), |text, name| text + &format!(" {:>26}", format!("{name} (Min/Avg/Max)")))
}

/// The line of an iteration.
pub fn line(iteration: &Iteration, is_verbose: bool) -> String {
    let mut text = format!(
        "{:>6} {:>12} {:>12} {:>12.1} {:>16}",
        iteration.space.used_percent(),
        iteration.count,
        iteration.size_bytes,
        iteration.files_per_second,
        iteration.overhead.as_micros()
    );
    if is_verbose {
        for (_, histogram) in iteration.latencies.each() {
            let times = [histogram.least(), histogram.average(), histogram.most()];
            for time in times.map(|time| time.as_micros()) {
                let _ = write!(text, " {time:>8}");
            }
        }
    }
    text
}

/// The lines behind those of iterations: the delete, and percentiles of all calls in microseconds.
pub fn summary(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(delete) = &outcome.delete {
        let _ = writeln!(
            text,
            "\ndeleted {} files and {} directories in {:.3} s: {:.1} files/sec",
            delete.files,
            delete.directories,
            delete.elapsed.as_secs_f64(),
            delete.files_per_second()
        );
    }
    let mut table = Table::new(&["microseconds", "count", "min", "avg", "p50", "p90", "p99", "p99.9", "max"]);
    for (name, histogram) in all(outcome).each().into_iter().filter(|(_, histogram)| histogram.count() > 0) {
        table.row(cells(name, &histogram.summary()));
    }
    let _ = write!(text, "\n{table}");
    if let Some(journal) = journal(outcome) {
        let _ = writeln!(
            text,
            "\njournal: {} bytes in {} checkpoints, {} items relogged, {:.3} s in force",
            journal.log_bytes,
            journal.checkpoints,
            journal.relogged_items,
            journal.force_nanoseconds as f64 / 1e9
        );
    }
    text
}

/// A line of a table with the columns name, count, min, avg, p50, p90, p99, p99.9, max.
pub(crate) fn cells(name: &str, summary: &Summary) -> Vec<String> {
    let times = [
        summary.least_nanoseconds,
        summary.average_nanoseconds,
        summary.p50_nanoseconds,
        summary.p90_nanoseconds,
        summary.p99_nanoseconds,
        summary.p999_nanoseconds,
        summary.most_nanoseconds,
    ];
    [name.to_owned(), summary.count.to_string()].into_iter().chain(times.map(microseconds)).collect()
}

/// Sums over all iterations and the delete.
fn all(outcome: &Outcome) -> Latencies {
    let mut all = Latencies::default();
    outcome.iterations.iter().for_each(|iteration| all.merge(&iteration.latencies));
    if let Some(delete) = &outcome.delete {
        all.unlink = delete.unlink.clone();
    }
    all
}

fn journal(outcome: &Outcome) -> Option<JournalFigures> {
    let iterations = outcome.iterations.iter().map(|iteration| iteration.journal);
    let all = iterations.chain(outcome.delete.iter().map(|delete| delete.journal));
    all.flatten().reduce(|sum, more| JournalFigures {
        log_bytes: sum.log_bytes + more.log_bytes,
        changed_bytes: sum.changed_bytes + more.changed_bytes,
        checkpoints: sum.checkpoints + more.checkpoints,
        force_nanoseconds: sum.force_nanoseconds + more.force_nanoseconds,
        relogged_items: sum.relogged_items + more.relogged_items,
    })
}

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Document {
    threads: usize,
    seed: u64,
    sync_method: &'static str,
    iterations: Vec<IterationDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<DeleteDocument>,
}

#[derive(Debug, Serialize)]
struct IterationDocument {
    used_percent: u64,
    count: u64,
    size_bytes: u64,
    files_per_second: f64,
    elapsed_seconds: f64,
    app_overhead_seconds: f64,
    latencies: LatencyDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalFigures>,
}

#[derive(Debug, Serialize)]
struct LatencyDocument {
    create: Summary,
    write: Summary,
    fsync: Summary,
    sync: Summary,
    close: Summary,
    unlink: Summary,
}

#[derive(Debug, Serialize)]
struct DeleteDocument {
    files: u64,
    directories: u64,
    elapsed_seconds: f64,
    files_per_second: f64,
    unlink: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalFigures>,
}

impl Document {
    /// Takes what a run gave.
    pub fn new(options: &Options, outcome: &Outcome) -> Self {
        Self {
            threads: options.threads,
            seed: options.seed,
            sync_method: options.sync.describe(),
            iterations: outcome.iterations.iter().map(IterationDocument::new).collect(),
            delete: outcome.delete.as_ref().map(DeleteDocument::new),
        }
    }
}

impl IterationDocument {
    fn new(iteration: &Iteration) -> Self {
        let Latencies { create, write, fsync, sync, close, unlink } = &iteration.latencies;
        let [create, write, fsync, sync, close, unlink] =
            [create, write, fsync, sync, close, unlink].map(Histogram::summary);
        Self {
            used_percent: iteration.space.used_percent(),
            count: iteration.count,
            size_bytes: iteration.size_bytes,
            files_per_second: iteration.files_per_second,
            elapsed_seconds: iteration.elapsed.as_secs_f64(),
            app_overhead_seconds: iteration.overhead.as_secs_f64(),
            latencies: LatencyDocument { create, write, fsync, sync, close, unlink },
            journal: iteration.journal,
        }
    }
}

impl DeleteDocument {
    fn new(delete: &Delete) -> Self {
        Self {
            files: delete.files,
            directories: delete.directories,
            elapsed_seconds: delete.elapsed.as_secs_f64(),
            files_per_second: delete.files_per_second(),
            unlink: delete.unlink.summary(),
            journal: delete.journal,
        }
    }
}

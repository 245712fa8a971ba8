//! Many files by many threads, with the options and columns of fs_mark 3.3, and a parallel delete afterwards.
//!
//! | module | holds |
//! |---|---|
//! | here | the options, and what a run gives |
//! | `names` | which file comes where, under which name |
//! | `run` | the threads |
//! | [`report`] | fs_mark's columns, and JSON |
//!
//! It differs from fs_mark in what must be so for equal runs: names and directories follow from the seed, not from the
//! clock; no call is made for a file without contents but those that make and close it; directories are held open
//! instead of being made again for each file. Iterations keep their files, and at the end threads delete them all.

mod names;
pub mod report;
mod run;

use std::time::Duration;

use crate::{
    BenchError, Result,
    backend::{JournalFigures, Space},
    histogram::Histogram,
};

pub use run::run;

/// When files are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMethod {
    /// 0: never.
    None,
    /// 1: each before it is closed.
    #[default]
    BeforeClose,
    /// 2: all together after an iteration, and then the first file once more.
    SystemThenFirst,
    /// 3: each after the iteration, the last one first.
    Reverse,
    /// 4: all together, then as 3.
    SystemThenReverse,
    /// 5: each after the iteration, in order.
    InOrder,
    /// 6: all together, then as 5.
    SystemThenInOrder,
    /// 7, which fs_mark does not have: each before it is closed, and its directory then.
    BeforeCloseWithDirectory,
}

impl SyncMethod {
    /// By the number that `-S` takes.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::BeforeClose,
            2 => Self::SystemThenFirst,
            3 => Self::Reverse,
            4 => Self::SystemThenReverse,
            5 => Self::InOrder,
            6 => Self::SystemThenInOrder,
            7 => Self::BeforeCloseWithDirectory,
            _ => return None,
        })
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BeforeClose => "fsync of each file before it is closed",
            Self::SystemThenFirst => "syncfs after the iteration, then fsync of one file",
            Self::Reverse => "fsync of each file after the iteration, backwards",
            Self::SystemThenReverse => "syncfs after the iteration, then fsync of each file, backwards",
            Self::InOrder => "fsync of each file after the iteration, in order",
            Self::SystemThenInOrder => "syncfs after the iteration, then fsync of each file, in order",
            Self::BeforeCloseWithDirectory => "fsync of each file and of its directory before it is closed",
        }
    }

    fn is_before_close(self) -> bool {
        matches!(self, Self::BeforeClose | Self::BeforeCloseWithDirectory)
    }

    fn syncs_system(self) -> bool {
        matches!(self, Self::SystemThenFirst | Self::SystemThenReverse | Self::SystemThenInOrder)
    }
}

/// Options of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads (`-t`): at least one for each directory, and as many for each.
    pub threads: usize,
    /// Files of each thread in each iteration (`-n`).
    pub files: u64,
    /// Iterations (`-L`); `None` goes on until the file system is full (`-F`).
    pub loops: Option<u64>,
    /// Bytes of each file (`-s`).
    pub size_bytes: u64,
    /// Bytes of each write (`-w`).
    pub write_bytes: usize,
    /// Subdirectories of each directory (`-D`), 0 for none.
    pub subdirectories: u64,
    /// Files in a subdirectory before the next one's turn (`-N`), 0 for all of an iteration.
    pub files_per_subdirectory: u64,
    /// When files are made durable (`-S`).
    pub sync: SyncMethod,
    /// Leave the files there (`-k`).
    pub keep: bool,
    /// Bytes of a name (`-p`).
    pub name_bytes: usize,
    /// Of these, random ones at its end (`-r`).
    pub random_bytes: usize,
    /// Of names.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            files: 1000,
            loops: Some(1),
            size_bytes: 50 << 10,
            write_bytes: 16 << 10,
            subdirectories: 0,
            files_per_subdirectory: 0,
            sync: SyncMethod::default(),
            keep: false,
            name_bytes: 40,
            random_bytes: 24,
            seed: 0,
        }
    }
}

/// Most bytes of one write.
pub const MAX_WRITE_BYTES: usize = 1 << 20;
/// Most bytes of a name.
pub const MAX_NAME_BYTES: usize = 255;

impl Options {
    /// # Errors
    /// Options that contradict each other.
    pub fn check(&self, roots: usize) -> Result<()> {
        let refuse = |message: String| Err(BenchError::Options(message));
        if self.threads == 0 || roots == 0 || !self.threads.is_multiple_of(roots) {
            return refuse(format!(
                "{} threads cannot be spread evenly over {roots} directories",
                self.threads
            ));
        }
        if self.files == 0 || self.loops == Some(0) {
            return refuse("without files there is nothing to measure".to_owned());
        }
        if self.write_bytes == 0 || self.write_bytes > MAX_WRITE_BYTES {
            return refuse(format!("a write has 1 to {MAX_WRITE_BYTES} bytes"));
        }
        if self.files_per_subdirectory > 0 && self.subdirectories == 0 {
            return refuse("files for each subdirectory (-N) need subdirectories (-D)".to_owned());
        }
        let sequential = self.name_bytes.saturating_sub(self.random_bytes);
        if self.name_bytes > MAX_NAME_BYTES || sequential < names::LEAST_SEQUENTIAL_BYTES {
            return refuse(format!(
                "names (-p) are at most {MAX_NAME_BYTES} bytes long, and all but {} may be random (-r)",
                names::LEAST_SEQUENTIAL_BYTES
            ));
        }
        Ok(())
    }
}

/// Times of each kind of call.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Making a file.
    pub create: Histogram,
    /// Each write.
    pub write: Histogram,
    /// Each fsync; after an iteration with opening and closing the file.
    pub fsync: Histogram,
    /// The sync of everything.
    pub sync: Histogram,
    /// Closing a file.
    pub close: Histogram,
    /// Taking its name away.
    pub unlink: Histogram,
}

impl Latencies {
    /// All kinds, with their names.
    pub fn each(&self) -> [(&'static str, &Histogram); 6] {
        [
            ("create", &self.create),
            ("write", &self.write),
            ("fsync", &self.fsync),
            ("sync", &self.sync),
            ("close", &self.close),
            ("unlink", &self.unlink),
        ]
    }

    fn merge(&mut self, other: &Self) {
        self.create.merge(&other.create);
        self.write.merge(&other.write);
        self.fsync.merge(&other.fsync);
        self.sync.merge(&other.sync);
        self.close.merge(&other.close);
        self.unlink.merge(&other.unlink);
    }

    /// Time inside the file system while files are made.
    fn making(&self) -> Duration {
        [&self.create, &self.write, &self.fsync, &self.sync, &self.close].iter().map(|one| one.total()).sum()
    }
}

/// One iteration.
#[derive(Debug, Clone)]
pub struct Iteration {
    /// Of the file system, after it.
    pub space: Space,
    /// Files so far.
    pub count: u64,
    /// Bytes of each.
    pub size_bytes: u64,
    /// The sum of the threads' own rates, as fs_mark has it.
    pub files_per_second: f64,
    /// Wall time.
    pub elapsed: Duration,
    /// Time of all threads outside of the file system.
    pub overhead: Duration,
    /// Times of calls.
    pub latencies: Latencies,
    /// Counters of the journal meanwhile.
    pub journal: Option<JournalFigures>,
}

/// The delete at the end.
#[derive(Debug, Clone)]
pub struct Delete {
    /// Files.
    pub files: u64,
    /// Subdirectories.
    pub directories: u64,
    /// Wall time of both.
    pub elapsed: Duration,
    /// Time of each unlink.
    pub unlink: Histogram,
    /// Counters of the journal meanwhile.
    pub journal: Option<JournalFigures>,
}

impl Delete {
    /// Files for each second of wall time.
    pub fn files_per_second(&self) -> f64 {
        self.files as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A whole run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// In order.
    pub iterations: Vec<Iteration>,
    /// Unless the files were kept.
    pub delete: Option<Delete>,
}

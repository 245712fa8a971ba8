//! Counts of a filling, while it runs and afterwards.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use uxfs_source::{entry::Kind, error::Problem};

use crate::data::DataCounters;

/// Most problems that are kept with their paths.
const MAX_PROBLEMS: usize = 10_000;

/// Counts that another thread may look at while files are made.
#[derive(Debug, Default)]
pub struct Progress {
    /// Names made so far, hard links too.
    pub entries: AtomicU64,
    /// Counters of the copying threads.
    pub data: Arc<DataCounters>,
}

impl Progress {
    /// Names made so far.
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Bytes of contents written so far.
    pub fn bytes(&self) -> u64 {
        self.data.bytes.load(Relaxed)
    }
}

/// Counts of a filled file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Directories, without the root.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, fifos and sockets.
    pub special_files: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Extended attributes, ACLs among them.
    pub attributes: u64,
    /// Sum of the sizes of regular files.
    pub size_bytes: u64,
    /// Contents written.
    pub written_bytes: u64,
    /// Of these, shared with the source.
    pub shared_bytes: u64,
    /// Bytes that files lost while they were read: zeros in the image.
    pub missing_bytes: u64,
    /// Objects that were left out or passed over.
    pub problems: Vec<Problem>,
    /// How many of these there were; only the first are kept.
    pub problem_count: u64,
    /// Files that could not be read, or of which a part could not.
    pub unreadable_count: u64,
}

impl Report {
    /// All names made.
    pub fn entries(&self) -> u64 {
        self.directories + self.files + self.symlinks + self.special_files + self.hard_links
    }

    pub(crate) fn count(&mut self, kind: &Kind) {
        match kind {
            Kind::Directory(_) => self.directories += 1,
            Kind::Regular { size_bytes, .. } => {
                self.files += 1;
                self.size_bytes += size_bytes;
            }
            Kind::Symlink { .. } => self.symlinks += 1,
            Kind::CharacterDevice(_) | Kind::BlockDevice(_) | Kind::Fifo | Kind::Socket => {
                self.special_files += 1;
            }
            Kind::HardLink { .. } => self.hard_links += 1,
        }
    }

    pub(crate) fn add_problems(&mut self, problems: Vec<Problem>) {
        self.problem_count += problems.len() as u64;
        self.unreadable_count +=
            problems.iter().filter(|problem| problem.reason.is_unreadable()).count() as u64;
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(problems.into_iter().take(room));
    }

    pub(crate) fn add_data(&mut self, data: &DataCounters) {
        self.written_bytes = data.bytes.load(Relaxed);
        self.shared_bytes = data.shared_bytes.load(Relaxed);
        self.missing_bytes = data.missing_bytes.load(Relaxed);
        self.add_problems(data.shrunk());
    }
}

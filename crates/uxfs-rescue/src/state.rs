//! Whole, perhaps older, inferred, partial, lost; and a line of the manifest.

use uxfs_block::words::without_error_numbers;
use uxfs_extract::layout::FileRange;
use uxfs_volume::inode::FileType;

/// How much of a file was had. In order: of two reasons the worse one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Contents and metadata are complete, and every structure that says so is sound or has a second witness.
    Whole,
    /// As whole, but the log may have a newer change of it that was not put in place, because it cannot be read.
    PerhapsOlder,
    /// Contents are complete as far as anything tells, but something was guessed: name, size, owner, times.
    Inferred,
    /// Something is known to be missing: bytes of the contents, attributes, entries of a directory.
    Partial,
    /// Nothing but the name or the number is left.
    Lost,
}

impl State {
    /// As the manifest has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::PerhapsOlder => "perhaps_older",
            Self::Inferred => "inferred",
            Self::Partial => "partial",
            Self::Lost => "lost",
        }
    }
}

/// Reasons that are kept of one file.
const MOST_REASONS: usize = 8;
/// Bytes of a reason: names in it come from the image.
const MOST_REASON_BYTES: usize = 1000;

/// A state and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The worst of all.
    pub state: State,
    /// Sentences.
    pub reasons: Vec<String>,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { state: State::Whole, reasons: Vec::new() }
    }
}

impl Verdict {
    /// Of one reason.
    pub fn new(state: State, reason: impl Into<String>) -> Self {
        let mut verdict = Self::default();
        verdict.add(state, reason);
        verdict
    }

    /// Adds a reason; the state becomes at least as bad.
    pub fn add(&mut self, state: State, reason: impl Into<String>) {
        self.state = self.state.max(state);
        let mut reason: String = without_error_numbers(&reason.into()).into_owned();
        if reason.len() > MOST_REASON_BYTES {
            reason = reason.chars().take(MOST_REASON_BYTES / 4).chain("…".chars()).collect();
        }
        if self.reasons.len() < MOST_REASONS && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.state = self.state.max(other.state);
        other.reasons.iter().for_each(|reason| self.add(State::Whole, reason.as_str()));
    }
}

/// A line of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Path in the image, without a slash in front; empty for the root directory. Of an inode that nothing names, its path in the
    /// target.
    pub path: Vec<u8>,
    /// Path in the target; `None` where nothing is there.
    pub output: Option<Vec<u8>>,
    /// Inode number; `None` where only a name is known.
    pub inode: Option<u64>,
    /// What it is, where that is known.
    pub file_type: Option<FileType>,
    /// How much of it there is, and why.
    pub verdict: Verdict,
    /// Size of a regular file.
    pub size_bytes: Option<u64>,
    /// Bytes of the contents that are missing, and read as zeros: ranges in order.
    pub missing: Vec<FileRange>,
    /// Bytes in all missing ranges, also where there are too many to be listed.
    pub missing_bytes: u64,
    /// Bytes of written extents that lie in holes of the image file, and read as zeros.
    pub hole_bytes: u64,
    /// Path in the target of the file's first name, where this is a further one.
    pub hard_link_to: Option<Vec<u8>>,
    /// An earlier run had written it.
    pub is_kept: bool,
    /// SHA-256 of the contents as they are in the target, with zeros for what is missing.
    pub sha256: Option<[u8; 32]>,
}

impl Record {
    /// Of a path, with nothing known but the verdict.
    pub fn new(path: &[u8], inode: Option<u64>, verdict: Verdict) -> Self {
        Self {
            path: path.to_vec(),
            output: None,
            inode,
            file_type: None,
            verdict,
            size_bytes: None,
            missing: Vec::new(),
            missing_bytes: 0,
            hole_bytes: 0,
            hard_link_to: None,
            is_kept: false,
            sha256: None,
        }
    }
}

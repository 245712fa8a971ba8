//! The check of a whole image.

use std::{fmt, ops::ControlFlow, path::Path};

use uxfs_block::claim::Lock;
use uxfs_repair::{
    CheckOptions,
    finding::{Finding as InternalFinding, severity::Severity as InternalSeverity},
    opening::{self, OpeningOptions},
};

use crate::{
    Result,
    error::About,
    opening::{Needs, Opening, opening_methods},
};

/// Findings that are kept.
const MOST_FINDINGS: usize = 100_000;

/// How bad a finding is, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Left over from work that was cut off: only space is wasted.
    Leftover,
    /// A fact that follows from others is recorded wrongly; nothing is lost yet.
    Inconsistent,
    /// Something cannot be read, or two witnesses of names or contents contradict each other.
    Damaged,
}

/// A contradiction in an image. [`Display`](fmt::Display) gives a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Its kind, for good: `uxfs help findings` lists them.
    pub number: u16,
    /// How bad it is.
    pub severity: Severity,
    /// The inode that it is about.
    pub inode: Option<u64>,
    /// For people.
    pub message: String,
}

/// Everything that a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The findings: the first 100,000.
    pub findings: Vec<Finding>,
    /// How many there were.
    pub finding_count: u64,
    /// Inodes in use that could be read.
    pub inodes: u64,
    /// A dirty log was recovered in memory.
    pub is_log_recovered: bool,
}

impl Checked {
    /// Whether nothing was found.
    pub fn is_sound(&self) -> bool {
        self.finding_count == 0
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.number, self.message)
    }
}

impl Finding {
    pub(crate) fn of(finding: &InternalFinding, geometry: &uxfs_format::geometry::Geometry) -> Self {
        Self {
            number: finding.number(),
            severity: match finding.severity() {
                InternalSeverity::Leftover => Severity::Leftover,
                InternalSeverity::Inconsistent => Severity::Inconsistent,
                InternalSeverity::Damaged => Severity::Damaged,
            },
            inode: finding.object(geometry).inode.map(|inode| inode.get()),
            message: finding.to_string(),
        }
    }
}

/// How an image is checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Checker {
    opening: Opening,
}

impl Checker {
    opening_methods!();

    /// Compares every structure of the image at `path` with every other. Nothing is written; a dirty log is recovered in memory.
    ///
    /// # Errors
    /// No superblock describes a file system, or one with unknown features; the image is mounted, or another program changes it; the
    /// device. Damage is no error: it is what is looked for.
    pub fn check(&self, path: impl AsRef<Path>) -> Result<Checked> {
        let path = path.as_ref();
        self.try_check(path).about(path.display())
    }

    fn try_check(&self, path: &Path) -> Result<Checked> {
        let device = self.opening.device_to_read(path, Lock::Unused, Needs::Everything)?;
        let options =
            OpeningOptions { cache_budget_bytes: self.opening.cache_bytes, ..OpeningOptions::default() };
        let opened = opening::open(&device, &options)?;
        let geometry = opened.volume.geometry();
        let mut checked = Checked { is_log_recovered: opened.recovery.is_some(), ..Checked::default() };
        let mut take = |finding: InternalFinding| {
            checked.finding_count += 1;
            if checked.findings.len() < MOST_FINDINGS {
                checked.findings.push(Finding::of(&finding, geometry));
            }
            ControlFlow::Continue(())
        };
        for finding in opened.findings {
            let _ = take(finding);
        }
        let summary = uxfs_repair::check(&opened.volume, &CheckOptions::default(), &mut take);
        checked.inodes = summary.inodes;
        Ok(checked)
    }
}

/// Compares every structure of the image at `path` with every other. Nothing is written.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("disk.img");
/// # uxfs::Maker::new().size(300 << 20).make(&path)?;
/// let checked = uxfs::check(&path)?;
/// for finding in &checked.findings {
///     println!("{finding}");
/// }
/// assert!(checked.is_sound());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Checker::check`].
pub fn check(path: impl AsRef<Path>) -> Result<Checked> {
    Checker::default().check(path)
}

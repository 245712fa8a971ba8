//! A file system that is made and filled in one go.
//!
//! The image says that it is unfinished from the first write to the last: whatever goes wrong in between leaves nothing
//! that looks complete.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{Clock, Generations, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_mkfs::{
    empty::{self, FormatError, Written},
    identity::{Identity, Numbers},
    layout::Layout,
};
use uxfs_populate::{
    Options,
    adjust::Adjustments,
    error::PopulateError,
    report::{Progress, Report},
};

use super::source::{Contents, Survey};
use crate::{failure::Failure, output::message, progress};

/// How a new image is mounted while it is filled.
pub fn mount_options(identity: &Identity, cache_bytes: Option<u64>) -> MountOptions {
    MountOptions {
        cache_budget_bytes: cache_bytes,
        generations: match identity.numbers {
            Numbers::Fixed(number) => Generations::Fixed(number),
            Numbers::Random => Generations::Random,
        },
        clock: Clock::Fixed(identity.now),
        is_unfinished: true,
        ..MountOptions::default()
    }
}

/// Why a file system could not be made and filled.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The empty one could not be made.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It could not be mounted or closed.
    #[error(transparent)]
    Image(#[from] uxfs_volume::error::Error),
    /// It could not be filled.
    #[error(transparent)]
    Populate(#[from] PopulateError),
}

impl From<MakeError> for Failure {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Format(error) => error.into(),
            MakeError::Image(error) => error.into(),
            MakeError::Populate(error) => error.into(),
        }
    }
}

/// How a file system is made and filled.
pub struct Making<'a> {
    /// Its sizes.
    pub layout: &'a Layout,
    /// Uuid, time and numbers.
    pub identity: &'a Identity,
    /// Changes of the source's metadata.
    pub adjustments: &'a mut Adjustments,
    /// How it is filled.
    pub options: Options,
    /// Memory for metadata.
    pub cache_bytes: Option<u64>,
    /// Counts the source, for the progress display.
    pub survey: Option<Survey>,
}

/// Makes the file system on `device` and fills it.
pub fn make(
    device: &Arc<dyn BlockDevice>,
    contents: &mut Contents,
    making: Making<'_>,
) -> Result<(Written, Report), MakeError> {
    let Making { layout, identity, adjustments, options, cache_bytes, survey } = making;
    // Closing the file system is what finishes it.
    let _unfinished = empty::begin(&**device, layout, identity)?;
    let file_system = FileSystem::mount_bulk(Arc::clone(device), &mount_options(identity, cache_bytes))?;
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(Arc::clone(&progress), survey);
    let filled = contents.fill(&file_system, adjustments, &options, &progress);
    drop(shown);
    let report = filled?;
    file_system.close()?;
    let written = Written { bytes: report.written_bytes, requests: 0 };
    Ok((written, report))
}

/// Reports files of the source that are missing in the image.
pub fn tell_problems(report: &Report, source: &Path) {
    for problem in &report.problems {
        message!("uxfs: {}: {problem}", source.display());
    }
    let more = report.problem_count.saturating_sub(report.problems.len() as u64);
    if more > 0 {
        message!("uxfs: {}: and {more} more", source.display());
    }
    if report.missing_bytes > 0 {
        message!(
            "uxfs: {}: files shrank while they were read: {} bytes are zeros",
            source.display(),
            report.missing_bytes
        );
    }
}

/// The report as a document.
pub fn document(report: &Report) -> Value {
    json!({
        "directories": report.directories,
        "files": report.files,
        "symlinks": report.symlinks,
        "special_files": report.special_files,
        "hard_links": report.hard_links,
        "attributes": report.attributes,
        "size_bytes": report.size_bytes,
        "written_bytes": report.written_bytes,
        "shared_bytes": report.shared_bytes,
        "missing_bytes": report.missing_bytes,
        "problems": report.problem_count,
    })
}

/// A thread that shows how far the filling is, on a terminal.
struct Shown {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Shown {
    fn start(counts: Arc<Progress>, survey: Option<Survey>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let bar = progress::Filling::start();
        let show = move || {
            while !over.load(Relaxed) {
                if let Some(bytes) = survey.as_ref().and_then(Survey::bytes) {
                    bar.set_total(bytes);
                }
                bar.show(counts.entries(), counts.bytes());
                thread::park_timeout(Duration::from_millis(200));
            }
        };
        let thread = if progress::is_shown() { thread::Builder::new().spawn(show).ok() } else { None };
        Self { is_over, thread }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only shows numbers.
            drop(thread.join());
        }
    }
}

//! A file system that is made and filled in one go: progress, and the report.

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
use uxfs_mkfs::empty::Written;
use uxfs_populate::{
    contents::Contents,
    make::{self, MakeError, Making},
    report::{Progress, Report},
};

use uxfs_source::error::SourceError;

use super::source::Survey;
use crate::{
    failure::{Exit, Failure},
    output::notice,
    progress,
};

impl From<MakeError> for Failure {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::Layout(error) => error.into(),
            MakeError::Format(error) => error.into(),
            MakeError::Image(error) => error.into(),
            MakeError::Populate(error) => error.into(),
            MakeError::Source(error @ SourceError::CannotRestart { .. }) => {
                Self::from(error).with_remedy("give the size of the image with --size, or name a file")
            }
            MakeError::Source(error) => error.into(),
            error => Self::failed(error.to_string()),
        }
    }
}

/// Makes the file system on `device` and fills it; on a terminal it shows how far that is.
pub fn make(
    device: &Arc<dyn BlockDevice>,
    contents: &mut Contents,
    making: Making<'_>,
    survey: Option<Survey>,
) -> Result<(Written, Report), MakeError> {
    let progress = Arc::new(Progress::default());
    let shown = Shown::start(Arc::clone(&progress), survey);
    let filled = make::make(device, contents, making, &progress);
    drop(shown);
    let report = filled?;
    let written = Written { bytes: report.written_bytes, requests: 0 };
    Ok((written, report))
}

/// Reports files of the source that are missing in the image.
pub fn tell_problems(report: &Report, source: &Path) {
    for problem in &report.problems {
        notice!("{}: {problem}", source.display());
    }
    let more = report.problem_count.saturating_sub(report.problems.len() as u64);
    if more > 0 {
        notice!("{}: and {more} more", source.display());
    }
}

/// The exit code: of files that became shorter while they were read, or could not be read, the image has not what the source
/// had.
pub fn exit(report: Option<&Report>) -> Exit {
    let lacks = |report: &Report| report.missing_bytes > 0 || report.unreadable_count > 0;
    if report.is_some_and(lacks) { Exit::Failed } else { Exit::Success }
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
        "unreadable": report.unreadable_count,
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

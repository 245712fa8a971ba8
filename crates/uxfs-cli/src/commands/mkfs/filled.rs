//! A file system that is made and filled in one go: progress, and the report.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use uxfs_block::device::BlockDevice;
use uxfs_mkfs::empty::Written;
use uxfs_populate::{
    contents::Contents,
    make::{self, MakeError, Making},
    report::{Progress as Counts, Report},
};

use uxfs_source::error::{Reason, SourceError};

use super::source::Survey;
use crate::{
    commands::df::mount_in_memory,
    failure::{Exit, Failure},
    kind::Note,
    output::notice,
    progress::{
        Bar, Measure, Progress,
        closing::{Closing, free_space},
    },
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
            error => Self::caused_by(&error),
        }
    }
}

/// Makes the file system on `device` and fills it; on a terminal it shows how far that is.
pub fn make(
    device: &Arc<dyn BlockDevice>,
    contents: &mut Contents,
    making: Making<'_>,
    survey: Option<Survey>,
    is_quiet: bool,
) -> Result<(Written, Report), MakeError> {
    let counts = Arc::new(Counts::default());
    let shown = Arc::clone(&counts);
    let progress = Progress::polled("filling", BYTES, is_quiet, move |bar: &Bar| {
        if let Some(bytes) = survey.as_ref().and_then(Survey::bytes) {
            bar.set_total(Measure::Bytes("files", Some(bytes)));
        }
        bar.set(shown.bytes(), shown.entries());
    });
    let filled = make::make(device, contents, making, &counts);
    drop(progress);
    let report = filled?;
    let written = Written { bytes: report.written_bytes, requests: 0 };
    Ok((written, report))
}

const BYTES: Measure = Measure::Bytes("files", None);

/// Shows how many files have been measured, on a terminal, until the second value is dropped.
pub fn measuring(is_quiet: bool) -> (Arc<Counts>, Progress) {
    let counts = Arc::new(Counts::default());
    let shown = Arc::clone(&counts);
    let measure = Measure::Things("files", None);
    let progress =
        Progress::polled("measuring", measure, is_quiet, move |bar: &Bar| bar.set(shown.entries(), 0));
    (counts, progress)
}

/// What the filled file system holds, for the closing sentence.
pub fn close(mut closing: Closing, report: &Report, device: &Arc<dyn BlockDevice>) -> Closing {
    closing.things.0 = report.files + report.symlinks + report.special_files;
    closing.directories = report.directories;
    closing.bytes = report.size_bytes;
    closing.free = mount_in_memory(Arc::clone(device)).ok().map(|mounted| free_space(mounted.statistics()));
    closing
}

/// Reports what of the source is missing in the image.
pub fn tell_problems(report: &Report, source: &Path) {
    for problem in &report.problems {
        match problem.reason {
            // These name the archive themselves.
            Reason::BehindArchive { .. } => {
                notice!(Note::Source, "{problem} (--ignore-zeros reads on)");
            }
            Reason::BehindPacked { .. } => notice!(Note::Source, "{problem}"),
            _ => notice!(Note::Source, "{}: {problem}", source.display()),
        }
    }
    let more = report.problem_count.saturating_sub(report.problems.len() as u64);
    if more > 0 {
        notice!(Note::Source, "{}: and {more} more", source.display());
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

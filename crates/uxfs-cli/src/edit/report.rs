//! Reports of a command about single files.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use serde_json::json;
use uxfs_volume::error::Error;

use crate::{
    failure::{Complaints, Exit, Failure},
    output::{JsonName, Output},
};

/// Prints each change, and remembers failures.
#[derive(Debug)]
pub struct Report {
    /// A line for each file.
    pub is_verbose: bool,
    json: bool,
    output: Output,
    complaints: Complaints,
    /// Changes so far.
    done: Arc<AtomicU64>,
    /// Standard output is closed; the work goes on.
    broken: Option<io::Error>,
}

impl Report {
    /// Whether changes are printed: always with JSON, else with `-v`.
    pub fn new(json: bool) -> Self {
        Self {
            is_verbose: false,
            json,
            output: Output::new(),
            complaints: Complaints::default(),
            done: Arc::default(),
            broken: None,
        }
    }

    /// The number of changes so far, for another thread that shows it.
    pub fn done_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// Reports a change of the file at `path`.
    pub fn done(&mut self, action: &'static str, path: &[u8]) {
        self.done_with(action, path, None);
    }

    /// As [`done`](Self::done), with the other path of the change.
    pub fn done_with(&mut self, action: &'static str, path: &[u8], other: Option<(&'static str, &[u8])>) {
        self.done.fetch_add(1, Relaxed);
        if !self.json && !self.is_verbose {
            return;
        }
        let written = if self.json { self.json(action, path, other) } else { self.text(action, path, other) };
        if let Err(error) = written
            && self.broken.is_none()
        {
            self.broken = Some(error);
        }
    }

    fn text(
        &mut self,
        action: &'static str,
        path: &[u8],
        other: Option<(&'static str, &[u8])>,
    ) -> io::Result<()> {
        write!(self.output, "{action} ")?;
        self.output.name(path)?;
        if let Some((word, other)) = other {
            write!(self.output, " {word} ")?;
            self.output.name(other)?;
        }
        self.output.write_all(b"\n")
    }

    fn json(
        &mut self,
        action: &'static str,
        path: &[u8],
        other: Option<(&'static str, &[u8])>,
    ) -> io::Result<()> {
        let mut document = json!({"action": action});
        let mut add = |key: &str, path: &[u8]| {
            let name = JsonName::new(path);
            document[key] = name.text().into();
            if let Some(hex) = name.hex() {
                document[format!("{key}_hex")] = hex.into();
            }
        };
        add("path", path);
        if let Some((_, other)) = other {
            add("other_path", other);
        }
        self.output.json(&document)
    }

    /// Reports a problem with one file; the command continues.
    pub fn complain(&mut self, failure: &Failure) {
        self.complaints.tell(failure);
    }

    /// As [`complain`](Self::complain), for an error about a path.
    pub fn complain_of(&mut self, path: &[u8], error: &Error) {
        self.complaints.add_path(path, error);
    }

    /// As [`complain`](Self::complain), for an error.
    pub fn check<T>(&mut self, result: Result<T, Failure>) -> Option<T> {
        result.inspect_err(|failure| self.complain(failure)).ok()
    }

    /// Ends the output of one command and returns the exit code. Output that could not be written counts as a
    /// failure.
    pub fn finish(&mut self) -> Exit {
        self.is_verbose = false;
        let mut complaints = std::mem::take(&mut self.complaints);
        let flushed = self.output.flush();
        complaints.exit_after(self.broken.take().map_or(flushed, Err), self.json)
    }
}

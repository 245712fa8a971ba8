//! What a rescue needs of a directory or an archive, beside what an extraction does.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use uxfs_extract::{
    directory::DirectorySink,
    entry::Timestamp,
    report::{Aspect, Counts, Observer, Problem, Severity},
    sink::Sink,
    tar::stream::TarSink,
};

/// A sink whose files can be given another name once they are complete, if it is no archive.
pub trait Target: Sink {
    /// Names are final, and directories need not be entered to write into them.
    const IS_ARCHIVE: bool;

    /// Whether the file begun last takes data.
    fn takes_data(&self) -> bool;

    /// Whether everything is passed over, because a directory could not be made.
    fn is_skipping(&self) -> bool;

    /// Whether the current directory has a file of this name, size and modification time.
    fn has_same_file(&self, name: &[u8], size_bytes: u64, modified: Timestamp) -> bool;

    /// Whether something has this name in the current directory. An archive may have it twice.
    fn has(&self, _name: &[u8]) -> bool {
        false
    }

    /// Gives a file in the current directory another name, which must be free.
    ///
    /// # Errors
    /// It is not.
    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()>;

    /// Removes a file of an earlier run from the current directory.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&self, name: &[u8]) -> io::Result<()>;
}

impl Target for DirectorySink {
    const IS_ARCHIVE: bool = false;

    fn takes_data(&self) -> bool {
        self.has_open_file()
    }

    fn is_skipping(&self) -> bool {
        Self::is_skipping(self)
    }

    fn has_same_file(&self, name: &[u8], size_bytes: u64, modified: Timestamp) -> bool {
        Self::has_same_file(self, name, size_bytes, modified)
    }

    fn has(&self, name: &[u8]) -> bool {
        Self::has(self, name)
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        Self::rename(self, from, to)
    }

    fn remove(&self, name: &[u8]) -> io::Result<()> {
        Self::remove(self, name)
    }
}

impl<W: Write> Target for TarSink<W> {
    const IS_ARCHIVE: bool = true;

    fn takes_data(&self) -> bool {
        true
    }

    fn is_skipping(&self) -> bool {
        false
    }

    fn has_same_file(&self, _: &[u8], _: u64, _: Timestamp) -> bool {
        false
    }

    fn rename(&self, _: &[u8], _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// How often metadata of a kind was not restored, with the first such problem.
pub type NotRestored = BTreeMap<Aspect, (u64, Problem)>;

/// Problems of the sink with the file at hand.
#[derive(Debug, Default)]
pub struct Problems {
    /// Since they were taken last.
    pub list: Vec<Problem>,
    /// Of all that were taken for good.
    pub not_restored: NotRestored,
}

impl Problems {
    /// Takes them: whether the file is not there, and all of them as sentences.
    pub fn take(&mut self) -> (bool, Vec<String>) {
        for problem in self.list.iter().filter(|problem| problem.severity == Severity::NotRestored) {
            self.not_restored.entry(problem.aspect).or_insert_with(|| (0, problem.clone())).0 += 1;
        }
        self.take_uncounted()
    }

    /// As [`take`](Self::take), of what is tried again later.
    pub fn take_uncounted(&mut self) -> (bool, Vec<String>) {
        let list = std::mem::take(&mut self.list);
        let is_missing = list.iter().any(|problem| {
            matches!(problem.severity, Severity::Failed | Severity::LeftOut | Severity::Unsupported)
        });
        (is_missing, list.iter().map(|problem| format!("{}: {}", problem.aspect, problem.reason)).collect())
    }
}

impl Observer for Problems {
    fn progress(&mut self, _: &Counts) {}

    fn problem(&mut self, problem: Problem) {
        self.list.push(problem);
    }
}

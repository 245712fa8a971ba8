//! Trees out of an image.

use std::{fmt, io::Write, path::Path};

use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Counts, Observer, Problem, Severity},
    sink::Sink,
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};

use crate::{Entry, Image, Result};

/// Problems that are kept.
const MOST_PROBLEMS: usize = 10_000;

/// Counts of copied files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extracted {
    /// Directories.
    pub directories: u64,
    /// Regular files, each counted once however many names it has.
    pub files: u64,
    /// Symbolic links.
    pub symbolic_links: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Devices, fifos and sockets.
    pub special_files: u64,
    /// Bytes of file data read, holes not counted.
    pub data_bytes: u64,
    /// Problems: the first 10,000.
    pub problems: Vec<ExtractProblem>,
    /// How many problems there were.
    pub problem_count: u64,
}

/// A file that was not copied out as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtractProblem {
    /// Below the place that it was copied to.
    pub path: Vec<u8>,
    /// Whether contents are missing; otherwise an owner, a time, an attribute or a device could not be restored, mostly for want
    /// of root.
    pub is_loss: bool,
    /// Why, for people.
    pub reason: String,
}

impl Image {
    /// Copies the file, or the contents of the directory, at `path` into a directory of the host, which is made where it is
    /// missing: with owners, times, attributes, access control lists, holes and hard links. Files that are there stay. Nothing
    /// is written outside of `to`, whatever the image says.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// # let editor = uxfs::Editor::open(&path)?;
    /// # editor.make_directory("/etc", 0o755)?;
    /// # editor.write("/etc/motd", b"welcome")?;
    /// # editor.close()?;
    /// # let to = folder.path().join("out");
    /// let extracted = uxfs::Image::open(&path)?.extract("/etc", &to)?;
    /// assert_eq!(extracted.files, 1);
    /// assert_eq!(std::fs::read(to.join("motd"))?, b"welcome");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Nothing is at `path`; nothing can be written to `to`. What concerns single files is in the result.
    pub fn extract(&self, path: impl AsRef<[u8]>, to: impl AsRef<Path>) -> Result<Extracted> {
        let entry = self.find(path)?;
        self.extract_to(&entry, DirectorySink::create(to.as_ref(), DirectoryOptions::default())?)
    }

    /// Writes the file, or the contents of the directory, at `path` as a pax archive.
    ///
    /// # Errors
    /// As [`extract`](Self::extract).
    pub fn extract_tar(&self, path: impl AsRef<[u8]>, archive: impl Write) -> Result<Extracted> {
        let entry = self.find(path)?;
        self.extract_to(&entry, TarSink::new(archive))
    }

    fn extract_to(&self, entry: &Entry, mut sink: impl Sink) -> Result<Extracted> {
        let name = (!entry.metadata().is_directory()).then(|| entry.name().to_vec());
        let start = Start { inode: entry.inode().number, name };
        let mut tally = Tally::default();
        extract(self.volume(), &start, &ExtractOptions::default(), &mut sink, &mut tally)?;
        let Tally { counts, mut extracted } = tally;
        extracted.directories = counts.directories;
        extracted.files = counts.files;
        extracted.symbolic_links = counts.symlinks;
        extracted.hard_links = counts.hard_links;
        extracted.special_files = counts.specials;
        extracted.data_bytes = counts.data_bytes;
        Ok(extracted)
    }
}

#[derive(Default)]
struct Tally {
    counts: Counts,
    extracted: Extracted,
}

impl Observer for Tally {
    fn progress(&mut self, part: &Counts) {
        self.counts.add(part);
    }

    fn problem(&mut self, problem: Problem) {
        self.extracted.problem_count = self.extracted.problem_count.saturating_add(1);
        if self.extracted.problems.len() < MOST_PROBLEMS {
            self.extracted.problems.push(ExtractProblem {
                is_loss: !matches!(problem.severity, Severity::NotRestored),
                reason: format!("{}: {}", problem.aspect, problem.reason),
                path: problem.path,
            });
        }
    }
}

impl fmt::Display for ExtractProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.escape_ascii(), self.reason)
    }
}

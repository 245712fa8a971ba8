//! Whether the files behind a claim were written to since some moment.

use std::{fs::File, os::unix::fs::MetadataExt};

use crate::claim::Claimed;

/// Sizes and times of the files behind a claim. Any write to one of them, by any program, also through a loop device, changes these. Block devices
/// have none that tell something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<Option<FileStamp>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size_bytes: u64,
    modified: (i64, i64),
    /// No program can set it back; it also changes with the name and the permissions.
    changed: (i64, i64),
}

impl FileStamp {
    fn of(file: &File) -> Option<Self> {
        let status = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self {
            size_bytes: status.size(),
            modified: (status.mtime(), status.mtime_nsec()),
            changed: (status.ctime(), status.ctime_nsec()),
        })
    }

    fn contents(self) -> (u64, (i64, i64)) {
        (self.size_bytes, self.modified)
    }
}

impl Stamp {
    /// As the files are now.
    pub fn of(claimed: &Claimed) -> Self {
        Self(claimed.files().map(FileStamp::of).collect())
    }

    /// Whether contents were written between the two. Where only a name or permissions changed they were not; but a program may have set
    /// the time of the contents back.
    pub fn has_same_contents(&self, other: &Self) -> bool {
        let contents =
            |stamp: &Self| -> Vec<_> { stamp.0.iter().map(|file| file.map(FileStamp::contents)).collect() };
        contents(self) == contents(other)
    }
}

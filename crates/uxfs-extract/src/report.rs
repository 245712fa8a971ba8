//! Counts and problems of an extraction.

use std::fmt;

use uxfs_block::words::in_words;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The contents are complete; something about the file could not be restored, mostly for want of root.
    NotRestored,
    /// Left out because the target cannot hold such a thing (a socket in an archive).
    LeftOut,
    /// The image uses a feature that uxfs does not have: contents are missing.
    Unsupported,
    /// Reading or writing failed: contents are missing.
    Failed,
    /// The image is damaged here: contents are missing or replaced by zeros.
    Damaged,
}

/// The part of a file that a problem concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Aspect {
    /// The file itself, or its place in the tree.
    Existence,
    /// The contents of the file.
    Contents,
    /// The entries of the directory.
    Directory,
    /// Owner or group.
    Owner,
    /// Permissions.
    Mode,
    /// The set-user-ID or set-group-ID bit, which must not be given to another owner.
    SetId,
    /// Times.
    Times,
    /// An extended attribute.
    Attribute,
    /// An access control list.
    Acl,
    /// A device node.
    Device,
    /// A hard link.
    HardLink,
    /// Inode flags (immutable, append-only and so on) or a project.
    InodeFlags,
    /// A socket.
    Socket,
}

impl Aspect {
    /// A name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Existence => "existence",
            Self::Contents => "contents",
            Self::Directory => "directory",
            Self::Owner => "owner",
            Self::Mode => "mode",
            Self::SetId => "set_id",
            Self::Times => "times",
            Self::Attribute => "attribute",
            Self::Acl => "acl",
            Self::Device => "device",
            Self::HardLink => "hard_link",
            Self::InodeFlags => "inode_flags",
            Self::Socket => "socket",
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Existence => "file",
            Self::Contents => "contents",
            Self::Directory => "directory",
            Self::Owner => "owner",
            Self::Mode => "permissions",
            Self::SetId => "set-ID bit",
            Self::Times => "times",
            Self::Attribute => "extended attribute",
            Self::Acl => "access control list",
            Self::Device => "device node",
            Self::HardLink => "hard link",
            Self::InodeFlags => "inode flags",
            Self::Socket => "socket",
        })
    }
}

/// One thing that did not go as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the place of extraction.
    pub path: Vec<u8>,
    /// How bad.
    pub severity: Severity,
    /// The part of the file.
    pub aspect: Aspect,
    /// Why, for people.
    pub reason: String,
}

impl Problem {
    /// Puts the parts together.
    pub fn new(path: &[u8], severity: Severity, aspect: Aspect, reason: impl fmt::Display) -> Self {
        Self { path: path.to_vec(), severity, aspect, reason: in_words(&reason) }
    }
}

/// Counts of what was extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Directories.
    pub directories: u64,
    /// Regular files, each counted once however many names it has.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Devices, fifos and sockets.
    pub specials: u64,
    /// Bytes of file data read, holes not counted.
    pub data_bytes: u64,
}

impl Counts {
    /// Entries of all kinds.
    pub fn entries(&self) -> u64 {
        self.directories + self.files + self.symlinks + self.hard_links + self.specials
    }

    /// Adds the counts of a part.
    pub fn add(&mut self, part: &Self) {
        self.directories += part.directories;
        self.files += part.files;
        self.symlinks += part.symlinks;
        self.hard_links += part.hard_links;
        self.specials += part.specials;
        self.data_bytes += part.data_bytes;
    }
}

/// Hears of progress and of problems while the work goes on. Called from one thread.
pub trait Observer {
    /// That much has been handed to the sink since the last call.
    fn progress(&mut self, part: &Counts);

    /// Something did not go as it should; the work goes on.
    fn problem(&mut self, problem: Problem);
}

/// Remembers everything: for tests and small images.
#[derive(Debug, Default)]
pub struct Collector {
    /// All counts.
    pub counts: Counts,
    /// All problems.
    pub problems: Vec<Problem>,
}

impl Observer for Collector {
    fn progress(&mut self, part: &Counts) {
        self.counts.add(part);
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

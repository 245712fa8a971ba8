//! Errors and problems.
//!
//! | module | holds |
//! |---|---|
//! | [`compiled`] | what is wrong with a compiled file of labels |
//! | [`container`] | what is wrong with an image of a container |
//! | here | all others |

pub mod compiled;
pub mod container;

use std::{fmt, io, path::PathBuf};

use thiserror::Error;

pub use compiled::CompiledFault;
pub use container::ContainerFault;

/// Most paths that are kept of what could not be read; beyond that they are counted.
pub const MAX_PATHS_KEPT: usize = 10_000;

/// Bytes of a path or name, shown with what is not printable escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown(pub Box<[u8]>);

impl From<&[u8]> for Shown {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Longer ones come from archives made to annoy.
        const SHOWN_BYTES: usize = 1024;
        if self.0.is_empty() {
            return f.write_str(".");
        }
        for chunk in self.0.get(..SHOWN_BYTES).unwrap_or(&self.0).utf8_chunks() {
            for character in chunk.valid().chars() {
                match character.is_control() {
                    true => write!(f, "{}", character.escape_default())?,
                    false => write!(f, "{character}")?,
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        if self.0.len() > SHOWN_BYTES { f.write_str("…") } else { Ok(()) }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A problem with one path, without which the source can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Below the root of the source; empty for the root.
    pub path: Shown,
    /// The reason.
    pub reason: Reason,
}

impl Problem {
    pub(crate) fn new(path: &[u8], reason: Reason) -> Self {
        Self { path: path.into(), reason }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Reason of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Reason {
    /// The file was left out.
    #[error("cannot be read: {0}")]
    Unreadable(Failure),
    /// The directory is there, its entries are not.
    #[error("cannot be listed: {0}")]
    Unlistable(Failure),
    /// The file is there without this attribute.
    #[error("attribute {name} cannot be read: {failure}")]
    UnreadableAttribute {
        /// Which; empty where even their names could not be read.
        name: Shown,
        /// Why.
        failure: Failure,
    },
    /// The file became shorter while it was read: the rest is zeros.
    #[error("became shorter while it was read: its last {0} bytes are zeros")]
    Shrank(u64),
    /// Something that the archive says cannot be kept.
    #[error("{0}")]
    Lost(String),
    /// Something the archive or manifest says of the path has no meaning here and was passed over.
    #[error("{0}")]
    Ignored(String),
    /// The archive, whose name stands for the path, ends before its file does.
    #[error(
        "further data behind the end of the archive: {length_bytes} bytes from byte {start_bytes} on are ignored"
    )]
    BehindArchive {
        /// Place in the unpacked archive.
        start_bytes: u64,
        /// Length up to the end.
        length_bytes: u64,
    },
    /// The same of the packed stream that holds the archive.
    #[error(
        "further data behind the end of the packed archive: {length_bytes} bytes from byte {start_bytes} on are ignored"
    )]
    BehindPacked {
        /// Place in the packed file.
        start_bytes: u64,
        /// Length up to the end.
        length_bytes: u64,
    },
}

impl Reason {
    /// Whether the host refused to give a file or a part of it.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Unlistable(_) | Self::UnreadableAttribute { .. })
    }

    /// Whether content or attributes of the source are missing.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::Ignored(_) | Self::BehindArchive { .. } | Self::BehindPacked { .. })
    }
}

/// An error of the host, as its number says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure(pub rustix::io::Errno);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from(self.0))
    }
}

/// An unreadable part of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// The first [`MAX_PATHS_KEPT`].
    pub problems: Vec<Problem>,
    /// How many there were.
    pub count: u64,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the source cannot be read", self.count)?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))?;
        match self.count.saturating_sub(self.problems.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Why a source cannot be read.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The host refused.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// Of the source, or below its root.
        path: Shown,
        /// The call that failed.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Told at the end of a tree, all at once.
    #[error("{0}")]
    Unreadable(Unreadable),
    /// A file is no longer the one that was listed.
    #[error("{path}: was replaced by another file while it was being read")]
    Replaced {
        /// Below the root.
        path: Shown,
    },
    /// Attributes can be reached by no way on this host: no `/proc`, and `unshare` is forbidden.
    #[error("extended attributes cannot be read without /proc")]
    NoWayToAttributes,
    /// Owners and devices are another program's to tell, which cannot be heard.
    #[error(transparent)]
    Preload(#[from] uxfs_block::preload::Unheard),
    /// A pipe was read already.
    #[error("{path}: is a stream and cannot be read twice")]
    CannotRestart {
        /// Of the source.
        path: Shown,
    },
    /// Damage in an archive.
    #[error("{archive}: {}{fault}", place_of(*.offset, .fault))]
    Archive {
        /// The archive.
        archive: Shown,
        /// In the uncompressed archive.
        offset: u64,
        /// The fault.
        fault: ArchiveFault,
    },
    /// A layer that makes no sense above those below it.
    #[error("{path}: {fault}")]
    Layer {
        /// Below the root.
        path: Shown,
        /// The fault.
        fault: LayerFault,
    },
    /// An image of a container that is not what it says.
    #[error("{image}: {fault}")]
    Container {
        /// The layout, the archive or the layer.
        image: Shown,
        /// The fault.
        fault: ContainerFault,
    },
    /// Records beyond the memory limit cannot be kept in a temporary file.
    #[error(transparent)]
    Spill(#[from] uxfs_block::spill::SpillError),
    /// A compiled file of labels that is damaged, or of a form that is not read.
    #[error("{file}: {fault}")]
    Compiled {
        /// The file.
        file: Shown,
        /// The fault.
        fault: CompiledFault,
    },
    /// A line of a text file that means nothing.
    #[error("{file}: line {line}: {fault}")]
    Text {
        /// The file.
        file: Shown,
        /// From 1.
        line: u64,
        /// The fault.
        fault: TextFault,
    },
}

impl SourceError {
    pub(crate) fn io(path: &[u8], action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { path: path.into(), action, source: source.into() }
    }

    pub(crate) fn host(path: &std::path::Path, action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::io(path.as_os_str().as_encoded_bytes(), action, source)
    }
}

/// Where an archive is damaged, in front of how. What holds no archive has no place.
fn place_of(offset: u64, fault: &ArchiveFault) -> String {
    match fault {
        ArchiveFault::Empty | ArchiveFault::Device | ArchiveFault::Manifest | ArchiveFault::Zeros(_) => {
            String::new()
        }
        _ => format!("at byte {offset}: "),
    }
}

/// Faults of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArchiveFault {
    /// No byte at all, where even an archive without members has blocks of zeros.
    #[error("it is empty: an archive without members would end in blocks of zeros")]
    Empty,
    /// A device that is neither a tape nor a terminal.
    #[error("is a device, not an archive")]
    Device,
    /// A manifest where an archive should be.
    #[error("is a manifest: one that is read from a pipe or standard input cannot be used, give its file")]
    Manifest,
    /// Nothing but zeros, so far as it was read.
    #[error("is no archive: it begins with more than {} MiB of zeros", .0 >> 20)]
    Zeros(u64),
    /// Ends within a member.
    #[error("the archive ends within {within}")]
    Truncated {
        /// The part that was cut.
        within: &'static str,
    },
    /// Neither sum of the header is the one it says.
    #[error("header checksum {found}, computed {computed}: damaged, or no tar archive")]
    Checksum {
        /// In the header.
        found: u64,
        /// Of its bytes.
        computed: u64,
    },
    /// A number is none, or does not fit.
    #[error("{field} holds no number that fits")]
    Number {
        /// Of the header or record.
        field: &'static str,
    },
    /// A record of an extended header has no proper length, equals sign or end.
    #[error("a record of an extended header is malformed")]
    Record,
    /// More bytes of names, attributes or sparse maps than one member may have.
    #[error("{what} of {bytes} bytes, at most {limit}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// Claimed.
        bytes: u64,
        /// Allowed.
        limit: u64,
    },
    /// A path with `..` in it.
    #[error("{0}: leads out of the archive")]
    PathEscapes(Shown),
    /// Longer than [`crate::stream::MAX_PATH_BYTES`].
    #[error("{0}: path too long")]
    PathTooLong(Shown),
    /// A path, name or link with a NUL, or an empty name.
    #[error("{0}: no valid name")]
    BadName(Shown),
    /// The map of a sparse file overlaps, is out of order or does not match its data.
    #[error("{0}: the map of its holes makes no sense")]
    SparseMap(Shown),
    /// A kind of member that is not understood.
    #[error("member type {:?} is not supported", char::from(*.0))]
    UnknownType(u8),
    /// A part of a file that begins on another volume.
    #[error("continued from another volume: archives of several volumes are not supported")]
    MultiVolume,
    /// Text of an ACL that means nothing.
    #[error("{path}: the access control list {text} makes no sense")]
    Acl {
        /// The file.
        path: Shown,
        /// The list.
        text: Shown,
    },
    /// The packing is damaged or of a kind that is not read.
    #[error("cannot be unpacked: {0}")]
    Compression(String),
}

/// Faults of layers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayerFault {
    /// The target of a hard link is not there.
    #[error("a hard link to {0}, which is not there")]
    NoTarget(Shown),
    /// Directories have no hard links.
    #[error("a hard link to a directory")]
    LinkToDirectory,
    /// Something above it is a file.
    #[error("lies below something that is no directory")]
    NoDirectoryAbove,
    /// A whiteout of nothing.
    #[error("says that something is gone, and not what")]
    Whiteout,
    /// More than can be numbered.
    #[error("too many files")]
    TooMany,
    /// Symbolic links on the way to it lead in a circle, or are more than are followed.
    #[error("too many levels of symbolic links above it")]
    TooManySymlinks,
    /// Longer than [`crate::stream::MAX_PATH_BYTES`] where symbolic links on the way lead.
    #[error("the path is too long where symbolic links above it lead")]
    TooLong,
}

/// Faults of a line of a text file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextFault {
    /// Too long to be meant.
    #[error("the line is too long")]
    LineTooLong,
    /// Ends too early.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A word that is not what is expected there.
    #[error("{word} is no {expected}")]
    Unexpected {
        /// As written.
        word: Shown,
        /// The expected word.
        expected: &'static str,
    },
    /// A backslash that begins nothing.
    #[error("{0}: malformed escape")]
    Escape(Shown),
    /// A path with `..` beyond the root, a NUL, or too long.
    #[error("{0}: no valid path")]
    BadPath(Shown),
    /// The same path says two things.
    #[error("{0}: described twice, differently")]
    Twice(Shown),
    /// A user or group name that this machine does not know.
    #[error("unknown {kind} {name}")]
    UnknownName {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: Shown,
    },
    /// A pattern that is no regular expression.
    #[error("{0}")]
    Pattern(String),
    /// Something follows the packed stream that holds the text.
    #[error("{length_bytes} bytes from byte {start_bytes} of the packed file on belong to nothing")]
    BehindPacked {
        /// Place in the packed file.
        start_bytes: u64,
        /// Length up to the end.
        length_bytes: u64,
    },
    /// More than fits in memory that a text may take.
    #[error("{0}: too much")]
    TooMuch(&'static str),
    /// A file that the line names cannot be read.
    #[error("{path}: {failure}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        failure: String,
    },
}

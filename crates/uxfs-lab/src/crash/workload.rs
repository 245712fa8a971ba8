//! Operations of a workload. Files have the model's own numbers, so that another file system can repeat the workload.

use super::model::Outcome;

/// A file of the model.
pub type NodeId = u32;

/// The root directory.
pub const ROOT: NodeId = 0;

/// Type of a new file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NewFile {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink(Vec<u8>),
    /// A block device with this major and minor number.
    Device(u32, u32),
    /// A fifo.
    Fifo,
}

/// Ways to rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RenameHow {
    /// Over what has the new name, if anything has.
    Replace,
    /// Only if nothing has the new name.
    NoReplace,
    /// Both names change places.
    Exchange,
    /// As [`Replace`](Self::Replace), and a whiteout takes the old name.
    Whiteout,
}

/// Changes of where a file's bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reshape {
    /// Space that reads as zeros; the file grows.
    Allocate,
    /// The same beyond the end, which stays.
    AllocateKeepSize,
    /// A hole.
    Punch,
    /// Zeros.
    Zero,
    /// Takes the range out.
    Collapse,
    /// Makes room.
    Insert,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new file with a name.
    Create {
        /// Where.
        parent: NodeId,
        /// Its name.
        name: Vec<u8>,
        /// What.
        file: NewFile,
        /// Permissions.
        mode: u16,
        /// Owner and group.
        owner: (u32, u32),
    },
    /// A new regular file without a name, kept open.
    Temporary {
        /// Near this directory.
        parent: NodeId,
    },
    /// A further name, or the first one of a temporary file.
    Link {
        /// Of this.
        node: NodeId,
        /// Where.
        parent: NodeId,
        /// The name.
        name: Vec<u8>,
    },
    /// One name less.
    Remove {
        /// Where.
        parent: NodeId,
        /// The name.
        name: Vec<u8>,
    },
    /// Another name.
    Rename {
        /// Where it was.
        parent: NodeId,
        /// The old name.
        name: Vec<u8>,
        /// Where it goes.
        new_parent: NodeId,
        /// The new name.
        new_name: Vec<u8>,
        /// How.
        how: RenameHow,
    },
    /// Permissions, owner and group, project.
    SetAttributes {
        /// Of this.
        node: NodeId,
        /// Permissions.
        mode: Option<u16>,
        /// Owner and group.
        owner: Option<(u32, u32)>,
        /// Project.
        project: Option<u32>,
    },
    /// An attribute, new or changed.
    SetXattr {
        /// Of this.
        node: NodeId,
        /// Its name, with namespace.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// One attribute less.
    RemoveXattr {
        /// Of this.
        node: NodeId,
        /// Its name.
        name: Vec<u8>,
    },
    /// Contents.
    Write {
        /// Of this.
        node: NodeId,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Another size.
    Truncate {
        /// Of this.
        node: NodeId,
        /// The size.
        size: u64,
    },
    /// Space, holes, zeros, moved contents.
    Reshape {
        /// Of this.
        node: NodeId,
        /// What.
        how: Reshape,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// One file's blocks become those of another, too.
    Clone {
        /// From this.
        source: NodeId,
        /// Where in it.
        source_offset: u64,
        /// To this.
        target: NodeId,
        /// Where in it.
        target_offset: u64,
        /// How much.
        length: u64,
    },
    /// Two files change contents over a range, or two ranges of one file do.
    Exchange {
        /// One.
        first: NodeId,
        /// The other, or the same.
        second: NodeId,
        /// Where in the one.
        offset: u64,
        /// Where in the other; of one file apart from the first range.
        second_offset: u64,
        /// How much.
        length: u64,
    },
    /// Keeps a file open, so that it outlives its names.
    Open {
        /// This.
        node: NodeId,
    },
    /// Closes it again.
    Close {
        /// This.
        node: NodeId,
    },
    /// Makes one file durable, and what its being there needs.
    SyncFile {
        /// This.
        node: NodeId,
    },
    /// Makes everything durable.
    Sync,
}

/// Kinds of operation, for what is on and what is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum OperationKind {
    CreateFile,
    CreateDirectory,
    CreateSymlink,
    CreateSpecial,
    Temporary,
    Link,
    Remove,
    Rename,
    RenameExchange,
    RenameWhiteout,
    SetAttributes,
    SetXattr,
    SetAcl,
    RemoveXattr,
    Write,
    WriteUnaligned,
    Truncate,
    Allocate,
    Punch,
    Zero,
    Collapse,
    Insert,
    Clone,
    Exchange,
    Open,
    Close,
    SyncFile,
    Sync,
}

impl OperationKind {
    /// Every kind and how often it comes where all are on.
    pub const ALL: [(Self, u32); 28] = [
        (Self::CreateFile, 30),
        (Self::CreateDirectory, 10),
        (Self::CreateSymlink, 5),
        (Self::CreateSpecial, 3),
        (Self::Temporary, 2),
        (Self::Link, 8),
        (Self::Remove, 22),
        (Self::Rename, 10),
        (Self::RenameExchange, 3),
        (Self::RenameWhiteout, 2),
        (Self::SetAttributes, 6),
        (Self::SetXattr, 12),
        (Self::SetAcl, 3),
        (Self::RemoveXattr, 6),
        (Self::Write, 20),
        (Self::WriteUnaligned, 10),
        (Self::Truncate, 8),
        (Self::Allocate, 5),
        (Self::Punch, 4),
        (Self::Zero, 2),
        (Self::Collapse, 2),
        (Self::Insert, 2),
        (Self::Clone, 5),
        (Self::Exchange, 2),
        (Self::Open, 4),
        (Self::Close, 4),
        (Self::SyncFile, 4),
        (Self::Sync, 3),
    ];
}

impl Operation {
    /// Whether it may be found half done: it works in steps that each leave a sound file.
    pub fn has_steps(&self) -> bool {
        matches!(
            self,
            Self::Write { .. }
                | Self::Truncate { .. }
                | Self::Reshape { .. }
                | Self::Clone { .. }
                | Self::Exchange { .. }
        )
    }

    /// The operation as far as it was done: a write ends early where space runs out.
    #[must_use]
    pub fn as_done(self, outcome: &Outcome) -> Self {
        match (self, outcome.written) {
            (Self::Write { node, offset, .. }, Some(length)) => Self::Write { node, offset, length },
            (operation, _) => operation,
        }
    }

    /// Whether it changes contents of this file.
    pub fn writes_to(&self, file: NodeId) -> bool {
        match self {
            Self::Write { node, .. } | Self::Truncate { node, .. } | Self::Reshape { node, .. } => {
                *node == file
            }
            Self::Clone { target, .. } => *target == file,
            Self::Exchange { first, second, .. } => [*first, *second].contains(&file),
            _ => false,
        }
    }
}

//! Stable words by which programs tell errors and notices apart. `docs/json.md` lists them; change both together.

use std::io;

use rustix::io::Errno;
use uxfs_journal::{error::JournalError, error::ShutdownCause};
use uxfs_volume::error::{Error, OperationError};

/// A closed list of words with their meaning.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $(#[doc = $meaning:literal] $word:ident = $token:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $(#[doc = $meaning] $word,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// The word in documents.
            pub fn token(self) -> &'static str {
                match self { $(Self::$word => $token,)+ }
            }
        }
    };
}

words! {
    /// Why something failed: `kind` of the documents `error` and `problem`.
    Kind {
        /// The command line is wrong, or asks for something impossible.
        Usage = "usage",
        /// There is no such file or directory.
        NotFound = "not_found",
        /// No inode in use has this number.
        NoSuchInode = "no_such_inode",
        /// There is no allocation group of this number.
        NoSuchGroup = "no_such_group",
        /// The disk has no such partition, or no table of partitions.
        NoSuchPartition = "no_such_partition",
        /// The file has no such attribute.
        NoSuchAttribute = "no_such_attribute",
        /// No file fits a pattern.
        NoMatch = "no_match",
        /// A file of this name is there already.
        Exists = "exists",
        /// It holds something, and is overwritten with `--force` only.
        Occupied = "occupied",
        /// A directory is needed, and it is something else.
        NotADirectory = "not_a_directory",
        /// It is a directory, where that is not possible.
        IsADirectory = "is_a_directory",
        /// The directory holds something.
        NotEmpty = "not_empty",
        /// Not possible with a file of this type.
        WrongFileType = "wrong_file_type",
        /// Both names are of the same file.
        SameFile = "same_file",
        /// Symbolic links lead in a circle, or through too many others.
        TooManySymlinks = "too_many_symlinks",
        /// A name, path or target of a symbolic link is too long.
        NameTooLong = "name_too_long",
        /// No file or attribute can have this name.
        InvalidName = "invalid_name",
        /// A value, range or combination is not possible here.
        Invalid = "invalid",
        /// A size, number or count is greater than the format can have.
        TooLarge = "too_large",
        /// The permission is missing, or the file is immutable.
        Permission = "permission",
        /// It can be read and not be changed.
        ReadOnly = "read_only",
        /// There is no space left: `path` is in the image, or the host is full where there is `host_path`.
        NoSpace = "no_space",
        /// Something else uses it: it is mounted, or another program has it.
        InUse = "in_use",
        /// Nothing is mounted there, or not by uxfs.
        NotMounted = "not_mounted",
        /// It was changed since, or while it was read.
        Changed = "changed",
        /// The log holds changes that are not in place yet.
        DirtyLog = "dirty_log",
        /// The file holds no XFS file system at this place: a disk with partitions, another form of image, or something else.
        NotAFileSystem = "not_a_file_system",
        /// A file of the host is not of the form that is needed, or ends too early: an archive, a dump, a list, an undo file.
        WrongForm = "wrong_form",
        /// What was read is damaged.
        Damage = "damage",
        /// The image or the file needs a feature that uxfs does not have.
        UnsupportedFeature = "unsupported_feature",
        /// The file system was made without a feature that this needs.
        MissingFeature = "missing_feature",
        /// The host lacks something: a device such as `/dev/fuse`, a program such as `fusermount3`, a feature of its kernel.
        Unavailable = "unavailable",
        /// Something did not answer or end in time.
        TimedOut = "timed_out",
        /// After an earlier error nothing can be changed any more.
        ShutDown = "shut_down",
        /// A device, or a file of the host, failed.
        Io = "io",
        /// What the command prints could not be written.
        Output = "output",
        /// A signal ended it.
        Interrupted = "interrupted",
        /// Anything else: `message` says it.
        Failed = "failed",
    }
}

words! {
    /// What is told: `kind` of the documents `notice` and `warning`.
    Note {
        /// How many problems were not printed.
        MoreProblems = "more_problems",
        /// A part was left out: it is damaged, cannot be read, or is more than is shown.
        Incomplete = "incomplete",
        /// Something is damaged, and was passed over.
        Damaged = "damaged",
        /// How far what is shown differs from the image: it is shown as a repair would leave it.
        AsRepaired = "as_repaired",
        /// Metadata that could not be restored on the host.
        NotRestored = "not_restored",
        /// A binary file matches.
        BinaryMatch = "binary_match",
        /// Something about the file of a repair that undo reads.
        UndoFile = "undo_file",
        /// Something about what a file system is filled from.
        Source = "source",
        /// An option has an effect that may surprise.
        Option = "option",
        /// New files have no SELinux label.
        Unlabelled = "unlabelled",
        /// A dump holds more than was asked for, or less.
        Dump = "dump",
        /// The host lacks something, and the work goes on without it.
        Host = "host",
        /// What goes on: waiting, mounted, unmounted.
        Progress = "progress",
        /// Another superblock than the first is used.
        Superblock = "superblock",
        /// Another program has the image: what is shown may be in change.
        InUse = "in_use",
        /// A disk is based on another file, which is read, too.
        BackingFile = "backing_file",
        /// What a signal left of the command that it ended.
        Interrupted = "interrupted",
        /// What a mount tells while it serves.
        Mount = "mount",
    }
}

impl Kind {
    /// In words, as problems are counted by it.
    pub fn words(self) -> &'static str {
        match self {
            Self::UnsupportedFeature => "not supported",
            Self::Io => "the device failed",
            Self::Usage | Self::Damage | Self::Output | Self::Interrupted | Self::Failed => self.token(),
            _ => "not possible",
        }
    }

    /// Of an error of the core.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Operation(error) => Self::of_operation(error),
            Error::Io(error) => Self::of_host(&error.source),
            Error::Corrupt(_) => Self::Damage,
            Error::Unsupported(_) => Self::UnsupportedFeature,
            Error::Journal(cause) => match cause.downcast_ref::<JournalError>() {
                Some(cause) if cause.is_corruption() => Self::Damage,
                _ => Self::ShutDown,
            },
        }
    }

    /// Of an operation that is refused. The match names every variant: a new error does not compile before its word has been decided.
    pub(crate) fn of_operation(error: &OperationError) -> Self {
        match error {
            OperationError::NotFound => Self::NotFound,
            OperationError::NoSuchInode | OperationError::Stale => Self::NoSuchInode,
            OperationError::NoSuchGroup => Self::NoSuchGroup,
            OperationError::NoSuchAttribute => Self::NoSuchAttribute,
            OperationError::Exists => Self::Exists,
            OperationError::NotADirectory => Self::NotADirectory,
            OperationError::IsADirectory => Self::IsADirectory,
            OperationError::NotEmpty => Self::NotEmpty,
            OperationError::WrongFileType => Self::WrongFileType,
            OperationError::TooManySymlinks => Self::TooManySymlinks,
            OperationError::NameTooLong | OperationError::TargetTooLong => Self::NameTooLong,
            OperationError::InvalidName
            | OperationError::XattrNameLength
            | OperationError::UnknownNamespace => Self::InvalidName,
            OperationError::InvalidArgument
            | OperationError::InvalidAcl(_)
            | OperationError::InvalidRange
            | OperationError::NoSuchOffset
            | OperationError::IntoItself
            | OperationError::CrossesProjects
            | OperationError::Busy => Self::Invalid,
            OperationError::TooManyAttributes
            | OperationError::TooManyLinks
            | OperationError::FileTooLarge
            | OperationError::DeviceNumberTooLarge
            | OperationError::ValueTooLong
            | OperationError::ForkTooLarge
            | OperationError::LogTooSmall => Self::TooLarge,
            OperationError::NotPermitted | OperationError::AccessDenied => Self::Permission,
            OperationError::ReadOnly => Self::ReadOnly,
            OperationError::NoSpace => Self::NoSpace,
            OperationError::DirtyLog { .. } => Self::DirtyLog,
            OperationError::NoParentPointers
            | OperationError::CannotShare
            | OperationError::CannotExchange => Self::MissingFeature,
            OperationError::NoThread => Self::Failed,
        }
    }

    /// Of an error of the host.
    pub fn of_host(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::Exists,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::IsADirectory => Self::IsADirectory,
            io::ErrorKind::DirectoryNotEmpty => Self::NotEmpty,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => Self::InUse,
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            io::ErrorKind::InvalidFilename => Self::NameTooLong,
            io::ErrorKind::Interrupted => Self::Interrupted,
            io::ErrorKind::InvalidInput => Self::Invalid,
            _ if Errno::from_io_error(error) == Some(Errno::LOOP) => Self::TooManySymlinks,
            _ => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_in_snake_case_different_and_in_the_documentation() {
        let described = include_str!("../../../docs/json.md");
        let kinds = Kind::ALL.iter().map(|kind| kind.token());
        let notes = Note::ALL.iter().map(|note| note.token());
        for token in kinds.clone().chain(notes.clone()) {
            assert!(token.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{token}");
            assert!(described.contains(&format!("| `{token}` |")), "{token} is not described");
        }
        assert_eq!(kinds.collect::<BTreeSet<_>>().len(), Kind::ALL.len());
        assert_eq!(notes.collect::<BTreeSet<_>>().len(), Note::ALL.len());
    }
}

//! The one error type.

use std::{fmt, io};

use uxfs_block::device::DeviceError;
use uxfs_extract::sink::SinkError;
#[cfg(feature = "forms")]
use uxfs_image::error::ImageError;
use uxfs_mkfs::{empty::FormatError, layout::LayoutError, options::OptionError, target::TargetError};
use uxfs_populate::{error::PopulateError, make::MakeError};
use uxfs_repair::commit::CommitError;
use uxfs_source::error::SourceError;
use uxfs_volume::error::Error as InternalError;

/// Linux's number for an invalid argument.
const EINVAL: i32 = 22;
/// Linux's number for what another program uses.
const EBUSY: i32 = 16;
/// Linux's number for a failed device.
const EIO: i32 = 5;
/// Linux's number for a full file system.
const ENOSPC: i32 = 28;
/// Linux's number for a feature that is not supported.
const EOPNOTSUPP: i32 = 95;
/// Linux's number for a damaged structure.
const EUCLEAN: i32 = 117;

/// Why something failed. [`Display`](fmt::Display) gives a message for people: which object, what failed, and what can be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operation is not possible on this object: no such file, no space left, an option that cannot be had.
    #[non_exhaustive]
    Operation {
        /// The number by which Linux tells of it.
        errno: i32,
        /// For people.
        message: String,
    },
    /// The device, the image's file or a file of the host failed.
    #[non_exhaustive]
    Io {
        /// The error of the system.
        kind: io::ErrorKind,
        /// The number by which Linux tells of it.
        errno: i32,
        /// For people.
        message: String,
    },
    /// The image is damaged: which structure, where, and what is wrong.
    #[non_exhaustive]
    Corrupt {
        /// For people.
        message: String,
    },
    /// The image, or the file, uses a feature that uxfs knows and does not support.
    #[non_exhaustive]
    Unsupported {
        /// The number by which Linux tells of it.
        errno: i32,
        /// For people.
        message: String,
    },
}

/// Result of every function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The number that a system call would give for this.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Operation { errno, .. } | Self::Io { errno, .. } | Self::Unsupported { errno, .. } => {
                *errno
            }
            Self::Corrupt { .. } => EUCLEAN,
        }
    }

    /// Whether there is no such file, name or attribute.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// let image = uxfs::Image::open(&path)?;
    /// let error = image.find("/nothing").unwrap_err();
    /// assert!(error.is_not_found());
    /// assert_eq!(error.to_string(), "/nothing: no such file or directory");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_not_found(&self) -> bool {
        const ENOENT: i32 = 2;
        const ENODATA: i32 = 61;
        matches!(self, Self::Operation { errno: ENOENT | ENODATA, .. })
    }

    /// The message.
    pub fn message(&self) -> &str {
        match self {
            Self::Operation { message, .. }
            | Self::Io { message, .. }
            | Self::Corrupt { message }
            | Self::Unsupported { message, .. } => message,
        }
    }

    /// The same error with the object that it is about in front.
    pub(crate) fn about(mut self, subject: impl fmt::Display) -> Self {
        match &mut self {
            Self::Operation { message, .. }
            | Self::Io { message, .. }
            | Self::Corrupt { message }
            | Self::Unsupported { message, .. } => *message = format!("{subject}: {message}"),
        }
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Operation { errno: EINVAL, message: message.into() }
    }
}

/// Says of an error which file it is about.
pub(crate) trait About<T> {
    /// A path in the image.
    fn about_path(self, path: &[u8]) -> Result<T>;
    /// Anything else.
    fn about(self, subject: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Error>> About<T> for std::result::Result<T, E> {
    fn about_path(self, path: &[u8]) -> Result<T> {
        self.map_err(|error| error.into().about(path.escape_ascii()))
    }

    fn about(self, subject: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().about(subject))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Io { kind, .. } => *kind,
            error => io::Error::from_raw_os_error(error.errno()).kind(),
        };
        Self::new(kind, error)
    }
}

impl From<InternalError> for Error {
    fn from(error: InternalError) -> Self {
        let (errno, message) = (error.errno(), error.to_string());
        match error {
            InternalError::Io(error) => error.into(),
            InternalError::Corrupt(_) => Self::Corrupt { message },
            InternalError::Unsupported(_) => Self::Unsupported { errno, message },
            InternalError::Journal(_) => Self::Io { kind: io::ErrorKind::Other, errno, message },
            _ => Self::Operation { errno, message },
        }
    }
}

/// Of something that the system refused, or that a library refused in its words.
fn of_system(source: &io::Error, message: String) -> Error {
    use io::ErrorKind as Kind;
    let kind = source.kind();
    let errno = source.raw_os_error().unwrap_or(match kind {
        Kind::ResourceBusy => EBUSY,
        Kind::NotFound => 2,
        Kind::PermissionDenied => 13,
        Kind::InvalidInput => EINVAL,
        Kind::Unsupported => EOPNOTSUPP,
        _ => EIO,
    });
    // Another program that uses the image is no failure of the device.
    match kind {
        Kind::ResourceBusy => Error::Operation { errno, message },
        _ => Error::Io { kind, errno, message },
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        of_system(&error.source, error.to_string())
    }
}

#[cfg(feature = "forms")]
impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        let message = match error.remedy() {
            Some(remedy) => format!("{error}; {remedy}"),
            None => error.to_string(),
        };
        match error {
            ImageError::Device(error) => error.into(),
            ImageError::Unpack { source, .. } | ImageError::NoDirectory { source, .. } => {
                of_system(&source, message)
            }
            ImageError::NoRoom(_) => Self::Io { kind: io::ErrorKind::StorageFull, errno: ENOSPC, message },
            ImageError::Damaged(_) => Self::Corrupt { message },
            ImageError::Unsupported { .. } => Self::Unsupported { errno: EOPNOTSUPP, message },
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        of_system(&error, error.to_string())
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        Self::Io { kind: io::ErrorKind::Other, errno: EIO, message: error.to_string() }
    }
}

impl From<PopulateError> for Error {
    fn from(error: PopulateError) -> Self {
        let message = error.to_string();
        match error {
            PopulateError::Image(error) => error.into(),
            PopulateError::Device(error) => error.into(),
            PopulateError::At { path, error } => Self::from(error).about(path),
            PopulateError::Impossible { .. } => Self::invalid(message),
            PopulateError::Threads(_) => Self::Operation { errno: 11, message },
            _ => Self::Io { kind: io::ErrorKind::Other, errno: EIO, message },
        }
    }
}

impl From<MakeError> for Error {
    fn from(error: MakeError) -> Self {
        let message = error.to_string();
        match error {
            MakeError::Layout(error) => error.into(),
            MakeError::Format(error) => error.into(),
            MakeError::Image(error) => error.into(),
            MakeError::Populate(error) => error.into(),
            MakeError::Source(error) => error.into(),
            MakeError::Scratch { error, .. } => of_system(&error, message),
            _ => Self::invalid(message),
        }
    }
}

impl From<OptionError> for Error {
    fn from(error: OptionError) -> Self {
        let message = error.to_string();
        if error.is_unsupported() {
            Self::Unsupported { errno: EOPNOTSUPP, message }
        } else {
            Self::invalid(message)
        }
    }
}

impl From<LayoutError> for Error {
    fn from(error: LayoutError) -> Self {
        let message = error.to_string().replace("use --unsupported", "use Maker::allow_unsupported()");
        if error.is_unsupported() {
            Self::Unsupported { errno: EOPNOTSUPP, message }
        } else {
            Self::invalid(message)
        }
    }
}

impl From<TargetError> for Error {
    fn from(error: TargetError) -> Self {
        let message = error.to_string();
        match error {
            TargetError::Device(error) => error.into(),
            TargetError::System { source, .. } => of_system(&source, message),
            TargetError::InUse(_) => Self::Operation { errno: EBUSY, message },
            _ => Self::invalid(message),
        }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        let message = error.to_string();
        match error {
            CommitError::Device(error) => error.into(),
            CommitError::File { source, .. } => of_system(&source, message),
            CommitError::NoRoom { .. } => {
                Self::Io { kind: io::ErrorKind::StorageFull, errno: ENOSPC, message }
            }
            CommitError::NoSuperblock | CommitError::Unusable { .. } => Self::Corrupt { message },
            _ => Self::invalid(message),
        }
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Device(error) => error.into(),
            error => Self::invalid(error.to_string()),
        }
    }
}

impl From<SinkError> for Error {
    fn from(error: SinkError) -> Self {
        of_system(&error.source, error.to_string())
    }
}

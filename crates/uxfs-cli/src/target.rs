//! Which file a command is about: a path in the image, or an inode number.

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{error::Result, inode::Inode};

use crate::text;

/// A file named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path from the root of the image, with or without a slash in front.
    Path(Vec<u8>),
    /// An inode number.
    Inode(InodeNumber),
}

impl Target {
    /// All digits are an inode number (a file of such a name is reached as `/123`), everything else is a path.
    pub fn parse(argument: &OsStr) -> Self {
        let bytes = argument.as_bytes();
        let number = argument.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|text| text.parse().ok()) {
            Some(number) => Self::Inode(InodeNumber::new(number)),
            None => Self::Path(bytes.to_vec()),
        }
    }

    /// The same as seen from a directory: paths without a slash in front begin there.
    #[must_use]
    pub fn from_directory(self, directory: &[u8]) -> Self {
        match self {
            Self::Path(path) if !path.starts_with(b"/") => Self::Path([directory, b"/", &path].concat()),
            target => target,
        }
    }

    /// Finds the inode. A symbolic link at the end of a path is followed only if `follow_last` is set.
    pub fn find(&self, filesystem: &Volume, follow_last: bool) -> Result<Arc<Inode>> {
        match self {
            // A number from outside is looked up in the inode btree before anything is read at its location.
            Self::Inode(number) => filesystem.inode_from_outside(*number),
            Self::Path(path) => filesystem.resolve(path, follow_last),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inode(number) => write!(f, "inode {number}"),
            Self::Path(path) => f.write_str(&text::escaped(path)),
        }
    }
}

//! The directory that a file system is to be mounted on.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use thiserror::Error;
use uxfs_block::words::in_words;

/// Why a directory cannot be mounted on.
#[derive(Debug, Error)]
pub enum MountPointError {
    /// There is no such directory.
    #[error("mount point {} does not exist (mkdir {})", .0.display(), .0.display())]
    Missing(PathBuf),
    /// It is no directory.
    #[error("mount point {} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// A server has ended without unmounting.
    #[error(
        "mount point {} still has a FUSE mount whose server has ended (fusermount3 -uz {}, or as root: umount -l {})",
        .0.display(), .0.display(), .0.display()
    )]
    Dead(PathBuf),
    /// Not reachable for this user.
    #[error("mount point {}: permission denied", .0.display())]
    NotPermitted(PathBuf),
    /// Anything else.
    #[error("mount point {}: {}", .directory.display(), in_words(.source))]
    System {
        /// The directory.
        directory: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl MountPointError {
    fn new(directory: &Path, error: io::Error) -> Self {
        let directory = directory.to_path_buf();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::Missing(directory),
            Some(Errno::NOTDIR) => Self::NotDirectory(directory),
            Some(Errno::NOTCONN | Errno::CONNABORTED) => Self::Dead(directory),
            Some(Errno::ACCESS) => Self::NotPermitted(directory),
            _ => Self::System { directory, source: error },
        }
    }
}

/// Checks that a directory can be mounted on. Gives its canonical path: absolute, without symbolic links, as the table of
/// mounts names it.
///
/// # Errors
/// It is missing, is no directory, or has a dead mount on it.
pub fn check(directory: &Path) -> Result<PathBuf, MountPointError> {
    let error = |error| MountPointError::new(directory, error);
    if !fs::metadata(directory).map_err(error)?.is_dir() {
        return Err(MountPointError::NotDirectory(directory.to_path_buf()));
    }
    fs::canonicalize(directory).map_err(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_found_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().canonicalize().unwrap().join("a b");
        fs::create_dir(&directory).unwrap();
        symlink(&directory, folder.path().join("link")).unwrap();
        assert_eq!(check(&folder.path().join("link/../a b/.")).unwrap(), directory);
        assert_eq!(check(&folder.path().join("link")).unwrap(), directory);
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refusal = |path: &Path| check(path).unwrap_err();
        assert!(matches!(refusal(&file), MountPointError::NotDirectory(path) if path == file));
        assert!(matches!(refusal(&file.join("below")), MountPointError::NotDirectory(_)));
        let missing = folder.path().join("missing");
        let text = refusal(&missing).to_string();
        assert_eq!(text, format!("mount point {0} does not exist (mkdir {0})", missing.display()));
    }

    #[test]
    fn errors_of_the_kernel_are_told_apart() {
        let error = |number: Errno| MountPointError::new(Path::new("/m"), number.into());
        assert!(matches!(error(Errno::NOTCONN), MountPointError::Dead(_)));
        assert!(matches!(error(Errno::ACCESS), MountPointError::NotPermitted(_)));
        assert_eq!(error(Errno::IO).to_string(), "mount point /m: Input/output error");
        assert_eq!(
            error(Errno::NOTCONN).to_string(),
            "mount point /m still has a FUSE mount whose server has ended (fusermount3 -uz /m, or as root: umount -l /m)"
        );
    }
}

//! The file or block device that a file system is made on.
//!
//! | module | holds |
//! |---|---|
//! | [`signatures`] | signatures of existing contents |
//! | [`block_device`] | the kernel's information about a block device |
//! | [`clear`] | clearing it |

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{OFlags, SeekFrom, seek};
use thiserror::Error;
use uxfs_block::{
    claim::{ClaimError, Claimed, Lock},
    device::{BlockDevice, DeviceError},
    engine,
};

mod block_device;
pub mod clear;
pub mod signatures;

pub use signatures::Signature;

use crate::layout::{DeviceFacts, Layout};

/// Why a file system cannot be made there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// There is no file, and no size was given.
    #[error("no such file (--size SIZE creates one)")]
    Missing,
    /// Neither a file nor a block device.
    #[error("neither a file nor a block device")]
    WrongType,
    /// In use.
    #[error(transparent)]
    InUse(ClaimError),
    /// It holds something.
    #[error("it seems to contain {}; use -f to overwrite it", .0.name)]
    Occupied(Signature),
    /// Block devices have the size they have.
    #[error("a block device cannot be made larger")]
    FixedSize,
    /// The system says no.
    #[error("cannot {doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl From<ClaimError> for TargetError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::System(error) => failed("open it")(error),
            error => Self::InUse(error),
        }
    }
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> TargetError {
    move |source| TargetError::System { doing, source }
}

/// The size of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSize {
    /// The one it has.
    #[default]
    Present,
    /// At least this; made where there is none.
    AtLeast(u64),
    /// Exactly this, and nothing of what it held; made where there is none.
    Exactly(u64),
}

/// An empty file that was created before the source is read: it may lie among
/// that, and then is known by its inode. Goes away again unless it is kept.
#[derive(Debug)]
pub struct Reserved {
    made: Option<(PathBuf, File)>,
}

impl Reserved {
    /// Makes an empty file at `path`, if there is nothing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(path: &Path) -> Result<Self, TargetError> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => Ok(Self { made: Some((path.to_path_buf(), file)) }),
            // Problems of an existing file are reported when it is opened. A dangling symbolic link exists as well.
            Err(_) if fs::symlink_metadata(path).is_ok() => Ok(Self { made: None }),
            Err(error) => Err(failed("create it")(error)),
        }
    }

    /// Keeps the file: there is a file system in it.
    pub fn keep(mut self) {
        self.made = None;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let Some((path, file)) = self.made.take() else { return };
        // Another program may have begun to make a file system in it.
        if let Ok(own) = Claimed::of(file, Lock::Exclusive) {
            remove(&path, &own.file);
        }
    }
}

/// Removes a file that was made, so that nothing half-made stays behind; if it cannot be removed, it says by itself that it is
/// not finished. A file that has taken its name meanwhile stays.
fn remove(path: &Path, own: &File) {
    let identity = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    if identity(own.metadata()) == identity(fs::symlink_metadata(path)) {
        let _ = fs::remove_file(path);
    }
}

/// An opened file or block device.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    /// None where it is only thought of: a file that does not exist, in a dry run.
    claimed: Option<Claimed>,
    facts: DeviceFacts,
    is_block_device: bool,
    /// Made by us, and to be removed if no file system comes of it.
    is_new: bool,
    /// Nothing was in it.
    is_blank: bool,
    /// The old contents are removed before anything else.
    is_truncated: bool,
}

impl Target {
    /// Opens the file or device at `path`. In a dry run nothing is created or changed.
    ///
    /// # Errors
    /// It cannot be used, or is in use.
    pub fn open(path: &Path, size: FileSize, is_dry_run: bool) -> Result<Self, TargetError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => {
                Self::open_block_device(path, &metadata, size, is_dry_run)
            }
            Ok(metadata) if metadata.is_file() => Self::open_file(path, &metadata, size, is_dry_run),
            Ok(_) => Err(TargetError::WrongType),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::create(path, size, is_dry_run),
            Err(error) => Err(failed("open it")(error)),
        }
    }

    fn create(path: &Path, size: FileSize, is_dry_run: bool) -> Result<Self, TargetError> {
        let bytes = match size {
            FileSize::Present => return Err(TargetError::Missing),
            FileSize::AtLeast(bytes) | FileSize::Exactly(bytes) => bytes,
        };
        let mut target = Self {
            path: path.to_path_buf(),
            claimed: None,
            facts: DeviceFacts::file(bytes),
            is_block_device: false,
            is_new: false,
            is_blank: true,
            is_truncated: false,
        };
        if !is_dry_run {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
            target.claimed = Some(Claimed::of(file.map_err(failed("create it"))?, Lock::Exclusive)?);
            // From here on dropping the target removes the file.
            target.is_new = true;
            target.with_file(|file| file.set_len(bytes)).map_err(failed("set its size"))?;
        }
        Ok(target)
    }

    fn open_file(
        path: &Path,
        metadata: &fs::Metadata,
        size: FileSize,
        is_dry_run: bool,
    ) -> Result<Self, TargetError> {
        let claimed = claim(path, is_dry_run)?;
        let now_bytes = metadata.len();
        let bytes = match size {
            FileSize::Present => now_bytes,
            FileSize::AtLeast(bytes) => bytes.max(now_bytes),
            FileSize::Exactly(bytes) => bytes,
        };
        Ok(Self {
            path: path.to_path_buf(),
            claimed: Some(claimed),
            facts: DeviceFacts::file(bytes),
            is_block_device: false,
            is_new: false,
            is_blank: now_bytes == 0,
            is_truncated: matches!(size, FileSize::Exactly(_)),
        })
    }

    fn open_block_device(
        path: &Path,
        metadata: &fs::Metadata,
        size: FileSize,
        is_dry_run: bool,
    ) -> Result<Self, TargetError> {
        let claimed = claim(path, is_dry_run)?;
        let bytes = seek(&claimed.file, SeekFrom::End(0))
            .map_err(|errno| failed("ask for its size")(errno.into()))?;
        if matches!(size, FileSize::AtLeast(asked) | FileSize::Exactly(asked) if asked > bytes) {
            return Err(TargetError::FixedSize);
        }
        Ok(Self {
            path: path.to_path_buf(),
            claimed: Some(claimed),
            facts: block_device::facts(metadata, bytes),
            is_block_device: true,
            is_new: false,
            is_blank: false,
            is_truncated: false,
        })
    }

    /// The facts for the layout.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Refuses what seems to hold something.
    ///
    /// # Errors
    /// It does, or cannot be read.
    pub fn refuse_occupied(&self) -> Result<(), TargetError> {
        let Some(Claimed { file, .. }) = &self.claimed else { return Ok(()) };
        let held_bytes = if self.is_block_device {
            self.facts.size_bytes
        } else {
            file.metadata().map_err(failed("ask for its size"))?.len()
        };
        match signatures::find(file, held_bytes).map_err(failed("read it"))? {
            Some(signature) => Err(TargetError::Occupied(signature)),
            None => Ok(()),
        }
    }

    /// Makes the device forget what it held, and gives it for writing.
    ///
    /// With `discard` a file becomes one hole, and a block device is discarded. Without, or where
    /// the device cannot do that, only what must not stay is overwritten with zeros: signatures at both ends, superblocks
    /// of an older XFS, and the log.
    ///
    /// # Errors
    /// The device fails.
    pub fn prepare(&mut self, layout: &Layout, discard: bool) -> Result<Arc<dyn BlockDevice>, TargetError> {
        if self.is_truncated {
            self.with_file(|file| file.set_len(0)).map_err(failed("empty it"))?;
            self.is_blank = true;
        }
        if !self.is_block_device {
            let bytes = self.facts.size_bytes;
            self.with_file(|file| file.set_len(bytes)).map_err(failed("set its size"))?;
        }
        if !self.is_blank {
            self.with_file(|file| forget(file, layout, self.facts.size_bytes, discard))
                .map_err(failed("clear it"))?;
        }
        let claimed = self.claimed().and_then(Claimed::try_clone).map_err(failed("open it"))?;
        let options = engine::OpenOptions { writable: true, ..engine::OpenOptions::default() };
        Ok(engine::open_claimed(claimed, &options)?)
    }

    fn with_file(&self, act: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        act(&self.claimed()?.file)
    }

    fn claimed(&self) -> io::Result<&Claimed> {
        self.claimed.as_ref().ok_or_else(|| io::Error::other("it was opened for a dry run"))
    }

    /// Keeps the file that was made: there is a file system in it.
    pub fn keep(mut self) {
        self.is_new = false;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let (true, Some(claimed)) = (self.is_new, &self.claimed) {
            remove(&self.path, &claimed.file);
        }
    }
}

/// Opens an existing file or device exclusively. A dry run only checks it: it refuses what is mounted, as the real run does,
/// but other programs may use it meanwhile.
fn claim(path: &Path, is_dry_run: bool) -> Result<Claimed, TargetError> {
    if !is_dry_run {
        return Ok(Claimed::open(path, OFlags::RDWR, Lock::Exclusive)?);
    }
    match Claimed::open(path, OFlags::RDONLY, Lock::Exclusive) {
        Err(ClaimError::Changing | ClaimError::Reading) => {
            Ok(Claimed::open(path, OFlags::RDONLY, Lock::None)?)
        }
        claimed => Ok(claimed?),
    }
}

fn forget(file: &File, layout: &Layout, size_bytes: u64, discard: bool) -> io::Result<()> {
    if discard && clear::punch(file, 0..size_bytes)? {
        return Ok(());
    }
    let mut ranges = clear::old_superblocks(file, size_bytes);
    ranges.push(0..clear::SIGNATURE_BYTES.min(size_bytes));
    ranges.push(size_bytes.saturating_sub(clear::SIGNATURE_BYTES)..size_bytes);
    ranges.push(layout.must_read_as_zeros());
    ranges.into_iter().try_for_each(|range| clear::zero(file, range))
}

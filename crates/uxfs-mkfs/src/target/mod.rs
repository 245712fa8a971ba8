//! The file or block device that a file system is made on.
//!
//! | module | holds |
//! |---|---|
//! | [`block_device`] | the kernel's information about a block device |
//! | [`clear`] | clearing it |

use std::{
    fs::{self, File, OpenOptions},
    io,
    ops::Range,
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{OFlags, SeekFrom, seek};
use thiserror::Error;
use uxfs_block::{
    claim::{ClaimError, Claimed, Lock},
    device::{BlockDevice, DeviceError},
    engine,
    window::Part,
};
use uxfs_partition::signature::{self, Signature};

mod block_device;
pub mod clear;

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
    /// A partition has the length it has.
    #[error("{asked_bytes} bytes were asked for, and the partition has {length_bytes}")]
    PartTooShort {
        /// The size that was asked for.
        asked_bytes: u64,
        /// What the partition has.
        length_bytes: u64,
    },
    /// The part begins behind the end of the device.
    #[error("it ends after {size_bytes} bytes, and the file system was to begin at byte {start_bytes}")]
    BehindEnd {
        /// Where the part begins.
        start_bytes: u64,
        /// Where the device ends.
        size_bytes: u64,
    },
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
/// that, and then is known by its inode. Goes away again unless it is kept: while it is empty, or once it has been
/// [begun](Reserved::begun). It is not locked: another program may have made a file system in it meanwhile.
#[derive(Debug)]
pub struct Reserved {
    made: Option<(PathBuf, File)>,
    is_begun: bool,
}

impl Reserved {
    /// Makes an empty file at `path`, if there is nothing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(path: &Path) -> Result<Self, TargetError> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => Ok(Self { made: Some((path.to_path_buf(), file)), is_begun: false }),
            // Problems of an existing file are reported when it is opened. A dangling symbolic link exists as well.
            Err(_) if fs::symlink_metadata(path).is_ok() => Ok(Self { made: None, is_begun: false }),
            Err(error) => Err(failed("create it")(error)),
        }
    }

    /// The file, where it was made.
    pub fn file(&self) -> Option<&File> {
        self.made.as_ref().map(|(_, file)| file)
    }

    /// The file system is being made in it, by the [`Target`] that has it locked.
    pub fn begun(&mut self) {
        self.is_begun = true;
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
        let Ok(own) = Claimed::of(file, Lock::Exclusive) else { return };
        if self.is_begun || own.file.metadata().is_ok_and(|found| found.len() == 0) {
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
    /// The part of it that the file system is made in.
    part: Part,
    /// Of that part.
    facts: DeviceFacts,
    is_block_device: bool,
    /// Made by us, and to be removed if no file system comes of it.
    is_new: bool,
    /// Nothing was in it.
    is_blank: bool,
    /// The old contents are removed before anything else.
    is_truncated: bool,
}

impl FileSize {
    /// Whether a part of this length has room for it.
    fn require_room_in(self, length_bytes: u64) -> Result<(), TargetError> {
        match self {
            Self::AtLeast(asked_bytes) | Self::Exactly(asked_bytes) if asked_bytes > length_bytes => {
                Err(TargetError::PartTooShort { asked_bytes, length_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// The length of a part of a device, as far as that goes.
fn part_size(part: Part, device_bytes: u64) -> Result<u64, TargetError> {
    match device_bytes.checked_sub(part.start_bytes) {
        Some(left_bytes) => Ok(part.length_bytes.map_or(left_bytes, |length| length.min(left_bytes))),
        None => Err(TargetError::BehindEnd { start_bytes: part.start_bytes, size_bytes: device_bytes }),
    }
}

impl Target {
    /// Opens the file or device at `path`. In a dry run nothing is created or changed.
    ///
    /// # Errors
    /// It cannot be used, or is in use.
    pub fn open(path: &Path, size: FileSize, is_dry_run: bool) -> Result<Self, TargetError> {
        Self::open_part(path, Part::default(), size, is_dry_run)
    }

    /// As [`open`](Self::open), for a part of it: no byte outside is touched. `size` is that of the part; a file is made longer where nothing
    /// bounds the part.
    ///
    /// # Errors
    /// It cannot be used, or is in use; the part is shorter than asked for, or lies behind the end.
    pub fn open_part(path: &Path, part: Part, size: FileSize, is_dry_run: bool) -> Result<Self, TargetError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => {
                Self::open_block_device(path, part, &metadata, size, is_dry_run)
            }
            Ok(metadata) if metadata.is_file() => Self::open_file(path, part, &metadata, size, is_dry_run),
            Ok(_) => Err(TargetError::WrongType),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::create(path, part, size, is_dry_run)
            }
            Err(error) => Err(failed("open it")(error)),
        }
    }

    fn create(path: &Path, part: Part, size: FileSize, is_dry_run: bool) -> Result<Self, TargetError> {
        let bytes = match size {
            FileSize::Present => return Err(TargetError::Missing),
            FileSize::AtLeast(bytes) | FileSize::Exactly(bytes) => bytes,
        };
        let mut target = Self {
            path: path.to_path_buf(),
            claimed: None,
            part,
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
            target.set_length()?;
        }
        Ok(target)
    }

    fn open_file(
        path: &Path,
        part: Part,
        metadata: &fs::Metadata,
        size: FileSize,
        is_dry_run: bool,
    ) -> Result<Self, TargetError> {
        let claimed = claim(path, is_dry_run)?;
        let now_bytes = metadata.len();
        let bytes = match (size, part.length_bytes) {
            (FileSize::Present, None) => part_size(part, now_bytes)?,
            (FileSize::AtLeast(bytes), None) if part.is_whole() => bytes.max(now_bytes),
            // What lies behind the file system is not its own.
            (FileSize::AtLeast(bytes) | FileSize::Exactly(bytes), None) => bytes,
            (asked, Some(_)) => {
                let length_bytes = part_size(part, now_bytes)?;
                asked.require_room_in(length_bytes)?;
                length_bytes
            }
        };
        Ok(Self {
            path: path.to_path_buf(),
            claimed: Some(claimed),
            part,
            facts: DeviceFacts::file(bytes),
            is_block_device: false,
            is_new: false,
            is_blank: now_bytes <= part.start_bytes,
            // What lies around a part stays.
            is_truncated: part.is_whole() && matches!(size, FileSize::Exactly(_)),
        })
    }

    fn open_block_device(
        path: &Path,
        part: Part,
        metadata: &fs::Metadata,
        size: FileSize,
        is_dry_run: bool,
    ) -> Result<Self, TargetError> {
        let claimed = claim(path, is_dry_run)?;
        let device_bytes = seek(&claimed.file, SeekFrom::End(0))
            .map_err(|errno| failed("ask for its size")(errno.into()))?;
        let bytes = part_size(part, device_bytes)?;
        if part.length_bytes.is_some() {
            size.require_room_in(bytes)?;
        }
        if matches!(size, FileSize::AtLeast(asked) | FileSize::Exactly(asked) if asked > bytes) {
            return Err(TargetError::FixedSize);
        }
        let bytes = match size {
            FileSize::AtLeast(asked) | FileSize::Exactly(asked) if part.start_bytes > 0 => asked,
            _ => bytes,
        };
        Ok(Self {
            path: path.to_path_buf(),
            claimed: Some(claimed),
            part,
            facts: block_device::facts(metadata, bytes),
            is_block_device: true,
            is_new: false,
            is_blank: false,
            is_truncated: false,
        })
    }

    /// The file, where it was made by this.
    pub fn made_file(&self) -> Option<&File> {
        self.claimed.as_ref().filter(|_| self.is_new).map(|claimed| &claimed.file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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
        let start_bytes = self.part.start_bytes;
        let held_bytes = match (self.is_block_device, self.part.length_bytes) {
            (true, _) | (false, Some(_)) => self.facts.size_bytes,
            (false, None) => {
                let length_bytes = file.metadata().map_err(failed("ask for its size"))?.len();
                length_bytes.saturating_sub(start_bytes)
            }
        };
        let read =
            |offset: u64, bytes: &mut [u8]| file.read_exact_at(bytes, start_bytes.saturating_add(offset));
        match signature::find(held_bytes, read).map_err(failed("read it"))? {
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
            self.set_length()?;
        }
        let part = Part { length_bytes: Some(self.facts.size_bytes), ..self.part };
        if !self.is_blank {
            self.with_file(|file| forget(file, layout, part, discard)).map_err(failed("clear it"))?;
        }
        let claimed = self.claimed().and_then(Claimed::try_clone).map_err(failed("open it"))?;
        let options = engine::OpenOptions {
            writable: true,
            start_bytes: part.start_bytes,
            ..engine::OpenOptions::default()
        };
        let device = engine::open_claimed(claimed, &options)?;
        Ok(if self.part.is_whole() { device } else { part.bound(device)? })
    }

    /// Gives a file the length that its part needs. What lies behind a part stays.
    fn set_length(&self) -> Result<(), TargetError> {
        let needed_bytes = self.part.start_bytes.saturating_add(self.facts.size_bytes);
        let set = |file: &File| match !self.part.is_whole() && file.metadata()?.len() >= needed_bytes {
            true => Ok(()),
            false => file.set_len(needed_bytes),
        };
        self.with_file(set).map_err(failed("set its size"))
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

fn forget(file: &File, layout: &Layout, part: Part, discard: bool) -> io::Result<()> {
    let (start_bytes, size_bytes) = (part.start_bytes, part.length_bytes.unwrap_or(0));
    let of_file = |range: Range<u64>| start_bytes + range.start..start_bytes + range.end;
    if discard && clear::punch(file, of_file(0..size_bytes))? {
        return Ok(());
    }
    let mut ranges = clear::old_superblocks(file, start_bytes, size_bytes);
    ranges.push(0..clear::SIGNATURE_BYTES.min(size_bytes));
    ranges.push(size_bytes.saturating_sub(clear::SIGNATURE_BYTES)..size_bytes);
    ranges.push(layout.must_read_as_zeros());
    ranges.into_iter().try_for_each(|range| clear::zero(file, of_file(range)))
}

//! Opening a file or block device that other programs may use at the same time.
//!
//! | used by | kept away by |
//! |---|---|
//! | another uxfs, udev, other programs that take BSD locks | `flock` on the file or device node |
//! | a mount, a volume, another program with `O_EXCL`, on a block device | `O_EXCL` |
//! | a mount, swap space, a loop device that is attached for writing | refused when it is opened ([`busy`]) |
//! | a program that opened the same blocks through another loop device, or the file below one | the locks of all files and devices below loop devices |
//!
//! A lock on a block device that the caller of this program holds, as systemd-repart and `udevadm lock` do for mkfs.xfs, is held
//! for it. Locks belong to the open file: they go when the last descriptor is closed, however the process ends.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{self as system, FlockOperation, Mode, OFlags},
    io::Errno,
};
use thiserror::Error;

use crate::engine::file_kind::open_image;
use crate::{
    busy::{self, Identity, Use},
    lock_holder,
    loop_devices::{self, Layer, LoopDevice},
    write_protection::is_write_protected,
};

/// Which other users a file or device must not have while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lock {
    /// Any are good.
    #[default]
    None,
    /// None that writes and asks for a lock: the image must not change under a reader.
    Shared,
    /// As [`Shared`](Self::Shared), and no mount, swap space or loop device for writing: for a reader that compares
    /// what is written at different times.
    Unused,
    /// None at all that asks for a lock, and no mount, swap space or loop device for writing.
    Exclusive,
}

impl Lock {
    /// Whether users that ask for no lock are refused.
    fn refuses_users(self) -> bool {
        matches!(self, Self::Unused | Self::Exclusive)
    }
}

/// Why it cannot be opened so.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// Mounted there.
    #[error("it is mounted at {} (umount {})", .0.display(), .0.display())]
    Mounted(PathBuf),
    /// As swap space.
    #[error("it is in use as swap space")]
    Swap,
    /// A loop device could write to it.
    #[error("it is attached to {} for writing (losetup -d {} detaches it)", .device.display(), .device.display())]
    Attached {
        /// The loop device.
        device: PathBuf,
    },
    /// Another program has the lock to write.
    #[error("another program is changing it")]
    Changing,
    /// Other programs have locks to read.
    #[error("another program is reading it")]
    Reading,
    /// The kernel, a RAID or another program uses the device.
    #[error("the device is in use")]
    Busy,
    /// The device takes no writes.
    #[error("the device is write-protected")]
    WriteProtected,
    /// The system says no.
    #[error(transparent)]
    System(io::Error),
}

impl From<io::Error> for ClaimError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Errno> for ClaimError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl From<Use> for ClaimError {
    fn from(found: Use) -> Self {
        match found {
            Use::Mounted(place) => Self::Mounted(place),
            Use::Swap => Self::Swap,
            Use::Attached(device) => Self::Attached { device },
        }
    }
}

impl From<ClaimError> for io::Error {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::System(error) => error,
            error @ ClaimError::WriteProtected => {
                Self::new(io::ErrorKind::ReadOnlyFilesystem, error.to_string())
            }
            error => Self::new(io::ErrorKind::ResourceBusy, error.to_string()),
        }
    }
}

/// An open file or block device with its locks.
#[derive(Debug)]
pub struct Claimed {
    /// Itself.
    pub file: File,
    /// The layers below it, held open for the locks.
    below: Vec<File>,
}

/// How long another program may hold a lock before that counts: a short command beside this one is waited for, and so is
/// udev, which locks a device for a moment to look at what has been written.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a loop device that detaches itself may take to do so, after its mount has gone.
const DETACHING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

impl Claimed {
    /// Opens the file or device at `path`; `access` holds the flags of the system call.
    ///
    /// # Errors
    /// It cannot be opened, or has users that `lock` excludes.
    pub fn open(path: &Path, access: OFlags, lock: Lock) -> Result<Self, ClaimError> {
        let is_block_device = std::fs::metadata(path)?.file_type().is_block_device();
        let is_exclusive = lock == Lock::Exclusive;
        if lock.refuses_users() {
            // Before the kernel says of a device only that it is in use.
            refuse_users(&std::fs::metadata(path)?)?;
        }
        let excluding = if is_block_device && is_exclusive { OFlags::EXCL } else { OFlags::empty() };
        let file = match open_image(path, access | excluding) {
            Err(error) if is_exclusive && Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                return Err(ClaimError::Busy);
            }
            result => result?,
        };
        if is_block_device && access & OFlags::RWMODE != OFlags::RDONLY && is_write_protected(&file) {
            return Err(ClaimError::WriteProtected);
        }
        Self::of(file, lock)
    }

    /// Takes the locks for a file that is open already.
    ///
    /// # Errors
    /// It has users that `lock` excludes.
    pub fn of(file: File, lock: Lock) -> Result<Self, ClaimError> {
        let mut below = Vec::new();
        if lock == Lock::None {
            return Ok(Self { file, below });
        }
        let metadata = file.metadata()?;
        let is_block_device = metadata.file_type().is_block_device();
        take_lock(&file, lock)?;
        if is_block_device {
            let loops = loop_devices::attached();
            for layer in loop_devices::layers_below(metadata.rdev(), &loops) {
                below.extend(lock_layer(&layer, lock)?);
            }
        }
        if lock.refuses_users() {
            // With the lock: an attachment or mount that came in between is seen here.
            refuse_users(&metadata)?;
        }
        Ok(Self { file, below })
    }

    /// Keeps all others away that ask for a lock, from now on. They have not changed anything since this was opened with [`Lock::Unused`] or
    /// [`Lock::Shared`].
    ///
    /// # Errors
    /// It has users. The lock is shared then, as before, or gone where the error is [`ClaimError::Changing`].
    pub fn exclude_others(&self) -> Result<(), ClaimError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // One attempt at a time: the shared lock is gone while this waits, and a writer could come and go.
            let is_exclusive = self.files().all(|file| {
                let locked = system::flock(file, FlockOperation::NonBlockingLockExclusive);
                matches!(locked, Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::BADF))
            });
            if is_exclusive {
                return Ok(());
            }
            self.share()?;
            if Instant::now() >= deadline {
                return Err(ClaimError::Reading);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Lets others read again, after [`exclude_others`](Self::exclude_others).
    ///
    /// # Errors
    /// A writer has it, which cannot be while the lock is exclusive.
    pub fn share(&self) -> Result<(), ClaimError> {
        self.files().try_for_each(|file| take_lock(file, Lock::Shared))
    }

    fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.file).chain(&self.below)
    }

    /// The same open file a second time: the locks stay until both have been closed.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let below = self.below.iter().map(File::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { file: self.file.try_clone()?, below })
    }
}

/// The user of a file or device that [`Lock::Unused`] would exclude. `None` also where it cannot be opened.
pub fn user_at(path: &Path) -> Option<ClaimError> {
    match Claimed::open(path, OFlags::RDONLY, Lock::Unused) {
        Ok(_) | Err(ClaimError::System(_)) => None,
        Err(user) => Some(user),
    }
}

/// Refuses a file or device, and what lies below it, with users that ask for no lock.
fn refuse_users(metadata: &Metadata) -> Result<(), ClaimError> {
    let identity = Identity::of(metadata);
    let deadline = Instant::now() + DETACHING;
    loop {
        let loops = loop_devices::attached();
        let Some((found, is_passing)) = user(identity, &loops) else { return Ok(()) };
        if !is_passing || Instant::now() >= deadline {
            return Err(found.into());
        }
        thread::sleep(PAUSE);
    }
}

/// A user, and whether it may be about to go by itself.
fn user(identity: Identity, loops: &[LoopDevice]) -> Option<(Use, bool)> {
    if let Some(found) = busy::find(identity, loops) {
        return Some((found, false));
    }
    let attached = |found: &LoopDevice| (Use::Attached(found.path.clone()), found.detaches_itself);
    let mut on_itself = busy::loop_devices_on(identity, &(0..u64::MAX), None, loops);
    if let Some(found) = on_itself.find(|found| !found.is_read_only) {
        return Some(attached(found));
    }
    let Identity::Block { device } = identity else { return None };
    loop_devices::layers_below(device, loops).iter().find_map(|layer| {
        let mut others = busy::loop_devices_on(layer.identity, &layer.range, Some(layer.above), loops);
        others.find_map(|other| {
            let mount =
                busy::find(Identity::Block { device: other.device }, loops).map(|found| (found, false));
            mount.or_else(|| (!other.is_read_only).then(|| attached(other)))
        })
    })
}

/// Locks what lies below a loop device. A file that cannot be reached (it has been removed, or belongs to another mount
/// namespace) cannot be opened by other programs either, as far as this one can tell.
fn lock_layer(layer: &Layer, lock: Lock) -> Result<Option<File>, ClaimError> {
    let Some(path) = &layer.path else { return Ok(None) };
    if Identity::at(path) != Some(layer.identity) {
        return Ok(None);
    }
    let is_block_device = matches!(layer.identity, Identity::Block { .. });
    let excluding = if is_block_device && lock == Lock::Exclusive { OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | excluding;
    let file = match system::open(path, flags, Mode::empty()) {
        Err(Errno::BUSY) => return Err(ClaimError::Busy),
        Err(_) => return Ok(None),
        Ok(file) => File::from(file),
    };
    take_lock(&file, lock)?;
    Ok(Some(file))
}

/// Whether the program that called this one has locked the block device for it.
fn is_lock_of_caller(file: &File) -> bool {
    let node = file.metadata();
    node.is_ok_and(|node| node.file_type().is_block_device() && lock_holder::is_held_for_us(&node))
}

fn take_lock(file: &File, lock: Lock) -> Result<(), ClaimError> {
    let operation = match lock {
        Lock::None => return Ok(()),
        Lock::Shared | Lock::Unused => FlockOperation::NonBlockingLockShared,
        Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match system::flock(file, operation) {
            Err(Errno::WOULDBLOCK) if is_lock_of_caller(file) => return Ok(()),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                let shares = system::flock(file, FlockOperation::NonBlockingLockShared).is_ok();
                return Err(if shares { ClaimError::Reading } else { ClaimError::Changing });
            }
            // Some network file systems have no such locks, and others want files that are open for writing.
            Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::BADF) => return Ok(()),
            result => return Ok(result?),
        }
    }
}

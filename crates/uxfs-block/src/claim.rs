//! Opening a file or block device that other programs may use at the same time.
//!
//! | used by | kept away by |
//! |---|---|
//! | another uxfs, udev, other programs that take BSD locks | `flock` on the file or device node |
//! | another uxfs, while a shared `flock` becomes exclusive | the lock of [`presence`] |
//! | a mount, a volume, another program with `O_EXCL`, on a block device | `O_EXCL` |
//! | a mount, swap space, a loop device that is attached for writing | refused when it is opened ([`busy`]) |
//! | a program that opened the same blocks through another loop device, or the file below one | the locks of all files and devices below loop devices |
//!
//! A lock on a block device that the caller of this program holds, as systemd-repart and `udevadm lock` do for mkfs.xfs, is held
//! for it. Locks belong to the open file: they go when the last descriptor is closed, however the process ends.
//!
//! # From a shared lock to an exclusive one
//! `flock` does not convert a lock in one step: it gives the lock back, and then takes the other one. A conversion that is refused leaves
//! none, and even one that is not leaves a moment in which a writer can come and go. So [`Claimed::exclude_others`] and [`Claimed::share`]
//! keep to this:
//!
//! 1. A claim takes the lock of [`presence`] on a file before it takes `flock` there, and keeps it as long as the file is open.
//! 2. Only a claim that is alone by that lock converts its `flock`. That lock is converted in one step: while another claim has the file, this
//!    one is refused with both its locks untouched, and while `flock` is converted no other claim comes.
//! 3. If the conversion fails after all (another program takes `flock` alone, unseen by [`require_alone`]), the lock is lost: the claim
//!    records that and never becomes exclusive again.
//! 4. A reader that becomes a writer compares its [`Stamp`](crate::stamp::Stamp) with the one taken under the exclusive lock. This detects
//!    writers without locks and writers during the conversion.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
    presence::{self, Attempt},
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
    /// A conversion of the lock has lost it.
    is_lost: Arc<AtomicBool>,
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
            refuse_users(&std::fs::metadata(path)?, None)?;
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
        let is_lost = Arc::default();
        if lock == Lock::None {
            return Ok(Self { file, below, is_lost });
        }
        let metadata = file.metadata()?;
        let is_block_device = metadata.file_type().is_block_device();
        take_lock(&file, lock)?;
        if is_block_device {
            let loops = loop_devices::attached();
            // One that reads and may write later must be able to be alone.
            let access = system::fcntl_getfl(&file).unwrap_or(OFlags::empty()) & OFlags::RWMODE;
            let may_convert = lock != Lock::Exclusive && access == OFlags::RDWR;
            for layer in loop_devices::layers_below(metadata.rdev(), &loops) {
                below.extend(lock_layer(&layer, lock, may_convert)?);
            }
        }
        if lock.refuses_users() {
            // With the lock: an attachment or mount that came in between is seen here.
            refuse_users(&metadata, None)?;
        }
        Ok(Self { file, below, is_lost })
    }

    /// Keeps all others away that ask for a lock, from now on. Call [`require_alone`] first, in a process that may look.
    ///
    /// # Errors
    /// [`ClaimError::Reading`]: it has users, and the lock is shared as before. [`ClaimError::Changing`]: the lock was lost, now or before; others
    /// may have changed the contents, and no later call succeeds.
    pub fn exclude_others(&self) -> Result<(), ClaimError> {
        if self.is_lost.load(Ordering::Acquire) {
            return Err(ClaimError::Changing);
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.become_alone() {
            if Instant::now() >= deadline {
                return Err(ClaimError::Reading);
            }
            thread::sleep(PAUSE);
        }
        // Where a program ends, the kernel takes its locks one after the other: that of presence before the other one.
        thread::sleep(PAUSE);
        let is_exclusive = self.files().all(|file| convert(file, FlockOperation::NonBlockingLockExclusive));
        if is_exclusive {
            return Ok(());
        }
        self.is_lost.store(true, Ordering::Release);
        self.share()
    }

    /// Lets others read again, after [`exclude_others`](Self::exclude_others).
    ///
    /// # Errors
    /// [`ClaimError::Changing`]: the lock was lost, now or before.
    pub fn share(&self) -> Result<(), ClaimError> {
        for file in self.files() {
            if !convert(file, FlockOperation::NonBlockingLockShared) {
                self.is_lost.store(true, Ordering::Release);
                // Keep later writers away.
                let _ = take_lock(file, Lock::Shared);
            }
        }
        self.files().for_each(|file| _ = presence::be_there(file));
        if self.is_lost.load(Ordering::Acquire) { Err(ClaimError::Changing) } else { Ok(()) }
    }

    /// Whether no other claim has any of the files, and none can come.
    fn become_alone(&self) -> bool {
        let is_alone = self.files().all(|file| presence::be_alone(file) != Attempt::Refused);
        if !is_alone {
            self.files().for_each(|file| _ = presence::be_there(file));
        }
        is_alone
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.file).chain(&self.below)
    }

    /// The same open file a second time: the locks stay until both have been closed.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let below = self.below.iter().map(File::try_clone).collect::<io::Result<_>>()?;
        Ok(Self { file: self.file.try_clone()?, below, is_lost: Arc::clone(&self.is_lost) })
    }
}

/// The user of a file or device that [`Lock::Unused`] would exclude. `None` also where it cannot be opened.
pub fn user_at(path: &Path) -> Option<ClaimError> {
    match Claimed::open(path, OFlags::RDONLY, Lock::Unused) {
        Ok(_) | Err(ClaimError::System(_)) => None,
        Err(user) => Some(user),
    }
}

/// Refuses a file or device with other users than the process `holder`, which has claimed it, and the FUSE mount with this device number.
/// Users are what [`Lock::Unused`] refuses, and holders of a `flock` on the file or a file below it.
///
/// # Errors
/// It has such users.
pub fn require_alone(metadata: &Metadata, holder: u32, own_mount: Option<u64>) -> Result<(), ClaimError> {
    refuse_users(metadata, own_mount)?;
    let deadline = Instant::now() + PATIENCE;
    while is_locked_besides(metadata, holder) {
        if Instant::now() >= deadline {
            return Err(ClaimError::Reading);
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn is_locked_besides(metadata: &Metadata, holder: u32) -> bool {
    let is_locked = |node: &Metadata| lock_holder::is_held_besides(node, holder);
    let is_layer_locked = |layer: &Layer| {
        let node = layer.path.as_ref().and_then(|path| std::fs::metadata(path).ok());
        node.is_some_and(|node| Identity::of(&node) == layer.identity && is_locked(&node))
    };
    is_locked(metadata)
        || metadata.file_type().is_block_device()
            && loop_devices::layers_below(metadata.rdev(), &loop_devices::attached())
                .iter()
                .any(is_layer_locked)
}

/// Refuses a file or device if it, or a layer below it, has users that take no lock. `own_mount`: device number of a FUSE mount to ignore.
///
/// # Errors
/// It has such users.
pub fn refuse_users(metadata: &Metadata, own_mount: Option<u64>) -> Result<(), ClaimError> {
    let identity = Identity::of(metadata);
    let deadline = Instant::now() + DETACHING;
    loop {
        let loops = loop_devices::attached();
        let Some((found, is_passing)) = user(identity, &loops, own_mount) else { return Ok(()) };
        if !is_passing || Instant::now() >= deadline {
            return Err(found.into());
        }
        thread::sleep(PAUSE);
    }
}

/// A user, and whether it may be about to go by itself.
fn user(identity: Identity, loops: &[LoopDevice], own_mount: Option<u64>) -> Option<(Use, bool)> {
    if let Some(found) = busy::find(identity, loops, own_mount) {
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
            let mount = busy::find(Identity::Block { device: other.device }, loops, own_mount);
            mount.map(|found| (found, false)).or_else(|| (!other.is_read_only).then(|| attached(other)))
        })
    })
}

/// Locks what lies below a loop device. A file that cannot be reached (it has been removed, or belongs to another mount
/// namespace) cannot be opened by other programs either, as far as this one can tell. `may_convert`: it is opened for writing where that is
/// possible, for the lock alone.
fn lock_layer(layer: &Layer, lock: Lock, may_convert: bool) -> Result<Option<File>, ClaimError> {
    let Some(path) = &layer.path else { return Ok(None) };
    if Identity::at(path) != Some(layer.identity) {
        return Ok(None);
    }
    let is_block_device = matches!(layer.identity, Identity::Block { .. });
    let excluding = if is_block_device && lock == Lock::Exclusive { OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | excluding;
    let writable = || match may_convert && !is_block_device {
        true => system::open(path, flags | OFlags::RDWR, Mode::empty()),
        false => Err(Errno::ACCESS),
    };
    let opened = writable().or_else(|_| system::open(path, flags | OFlags::RDONLY, Mode::empty()));
    let file = match opened {
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

/// Converts a lock, where the file has such locks. Where that is refused it is lost.
fn convert(file: &File, operation: FlockOperation) -> bool {
    matches!(system::flock(file, operation), Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::BADF))
}

fn take_lock(file: &File, lock: Lock) -> Result<(), ClaimError> {
    let operation = match lock {
        Lock::None => return Ok(()),
        Lock::Shared | Lock::Unused => FlockOperation::NonBlockingLockShared,
        Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let deadline = Instant::now() + PATIENCE;
    while presence::be_there(file) == Attempt::Refused {
        if Instant::now() >= deadline {
            return Err(ClaimError::Changing);
        }
        thread::sleep(PAUSE);
    }
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

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;

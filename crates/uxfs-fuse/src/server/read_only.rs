//! What a mount for reading refuses, and how it begins to take changes.
//!
//! The kernel refuses changes of a mount that it knows as read-only; but mount(2) can make it writable at any time, without a word to the server.
//! The device of this server then still holds back all that is written, and throws it away in the end: nothing may be accepted that would be lost.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::{file_system_ioctls, ioctls};
use crate::protocol::{flags::AccessMode, request::Operation};

/// Gets the image ready for changes, or refuses with the number of the reason.
pub type Readiness = Box<dyn FnMut() -> Result<(), Errno> + Send>;

/// Whether a mount takes changes.
pub struct Access {
    is_for_reading: AtomicBool,
    readiness: Mutex<Readiness>,
}

impl Access {
    /// Of a mount that is for reading until `readiness` has been asked, or for changes from its beginning.
    #[must_use]
    pub fn new(is_for_reading: bool, readiness: Readiness) -> Self {
        Self { is_for_reading: AtomicBool::new(is_for_reading), readiness: Mutex::new(readiness) }
    }

    /// Of a mount that stays as it is.
    #[must_use]
    pub fn fixed(is_for_reading: bool) -> Self {
        Self::new(is_for_reading, Box::new(|| Err(Errno::ROFS)))
    }

    /// Whether nothing may be changed, whatever the kernel lets through.
    #[must_use]
    pub fn is_for_reading(&self) -> bool {
        self.is_for_reading.load(Ordering::Acquire)
    }

    /// Takes changes from now on.
    ///
    /// # Errors
    /// The image cannot be changed.
    pub fn take_changes(&self) -> Result<(), Errno> {
        let readiness = &mut *self.readiness.lock();
        if self.is_for_reading() {
            readiness()?;
            self.is_for_reading.store(false, Ordering::Release);
        }
        Ok(())
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("is_for_reading", &self.is_for_reading).finish_non_exhaustive()
    }
}

/// Whether an operation changes something, or prepares for that. All are named: one that comes later must be placed.
pub fn is_change(operation: &Operation<'_>) -> bool {
    use Operation as O;
    match operation {
        O::SetAttributes(_)
        | O::SymbolicLink(_)
        | O::MakeNode(_)
        | O::MakeDirectory(_)
        | O::Create(_)
        | O::TemporaryFile(_)
        | O::Link(_)
        | O::Unlink(_)
        | O::RemoveDirectory(_)
        | O::Rename(_)
        | O::Rename2(_)
        | O::Write(_)
        | O::Fallocate(_)
        | O::CopyFileRange(_)
        | O::CopyFileRange64(_)
        | O::SetExtendedAttribute(_)
        | O::RemoveExtendedAttribute(_) => true,
        O::Open(open) => AccessMode::of(open.flags).can_write(),
        O::Ioctl(ioctl) => {
            ioctls::CHANGES.contains(&ioctl.command) || file_system_ioctls::CHANGES.contains(&ioctl.command)
        }
        O::Initialize(_)
        | O::Lookup(_)
        | O::GetAttributes(_)
        | O::Statx(_)
        | O::StatFileSystem
        | O::ReadLink
        | O::OpenDirectory(_)
        | O::Read(_)
        | O::Release(_)
        | O::ReleaseDirectory(_)
        | O::Fsync(_)
        | O::FsyncDirectory(_)
        | O::SyncFileSystem
        | O::Seek(_)
        | O::ReadDirectory(_)
        | O::ReadDirectoryPlus(_)
        | O::GetExtendedAttribute(_)
        | O::ListExtendedAttributes(_)
        | O::Destroy
        | O::GetLock(_)
        | O::SetLock(_)
        | O::SetLockWait(_)
        | O::Access(_)
        | O::Flush(_)
        | O::Poll(_)
        | O::BlockMap(_)
        | O::Interrupt(_)
        | O::Forget(_)
        | O::BatchForget(_)
        | O::NotifyReply(_)
        | O::Unknown(..) => false,
    }
}

//! A mount for reading, of an image that can be written: its log is recovered into the image, and it can be made to take changes.
//!
//! ```text
//! the image, open for writing, its lock shared with other readers
//!     │ all that is written is held back (DeferredDevice)
//!     ├─ the log was dirty, and no other program has the image open ──▶ what recovery wrote goes to the image
//!     └─ remount,rw ──▶ the lock is exclusive, what is held back goes to the image, and nothing is held back any more
//! ```
//!
//! What this process has read it keeps, and it writes to the image by that. So nothing is written unless all of this holds:
//!
//! 1. The process that is not confined sees no mount, swap space, loop device for writing and lock of another program on the image, nor on what lies
//!    below it (`Look` in `supervisor`).
//! 2. The lock is exclusive, and was never lost (`uxfs_block::claim`).
//! 3. With the lock exclusive, sizes and times of the image file, or of the files below the loop device, are those from before the image was
//!    read: no other program has written meanwhile, with or without a lock ([`Unchanged`]).
//!
//! Where 2 or 3 has failed once, that stays so until the image is mounted again.
//!
//! Where the image cannot be opened for writing, and with `norecovery`, it is opened for reading: an overlay is thrown away in the end.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;
use uxfs_block::{
    claim::{ClaimError, Lock},
    device::{BlockDevice, DeviceError, DeviceOperation},
    engine::{OpenOptions, deferred::DeferredDevice, open, overlay::OverlayDevice},
    stamp::Stamp,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_fuse::{
    link::{Link, Message},
    mounting::{StaysReadOnly, direct, options::FuseMountOptions},
    server::read_only::Readiness,
};

use super::confined::Opened;

/// The other process looks for a few seconds at most.
const LONGEST_LOOK: Duration = Duration::from_secs(30);
const WAIT_MILLISECONDS: u32 = 100;

/// The image, and how its files looked when only this process had written to them.
#[derive(Clone)]
pub(super) struct Unchanged {
    /// The whole image file or device.
    image: Arc<dyn BlockDevice>,
    stamp: Option<Stamp>,
}

impl Unchanged {
    fn since_now(image: &Arc<dyn BlockDevice>) -> Self {
        Self { image: Arc::clone(image), stamp: image.claimed().map(Stamp::of) }
    }

    fn is_so(&self) -> bool {
        self.stamp == self.image.claimed().map(Stamp::of)
    }

    /// As [`is_so`](Self::is_so), whatever became of name and permissions.
    pub fn has_same_contents(&self) -> bool {
        match (&self.stamp, self.image.claimed().map(Stamp::of)) {
            (Some(then), Some(now)) => now.has_same_contents(then),
            _ => true,
        }
    }
}

/// An image that is mounted for reading.
pub(super) struct ForReading {
    image: Arc<dyn BlockDevice>,
    unchanged: Unchanged,
    /// The other process was asked, and has not answered: a later answer could be an earlier one.
    was_asked_in_vain: bool,
    /// The file system in it, where the image is open for writing.
    held: Option<Arc<DeferredDevice>>,
    block_device: Option<Claim>,
    has_no_recovery: bool,
}

/// What keeps the kernel's users from a block device.
struct Claim {
    /// Held until the device can be mounted; `None` where there is another user.
    exclusive: Option<File>,
    /// The kernel claims it for the mount.
    is_kept_by_mount: bool,
}

/// Opens the image without reading it, read-write if requested and possible. Returns the device and whether it is writable.
///
/// # Errors
/// It cannot be opened for reading, or is in use.
pub(super) fn open_image(
    image: &Path,
    options: &FuseMountOptions,
    open_options: OpenOptions,
) -> Result<(Arc<dyn BlockDevice>, bool), DeviceError> {
    let to_read = OpenOptions { writable: false, lock: Lock::Unused, ..open_options };
    if open_options.writable && !options.ignores_log {
        match open(image, &OpenOptions { writable: true, ..to_read }) {
            Ok(device) => return Ok((device, true)),
            Err(error) if error.source.kind() == io::ErrorKind::ResourceBusy => return Err(error),
            Err(_) => {}
        }
    }
    open(image, &to_read).map(|device| (device, false))
}

impl ForReading {
    /// Before this process is confined: later nothing can be opened. `None` for a mount that takes changes.
    pub fn new(image: &Arc<dyn BlockDevice>, path: &Path, options: &FuseMountOptions) -> Option<Self> {
        if !options.is_read_only {
            return None;
        }
        let is_block_device = fs::metadata(path).is_ok_and(|status| status.file_type().is_block_device());
        let exclusively = || {
            let flags = OFlags::EXCL.bits().cast_signed();
            File::options().read(true).custom_flags(flags).open(path).ok()
        };
        let block_device = is_block_device.then(|| Claim {
            exclusive: exclusively(),
            is_kept_by_mount: direct::is_block_device_mount(path, options),
        });
        Some(Self {
            image: Arc::clone(image),
            unchanged: Unchanged::since_now(image),
            was_asked_in_vain: false,
            held: None,
            block_device,
            has_no_recovery: options.ignores_log,
        })
    }

    /// The device on which the file system is mounted: nothing that is written there reaches `device`, but for what is said here.
    pub fn device(&mut self, device: Arc<dyn BlockDevice>, is_writable: bool) -> Arc<dyn BlockDevice> {
        if !is_writable {
            return Arc::new(OverlayDevice::new(device));
        }
        let held = Arc::new(DeferredDevice::new(device));
        self.held = Some(Arc::clone(&held));
        held
    }

    /// Writes what recovery wrote to the image. Others that read it keep it as it is; then why is given.
    ///
    /// # Errors
    /// Another program changes the image.
    pub fn write_recovered(&mut self, link: &Link) -> Result<Option<String>, DeviceError> {
        let Some(held) = self.held.clone() else { return Ok(Some("the image cannot be written".to_owned())) };
        if self.block_device.as_ref().is_some_and(|claim| claim.exclusive.is_none()) {
            return Ok(Some(ClaimError::Busy.to_string()));
        }
        match self.exclude_others(link) {
            Ok(()) => {}
            Err(error @ ClaimError::Changing) => return Err(failed(error)),
            Err(error) => return Ok(Some(error.to_string())),
        }
        let written = held.write_held();
        // Before others may have the lock.
        self.unchanged = Unchanged::since_now(&self.image);
        self.image.claimed().map_or(Ok(()), |claimed| claimed.share()).map_err(failed)?;
        Ok(written.err().map(|error| error.to_string()))
    }

    /// By the three rules of the module.
    ///
    /// # Errors
    /// [`ClaimError::Changing`]: the image may have changed, and must not be written any more. Others: it has users, and the lock is shared.
    fn exclude_others(&mut self, link: &Link) -> Result<(), ClaimError> {
        // First: one that has changed it, and still has it, is named.
        if !self.is_alone(link) {
            return Err(ClaimError::Reading);
        }
        if !self.unchanged.is_so() {
            return Err(ClaimError::Changing);
        }
        let Some(claimed) = self.image.claimed() else { return Ok(()) };
        claimed.exclude_others()?;
        if self.unchanged.is_so() { Ok(()) } else { claimed.share().and(Err(ClaimError::Changing)) }
    }

    /// Asks the process that may look at the machine.
    fn is_alone(&mut self, link: &Link) -> bool {
        if self.was_asked_in_vain || link.send(Message::MayChange, &[]).is_err() {
            return false;
        }
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_LOOK {
            match link.wait(WAIT_MILLISECONDS) {
                Ok(false) => {}
                Ok(true) => return matches!(link.receive(), Ok(Some((Message::Alone, _)))),
                Err(_) => break,
            }
        }
        self.was_asked_in_vain = true;
        false
    }

    /// Detects later whether another program has changed the image.
    pub fn unchanged(&self) -> Unchanged {
        self.unchanged.clone()
    }

    /// Lets the kernel claim the device for the mount.
    pub fn let_mount(&mut self) {
        if let Some(claim) = &mut self.block_device {
            claim.exclusive = None;
        }
    }

    /// Why it cannot take changes later; `None` where it can.
    pub fn refusal(&self, file_system: &FileSystem, opened: &Opened) -> Option<StaysReadOnly> {
        let sector_bytes = file_system.geometry().sector_size_bytes;
        let cannot_write = self.held.as_ref().is_none_or(|held| {
            let is_aligned = sector_bytes.is_multiple_of(held.alignment().offset_bytes);
            !is_aligned || self.block_device.as_ref().is_some_and(|claim| !claim.is_kept_by_mount)
        });
        match opened.is_without_log {
            _ if opened.has_unknown_features => Some(StaysReadOnly::Features),
            _ if self.has_no_recovery => Some(StaysReadOnly::WithoutLog),
            _ if cannot_write => Some(StaysReadOnly::OpenedToRead),
            // What cannot be written was shown by its recovered log.
            true if opened.recovered.is_some() => Some(StaysReadOnly::OpenedToRead),
            true => Some(StaysReadOnly::Damaged),
            false => None,
        }
    }

    /// What a remount asks.
    pub fn readiness(mut self, refusal: Option<StaysReadOnly>, link: &Arc<Link>) -> Readiness {
        let link = Arc::clone(link);
        Box::new(move || {
            self.take_changes(refusal, &link).map_err(StaysReadOnly::errno)?;
            // Where the other process is gone, the mount ends.
            let _ = link.send(Message::TakesChanges, &[]);
            Ok(())
        })
    }

    fn take_changes(&mut self, refusal: Option<StaysReadOnly>, link: &Link) -> Result<(), StaysReadOnly> {
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let held = self.held.clone().ok_or(StaysReadOnly::OpenedToRead)?;
        self.exclude_others(link).map_err(|error| match error {
            ClaimError::Changing => {
                // The supervisor reports it at the end.
                let _ = link.send(Message::WasChanged, &[]);
                StaysReadOnly::Changed
            }
            _ => StaysReadOnly::InUse,
        })?;
        let begun = self.image.check_length().and_then(|()| held.begin());
        begun.map_err(|_| {
            // The lock is exclusive, so that no writer can have it.
            let _ = self.image.claimed().map(|claimed| claimed.share());
            StaysReadOnly::Failed
        })
    }
}

fn failed(error: ClaimError) -> DeviceError {
    let operation = DeviceOperation::Open;
    DeviceError { operation, offset_bytes: 0, length_bytes: 0, source: error.into() }
}

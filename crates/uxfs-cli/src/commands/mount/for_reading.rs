//! A mount for reading, of an image that can be written: its log is recovered into the image, and it can be made to take changes.
//!
//! ```text
//! the image, open for writing, its lock shared with other readers
//!     │ all that is written is held back (DeferredDevice)
//!     ├─ the log was dirty, and no other program has the image open ──▶ what recovery wrote goes to the image
//!     └─ remount,rw ──▶ the lock is exclusive, what is held back goes to the image, and nothing is held back any more
//! ```
//!
//! Where the image cannot be opened for writing, and with `norecovery`, it is opened for reading: an overlay is thrown away in the end.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

use rustix::{fs::OFlags, io::Errno};
use uxfs_block::{
    claim::{ClaimError, Lock},
    device::{BlockDevice, DeviceError, DeviceOperation},
    engine::{OpenOptions, deferred::DeferredDevice, open, overlay::OverlayDevice},
};
use uxfs_fuse::{
    link::{Link, Message},
    mounting::{direct, options::FuseMountOptions},
    server::read_only::Readiness,
};

/// An image that is mounted for reading.
pub(super) struct ForReading {
    /// The whole image file or device.
    image: Arc<dyn BlockDevice>,
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
    pub fn write_recovered(&self) -> Result<Option<String>, DeviceError> {
        let Some(held) = &self.held else { return Ok(Some("the image cannot be written".to_owned())) };
        if self.block_device.as_ref().is_some_and(|claim| claim.exclusive.is_none()) {
            return Ok(Some(ClaimError::Busy.to_string()));
        }
        match self.exclude_others() {
            Ok(()) => {}
            Err(error @ ClaimError::Changing) => return Err(failed(error)),
            Err(error) => return Ok(Some(error.to_string())),
        }
        let written = held.write_held();
        self.image.claimed().map_or(Ok(()), |claimed| claimed.share()).map_err(failed)?;
        Ok(written.err().map(|error| error.to_string()))
    }

    fn exclude_others(&self) -> Result<(), ClaimError> {
        self.image.claimed().map_or(Ok(()), |claimed| claimed.exclude_others())
    }

    /// Lets the kernel claim the device for the mount.
    pub fn let_mount(&mut self) {
        if let Some(claim) = &mut self.block_device {
            claim.exclusive = None;
        }
    }

    /// Why it cannot take changes later; `None` where it can.
    pub fn refusal(&self, sector_bytes: u32, is_without_log: bool, is_recovered: bool) -> Option<Errno> {
        let cannot_write = self.held.as_ref().is_none_or(|held| {
            let is_aligned = sector_bytes.is_multiple_of(held.alignment().offset_bytes);
            !is_aligned || self.block_device.as_ref().is_some_and(|claim| !claim.is_kept_by_mount)
        });
        match is_without_log {
            _ if self.has_no_recovery => Some(Errno::OPNOTSUPP),
            _ if cannot_write => Some(Errno::ROFS),
            // What cannot be written was shown by its recovered log.
            true if is_recovered => Some(Errno::ROFS),
            true => Some(Errno::UCLEAN),
            false => None,
        }
    }

    /// What a remount asks.
    pub fn readiness(self, refusal: Option<Errno>, link: &Arc<Link>) -> Readiness {
        let link = Arc::clone(link);
        Box::new(move || {
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            let held = self.held.as_ref().ok_or(Errno::ROFS)?;
            self.exclude_others().map_err(|_| Errno::BUSY)?;
            let begun = self.image.check_length().and_then(|()| held.begin());
            if begun.is_err() {
                // The lock is exclusive, so that no writer can have it.
                let _ = self.image.claimed().map(|claimed| claimed.share());
                return Err(Errno::IO);
            }
            // Where the other process is gone, the mount ends.
            let _ = link.send(Message::TakesChanges, &[]);
            Ok(())
        })
    }
}

fn failed(error: ClaimError) -> DeviceError {
    let operation = DeviceOperation::Open;
    DeviceError { operation, offset_bytes: 0, length_bytes: 0, source: error.into() }
}

//! A device under a file system that is changed in bulk mode: before the first write its superblock says that it is not
//! finished, so that a change that is cut off in the middle leaves nothing that looks whole.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use uxfs_block::{
    aligned_buffer::AlignedBuffer,
    device::{BlockDevice, DeviceError, DeviceOperation, WriteSegment},
    device_wrapper::DeviceWrapper,
};
use uxfs_format::{field_table::OnDisk, geometry::Geometry, seal::seal, superblock::Superblock};

/// Passes everything on, and marks the superblock before the first change.
#[derive(Debug)]
pub struct Unfinished {
    device: Arc<dyn BlockDevice>,
    geometry: Geometry,
    is_marked: AtomicBool,
    marking: Mutex<()>,
}

impl Unfinished {
    /// Around the device of a file system that is finished so far.
    pub fn new(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> Self {
        let geometry = Geometry::new(superblock);
        Self { device, geometry, is_marked: AtomicBool::new(false), marking: Mutex::default() }
    }

    #[inline]
    fn mark(&self) -> Result<(), DeviceError> {
        if self.is_marked.load(Ordering::Acquire) { Ok(()) } else { self.mark_now() }
    }

    #[cold]
    fn mark_now(&self) -> Result<(), DeviceError> {
        let _one = self.marking.lock();
        if self.is_marked.load(Ordering::Acquire) {
            return Ok(());
        }
        let length = self.geometry.sector_size_bytes;
        let mut sector = AlignedBuffer::page_aligned(length as usize).map_err(|source| DeviceError {
            operation: DeviceOperation::Write,
            offset_bytes: 0,
            length_bytes: length.into(),
            source,
        })?;
        self.device.read(0, &mut sector)?;
        if let Some(superblock) = Superblock::prefix_of_mut(&mut sector) {
            superblock.in_progress = 1;
        }
        seal(&mut sector, None, &self.geometry);
        self.device.write(0, &sector)?;
        // The mark must not come after what it is for.
        self.device.flush()?;
        self.is_marked.store(true, Ordering::Release);
        Ok(())
    }
}

impl DeviceWrapper for Unfinished {
    type Inner = Arc<dyn BlockDevice>;

    fn inner(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    fn before_write(&self, _: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        self.mark()
    }

    fn before_discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.mark()
    }

    fn before_share(&self) -> bool {
        self.mark().is_ok()
    }
}

//! A part of a device as a device: a partition of a disk.
//!
//! Invariant: no request reaches a byte of the disk outside the part.

use std::{os::fd::BorrowedFd, path::Path, sync::Arc};

use crate::{
    device::{
        Alignment, BlockDevice, DeviceError, DeviceOperation, Identity, ReadSegment, Segment, WriteSegment,
    },
    engine::{self, OpenOptions, hole_filler::HoleFiller},
};

/// Which part of a disk or of its image holds a file system. All of it by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Where it begins.
    pub start_bytes: u64,
    /// How long it is; all that follows where nothing bounds it.
    pub length_bytes: Option<u64>,
}

impl Part {
    /// Whether it is all of the disk.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::default()
    }

    /// Opens this part of an image.
    ///
    /// # Errors
    /// The image cannot be opened, or is shorter.
    pub fn open(self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        let device = engine::open(path, &OpenOptions { start_bytes: self.start_bytes, ..*options })?;
        self.bound(device)
    }

    /// This part of a device.
    ///
    /// # Errors
    /// The device is shorter.
    pub fn of(self, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        if self.is_whole() {
            return Ok(device);
        }
        let start_bytes = self.start_bytes.min(device.size_bytes());
        let length_bytes = self.length_bytes.unwrap_or(device.size_bytes() - start_bytes);
        Ok(Arc::new(Window::new(device, start_bytes, length_bytes)?))
    }

    /// The part of a device that begins where this part does.
    ///
    /// # Errors
    /// It is shorter.
    pub fn bound(self, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        match self.length_bytes {
            Some(length_bytes) => Ok(Arc::new(Window::new(device, 0, length_bytes)?)),
            None => Ok(device),
        }
    }
}

/// A part of another device.
#[derive(Debug)]
pub struct Window {
    inner: Arc<dyn BlockDevice>,
    start_bytes: u64,
    length_bytes: u64,
}

impl Window {
    /// The part of `inner` that begins at a byte and has a length.
    ///
    /// # Errors
    /// It does not lie within `inner`, or begins where requests of that cannot.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        start_bytes: u64,
        length_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let operation = DeviceOperation::Open;
        DeviceError::check_range(operation, start_bytes, length_bytes, inner.size_bytes())?;
        let failed = |source| DeviceError { operation, offset_bytes: start_bytes, length_bytes, source };
        inner.alignment().check_start(start_bytes).map_err(failed)?;
        Ok(Self { inner, start_bytes, length_bytes })
    }

    /// Where a range lies in the device inside.
    fn position(
        &self,
        operation: DeviceOperation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<u64, DeviceError> {
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.length_bytes)?;
        Ok(self.start_bytes + offset_bytes)
    }

    /// An error as users of the part see it.
    fn as_seen(&self, error: DeviceError) -> DeviceError {
        DeviceError { offset_bytes: error.offset_bytes.saturating_sub(self.start_bytes), ..error }
    }

    fn place<S: Segment>(&self, operation: DeviceOperation, segment: &S) -> Result<u64, DeviceError> {
        self.position(operation, segment.offset_bytes(), segment.bytes().len() as u64)
    }
}

impl BlockDevice for Window {
    fn size_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn alignment(&self) -> Alignment {
        self.inner.alignment()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn identity(&self) -> Option<Identity> {
        let identity = self.inner.identity()?;
        Some(Identity { start_bytes: identity.start_bytes + self.start_bytes, ..identity })
    }

    fn engine(&self) -> &'static str {
        self.inner.engine()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let position = self.position(DeviceOperation::Read, offset_bytes, buffer.len() as u64)?;
        self.inner.read(position, buffer).map_err(|error| self.as_seen(error))
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        for segment in segments.iter() {
            self.place(DeviceOperation::Read, segment)?;
        }
        segments.iter_mut().for_each(|segment| segment.offset_bytes += self.start_bytes);
        let done = self.inner.read_batch(segments);
        segments.iter_mut().for_each(|segment| segment.offset_bytes -= self.start_bytes);
        done.map_err(|error| self.as_seen(error))
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let position = self.position(DeviceOperation::Write, offset_bytes, bytes.len() as u64)?;
        self.inner.write(position, bytes).map_err(|error| self.as_seen(error))
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        let placed = segments.iter().map(|segment| {
            let offset_bytes = self.place(DeviceOperation::Write, segment)?;
            Ok(WriteSegment { offset_bytes, bytes: segment.bytes })
        });
        let placed = placed.collect::<Result<Vec<_>, DeviceError>>()?;
        self.inner.write_batch(&placed).map_err(|error| self.as_seen(error))
    }

    fn share_from_file(
        &self,
        file: BorrowedFd<'_>,
        file_offset_bytes: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        let position = self.position(DeviceOperation::Write, offset_bytes, length_bytes).ok()?;
        self.inner.share_from_file(file, file_offset_bytes, position, length_bytes)
    }

    fn lend(
        &self,
        offset_bytes: u64,
        length_bytes: usize,
        pipe: BorrowedFd<'_>,
    ) -> Option<Result<usize, DeviceError>> {
        match self.position(DeviceOperation::Read, offset_bytes, length_bytes as u64) {
            Ok(position) => {
                let lent = self.inner.lend(position, length_bytes, pipe)?;
                Some(lent.map_err(|error| self.as_seen(error)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn hole_filler(&self) -> Option<HoleFiller<'_>> {
        Some(self.inner.hole_filler()?.moved_to(self.start_bytes))
    }

    fn check_length(&self) -> Result<(), DeviceError> {
        self.inner.check_length()
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let position = self.position(DeviceOperation::Discard, offset_bytes, length_bytes)?;
        self.inner.discard(position, length_bytes).map_err(|error| self.as_seen(error))
    }
}

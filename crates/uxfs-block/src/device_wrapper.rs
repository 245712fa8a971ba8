//! Devices around another device: what they do before a request, and nothing else.

use std::{fmt, os::fd::BorrowedFd, sync::Arc};

use crate::{
    claim::Claimed,
    device::{Alignment, BlockDevice, DeviceError, Identity, ReadSegment, WriteSegment, contiguous_runs},
    engine::hole_filler::HoleFiller,
};

/// A device around another. Every request goes to the device inside, after the hook for its kind has run; where a hook fails
/// the device inside gets nothing. Each wrapper is a [`BlockDevice`], and no request can go past its hooks.
pub trait DeviceWrapper: Send + Sync + fmt::Debug {
    /// The kind of device inside.
    type Inner: BlockDevice + ?Sized;

    /// The device inside.
    fn inner(&self) -> &Self::Inner;

    /// The engine's name, for messages.
    fn engine_name(&self) -> &'static str {
        self.inner().engine()
    }

    /// The alignment that requests should have.
    fn required_alignment(&self) -> Alignment {
        self.inner().alignment()
    }

    /// Whether each run of neighbours in a batch goes to the device inside as a request of its own, so that a batch can fail
    /// in the middle.
    fn divides_batches(&self) -> bool {
        false
    }

    /// Runs before a read, which is a batch of one, and before a batch of reads.
    ///
    /// # Errors
    /// The read fails.
    fn before_read(&self, _segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Runs before a write, which is a batch of one, and before a batch of writes.
    ///
    /// # Errors
    /// The write fails.
    fn before_write(&self, _segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Runs before a flush.
    ///
    /// # Errors
    /// The flush fails.
    fn before_flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Runs before a discard.
    ///
    /// # Errors
    /// The discard fails.
    fn before_discard(&self, _offset_bytes: u64, _length_bytes: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Runs before the device shares bytes with a file, and says whether it may. A wrapper that must see all bytes that are
    /// written does not allow it.
    fn before_share(&self) -> bool {
        false
    }
}

impl<W: DeviceWrapper> BlockDevice for W {
    fn size_bytes(&self) -> u64 {
        self.inner().size_bytes()
    }

    fn alignment(&self) -> Alignment {
        self.required_alignment()
    }

    fn is_read_only(&self) -> bool {
        self.inner().is_read_only()
    }

    fn identity(&self) -> Option<Identity> {
        self.inner().identity()
    }

    fn engine(&self) -> &'static str {
        self.engine_name()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let segment = ReadSegment { offset_bytes, buffer };
        self.before_read(std::slice::from_ref(&segment))?;
        self.inner().read(offset_bytes, segment.buffer)
    }

    fn read_batch(&self, segments: &mut [ReadSegment<'_>]) -> Result<(), DeviceError> {
        if !self.divides_batches() {
            self.before_read(segments)?;
            return self.inner().read_batch(segments);
        }
        let runs: Vec<_> = contiguous_runs(segments).collect();
        runs.into_iter().try_for_each(|run| {
            let run = segments.get_mut(run).unwrap_or_default();
            self.before_read(run)?;
            self.inner().read_batch(run)
        })
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.before_write(&[WriteSegment { offset_bytes, bytes }])?;
        self.inner().write(offset_bytes, bytes)
    }

    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        if !self.divides_batches() {
            self.before_write(segments)?;
            return self.inner().write_batch(segments);
        }
        contiguous_runs(segments).try_for_each(|run| {
            let run = segments.get(run).unwrap_or_default();
            self.before_write(run)?;
            self.inner().write_batch(run)
        })
    }

    fn share_from_file(
        &self,
        file: BorrowedFd<'_>,
        file_offset_bytes: u64,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Option<u64> {
        if !self.before_share() {
            return None;
        }
        self.inner().share_from_file(file, file_offset_bytes, offset_bytes, length_bytes)
    }

    /// No hook: it changes no contents.
    fn hole_filler(&self) -> Option<HoleFiller<'_>> {
        self.inner().hole_filler()
    }

    /// No hook: it asks for no bytes.
    fn claimed(&self) -> Option<&Claimed> {
        self.inner().claimed()
    }

    /// No hook: it asks for no bytes.
    fn check_length(&self) -> Result<(), DeviceError> {
        self.inner().check_length()
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.before_flush()?;
        self.inner().flush()
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        self.before_discard(offset_bytes, length_bytes)?;
        self.inner().discard(offset_bytes, length_bytes)
    }
}

/// A handle of a device is the device.
impl<D: BlockDevice + ?Sized> DeviceWrapper for Arc<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        self
    }

    fn before_share(&self) -> bool {
        true
    }
}

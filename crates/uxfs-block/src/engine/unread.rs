//! A copy of a failing device with its ddrescue map: reading a sector that the map does not list as read fails, as on the device.

use std::{io, ops::Range, sync::Arc};

use crate::{
    device::{BlockDevice, DeviceError, DeviceOperation, ReadSegment, Segment},
    device_wrapper::DeviceWrapper,
    ranges::RangeSet,
};

/// Around a copy.
#[derive(Debug)]
pub struct UnreadDevice {
    inner: Arc<dyn BlockDevice>,
    unread: RangeSet,
}

impl UnreadDevice {
    /// Around a copy that lacks these ranges, in bytes.
    pub fn new(inner: Arc<dyn BlockDevice>, unread: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut ranges = RangeSet::default();
        unread.into_iter().for_each(|range| ranges.insert(range));
        Self { inner, unread: ranges }
    }
}

impl DeviceWrapper for UnreadDevice {
    type Inner = dyn BlockDevice;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn before_read(&self, segments: &[ReadSegment<'_>]) -> Result<(), DeviceError> {
        for segment in segments {
            let (offset_bytes, length_bytes) = (segment.offset_bytes(), segment.bytes().len() as u64);
            if self.unread.touches(offset_bytes..offset_bytes.saturating_add(length_bytes)) {
                let source = io::Error::other("the map says that it was not read");
                return Err(DeviceError {
                    operation: DeviceOperation::Read,
                    offset_bytes,
                    length_bytes,
                    source,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::memory::MemoryDevice;

    #[test]
    fn what_was_not_read_cannot_be_read() {
        let device =
            UnreadDevice::new(Arc::new(MemoryDevice::new(vec![7; 8192])), std::iter::once(1024..2048));
        let read = |offset, length| device.read(offset, &mut vec![0; length]).is_ok();
        assert!(read(0, 1024) && read(2048, 4096));
        assert!(!read(0, 1025) && !read(1536, 1) && !read(2047, 512));
        let mut buffers = [[0; 512], [0; 512]];
        let [one, two] = &mut buffers;
        let segment = |offset_bytes, buffer| ReadSegment { offset_bytes, buffer };
        assert!(device.read_batch(&mut [segment(0, one), segment(1024, two)]).is_err());
    }
}

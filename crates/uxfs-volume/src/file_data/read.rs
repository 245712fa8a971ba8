//! Random access to the contents of a file.

use uxfs_block::{contents_io::assert_outside_transaction, device::ReadSegment};

use crate::{error::Result, inode::Inode, volume::Volume};

/// Pieces that one submission carries at most.
const BATCH_SEGMENTS: usize = 256;

impl Volume {
    /// Reads from `offset_bytes` of a regular file into `buffer` and gives the number of bytes read, fewer than the
    /// buffer holds only at the end of the file. Holes and unwritten blocks are zeros.
    ///
    /// # Errors
    /// No regular file, or a realtime one; damage in its extent map; the device.
    pub fn read_file(&self, inode: &Inode, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        assert_outside_transaction("reads file contents");
        let left_bytes = inode.size_bytes().saturating_sub(offset_bytes);
        let length = usize::try_from(left_bytes).map_or(buffer.len(), |left| left.min(buffer.len()));
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        let mut ranges = self.data_ranges_between(inode, offset_bytes, offset_bytes + length as u64)?;

        let (mut rest, mut position) = (buffer, offset_bytes);
        let mut segments = Vec::new();
        for range in ranges.by_ref() {
            let (hole, after) = rest.split_at_mut((range.offset_bytes - position) as usize);
            hole.fill(0);
            let (data, after) = after.split_at_mut(range.length_bytes as usize);
            segments.push(ReadSegment { offset_bytes: range.device_offset_bytes, buffer: data });
            if segments.len() == BATCH_SEGMENTS {
                self.device().read_batch(&mut segments)?;
                segments.clear();
            }
            (rest, position) = (after, range.end_bytes());
        }
        rest.fill(0);
        match segments.as_mut_slice() {
            [] => {}
            [only] => self.device().read(only.offset_bytes, only.buffer)?,
            several => self.device().read_batch(several)?,
        }
        Ok(length)
    }
}

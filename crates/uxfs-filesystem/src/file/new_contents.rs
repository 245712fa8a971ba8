//! Bytes that are to be written to a file.

use uxfs_format::geometry::Geometry;

use super::{Touch, device::ZEROS};

/// Bytes that are to be written to a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewContents<'b> {
    /// Where they come in the file.
    pub offset_bytes: u64,
    pub bytes: &'b [u8],
    /// Times and mode bits that change with the contents.
    pub touch: Touch,
}

impl<'b> NewContents<'b> {
    /// The byte of the file behind them.
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes + self.bytes.len() as u64
    }

    /// The part of them that comes before a byte of the file.
    pub fn before(&self, end_bytes: u64) -> Self {
        let room = end_bytes.saturating_sub(self.offset_bytes);
        let length = usize::try_from(room).map_or(self.bytes.len(), |room| room.min(self.bytes.len()));
        Self { bytes: self.bytes.get(..length).unwrap_or_default(), ..*self }
    }

    /// Whole blocks that hold nothing else: zeros, the bytes, zeros.
    pub fn with_zeros_around(&self, geometry: &Geometry) -> [&'b [u8]; 3] {
        let block_size = geometry.block_size();
        let in_block = |bytes: u64| (bytes & (block_size as u64).saturating_sub(1)) as usize;
        let (head, used) = (in_block(self.offset_bytes), in_block(self.end_bytes()));
        let tail = if used == 0 { 0 } else { block_size - used };
        [ZEROS.get(..head).unwrap_or_default(), self.bytes, ZEROS.get(..tail).unwrap_or_default()]
    }
}

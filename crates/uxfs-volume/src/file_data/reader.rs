//! Sequential reading of a file in large pieces, with its holes told apart.

use uxfs_block::{contents_io::assert_outside_transaction, device::ReadSegment};

use uxfs_format::inode::Fork;

use super::ranges::{DataRange, DataRanges, known_ranges};
use crate::{error::Result, inode::Inode, tolerant::lost::LostBytes, volume::Volume};

/// Bytes read at once, where the caller has no wish.
pub const PIECE_SIZE_BYTES: usize = 1 << 20;

/// The next part of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum FilePiece<'a> {
    /// Zeros that take no space.
    Hole {
        /// First byte.
        offset_bytes: u64,
        /// How many, however large the hole is.
        length_bytes: u64,
    },
    /// Contents.
    Data {
        /// First byte.
        offset_bytes: u64,
        /// They.
        bytes: &'a [u8],
    },
}

/// Reads a regular file from begin to end. The pieces follow each other without gap and end at the file's size.
#[derive(Debug)]
pub struct FileReader<'a> {
    volume: &'a Volume,
    ranges: DataRanges<'a>,
    /// The rest of the current range.
    range: Option<DataRange>,
    /// Bytes that a tolerant volume could not read.
    lost: Option<LostBytes>,
    position_bytes: u64,
    size_bytes: u64,
    buffer: Vec<u8>,
}

impl Volume {
    /// Starts to read a regular file from its beginning, in pieces of at most [`PIECE_SIZE_BYTES`] of data.
    ///
    /// # Errors
    /// No regular file, or a realtime one; damage in its extent map; the device.
    pub fn file_reader<'a>(&'a self, inode: &'a Inode) -> Result<FileReader<'a>> {
        let mut ranges = known_ranges(self, inode, 0, inode.size_bytes())?;
        let range = ranges.next();
        let lost = self.lost_extents(inode, Fork::Data).map(|lost| LostBytes::new(inode.number, lost));
        Ok(FileReader {
            volume: self,
            ranges,
            range,
            lost,
            position_bytes: 0,
            size_bytes: inode.size_bytes(),
            buffer: Vec::new(),
        })
    }
}

impl FileReader<'_> {
    /// The next piece, or `None` at the end of the file. A part that cannot be read is an error once; the next call continues
    /// behind it.
    ///
    /// # Errors
    /// The device; lost extents.
    pub fn next_piece(&mut self) -> Result<Option<FilePiece<'_>>> {
        let offset_bytes = self.position_bytes;
        if offset_bytes >= self.size_bytes {
            return Ok(None);
        }
        let data_bytes = self.range.map_or(self.size_bytes, |range| range.offset_bytes);
        if data_bytes > offset_bytes {
            let block_log = self.volume.geometry().block_log;
            let lost = self.lost.as_ref().and_then(|lost| lost.first_in(offset_bytes..data_bytes, block_log));
            let data_bytes = match lost {
                Some((lost, error)) if lost.start <= offset_bytes => {
                    self.position_bytes = lost.end.min(data_bytes);
                    return Err(error);
                }
                Some((lost, _)) => lost.start,
                None => data_bytes,
            };
            self.position_bytes = data_bytes;
            return Ok(Some(FilePiece::Hole { offset_bytes, length_bytes: data_bytes - offset_bytes }));
        }
        self.read_data()?;
        Ok(Some(FilePiece::Data { offset_bytes, bytes: &self.buffer }))
    }

    /// Fills the buffer with the data at the position, over as many touching ranges as fit.
    fn read_data(&mut self) -> Result<()> {
        let mut pieces = Vec::new();
        let (mut length, mut position) = (0usize, self.position_bytes);
        while let Some(range) = self.range.filter(|range| range.offset_bytes == position) {
            let taken = usize::try_from(range.length_bytes)
                .map_or(PIECE_SIZE_BYTES, |length| length.min(PIECE_SIZE_BYTES));
            let taken = taken.min(PIECE_SIZE_BYTES - length);
            if taken == 0 {
                break;
            }
            pieces.push((range.device_offset_bytes, taken));
            length += taken;
            position += taken as u64;
            self.range = range.without_first(taken as u64).or_else(|| self.ranges.next());
        }
        self.buffer.resize(length, 0);
        let mut rest = self.buffer.as_mut_slice();
        let mut segments = Vec::with_capacity(pieces.len());
        for (offset_bytes, taken) in pieces {
            let (buffer, after) = rest.split_at_mut(taken);
            segments.push(ReadSegment { offset_bytes, buffer });
            rest = after;
        }
        assert_outside_transaction("reads file contents");
        // Set before the read can fail: the ranges have been taken, and what could not be read is no hole.
        self.position_bytes = position;
        Ok(self.volume.device().read_batch(&mut segments)?)
    }
}

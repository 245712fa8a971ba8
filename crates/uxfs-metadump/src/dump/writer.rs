//! Extents as they go into the stream: neighbours in one.

use std::io::{self, Write};

use uxfs_format::units::{SECTOR_SIZE_BYTES, Sector};

use crate::format::{EXTENT_HEADER_BYTES, ExtentHeader, HEADER_BYTES, Header};

/// Bytes of the longest extent.
const MOST_BYTES: usize = 1 << 20;

/// Joins what lies together, and writes it.
pub(super) struct ExtentWriter<'w> {
    output: &'w mut dyn Write,
    start: Sector,
    pending: Vec<u8>,
    extents: u64,
    bytes: u64,
}

impl<'w> ExtentWriter<'w> {
    /// Writes the header.
    pub(super) fn new(output: &'w mut dyn Write, header: &Header) -> io::Result<Self> {
        output.write_all(&header.encode())?;
        Ok(Self {
            output,
            start: Sector::new(0),
            pending: Vec::new(),
            extents: 0,
            bytes: HEADER_BYTES as u64,
        })
    }

    /// Adds bytes, whole sectors.
    pub(super) fn add(&mut self, start: Sector, bytes: &[u8]) -> io::Result<()> {
        let end = self.start.get() + self.pending.len() as u64 / SECTOR_SIZE_BYTES;
        if end != start.get() || self.pending.len() + bytes.len() > MOST_BYTES {
            self.flush()?;
        }
        if self.pending.is_empty() {
            self.start = start;
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the extent.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let length_sectors = (self.pending.len() as u64 / SECTOR_SIZE_BYTES) as u32;
        self.output.write_all(&ExtentHeader::of_data(self.start, length_sectors).encode())?;
        self.output.write_all(&self.pending)?;
        self.extents += 1;
        self.bytes += (EXTENT_HEADER_BYTES + self.pending.len()) as u64;
        self.pending.clear();
        Ok(())
    }

    /// Gives the number of extents and the length of the stream.
    pub(super) fn finish(mut self) -> io::Result<(u64, u64)> {
        self.flush()?;
        self.output.flush()?;
        Ok((self.extents, self.bytes))
    }
}

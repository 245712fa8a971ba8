//! The contents of a file of an image.

use std::{
    fmt,
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    sync::Arc,
};

use uxfs_volume::inode::Inode;

use crate::{Image, Result};

/// A regular file that is open for reading. Holes read as zeros. It keeps the image open.
#[derive(Clone)]
pub struct File {
    image: Image,
    inode: Arc<Inode>,
    position_bytes: u64,
}

impl File {
    pub(crate) fn open(image: &Image, inode: &Arc<Inode>) -> Result<Self> {
        // Refuses what has no contents, and damage of the extent map, now rather than at the first read.
        image.volume().data_ranges(inode)?;
        Ok(Self { image: image.clone(), inode: Arc::clone(inode), position_bytes: 0 })
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.inode.size_bytes()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from an offset, wherever the position is, and gives the number of bytes: fewer than the buffer holds only at the
    /// end of the file.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn read_at(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.image.volume().read_file(&self.inode, offset_bytes, buffer)?)
    }

    /// The first bytes at or behind `offset_bytes` that are no hole; `None` where there are none up to the end of the file.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn next_data(&self, offset_bytes: u64) -> Result<Option<Range<u64>>> {
        let volume = self.image.volume();
        let mut ranges = volume.data_ranges_between(&self.inode, offset_bytes, self.len())?;
        Ok(ranges.next().map(|range| range.offset_bytes..range.end_bytes()))
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position_bytes, buffer)?;
        self.position_bytes = self.position_bytes.saturating_add(read as u64);
        Ok(read)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position_bytes = sought(to, self.position_bytes, self.len())?;
        Ok(self.position_bytes)
    }
}

/// The position that a seek leads to.
pub(crate) fn sought(to: SeekFrom, position_bytes: u64, length_bytes: u64) -> io::Result<u64> {
    let position = match to {
        SeekFrom::Start(position) => Some(position),
        SeekFrom::Current(by) => position_bytes.checked_add_signed(by),
        SeekFrom::End(by) => length_bytes.checked_add_signed(by),
    };
    position.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "seek to a position before the file or beyond all positions",
        )
    })
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode.number.get())
            .field("position_bytes", &self.position_bytes)
            .finish()
    }
}

//! The empty image, written from the structures themselves.
//!
//! | module | holds |
//! |---|---|
//! | [`group`] | headers and tree roots of a group |
//! | [`inodes`] | the first chunk: root directory, two realtime inodes that must exist, free inodes |
//! | [`log`] | the record that says the log is clean |
//! | [`superblocks`] | the ruling superblock and its copies |
//! | `bytes` | blocks from structures |
//!
//! ```text
//! group   │ SB AGF AGI AGFL │ bno │ cnt │ ino │ fino │ rmap │ refc │ log (one group) │ free list │ chunk (group 0) │ free …
//! ```
//!
//! Order, and the crash that each step prevents: the old superblock is overwritten first, by one that says it is not
//! finished, and flushed: whatever is found later is not taken for the old file system. Then all groups are written
//! and flushed; then the superblock once more, finished. At no time does the superblock describe more than has been written.
//!
//! The old contents of the blocks written here do not matter, with one exception: the log beyond its first record must
//! read as zeros ([`Layout::must_read_as_zeros`]), and so must everything that could be taken for another file system.
//! [`crate::target`], which opens the device, clears them in the cheapest way for that device.

use thiserror::Error;
use uxfs_block::device::{BlockDevice, DeviceError, WriteSegment};
use uxfs_format::superblock::Superblock;

use crate::{identity::Identity, layout::Layout};

mod bytes;
mod group;
mod inodes;
mod log;
mod superblocks;

/// Groups whose blocks are collected for one submission.
const BATCH_BYTES: usize = 1 << 20;

/// Why no image could be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device is shorter than the layout.
    #[error("the layout needs {needed_bytes} bytes, but the device has {size_bytes}")]
    DeviceTooShort {
        /// Size of the file system.
        needed_bytes: u64,
        /// Size of the device.
        size_bytes: u64,
    },
    /// A time that inodes cannot hold.
    #[error("the time {seconds} s since 1970 cannot be stored{}", if *.big_time { "" } else { " without -m bigtime" })]
    Time {
        /// Since 1970.
        seconds: i64,
        /// Whether the file system has the larger range.
        big_time: bool,
    },
}

/// Counts of written blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bytes, the first superblock counted twice.
    pub bytes: u64,
    /// Submissions.
    pub requests: u64,
}

/// An image that says that it is not finished: everything is there but the word that it is.
#[derive(Debug)]
pub struct Unfinished<'a> {
    device: &'a dyn BlockDevice,
    superblock: Superblock,
    sector_bytes: usize,
    written: Written,
}

impl Unfinished<'_> {
    /// The superblock as it will be, with `in_progress` still set: filling the image changes its counters.
    pub fn superblock_mut(&mut self) -> &mut Superblock {
        &mut self.superblock
    }

    /// Says that the image is finished.
    ///
    /// # Errors
    /// The device fails.
    pub fn finish(mut self) -> Result<Written, FormatError> {
        self.device.flush()?;
        self.superblock.in_progress = 0;
        let sector = bytes::sealed_sector(&self.superblock, self.sector_bytes);
        self.device.write(0, &sector)?;
        self.device.flush()?;
        self.written.bytes += sector.len() as u64;
        self.written.requests += 1;
        Ok(self.written)
    }
}

/// Whether an image can be written: for a caller that must know before the old contents of the device are gone.
///
/// # Errors
/// The time cannot be stored.
pub fn check(layout: &Layout, identity: &Identity) -> Result<(), FormatError> {
    inodes::encode_time(layout, identity.now).map(drop)
}

/// Writes the empty image and says that it is finished.
///
/// # Errors
/// The device fails or is too short, or the time cannot be stored.
pub fn format(
    device: &dyn BlockDevice,
    layout: &Layout,
    identity: &Identity,
) -> Result<Written, FormatError> {
    begin(device, layout, identity)?.finish()
}

/// Writes the empty image, which goes on saying that it is not finished.
///
/// # Errors
/// As [`format()`].
pub fn begin<'a>(
    device: &'a dyn BlockDevice,
    layout: &Layout,
    identity: &Identity,
) -> Result<Unfinished<'a>, FormatError> {
    let (needed_bytes, size_bytes) = (layout.data_bytes(), device.size_bytes());
    if size_bytes < needed_bytes {
        return Err(FormatError::DeviceTooShort { needed_bytes, size_bytes });
    }
    let image = Image::new(layout, identity);
    let chunk = inodes::first_chunk(&image)?;
    let superblock = superblocks::primary(&image);
    let sector_bytes = layout.sizes.sector_bytes as usize;
    let mut batch = Batch::new(device);
    batch.push(0, bytes::sealed_sector(&superblock, sector_bytes))?;
    batch.flush()?;
    device.flush()?;
    for group in 0..image.group_count() {
        group::write(&image, group, &mut batch)?;
    }
    batch.push(image.byte_of(0, layout.root_chunk_block), chunk)?;
    let (log_offset_bytes, record) = log::first_record(&image);
    batch.push(log_offset_bytes, record)?;
    batch.flush()?;
    Ok(Unfinished { device, superblock, sector_bytes, written: batch.written })
}

/// A layout with an identity.
#[derive(Debug)]
struct Image<'a> {
    layout: &'a Layout,
    identity: &'a Identity,
}

impl<'a> Image<'a> {
    fn new(layout: &'a Layout, identity: &'a Identity) -> Self {
        Self { layout, identity }
    }

    fn group_count(&self) -> u32 {
        self.layout.groups.count as u32 // Verified by the layout.
    }

    fn block_bytes(&self) -> usize {
        self.layout.sizes.block_bytes as usize
    }

    /// Where a block of a group begins on the device.
    fn byte_of(&self, group: u32, block: u32) -> u64 {
        let linear = u64::from(group) * self.layout.groups.blocks + u64::from(block);
        linear << self.layout.sizes.block_log()
    }
}

/// Writes that go out together.
#[derive(Debug)]
struct Batch<'a> {
    device: &'a dyn BlockDevice,
    pieces: Vec<(u64, Vec<u8>)>,
    pending_bytes: usize,
    written: Written,
}

impl<'a> Batch<'a> {
    fn new(device: &'a dyn BlockDevice) -> Self {
        Self { device, pieces: Vec::new(), pending_bytes: 0, written: Written::default() }
    }

    fn push(&mut self, offset_bytes: u64, bytes: Vec<u8>) -> Result<(), FormatError> {
        self.pending_bytes += bytes.len();
        self.pieces.push((offset_bytes, bytes));
        if self.pending_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), FormatError> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let segments: Vec<_> = self
            .pieces
            .iter()
            .map(|(offset_bytes, bytes)| WriteSegment { offset_bytes: *offset_bytes, bytes })
            .collect();
        self.device.write_batch(&segments)?;
        self.written.bytes += self.pending_bytes as u64;
        self.written.requests += 1;
        self.pieces.clear();
        self.pending_bytes = 0;
        Ok(())
    }
}

//! Header of a reply, and slices of a whole reply for one write.

use std::{io::IoSlice, ops::Deref};

use rustix::io::Errno;
use thiserror::Error;
use zerocopy::IntoBytes;

use crate::protocol::wire::header::OutHeader;

/// Bytes of a header.
pub const REPLY_HEADER_BYTES: usize = size_of::<OutHeader>();
/// The largest error number that the kernel takes.
const ERROR_NUMBER_MAX: i32 = 511;

/// Header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyHeader {
    wire: OutHeader,
}

/// A reply that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// Its size does not fit into the header.
    #[error("a reply of more than 4 GiB")]
    TooLong,
    /// It has too many parts.
    #[error("a reply of {parts} parts, with room for {slices} slices")]
    TooManyParts {
        /// Parts after the header.
        parts: usize,
        /// Slices, of which the header takes one.
        slices: usize,
    },
}

impl ReplyHeader {
    /// Of a reply without an error, with so many bytes behind the header.
    ///
    /// # Errors
    /// [`ReplyError::TooLong`].
    pub fn success(unique: u64, body_bytes: usize) -> Result<Self, ReplyError> {
        let size_bytes = body_bytes.checked_add(REPLY_HEADER_BYTES).and_then(|size| u32::try_from(size).ok());
        let size_bytes = size_bytes.ok_or(ReplyError::TooLong)?;
        Ok(Self { wire: OutHeader { size_bytes, error: 0, unique } })
    }

    /// Of a reply that is an error, and ends with this header. An error number that the kernel would refuse becomes `EIO`.
    pub fn error(unique: u64, error: Errno) -> Self {
        let number = error.raw_os_error();
        let number = if (1..=ERROR_NUMBER_MAX).contains(&number) { number } else { Errno::IO.raw_os_error() };
        Self { wire: OutHeader { size_bytes: REPLY_HEADER_BYTES as u32, error: -number, unique } }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        self.wire.as_bytes()
    }

    /// The structure.
    pub const fn wire(&self) -> &OutHeader {
        &self.wire
    }
}

/// A whole reply, for one write: the header and up to `SLICES - 1` parts.
#[derive(Debug, Clone, Copy)]
pub struct ReplySlices<'a, const SLICES: usize> {
    slices: [IoSlice<'a>; SLICES],
    count: usize,
}

impl<'a, const SLICES: usize> Deref for ReplySlices<'a, SLICES> {
    type Target = [IoSlice<'a>];

    fn deref(&self) -> &Self::Target {
        self.slices.get(..self.count).unwrap_or(&self.slices)
    }
}

/// Fills `header` for a reply of these parts, and gives the slices of both.
///
/// # Errors
/// The parts are too many or too long.
pub fn reply_slices<'a, const SLICES: usize>(
    header: &'a mut ReplyHeader,
    unique: u64,
    parts: &[&'a [u8]],
) -> Result<ReplySlices<'a, SLICES>, ReplyError> {
    let count = parts.len().saturating_add(1);
    if count > SLICES {
        return Err(ReplyError::TooManyParts { parts: parts.len(), slices: SLICES });
    }
    let body_bytes = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()));
    *header = ReplyHeader::success(unique, body_bytes.ok_or(ReplyError::TooLong)?)?;
    let mut slices = [IoSlice::new(&[]); SLICES];
    let all = std::iter::once(header.as_bytes()).chain(parts.iter().copied());
    slices.iter_mut().zip(all).for_each(|(slice, bytes)| *slice = IoSlice::new(bytes));
    Ok(ReplySlices { slices, count })
}

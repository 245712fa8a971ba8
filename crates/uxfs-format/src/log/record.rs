//! Log records: header, extension headers, cycle stamps and checksum.
//!
//! ```text
//! block   0         1 … n-1             n …
//!        +---------+-------------------+------------------------------------------+
//!        | header  | extension headers | payload: operations, zero-padded         |
//!        +---------+-------------------+------------------------------------------+
//! ```
//!
//! There is one header block for each 32 KiB of the *buffer* that the record was built in, however short the record.
//! Every block in the log starts with the cycle in which it was written, so that the newest block can be found by
//! looking at block starts alone. In a payload block that word would be contents; contents move to the header's
//! `cycle_data` and come back when the record is read.

use thiserror::Error;
use zerocopy::big_endian::{U32, U64};

use crate::{
    checksum::{Checksum, Mismatch},
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    header_fault::HeaderFault,
    log::LOG_BLOCK_SIZE_BYTES,
    on_disk,
    units::{Lsn, Uuid},
    verify_context::VerifyContext,
};

/// Starts every record header. Never a cycle number.
#[doc(alias = "XLOG_HEADER_MAGIC_NUM")]
pub const MAGIC: u32 = 0xfeed_babe;
/// Payload words that one header block saves.
#[doc(alias = "XLOG_HEADER_CYCLE_SIZE")]
pub const CYCLES_PER_HEADER: u32 = 64;
/// Bytes of payload that one header block covers.
pub const PAYLOAD_PER_HEADER_BYTES: u32 = CYCLES_PER_HEADER * LOG_BLOCK_SIZE_BYTES;
/// The largest buffer, and so the longest payload.
#[doc(alias = "XLOG_MAX_RECORD_BSIZE")]
pub const MAX_RECORD_SIZE_BYTES: u32 = 256 << 10;
/// The most blocks that one record takes, headers included.
pub const MAX_RECORD_BLOCKS: u32 =
    MAX_RECORD_SIZE_BYTES / LOG_BLOCK_SIZE_BYTES + MAX_RECORD_SIZE_BYTES / PAYLOAD_PER_HEADER_BYTES;
/// `fmt` of a log whose contents are little-endian.
#[doc(alias = "XLOG_FMT_LINUX_LE")]
pub const FORMAT_LITTLE_ENDIAN: u32 = 1;
/// Where the checksum lies in the header.
pub const CHECKSUM_OFFSET_BYTES: u32 = 32;
/// Bytes of the header that the checksum covers.
const CHECKED_HEADER_BYTES: usize = 328;
/// The same where the header was compiled for 32-bit x86, which aligns 64-bit numbers to four bytes.
const CHECKED_HEADER_BYTES_32: usize = 324;
/// Bytes of each extension header that the checksum covers.
const CHECKED_EXTENSION_BYTES: usize = 260;
const BLOCK: usize = 512;

on_disk! {
    /// First block of a record.
    #[doc(alias = "xlog_rec_header")]
    pub struct RecordHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magicno" Hexadecimal,
        /// How often the log had been written round, from 1.
        pub cycle: U32 => "cycle" Decimal,
        /// 2; version 1 has no extension headers.
        pub version: U32 => "version" Decimal,
        /// Bytes of payload, with its padding.
        pub length_bytes: U32 => "len" Decimal,
        /// Cycle and block of this record.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// Where replay must begin when this record is the newest.
        pub tail_lsn: U64 => "tail_lsn" Hexadecimal,
        /// See [`checksum_state`].
        pub checksum: Checksum => "crc" Checksum,
        /// Block of the record before, all ones if none.
        pub previous_block: U32 => "prev_block" SignedDecimal,
        /// Operations in the payload.
        pub operation_count: U32 => "num_logops" Decimal,
        /// First words of the first 64 payload blocks.
        pub cycle_data: [U32; 64] => "cycle_data" Hexadecimal * 64,
        /// Byte order of the contents: [`FORMAT_LITTLE_ENDIAN`].
        pub format: U32 => "fmt" Decimal,
        /// The file system's user-visible uuid.
        pub uuid: Uuid => "fs_uuid" Uuid,
        /// Size of the buffer in which the record was built.
        pub buffer_size_bytes: U32 => "size" Decimal,
        /// Zero.
        pub padding: [u8; 188] => "pad" Padding,
    }

    /// Each further header block of a record from a large buffer.
    #[doc(alias = "xlog_rec_ext_header")]
    pub struct ExtensionHeader {
        /// As in the first header.
        pub cycle: U32 => "cycle" Decimal,
        /// First words of the next 64 payload blocks.
        pub cycle_data: [U32; 64] => "cycle_data" Hexadecimal * 64,
        /// Zero.
        pub padding: [u8; 252] => "pad" Padding,
    }
}

/// Faults of a record. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LogRecordFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Neither 1 nor 2.
    #[error("record version {version} is neither 1 nor 2")]
    Version {
        /// `version`.
        version: u32,
    },
    /// Contents in another byte order.
    #[error(
        "the log's contents are in format {format}, not {FORMAT_LITTLE_ENDIAN} (little-endian): \
         it was written by another kind of machine, which must replay it"
    )]
    Format {
        /// `fmt`.
        format: u32,
    },
    /// Larger than any buffer.
    #[error("record buffer of {size_bytes} bytes is larger than {MAX_RECORD_SIZE_BYTES}")]
    BufferSize {
        /// `size`.
        size_bytes: u32,
    },
    /// Zero, or more than the buffer.
    #[error("record payload of {length_bytes} bytes does not fit a buffer of {buffer_size_bytes}")]
    Length {
        /// `len`.
        length_bytes: u32,
        /// `size`.
        buffer_size_bytes: u32,
    },
    /// A misdirected or stale record.
    #[error("record says that it belongs at log block {found}, but lies at {expected}")]
    WrongBlock {
        /// From `lsn`.
        found: u32,
        /// Where it was read.
        expected: u32,
    },
    /// The two places that hold the cycle disagree, or there is none.
    #[error("record of cycle {cycle} has the log sequence number {lsn}")]
    Cycle {
        /// `cycle`.
        cycle: u32,
        /// `lsn`.
        lsn: Lsn,
    },
    /// The tail points outside the log.
    #[error("the log tail {tail} lies outside the log of {log_blocks} blocks")]
    TailOutside {
        /// `tail_lsn`.
        tail: Lsn,
        /// Blocks in the log.
        log_blocks: u32,
    },
    /// Only mkfs and xfs_repair write none, and what they write need not be replayed.
    #[error("record has no checksum")]
    NoChecksum,
    /// More operations than headers fit.
    #[error("{count} operations cannot fit a payload of {length_bytes} bytes")]
    OperationCount {
        /// `num_logops`.
        count: u32,
        /// `len`.
        length_bytes: u32,
    },
}

/// Where a record lies, for its verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLocation {
    /// Block in the log from which its header was read.
    pub block: u32,
    /// Blocks in the log.
    pub log_blocks: u32,
    /// The file system's user-visible uuid.
    pub uuid: Uuid,
}

impl RecordHeader {
    /// The header at the start of `block`, by its magic number alone.
    ///
    /// # Errors
    /// Too short, or no record header.
    pub fn parse(block: &[u8]) -> Result<&Self, HeaderFault> {
        let header = Self::prefix_of(block).ok_or(HeaderFault::Truncated {
            length_bytes: to_u64(block.len()),
            needed_bytes: to_u64(Self::SIZE_BYTES),
        })?;
        match header.magic.get() {
            MAGIC => Ok(header),
            found => Err(HeaderFault::BadMagic { found, expected: MAGIC }),
        }
    }

    /// Verifies the header alone; the checksum needs the payload and is [`checksum_state`]'s business.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(&self, place: &RecordLocation) -> Result<(), LogRecordFault> {
        if self.uuid != place.uuid {
            return Err(HeaderFault::WrongUuid { found: self.uuid, expected: place.uuid }.into());
        }
        self.verify_fields(place)
    }

    fn verify_fields(&self, place: &RecordLocation) -> Result<(), LogRecordFault> {
        let version = self.version.get();
        if version != 1 && version != 2 {
            return Err(LogRecordFault::Version { version });
        }
        self.verify_sizes()?;
        let lsn = self.lsn();
        if lsn.block() != place.block {
            return Err(LogRecordFault::WrongBlock { found: lsn.block(), expected: place.block });
        }
        let cycle = self.cycle.get();
        if cycle == 0 || cycle != lsn.cycle() {
            return Err(LogRecordFault::Cycle { cycle, lsn });
        }
        let tail = self.tail_lsn();
        if tail.block() >= place.log_blocks {
            return Err(LogRecordFault::TailOutside { tail, log_blocks: place.log_blocks });
        }
        Ok(())
    }

    /// Verifies what decides how many blocks the record takes.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_sizes(&self) -> Result<(), LogRecordFault> {
        let (length_bytes, size_bytes) = (self.length_bytes.get(), self.buffer_size_bytes.get());
        if size_bytes > MAX_RECORD_SIZE_BYTES {
            return Err(LogRecordFault::BufferSize { size_bytes });
        }
        let count = self.operation_count.get();
        // Old mkfs wrote its one record longer than the buffer size that it claimed.
        let by_mkfs = count == 1 && length_bytes <= MAX_RECORD_SIZE_BYTES;
        if length_bytes == 0 || (length_bytes > size_bytes && !by_mkfs) {
            return Err(LogRecordFault::Length { length_bytes, buffer_size_bytes: size_bytes });
        }
        if count > length_bytes / 12 {
            return Err(LogRecordFault::OperationCount { count, length_bytes });
        }
        Ok(())
    }

    /// Verifies that the contents can be read on this kind of machine.
    ///
    /// # Errors
    /// They are in another byte order.
    pub fn verify_format(&self) -> Result<(), LogRecordFault> {
        match self.format.get() {
            FORMAT_LITTLE_ENDIAN => Ok(()),
            format => Err(LogRecordFault::Format { format }),
        }
    }

    /// Cycle and block of this record.
    pub fn lsn(&self) -> Lsn {
        Lsn::new(self.lsn.get())
    }

    /// Where replay must begin when this record is the newest.
    pub fn tail_lsn(&self) -> Lsn {
        Lsn::new(self.tail_lsn.get())
    }

    /// Header blocks, from 1 to 8 where [`verify_sizes`](Self::verify_sizes) was content.
    pub fn header_blocks(&self) -> u32 {
        if self.version.get() & 2 == 0 {
            return 1;
        }
        self.buffer_size_bytes.get().div_ceil(PAYLOAD_PER_HEADER_BYTES).max(1)
    }

    /// Payload blocks.
    pub fn payload_blocks(&self) -> u32 {
        self.length_bytes.get().div_ceil(LOG_BLOCK_SIZE_BYTES)
    }

    /// All blocks of the record.
    pub fn blocks(&self) -> u32 {
        self.header_blocks().saturating_add(self.payload_blocks())
    }

    /// Whether this is one of the empty records with which the kernel overwrites what lies ahead of the head, lest a
    /// later crash take old blocks for new ones.
    pub fn is_filler(&self) -> bool {
        self.length_bytes.get() == 0 && self.operation_count.get() == 0
    }
}

/// The cycle in which the block was written, or `None` where `block` is too short.
#[inline]
pub fn cycle_of_block(block: &[u8]) -> Option<u32> {
    let (first, rest) = U32::prefix_of_bytes(block)?;
    if first.get() != MAGIC {
        return Some(first.get());
    }
    U32::prefix_of_bytes(rest).map(|(second, _)| second.get())
}

/// Splits the first big-endian word off `bytes`.
trait PrefixWord: Sized {
    fn prefix_of_bytes(bytes: &[u8]) -> Option<(Self, &[u8])>;
}

impl PrefixWord for U32 {
    #[inline]
    fn prefix_of_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        <Self as zerocopy::FromBytes>::read_from_prefix(bytes).ok()
    }
}

/// Verifies a record of an internal log as it lies there: its header, and its checksum where `bytes` hold all of it.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), LogRecordFault> {
    let geometry = context.geometry;
    let start = geometry.log_start.and_then(|start| geometry.sector_of_block(start));
    let block = start.and_then(|start| context.sector.checked_distance_from(start));
    let block = block.and_then(|block| u32::try_from(block).ok()).unwrap_or(u32::MAX);
    let log_blocks = geometry.log_blocks.saturating_mul(geometry.sectors_per_block());
    let header = RecordHeader::parse(bytes)?;
    header.verify(&RecordLocation { block, log_blocks, uuid: geometry.uuid })?;
    let headers = to_usize(header.header_blocks().saturating_mul(LOG_BLOCK_SIZE_BYTES));
    let end = headers.saturating_add(to_usize(header.length_bytes.get()));
    match (bytes.get(..headers), bytes.get(headers..end)) {
        (Some(headers), Some(payload)) => match checksum_state(headers, payload) {
            ChecksumState::Wrong(mismatch) => Err(HeaderFault::from(mismatch).into()),
            ChecksumState::Right | ChecksumState::Absent => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Results of a record's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumState {
    /// The bytes are those that were written.
    Right,
    /// None was written: mkfs and xfs_repair leave it zero. The kernel accepts that where it looks for torn writes,
    /// not where it replays.
    Absent,
    /// The bytes are not those that were written.
    Wrong(Mismatch),
}

/// Compares the checksum of a record as it lies in the log, cycle stamps and all.
///
/// `header` holds all header blocks. Extension headers count only as far as the payload reaches.
pub fn checksum_state(header: &[u8], payload: &[u8]) -> ChecksumState {
    let Some(found) = crate::checksum::stored(header, CHECKSUM_OFFSET_BYTES) else {
        return ChecksumState::Wrong(Mismatch { found: 0, computed: 0 });
    };
    let computed = compute_checksum(header, payload, CHECKED_HEADER_BYTES).unwrap_or(0);
    if computed == found {
        return ChecksumState::Right;
    }
    if compute_checksum(header, payload, CHECKED_HEADER_BYTES_32) == Some(found) {
        return ChecksumState::Right;
    }
    if found == 0 {
        return ChecksumState::Absent;
    }
    ChecksumState::Wrong(Mismatch { found, computed })
}

fn compute_checksum(header: &[u8], payload: &[u8], header_bytes: usize) -> Option<u32> {
    let first = header.get(..header_bytes)?;
    let mut crc = crate::checksum::compute(first, CHECKSUM_OFFSET_BYTES)?;
    let covering = payload.len().div_ceil(to_usize(PAYLOAD_PER_HEADER_BYTES));
    for extension in header.chunks_exact(BLOCK).take(covering).skip(1) {
        crc = crc32c::crc32c_append(crc, extension.get(..CHECKED_EXTENSION_BYTES)?);
    }
    Some(crc32c::crc32c_append(crc, payload))
}

/// Computes and stores the checksum of a stamped record. Returns `false` where `header` is too short.
pub fn seal(header: &mut [u8], payload: &[u8]) -> bool {
    let Some(crc) = compute_checksum(header, payload, CHECKED_HEADER_BYTES) else { return false };
    match RecordHeader::prefix_of_mut(header) {
        Some(first) => {
            first.checksum.set(crc);
            true
        }
        None => false,
    }
}

/// The saved first word of payload block `index`.
fn saved_word(header: &[u8], index: usize) -> Option<U32> {
    let per_header = to_usize(CYCLES_PER_HEADER);
    let block = header.chunks_exact(BLOCK).nth(index.checked_div(per_header)?)?;
    let slot = index.checked_rem(per_header)?;
    if index < per_header {
        RecordHeader::prefix_of(block)?.cycle_data.get(slot).copied()
    } else {
        ExtensionHeader::prefix_of(block)?.cycle_data.get(slot).copied()
    }
}

fn saved_word_mut(header: &mut [u8], index: usize) -> Option<&mut U32> {
    let per_header = to_usize(CYCLES_PER_HEADER);
    let block = header.chunks_exact_mut(BLOCK).nth(index.checked_div(per_header)?)?;
    let slot = index.checked_rem(per_header)?;
    if index < per_header {
        RecordHeader::prefix_of_mut(block)?.cycle_data.get_mut(slot)
    } else {
        ExtensionHeader::prefix_of_mut(block)?.cycle_data.get_mut(slot)
    }
}

/// Puts the saved words back to the start of each payload block.
///
/// Blocks beyond what the headers save (a record of mkfs that is longer than its buffer size) stay as they are.
pub fn restore_payload(header: &[u8], payload: &mut [u8]) {
    for (index, block) in payload.chunks_exact_mut(BLOCK).enumerate() {
        let Some(word) = saved_word(header, index) else { return };
        if let Some(start) = block.first_chunk_mut::<4>() {
            *start = word.into();
        }
    }
}

/// Saves the first word of each payload block in the headers and puts cycle numbers in their place.
///
/// The record begins at `block` of a log of `log_blocks`; what lies past the log's end is written at its start and
/// carries the next cycle. Extension headers get the record's cycle. Seal the record afterwards.
pub fn stamp_payload(header: &mut [u8], payload: &mut [u8], block: u32, log_blocks: u32) {
    let Some(cycle) = RecordHeader::prefix_of(header).map(|first| first.cycle.get()) else { return };
    let header_blocks = low_u32(to_u64(header.len().checked_div(BLOCK).unwrap_or(0)));
    for (index, extension) in header.chunks_exact_mut(BLOCK).enumerate().skip(1) {
        if let Some(extension) = ExtensionHeader::prefix_of_mut(extension) {
            let place = block.saturating_add(low_u32(to_u64(index)));
            extension.cycle.set(if place >= log_blocks { next_cycle(cycle) } else { cycle });
        }
    }
    let first = block.saturating_add(header_blocks);
    for (index, bytes) in payload.chunks_exact_mut(BLOCK).enumerate() {
        let Some(start) = bytes.first_chunk_mut::<4>() else { return };
        let Some(saved) = saved_word_mut(header, index) else { return };
        *saved = U32::from(*start);
        let place = first.saturating_add(low_u32(to_u64(index)));
        let stamp = if place >= log_blocks { next_cycle(cycle) } else { cycle };
        *start = U32::new(stamp).into();
    }
}

/// The cycle after `cycle`: one more, but never the magic number of a record header.
pub fn next_cycle(cycle: u32) -> u32 {
    match cycle.wrapping_add(1) {
        MAGIC => MAGIC.wrapping_add(1),
        next => next,
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;

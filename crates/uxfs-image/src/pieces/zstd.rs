//! Frames of zstd (RFC 8878), and the table at the end of the seekable format.

use std::{
    io::{self, BufReader, ErrorKind, Read},
    sync::Arc,
};

use uxfs_block::device::{BlockDevice, DeviceError};

use super::{
    Codec, Layout, MOST_PIECE_BYTES,
    table::{Piece, PieceTable},
};
use crate::packed_reader::{PackedReader, read_range};

const FRAME: u32 = 0xfd2f_b528;
/// Frames that are to be skipped begin with any of 16 numbers.
const SKIPPED: u32 = 0x184d_2a50;
const SKIPPED_MASK: u32 = 0xffff_fff0;
/// The one that holds the table of the seekable format.
const TABLE: u32 = 0x184d_2a5e;
const TABLE_END: u32 = 0x8f92_eab1;
/// At the end of the table: how many frames, a byte of flags, and [`TABLE_END`].
const TABLE_FOOTER_BYTES: u64 = 9;
const SKIPPED_HEADER_BYTES: u64 = 8;
/// Bytes that frames without a length may come to in all: to measure them they are decompressed, and a file of a megabyte may say a terabyte.
const MOST_MEASURED_BYTES: u64 = 64 << 30;
/// Read at once, from block to block: most of a file is passed over.
const STEP_BYTES: usize = 4 << 10;
/// What a frame may look back on where only its length is looked for.
const WINDOW_LOG: u32 = 27;

/// Where the frames lie: by the table, or by going from frame to frame.
pub(super) fn layout(file: &Arc<dyn BlockDevice>) -> Result<Layout, DeviceError> {
    if let Some(table) = by_table(file)? {
        return Ok(Layout::of(Codec::Zstd, table));
    }
    match by_walk(file) {
        Ok(layout) => Ok(layout),
        Err(error) => match error.downcast::<DeviceError>() {
            Ok(error) => Err(error),
            // Damage: decompressing tells more.
            Err(_) => Ok(Layout::UNKNOWN),
        },
    }
}

/// The table of the seekable format; `None` where there is none, or it does not fit the file.
fn by_table(file: &Arc<dyn BlockDevice>) -> Result<Option<PieceTable>, DeviceError> {
    let size_bytes = file.size_bytes();
    let Some(footer_start) = size_bytes.checked_sub(TABLE_FOOTER_BYTES) else { return Ok(None) };
    let Some(footer) = read_range(&**file, footer_start, TABLE_FOOTER_BYTES as usize)? else {
        return Ok(None);
    };
    let (count, flags) = match footer[..] {
        [a, b, c, d, flags, ref end @ ..] if *end == TABLE_END.to_le_bytes() => {
            (u32::from_le_bytes([a, b, c, d]), flags)
        }
        _ => return Ok(None),
    };
    let has_checksums = flags & 0x80 != 0;
    let entry_bytes: u64 = if has_checksums { 12 } else { 8 };
    let contents_bytes = u64::from(count) * entry_bytes + TABLE_FOOTER_BYTES;
    let Some(table_start) = size_bytes.checked_sub(contents_bytes + SKIPPED_HEADER_BYTES) else {
        return Ok(None);
    };
    let Some(header) = read_range(&**file, table_start, SKIPPED_HEADER_BYTES as usize)? else {
        return Ok(None);
    };
    let [magic, length] = numbers(&header);
    if magic != TABLE || u64::from(length) != contents_bytes {
        return Ok(None);
    }
    let entries = PackedReader::new(file, table_start + SKIPPED_HEADER_BYTES..footer_start);
    let table = read_table(BufReader::new(entries), count, entry_bytes as usize);
    // The frames and the table are the whole file.
    Ok(table.filter(|(_, end_bytes)| *end_bytes == table_start).map(|(table, _)| table))
}

/// The pieces by the entries of a table, and where the last one ends.
fn read_table(mut entries: impl Read, count: u32, entry_bytes: usize) -> Option<(PieceTable, u64)> {
    let (mut table, mut start) = (PieceTable::default(), 0_u64);
    let mut entry = [0; 12];
    for _ in 0..count {
        entries.read_exact(entry.get_mut(..entry_bytes)?).ok()?;
        let [packed_bytes, size_bytes] = numbers(&entry);
        let end = start.checked_add(packed_bytes.into())?;
        table.add(start..end, size_bytes.into())?;
        start = end;
    }
    Some((table, start))
}

/// The first two numbers of four bytes.
fn numbers(bytes: &[u8]) -> [u32; 2] {
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes);
    [number(0), number(4)]
}

/// Goes from frame to frame, and in each from block to block. Frames that do not say how long they are unpacked are unpacked once, without
/// keeping what comes of them.
fn by_walk(file: &Arc<dyn BlockDevice>) -> io::Result<Layout> {
    let mut walk =
        Walk { reader: BufReader::with_capacity(STEP_BYTES, PackedReader::whole(file)), position: 0 };
    let (mut table, mut measured_bytes) = (PieceTable::default(), 0_u64);
    while walk.position < file.size_bytes() {
        let start = walk.position;
        let magic = walk.number(4)?;
        if magic & u64::from(SKIPPED_MASK) == u64::from(SKIPPED) {
            let length = walk.number(4)?;
            walk.skip(length)?;
            continue;
        }
        if magic != u64::from(FRAME) {
            return Err(ErrorKind::InvalidData.into());
        }
        let size_bytes = walk.frame()?;
        if walk.position > file.size_bytes() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let packed = start..walk.position;
        let size_bytes = match size_bytes {
            Some(size_bytes) => size_bytes,
            None => match measure(PackedReader::new(file, packed.clone()))? {
                Some(size_bytes) if measured_bytes <= MOST_MEASURED_BYTES => {
                    measured_bytes += size_bytes;
                    size_bytes
                }
                _ => return Ok(Layout::UNKNOWN),
            },
        };
        if table.add(packed, size_bytes).is_none() {
            return Ok(Layout::UNKNOWN);
        }
    }
    Ok(Layout::of(Codec::Zstd, table))
}

/// How long a frame is unpacked; `None` where it is too long to be a piece.
fn measure(packed: PackedReader) -> io::Result<Option<u64>> {
    let mut decoder = ::zstd::stream::read::Decoder::new(packed)?.single_frame();
    decoder.window_log_max(WINDOW_LOG)?;
    let size_bytes = io::copy(&mut decoder.take(MOST_PIECE_BYTES + 1), &mut io::sink())?;
    Ok((size_bytes <= MOST_PIECE_BYTES).then_some(size_bytes))
}

struct Walk {
    reader: BufReader<PackedReader>,
    position: u64,
}

impl Walk {
    fn number(&mut self, length: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.reader.read_exact(bytes.get_mut(..length).ok_or(ErrorKind::InvalidInput)?)?;
        self.position += length as u64;
        Ok(u64::from_le_bytes(bytes))
    }

    fn skip(&mut self, length_bytes: u64) -> io::Result<()> {
        self.position = self.position.checked_add(length_bytes).ok_or(ErrorKind::InvalidData)?;
        self.reader.seek_relative(i64::try_from(length_bytes).map_err(|_| ErrorKind::InvalidData)?)
    }

    /// Passes over a frame behind its magic number; gives how long it is unpacked where it says so.
    fn frame(&mut self) -> io::Result<Option<u64>> {
        let descriptor = self.number(1)?;
        let is_single_segment = descriptor & 0x20 != 0;
        if !is_single_segment {
            self.skip(1)?;
        }
        self.skip(match descriptor & 3 {
            3 => 4,
            length => length,
        })?;
        let size_bytes = match descriptor >> 6 {
            0 if is_single_segment => Some(self.number(1)?),
            0 => None,
            1 => Some(self.number(2)? + 256),
            2 => Some(self.number(4)?),
            _ => Some(self.number(8)?),
        };
        loop {
            let block = self.number(3)?;
            match (block >> 1) & 3 {
                0 | 2 => self.skip(block >> 3)?,
                // One byte, repeated.
                1 => self.skip(1)?,
                _ => return Err(ErrorKind::InvalidData.into()),
            }
            if block & 1 != 0 {
                break;
            }
        }
        if descriptor & 4 != 0 {
            self.skip(4)?;
        }
        Ok(size_bytes)
    }
}

/// The bytes of a frame.
pub(super) fn decode(file: &Arc<dyn BlockDevice>, piece: &Piece) -> io::Result<Vec<u8>> {
    let length = usize::try_from(piece.packed_bytes()).unwrap_or(usize::MAX);
    let packed = read_range(&**file, piece.packed.start, length).map_err(io::Error::other)?;
    let packed = packed.ok_or(ErrorKind::UnexpectedEof)?;
    let size_bytes = usize::try_from(piece.size_bytes()).unwrap_or(usize::MAX);
    ::zstd::bulk::decompress(&packed, size_bytes)
}

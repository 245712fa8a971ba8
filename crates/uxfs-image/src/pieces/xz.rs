//! Blocks of xz (the .xz file format, version 1.2): each stream ends with an index of its blocks.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read},
    sync::Arc,
};

use uxfs_block::device::{BlockDevice, DeviceError};

use super::{
    Codec, Layout, MOST_PIECES,
    table::{Piece, PieceTable},
};
use crate::packed_reader::{PackedReader, read_range};

/// Header and footer of a stream.
const EDGE_BYTES: u64 = 12;
const HEADER_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// Zeros between streams, at most.
const MOST_PADDING_BYTES: u64 = 1 << 20;
/// Of these, read at once.
const PADDING_READ_BYTES: u64 = 4 << 10;
/// Streams of a file, at most.
const MOST_STREAMS: usize = 64 << 10;
/// Memory that unpacking may take: `xz -9` takes 65 MiB.
pub(crate) const MEMORY_BYTES: u64 = 192 << 20;

/// Flags of a stream: which checksum its blocks have.
type Flags = [u8; 2];

/// The streams of a file: where each begins, and its flags.
#[derive(Debug)]
pub(super) struct Streams(Vec<(u64, Flags)>);

/// Reads the indices from the last stream to the first. A file whose indices do not fit it is read as a stream.
pub(super) fn layout(file: &Arc<dyn BlockDevice>) -> Result<Layout, DeviceError> {
    let (mut end, mut parts, mut streams, mut count) = (file.size_bytes(), Vec::new(), Vec::new(), 0);
    while end > 0 && streams.len() < MOST_STREAMS && count <= MOST_PIECES {
        let Some(stream) = stream_before(file, end)? else { return Ok(Layout::UNKNOWN) };
        end = stream.start;
        count += stream.table.count();
        streams.push((stream.start, stream.flags));
        parts.push(stream.table);
    }
    streams.reverse();
    let mut table = PieceTable::default();
    let is_whole = end == 0 && parts.iter().rev().try_for_each(|part| table.append(part)).is_some();
    Ok(if is_whole { Layout::of(Codec::Xz(Streams(streams)), table) } else { Layout::UNKNOWN })
}

struct Stream {
    start: u64,
    flags: Flags,
    table: PieceTable,
}

/// The stream that ends there, with zeros behind it; `None` where there is none.
fn stream_before(file: &Arc<dyn BlockDevice>, end: u64) -> Result<Option<Stream>, DeviceError> {
    let Some(end) = without_padding(&**file, end)? else { return Ok(None) };
    let Some(footer_start) = end.checked_sub(EDGE_BYTES) else { return Ok(None) };
    let Some(footer) = read_range(&**file, footer_start, EDGE_BYTES as usize)? else { return Ok(None) };
    let Some((backward, flags)) = parse_footer(&footer) else { return Ok(None) };
    let index_bytes = (u64::from(backward) + 1) * 4;
    let Some(index_start) = footer_start.checked_sub(index_bytes) else { return Ok(None) };
    let index = PackedReader::new(file, index_start..footer_start);
    let Some((blocks, packed_bytes)) = read_index(BufReader::new(index)) else { return Ok(None) };
    let start = index_start.checked_sub(packed_bytes).and_then(|first| first.checked_sub(EDGE_BYTES));
    let Some(start) = start else { return Ok(None) };
    let Some(header) = read_range(&**file, start, EDGE_BYTES as usize)? else { return Ok(None) };
    if header != stream_header(flags) {
        return Ok(None);
    }
    let table = blocks.moved_by(start + EDGE_BYTES);
    Ok(table.map(|table| Stream { start, flags, table }))
}

/// The end of a stream, before zeros in fours.
fn without_padding(file: &dyn BlockDevice, end: u64) -> Result<Option<u64>, DeviceError> {
    let mut at = end;
    while at >= 4 && end - at <= MOST_PADDING_BYTES {
        let length = at.min(PADDING_READ_BYTES) & !3;
        let Some(bytes) = read_range(file, at - length, length as usize)? else { return Ok(None) };
        let fours = bytes.rchunks_exact(4).take_while(|four| **four == [0; 4]).count() as u64;
        at -= fours * 4;
        if fours * 4 < length {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// The length of the index, in fours and less one, and the flags.
pub(super) fn parse_footer(footer: &[u8]) -> Option<(u32, Flags)> {
    let [a, b, c, d, ref summed @ .., y, z] = *footer else { return None };
    let [backward @ .., first, second] = summed else { return None };
    let is_right = crc32fast::hash(summed) == u32::from_le_bytes([a, b, c, d]) && [y, z] == FOOTER_MAGIC;
    let backward = u32::from_le_bytes(backward.try_into().ok()?);
    is_right.then_some((backward, [*first, *second]))
}

pub(super) fn stream_header(flags: Flags) -> Vec<u8> {
    [&HEADER_MAGIC[..], &flags, &crc32fast::hash(&flags).to_le_bytes()].concat()
}

pub(super) fn stream_footer(backward: u32, flags: Flags) -> Vec<u8> {
    let summed = [&backward.to_le_bytes()[..], &flags].concat();
    [&crc32fast::hash(&summed).to_le_bytes()[..], &summed, &FOOTER_MAGIC].concat()
}

/// The blocks of an index, from byte 0, and how long they are with what fills each up to fours. The checksum and the padding of the index
/// are not looked at: an index that lies is found when a block is read.
pub(super) fn read_index(mut index: impl BufRead) -> Option<(PieceTable, u64)> {
    let mut indicator = [1];
    index.read_exact(&mut indicator).ok()?;
    if indicator != [0] {
        return None;
    }
    let count = read_number(&mut index)?;
    let (mut table, mut start) = (PieceTable::default(), 0_u64);
    for _ in 0..count {
        let (packed_bytes, size_bytes) = (read_number(&mut index)?, read_number(&mut index)?);
        let end = start.checked_add(packed_bytes).filter(|end| *end > start)?;
        table.add(start..end, size_bytes)?;
        start = end.checked_next_multiple_of(4)?;
    }
    Some((table, start))
}

/// A number of up to nine bytes, seven bits in each.
fn read_number(index: &mut impl BufRead) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let mut byte = [0];
        index.read_exact(&mut byte).ok()?;
        let [byte] = byte;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

pub(super) fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What follows on a block in a stream that has no other one.
fn behind_block(packed_bytes: u64, size_bytes: u64, flags: Flags) -> Vec<u8> {
    let mut index = vec![0, 1];
    push_number(&mut index, packed_bytes);
    push_number(&mut index, size_bytes);
    index.resize(index.len().next_multiple_of(4), 0);
    index.extend_from_slice(&crc32fast::hash(&index).to_le_bytes());
    let backward = u32::try_from(index.len() / 4).map_or(0, |fours| fours.saturating_sub(1));
    index.extend_from_slice(&stream_footer(backward, flags));
    index
}

impl Streams {
    /// The bytes of a block: it is decompressed as the only one of a stream, so that the library checks its sums and lengths.
    pub fn decode(&self, file: &Arc<dyn BlockDevice>, piece: &Piece) -> io::Result<Vec<u8>> {
        let Self(streams) = self;
        let number = streams.partition_point(|(start, _)| *start <= piece.packed.start);
        let stream = number.checked_sub(1).and_then(|number| streams.get(number));
        let (_, flags) = *stream.ok_or(ErrorKind::InvalidData)?;
        let padded_end = piece.packed.start + piece.packed_bytes().next_multiple_of(4);
        let behind = behind_block(piece.packed_bytes(), piece.size_bytes(), flags);
        let block = PackedReader::new(file, piece.packed.start..padded_end);
        let stream = io::Cursor::new(stream_header(flags)).chain(block).chain(io::Cursor::new(behind));
        let decoder =
            liblzma::stream::Stream::new_stream_decoder(MEMORY_BYTES, 0).map_err(io::Error::other)?;
        let decoder = liblzma::bufread::XzDecoder::new_stream(BufReader::new(stream), decoder);
        let mut bytes = Vec::with_capacity(usize::try_from(piece.size_bytes()).unwrap_or_default());
        decoder.take(piece.size_bytes() + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

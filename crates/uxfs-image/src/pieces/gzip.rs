//! gzip files whose members say how long they are, as bgzip writes them (the format BGZF of the SAM specification).

use std::{io, io::Read, sync::Arc};

use uxfs_block::device::{BlockDevice, DeviceError};

use super::{
    Codec, Layout,
    table::{Piece, PieceTable},
};
use crate::packed_reader::{PackedReader, read_range};

/// Header, and behind it the length of what more it has.
const HEADER_BYTES: u64 = 12;
/// Of what more a header has, at most: bgzip writes 6.
const MOST_EXTRA_BYTES: usize = 256;
/// Checksum and length at the end of a member.
const TRAILER_BYTES: u64 = 8;
/// deflate, and nothing in the header but what more it has.
const BEGINNING: [u8; 4] = [0x1f, 0x8b, 8, 4];

/// Goes from member to member. A file where one does not say its length is read as a stream.
pub(super) fn layout(file: &Arc<dyn BlockDevice>) -> Result<Layout, DeviceError> {
    let mut table = PieceTable::default();
    let mut start = 0;
    while start < file.size_bytes() {
        let Some(packed_bytes) = member_bytes(&**file, start)? else { return Ok(Layout::UNKNOWN) };
        let end = start + packed_bytes;
        let Some(length) = read_range(&**file, end.saturating_sub(4), 4)? else { return Ok(Layout::UNKNOWN) };
        let size_bytes = length.try_into().map_or(0, u32::from_le_bytes);
        if table.add(start..end, size_bytes.into()).is_none() {
            return Ok(Layout::UNKNOWN);
        }
        start = end;
    }
    Ok(Layout::of(Codec::Gzip, table))
}

/// All bytes of the member that begins there, as it says; `None` where it does not.
fn member_bytes(file: &dyn BlockDevice, start: u64) -> Result<Option<u64>, DeviceError> {
    let Some(header) = read_range(file, start, HEADER_BYTES as usize)? else { return Ok(None) };
    let [.., low, high] = header[..] else { return Ok(None) };
    let extra_bytes = usize::from(u16::from_le_bytes([low, high]));
    if !header.starts_with(&BEGINNING) || extra_bytes > MOST_EXTRA_BYTES {
        return Ok(None);
    }
    let Some(extra) = read_range(file, start + HEADER_BYTES, extra_bytes)? else { return Ok(None) };
    let own_bytes = HEADER_BYTES + extra_bytes as u64 + TRAILER_BYTES;
    Ok(length_field(&extra).map(|last| u64::from(last) + 1).filter(|bytes| *bytes >= own_bytes))
}

/// The field BC: the length of the member, less one.
fn length_field(mut fields: &[u8]) -> Option<u16> {
    while let [first, second, low, high, rest @ ..] = fields {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        match (first, second, rest) {
            (b'B', b'C', [low, high, ..]) if length == 2 => return Some(u16::from_le_bytes([*low, *high])),
            _ => fields = rest.get(length..)?,
        }
    }
    None
}

/// The bytes of a member.
pub(super) fn decode(file: &Arc<dyn BlockDevice>, piece: &Piece) -> io::Result<Vec<u8>> {
    let packed = io::BufReader::new(PackedReader::new(file, piece.packed.clone()));
    let mut bytes = Vec::with_capacity(usize::try_from(piece.size_bytes()).unwrap_or_default());
    flate2::bufread::GzDecoder::new(packed).take(piece.size_bytes() + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

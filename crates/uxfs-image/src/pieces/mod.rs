//! Compressed files that can be read from many places: each piece is decompressed alone.
//!
//! | module | holds |
//! |---|---|
//! | `table` | where the pieces lie, packed and unpacked |
//! | `cache` | the pieces that were decompressed last |
//! | `zstd` | frames, and the table of the seekable format |
//! | `xz` | blocks, and the index at the end |
//! | `gzip` | members that say how long they are, as bgzip writes them |
//!
//! Invariants:
//! 1. No piece has more than [`MOST_PIECE_BYTES`], packed or not, and there are at most [`MOST_PIECES`]: other files are read as a stream.
//! 2. A piece is exactly as long as the table says, or reading it fails.

pub(crate) mod cache;
mod gzip;
mod table;
mod xz;
mod zstd;

use std::{fmt, io, sync::Arc};

use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation, Identity};

pub(crate) use self::xz::MEMORY_BYTES as XZ_MEMORY_BYTES;
use self::{
    cache::{Cost, PieceCache},
    table::{Piece, PieceTable},
};
use crate::{error::ImageError, form::Form, read_only::read_only};

/// Bytes of a piece, at most.
pub(crate) const MOST_PIECE_BYTES: u64 = 64 << 20;
/// What a piece that cannot be compressed has more.
const MOST_OVERHEAD_BYTES: u64 = 1 << 20;
/// Pieces of a file, at most: 128 GiB as bgzip divides them, and 48 MiB of memory.
pub(crate) const MOST_PIECES: usize = 2 << 20;

/// How a file is compressed, in pieces that [`PieceDevice`] reads.
#[derive(Debug)]
pub(crate) struct Pieces {
    codec: Codec,
    table: PieceTable,
}

#[derive(Debug)]
enum Codec {
    Zstd,
    Gzip,
    Xz(xz::Streams),
}

/// What can be known of a compressed file without unpacking it.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Pieces that can be read alone.
    Pieces(Pieces),
    /// None such. `size_bytes`: how long it is unpacked, as far as it says.
    Whole { size_bytes: Option<u64> },
}

impl Layout {
    /// Nothing is known.
    const UNKNOWN: Self = Self::Whole { size_bytes: None };

    /// Looks how a file is compressed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn find(form: Form, file: &Arc<dyn BlockDevice>) -> Result<Self, ImageError> {
        let found = match form {
            Form::Zstd => zstd::layout(file),
            Form::Gzip => gzip::layout(file),
            Form::Xz => xz::layout(file),
            _ => Ok(Self::UNKNOWN),
        };
        Ok(found?)
    }

    /// Of pieces, or of the whole where there is none or one is too large.
    fn of(codec: Codec, table: PieceTable) -> Self {
        match table.is_usable() {
            true => Self::Pieces(Pieces { codec, table }),
            false => Self::Whole { size_bytes: Some(table.size_bytes()) },
        }
    }
}

impl Codec {
    fn name(&self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Xz(_) => "xz",
        }
    }

    fn decode(&self, file: &Arc<dyn BlockDevice>, piece: &Piece) -> io::Result<Vec<u8>> {
        let bytes = match self {
            Self::Zstd => zstd::decode(file, piece),
            Self::Gzip => gzip::decode(file, piece),
            Self::Xz(streams) => streams.decode(file, piece),
        };
        match bytes {
            Ok(bytes) if bytes.len() as u64 == piece.size_bytes() => Ok(bytes),
            Ok(_) => Err(self.damaged(piece, "it is not as long as the file says")),
            Err(error) => match error.downcast::<DeviceError>() {
                Ok(error) => Err(error.source),
                Err(error) => Err(self.damaged(piece, error)),
            },
        }
    }

    fn damaged(&self, piece: &Piece, why: impl fmt::Display) -> io::Error {
        let (name, start) = (self.name(), piece.packed.start);
        let words = format!("what {name} has packed at byte {start} of the file is damaged: {why}");
        io::Error::new(io::ErrorKind::InvalidData, words)
    }
}

/// The unpacked bytes of a compressed file.
#[derive(Debug)]
pub(crate) struct PieceDevice {
    file: Arc<dyn BlockDevice>,
    pieces: Pieces,
    cache: PieceCache,
}

impl PieceDevice {
    pub fn new(file: Arc<dyn BlockDevice>, pieces: Pieces, cache_bytes: u64) -> Self {
        Self { file, pieces, cache: PieceCache::new(cache_bytes) }
    }

    /// Fills a part of the buffer from the piece that has its first byte; gives how much.
    fn read_piece(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (number, piece) = self.pieces.table.find(offset_bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        let size_bytes = piece.size_bytes();
        // Decompressing takes the packed bytes too, or what the format looks back on.
        let cost = Cost { kept_bytes: size_bytes, working_bytes: size_bytes.max(piece.packed_bytes()) };
        let decode = || self.pieces.codec.decode(&self.file, &piece);
        self.cache.read(number as u64, cost, decode, |bytes| {
            let start = usize::try_from(offset_bytes - piece.unpacked.start).unwrap_or(usize::MAX);
            let source = bytes.get(start..).unwrap_or_default();
            let length = source.len().min(buffer.len());
            if let (Some(target), Some(source)) = (buffer.get_mut(..length), source.get(..length)) {
                target.copy_from_slice(source);
            }
            length
        })
    }
}

impl BlockDevice for PieceDevice {
    fn size_bytes(&self) -> u64 {
        self.pieces.table.size_bytes()
    }

    fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    fn engine(&self) -> &'static str {
        self.pieces.codec.name()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let (operation, length_bytes) = (DeviceOperation::Read, buffer.len() as u64);
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes())?;
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let failed = |source| DeviceError { operation, offset_bytes, length_bytes, source };
            match self.read_piece(offset_bytes + done as u64, rest).map_err(failed)? {
                0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                count => done += count,
            }
        }
        Ok(())
    }

    read_only!();
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;

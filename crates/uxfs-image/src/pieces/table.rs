//! Where the pieces of a compressed file lie, packed and unpacked.

use std::ops::Range;

use super::{MOST_OVERHEAD_BYTES, MOST_PIECE_BYTES, MOST_PIECES};

/// A piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its bytes in the file.
    pub packed: Range<u64>,
    /// Its bytes in the image.
    pub unpacked: Range<u64>,
}

impl Piece {
    pub fn size_bytes(&self) -> u64 {
        self.unpacked.end.saturating_sub(self.unpacked.start)
    }

    pub fn packed_bytes(&self) -> u64 {
        self.packed.end.saturating_sub(self.packed.start)
    }
}

#[derive(Debug)]
struct Entry {
    unpacked_end: u64,
    packed_start: u64,
    packed_bytes: u32,
}

/// All pieces, in the order of their bytes in the image, which they cover without holes.
#[derive(Debug, Default)]
pub(super) struct PieceTable {
    entries: Vec<Entry>,
    size_bytes: u64,
    has_unusable: bool,
}

impl PieceTable {
    /// Adds the next piece. Of pieces that are too large, or too many, only the sizes are kept. `None` where the sizes are beyond all
    /// bounds.
    #[must_use]
    pub fn add(&mut self, packed: Range<u64>, size_bytes: u64) -> Option<()> {
        self.size_bytes = self.size_bytes.checked_add(size_bytes).filter(|size| *size <= i64::MAX as u64)?;
        if size_bytes == 0 {
            return Some(());
        }
        let packed_bytes = packed.end.checked_sub(packed.start)?;
        let is_too_large =
            size_bytes > MOST_PIECE_BYTES || packed_bytes > MOST_PIECE_BYTES + MOST_OVERHEAD_BYTES;
        if is_too_large || self.entries.len() >= MOST_PIECES {
            self.has_unusable = true;
            self.entries = Vec::new();
        }
        if !self.has_unusable {
            let packed_bytes = u32::try_from(packed_bytes).ok()?;
            let entry = Entry { unpacked_end: self.size_bytes, packed_start: packed.start, packed_bytes };
            self.entries.push(entry);
        }
        Some(())
    }

    /// Adds the pieces of another table behind these.
    #[must_use]
    pub fn append(&mut self, other: &Self) -> Option<()> {
        if other.has_unusable {
            (self.has_unusable, self.entries) = (true, Vec::new());
            self.size_bytes = self.size_bytes.checked_add(other.size_bytes)?;
            return Some(());
        }
        (0..other.entries.len()).try_for_each(|number| {
            let piece = other.piece(number)?;
            let size_bytes = piece.size_bytes();
            self.add(piece.packed, size_bytes)
        })
    }

    /// The same pieces further on in the file.
    pub fn moved_by(mut self, distance_bytes: u64) -> Option<Self> {
        for entry in &mut self.entries {
            entry.packed_start = entry.packed_start.checked_add(distance_bytes)?;
        }
        Some(self)
    }

    /// How many pieces are kept.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// All unpacked bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether there are pieces, and each can be decompressed alone.
    pub fn is_usable(&self) -> bool {
        !self.has_unusable && !self.entries.is_empty()
    }

    /// The piece that has a byte of the image, with its number.
    pub fn find(&self, offset_bytes: u64) -> Option<(usize, Piece)> {
        let number = self.entries.partition_point(|entry| entry.unpacked_end <= offset_bytes);
        Some((number, self.piece(number)?))
    }

    fn piece(&self, number: usize) -> Option<Piece> {
        let entry = self.entries.get(number)?;
        let before = number.checked_sub(1).and_then(|number| self.entries.get(number));
        Some(Piece {
            packed: entry.packed_start..entry.packed_start + u64::from(entry.packed_bytes),
            unpacked: before.map_or(0, |before| before.unpacked_end)..entry.unpacked_end,
        })
    }
}

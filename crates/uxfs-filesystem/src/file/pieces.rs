//! A range of a file as it lies on the device.

use std::iter::Peekable;

use uxfs_format::{
    btree::extent_map::Extent,
    units::{FileBlock, FsBlock},
};

use uxfs_engine::extent_map::list;
use uxfs_volume::extent_map::{ExtentMap, Extents};

/// The state of a run of blocks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceState {
    /// Nothing: reads as zeros.
    Hole,
    /// Blocks that read as zeros.
    Unwritten(FsBlock),
    /// Blocks with contents.
    Written(FsBlock),
}

/// A run of blocks of a file, all in one state and one behind the other on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first.
    pub file_block: FileBlock,
    /// How many, at least one.
    pub length_blocks: u64,
    /// Hole, unwritten or written.
    pub state: PieceState,
}

impl Piece {
    /// First block behind it.
    pub fn end(&self) -> FileBlock {
        FileBlock::new(self.file_block.get().saturating_add(self.length_blocks))
    }

    /// As an extent, unless it is a hole.
    pub fn extent(&self) -> Option<Extent> {
        let (start, is_unwritten) = match self.state {
            PieceState::Hole => return None,
            PieceState::Unwritten(start) => (start, true),
            PieceState::Written(start) => (start, false),
        };
        Some(Extent { file_block: self.file_block, start, length_blocks: self.length_blocks, is_unwritten })
    }

    /// The piece without its first blocks, unless those are all.
    pub fn behind(&self, blocks: u64) -> Option<Self> {
        let length_blocks = self.length_blocks.checked_sub(blocks).filter(|rest| *rest > 0)?;
        let state = match self.state {
            PieceState::Hole => PieceState::Hole,
            PieceState::Unwritten(start) => PieceState::Unwritten(start.checked_add(blocks)?),
            PieceState::Written(start) => PieceState::Written(start.checked_add(blocks)?),
        };
        Some(Self { file_block: self.file_block.checked_add(blocks)?, length_blocks, state })
    }

    /// The first blocks of it.
    pub fn first(&self, most_blocks: u64) -> Self {
        Self { length_blocks: self.length_blocks.min(most_blocks), ..*self }
    }
}

/// All pieces of a range, in order and without gap.
#[derive(Debug, Clone)]
pub(super) struct Pieces<'a> {
    extents: Peekable<Extents<'a>>,
    next: FileBlock,
    end: FileBlock,
}

impl<'a> Pieces<'a> {
    pub fn new(extents: &'a ExtentMap, start: FileBlock, end: FileBlock) -> Self {
        Self { extents: extents.from(start).peekable(), next: start, end }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let file_block = self.next;
        if file_block >= self.end {
            return None;
        }
        let piece = match self.extents.peek().and_then(|extent| list::part_of(extent, file_block, self.end)) {
            Some(part) if part.file_block == file_block => {
                self.extents.next();
                let state = match part.is_unwritten {
                    true => PieceState::Unwritten(part.start),
                    false => PieceState::Written(part.start),
                };
                Piece { file_block, length_blocks: part.length_blocks, state }
            }
            following => {
                let end = following.map_or(self.end, |part| part.file_block);
                let length_blocks = end.checked_distance_from(file_block).unwrap_or(0);
                Piece { file_block, length_blocks, state: PieceState::Hole }
            }
        };
        self.next = piece.end();
        Some(piece)
    }
}

/// The first piece of a range.
pub(super) fn first_piece(extents: &ExtentMap, start: FileBlock, end: FileBlock) -> Option<Piece> {
    Pieces::new(extents, start, end).next()
}

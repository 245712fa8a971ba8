//! One step of an exchange, for the operation and for recovery that continues one.
//!
//! The ranges are cut into pairs of pieces of the same length before anything changes: a piece that changes places is still
//! what the cut says of it afterwards, wherever it is.

use uxfs_format::{btree::extent_map::Extent, inode::Fork, units::FileBlock};

use super::pieces::{Piece, PieceState, Pieces};
use uxfs_engine::{inode::edit::EditInode, transaction::Transaction};
use uxfs_volume::{error::Result, extent_map::ExtentMap};

/// Two ranges whose contents change places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangedRanges {
    /// Where each begins.
    pub starts: [FileBlock; 2],
    /// How long both are.
    pub length_blocks: u64,
    /// Exchange only written extents of the first file; holes and unwritten extents stay, as does the second file there.
    pub only_written: bool,
}

/// Pieces of the same length that lie across from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair([Piece; 2]);

impl Pair {
    fn is_to_change(&self, only_written: bool) -> bool {
        let [one, other] = &self.0;
        one.state != other.state && (!only_written || matches!(one.state, PieceState::Written(_)))
    }

    /// The extents of both as they are.
    fn extents(&self) -> [Option<Extent>; 2] {
        self.0.map(|piece| piece.extent())
    }

    /// The extents of both as they become.
    fn exchanged(&self) -> [Option<Extent>; 2] {
        let [one, other] = self.0;
        [(one, other), (other, one)]
            .map(|(place, contents)| Piece { file_block: place.file_block, ..contents }.extent())
    }
}

/// The pairs of two ranges in order, without gap.
#[derive(Debug)]
struct Pairs<'a> {
    pieces: [Pieces<'a>; 2],
    rest: [Option<Piece>; 2],
}

impl<'a> Pairs<'a> {
    fn new(maps: [&'a ExtentMap; 2], ranges: &ExchangedRanges) -> Self {
        let [one, other] = ranges.starts;
        let pieces = [(maps[0], one), (maps[1], other)].map(|(map, start)| {
            let end = FileBlock::new(start.get().saturating_add(ranges.length_blocks));
            Pieces::new(map, start, end)
        });
        Self { pieces, rest: [None; 2] }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        let [one, other] = &mut self.pieces;
        let one = self.rest[0].take().or_else(|| one.next())?;
        let other = self.rest[1].take().or_else(|| other.next())?;
        let blocks = one.length_blocks.min(other.length_blocks);
        self.rest = [one.behind(blocks), other.behind(blocks)];
        Some(Pair([one.first(blocks), other.first(blocks)]))
    }
}

/// Lets what two ranges begin with change places, up to `most_changes` pairs of pieces. Without a second file they are
/// ranges of the first, and apart. Gives how many blocks of the ranges are done.
pub(crate) fn exchange_step(
    tx: &mut Transaction<'_>,
    first: &mut EditInode,
    mut second: Option<&mut EditInode>,
    fork: Fork,
    ranges: &ExchangedRanges,
    most_changes: usize,
) -> Result<u64> {
    let maps = [first.extents(fork), second.as_deref().unwrap_or(first).extents(fork)];
    let (mut pairs, mut done) = (Vec::new(), 0);
    for pair in Pairs::new(maps, ranges) {
        if pair.is_to_change(ranges.only_written) {
            if pairs.len() >= most_changes {
                break;
            }
            pairs.push(pair);
        }
        done += pair.0[0].length_blocks;
    }
    for pair in &pairs {
        let ([old, across], [new, new_across]) = (pair.extents(), pair.exchanged());
        tx.extent_maps().put_mapping(first, fork, old, new)?;
        tx.extent_maps().put_mapping(second.as_deref_mut().unwrap_or(first), fork, across, new_across)?;
    }
    defer_new_owners(tx, [first, second.as_deref().unwrap_or(first)], fork, &pairs)?;
    Ok(done)
}

/// All blocks lose their owners before any gets another: a block has one at a time, unless it is shared. In the order of
/// the disk neighbours in the tree of owners change one after the other.
fn defer_new_owners(
    tx: &mut Transaction<'_>,
    files: [&EditInode; 2],
    fork: Fork,
    pairs: &[Pair],
) -> Result<()> {
    let mut gone = Vec::with_capacity(2 * pairs.len());
    for pair in pairs {
        gone.extend(files.into_iter().zip(pair.extents()).filter_map(|(file, old)| Some((file, old?))));
    }
    gone.sort_unstable_by_key(|(_, extent)| extent.start);
    for (file, extent) in &gone {
        tx.note_moved_contents(extent.start, extent.length_blocks);
        tx.defer_unmap(file, fork, extent)?;
    }
    for pair in pairs {
        for (file, new) in files.into_iter().zip(pair.exchanged()) {
            if let Some(new) = new {
                tx.defer_map(file, fork, &new)?;
            }
        }
    }
    Ok(())
}

//! Intents to exchange the contents of two files, or of two ranges of one: what is left of the range is exchanged, mapping by mapping.

use uxfs_format::{
    btree::extent_map::Extent,
    inode::{Fork, InodeFlags2},
    log::{
        exchange::{ExchangeFlags, ExchangeIntent},
        item::{ItemType, LogItemFault},
    },
    units::{FileBlock, FsBlock, InodeNumber},
};
use zerocopy::big_endian::U64;

use super::intents::damaged;
use crate::{error::Result, inode::edit::EditInode, transaction::Transaction};

/// Mappings that are exchanged before what follows from it is done.
const STEP: u32 = 64;

/// What a file has at a block: an extent from there on, or a hole.
struct Piece {
    extent: Option<Extent>,
    length_blocks: u64,
}

/// Exchanges what is left.
#[doc(alias = "xfs_exchmaps_recover_work")]
pub(super) fn finish(transaction: &mut Transaction<'_>, intent: &ExchangeIntent) -> Result<()> {
    let flags = ExchangeFlags::from_bits_retain(intent.flags.get());
    let fork = if flags.contains(ExchangeFlags::ATTRIBUTE_FORK) { Fork::Attribute } else { Fork::Data };
    let first = load(transaction, intent.first_inode.get(), intent.first_generation.get())?;
    let second = if intent.first_inode == intent.second_inode {
        check_apart(intent)?;
        None
    } else {
        Some(load(transaction, intent.second_inode.get(), intent.second_generation.get())?)
    };
    let mut files = Files { first, second };
    let (mut left, mut done) = (intent.length_blocks.get(), 0);
    let starts = [intent.first_offset_blocks.get(), intent.second_offset_blocks.get()];
    let mut since_step = 0;
    while left > 0 {
        let at = starts.map(|start| FileBlock::new(start.saturating_add(done)));
        let mut ours = piece_at(files.side(0), fork, at[0], left);
        let skip = flags.contains(ExchangeFlags::FIRST_WRITTEN)
            && ours.extent.is_none_or(|extent| extent.is_unwritten);
        let theirs = piece_at(files.side(1), fork, at[1], ours.length_blocks);
        if !skip {
            ours = piece_at(files.side(0), fork, at[0], theirs.length_blocks);
            exchange(transaction, fork, &mut files, at, [ours.extent, theirs.extent])?;
            since_step += 1;
        }
        // A piece is never empty: the range ends.
        let length_blocks = ours.length_blocks.max(1);
        (left, done) = (left.saturating_sub(length_blocks), done.saturating_add(length_blocks));
        if since_step >= STEP {
            since_step = 0;
            transaction.finish_deferred()?;
        }
    }
    let clear = [ExchangeFlags::CLEAR_FIRST_REFLINK, ExchangeFlags::CLEAR_SECOND_REFLINK];
    let sizes = [intent.first_size_bytes, intent.second_size_bytes];
    let files = [Some(&mut files.first), files.second.as_mut()];
    for ((inode, clear), size_bytes) in files.into_iter().flatten().zip(clear).zip(sizes) {
        if flags.contains(ExchangeFlags::SET_SIZES) {
            inode.set_size_bytes(u64::try_from(size_bytes.get()).unwrap_or(0));
        }
        if flags.contains(clear) {
            clear_reflink(inode);
        }
        transaction.store_inode(inode)?;
    }
    Ok(())
}

/// The files that exchange: often two.
struct Files {
    first: EditInode,
    /// `None` where it is the same.
    second: Option<EditInode>,
}

impl Files {
    fn side(&mut self, side: usize) -> &mut EditInode {
        match &mut self.second {
            Some(second) if side == 1 => second,
            _ => &mut self.first,
        }
    }
}

/// Two ranges of one file are apart.
fn check_apart(intent: &ExchangeIntent) -> Result<()> {
    let (first, second) = (intent.first_offset_blocks.get(), intent.second_offset_blocks.get());
    if first.abs_diff(second) >= intent.length_blocks.get() {
        return Ok(());
    }
    let inode = intent.first_inode.get();
    Err(damaged(LogItemFault::NoSuchInode { item: ItemType::ExchangeIntent, inode }))
}

fn load(transaction: &mut Transaction<'_>, number: u64, generation: u32) -> Result<EditInode> {
    let inode = transaction.load_inode(InodeNumber::new(number))?;
    if inode.core.generation.get() != generation {
        return Err(damaged(LogItemFault::NoSuchInode { item: ItemType::ExchangeIntent, inode: number }));
    }
    Ok(inode)
}

fn clear_reflink(inode: &mut EditInode) {
    let flags = inode.core.flags2().difference(InodeFlags2::REFLINK);
    inode.core.flags2 = U64::new(flags.bits());
}

/// What a fork has from `at` on, at most `most_blocks` of it.
fn piece_at(inode: &EditInode, fork: Fork, at: FileBlock, most_blocks: u64) -> Piece {
    let extents = inode.extents(fork);
    let index = extents.partition_point(|extent| extent.end() <= at);
    let Some(extent) = extents.get(index) else { return Piece { extent: None, length_blocks: most_blocks } };
    match at.checked_distance_from(extent.file_block) {
        Some(skip) => {
            let length_blocks = extent.length_blocks.saturating_sub(skip).min(most_blocks);
            let start = FsBlock::new(extent.start.get().saturating_add(skip));
            let extent = Extent { file_block: at, start, length_blocks, ..*extent };
            Piece { extent: Some(extent), length_blocks }
        }
        None => {
            let hole = extent.file_block.checked_distance_from(at).unwrap_or(0);
            Piece { extent: None, length_blocks: hole.min(most_blocks) }
        }
    }
}

/// Exchanges one mapping of the same length in both.
fn exchange(
    transaction: &mut Transaction<'_>,
    fork: Fork,
    files: &mut Files,
    at: [FileBlock; 2],
    [ours, theirs]: [Option<Extent>; 2],
) -> Result<()> {
    let is_same = match (ours, theirs) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.start == theirs.start && ours.is_unwritten == theirs.is_unwritten,
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    if let Some(extent) = ours {
        transaction.unmap_existing(files.side(0), fork, &extent)?;
    }
    if let Some(extent) = theirs {
        transaction.unmap_existing(files.side(1), fork, &extent)?;
        transaction.map_existing(files.side(0), fork, Extent { file_block: at[0], ..extent })?;
    }
    if let Some(extent) = ours {
        transaction.map_existing(files.side(1), fork, Extent { file_block: at[1], ..extent })?;
    }
    Ok(())
}

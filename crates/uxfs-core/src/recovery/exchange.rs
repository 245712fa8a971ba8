//! Intents to exchange the contents of two files: what is left of the range is exchanged, mapping by mapping.

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
    let mut first = load(transaction, intent.first_inode.get(), intent.first_generation.get())?;
    if intent.first_inode == intent.second_inode {
        let inode = intent.first_inode.get();
        return Err(damaged(LogItemFault::NoSuchInode { item: ItemType::ExchangeIntent, inode }));
    }
    let mut second = load(transaction, intent.second_inode.get(), intent.second_generation.get())?;
    let (mut left, mut done) = (intent.length_blocks.get(), 0);
    let (first_start, second_start) = (intent.first_offset_blocks.get(), intent.second_offset_blocks.get());
    let mut since_step = 0;
    while left > 0 {
        let at = |start: u64| FileBlock::new(start.saturating_add(done));
        let mut ours = piece_at(&first, fork, at(first_start), left);
        let skip = flags.contains(ExchangeFlags::FIRST_WRITTEN)
            && ours.extent.is_none_or(|extent| extent.is_unwritten);
        let theirs = piece_at(&second, fork, at(second_start), ours.length_blocks);
        if !skip {
            ours = piece_at(&first, fork, at(first_start), theirs.length_blocks);
            exchange(
                transaction,
                fork,
                (&mut first, at(first_start), &ours),
                (&mut second, at(second_start), &theirs),
            )?;
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
    if flags.contains(ExchangeFlags::SET_SIZES) {
        first.set_size_bytes(u64::try_from(intent.first_size_bytes.get()).unwrap_or(0));
        second.set_size_bytes(u64::try_from(intent.second_size_bytes.get()).unwrap_or(0));
    }
    if flags.contains(ExchangeFlags::CLEAR_FIRST_REFLINK) {
        clear_reflink(&mut first);
    }
    if flags.contains(ExchangeFlags::CLEAR_SECOND_REFLINK) {
        clear_reflink(&mut second);
    }
    transaction.store_inode(&mut first)?;
    transaction.store_inode(&mut second)
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

type Side<'a> = (&'a mut EditInode, FileBlock, &'a Piece);

/// Exchanges one mapping of the same length in both.
fn exchange(transaction: &mut Transaction<'_>, fork: Fork, first: Side<'_>, second: Side<'_>) -> Result<()> {
    let (first_inode, first_at, ours) = first;
    let (second_inode, second_at, theirs) = second;
    let is_same = match (ours.extent, theirs.extent) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => ours.start == theirs.start && ours.is_unwritten == theirs.is_unwritten,
        _ => false,
    };
    if is_same {
        return Ok(());
    }
    if let Some(extent) = ours.extent {
        transaction.unmap_existing(first_inode, fork, &extent)?;
    }
    if let Some(extent) = theirs.extent {
        transaction.unmap_existing(second_inode, fork, &extent)?;
        transaction.map_existing(first_inode, fork, Extent { file_block: first_at, ..extent })?;
    }
    if let Some(extent) = ours.extent {
        transaction.map_existing(second_inode, fork, Extent { file_block: second_at, ..extent })?;
    }
    Ok(())
}

//! Finishing intents to exchange the contents of two files, or of two ranges of one, mapping by mapping.

use uxfs_format::{
    inode::{Fork, InodeFlags2},
    log::{
        exchange::{ExchangeFlags, ExchangeIntent},
        item::{ItemType, LogItemFault},
    },
    units::{FileBlock, InodeNumber},
};
use uxfs_journal::journal::IntentId;
use zerocopy::{IntoBytes, big_endian::U64};

use super::intents::damaged;
use crate::{
    file::exchange_step::{ExchangedRanges, exchange_step},
    filesystem::FileSystem,
};
use uxfs_engine::{
    extent_map::STEP_EXTENTS,
    inode::edit::EditInode,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::Result;

/// Mappings that one transaction exchanges: as many as its log reservation covers.
const STEP: usize = STEP_EXTENTS / 2;

/// Exchanges the rest of the range. Each transaction but the last relogs the intent for what remains.
#[doc(alias = "xfs_exchmaps_recover_work")]
pub(super) fn finish(file_system: &FileSystem, intent: &ExchangeIntent) -> Result<()> {
    let mut left = *intent;
    let mut id = intent.id.get();
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let mut files = Files::load(&mut transaction, intent)?;
    loop {
        files.exchange_step(&mut transaction, &mut left)?;
        let is_last = left.length_blocks.get() == 0;
        let next = if is_last { None } else { log_intent(&mut transaction, &left) };
        transaction.intent_done(ItemType::ExchangeDone, id, &[]);
        if is_last {
            return files.end(transaction, intent);
        }
        // Bulk mode has no intents.
        id = next.unwrap_or(id);
        files.each().try_for_each(|inode| transaction.store_inode(inode))?;
        transaction.commit()?;
        transaction = Transaction::begin_for(file_system, Operation::Release)?;
    }
}

/// Logs an intent for the rest of the range.
fn log_intent(transaction: &mut Transaction<'_>, left: &ExchangeIntent) -> Option<IntentId> {
    let ticket = transaction.buffers().ticket()?;
    Some(ticket.intent(|id| vec![ExchangeIntent { id: id.into(), ..*left }.as_bytes().to_vec()]))
}

/// The files that exchange contents.
struct Files {
    first: EditInode,
    /// `None` where it is the same.
    second: Option<EditInode>,
}

impl Files {
    fn load(transaction: &mut Transaction<'_>, intent: &ExchangeIntent) -> Result<Self> {
        let first = load(transaction, intent.first_inode.get(), intent.first_generation.get())?;
        let second = if intent.first_inode == intent.second_inode {
            check_apart(intent)?;
            None
        } else {
            Some(load(transaction, intent.second_inode.get(), intent.second_generation.get())?)
        };
        Ok(Self { first, second })
    }

    /// Each file once.
    fn each(&mut self) -> impl Iterator<Item = &mut EditInode> {
        [Some(&mut self.first), self.second.as_mut()].into_iter().flatten()
    }

    /// Exchanges up to [`STEP`] mappings of `left`, and shortens it.
    fn exchange_step(&mut self, transaction: &mut Transaction<'_>, left: &mut ExchangeIntent) -> Result<()> {
        let flags = ExchangeFlags::from_bits_retain(left.flags.get());
        let fork = if flags.contains(ExchangeFlags::ATTRIBUTE_FORK) { Fork::Attribute } else { Fork::Data };
        let ranges = ExchangedRanges {
            starts: [left.first_offset_blocks, left.second_offset_blocks]
                .map(|offset_blocks| FileBlock::new(offset_blocks.get())),
            length_blocks: left.length_blocks.get(),
            only_written: flags.contains(ExchangeFlags::FIRST_WRITTEN),
        };
        let done = exchange_step(transaction, &mut self.first, self.second.as_mut(), fork, &ranges, STEP)?;
        // Behind the last possible block there is nothing to exchange.
        advance(left, if done > 0 { done } else { ranges.length_blocks });
        Ok(())
    }

    /// Sets sizes and flags, and commits.
    fn end(mut self, mut transaction: Transaction<'_>, intent: &ExchangeIntent) -> Result<()> {
        let flags = ExchangeFlags::from_bits_retain(intent.flags.get());
        let clear = [ExchangeFlags::CLEAR_FIRST_REFLINK, ExchangeFlags::CLEAR_SECOND_REFLINK];
        let sizes = [intent.first_size_bytes, intent.second_size_bytes];
        for ((inode, clear), size_bytes) in self.each().zip(clear).zip(sizes) {
            if flags.contains(ExchangeFlags::SET_SIZES) {
                inode.set_size_bytes(u64::try_from(size_bytes.get()).unwrap_or(0));
            }
            if flags.contains(clear) {
                clear_reflink(inode);
            }
            transaction.store_inode(inode)?;
        }
        transaction.commit()
    }
}

fn advance(left: &mut ExchangeIntent, blocks: u64) {
    left.length_blocks.set(left.length_blocks.get().saturating_sub(blocks));
    for offset_blocks in [&mut left.first_offset_blocks, &mut left.second_offset_blocks] {
        offset_blocks.set(offset_blocks.get().saturating_add(blocks));
    }
}

/// Refuses overlapping ranges of one file.
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

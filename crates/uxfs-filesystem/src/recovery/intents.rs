//! Finishing intents that the log holds no end of: what they announce is done now, and what follows from it.
//!
//! Each is finished in a transaction of its own (an exchange in several), owners of blocks first, then oldest first. What
//! follows (an owner that goes, a reference less, blocks that become free) is done with it, as when the operation goes on
//! undisturbed: a chain ends before the next begins.

use uxfs_format::{
    fault::{Corruption, Location, Structure},
    features::Unsupported,
    log::{
        extent_map::ExtentMapFlags,
        free_extent::FreedExtent,
        item::{ItemType, LogItem, LogItemFault},
    },
    units::InodeNumber,
};
use uxfs_journal::{
    journal::{RECOVERED_SEQUENCE, items::intent::end_of},
    recovery::intents::RecoveredIntent,
};
use zerocopy::little_endian::{U32, U64};

use super::{FinishedIntent, attribute, exchange};
use crate::filesystem::FileSystem;
use uxfs_engine::transaction::{
    Transaction,
    deferred::{
        intent::IntentExtent,
        queue::{LoggedIntent, Work},
    },
    reservation::Operation,
};
use uxfs_volume::error::{Error, Result};

/// Does what an intent announces, and logs its end where there is a log.
pub(super) fn finish(file_system: &FileSystem, intent: &RecoveredIntent) -> Result<()> {
    let unknown = || damaged(LogItemFault::UnknownType { kind: intent.item_type.raw() });
    if intent.item_type == ItemType::ExchangeIntent {
        let finished = intent.with_item(|item| match item {
            LogItem::ExchangeIntent(item) => exchange::finish(file_system, item),
            _ => Err(unknown()),
        });
        return finished.unwrap_or_else(|| Err(unknown()));
    }
    let end = end_of(intent.item_type).ok_or_else(unknown)?;
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let begun = intent.with_item(|item| begin(&mut transaction, item));
    match begun.unwrap_or_else(|| Err(unknown()))? {
        // In steps where that is much: the end comes with the last.
        Some((works, extents)) => {
            let intent = LoggedIntent { end, id: intent.id, extents, sequence: RECOVERED_SEQUENCE };
            transaction.adopt_intent(works, intent)?;
        }
        None => transaction.intent_done(end, intent.id, &[]),
    }
    transaction.commit()
}

/// Whether an intent exchanges contents of a realtime file. Other intents say by themselves that they are about the realtime section.
pub(super) fn is_of_realtime_file(file_system: &FileSystem, intent: &RecoveredIntent) -> Result<bool> {
    let file = intent.with_item(|item| match item {
        LogItem::ExchangeIntent(item) => Some(InodeNumber::new(item.first_inode.get())),
        _ => None,
    });
    match file.flatten().map(|number| file_system.inode_from_outside(number)) {
        Some(Ok(inode)) => Ok(inode.is_realtime()),
        Some(Err(error @ Error::Io(_))) => Err(error),
        // What is wrong with the file is found when the intent is finished.
        Some(Err(_)) | None => Ok(false),
    }
}

/// Logs the end of an intent to free blocks, which stay as they are: no file has them, and they are not free.
pub(super) fn give_up(file_system: &FileSystem, intent: &RecoveredIntent) -> Result<()> {
    let unknown = || damaged(LogItemFault::UnknownType { kind: intent.item_type.raw() });
    let end = end_of(intent.item_type).ok_or_else(unknown)?;
    let extents = intent.with_item(|item| match item {
        LogItem::FreeExtent(item) => Some(item.extents.iter().map(freed).collect::<Vec<_>>()),
        _ => None,
    });
    let extents = extents.flatten().ok_or_else(unknown)?;
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    transaction.intent_done(end, intent.id, &extents);
    transaction.commit()
}

/// The report of a finished intent.
pub(super) fn finished(intent: &RecoveredIntent) -> FinishedIntent {
    let inodes = intent.with_item(|item| match item {
        LogItem::ExtentMapIntent(item) => (Some(item.extent.owner.get()), None),
        LogItem::AttributeIntent(item) => (Some(item.format.inode.get()), None),
        LogItem::ExchangeIntent(item) => (Some(item.first_inode.get()), Some(item.second_inode.get())),
        _ => (None, None),
    });
    let (inode, other_inode) = inodes.unwrap_or_default();
    FinishedIntent {
        item_type: intent.item_type,
        id: intent.id,
        lsn: intent.lsn,
        inode: inode.map(InodeNumber::new),
        other_inode: other_inode.map(InodeNumber::new),
    }
}

fn freed((start, length): (u64, u32)) -> FreedExtent {
    FreedExtent { start_block: U64::new(start), length_blocks: U32::new(length), padding: U32::new(0) }
}

/// The work of an intent, with the extents that the end of an EFI repeats; `None` where it has been done here.
///
/// Each extent is a piece of work by itself: two that follow each other on disk may have had different owners.
fn begin(
    transaction: &mut Transaction<'_>,
    item: &LogItem<'_>,
) -> Result<Option<(Vec<Work>, Vec<FreedExtent>)>> {
    let geometry = transaction.engine().geometry();
    let mut freed_extents = Vec::new();
    let extents: Vec<IntentExtent> = match item {
        LogItem::FreeExtent(item) => {
            freed_extents = item.extents.iter().map(freed).collect();
            freed_extents.iter().copied().map(IntentExtent::Free).collect()
        }
        LogItem::ReverseMapIntent(item) => {
            item.extents.iter().copied().map(IntentExtent::ReverseMap).collect()
        }
        LogItem::ReferenceCountIntent(item) => {
            item.extents.iter().copied().map(IntentExtent::ReferenceCount).collect()
        }
        LogItem::ExtentMapIntent(item) if item.flags().contains(ExtentMapFlags::REALTIME) => {
            return Err(Unsupported::RealtimeData.into());
        }
        LogItem::ExtentMapIntent(item) => vec![IntentExtent::ExtentMap(*item.extent)],
        LogItem::AttributeIntent(item) => return attribute::finish(transaction, item).map(|()| None),
        _ => return Err(damaged(LogItemFault::UnknownType { kind: item.item_type().raw() })),
    };
    let works = extents
        .iter()
        .map(|extent| Work::from_intent(extent, geometry).ok_or_else(|| outside(item.item_type(), extent)));
    Ok(Some((works.collect::<Result<_>>()?, freed_extents)))
}

#[cold]
fn outside(item: ItemType, extent: &IntentExtent) -> Error {
    let (start, length) = match extent {
        IntentExtent::Free(extent) => (extent.start_block, extent.length_blocks),
        IntentExtent::ReverseMap(extent) | IntentExtent::ExtentMap(extent) => {
            (extent.start_block, extent.length_blocks)
        }
        IntentExtent::ReferenceCount(extent) => (extent.start_block, extent.length_blocks),
    };
    damaged(LogItemFault::OutsideFileSystem { item, start: start.get(), length: length.get().into() })
}

/// A fault in an intent.
#[cold]
pub(super) fn damaged(fault: LogItemFault) -> Error {
    Corruption::new(Structure::LogItem, Location::default(), fault).into()
}

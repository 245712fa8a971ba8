//! Finishing intents that the log holds no end of: what they announce is done now, and what follows from it.
//!
//! Each is finished in a transaction of its own, oldest first. What follows (an owner that goes, a reference less, blocks
//! that become free) is done with it, as when the operation goes on undisturbed: a chain ends before the next begins.

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
use uxfs_journal::{journal::items::intent::end_of, recovery::intents::RecoveredIntent};
use zerocopy::little_endian::{U32, U64};

use super::{FinishedIntent, attribute, exchange};
use crate::{
    error::{Error, Result},
    filesystem::FileSystem,
    transaction::{
        Transaction,
        deferred::{intent::IntentExtent, queue::Work},
        reservation::Operation,
    },
};

/// Does what an intent announces, and logs its end where there is a log.
pub(super) fn finish(file_system: &FileSystem, intent: &RecoveredIntent) -> Result<()> {
    let unknown = || damaged(LogItemFault::UnknownType { kind: intent.item_type.raw() });
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    let item = intent.with_item(|item| {
        finish_item(&mut transaction, item)?;
        Ok(match item {
            LogItem::FreeExtent(item) => item.extents.iter().map(freed).collect(),
            _ => Vec::new(),
        })
    });
    let freed: Vec<FreedExtent> = item.unwrap_or_else(|| Err(unknown()))?;
    let end = end_of(intent.item_type).ok_or_else(unknown)?;
    transaction.intent_done(end, intent.id, &freed);
    transaction.commit()
}

/// What is told of an intent that has been finished.
pub(super) fn finished(intent: &RecoveredIntent) -> FinishedIntent {
    let inode = intent.with_item(|item| match item {
        LogItem::ExtentMapIntent(item) => Some(item.extent.owner.get()),
        LogItem::AttributeIntent(item) => Some(item.format.inode.get()),
        LogItem::ExchangeIntent(item) => Some(item.first_inode.get()),
        _ => None,
    });
    FinishedIntent {
        item_type: intent.item_type,
        id: intent.id,
        lsn: intent.lsn,
        inode: inode.flatten().map(InodeNumber::new),
    }
}

fn freed((start, length): (u64, u32)) -> FreedExtent {
    FreedExtent { start_block: U64::new(start), length_blocks: U32::new(length), padding: U32::new(0) }
}

fn finish_item(transaction: &mut Transaction<'_>, item: &LogItem<'_>) -> Result<()> {
    match item {
        LogItem::FreeExtent(item) => {
            for extent in item.extents.iter().map(freed) {
                finish_extent(transaction, item.item_type, &IntentExtent::Free(extent))?;
            }
        }
        LogItem::ReverseMapIntent(item) => {
            for extent in item.extents {
                finish_extent(transaction, item.item_type, &IntentExtent::ReverseMap(*extent))?;
            }
        }
        LogItem::ReferenceCountIntent(item) => {
            for extent in item.extents {
                finish_extent(transaction, item.item_type, &IntentExtent::ReferenceCount(*extent))?;
            }
        }
        LogItem::ExtentMapIntent(item) => {
            if item.flags().contains(ExtentMapFlags::REALTIME) {
                return Err(Unsupported::RealtimeData.into());
            }
            let extent = IntentExtent::ExtentMap(*item.extent);
            finish_extent(transaction, ItemType::ExtentMapIntent, &extent)?;
        }
        LogItem::AttributeIntent(item) => attribute::finish(transaction, item)?,
        LogItem::ExchangeIntent(item) => exchange::finish(transaction, item)?,
        _ => return Err(damaged(LogItemFault::UnknownType { kind: item.item_type().raw() })),
    }
    Ok(())
}

/// Each extent by itself: two that follow each other on disk may have had different owners, and must not become one.
fn finish_extent(transaction: &mut Transaction<'_>, item: ItemType, extent: &IntentExtent) -> Result<()> {
    let geometry = transaction.file_system().geometry();
    let work = Work::from_intent(extent, geometry).ok_or_else(|| {
        let (start, length) = match extent {
            IntentExtent::Free(extent) => (extent.start_block, extent.length_blocks),
            IntentExtent::ReverseMap(extent) | IntentExtent::ExtentMap(extent) => {
                (extent.start_block, extent.length_blocks)
            }
            IntentExtent::ReferenceCount(extent) => (extent.start_block, extent.length_blocks),
        };
        damaged(LogItemFault::OutsideFileSystem { item, start: start.get(), length: length.get().into() })
    })?;
    transaction.defer_work(work);
    transaction.finish_deferred()
}

/// A fault in an intent.
#[cold]
pub(super) fn damaged(fault: LogItemFault) -> Error {
    Corruption::new(Structure::LogItem, Location::default(), fault).into()
}

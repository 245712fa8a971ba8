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
};
use uxfs_journal::recovery::intents::RecoveredIntent;
use zerocopy::little_endian::{U32, U64};

use super::{attribute, exchange};
use crate::{
    error::{Error, Result},
    filesystem::FileSystem,
    transaction::{
        Transaction,
        deferred::{intent::IntentExtent, queue::Work},
        reservation::Operation,
    },
};

/// Does what an intent announces.
pub(super) fn finish(file_system: &FileSystem, intent: &RecoveredIntent) -> Result<()> {
    let unknown = || damaged(LogItemFault::UnknownType { kind: intent.item_type.raw() });
    intent.with_item(|item| finish_item(file_system, item)).unwrap_or_else(|| Err(unknown()))
}

fn finish_item(file_system: &FileSystem, item: &LogItem<'_>) -> Result<()> {
    let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
    match item {
        LogItem::FreeExtent(item) => {
            for (start, length) in item.extents.iter() {
                let extent = FreedExtent {
                    start_block: U64::new(start),
                    length_blocks: U32::new(length),
                    padding: U32::new(0),
                };
                finish_extent(&mut transaction, item.item_type, &IntentExtent::Free(extent))?;
            }
        }
        LogItem::ReverseMapIntent(item) => {
            for extent in item.extents {
                finish_extent(&mut transaction, item.item_type, &IntentExtent::ReverseMap(*extent))?;
            }
        }
        LogItem::ReferenceCountIntent(item) => {
            for extent in item.extents {
                finish_extent(&mut transaction, item.item_type, &IntentExtent::ReferenceCount(*extent))?;
            }
        }
        LogItem::ExtentMapIntent(item) => {
            if item.flags().contains(ExtentMapFlags::REALTIME) {
                return Err(Unsupported::RealtimeData.into());
            }
            let extent = IntentExtent::ExtentMap(*item.extent);
            finish_extent(&mut transaction, ItemType::ExtentMapIntent, &extent)?;
        }
        LogItem::AttributeIntent(item) => attribute::finish(&mut transaction, item)?,
        LogItem::ExchangeIntent(item) => exchange::finish(&mut transaction, item)?,
        _ => return Err(damaged(LogItemFault::UnknownType { kind: item.item_type().raw() })),
    }
    transaction.commit()
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

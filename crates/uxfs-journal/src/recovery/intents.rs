//! Intents that the log does not say are done: what must be finished after the replay.

use std::collections::BTreeMap;

use uxfs_format::{
    log::{
        extent_map::ExtentMapFlags,
        intent::DoneHeader,
        item::{ItemType, LogItem},
    },
    units::Lsn,
};

use super::packed::OwnedItem;

/// An intent without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredIntent {
    /// Its kind.
    pub item_type: ItemType,
    /// Counts the intents of a log: earlier ones have lower numbers.
    pub number: u32,
    /// Its name in the log, which its end repeats.
    pub id: u64,
    /// Where its transaction began.
    pub lsn: Lsn,
    /// Its regions, verified.
    item: OwnedItem,
}

impl RecoveredIntent {
    pub(super) fn new(item_type: ItemType, id: u64, lsn: Lsn, regions: &[&[u8]]) -> Self {
        Self { item_type, number: 0, id, lsn, item: OwnedItem::new(regions) }
    }

    /// Whether it is about blocks of the realtime section.
    pub fn is_realtime(&self) -> bool {
        let maps_realtime = |item: &LogItem<'_>| match item {
            LogItem::ExtentMapIntent(item) => item.flags().contains(ExtentMapFlags::REALTIME),
            _ => false,
        };
        self.item_type.is_realtime() || self.with_item(maps_realtime) == Some(true)
    }

    /// Decodes it and lets `look` see it; `None` cannot be for intents that were recovered.
    pub fn with_item<T>(&self, look: impl FnOnce(&LogItem<'_>) -> T) -> Option<T> {
        let regions = self.item.regions();
        LogItem::decode(&regions).ok().map(|item| look(&item))
    }
}

/// Intents that have not ended yet, while the log is replayed.
#[derive(Debug, Default)]
pub(super) struct PendingIntents {
    /// By name, kind, and number. Small: a log may hold one intent in every 44 bytes.
    pending: BTreeMap<(u64, u16, u32), (Lsn, OwnedItem)>,
    /// Less than the bytes of a log.
    added: u32,
    /// How many ends were seen.
    pub finished: u64,
}

/// The meaning of an item for intents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntentRole {
    Intent(u64),
    Done(ItemType, u64),
    Neither,
}

/// Whether an item is an intent or the end of one, and of which.
pub(super) fn role_of(item: &LogItem<'_>) -> IntentRole {
    let done = |done: &DoneHeader, intent| IntentRole::Done(intent, done.intent_id.get());
    match item {
        LogItem::FreeExtent(item) if item.is_intent() => IntentRole::Intent(item.header.id.get()),
        LogItem::FreeExtent(item) => {
            let is_realtime = item.item_type.is_realtime();
            let intent =
                if is_realtime { ItemType::RealtimeFreeExtentIntent } else { ItemType::FreeExtentIntent };
            IntentRole::Done(intent, item.header.id.get())
        }
        LogItem::ReverseMapIntent(item) => IntentRole::Intent(item.header.id.get()),
        LogItem::ReferenceCountIntent(item) => IntentRole::Intent(item.header.id.get()),
        LogItem::ExtentMapIntent(item) => IntentRole::Intent(item.header.id.get()),
        LogItem::AttributeIntent(item) => IntentRole::Intent(item.format.id.get()),
        LogItem::ExchangeIntent(item) => IntentRole::Intent(item.id.get()),
        LogItem::ReverseMapDone(item) => match item.item_type {
            ItemType::RealtimeReverseMapDone => done(item.done, ItemType::RealtimeReverseMapIntent),
            _ => done(item.done, ItemType::ReverseMapIntent),
        },
        LogItem::ReferenceCountDone(item) => match item.item_type {
            ItemType::RealtimeReferenceCountDone => done(item.done, ItemType::RealtimeReferenceCountIntent),
            _ => done(item.done, ItemType::ReferenceCountIntent),
        },
        LogItem::ExtentMapDone(item) => done(item.done, ItemType::ExtentMapIntent),
        LogItem::AttributeDone(item) => done(item.done, ItemType::AttributeIntent),
        LogItem::ExchangeDone(item) => done(item.done, ItemType::ExchangeIntent),
        LogItem::Buffer(_)
        | LogItem::Inode(_)
        | LogItem::InodeCreate(_)
        | LogItem::Quota(_)
        | LogItem::QuotaOff(_) => IntentRole::Neither,
    }
}

/// Whether an intent announces nothing. Linux logs none, and finishes what it finds by logging its end.
pub(super) fn is_empty(item: &LogItem<'_>) -> bool {
    match item {
        LogItem::FreeExtent(item) => item.extents.iter().next().is_none(),
        LogItem::ReverseMapIntent(item) => item.extents.is_empty(),
        LogItem::ReferenceCountIntent(item) => item.extents.is_empty(),
        _ => false,
    }
}

impl PendingIntents {
    pub fn add(&mut self, intent: RecoveredIntent) {
        self.added = self.added.saturating_add(1);
        let key = (intent.id, intent.item_type.raw(), self.added);
        self.pending.insert(key, (intent.lsn, intent.item));
    }

    /// An intent is done. Ends of intents that lie before the tail are passed over, as in Linux. The newest intent of
    /// this name is meant: a name may be used again once its intent is done.
    pub fn finish(&mut self, item_type: ItemType, id: u64) {
        let kind = item_type.raw();
        let meant = self.pending.range((id, kind, 0)..=(id, kind, u32::MAX)).next_back().map(|(key, _)| *key);
        if let Some(key) = meant {
            self.pending.remove(&key);
            self.finished += 1;
        }
    }

    /// Intents without a done item, in log order.
    pub fn into_vec(self) -> Vec<RecoveredIntent> {
        let mut left = Vec::with_capacity(self.pending.len());
        left.extend(self.pending.into_iter().filter_map(|((id, kind, number), (lsn, item))| {
            let item_type = ItemType::from_raw(kind)?;
            Some(RecoveredIntent { item_type, number, id, lsn, item })
        }));
        left.sort_unstable_by_key(|intent| intent.number);
        left
    }
}

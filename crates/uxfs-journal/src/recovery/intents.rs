//! Intents that the log does not say are done: what must be finished after the replay.

use uxfs_format::{
    log::{
        intent::DoneHeader,
        item::{ItemType, LogItem},
    },
    units::Lsn,
};

/// An intent without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredIntent {
    /// Its kind.
    pub item_type: ItemType,
    /// Its name in the log, which its end repeats.
    pub id: u64,
    /// Where its transaction began.
    pub lsn: Lsn,
    /// Its regions, verified.
    pub regions: Vec<Vec<u8>>,
}

impl RecoveredIntent {
    /// Decodes it and lets `look` see it; `None` cannot be for intents that were recovered.
    pub fn with_item<T>(&self, look: impl FnOnce(&LogItem<'_>) -> T) -> Option<T> {
        let regions: Vec<&[u8]> = self.regions.iter().map(Vec::as_slice).collect();
        LogItem::decode(&regions).ok().map(|item| look(&item))
    }
}

/// Intents in log order, while the log is replayed.
#[derive(Debug, Default)]
pub(super) struct PendingIntents {
    pending: Vec<Option<RecoveredIntent>>,
    /// How many ends were seen.
    pub finished: u64,
}

/// What an item says about intents.
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

impl PendingIntents {
    pub fn add(&mut self, intent: RecoveredIntent) {
        self.pending.push(Some(intent));
    }

    /// An intent is done. Ends of intents that lie before the tail are passed over, as in Linux. The newest intent of
    /// this name is meant: a name may be used again once its intent is done.
    pub fn finish(&mut self, item_type: ItemType, id: u64) {
        let is_meant = |slot: &&mut Option<RecoveredIntent>| {
            slot.as_ref().is_some_and(|intent| intent.item_type == item_type && intent.id == id)
        };
        if let Some(slot) = self.pending.iter_mut().rev().find(is_meant) {
            *slot = None;
            self.finished += 1;
        }
        if self.pending.len() > 64
            && self.pending.iter().filter(|slot| slot.is_some()).count() * 2 < self.pending.len()
        {
            self.pending.retain(Option::is_some);
        }
    }

    pub fn into_vec(self) -> Vec<RecoveredIntent> {
        self.pending.into_iter().flatten().collect()
    }
}

//! The checkpoint that transactions are adding to.

use std::collections::{HashMap, HashSet};

use uxfs_block::cache::{Piece, logged::ChangedBuffer};
use uxfs_format::log::{free_extent::FreedExtent, item::ItemType};

use super::items::{RegionSink, intent};

/// Names an intent as long as it has no end.
pub type IntentId = u64;

/// The changes of all transactions of one checkpoint so far.
#[doc(alias = "xfs_cil_ctx")]
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Buffers that changed.
    pub touched: Vec<ChangedBuffer>,
    /// Items other than buffers and inodes, in order.
    items: Vec<Option<Item>>,
    /// Where the intents of this checkpoint are among them: an end in the same checkpoint takes both away.
    intents: HashMap<IntentId, usize>,
    /// Intents of earlier checkpoints that end in this one.
    pub ended: Vec<IntentId>,
    /// Freed metadata by first byte and length: not to be replayed from before this checkpoint.
    pub cancels: HashSet<(u64, u32)>,
    /// Checkpoints to be released once this one is stable.
    pub releases: Vec<u64>,
    /// Blocks that become free once this one is stable.
    pub freed: Vec<FreedExtent>,
}

#[derive(Debug)]
struct Item {
    intent: Option<IntentId>,
    regions: intent::Regions,
}

impl Pending {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.touched.is_empty()
            && self.items.iter().all(Option::is_none)
            && self.cancels.is_empty()
            && self.freed.is_empty()
    }

    /// Takes in what a transaction leaves.
    pub fn add(&mut self, changes: &mut TransactionItems, touched: &mut Vec<ChangedBuffer>) {
        self.touched.append(touched);
        for change in changes.items.drain(..) {
            match change {
                Change::Item(regions) => self.items.push(Some(Item { intent: None, regions })),
                Change::Intent(id, regions) => {
                    self.intents.insert(id, self.items.len());
                    self.items.push(Some(Item { intent: Some(id), regions }));
                }
                Change::Done(id, regions) => match self.intents.remove(&id) {
                    Some(index) => {
                        if let Some(item) = self.items.get_mut(index) {
                            *item = None;
                        }
                    }
                    None => {
                        self.ended.push(id);
                        self.items.push(Some(Item { intent: None, regions }));
                    }
                },
                Change::Cancel(piece) => {
                    self.cancels.insert((piece.offset_bytes, piece.length_bytes));
                }
                // Written again in this checkpoint: what it holds now must be replayed, and is logged whole.
                Change::Created(piece) => {
                    self.cancels.remove(&(piece.offset_bytes, piece.length_bytes));
                }
            }
        }
        self.releases.append(&mut changes.releases);
        self.freed.append(&mut changes.freed);
    }

    /// Intents that have no end in this checkpoint.
    pub fn open_intents(&self) -> impl Iterator<Item = IntentId> + '_ {
        self.items.iter().flatten().filter_map(|item| item.intent)
    }

    /// Logs all items but buffers and inodes.
    ///
    /// # Errors
    /// Those of `before_each`.
    pub fn log_items<S: RegionSink, E>(
        &self,
        sink: &mut S,
        before_each: impl Fn(&mut S) -> Result<(), E>,
    ) -> Result<(), E> {
        for item in self.items.iter().flatten() {
            before_each(sink)?;
            item.regions.iter().for_each(|region| sink.region(region));
        }
        Ok(())
    }
}

/// The changes of one transaction beside changed buffers.
#[derive(Debug, Default)]
pub(super) struct TransactionItems {
    items: Vec<Change>,
    /// Checkpoints to be released once this transaction is stable.
    pub releases: Vec<u64>,
    /// Blocks that it freed.
    pub freed: Vec<FreedExtent>,
    bytes: u64,
}

#[derive(Debug)]
enum Change {
    Item(intent::Regions),
    Intent(IntentId, intent::Regions),
    Done(IntentId, intent::Regions),
    Cancel(Piece),
    Created(Piece),
}

impl TransactionItems {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.releases.is_empty() && self.freed.is_empty()
    }

    /// The most that this takes in the log.
    pub fn logged_bytes(&self) -> u64 {
        // An extent that is freed is in an intent and in its end.
        self.bytes + 80 * self.freed.len() as u64
    }

    pub fn reserve(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub fn item(&mut self, regions: intent::Regions) {
        self.count(&regions);
        self.items.push(Change::Item(regions));
    }

    pub fn intent(&mut self, id: IntentId, regions: intent::Regions) {
        self.count(&regions);
        self.items.push(Change::Intent(id, regions));
    }

    pub fn done(&mut self, kind: ItemType, id: IntentId, extents: &[FreedExtent]) {
        let region = match kind {
            ItemType::FreeExtentDone => intent::freed_extents(id, extents),
            _ => intent::done(kind, id),
        };
        let regions = vec![region];
        self.count(&regions);
        self.items.push(Change::Done(id, regions));
    }

    pub fn cancel(&mut self, piece: Piece) {
        self.bytes += 100;
        self.items.push(Change::Cancel(piece));
    }

    pub fn created(&mut self, piece: Piece) {
        self.items.push(Change::Created(piece));
    }

    fn count(&mut self, regions: &intent::Regions) {
        self.bytes += regions.iter().map(|region| region.len() as u64 + 16).sum::<u64>();
    }
}

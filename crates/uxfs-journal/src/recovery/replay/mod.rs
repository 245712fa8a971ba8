//! Replay: what the log holds comes to where it belongs.
//!
//! The log is read twice. The first time only the cancelled buffers are noted; the second time each committed transaction
//! is replayed when its commit is reached, its items in this order: buffers and new inode chunks, inodes and everything
//! else, AGI unlinked lists, cancellations. A transaction without a commit is dropped.
//!
//! Bytes of the log are hostile: every item is checked against the file system's sizes before it is looked at twice, every
//! buffer is verified before it is written, and what is written goes to an overlay: an image whose log cannot be replayed
//! stays as it was. Memory is bounded by the log's size (items of open transactions) and a fixed number of buffers.
//!
//! | module | holds |
//! |---|---|
//! | here | the two passes |
//! | `items` | what is made of one item |
//! | `buffers` | buffers that are being changed |
//! | `read_ahead` | buffers of the items that come next |
//! | `owner` | blocks of extent maps that change their inode |

mod buffers;
mod items;
mod owner;
mod read_ahead;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::{Corruption, Fault, Location, Structure},
    geometry::Geometry,
    log::{
        buffer_item::BufferFlags,
        item::{LogItem, LogItemFault},
    },
};

use self::{
    buffers::Buffers,
    items::{ItemError, Replayer},
    owner::OwnerChanges,
    read_ahead::WINDOW_ITEMS,
};
use super::{
    cancel_table::CancelTable,
    find_head_tail::DirtyLog,
    intents::{IntentRole, PendingIntents, RecoveredIntent, is_empty, role_of},
    packed::{PackedItem, PackedItems},
    read_records::RecordReader,
    transactions::{TransactionAssembler, TransactionInfo, TransactionSink},
};
use crate::{
    area::LogArea,
    error::{JournalError, Result},
};

/// The outcome of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemOutcome {
    /// Its changes were made.
    Replayed,
    /// The buffer is freed later on: nothing was done.
    Cancelled,
    /// The copy on disk is as new or newer: nothing was done.
    NewerOnDisk,
    /// It is a cancellation.
    Cancels,
    /// An intent: to be finished unless its end follows.
    Intent,
    /// The end of an intent.
    Done,
    /// Of no meaning any more.
    Ignored,
    /// A change of a realtime bitmap or summary, which a replay for reading does without.
    LeftOut,
}

impl ItemOutcome {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Cancelled => "cancelled",
            Self::NewerOnDisk => "newer on disk",
            Self::Cancels => "cancels",
            Self::Intent => "intent",
            Self::Done => "done",
            Self::Ignored => "ignored",
            Self::LeftOut => "left out",
        }
    }
}

/// Gets each item of each committed transaction, in the order in which they are replayed.
pub trait ReplayObserver {
    /// An item has been replayed, or not.
    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]], outcome: ItemOutcome);
}

/// An observer that ignores all items.
impl ReplayObserver for () {
    fn item(&mut self, _: &TransactionInfo, _: &[&[u8]], _: ItemOutcome) {}
}

/// How much was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayCounts {
    /// Records read.
    pub records: u64,
    /// Transactions with a commit.
    pub transactions: u64,
    /// Transactions without one, which were dropped.
    pub dropped_transactions: u64,
    /// Buffer items whose changes were made.
    pub buffers: u64,
    /// Inode items whose changes were made.
    pub inodes: u64,
    /// New inode chunks.
    pub inode_chunks: u64,
    /// Quota items.
    pub quotas: u64,
    /// Items of buffers that were freed later on.
    pub cancelled: u64,
    /// Items that are in place already.
    pub newer: u64,
    /// Intents whose end is in the log.
    pub finished_intents: u64,
    /// Buffers written.
    pub written_buffers: u64,
}

/// The work that a replay leaves.
#[derive(Debug)]
pub struct Replayed {
    /// How much was done.
    pub counts: ReplayCounts,
    /// Intents without their end, oldest first.
    pub intents: Vec<RecoveredIntent>,
}

/// What a replay does with changes of realtime bitmaps and summaries. Nothing else that uxfs reads depends on them; where they have
/// checksums, it cannot make these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealtimeBitmaps {
    /// The replay fails: the file system would be written with it.
    Refused,
    /// They are left out: the replayed file system is only read.
    LeftOut,
}

/// Replays the log in `area`, which [`examine`](crate::examine) found to be `log`, onto `target`: the file system of the
/// log with whatever the device holds, and room to write that can be thrown away if this fails.
///
/// # Errors
/// The log or what it is to change is damaged; the device failed. `target` is then of no use any more.
#[doc(alias = "xlog_do_recovery_pass")]
pub fn replay(
    area: &LogArea<'_>,
    log: &DirtyLog,
    geometry: &Geometry,
    target: (&dyn BlockDevice, RealtimeBitmaps),
    observer: &mut dyn ReplayObserver,
) -> Result<Replayed> {
    let (target, realtime_bitmaps) = target;
    let mut first = FirstPass::default();
    run(area, log, &mut first, |first| first.error.take())?;
    let start = area.start().get();
    let replayer = Replayer {
        geometry: geometry.clone(),
        buffers: Buffers::new(target, log.head),
        cancelled: first.cancelled,
        owner_changes: OwnerChanges::default(),
        device: target,
        realtime_bitmaps,
        log_sectors: start..start.saturating_add(area.blocks().into()),
    };
    let mut second = SecondPass {
        replayer,
        observer,
        open: Vec::new(),
        intents: PendingIntents::default(),
        counts: ReplayCounts::default(),
        error: None,
    };
    let ended = run(area, log, &mut second, |second| second.error.take())?;
    let SecondPass { mut replayer, intents, mut counts, .. } = second;
    std::mem::take(&mut replayer.owner_changes).make(&mut replayer.buffers, &replayer.geometry)?;
    replayer.buffers.finish(&replayer.geometry)?;
    counts.records = ended.records;
    counts.dropped_transactions = ended.dropped;
    counts.written_buffers = replayer.buffers.written;
    counts.finished_intents = intents.finished;
    Ok(Replayed { counts, intents: intents.into_vec() })
}

/// Counters of one pass.
struct Ended {
    records: u64,
    dropped: u64,
}

/// Feeds all records to a sink, which keeps the first error of its own.
fn run<S: TransactionSink>(
    area: &LogArea<'_>,
    log: &DirtyLog,
    sink: &mut S,
    error_of: impl Fn(&mut S) -> Option<ItemError>,
) -> Result<Ended> {
    let mut reader = RecordReader::new(*area, log.tail.block(), log.head.block());
    let mut assembler = TransactionAssembler::new();
    let mut records = 0;
    loop {
        let block = reader.next_block();
        let Some(record) = reader.next_record() else { break };
        let record = record?;
        records += 1;
        let lsn = record.header.lsn();
        for operation in record.operations() {
            let operation = operation.map_err(|fault| area.fault_at(block, fault))?;
            assembler.operation(&operation, lsn, sink).map_err(|fault| area.fault_at(block, fault))?;
            match error_of(sink) {
                None => {}
                Some(ItemError::Other(error)) => return Err(error),
                Some(ItemError::Item(fault)) => return Err(item_fault(area, block, fault)),
            }
        }
    }
    Ok(Ended { records, dropped: assembler.open().count() as u64 })
}

/// A fault in an item of a transaction that is committed in the record at `block`.
fn item_fault(area: &LogArea<'_>, block: u32, fault: LogItemFault) -> JournalError {
    let location = Location::at_sector(area.sector(block));
    Corruption::new(Structure::LogItem, location, Fault::from(fault)).into()
}

/// Notes cancelled buffers.
#[derive(Debug, Default)]
struct FirstPass {
    cancelled: CancelTable,
    /// Of each open transaction, by its number: sectors, and how many.
    open: Vec<(u32, Vec<(u64, u32)>)>,
    error: Option<ItemError>,
}

impl TransactionSink for FirstPass {
    fn begin(&mut self, transaction: &TransactionInfo, _: &uxfs_format::log::transaction::TransactionHeader) {
        // What a transaction of this number left that never ended.
        self.open.retain(|(id, _)| *id != transaction.id);
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        // Most items are of no interest here: they are decoded in the second pass.
        let is_buffer = uxfs_format::log::item::ItemType::of_region(regions)
            == Some(uxfs_format::log::item::ItemType::Buffer);
        if !is_buffer {
            return;
        }
        match LogItem::decode(regions) {
            Ok(LogItem::Buffer(item)) if item.format.buffer_flags().contains(BufferFlags::CANCEL) => {
                let sector = u64::try_from(item.format.sector.get()).unwrap_or(u64::MAX);
                let buffer = (sector, item.format.length_sectors.get().into());
                match self.open.iter_mut().find(|(id, _)| *id == transaction.id) {
                    Some((_, buffers)) => buffers.push(buffer),
                    None => self.open.push((transaction.id, vec![buffer])),
                }
            }
            Ok(_) => {}
            Err(fault) => self.error = Some(ItemError::Item(fault)),
        }
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        let Some(index) = self.open.iter().position(|(id, _)| *id == transaction.id) else { return };
        for (sector, sectors) in self.open.swap_remove(index).1 {
            self.cancelled.add(sector, sectors);
        }
    }
}

/// When an item's turn comes within its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Buffer,
    Item,
    InodeBuffer,
    Cancel,
}

impl Turn {
    const IN_ORDER: [Self; 4] = [Self::Buffer, Self::Item, Self::InodeBuffer, Self::Cancel];
}

#[derive(Debug)]
struct OpenItems {
    id: u32,
    /// Tagged with their turns.
    items: PackedItems,
}

struct SecondPass<'a, 'o> {
    replayer: Replayer<'a>,
    observer: &'o mut dyn ReplayObserver,
    open: Vec<OpenItems>,
    intents: PendingIntents,
    counts: ReplayCounts,
    error: Option<ItemError>,
}

impl TransactionSink for SecondPass<'_, '_> {
    fn begin(&mut self, transaction: &TransactionInfo, _: &uxfs_format::log::transaction::TransactionHeader) {
        self.open.retain(|open| open.id != transaction.id);
        self.open.push(OpenItems { id: transaction.id, items: PackedItems::default() });
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        let Some(open) = self.open.iter_mut().find(|open| open.id == transaction.id) else { return };
        match LogItem::decode(regions) {
            Ok(item) => open.items.push(turn_of(&item) as u8, regions),
            Err(fault) => self.error = Some(ItemError::Item(fault)),
        }
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        let Some(index) = self.open.iter().position(|open| open.id == transaction.id) else { return };
        let items = self.open.swap_remove(index).items;
        if let Err(error) = self.replay(transaction, &items) {
            self.error.get_or_insert(error);
        }
    }
}

fn turn_of(item: &LogItem<'_>) -> Turn {
    match item {
        LogItem::Buffer(item) if item.format.buffer_flags().contains(BufferFlags::CANCEL) => Turn::Cancel,
        LogItem::Buffer(item) if item.format.buffer_flags().contains(BufferFlags::INODES) => {
            Turn::InodeBuffer
        }
        LogItem::Buffer(_) | LogItem::InodeCreate(_) => Turn::Buffer,
        _ => Turn::Item,
    }
}

impl SecondPass<'_, '_> {
    fn replay(
        &mut self,
        transaction: &TransactionInfo,
        items: &PackedItems,
    ) -> std::result::Result<(), ItemError> {
        self.replayer.buffers.begin(transaction.start, &self.replayer.geometry)?;
        self.counts.transactions += 1;
        let mut items = Turn::IN_ORDER.into_iter().flat_map(|turn| items.tagged(turn as u8)).peekable();
        let mut window = Vec::new();
        while items.peek().is_some() {
            window.clear();
            window.extend(items.by_ref().take(WINDOW_ITEMS));
            self.replayer.read_ahead(&window);
            window.iter().try_for_each(|packed| self.replay_item(transaction, packed))?;
        }
        Ok(())
    }

    fn replay_item(
        &mut self,
        transaction: &TransactionInfo,
        packed: &PackedItem<'_>,
    ) -> std::result::Result<(), ItemError> {
        let Self { replayer, observer, intents, counts, .. } = self;
        let regions = packed.regions();
        let item = LogItem::decode(&regions).map_err(ItemError::Item)?;
        item.verify(&replayer.geometry).map_err(ItemError::Item)?;
        let (outcome, counter) = match &item {
            LogItem::Buffer(item) => (replayer.buffer(item)?, Some(&mut counts.buffers)),
            LogItem::Inode(item) => (replayer.inode(item)?, Some(&mut counts.inodes)),
            LogItem::InodeCreate(item) => (replayer.inode_create(item)?, Some(&mut counts.inode_chunks)),
            LogItem::Quota(item) => (replayer.quota(item)?, Some(&mut counts.quotas)),
            _ => match role_of(&item) {
                IntentRole::Intent(_) => (ItemOutcome::Intent, None),
                IntentRole::Done(..) => (ItemOutcome::Done, None),
                IntentRole::Neither => (ItemOutcome::Ignored, None),
            },
        };
        match (outcome, counter) {
            (ItemOutcome::Replayed, Some(counter)) => *counter += 1,
            (ItemOutcome::Cancelled, _) => counts.cancelled += 1,
            (ItemOutcome::NewerOnDisk, _) => counts.newer += 1,
            _ => {}
        }
        observer.item(transaction, &regions, outcome);
        match role_of(&item) {
            IntentRole::Intent(_) if is_empty(&item) => {}
            IntentRole::Intent(id) => {
                intents.add(RecoveredIntent::new(item.item_type(), id, transaction.start, &regions));
            }
            IntentRole::Done(intent, id) => intents.finish(intent, id),
            IntentRole::Neither => {}
        }
        Ok(())
    }
}

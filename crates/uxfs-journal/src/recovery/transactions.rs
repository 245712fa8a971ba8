//! From operations to items: puts regions together that were split over records, and regions to items.
//!
//! Items are handed over as soon as they are complete, whether or not their transaction was committed: memory is
//! bounded by the items that are incomplete, not by transactions. A sink that must know keeps them until
//! [`TransactionSink::commit`].
//!
//! At a missing record an assembler drops all open transactions, or keeps their readable items
//! ([`TransactionAssembler::despite_holes`]): a stale disk of a stripe set leaves holes in checkpoints of several MiB.
//! After a hole it skips regions until one begins an item. Checkpoints start and commit in the same order, so a commit also commits
//! earlier checkpoints whose commit record is missing.

use std::collections::VecDeque;

use uxfs_format::{
    log::{
        LOG_BLOCK_SIZE_BYTES, MAX_RECORDS_IN_FLIGHT,
        item::{ItemType, MAX_ITEM_BYTES, MAX_REGIONS, announced_regions},
        operation::{Operation, OperationFlags, OperationKind},
        record::MAX_RECORD_SIZE_BYTES,
        transaction::{TransactionFault, TransactionHeader},
    },
    units::Lsn,
};

/// The most transactions open at once. The kernel has a few checkpoints under way; a log could hold anything.
const MAX_OPEN: usize = 64;
/// Blocks of the log between the start of a checkpoint and its next operation, at most: what may be under way at one time.
const FAR_BLOCKS: u32 = MAX_RECORD_SIZE_BYTES / LOG_BLOCK_SIZE_BYTES * MAX_RECORDS_IN_FLIGHT;

/// An open or just committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionInfo {
    /// Its number, unique while it is open.
    pub id: u32,
    /// The record in which it began: the number that replayed metadata gets. Where that record is missing, a smaller number
    /// that no record has.
    pub start: Lsn,
    /// Items so far.
    pub items: u32,
}

/// Events of transactions, in log order.
pub trait TransactionSink {
    /// A transaction's header was read.
    fn begin(&mut self, transaction: &TransactionInfo, header: &TransactionHeader) {
        let _ = (transaction, header);
    }

    /// An item is complete. Its transaction may yet turn out to have no commit.
    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]);

    /// A transaction is complete.
    fn commit(&mut self, transaction: &TransactionInfo) {
        let _ = transaction;
    }

    /// The log was closed here.
    fn unmount(&mut self) {}
}

#[derive(Debug, Default)]
struct PartialItem {
    regions: Vec<Vec<u8>>,
    bytes: usize,
}

impl PartialItem {
    /// Regions of the item, once its first region is whole.
    fn announced(&self) -> Option<u32> {
        self.regions.first().and_then(|region| announced_regions(region))
    }
}

#[derive(Debug)]
struct OpenTransaction {
    info: TransactionInfo,
    header: Option<TransactionHeader>,
    item: PartialItem,
    /// The last region goes on in a later record.
    continues: bool,
    /// Parts are missing before the next item.
    is_interrupted: bool,
    /// Parts were missing.
    has_holes: bool,
}

/// Puts transactions together. Feed it the operations of all records in order.
#[derive(Debug, Default)]
pub struct TransactionAssembler {
    open: Vec<OpenTransaction>,
    /// The record of the last operation.
    last: Option<Lsn>,
    /// Of an assembler that goes on behind holes.
    holes: Option<Holes>,
}

/// Gaps in the log, each as the LSN of the record before it.
#[derive(Debug, Default)]
struct Holes(VecDeque<Lsn>);

impl Holes {
    fn add(&mut self, before: Lsn) {
        self.0.push_back(before);
        let is_far = |first: Lsn| {
            first.cycle() != before.cycle() || before.block().saturating_sub(first.block()) > FAR_BLOCKS
        };
        while self.0.front().is_some_and(|first| is_far(*first)) {
            self.0.pop_front();
        }
    }

    /// A transaction whose start is missing started later than this, which is no record's number.
    fn start(&self) -> Option<Lsn> {
        self.0.front().map(|before| Lsn::new(before.get().saturating_add(1)))
    }
}

impl TransactionAssembler {
    /// Nothing open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing open; goes on with open transactions where records are missing.
    pub fn despite_holes() -> Self {
        Self { holes: Some(Holes::default()), ..Self::default() }
    }

    /// Transactions that began and were not committed.
    pub fn open(&self) -> impl Iterator<Item = &TransactionInfo> {
        self.open.iter().map(|transaction| &transaction.info)
    }

    /// Records are missing after the last operation. Drops open transactions, or marks them incomplete.
    pub fn interrupt(&mut self) {
        let Some(holes) = &mut self.holes else { return self.open.clear() };
        // Before the first record lies what nothing is known of.
        self.last.into_iter().for_each(|last| holes.add(last));
        self.open.iter_mut().for_each(OpenTransaction::interrupt);
    }

    /// Takes one operation of the record at `lsn`. Operations of transactions that began before the first record are
    /// passed over.
    ///
    /// # Errors
    /// The operation does not fit its transaction, which is dropped.
    pub fn operation(
        &mut self,
        operation: &Operation<'_>,
        lsn: Lsn,
        sink: &mut dyn TransactionSink,
    ) -> Result<(), TransactionFault> {
        let id = operation.header.transaction.get();
        self.last = Some(lsn);
        let result = self.apply(id, operation, lsn, sink);
        if result.is_ok() {
            return result;
        }
        match &self.holes {
            Some(_) => {
                self.open.iter_mut().filter(|open| open.info.id == id).for_each(OpenTransaction::interrupt)
            }
            None => self.open.retain(|transaction| transaction.info.id != id),
        }
        result
    }

    fn apply(
        &mut self,
        id: u32,
        operation: &Operation<'_>,
        lsn: Lsn,
        sink: &mut dyn TransactionSink,
    ) -> Result<(), TransactionFault> {
        match operation.kind {
            OperationKind::Unmount => {
                sink.unmount();
                return Ok(());
            }
            OperationKind::Start => return self.start(id, lsn),
            OperationKind::Commit | OperationKind::Region | OperationKind::Continuation => {}
        }
        let index = self.open.iter().position(|transaction| transaction.info.id == id);
        let index = match (index, self.holes.as_ref().and_then(Holes::start)) {
            (Some(index), _) => index,
            (None, Some(start)) if operation.kind != OperationKind::Commit => {
                self.push(OpenTransaction::without_start(id, start))?;
                self.open.len() - 1
            }
            (None, _) => return Ok(()),
        };
        if operation.kind == OperationKind::Commit {
            let committed = self.open.remove(index);
            let later = self.open.split_off(index);
            self.commit_until(committed.info.start, sink);
            self.open.extend(later);
            return committed.commit(sink);
        }
        let Some(transaction) = self.open.get_mut(index) else { return Ok(()) };
        let continued = operation.kind == OperationKind::Continuation;
        let flags = OperationFlags::from_bits_retain(operation.header.flags);
        let continues = flags.contains(OperationFlags::CONTINUE);
        if transaction.is_passed_over(operation.data, continued) {
            return Ok(());
        }
        transaction.piece(operation.data, continued, continues)?;
        if continues { Ok(()) } else { transaction.region_complete(sink) }
    }

    fn start(&mut self, id: u32, start: Lsn) -> Result<(), TransactionFault> {
        if let Some(index) = self.open.iter().position(|transaction| transaction.info.id == id) {
            if self.holes.is_none() {
                return Err(TransactionFault::StartedTwice { transaction: id });
            }
            // Another one with the same number, whose end is missing.
            self.open.remove(index);
        }
        self.push(OpenTransaction::new(id, start))
    }

    fn push(&mut self, transaction: OpenTransaction) -> Result<(), TransactionFault> {
        if self.open.len() >= MAX_OPEN {
            if self.holes.is_none() {
                return Err(TransactionFault::TooManyOpen { limit: MAX_OPEN as u32 });
            }
            self.open.remove(0);
        }
        self.open.push(transaction);
        Ok(())
    }

    /// Commits transactions that lack parts and started at `last` or before, in their order. All of them were committed.
    pub fn commit_until(&mut self, last: Lsn, sink: &mut dyn TransactionSink) {
        for open in self.open.extract_if(.., |open| open.has_holes && open.info.start <= last) {
            // A partial item is dropped.
            let _ = open.commit(sink);
        }
    }
}

impl OpenTransaction {
    fn new(id: u32, start: Lsn) -> Self {
        Self {
            info: TransactionInfo { id, start, items: 0 },
            header: None,
            item: PartialItem::default(),
            continues: false,
            is_interrupted: false,
            has_holes: false,
        }
    }

    /// One whose start is missing, and perhaps its header.
    fn without_start(id: u32, start: Lsn) -> Self {
        Self { is_interrupted: true, has_holes: true, ..Self::new(id, start) }
    }

    fn interrupt(&mut self) {
        self.item = PartialItem::default();
        self.continues = false;
        self.is_interrupted = true;
        self.has_holes = true;
    }

    /// Whether an operation after a hole continues a missing item.
    fn is_passed_over(&mut self, data: &[u8], continued: bool) -> bool {
        if !self.is_interrupted {
            return false;
        }
        let begins_item = !continued && ItemType::of_region(&[data]).is_some();
        self.is_interrupted = !begins_item;
        !begins_item
    }

    /// Adds a region or a further piece of the last one.
    fn piece(&mut self, data: &[u8], continued: bool, continues: bool) -> Result<(), TransactionFault> {
        let transaction = self.info.id;
        if continued != self.continues {
            return Err(TransactionFault::NothingToContinue { transaction });
        }
        self.continues = continues;
        let item = &mut self.item;
        item.bytes = item.bytes.saturating_add(data.len());
        if item.bytes as u64 > MAX_ITEM_BYTES {
            return Err(TransactionFault::ItemTooLarge { transaction, limit_bytes: MAX_ITEM_BYTES });
        }
        if continued {
            if let Some(last) = item.regions.last_mut() {
                last.extend_from_slice(data);
            }
        } else if !data.is_empty() || continues {
            item.regions.push(data.to_vec());
        }
        Ok(())
    }

    /// The last region is whole: so may be the header, or an item.
    fn region_complete(&mut self, sink: &mut dyn TransactionSink) -> Result<(), TransactionFault> {
        let transaction = self.info.id;
        let Some(first) = self.item.regions.first() else { return Ok(()) };
        if self.header.is_none() && !self.has_holes {
            let header = *TransactionHeader::parse(first, transaction)?;
            sink.begin(&self.info, &header);
            self.header = Some(header);
            self.item = PartialItem::default();
            return Ok(());
        }
        let length_bytes = first.len() as u64;
        // What follows a hole may not be what it looks like.
        let is_known = !self.has_holes || ItemType::of_region(&[first]).is_some();
        let regions = self.item.announced().filter(|_| is_known).unwrap_or(0);
        if regions == 0 || regions > MAX_REGIONS {
            return Err(TransactionFault::ItemRegions { transaction, regions, length_bytes });
        }
        if self.item.regions.len() as u64 >= u64::from(regions) {
            self.info.items += 1;
            let item = std::mem::take(&mut self.item);
            let regions: Vec<&[u8]> = item.regions.iter().map(Vec::as_slice).collect();
            sink.item(&self.info, &regions);
        }
        Ok(())
    }

    fn commit(self, sink: &mut dyn TransactionSink) -> Result<(), TransactionFault> {
        if !self.item.regions.is_empty() && !self.has_holes {
            return Err(TransactionFault::IncompleteItem {
                transaction: self.info.id,
                found: self.item.regions.len() as u32,
                expected: self.item.announced().unwrap_or(0),
            });
        }
        sink.commit(&self.info);
        Ok(())
    }
}

#[cfg(test)]
#[path = "transactions_tests.rs"]
mod tests;

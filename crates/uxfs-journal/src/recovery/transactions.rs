//! From operations to items: puts regions together that were split over records, and regions to items.
//!
//! Items are handed over as soon as they are complete, whether or not their transaction was committed: memory is
//! bounded by the items that are incomplete, not by transactions. A sink that must know keeps them until
//! [`TransactionSink::commit`].

use uxfs_format::{
    log::{
        item::{MAX_ITEM_BYTES, MAX_REGIONS, announced_regions},
        operation::{Operation, OperationFlags, OperationKind},
        transaction::{TransactionFault, TransactionHeader},
    },
    units::Lsn,
};

/// The most transactions open at once. The kernel has a few checkpoints under way; a log could hold anything.
const MAX_OPEN: usize = 64;

/// An open or just committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionInfo {
    /// Its number, unique while it is open.
    pub id: u32,
    /// The record in which it began: the number that replayed metadata gets.
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
}

/// Puts transactions together. Feed it the operations of all records in order.
#[derive(Debug, Default)]
pub struct TransactionAssembler {
    open: Vec<OpenTransaction>,
}

impl TransactionAssembler {
    /// Nothing open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Transactions that began and were not committed.
    pub fn open(&self) -> impl Iterator<Item = &TransactionInfo> {
        self.open.iter().map(|transaction| &transaction.info)
    }

    /// Forgets what is open: the records that follow do not belong to those before.
    pub fn clear(&mut self) {
        self.open.clear();
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
        let result = self.apply(id, operation, lsn, sink);
        if result.is_err() {
            self.open.retain(|transaction| transaction.info.id != id);
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
        let Some(index) = self.open.iter().position(|transaction| transaction.info.id == id) else {
            return Ok(());
        };
        if operation.kind == OperationKind::Commit {
            return self.open.swap_remove(index).commit(sink);
        }
        let Some(transaction) = self.open.get_mut(index) else { return Ok(()) };
        let continued = operation.kind == OperationKind::Continuation;
        let flags = OperationFlags::from_bits_retain(operation.header.flags);
        let continues = flags.contains(OperationFlags::CONTINUE);
        transaction.piece(operation.data, continued, continues)?;
        if continues { Ok(()) } else { transaction.region_complete(sink) }
    }

    fn start(&mut self, id: u32, start: Lsn) -> Result<(), TransactionFault> {
        if self.open.iter().any(|transaction| transaction.info.id == id) {
            return Err(TransactionFault::StartedTwice { transaction: id });
        }
        if self.open.len() >= MAX_OPEN {
            return Err(TransactionFault::TooManyOpen { limit: MAX_OPEN as u32 });
        }
        self.open.push(OpenTransaction {
            info: TransactionInfo { id, start, items: 0 },
            header: None,
            item: PartialItem::default(),
            continues: false,
        });
        Ok(())
    }
}

impl OpenTransaction {
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
        if self.header.is_none() {
            let header = *TransactionHeader::parse(first, transaction)?;
            sink.begin(&self.info, &header);
            self.header = Some(header);
            self.item = PartialItem::default();
            return Ok(());
        }
        let length_bytes = first.len() as u64;
        let regions = self.item.announced().unwrap_or(0);
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
        if !self.item.regions.is_empty() {
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

//! The contents of the log, record by record, as data: names and field tables, no formatting.
//!
//! Memory is bounded by one record and the items that are incomplete. Damage is told and passed over: the listing
//! goes on with the next record, and transactions that lost a part are dropped.

use std::ops::Range;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    fault::Fault,
    field_table::Field,
    geometry::Geometry,
    log::{
        item::{ItemType, LogItem, LogItemFault},
        operation::{OperationHeader, OperationKind},
        record::{ChecksumState, RecordHeader},
        transaction::TransactionHeader,
    },
    units::{Lsn, Sector},
};

use crate::{
    area::LogArea,
    error::{JournalError, Result},
    recovery::{
        find_head_tail::{CleanLog, LogState, examine_area, head_despite_damage, never_written},
        read_records::{Record, RecordError, RecordReader},
        search,
        transactions::{TransactionAssembler, TransactionInfo, TransactionSink},
    },
};

/// Where the log lies and what state it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSummary {
    /// First 512-byte unit of the log on the device.
    pub start: Sector,
    /// Blocks of 512 bytes in the log.
    pub blocks: u32,
    /// Head, tail, and whether the log must be replayed.
    pub state: LogState,
}

/// Where the log of the file system on `device` lies and what state it is in.
///
/// # Errors
/// As [`examine`](crate::examine).
pub fn summary(device: &dyn BlockDevice, geometry: &Geometry) -> Result<LogSummary> {
    let area = LogArea::new(device, geometry)?;
    Ok(LogSummary { start: area.start(), blocks: area.blocks(), state: examine_area(&area)? })
}

/// Which records to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingRange {
    /// Those that replay would read: none for a clean log.
    Active,
    /// All that can still be read, oldest first, whether or not they matter. The part of a log that was never written is skipped.
    Everything,
}

/// One operation of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedOperation {
    /// First byte of its header in the payload.
    pub offset_bytes: u32,
    /// Its meaning.
    pub kind: OperationKind,
    /// Its header; the table names its fields.
    pub header: OperationHeader,
}

/// One structure, array element or stretch of raw bytes in an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedPart {
    /// Its kind.
    pub name: &'static str,
    /// Its fields; none where it is raw bytes.
    pub fields: &'static [Field],
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One item, listed with the record that completes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedItem {
    /// Its transaction.
    pub transaction: TransactionInfo,
    /// Its kind, if known.
    pub kind: Option<ItemType>,
    /// Regions.
    pub regions: u32,
    /// Its contents; raw regions where they could not be decoded.
    pub parts: Vec<LoggedPart>,
    /// Why they could not be decoded.
    pub fault: Option<LogItemFault>,
}

impl LoggedItem {
    /// The name that `xfs_logprint` uses.
    pub fn name(&self) -> &'static str {
        self.kind.map_or("unknown", ItemType::name)
    }
}

/// An event of a transaction in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEvent {
    /// Its header was read.
    Begin(TransactionInfo, TransactionHeader),
    /// It is complete.
    Commit(TransactionInfo),
    /// The log was closed.
    Unmount,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Block of the log at which it begins.
    pub block: u32,
    /// Cycle and block, as the header says.
    pub lsn: Lsn,
    /// From where to replay when this record is the newest.
    pub tail_lsn: Lsn,
    /// Cycle in which it was written.
    pub cycle: u32,
    /// Blocks that it takes, headers included.
    pub blocks: u32,
    /// Bytes of payload.
    pub length_bytes: u32,
    /// Its header; the table names its fields.
    pub header: RecordHeader,
    /// The result of its checksum. Where it is wrong, nothing below is decoded.
    pub checksum: ChecksumState,
    /// Its operations, up to the first fault.
    pub operations: Vec<LoggedOperation>,
    /// Items that it completes.
    pub items: Vec<LoggedItem>,
    /// Transactions that begin and end in it.
    pub events: Vec<TransactionEvent>,
    /// Its fault.
    pub faults: Vec<Fault>,
}

impl LoggedRecord {
    fn new(record: &Record<'_>) -> Self {
        let header = record.header;
        Self {
            block: record.block,
            lsn: header.lsn(),
            tail_lsn: header.tail_lsn(),
            cycle: header.cycle.get(),
            blocks: header.blocks(),
            length_bytes: header.length_bytes.get(),
            header,
            checksum: record.checksum,
            operations: Vec::new(),
            items: Vec::new(),
            events: Vec::new(),
            faults: record.checksum_fault(false).into_iter().collect(),
        }
    }
}

impl TransactionSink for LoggedRecord {
    fn begin(&mut self, transaction: &TransactionInfo, header: &TransactionHeader) {
        self.events.push(TransactionEvent::Begin(*transaction, *header));
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        self.items.push(logged_item(*transaction, regions));
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        self.events.push(TransactionEvent::Commit(*transaction));
    }

    fn unmount(&mut self) {
        self.events.push(TransactionEvent::Unmount);
    }
}

fn logged_item(transaction: TransactionInfo, regions: &[&[u8]]) -> LoggedItem {
    let (kind, parts, fault) = match LogItem::decode(regions) {
        Ok(item) => {
            let parts = item.parts().into_iter().map(|part| LoggedPart {
                name: part.name,
                fields: part.fields,
                bytes: part.bytes.to_vec(),
            });
            (Some(item.item_type()), parts.collect(), None)
        }
        Err(fault) => {
            let raw = |bytes: &&[u8]| LoggedPart { name: "region", fields: &[], bytes: bytes.to_vec() };
            (ItemType::of_region(regions), regions.iter().map(raw).collect(), Some(fault))
        }
    };
    LoggedItem { transaction, kind, regions: regions.len() as u32, parts, fault }
}

/// The oldest and the newest record header of a ring.
#[derive(Debug, Clone, Copy)]
struct Ends {
    oldest: Lsn,
    oldest_block: u32,
    newest: Lsn,
}

/// Looks at the blocks of a log before `end`.
fn ends_of_ring(area: &LogArea<'_>, end: u32) -> Result<Option<Ends>> {
    let (mut block, mut ends) = (0, None::<Ends>);
    while block < end {
        let Some(found) = search::next_header(area, block, end - block)? else { break };
        let lsn = found.header.lsn();
        if !found.header.is_filler() {
            let known = ends.unwrap_or(Ends { oldest: lsn, oldest_block: found.block, newest: lsn });
            let is_older = lsn < known.oldest;
            ends = Some(Ends {
                oldest: known.oldest.min(lsn),
                oldest_block: if is_older { found.block } else { known.oldest_block },
                newest: known.newest.max(lsn),
            });
        }
        block = found.block.max(block).saturating_add(1);
    }
    Ok(ends)
}

/// The records of a log, decoded one at a time.
#[derive(Debug)]
pub struct Listing<'a> {
    reader: RecordReader<'a>,
    assembler: TransactionAssembler,
    range: ListingRange,
    /// Blocks in which no record is looked for.
    never_written: Range<u32>,
    has_read: bool,
    has_passed_over: bool,
    gaps: u64,
    failed: bool,
}

/// Lists the log of the file system on `device`.
///
/// # Errors
/// The log is external, or the device failed; for [`ListingRange::Active`] also where head and tail cannot be found.
pub fn log_listing<'a>(
    device: &'a dyn BlockDevice,
    geometry: &Geometry,
    range: ListingRange,
) -> Result<Listing<'a>> {
    Listing::new(LogArea::new(device, geometry)?, range)
}

impl<'a> Listing<'a> {
    /// Lists a log that is known by its place.
    ///
    /// # Errors
    /// As [`log_listing`].
    pub fn new(area: LogArea<'a>, range: ListingRange) -> Result<Self> {
        let state = examine_area(&area);
        let never_written = match state.as_ref().ok().and_then(LogState::head) {
            Some(head) => never_written(&area, head)?,
            None => 0..0,
        };
        let reader = match (range, state) {
            (ListingRange::Active, Ok(state)) => {
                let block = |lsn: Option<Lsn>| lsn.map_or(0, Lsn::block);
                RecordReader::new(area, block(state.tail()), block(state.head()))
            }
            // Behind the head lies the oldest of what was not overwritten yet.
            (ListingRange::Everything, Ok(state)) => {
                RecordReader::whole_ring(area, state.head().map_or(0, Lsn::block))
            }
            (ListingRange::Everything, Err(JournalError::Corrupt(_))) => {
                let head = head_despite_damage(&area).ok().flatten();
                RecordReader::whole_ring(area, head.map_or(0, Lsn::block))
            }
            (_, Err(error)) => return Err(error),
        };
        Ok(Self {
            reader,
            assembler: TransactionAssembler::new(),
            range,
            never_written,
            has_read: false,
            has_passed_over: false,
            gaps: 0,
            failed: false,
        })
    }

    /// Passes over blocks that no record begins at.
    fn skip_to_header(&mut self) -> Result<()> {
        while self.reader.room() > 0 {
            let (from, mut room) = (self.reader.next_block(), self.reader.room());
            if self.never_written.contains(&from) {
                self.reader.skip(self.never_written.end - from);
                continue;
            }
            if from < self.never_written.start {
                room = room.min(self.never_written.start - from);
            }
            let Some(found) = search::next_header(self.reader.area(), from, room)? else {
                self.pass_over(room);
                continue;
            };
            self.pass_over(self.reader.area().distance(from, found.block));
            if !found.header.is_filler() {
                return Ok(());
            }
            self.reader.skip(1);
        }
        Ok(())
    }

    fn pass_over(&mut self, blocks: u32) {
        if self.has_read && blocks > 0 {
            self.has_passed_over = true;
            self.assembler.interrupt();
        }
        self.reader.skip(blocks);
    }

    /// Records, or stretches between records, that could not be read so far. What lies behind the last record may never have been
    /// written.
    pub(crate) const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// All readable records, oldest first, including those past a hole at which the log seems to end. Keeps the readable parts of transactions.
    pub(crate) fn despite_holes(area: LogArea<'a>) -> Result<Self> {
        let state = match examine_area(&area) {
            Err(JournalError::Io(error)) => return Err(error.into()),
            state => state.ok(),
        };
        let end = match state {
            // Most of a new log was never read.
            Some(LogState::Empty) => never_written(&area, Lsn::new(0))?.start,
            Some(LogState::Clean(log)) => never_written(&area, log.head)?.start,
            Some(LogState::Dirty(_)) | None => area.blocks(),
        };
        let ends = ends_of_ring(&area, end)?;
        let is_beyond = |log: &CleanLog| ends.is_some_and(|ends| ends.newest >= log.head);
        match state {
            Some(LogState::Clean(log)) if !is_beyond(&log) => Self::new(area, ListingRange::Everything),
            _ => Ok(Self {
                reader: RecordReader::whole_ring(area, ends.map_or(0, |ends| ends.oldest_block)),
                assembler: TransactionAssembler::despite_holes(),
                never_written: end..area.blocks(),
                ..Self::of_ring(area)
            }),
        }
    }

    /// All records of a ring from its first block on, whatever state it is in.
    pub(crate) fn of_ring(area: LogArea<'a>) -> Self {
        let reader = RecordReader::whole_ring(area, 0);
        Self {
            reader,
            assembler: TransactionAssembler::new(),
            range: ListingRange::Everything,
            never_written: 0..0,
            has_read: false,
            has_passed_over: false,
            gaps: 0,
            failed: false,
        }
    }

    /// Commits the incomplete transactions that started at `last` or before.
    pub(crate) fn commit_until(&mut self, last: Lsn, sink: &mut dyn TransactionSink) {
        self.assembler.commit_until(last, sink);
    }

    /// Gives the next record to `take`, with what puts its transactions together. A device that fails ends the listing.
    pub(crate) fn next_with<T>(
        &mut self,
        take: impl FnOnce(&Record<'_>, &mut TransactionAssembler) -> T,
    ) -> Option<Result<T>> {
        if self.failed {
            return None;
        }
        let next = self.next_record(take);
        // A device that fails once may fail for every block.
        self.failed = matches!(next, Some(Err(JournalError::Io(_))));
        next
    }

    fn next_record<T>(
        &mut self,
        take: impl FnOnce(&Record<'_>, &mut TransactionAssembler) -> T,
    ) -> Option<Result<T>> {
        if self.range == ListingRange::Everything
            && let Err(error) = self.skip_to_header()
        {
            return Some(Err(error));
        }
        let (area, block) = (*self.reader.area(), self.reader.next_block());
        let error = match self.reader.read()? {
            Ok(record) => {
                self.has_read = true;
                self.gaps += u64::from(std::mem::take(&mut self.has_passed_over));
                // A part of it was overwritten.
                self.gaps += u64::from(matches!(record.checksum, ChecksumState::Wrong(_)));
                return Some(Ok(take(&record, &mut self.assembler)));
            }
            Err(error) => error,
        };
        if let RecordError::Fault(_) = error {
            self.gaps += u64::from(self.has_read);
            self.assembler.interrupt();
            self.reader.skip(1);
            if let Err(error) = self.skip_to_header() {
                return Some(Err(error));
            }
        }
        Some(Err(error.at(&area, block)))
    }
}

impl Iterator for Listing<'_> {
    type Item = Result<LoggedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(list)
    }
}

fn list(record: &Record<'_>, assembler: &mut TransactionAssembler) -> LoggedRecord {
    let mut listed = LoggedRecord::new(record);
    if !listed.faults.is_empty() {
        assembler.interrupt();
        return listed;
    }
    let readable = record.header.verify_format();
    for operation in record.operations() {
        let operation = match operation {
            Ok(operation) => operation,
            Err(fault) => {
                listed.faults.push(fault.into());
                assembler.interrupt();
                break;
            }
        };
        listed.operations.push(LoggedOperation {
            offset_bytes: operation.offset_bytes,
            kind: operation.kind,
            header: *operation.header,
        });
        if readable.is_ok()
            && let Err(fault) = assembler.operation(&operation, listed.lsn, &mut listed)
        {
            listed.faults.push(fault.into());
        }
    }
    listed.faults.extend(readable.err().map(Fault::from));
    listed
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;

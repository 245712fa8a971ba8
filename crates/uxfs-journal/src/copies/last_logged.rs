//! When inodes, blocks of files, headers and btrees of groups were changed last, by the log. What lies on the device is never older, once the log is clean: something
//! older is a write that was lost.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::symlink::SymlinkHeader,
    log::{
        buffer_item::{BufferContents, BufferFlags},
        inode_item::{InodeItem, InodeItemFields},
        item::LogItem,
        transaction::TransactionHeader,
    },
    units::{AgInode, AgNumber, InodeNumber, Lsn, SECTOR_SIZE_BYTES},
};

use super::{OwnFacts, Reach, feed, later, sectors_of};
use crate::{
    area::LogArea,
    error::{JournalError, Result},
    listing::{Listing, ListingRange},
    recovery::{
        find_head_tail::{examine_area, head_despite_damage, never_written},
        transactions::{TransactionInfo, TransactionSink},
    },
};

/// What an entry of the table takes, with its share of empty places.
const ENTRY_BYTES: usize = 192;

/// The last change of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedInode {
    /// The log sequence number.
    pub lsn: Lsn,
    /// What the inode says since; `None` where it is free.
    pub facts: Option<OwnFacts>,
}

/// The last change of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedBlock {
    /// The log sequence number.
    pub lsn: Lsn,
    /// Of a block with the target of a symbolic link, which is logged whole: see [`target_hash`].
    pub target: Option<u64>,
}

/// A number that stands for the part of a target in a block, and for its place; `None` where the block does not hold it whole.
#[must_use]
pub fn target_hash(block: &[u8]) -> Option<u64> {
    let header = SymlinkHeader::prefix_of(block)?;
    let target = block.get(SymlinkHeader::SIZE_BYTES..)?.get(..header.length_bytes.get() as usize)?;
    let mut hasher = DefaultHasher::new();
    (header.offset_bytes.get(), target).hash(&mut hasher);
    Some(hasher.finish())
}

/// The log sequence numbers of last changes.
///
/// Invariants:
/// 1. Only transactions that were committed before the log's head count.
/// 2. What was freed or made anew since has no entry: nor has anything that came when the table was full.
#[derive(Debug, Clone, Default)]
pub struct LastLogged {
    inodes: HashMap<InodeNumber, LoggedInode>,
    /// By the first 512-byte unit.
    blocks: HashMap<u64, LoggedBlock>,
    /// Of the oldest record.
    oldest: Option<Lsn>,
    /// Records in between cannot be read.
    has_gaps: bool,
}

impl LastLogged {
    /// Reads all of the log on `device` that was ever written. The table takes `most_bytes` at most; it is empty where a single transaction
    /// has more.
    ///
    /// # Errors
    /// The log is external or cannot be understood, or the device failed.
    pub fn gather(device: &dyn BlockDevice, geometry: &Geometry, most_bytes: usize) -> Result<Self> {
        let area = LogArea::new(device, geometry)?;
        let head = match examine_area(&area) {
            Ok(state) => state.head(),
            Err(JournalError::Corrupt(_)) => head_despite_damage(&area).ok().flatten(),
            Err(error) => return Err(error),
        };
        let head = head.unwrap_or(Lsn::new(0));
        if head == Lsn::new(0) && !never_written(&area, head)?.is_empty() {
            return Ok(Self::default());
        }
        let collector = |head| Collector {
            geometry,
            head,
            most: most_bytes / ENTRY_BYTES,
            last: Self::default(),
            open: Vec::new(),
            is_too_much: false,
            inode: vec![0; geometry.inode_size()],
        };
        let mut first = collector(head);
        let reach = follow(Listing::new(area, ListingRange::Everything)?, &mut first)?;
        if reach.newest < head {
            return Ok(first.result());
        }
        // The log seems to end at a hole. What its newest record says was in place is in place, whatever is missing of the log.
        let mut second = collector(head.max(reach.in_place));
        follow(Listing::despite_holes(area)?, &mut second)?;
        Ok(second.result())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.blocks.is_empty()
    }

    /// Whether the log has all changes that came after this one.
    pub fn has_all_since(&self, lsn: Lsn) -> bool {
        !self.has_gaps && self.oldest.is_some_and(|oldest| oldest <= lsn)
    }

    /// The last change of an inode.
    pub fn inode(&self, inode: InodeNumber) -> Option<LoggedInode> {
        self.inodes.get(&inode).copied()
    }

    /// The last change of the block that begins at this 512-byte unit.
    pub fn block(&self, sector: u64) -> Option<LoggedBlock> {
        self.blocks.get(&sector).copied()
    }

    fn len(&self) -> usize {
        self.inodes.len().saturating_add(self.blocks.len())
    }

    fn forget_inodes(&mut self, start: InodeNumber, count: u64) {
        if count.min(u64::from(u32::MAX)) as usize > self.inodes.len() {
            let end = start.get().saturating_add(count);
            self.inodes.retain(|inode, _| !(start.get()..end).contains(&inode.get()));
        } else {
            for number in (start.get()..).take(count as usize) {
                self.inodes.remove(&InodeNumber::new(number));
            }
        }
    }
}

/// What an item of a transaction says.
#[derive(Debug, Clone, Copy)]
enum Change {
    Inode(InodeNumber, Option<OwnFacts>),
    Block(u64, Option<u64>),
    /// Blocks were freed.
    Freed {
        sector: u64,
        sectors: u64,
    },
    /// Inodes were made anew.
    Made {
        start: InodeNumber,
        count: u64,
    },
}

/// Gives all records of a log to `collector`.
fn follow(mut listing: Listing<'_>, collector: &mut Collector<'_>) -> Result<Reach> {
    let mut reach = Reach::default();
    while let Some(read) = listing.next_with(|record, assembler| {
        collector.last.oldest.get_or_insert(record.header.lsn());
        reach.add(record);
        feed(record, assembler, collector);
    }) {
        if let Err(JournalError::Io(error)) = read {
            return Err(error.into());
        }
    }
    listing.commit_until(Lsn::new(collector.head.get().saturating_sub(1)), collector);
    collector.last.has_gaps = listing.gaps() > 0;
    Ok(reach)
}

struct Collector<'c> {
    geometry: &'c Geometry,
    head: Lsn,
    /// Entries.
    most: usize,
    last: LastLogged,
    /// What open transactions hold, by their number.
    open: Vec<(u32, Vec<Change>)>,
    is_too_much: bool,
    /// Room for one inode.
    inode: Vec<u8>,
}

impl Collector<'_> {
    fn result(self) -> LastLogged {
        if self.is_too_much { LastLogged::default() } else { self.last }
    }

    fn change_of_inode(&mut self, item: &InodeItem<'_>) -> Change {
        use InodeItemFields as F;
        self.inode.fill(0);
        let has_contents = item.fields.intersects(F::DATA_LOCAL | F::DEVICE);
        let facts = match item.apply_to(&mut self.inode, Lsn::new(0)) {
            Ok(()) => OwnFacts::of(&self.inode, has_contents),
            Err(_) => None,
        };
        Change::Inode(InodeNumber::new(item.format().inode.get()), facts)
    }

    fn change_of(&mut self, item: &LogItem<'_>) -> Option<Change> {
        match item {
            LogItem::Inode(item) => Some(self.change_of_inode(item)),
            LogItem::InodeCreate(item) => {
                let shift = self.geometry.inodes_per_block_log;
                let first = item.block.get().checked_shl(shift).unwrap_or(u32::MAX);
                let start = self.geometry.inode_number(AgNumber::new(item.group.get()), AgInode::new(first));
                let count = u64::from(item.length_blocks.get()).checked_shl(shift);
                Some(Change::Made { start, count: count.unwrap_or(u64::from(INODES_PER_CHUNK)) })
            }
            LogItem::Buffer(item) if item.format.buffer_flags().contains(BufferFlags::CANCEL) => {
                let sectors = sectors_of(item);
                let count = sectors.end.saturating_sub(sectors.start);
                Some(Change::Freed { sector: sectors.start, sectors: count })
            }
            LogItem::Buffer(item) => {
                use BufferContents as C;
                let contents = item.format.contents()?;
                let is_compared = matches!(
                    contents,
                    C::Btree
                        | C::FreeSpaceHeader
                        | C::InodeHeader
                        | C::FreeList
                        | C::Symlink
                        | C::DirectoryBlock
                        | C::DirectoryData
                        | C::DirectoryFreeIndex
                        | C::DirectoryLeaf
                        | C::DirectoryLeafNode
                        | C::NameTreeNode
                        | C::AttributeLeaf
                );
                let target = || {
                    let whole = item.changes().find(|(offset_bytes, _)| *offset_bytes == 0);
                    whole.and_then(|(_, bytes)| target_hash(bytes)).filter(|_| contents == C::Symlink)
                };
                is_compared.then(|| Change::Block(sectors_of(item).start, target()))
            }
            _ => None,
        }
    }

    fn apply(&mut self, change: Change, lsn: Lsn) {
        let is_full = self.last.len() >= self.most;
        match change {
            Change::Inode(inode, facts) if !is_full || self.last.inodes.contains_key(&inode) => {
                let known = self.last.inodes.get(&inode);
                let before = known.and_then(|logged| logged.facts);
                let lsn = later(lsn, known.map(|logged| logged.lsn));
                let facts = facts.map(|facts| before.map_or(facts, |before| facts.with_contents_of(&before)));
                self.last.inodes.insert(inode, LoggedInode { lsn, facts });
            }
            Change::Block(sector, target) if !is_full || self.last.blocks.contains_key(&sector) => {
                let known = self.last.blocks.get(&sector);
                let lsn = later(lsn, known.map(|logged| logged.lsn));
                self.last.blocks.insert(sector, LoggedBlock { lsn, target });
            }
            Change::Inode(..) | Change::Block(..) => {}
            Change::Freed { sector, sectors } => {
                self.last.blocks.remove(&sector);
                if let Some(start) = self.first_inode_at(sector) {
                    let count = sectors.saturating_mul(SECTOR_SIZE_BYTES) >> self.geometry.inode_log;
                    self.last.forget_inodes(start, count);
                }
            }
            Change::Made { start, count } => self.last.forget_inodes(start, count),
        }
    }

    /// The number that an inode in this 512-byte unit has.
    fn first_inode_at(&self, sector: u64) -> Option<InodeNumber> {
        let geometry = self.geometry;
        let block = sector / u64::from(geometry.sectors_per_block()).max(1);
        let group = u32::try_from(block / u64::from(geometry.ag_blocks).max(1)).ok()?;
        let in_group = u32::try_from(block % u64::from(geometry.ag_blocks).max(1)).ok()?;
        let first = in_group.checked_shl(geometry.inodes_per_block_log)?;
        Some(geometry.inode_number(AgNumber::new(group), AgInode::new(first)))
    }
}

impl TransactionSink for Collector<'_> {
    fn begin(&mut self, transaction: &TransactionInfo, _: &TransactionHeader) {
        // What a transaction of this number left that never ended.
        self.open.retain(|(id, _)| *id != transaction.id);
        self.open.push((transaction.id, Vec::new()));
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        let Ok(item) = LogItem::decode(regions) else { return };
        if item.verify(self.geometry).is_err() {
            return;
        }
        let Some(change) = self.change_of(&item) else { return };
        let held: usize = self.open.iter().map(|(_, changes)| changes.len()).sum();
        if held >= self.most {
            self.is_too_much = true;
        } else if let Some((_, changes)) = self.open.iter_mut().find(|(id, _)| *id == transaction.id) {
            changes.push(change);
        } else {
            // Its header is missing.
            self.open.push((transaction.id, vec![change]));
        }
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        let Some(index) = self.open.iter().position(|(id, _)| *id == transaction.id) else { return };
        let (_, changes) = self.open.swap_remove(index);
        // Behind the head lies what was never replayed.
        if transaction.start < self.head {
            changes.into_iter().for_each(|change| self.apply(change, transaction.start));
        }
    }
}

//! Copies of metadata that the log still holds, whether or not it is clean: what repair has left of inodes and blocks that are gone.
//!
//! Every change of metadata goes through the log, and the log is a ring. So the newest copy that the whole ring holds of an inode is
//! the inode as it is, unless something changed it that writes no log, like an offline repair: compare it with other witnesses.
//! A block is logged in chunks of 128 bytes, and only those that changed: of a block the ring may hold all, a part, or nothing.
//!
//! Invariants:
//! 1. Only items of committed transactions in records with right checksums are copies.
//! 2. A buffer that was freed, and inodes whose chunk was made anew, have no older copies.
//! 3. Memory is bounded: by what is wanted, by a limit on the copies, and by the open transactions of one log. What comes when the limit
//!    is reached is not known at all, so that no copy is older than it says.

mod last_logged;
mod own_facts;
mod superblock;

use std::collections::{BTreeMap, BTreeSet};

pub use last_logged::{LastLogged, LoggedBlock, LoggedInode, target_hash};
pub use own_facts::OwnFacts;
pub use superblock::find_superblock;

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    field_table::OnDisk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::{ForkFormat, InodeCore},
    log::{
        buffer_item::{BufferFlags, BufferItem},
        inode_create_item::InodeCreateItem,
        inode_item::{InodeItem, InodeItemFields},
        item::LogItem,
        operation::OperationKind,
        record::ChecksumState,
        transaction::TransactionHeader,
    },
    units::{AgInode, AgNumber, InodeNumber, Lsn},
};

use crate::{
    area::LogArea,
    error::Result,
    listing::Listing,
    recovery::{
        packed::PackedItems,
        read_records::Record,
        transactions::{TransactionAssembler, TransactionInfo, TransactionSink},
    },
};

const SECTOR_BYTES: usize = 512;
/// Blocks are logged in pieces of so many bytes.
pub const CHUNK_BYTES: usize = 128;

/// Copies of inodes, and those of blocks, take so much at most.
const MOST_BYTES: usize = 256 << 20;
/// Chunks that are remembered.
const MOST_CHUNKS: usize = 1 << 20;

/// What to look for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    inodes: BTreeSet<InodeNumber>,
    /// First and last inode of allocation groups.
    inode_ranges: Vec<(InodeNumber, InodeNumber)>,
    /// Starts and ends, in 512-byte units.
    sectors: BTreeMap<u64, u64>,
}

impl Wanted {
    /// Looks for an inode.
    pub fn add_inode(&mut self, inode: InodeNumber) {
        self.inodes.insert(inode);
    }

    /// Looks for all inodes of an allocation group.
    pub fn add_group(&mut self, geometry: &Geometry, group: AgNumber) {
        let number = |inode: u32| geometry.inode_number(group, AgInode::new(inode));
        let inodes = geometry.group_length_blocks(group).unwrap_or(0) << geometry.inodes_per_block_log;
        self.inode_ranges.push((number(0), number(inodes.saturating_sub(1))));
    }

    fn has_inode(&self, inode: InodeNumber) -> bool {
        let is_in = |(first, last): &(InodeNumber, InodeNumber)| *first <= inode && inode <= *last;
        self.inodes.contains(&inode) || self.inode_ranges.iter().any(is_in)
    }

    /// Looks for a block that begins at this 512-byte unit of the device.
    pub fn add_block(&mut self, sector: u64, sectors: u64) {
        let end = self.sectors.entry(sector).or_default();
        *end = sector.saturating_add(sectors).max(*end);
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.has_no_inodes() && self.sectors.is_empty()
    }

    fn has_no_inodes(&self) -> bool {
        self.inodes.is_empty() && self.inode_ranges.is_empty()
    }

    fn has_sector(&self, sector: u64) -> bool {
        self.sectors.range(..=sector).next_back().is_some_and(|(_, end)| sector < *end)
    }

    fn wants(&self, item: &LogItem<'_>) -> bool {
        match item {
            LogItem::Inode(item) => self.has_inode(InodeNumber::new(item.format().inode.get())),
            // Cancellations and new chunks take copies back.
            LogItem::InodeCreate(_) => !self.has_no_inodes(),
            LogItem::Buffer(item) => {
                let is_cancel = item.format.buffer_flags().contains(BufferFlags::CANCEL);
                is_cancel || sectors_of(item).any(|sector| self.has_sector(sector))
            }
            _ => false,
        }
    }
}

fn sectors_of(item: &BufferItem<'_>) -> std::ops::Range<u64> {
    let start = u64::try_from(item.format.sector.get()).unwrap_or(u64::MAX);
    start..start.saturating_add(item.format.length_sectors.get().into())
}

/// An inode as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InodeCopy {
    /// As it would lie on disk. What the log has nothing of is zero.
    pub bytes: Vec<u8>,
    /// Of the newest transaction that changed the core: the inode on the device has the same once it was written.
    pub lsn: Lsn,
    /// The forks are those of the core.
    pub has_data_fork: bool,
    /// The same of the attribute fork.
    pub has_attribute_fork: bool,
    /// Records that came after it cannot be read: they may have changed the inode.
    pub may_be_older: bool,
    data: InodeItemFields,
    attributes: InodeItemFields,
}

impl InodeCopy {
    fn new(inode_bytes: usize) -> Self {
        Self {
            bytes: vec![0; inode_bytes],
            lsn: Lsn::new(0),
            has_data_fork: false,
            has_attribute_fork: false,
            may_be_older: false,
            data: InodeItemFields::empty(),
            attributes: InodeItemFields::empty(),
        }
    }

    /// The log has both forks as the core describes them.
    pub fn is_whole(&self) -> bool {
        self.has_data_fork && self.has_attribute_fork
    }

    /// The core.
    pub fn core(&self) -> Option<&InodeCore> {
        InodeCore::prefix_of(&self.bytes)
    }

    /// An inode on the device that is older than this copy, brought up to date: forks that the log did not change are those of the device.
    /// Its checksum is not set. `None` where the device has another inode, and the copy is not whole.
    pub fn over(&self, device: &[u8]) -> Option<Vec<u8>> {
        let (new, old) = (self.core()?, InodeCore::prefix_of(device)?);
        let is_same = new.generation == old.generation && !old.is_free();
        let has_same_forks = new.fork_offset == old.fork_offset;
        if self.is_whole() {
            return Some(self.bytes.clone());
        }
        let keeps_data = has_same_forks && new.format == old.format;
        let keeps_attributes = has_same_forks && new.attribute_format == old.attribute_format;
        let is_possible = (self.has_data_fork || keeps_data) && (self.has_attribute_fork || keeps_attributes);
        if !is_same || !is_possible {
            return None;
        }
        let mut bytes = self.bytes.clone();
        let attributes_at = match new.fork_offset {
            0 => bytes.len(),
            units => InodeCore::SIZE_BYTES.saturating_add(usize::from(units) * 8).min(bytes.len()),
        };
        let forks = [
            (InodeCore::SIZE_BYTES..attributes_at, self.has_data_fork),
            (attributes_at..bytes.len(), self.has_attribute_fork),
        ];
        for (range, _) in forks.into_iter().filter(|(_, is_logged)| !is_logged) {
            bytes.get_mut(range.clone())?.copy_from_slice(device.get(range)?);
        }
        Some(bytes)
    }

    /// Whether the core has attributes in the inode of which the log has nothing.
    pub fn lacks_attributes_in_inode(&self) -> bool {
        let is_local =
            |core: &InodeCore| core.fork_offset != 0 && core.attribute_format == ForkFormat::Local.code();
        !self.has_attribute_fork && self.core().is_some_and(is_local)
    }

    /// The copy with the attributes of a damaged inode on the device, where that is the same inode. Nothing of it was verified.
    pub fn with_attributes_of(&self, device: &[u8]) -> Option<Vec<u8>> {
        let (new, old) = (self.core()?, InodeCore::prefix_of(device)?);
        let is_same = new.inode_number() == old.inode_number()
            && new.generation == old.generation
            && new.fork_offset == old.fork_offset
            && new.attribute_format == old.attribute_format;
        if !is_same || !self.lacks_attributes_in_inode() {
            return None;
        }
        let start = InodeCore::SIZE_BYTES.saturating_add(usize::from(new.fork_offset) * 8);
        let mut bytes = self.bytes.clone();
        bytes.get_mut(start..)?.copy_from_slice(device.get(start..)?);
        Some(bytes)
    }

    fn apply(&mut self, item: &InodeItem<'_>, lsn: Lsn) {
        let old = self.core().map(|core| core.generation.get());
        if old.is_some_and(|old| old != item.core.generation.get()) {
            // Another inode under the same number.
            *self = Self::new(self.bytes.len());
        }
        let before = self.bytes.clone();
        let lsn = later(lsn, Some(self.lsn));
        if item.apply_to(&mut self.bytes, lsn).is_err() {
            self.bytes = before;
            return;
        }
        self.lsn = lsn;
        let data_forms = InodeItemFields::DATA_FORK | InodeItemFields::DEVICE;
        let data = item.fields.intersection(data_forms);
        if !data.is_empty() {
            self.data = data;
        }
        let attributes = item.fields.intersection(InodeItemFields::ATTRIBUTE_FORK);
        if !attributes.is_empty() {
            self.attributes = attributes;
        }
        self.judge(item);
    }

    /// Whether the forks that were logged last are those that the core describes.
    fn judge(&mut self, item: &InodeItem<'_>) {
        use InodeItemFields as F;
        let core = item.core;
        let form = |format: u8| match ForkFormat::from_code(format) {
            Some(ForkFormat::Device) => Some(F::DEVICE),
            Some(ForkFormat::Local) => Some(F::DATA_LOCAL | F::ATTRIBUTE_LOCAL),
            Some(ForkFormat::Extents) => Some(F::DATA_EXTENTS | F::ATTRIBUTE_EXTENTS),
            Some(ForkFormat::Btree) => Some(F::DATA_BTREE_ROOT | F::ATTRIBUTE_BTREE_ROOT),
            _ => None,
        };
        let is_of = |logged: F, format: u8| form(format).is_some_and(|form| form.intersects(logged));
        let is_mapped = |format: u8| ForkFormat::from_code(format) == Some(ForkFormat::Extents);
        let has_large_counts = uxfs_format::inode::InodeFlags2::from_bits_retain(core.flags2.get())
            .contains(uxfs_format::inode::InodeFlags2::LARGE_EXTENT_COUNTS);
        let (data_extents, attribute_extents) = match has_large_counts {
            true => (core.large_data_extents.get(), u64::from(core.data_extents.get())),
            false => (core.data_extents.get().into(), core.attribute_extents.get().into()),
        };
        let has_no_data = is_mapped(core.data_format) && data_extents == 0;
        let has_no_attributes =
            core.fork_offset == 0 || is_mapped(core.attribute_format) && attribute_extents == 0;
        self.has_data_fork = core.mode.get() == 0 || has_no_data || is_of(self.data, core.data_format);
        self.has_attribute_fork =
            core.mode.get() == 0 || has_no_attributes || is_of(self.attributes, core.attribute_format);
    }
}

#[derive(Debug, Clone)]
struct SectorCopy {
    bytes: [u8; SECTOR_BYTES],
    /// One bit for each chunk.
    known: u8,
}

/// The newest copies that a log holds.
#[derive(Debug, Clone, Default)]
pub struct LogCopies {
    inodes: BTreeMap<InodeNumber, InodeCopy>,
    /// Where these inodes lie.
    places: BTreeMap<u64, InodeNumber>,
    /// Chunks that were made: ends by their starts.
    chunks: BTreeMap<InodeNumber, InodeNumber>,
    sectors: BTreeMap<u64, SectorCopy>,
}

impl LogCopies {
    /// Reads all of the log on `device` that was ever written. Damaged records are passed over.
    ///
    /// # Errors
    /// The log is external, or the device failed.
    pub fn gather(device: &dyn BlockDevice, geometry: &Geometry, wanted: &Wanted) -> Result<Self> {
        let mut listing = Listing::despite_holes(LogArea::new(device, geometry)?)?;
        let mut collector = Collector { wanted, geometry, copies: Self::default(), open: Vec::new() };
        // Where the last gap begins, and where the records end.
        let (mut gap, mut last, mut gaps) = (None, Lsn::new(0), 0);
        let mut reach = Reach::default();
        loop {
            let read = listing.next_with(|record, assembler| {
                reach.add(record);
                feed(record, assembler, &mut collector);
                record.header.lsn()
            });
            if gaps < listing.gaps() {
                (gap, gaps) = (Some(last), listing.gaps());
            }
            let Some(read) = read else { break };
            last = read.as_ref().map_or(last, |lsn| *lsn);
            if let Err(crate::error::JournalError::Io(error)) = read {
                return Err(error.into());
            }
        }
        listing.commit_until(Lsn::new(reach.in_place.get().saturating_sub(1)), &mut collector);
        for copy in collector.copies.inodes.values_mut() {
            copy.may_be_older = gap.is_some_and(|gap| copy.lsn <= gap);
        }
        Ok(collector.copies)
    }

    /// The newest copy of an inode.
    pub fn inode(&self, number: InodeNumber) -> Option<&InodeCopy> {
        self.inodes.get(&number)
    }

    /// The first inode of the chunk of an inode, where the log has how it was made, with chunks beside it in larger blocks or alone.
    pub fn chunk_start(&self, inode: InodeNumber) -> Option<InodeNumber> {
        let made = self.chunks.range(..=inode).next_back().filter(|(_, end)| inode < **end);
        made.map(|(start, _)| {
            let chunk = (inode.get() - start.get()) / u64::from(INODES_PER_CHUNK);
            InodeNumber::new(start.get() + chunk * u64::from(INODES_PER_CHUNK))
        })
    }

    /// All inodes that were found.
    pub fn inodes(&self) -> impl Iterator<Item = (InodeNumber, &InodeCopy)> {
        self.inodes.iter().map(|(number, copy)| (*number, copy))
    }

    /// Puts what is known of a block over `bytes`. Gives of each 128 bytes whether they were known.
    pub fn read(&self, sector: u64, bytes: &mut [u8]) -> Vec<bool> {
        let mut known = Vec::new();
        for (sector, target) in (sector..).zip(bytes.chunks_mut(SECTOR_BYTES)) {
            let copy = self.sectors.get(&sector);
            for (index, to) in target.chunks_mut(CHUNK_BYTES).enumerate() {
                let from = copy.filter(|copy| copy.known & 1 << index != 0);
                let from = from.and_then(|copy| copy.bytes.chunks(CHUNK_BYTES).nth(index));
                let from = from.filter(|from| from.len() == to.len());
                known.push(from.is_some());
                from.into_iter().for_each(|from| to.copy_from_slice(from));
            }
        }
        known
    }

    fn apply(&mut self, item: &LogItem<'_>, wanted: &Wanted, geometry: &Geometry, lsn: Lsn) {
        match item {
            LogItem::Inode(item) => {
                let number = InodeNumber::new(item.format().inode.get());
                let inode_bytes = geometry.inode_size();
                let is_full = self.inodes.len().saturating_mul(inode_bytes) >= MOST_BYTES;
                if is_full && !self.inodes.contains_key(&number) {
                    return;
                }
                let new = || InodeCopy::new(inode_bytes);
                if let Some(sector) = sector_of(number, geometry) {
                    self.places.insert(sector, number);
                }
                self.inodes.entry(number).or_insert_with(new).apply(item, lsn);
            }
            LogItem::InodeCreate(item) => self.forget_inodes(item, geometry),
            LogItem::Buffer(item) if item.format.buffer_flags().contains(BufferFlags::CANCEL) => {
                self.forget_sectors(sectors_of(item));
            }
            LogItem::Buffer(item) => self.apply_buffer(item, wanted),
            _ => {}
        }
    }

    fn apply_buffer(&mut self, item: &BufferItem<'_>, wanted: &Wanted) {
        let start = sectors_of(item).start;
        for (offset, contents) in item.changes() {
            for (chunk, bytes) in (u64::from(offset) / CHUNK_BYTES as u64..).zip(contents.chunks(CHUNK_BYTES))
            {
                let sector = start.saturating_add(chunk / 4);
                if !wanted.has_sector(sector) {
                    continue;
                }
                let is_full = self.sectors.len().saturating_mul(SECTOR_BYTES) >= MOST_BYTES;
                if is_full && !self.sectors.contains_key(&sector) {
                    continue;
                }
                let new = || SectorCopy { bytes: [0; SECTOR_BYTES], known: 0 };
                let copy = self.sectors.entry(sector).or_insert_with(new);
                let index = (chunk % 4) as usize;
                let target = copy.bytes.chunks_mut(CHUNK_BYTES).nth(index);
                if let Some(target) = target.filter(|target| target.len() == bytes.len()) {
                    target.copy_from_slice(bytes);
                    copy.known |= 1 << index;
                }
            }
        }
    }

    fn forget_sectors(&mut self, sectors: std::ops::Range<u64>) {
        let known: Vec<u64> = self.sectors.range(sectors.clone()).map(|(sector, _)| *sector).collect();
        for sector in known {
            self.sectors.remove(&sector);
        }
        let inodes: Vec<u64> = self.places.range(sectors).map(|(sector, _)| *sector).collect();
        for inode in inodes.iter().filter_map(|sector| self.places.remove(sector)).collect::<Vec<_>>() {
            self.inodes.remove(&inode);
        }
    }

    fn forget_inodes(&mut self, item: &InodeCreateItem, geometry: &Geometry) {
        let group = AgNumber::new(item.group.get());
        let first = item.block.get().checked_shl(geometry.inodes_per_block_log).unwrap_or(u32::MAX);
        let count =
            item.length_blocks.get().checked_shl(geometry.inodes_per_block_log).unwrap_or(INODES_PER_CHUNK);
        let start = geometry.inode_number(group, AgInode::new(first));
        let end = InodeNumber::new(start.get().saturating_add(count.into()));
        let known: Vec<InodeNumber> = self.inodes.range(start..end).map(|(number, _)| *number).collect();
        for number in known {
            self.inodes.remove(&number);
        }
        // A part of a sparse chunk says nothing of where that begins. What lay there before is gone.
        while let Some((other, _)) = self.chunks.range(..end).next_back().filter(|(_, other)| start < **other)
        {
            let other = *other;
            self.chunks.remove(&other);
        }
        if count >= INODES_PER_CHUNK && self.chunks.len() < MOST_CHUNKS {
            self.chunks.insert(start, end);
        }
    }
}

/// The 512-byte unit at which an inode begins.
fn sector_of(number: InodeNumber, geometry: &Geometry) -> Option<u64> {
    let place = geometry.inode_place(number)?;
    let block = geometry.sector_of_group_block(place.group, place.block)?;
    Some(block.get().saturating_add(u64::from(place.offset_bytes) / SECTOR_BYTES as u64))
}

struct Collector<'c> {
    wanted: &'c Wanted,
    geometry: &'c Geometry,
    copies: LogCopies,
    /// What open transactions hold, by their number.
    open: Vec<(u32, PackedItems)>,
}

/// How far a log goes, by its records with right checksums.
#[derive(Debug, Clone, Copy)]
struct Reach {
    newest: Lsn,
    /// Changes with smaller numbers were in place when its newest record was written.
    in_place: Lsn,
}

impl Default for Reach {
    fn default() -> Self {
        Self { newest: Lsn::new(0), in_place: Lsn::new(0) }
    }
}

impl Reach {
    fn add(&mut self, record: &Record<'_>) {
        if record.header.verify_format().is_err() || record.checksum != ChecksumState::Right {
            return;
        }
        let lsn = record.header.lsn();
        self.newest = self.newest.max(lsn);
        let mut operations = record.operations().filter_map(std::result::Result::ok);
        let is_unmount = operations.next().is_some_and(|operation| operation.kind == OperationKind::Unmount);
        let in_place = if is_unmount { lsn } else { record.header.tail_lsn().min(lsn) };
        self.in_place = self.in_place.max(in_place);
    }
}

/// The number of a change that comes after one with the number `before`: that of a transaction whose start is missing may be too small.
fn later(lsn: Lsn, before: Option<Lsn>) -> Lsn {
    before.filter(|before| lsn < *before).map_or(lsn, |before| Lsn::new(before.get().saturating_add(1)))
}

/// Gives the operations of a record to `sink`. A record with a wrong checksum ends all transactions that are open.
fn feed(record: &Record<'_>, assembler: &mut TransactionAssembler, sink: &mut dyn TransactionSink) {
    let is_sound = record.header.verify_format().is_ok() && record.checksum == ChecksumState::Right;
    if !is_sound {
        assembler.interrupt();
        return;
    }
    for operation in record.operations() {
        let Ok(operation) = operation else {
            assembler.interrupt();
            return;
        };
        // An operation that does not fit ends its transaction.
        let _ = assembler.operation(&operation, record.header.lsn(), sink);
    }
}

impl TransactionSink for Collector<'_> {
    fn begin(&mut self, transaction: &TransactionInfo, _: &TransactionHeader) {
        // What a transaction of this number left that never ended.
        self.open.retain(|(id, _)| *id != transaction.id);
        self.open.push((transaction.id, PackedItems::default()));
    }

    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        let Ok(item) = LogItem::decode(regions) else { return };
        if item.verify(self.geometry).is_err() || !self.wanted.wants(&item) {
            return;
        }
        if let Some((_, items)) = self.open.iter_mut().find(|(id, _)| *id == transaction.id) {
            items.push(0, regions);
        } else {
            // Its header is missing.
            let mut items = PackedItems::default();
            items.push(0, regions);
            self.open.push((transaction.id, items));
        }
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        let Some(index) = self.open.iter().position(|(id, _)| *id == transaction.id) else { return };
        let (_, items) = self.open.swap_remove(index);
        for item in items.tagged(0) {
            if let Ok(item) = LogItem::decode(&item.regions()) {
                self.copies.apply(&item, self.wanted, self.geometry, transaction.start);
            }
        }
    }

    fn unmount(&mut self) {}
}

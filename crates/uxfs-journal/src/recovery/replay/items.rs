//! Replay of one item.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    checksum,
    fault::Structure,
    features::Unsupported,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{InodeCore, core::CHECKSUM_OFFSET_BYTES},
    log::{
        buffer_item::{BufferContents, BufferFlags, BufferItem},
        inode_change::is_inode,
        inode_create_item::InodeCreateItem,
        inode_item::InodeItem,
        item::{ItemType, LogItemFault},
        quota_item::{LOGGED_QUOTA_BYTES, QuotaItem},
    },
    quota,
    seal::structure_of,
    units::{AgBlock, AgInode, AgNumber, InodeNumber, Lsn, SECTOR_SIZE_BYTES, Sector},
    verify::{VerifyContext, verify},
};

use super::{
    ItemOutcome, RealtimeBitmaps,
    buffers::{Buffers, Treatment, is_a_number},
    owner::{InodePlace, OwnerChanges},
};
use crate::{error::JournalError, recovery::cancel_table::CancelTable};

/// Most sectors of a buffer: 64 KiB.
const MAX_BUFFER_SECTORS: u64 = 128;
/// Offset of the number of the next unlinked inode.
const NEXT_UNLINKED: std::ops::Range<usize> = 96..100;

/// Why an item cannot be replayed.
#[derive(Debug)]
pub(super) enum ItemError {
    /// The item is to blame: its record is named.
    Item(LogItemFault),
    /// A buffer, or the device.
    Other(JournalError),
}

impl<T: Into<JournalError>> From<T> for ItemError {
    fn from(error: T) -> Self {
        Self::Other(error.into())
    }
}

type Result<T> = std::result::Result<T, ItemError>;

/// The context of the replay of an item.
pub(super) struct Replayer<'a> {
    pub geometry: Geometry,
    pub buffers: Buffers<'a>,
    pub cancelled: CancelTable,
    /// Trees whose blocks still name another inode.
    pub owner_changes: OwnerChanges,
    pub device: &'a dyn BlockDevice,
    pub realtime_bitmaps: RealtimeBitmaps,
    /// Sectors of the log itself, which no item may change.
    pub log_sectors: std::ops::Range<u64>,
}

impl Replayer<'_> {
    /// Place and length of a buffer, if there can be one.
    pub fn buffer_place(&self, item: ItemType, sector: i64, sectors: i64) -> Result<(u64, u32)> {
        let start = u64::try_from(sector).unwrap_or(u64::MAX);
        let length = u64::try_from(sectors).unwrap_or(u64::MAX);
        if length == 0 || length > MAX_BUFFER_SECTORS {
            let fault = LogItemFault::BufferLength {
                item,
                sector: start,
                sectors: length,
                limit: MAX_BUFFER_SECTORS,
            };
            return Err(ItemError::Item(fault));
        }
        // Items were compared with the file system's size, so that nothing overflows here.
        let end = start.saturating_add(length);
        if start < self.log_sectors.end && self.log_sectors.start < end {
            return Err(ItemError::Item(LogItemFault::InsideLog { item, sector: start }));
        }
        Ok((start, length as u32))
    }

    /// A BUF with contents, or one of inodes.
    #[doc(alias = "xlog_recover_buf_commit_pass2")]
    pub fn buffer(&mut self, item: &BufferItem<'_>) -> Result<ItemOutcome> {
        let format = item.format;
        let (sector, sectors) =
            self.buffer_place(ItemType::Buffer, format.sector.get(), format.length_sectors.get().into())?;
        if format.buffer_flags().contains(BufferFlags::CANCEL) {
            self.cancelled.pass(sector, sectors);
            return Ok(ItemOutcome::Cancels);
        }
        if self.cancelled.contains(sector, sectors) {
            return Ok(ItemOutcome::Cancelled);
        }
        if format.buffer_flags().contains(BufferFlags::INODES) {
            return self.unlinked_inodes(item, sector, sectors);
        }
        if matches!(format.contents(), Some(BufferContents::RealtimeBitmap | BufferContents::RealtimeSummary))
        {
            return match self.realtime_bitmaps {
                RealtimeBitmaps::Refused => Err(ItemError::Other(Unsupported::RealtimeData.into())),
                RealtimeBitmaps::LeftOut => Ok(ItemOutcome::LeftOut),
            };
        }
        if self.buffers.is_newer(sector, sectors, &self.geometry)? {
            return Ok(ItemOutcome::NewerOnDisk);
        }
        let held = self.buffers.open(sector, sectors, &self.geometry)?;
        for (offset, contents) in item.changes() {
            let target =
                held.bytes.get_mut(offset as usize..).and_then(|rest| rest.get_mut(..contents.len()));
            let Some(target) = target else {
                let fault = LogItemFault::ChunkOutside { chunk: offset / 128, chunks: sectors * 4 };
                return Err(ItemError::Item(fault));
            };
            target.copy_from_slice(contents);
        }
        held.is_changed = true;
        let treatment = treatment_of(format.contents(), &held.bytes, sector, &self.geometry);
        // The beginning of a mixture may be newer than this, and of another kind: what made it so comes later in the log.
        let found = structure_of(&held.bytes, &self.geometry);
        let treatment = match treatment {
            Err(ItemError::Item(LogItemFault::Contents { .. })) if self.buffers.was_torn(sector) => {
                found.map_or(Treatment::Raw, Treatment::Seal)
            }
            other => other?,
        };
        self.buffers.set_treatment(sector, treatment);
        if sector == 0 {
            self.superblock_changed()?;
        }
        Ok(ItemOutcome::Replayed)
    }

    /// The primary superblock may say that the file system has grown: what follows may lie behind its former end.
    #[doc(alias = "xlog_recover_do_primary_sb_buffer")]
    fn superblock_changed(&mut self) -> Result<()> {
        use uxfs_format::superblock::Superblock;
        let sectors = self.geometry.sector_size_bytes / SECTOR_SIZE_BYTES as u32;
        let held = self.buffers.open(0, sectors, &self.geometry)?;
        let Some(superblock) = Superblock::prefix_of(&held.bytes) else { return Ok(()) };
        let (blocks, groups) = (superblock.data_blocks.get(), superblock.ag_count.get());
        let (old_blocks, old_groups) = (self.geometry.data_blocks, self.geometry.ag_count);
        if (blocks, groups) == (old_blocks, old_groups) {
            return Ok(());
        }
        let enough = u64::from(groups).checked_mul(self.geometry.ag_blocks.into());
        let is_possible = blocks >= old_blocks
            && groups >= old_groups
            && enough
                .is_some_and(|enough| blocks <= enough && enough - blocks < self.geometry.ag_blocks.into())
            && blocks
                .checked_shl(self.geometry.block_log)
                .is_some_and(|bytes| bytes <= self.device.size_bytes());
        if !is_possible {
            let (start, length) = (old_blocks, blocks);
            let fault = LogItemFault::OutsideFileSystem { item: ItemType::Buffer, start, length };
            return Err(ItemError::Item(fault));
        }
        (self.geometry.data_blocks, self.geometry.ag_count) = (blocks, groups);
        Ok(())
    }

    /// A BUF of inodes: only the next inode of the unlinked list.
    #[doc(alias = "xlog_recover_do_inode_buffer")]
    fn unlinked_inodes(&mut self, item: &BufferItem<'_>, sector: u64, sectors: u32) -> Result<ItemOutcome> {
        let inode_size = self.geometry.inode_size();
        let held = self.buffers.open(sector, sectors, &self.geometry)?;
        for (offset, contents) in item.changes() {
            let (start, end) = (offset as usize, offset as usize + contents.len());
            let first = start.saturating_sub(NEXT_UNLINKED.start).div_ceil(inode_size) * inode_size;
            for inode_at in (first..held.bytes.len()).step_by(inode_size) {
                let field = inode_at + NEXT_UNLINKED.start..inode_at + NEXT_UNLINKED.end;
                if field.end > end {
                    break;
                }
                let offset_bytes = inode_at as u64;
                let no_inode = LogItemFault::NotAnInode { item: ItemType::Buffer, sector, offset_bytes };
                let value = contents.get(field.start - start..field.end - start).unwrap_or_default();
                if value.iter().all(|byte| *byte == 0) {
                    return Err(ItemError::Item(LogItemFault::NextUnlinked { sector, offset_bytes }));
                }
                let inode = held.bytes.get_mut(inode_at..inode_at + inode_size);
                let inode = inode.filter(|inode| is_inode(inode)).ok_or(ItemError::Item(no_inode))?;
                if let Some(target) = inode.get_mut(NEXT_UNLINKED) {
                    target.copy_from_slice(value);
                }
                checksum::seal(inode, CHECKSUM_OFFSET_BYTES);
            }
        }
        held.is_changed = true;
        held.treatment = Treatment::Verify(Structure::InodeCluster);
        Ok(ItemOutcome::Replayed)
    }

    /// An INODE.
    #[doc(alias = "xlog_recover_inode_commit_pass2")]
    pub fn inode(&mut self, item: &InodeItem<'_>) -> Result<ItemOutcome> {
        let format = item.format();
        let place = (format.buffer_sector.get(), i64::from(format.buffer_sectors.get()));
        let (sector, sectors) = self.buffer_place(ItemType::Inode, place.0, place.1)?;
        if self.cancelled.contains(sector, sectors) {
            return Ok(ItemOutcome::Cancelled);
        }
        let offset_bytes = u64::try_from(format.buffer_offset_bytes.get()).unwrap_or(u64::MAX);
        let no_inode = LogItemFault::NotAnInode { item: ItemType::Inode, sector, offset_bytes };
        let (lsn, inode_size) = (self.buffers.lsn(), self.geometry.inode_size());
        let number = InodeNumber::new(format.inode.get());
        self.check_inode_place(number, sector, offset_bytes).ok_or(ItemError::Item(no_inode))?;
        let inode_at = sector + offset_bytes / SECTOR_SIZE_BYTES;
        let was_torn = self.buffers.was_inode_torn(inode_at);
        let head = self.buffers.head();
        let held = self.buffers.open(sector, sectors, &self.geometry)?;
        let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
        let inode = held.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..inode_size));
        let inode = inode.filter(|inode| is_inode(inode)).ok_or(ItemError::Item(no_inode))?;
        let disk = InodeCore::prefix_of(inode).map_or(0, |core| core.lsn.get());
        // The number of an inode that was torn while it was written says nothing; see the module `buffers`.
        let is_torn = was_torn || checksum::check(inode, CHECKSUM_OFFSET_BYTES).is_err();
        let is_newer = is_a_number(Lsn::new(disk), head) && Lsn::new(disk) > lsn && !is_torn;
        if !is_newer {
            item.apply_to(inode, lsn).map_err(ItemError::Item)?;
            let inode_sector = Sector::new(inode_at);
            let context = VerifyContext::new(&self.geometry, inode_sector);
            let verdict = if is_torn { Ok(()) } else { verify(Structure::Inode, inode, &context) };
            verdict.map_err(|fault| {
                let location = uxfs_format::fault::Location {
                    sector: Some(inode_sector),
                    ..uxfs_format::fault::Location::of_inode(number)
                };
                JournalError::from(uxfs_format::fault::Corruption::new(Structure::Inode, location, fault))
            })?;
        }
        if !is_newer {
            held.is_changed = true;
            held.treatment = Treatment::Verify(Structure::InodeCluster);
        }
        if is_torn {
            self.buffers.note_torn_inode(inode_at, number);
        }
        self.owner_changes.note(number, InodePlace { sector, sectors, start }, item.fields);
        Ok(if is_newer { ItemOutcome::NewerOnDisk } else { ItemOutcome::Replayed })
    }

    /// That an inode lies where its item says.
    fn check_inode_place(&self, number: InodeNumber, sector: u64, offset_bytes: u64) -> Option<()> {
        let place = self.geometry.inode_place(number)?;
        let block = self.geometry.sector_of_group_block(place.group, place.block)?;
        let expected = Geometry::byte_of_sector(block).checked_add(place.offset_bytes.into())?;
        let said = Geometry::byte_of_sector(Sector::new(sector)).checked_add(offset_bytes)?;
        (expected == said).then_some(())
    }

    /// The clusters of new inodes: the block in the group, and the buffer.
    pub fn new_clusters(&self, item: &InodeCreateItem) -> Result<Vec<(u32, (u64, u32))>> {
        let group = AgNumber::new(item.group.get());
        let (first, blocks) = (item.block.get(), item.length_blocks.get());
        let cluster_blocks = self.geometry.inode_cluster_blocks().min(blocks).max(1);
        let sectors = cluster_blocks * self.geometry.sectors_per_block();
        let mut places = Vec::new();
        for block in (first..first.saturating_add(blocks)).step_by(cluster_blocks as usize) {
            let sector =
                self.geometry.sector_of_group_block(group, AgBlock::new(block)).unwrap_or(Sector::NULL);
            let signed = i64::try_from(sector.get()).unwrap_or(-1);
            places.push((block, self.buffer_place(ItemType::InodeCreate, signed, sectors.into())?));
        }
        Ok(places)
    }

    /// An ICREATE: new inodes, unless their blocks were freed later on.
    #[doc(alias = "xlog_recover_icreate_commit_pass2")]
    pub fn inode_create(&mut self, item: &InodeCreateItem) -> Result<ItemOutcome> {
        let group = AgNumber::new(item.group.get());
        let places = self.new_clusters(item)?;
        if places.iter().any(|(_, (sector, sectors))| self.cancelled.contains(*sector, *sectors)) {
            return Ok(ItemOutcome::Cancelled);
        }
        let geometry = self.geometry.clone();
        for (block, (sector, sectors)) in places {
            let held = self.buffers.open(sector, sectors, &geometry)?;
            let first = AgInode::new(block << geometry.inodes_per_block_log);
            let number = geometry.inode_number(group, first).get();
            for (index, inode) in (0u64..).zip(held.bytes.chunks_exact_mut(geometry.inode_size())) {
                let number = InodeNumber::new(number + index);
                let core = InodeCore::never_used(number, item.generation.get(), &geometry);
                inode.fill(0);
                if let Some(target) = InodeCore::prefix_of_mut(inode) {
                    *target = core;
                }
                checksum::seal(inode, CHECKSUM_OFFSET_BYTES);
            }
            held.is_changed = true;
            held.treatment = Treatment::Verify(Structure::InodeCluster);
        }
        Ok(ItemOutcome::Replayed)
    }

    /// A DQUOT.
    #[doc(alias = "xlog_recover_dquot_commit_pass2")]
    pub fn quota(&mut self, item: &QuotaItem<'_>) -> Result<ItemOutcome> {
        let format = item.format;
        let (sector, sectors) = (format.buffer_sector.get(), format.buffer_sectors(&self.geometry));
        let (sector, sectors) = self.buffer_place(ItemType::Quota, sector, sectors)?;
        if self.cancelled.contains(sector, sectors) {
            return Ok(ItemOutcome::Cancelled);
        }
        let (lsn, head) = (self.buffers.lsn(), self.buffers.head());
        let held = self.buffers.open(sector, sectors, &self.geometry)?;
        let start = format.offset_bytes.get() as usize;
        let record_bytes = quota::QuotaRecord::SIZE_BYTES;
        let record = held.bytes.get_mut(start..).and_then(|rest| rest.get_mut(..record_bytes));
        let Some(record) = record else {
            let (item, start, length) = (ItemType::Quota, sector, u64::from(sectors));
            return Err(ItemError::Item(LogItemFault::OutsideFileSystem { item, start, length }));
        };
        let disk = Lsn::new(quota::QuotaRecord::prefix_of(record).map_or(0, |record| record.lsn.get()));
        let is_torn = checksum::check(record, quota::CHECKSUM_OFFSET_BYTES).is_err();
        if is_a_number(disk, head) && disk >= lsn && !is_torn {
            return Ok(ItemOutcome::NewerOnDisk);
        }
        let logged = item.record.get(..LOGGED_QUOTA_BYTES).unwrap_or_default();
        if let Some(target) = record.get_mut(..LOGGED_QUOTA_BYTES) {
            target.copy_from_slice(logged);
        }
        // Its number stays, as in Linux: another item of this number may follow.
        checksum::seal(record, quota::CHECKSUM_OFFSET_BYTES);
        held.is_changed = true;
        held.treatment = Treatment::Verify(Structure::QuotaBlock);
        if is_torn {
            self.buffers.note_torn(sector, sectors);
        }
        Ok(ItemOutcome::Replayed)
    }
}

/// The treatment of a buffer, by the structure in the item and by its contents.
#[doc(alias = "xlog_recover_validate_buf_type")]
fn treatment_of(
    said: Option<BufferContents>,
    bytes: &[u8],
    sector: u64,
    geometry: &Geometry,
) -> Result<Treatment> {
    use BufferContents as Said;
    let Some(said) = said else { return Ok(Treatment::Raw) };
    let found = structure_of(bytes, geometry);
    let is_directory = matches!(
        said,
        Said::DirectoryBlock
            | Said::DirectoryData
            | Said::DirectoryFreeIndex
            | Said::DirectoryLeaf
            | Said::DirectoryLeafNode
            | Said::NameTreeNode
    );
    // A directory block that lies in several extents is logged piece by piece, and no piece can be sealed alone.
    let is_attribute_node = found == Some(Structure::AttributeNode);
    if is_directory && !is_attribute_node && bytes.len() < geometry.directory_block_size_bytes as usize {
        return Ok(Treatment::Raw);
    }
    let agrees = |found: Structure| BufferContents::of(found) == Some(said);
    match said {
        Said::Unknown | Said::RealtimeBitmap | Said::RealtimeSummary => Ok(Treatment::Raw),
        Said::UserQuota | Said::ProjectQuota | Said::GroupQuota => {
            Ok(Treatment::Verify(Structure::QuotaBlock))
        }
        _ => match found.filter(|found| agrees(*found)) {
            Some(Structure::InodeCluster) => Ok(Treatment::Verify(Structure::InodeCluster)),
            Some(found) => Ok(Treatment::Seal(found)),
            None => Err(ItemError::Item(LogItemFault::Contents { sector, said: said.name(), found })),
        },
    }
}

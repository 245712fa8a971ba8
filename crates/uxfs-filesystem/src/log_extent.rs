//! The extent of an internal log, checked before the first block is written to the log.
//!
//! The superblock alone says where the log lies, and its checksum may be right although the field is wrong. A log that is
//! written over the contents of a file destroys them, and records that are found there are not this file system's. So other
//! structures must agree:
//!
//! 1. The superblock of the last group names the same extent, unless it is of another file system.
//! 2. No block of the extent is free.
//! 3. With a reverse map: the log owns the whole extent, alone.
//! 4. Without one: no chunk of inodes lies there. Files are not known by block; only a scan of all inodes would find one.
//! 5. A structure that is damaged says nothing. What remains must be enough: a superblock that agrees, a reverse map that
//!    gives the extent to the log, or both the free space and the index of inodes.

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::{
        free_space::FreeExtent,
        reverse_map::{Mapping, Owner, ReverseMapFault, ReverseMapPosition},
    },
    fault::{Corruption, Fault, Location, Structure},
    geometry::{Geometry, INODES_PER_CHUNK},
    superblock::{Copy, Superblock, SuperblockFault},
    units::{AgBlock, AgInode, AgNumber, Sector},
};
use uxfs_volume::{
    allocation_group::reader::GroupReader,
    error::{Error, Result},
    volume::Volume,
};

/// Checks that the extent of the log is the log's, before it is written.
///
/// # Errors
/// It is not, or too much of what could tell is damaged; the device.
pub(crate) fn check_log_extent(volume: &Volume) -> Result<()> {
    let geometry = volume.geometry();
    let Some((group, start)) = geometry.log_start.and_then(|start| geometry.split_fs_block(start)) else {
        return Ok(());
    };
    let copy_agrees = match geometry.groups().next_back() {
        Some(last) => copy_agrees(volume.device().as_ref(), geometry, volume.superblock(), last)?,
        None => false,
    };
    let log = LogExtent {
        volume,
        number: group,
        group: volume.group(group),
        extent: FreeExtent { start, length_blocks: geometry.log_blocks },
    };
    let free = unless_damaged(log.is_free())?;
    if let Ok(true) = free {
        return Err(log.superblock_fault(|start, blocks| SuperblockFault::LogIsFree { start, blocks }));
    }
    match unless_damaged(log.ownership())? {
        Ok(Ownership::Log) => return Ok(()),
        Ok(Ownership::Not(fault)) => return Err(log.reverse_map_fault(fault)),
        Ok(Ownership::Unknown) | Err(_) => {}
    }
    let inodes = unless_damaged(log.holds_inodes())?;
    if let Ok(true) = inodes {
        return Err(log.superblock_fault(|start, blocks| SuperblockFault::LogOverInodes { start, blocks }));
    }
    match free.and(inodes) {
        Err(damage) if !copy_agrees => Err(damage.into()),
        _ => Ok(()),
    }
}

/// Sets the damage of one structure apart from errors that end the check.
fn unless_damaged<T>(answer: Result<T>) -> Result<std::result::Result<T, Corruption>> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(Error::Corrupt(damage)) => Ok(Err(*damage)),
        Err(error) => Err(error),
    }
}

/// Returns whether a copy of the superblock names the same log as the primary superblock: false where the copy is damaged, or
/// of another file system, and so says nothing.
///
/// # Errors
/// It names another log; the device.
fn copy_agrees(
    device: &dyn BlockDevice,
    geometry: &Geometry,
    primary: &Superblock,
    group: AgNumber,
) -> Result<bool> {
    let Some(sector) = geometry.sector_of_group_header(group, 0) else { return Ok(false) };
    let mut bytes = vec![0; geometry.sector_size_bytes as usize];
    device.read(Geometry::byte_of_sector(sector), &mut bytes)?;
    let Ok((copy, sector_bytes)) = Superblock::parse(&bytes) else { return Ok(false) };
    let is_ours = copy.effective_metadata_uuid() == primary.effective_metadata_uuid();
    if !is_ours || copy.verify(sector_bytes, Copy::Secondary).is_err() {
        return Ok(false);
    }
    // With one group this is the primary superblock itself.
    require_same_log(primary, copy, group).map(|()| group != AgNumber::new(0))
}

/// Checks that the superblock of a group, `copy`, names the same log as the primary one.
///
/// # Errors
/// It does not.
pub(crate) fn require_same_log(primary: &Superblock, copy: &Superblock, group: AgNumber) -> Result<()> {
    let log_of = |superblock: &Superblock| (superblock.log_start.get(), superblock.log_blocks.get());
    let ((start, blocks), (start_of_copy, blocks_of_copy)) = (log_of(primary), log_of(copy));
    if (start, blocks) == (start_of_copy, blocks_of_copy) {
        return Ok(());
    }
    let fault = SuperblockFault::LogOfCopy { start, blocks, group, start_of_copy, blocks_of_copy };
    Err(Corruption::new(Structure::Superblock, Location::at_sector(Sector::new(0)), fault).into())
}

struct LogExtent<'v> {
    volume: &'v Volume,
    number: AgNumber,
    group: GroupReader<'v>,
    extent: FreeExtent,
}

/// Whose the extent is, as the reverse map says.
enum Ownership {
    Log,
    Not(ReverseMapFault),
    /// There is no reverse map.
    Unknown,
}

impl LogExtent<'_> {
    /// Returns whether a block of the extent is free.
    fn is_free(&self) -> Result<bool> {
        let mut cursor = self.group.free_space_by_block()?.cursor();
        let last = AgBlock::new(self.extent.end().get().saturating_sub(1));
        let before = cursor.at_or_before(last)?.map(|record| record.get());
        Ok(before.is_some_and(|free| free.end() > self.extent.start))
    }

    fn ownership(&self) -> Result<Ownership> {
        let Some(tree) = self.group.reverse_map()? else { return Ok(Ownership::Unknown) };
        let mut cursor = tree.cursor();
        let Mapping { start, length_blocks, owner, .. } =
            Mapping::of_group(self.extent.start, self.extent.length_blocks, Owner::Log);
        let position = ReverseMapPosition { start, owner: u64::MAX, offset: u64::MAX };
        let record = cursor.at_or_before(position)?.map(|record| record.get());
        let is_owned = |record: &Mapping| record.owner == owner && record.end() >= self.extent.end();
        if !record.as_ref().is_some_and(is_owned) {
            return Ok(Ownership::Not(ReverseMapFault::NotOwned { start, length_blocks, owner }));
        }
        let next = cursor.next()?.map(|record| record.get());
        Ok(match next.filter(|next| next.start < self.extent.end()) {
            Some(other) => {
                let found = other.owner;
                Ownership::Not(ReverseMapFault::AlreadyOwned { start, length_blocks, owner, found })
            }
            None => Ownership::Log,
        })
    }

    /// Returns whether a chunk of inodes lies in the extent.
    fn holds_inodes(&self) -> Result<bool> {
        let geometry = self.volume.geometry();
        let end = u64::from(self.extent.end().get()) << geometry.inodes_per_block_log;
        let last = AgInode::new(u32::try_from(end).unwrap_or(u32::MAX).saturating_sub(1));
        let first = AgInode::new(
            self.extent.start.get().checked_shl(geometry.inodes_per_block_log).unwrap_or(u32::MAX),
        );
        let mut cursor = self.group.inode_index()?.cursor();
        let mut chunk = cursor.at_or_before(last)?.map(|record| record.get(geometry));
        while let Some(found) = chunk.filter(|chunk| chunk.inode(INODES_PER_CHUNK - 1) >= first) {
            // A sparse chunk at the edge may leave out the blocks that are the log's.
            let is_in_log = |(start, length): &(AgBlock, u32)| {
                *start < self.extent.end() && start.get().saturating_add(*length) > self.extent.start.get()
            };
            if found.blocks(geometry).iter().any(is_in_log) {
                return Ok(true);
            }
            chunk = cursor.previous()?.map(|record| record.get(geometry));
        }
        Ok(false)
    }

    #[cold]
    fn superblock_fault(&self, fault: impl FnOnce(u64, u32) -> SuperblockFault) -> Error {
        let superblock = self.volume.superblock();
        let fault = fault(superblock.log_start.get(), superblock.log_blocks.get());
        Corruption::new(Structure::Superblock, Location::at_sector(Sector::new(0)), fault).into()
    }

    #[cold]
    fn reverse_map_fault(&self, fault: ReverseMapFault) -> Error {
        let location = Location {
            group: Some(self.number),
            group_block: Some(self.extent.start),
            ..Location::default()
        };
        Corruption::new(Structure::ReverseMap, location, Fault::from(fault)).into()
    }
}

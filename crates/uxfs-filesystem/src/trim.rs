//! Giving the host back what is free: holes in an image file, discarded blocks of a device.

use std::ops::Range;

use uxfs_engine::{
    allocation_group::group_edit::GroupEdit,
    transaction::{Transaction, reservation::Operation},
};
use uxfs_format::{
    btree::free_space::{ByBlock, FreeExtent},
    geometry::Geometry,
    units::{AgBlock, AgNumber},
};
use uxfs_volume::error::{OperationError, Result};

use crate::filesystem::FileSystem;

/// Extents that are discarded while a group is locked.
const EXTENTS_AT_ONCE: usize = 64;

/// Discards the free extents in a range of the file system that have at least so many bytes. Gives how many bytes that were.
///
/// A block is in the tree of free extents once nothing that a crash can bring back leads to it; as long as its group is locked it is
/// given to no file.
///
/// # Errors
/// Damage; the device.
#[doc(alias = "FITRIM")]
pub fn trim(file_system: &FileSystem, range: &Range<u64>, least_bytes: u64) -> Result<u64> {
    if file_system.logged().is_none() {
        return Err(OperationError::ReadOnly.into());
    }
    file_system.inactivate_pending()?;
    file_system.wait_for_freed_blocks()?;
    let mut discarded_bytes = 0;
    for group in file_system.geometry().groups() {
        let mut next = Some(AgBlock::new(0));
        while let Some(start) = next {
            let mut transaction = Transaction::begin_for(file_system, Operation::Release)?;
            let mut edit = transaction.group(group)?;
            let found = free_extents(&mut edit, start)?;
            for extent in &found {
                discarded_bytes += discard(file_system, group, *extent, range, least_bytes)?;
            }
            transaction.commit()?;
            let last = found.last().filter(|_| found.len() == EXTENTS_AT_ONCE);
            next = last.and_then(|last| last.start.get().checked_add(last.length_blocks)).map(AgBlock::new);
        }
    }
    Ok(discarded_bytes)
}

/// Discards what lies in the range of one extent. Gives how many bytes that were.
fn discard(
    file_system: &FileSystem,
    group: AgNumber,
    extent: FreeExtent,
    range: &Range<u64>,
    least_bytes: u64,
) -> Result<u64> {
    let geometry = file_system.geometry();
    let sector = geometry.sector_of_group_block(group, extent.start).ok_or(OperationError::NoSuchGroup)?;
    let start = Geometry::byte_of_sector(sector);
    let length_bytes = u64::from(extent.length_blocks) << geometry.block_log;
    let (from, to) = (start.max(range.start), start.saturating_add(length_bytes).min(range.end));
    let length_bytes = to.saturating_sub(from);
    if length_bytes == 0 || length_bytes < least_bytes {
        return Ok(0);
    }
    file_system.device().discard(from, length_bytes)?;
    Ok(length_bytes)
}

/// The next free extents of a group.
fn free_extents(edit: &mut GroupEdit<'_, '_>, start: AgBlock) -> Result<Vec<FreeExtent>> {
    let mut cursor = edit.tree::<ByBlock>();
    let mut found = Vec::new();
    let mut record = cursor.seek_at_or_after(start)?;
    while let Some(extent) = record {
        found.push(extent.get());
        if found.len() == EXTENTS_AT_ONCE {
            break;
        }
        record = cursor.next()?;
    }
    Ok(found)
}

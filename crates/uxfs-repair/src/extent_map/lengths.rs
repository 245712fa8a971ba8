//! The length of one extent in an inode, where no reverse map tells it: the blocks that the inode counts, less those of all others.

use std::collections::BTreeSet;

use uxfs_format::{
    btree::extent_map::{Extent, ExtentRecord},
    field_table::OnDisk,
    geometry::Geometry,
    inode::{Fork, ForkFormat, InodeCore},
    units::InodeNumber,
};
use uxfs_volume::{error::Result, volume::Volume};
use zerocopy::IntoBytes;

use super::{check::count_blocks, rebuild::staged_inode};
use crate::{
    inode::gather::{put_inode, read_inode},
    repair::{action::Action, stage::Stage},
};

/// An extent as it lies in an inode.
const EXTENT_BYTES: usize = 16;

/// Corrects the one extent of a map that cannot be. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    if volume.geometry().features.has_reverse_map() {
        return Ok(false);
    }
    for number in inodes {
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        for (fork, other) in [(Fork::Data, Fork::Attribute), (Fork::Attribute, Fork::Data)] {
            if inode.fork_format(fork) != Some(ForkFormat::Extents) {
                continue;
            }
            let wanted = inode.blocks().saturating_sub(count_blocks(volume, &inode, other));
            let start = match fork {
                Fork::Data => 0,
                Fork::Attribute => inode.fork_room_bytes(Fork::Data, stage.geometry()) as usize,
            };
            let count = usize::try_from(inode.extent_count(fork)).unwrap_or(0);
            let mut bytes = read_inode(stage, *number)?;
            let records = bytes.get_mut(InodeCore::SIZE_BYTES + start..).unwrap_or_default();
            if correct(records, count, wanted, stage.geometry()) {
                put_inode(stage, *number, &bytes)?;
                actions.push(Action::ExtentMap { inode: *number, fork, extents: count as u64 });
                break;
            }
        }
    }
    Ok(actions.len() > before)
}

/// Corrects the length of the extent that cannot be, if there is one. All of them must have so many blocks.
fn correct(records: &mut [u8], count: usize, wanted: u64, geometry: &Geometry) -> bool {
    let slots = records.chunks_exact(EXTENT_BYTES).take(count).filter_map(ExtentRecord::prefix_of);
    let extents: Vec<Extent> = slots.map(ExtentRecord::get).collect();
    let is_possible = |index: usize, extent: &Extent| {
        let next = extents.get(index + 1).map_or(u64::MAX, |next| next.file_block.get());
        extent.length_blocks > 0 && extent.verify_place(geometry).is_ok() && extent.end().get() <= next
    };
    let mut wrong = extents.iter().enumerate().filter(|(index, extent)| !is_possible(*index, extent));
    let (Some((index, extent)), None) = (wrong.next(), wrong.next()) else { return false };
    let others = extents.iter().map(|extent| extent.length_blocks).fold(0, u64::saturating_add);
    let others = others.saturating_sub(extent.length_blocks);
    let corrected = Extent { length_blocks: wanted.saturating_sub(others), ..*extent };
    let record = ExtentRecord::new(&corrected).filter(|_| is_possible(index, &corrected));
    let slot = records.chunks_exact_mut(EXTENT_BYTES).nth(index);
    match (record, slot) {
        (Some(record), Some(slot)) => {
            slot.copy_from_slice(record.as_bytes());
            true
        }
        _ => false,
    }
}

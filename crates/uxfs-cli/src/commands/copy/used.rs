//! Which bytes of a file system are in use: all but what the free space btrees have.

use std::ops::Range;

use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber},
};
use uxfs_volume::{error::Error, volume::Volume};

/// Blocks in use between two free extents of a group.
type Blocks = Range<u32>;

/// Calls `visit` with ranges of bytes in use, in order, until it fails. A group whose free space cannot be believed is in use as a whole;
/// `tell` gets why.
pub(super) fn visit<E>(
    volume: &Volume,
    has_free: bool,
    tell: &mut dyn FnMut(AgNumber, Fault),
    visit: &mut dyn FnMut(Range<u64>) -> Result<(), E>,
) -> Result<(), E> {
    let geometry = volume.geometry();
    for group in geometry.groups() {
        let length_blocks = geometry.group_length_blocks(group).unwrap_or(0);
        let used = match has_free {
            true => used_blocks(volume, group, length_blocks),
            false => Ok(whole(length_blocks)),
        };
        let used = used.unwrap_or_else(|fault| {
            tell(group, fault);
            whole(length_blocks)
        });
        for blocks in used {
            let Some(sector) = geometry.sector_of_group_block(group, AgBlock::new(blocks.start)) else {
                continue;
            };
            let start_bytes = Geometry::byte_of_sector(sector);
            let length_bytes = u64::from(blocks.end - blocks.start) << geometry.block_log;
            visit(start_bytes..start_bytes.saturating_add(length_bytes))?;
        }
    }
    Ok(())
}

fn whole(length_blocks: u32) -> Vec<Blocks> {
    std::iter::once(0..length_blocks).collect()
}

/// Why the free space of a group is not believed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Error),
    /// Extents are out of order, or outside of the group.
    #[error("its free extents are out of order or outside of it")]
    Order,
    /// The header counts other blocks.
    #[error("its header counts {counted} free blocks, and its btree has {found}")]
    Count {
        /// In the header.
        counted: u64,
        /// In the btree.
        found: u64,
    },
}

/// The blocks of a group between its free extents. At most one range more than extents, which at most every other block begins.
fn used_blocks(volume: &Volume, group: AgNumber, length_blocks: u32) -> Result<Vec<Blocks>, Fault> {
    let reader = volume.group(group);
    let counted = u64::from(reader.free_space_header()?.free_blocks.get());
    let (mut used, mut next, mut found) = (Vec::new(), 0, 0_u64);
    for extent in reader.free_extents()? {
        let extent = extent?;
        let start = extent.start.get();
        let end = start.checked_add(extent.length_blocks).filter(|end| *end <= length_blocks);
        let Some(end) = end.filter(|_| start >= next && extent.length_blocks > 0) else {
            return Err(Fault::Order);
        };
        if start > next {
            used.push(next..start);
        }
        (next, found) = (end, found.saturating_add(extent.length_blocks.into()));
    }
    if found != counted {
        return Err(Fault::Count { counted, found });
    }
    if length_blocks > next {
        used.push(next..length_blocks);
    }
    Ok(used)
}

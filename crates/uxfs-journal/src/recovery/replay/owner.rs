//! Blocks of an extent map that belong to another inode now: contents were exchanged by exchanging the roots, and the
//! blocks below still name the inode that they came from.

use uxfs_format::{
    btree::extent_map::ExtentMapRoot,
    convert::long_to_usize,
    fault::Structure,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{ForkFormat, InodeCore},
    log::inode_item::InodeItemFields,
    units::{FsBlock, InodeNumber},
};

use super::buffers::{Buffers, Treatment};
use crate::error::Result;

const OWNER: std::ops::Range<usize> = 56..64;
const LEVEL: std::ops::Range<usize> = 4..6;
const COUNT: std::ops::Range<usize> = 6..8;
const HEADER_BYTES: usize = 72;
/// No tree of extents is higher.
const MAX_LEVEL: u16 = 20;

/// Gives the blocks of the trees of the inode in `inode` the owner `number`.
#[doc(alias = "xfs_recover_inode_owner_change")]
pub(super) fn change(
    buffers: &mut Buffers<'_>,
    geometry: &Geometry,
    inode: &[u8],
    number: InodeNumber,
    fields: InodeItemFields,
) -> Result<()> {
    let Some(core) = InodeCore::prefix_of(inode) else { return Ok(()) };
    let literal = inode.get(INODE_CORE_SIZE_BYTES as usize..).unwrap_or_default();
    let split = match core.fork_offset {
        0 => literal.len(),
        offset => usize::from(offset) * 8,
    };
    let (data, attribute) = literal.split_at_checked(split).unwrap_or((literal, &[]));
    let forks = [
        (InodeItemFields::DATA_OWNER, core.format, data),
        (InodeItemFields::ATTRIBUTE_OWNER, core.attribute_format, attribute),
    ];
    for (field, format, fork) in forks {
        if !fields.contains(field) || format != ForkFormat::Btree.code() {
            continue;
        }
        let Ok(root) = ExtentMapRoot::parse(fork) else { continue };
        let children = root.pointers().iter().map(|pointer| FsBlock::new(pointer.get())).collect();
        // No tree has more blocks than the inode says.
        let budget = core.blocks.get().min(geometry.data_blocks);
        change_below(buffers, geometry, children, root.level(), number, budget)?;
    }
    Ok(())
}

fn change_below(
    buffers: &mut Buffers<'_>,
    geometry: &Geometry,
    mut children: Vec<FsBlock>,
    level: u16,
    number: InodeNumber,
    mut budget: u64,
) -> Result<()> {
    let sectors = geometry.sectors_per_block();
    for level in (0..level.min(MAX_LEVEL)).rev() {
        let mut next = Vec::new();
        for child in children {
            let Some(left) = budget.checked_sub(1) else { return Ok(()) };
            budget = left;
            let Some(sector) = geometry.sector_of_block(child) else { return Ok(()) };
            let held = buffers.open(sector.get(), sectors, geometry)?;
            let is_node =
                uxfs_format::seal::structure_of(&held.bytes, geometry) == Some(Structure::ExtentMap);
            let word = |range: std::ops::Range<usize>| {
                held.bytes.get(range).and_then(|bytes| bytes.first_chunk::<2>())
            };
            let found_level = word(LEVEL).map(|bytes| u16::from_be_bytes(*bytes));
            if !is_node || found_level != Some(level) {
                continue;
            }
            if level > 0 {
                let count = word(COUNT).map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
                let capacity = (held.bytes.len() - HEADER_BYTES) / 16;
                let pointers = held.bytes.get(HEADER_BYTES + capacity * 8..).unwrap_or_default();
                let pointers = pointers.as_chunks::<8>().0.iter().take(count.min(capacity));
                next.extend(pointers.map(|pointer| FsBlock::new(u64::from_be_bytes(*pointer))));
            }
            if let Some(owner) = held.bytes.get_mut(OWNER)
                && owner != number.get().to_be_bytes()
            {
                owner.copy_from_slice(&number.get().to_be_bytes());
                held.is_changed = true;
                held.treatment = Treatment::Seal(Structure::ExtentMap);
            }
        }
        // As many as the budget at most, whatever the blocks say.
        next.truncate(long_to_usize(budget));
        children = next;
    }
    Ok(())
}

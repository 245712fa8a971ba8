//! Extents that are marked as never written although their blocks must have been: the mark goes.

use std::{collections::BTreeSet, ops::ControlFlow};

use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapRoot, ExtentRecord},
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    inode::{Fork, ForkFormat},
    units::InodeNumber,
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    error::Result,
    volume::Volume,
};

use super::rebuild::{OwnedByInode, gather, staged_inode};
use crate::{
    inode::{fields, gather::change_core},
    repair::{action::Action, stage::Stage},
};

/// An extent as it lies in an inode or a leaf.
const EXTENT_BYTES: usize = 16;
/// Of a leaf: where records begin, and the checksum.
const LEAF_HEADER_BYTES: usize = 72;
const LEAF_CHECKSUM_OFFSET_BYTES: u32 = 64;
/// Blocks that are looked at for what was written into them.
const MOST_READ_BLOCKS: u64 = 256;

/// Takes the mark from extents that may not have it: of directories, of symbolic links, of shared blocks.
///
/// # Errors
/// The device.
pub(crate) fn mark_what_must_be(
    volume: &Volume,
    stage: &Stage,
    inode: InodeNumber,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let Some(staged) = staged_inode(stage, inode)? else { return Ok(()) };
    if mark(volume, stage, inode, &|extent| !fields::may_be_unwritten(volume, &staged.core, extent))? {
        actions.push(Action::ExtentsWritten { inode });
    }
    Ok(())
}

/// Takes the mark from extents that the reverse map knows as written, and whose blocks hold something. Where they hold zeros, both read
/// the same.
///
/// # Errors
/// The device.
pub(crate) fn mark_what_holds_data(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    actions: &mut Vec<Action>,
) -> Result<()> {
    if inodes.is_empty() {
        return Ok(());
    }
    let OwnedByInode { forks, .. } = gather(volume, inodes);
    for inode in inodes {
        let Some(owned) = forks.get(&(*inode, false)) else { continue };
        let is_written = |extent: &Extent| {
            owned.extents.iter().any(|known| {
                let skipped = extent.file_block.get().checked_sub(known.file_block.get());
                let is_within = skipped.is_some_and(|skipped| {
                    known.start.get().checked_add(skipped) == Some(extent.start.get())
                        && skipped.saturating_add(extent.length_blocks) <= known.length_blocks
                });
                is_within && !known.is_unwritten
            })
        };
        if mark(volume, stage, *inode, &|extent| is_written(extent) && holds_data(volume, extent))? {
            actions.push(Action::ExtentsWritten { inode: *inode });
        }
    }
    Ok(())
}

/// Whether any of the first blocks of an extent holds something else than zeros.
fn holds_data(volume: &Volume, extent: &Extent) -> bool {
    let geometry = volume.geometry();
    let Some(sector) = geometry.sector_of_block(extent.start) else { return false };
    let start = Geometry::byte_of_sector(sector);
    let mut block = vec![0; geometry.block_size()];
    (0..extent.length_blocks.min(MOST_READ_BLOCKS)).any(|index| {
        let offset_bytes = start.saturating_add(index.saturating_mul(block.len() as u64));
        volume.device().read(offset_bytes, &mut block).is_ok() && block.iter().any(|byte| *byte != 0)
    })
}

/// Takes the mark from all extents of the data fork that `must_be_written` names. Gives whether there were any.
fn mark(
    volume: &Volume,
    stage: &Stage,
    number: InodeNumber,
    must_be_written: &dyn Fn(&Extent) -> bool,
) -> Result<bool> {
    let Some(inode) = staged_inode(stage, number)? else { return Ok(false) };
    let mut is_changed = false;
    match inode.fork_format(Fork::Data) {
        Some(ForkFormat::Extents) => {
            let count = usize::try_from(inode.extent_count(Fork::Data)).unwrap_or(usize::MAX);
            change_core(stage, number, |_, forks| is_changed = mark_records(forks, count, must_be_written))?;
        }
        Some(ForkFormat::Btree) => {
            let Ok(root) = ExtentMapRoot::parse(inode.extent_root_bytes(Fork::Data)) else {
                return Ok(false);
            };
            let mut leaves = Vec::new();
            let _ = Tree::of_inode(volume, number, &root).visit_blocks(&mut |event| {
                if let BlockEvent::Block { address, view, .. } = event
                    && view.records().iter().any(|record| is_wrong(&record.get(), must_be_written))
                {
                    leaves.push((address, view.records().len()));
                }
                ControlFlow::Continue(())
            });
            for (block, count) in leaves {
                let Some(sector) = stage.geometry().sector_of_block(block) else { continue };
                let mut bytes = vec![0; stage.geometry().block_size()];
                stage.read_at(sector, &mut bytes)?;
                let records = bytes.get_mut(LEAF_HEADER_BYTES..).unwrap_or_default();
                is_changed |= mark_records(records, count, must_be_written);
                checksum::seal(&mut bytes, LEAF_CHECKSUM_OFFSET_BYTES);
                stage.write_at(sector, &bytes)?;
            }
        }
        _ => {}
    }
    Ok(is_changed)
}

fn is_wrong(extent: &Extent, must_be_written: &dyn Fn(&Extent) -> bool) -> bool {
    extent.is_unwritten && must_be_written(extent)
}

fn mark_records(bytes: &mut [u8], count: usize, must_be_written: &dyn Fn(&Extent) -> bool) -> bool {
    let mut is_changed = false;
    for record in bytes.chunks_exact_mut(EXTENT_BYTES).take(count).filter_map(ExtentRecord::prefix_of_mut) {
        let extent = record.get();
        if !is_wrong(&extent, must_be_written) {
            continue;
        }
        if let Some(written) = ExtentRecord::new(&Extent { is_unwritten: false, ..extent }) {
            *record = written;
            is_changed = true;
        }
    }
    is_changed
}

//! Extents that are marked as never written although their blocks must have been: the mark goes.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::extent_map::{Extent, ExtentMapRoot, ExtentRecord},
    checksum,
    field_table::OnDisk,
    inode::{Fork, ForkFormat},
    units::InodeNumber,
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    error::Result,
    volume::Volume,
};

use super::rebuild::staged_inode;
use crate::{
    inode::{fields, gather::change_core},
    repair::{action::Action, stage::Stage},
};

/// An extent as it lies in an inode or a leaf.
const EXTENT_BYTES: usize = 16;
/// Of a leaf: where records begin, and the checksum.
pub(super) const LEAF_HEADER_BYTES: usize = 72;
pub(super) const LEAF_CHECKSUM_OFFSET_BYTES: u32 = 64;

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
    let must_be_written =
        |extent: &Extent| extent.is_unwritten && !fields::may_be_unwritten(volume, &staged.core, extent);
    if change_marks(volume, stage, inode, &must_be_written)? {
        actions.push(Action::ExtentsWritten { inode });
    }
    Ok(())
}

/// Changes the mark of all extents of the data fork that `is_wrong` names. Gives whether there were any.
pub(super) fn change_marks(
    volume: &Volume,
    stage: &Stage,
    number: InodeNumber,
    is_wrong: &dyn Fn(&Extent) -> bool,
) -> Result<bool> {
    let Some(inode) = staged_inode(stage, number)? else { return Ok(false) };
    let mut is_changed = false;
    match inode.fork_format(Fork::Data) {
        Some(ForkFormat::Extents) => {
            let count = usize::try_from(inode.extent_count(Fork::Data)).unwrap_or(usize::MAX);
            change_core(stage, number, |_, forks| is_changed = change_records(forks, count, is_wrong))?;
        }
        Some(ForkFormat::Btree) => {
            let Ok(root) = ExtentMapRoot::parse(inode.extent_root_bytes(Fork::Data)) else {
                return Ok(false);
            };
            let mut leaves = Vec::new();
            let _ = Tree::of_inode(volume, number, &root).visit_blocks(&mut |event| {
                if let BlockEvent::Block { address, view, .. } = event
                    && view.records().iter().any(|record| is_wrong(&record.get()))
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
                is_changed |= change_records(records, count, is_wrong);
                checksum::seal(&mut bytes, LEAF_CHECKSUM_OFFSET_BYTES);
                stage.write_at(sector, &bytes)?;
            }
        }
        _ => {}
    }
    Ok(is_changed)
}

fn change_records(bytes: &mut [u8], count: usize, is_wrong: &dyn Fn(&Extent) -> bool) -> bool {
    let mut is_changed = false;
    for record in bytes.chunks_exact_mut(EXTENT_BYTES).take(count).filter_map(ExtentRecord::prefix_of_mut) {
        let extent = record.get();
        if !is_wrong(&extent) {
            continue;
        }
        let changed = Extent { is_unwritten: !extent.is_unwritten, ..extent };
        if let Some(changed) = ExtentRecord::new(&changed) {
            *record = changed;
            is_changed = true;
        }
    }
    is_changed
}

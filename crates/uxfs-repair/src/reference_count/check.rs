//! The reference count btree of a group.

use std::sync::atomic::Ordering::Relaxed;

use uxfs_format::{
    btree::{extent_map::Extent, reference_count::ReferenceCountPosition, reverse_map::Owner},
    units::{AgBlock, AgNumber},
};
use uxfs_volume::volume::Volume;

use crate::{btree::walk_optional, check::Context, finding::Finding, observed::groups::GroupState};

/// Gives the number of its blocks; `None` where there is no such btree, or it could not be read to its end.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, state: &mut GroupState) -> Option<u64> {
    let tree = context.volume.group(group).reference_counts();
    walk_optional(context, group, state, (tree, Owner::ReferenceCountBtree), |counted, records| {
        for extent in records.iter().map(|record| record.get()) {
            let (start, length_blocks) = (extent.start, extent.length_blocks);
            if extent.is_cow_staging {
                counted.add_own(context, group, (start, length_blocks), Owner::CowStaging);
                context.sink.add(Finding::CowStaging { group, start, length_blocks });
            } else {
                context.has_shared_extents.store(true, Relaxed);
                counted.subtract_shared(context, group, &extent);
            }
        }
    })
}

/// Whether several files have blocks of an extent, by the reference count btree. Where it cannot be read nothing is known.
pub(crate) fn is_shared(volume: &Volume, extent: &Extent) -> bool {
    let place = volume.geometry().split_fs_block(extent.start);
    let Some((group, start)) = place else { return false };
    let Ok(Some(tree)) = volume.group(group).reference_counts() else { return false };
    let end = u64::from(start.get()).saturating_add(extent.length_blocks).saturating_sub(1);
    let last = u32::try_from(end).unwrap_or(u32::MAX);
    let position = ReferenceCountPosition { is_cow_staging: false, start: AgBlock::new(last) };
    let record = tree.cursor().at_or_before(position).ok().flatten().map(|record| record.get());
    record.is_some_and(|shared| {
        !shared.is_cow_staging
            && u64::from(shared.start.get()).saturating_add(shared.length_blocks.into()) > start.get().into()
    })
}

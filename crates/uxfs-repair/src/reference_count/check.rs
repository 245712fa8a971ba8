//! The reference count btree of a group.

use uxfs_format::{btree::reverse_map::Owner, units::AgNumber};

use crate::{
    btree::{TreeOwner, walk},
    check::Context,
    finding::Finding,
    observed::groups::{GroupState, GroupSums},
};

/// Gives the number of its blocks; `None` where there is no such btree, or it could not be read to its end.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, state: &mut GroupState) -> Option<u64> {
    if !context.volume.geometry().features.has_reflink() {
        return None;
    }
    let Some(tree) = context.read(context.volume.group(group).reference_counts()).flatten() else {
        state.is_complete = false;
        return None;
    };
    let (mut own, mut counted) = (GroupSums::default(), GroupSums::default());
    let found = walk(
        context,
        &tree,
        TreeOwner::Group(group),
        &mut |block| own.add_own(context, group, (block, 1), Owner::ReferenceCountBtree),
        &mut |records| {
            for extent in records.iter().map(|record| record.get()) {
                let (start, length_blocks) = (extent.start, extent.length_blocks);
                if extent.is_cow_staging {
                    counted.add_own(context, group, (start, length_blocks), Owner::CowStaging);
                    context.sink.add(Finding::CowStaging { group, start, length_blocks });
                } else {
                    counted.subtract_shared(context, group, &extent);
                }
            }
        },
    );
    state.sums.merge(&own);
    state.sums.merge(&counted);
    state.is_complete &= found.is_complete;
    found.is_complete.then_some(found.blocks)
}

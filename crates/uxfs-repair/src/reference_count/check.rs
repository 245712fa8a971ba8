//! The reference count btree of a group.

use uxfs_format::{btree::reverse_map::Owner, units::AgNumber};

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
                counted.subtract_shared(context, group, &extent);
            }
        }
    })
}

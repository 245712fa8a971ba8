//! The reverse mapping btree of a group: its records are subtracted from what structures and files show.

use uxfs_format::{btree::reverse_map::Owner, units::AgNumber};

use crate::{btree::walk_optional, check::Context, observed::groups::GroupState};

/// Gives the number of its blocks; `None` where there is no such btree, or it could not be read to its end.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, state: &mut GroupState) -> Option<u64> {
    let tree = context.volume.group(group).reverse_map();
    let blocks = walk_optional(context, group, state, (tree, Owner::GroupBtrees), |said, records| {
        records.iter().for_each(|record| said.subtract_mapping(context, group, &record.get()));
    });
    state.has_sound_reverse_map = blocks.is_some();
    blocks
}

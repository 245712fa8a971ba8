//! The reverse mapping btree of a group: its records are subtracted from what structures and files show.

use uxfs_format::{btree::reverse_map::Owner, units::AgNumber};

use crate::{
    btree::{TreeOwner, walk},
    check::Context,
    observed::groups::{GroupState, GroupSums},
};

/// Gives the number of its blocks; `None` where there is no such btree, or it could not be read to its end.
pub(crate) fn check(context: &Context<'_>, group: AgNumber, state: &mut GroupState) -> Option<u64> {
    if !context.volume.geometry().features.has_reverse_map() {
        return None;
    }
    let Some(tree) = context.read(context.volume.group(group).reverse_map()).flatten() else {
        state.is_complete = false;
        return None;
    };
    let (mut own, mut said) = (GroupSums::default(), GroupSums::default());
    let found = walk(
        context,
        &tree,
        TreeOwner::Group(group),
        &mut |block| own.add_own(context, group, (block, 1), Owner::GroupBtrees),
        &mut |records| records.iter().for_each(|record| said.subtract_mapping(context, group, &record.get())),
    );
    state.sums.merge(&own);
    state.sums.merge(&said);
    state.has_sound_reverse_map = found.is_complete;
    state.is_complete &= found.is_complete;
    found.is_complete.then_some(found.blocks)
}

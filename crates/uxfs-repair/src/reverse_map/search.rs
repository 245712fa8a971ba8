//! Reverse maps of a group whose header does not lead to its own: all blocks are read for roots.

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner, ReverseMap},
    units::{AgBlock, AgNumber},
};
use uxfs_volume::volume::Volume;

use super::read::visit;
use crate::{allocation_group::sweep::sweep, btree::search::Roots};

/// What whole trees give to inodes whose roots were found by reading all blocks of a group: of the tree that was written last first.
pub(crate) fn found(volume: &Volume, group: AgNumber) -> impl Iterator<Item = Vec<Mapping>> {
    roots(volume, group).trees().filter_map(|tree| {
        let mut mappings = Vec::new();
        let is_whole = visit(&tree, &mut |mapping| {
            mappings.extend(Some(mapping).filter(|mapping| matches!(mapping.owner, Owner::Inode(_))));
        });
        is_whole.then_some(mappings)
    })
}

fn roots(volume: &Volume, group: AgNumber) -> Roots<'_, ReverseMap> {
    let geometry = volume.geometry();
    let mut roots = Roots::new(volume, group);
    if geometry.features.has_reverse_map() {
        let end = AgBlock::new(geometry.group_length_blocks(group).unwrap_or(0));
        sweep(volume, group, &[(AgBlock::new(0), end)], &mut |block, bytes| roots.look_at(block, bytes));
    }
    roots
}

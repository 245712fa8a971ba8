//! Reads what a reverse map says, damaged blocks passed over.

use uxfs_format::{
    btree::reverse_map::{Mapping, ReverseMap},
    units::AgNumber,
};
use uxfs_volume::{btree::Tree, volume::Volume};

use crate::btree::visit_sound_blocks;

/// Gives `take` each mapping of a group that can be read, in order. Gives whether there are no others: not so where a block is damaged, where
/// the header does not lead to a tree, or where the file system has none.
pub(crate) fn visit_group(volume: &Volume, group: AgNumber, take: &mut dyn FnMut(Mapping)) -> bool {
    match volume.group(group).reverse_map() {
        Ok(Some(tree)) => visit(&tree, take),
        _ => false,
    }
}

/// The same of a tree.
pub(crate) fn visit(tree: &Tree<'_, ReverseMap>, take: &mut dyn FnMut(Mapping)) -> bool {
    visit_sound_blocks(tree, &mut |view| view.records().iter().for_each(|record| take(record.get())))
}

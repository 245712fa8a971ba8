//! Reads what a reverse map says, damaged blocks passed over.

use std::ops::ControlFlow;

use uxfs_format::{
    btree::reverse_map::{Mapping, ReverseMap},
    units::AgNumber,
};
use uxfs_volume::{
    btree::{BlockEvent, Tree},
    volume::Volume,
};

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
    let mut is_whole = true;
    let _ = tree.visit_blocks(&mut |event| {
        match event {
            BlockEvent::Block { view, .. } => view.records().iter().for_each(|record| take(record.get())),
            BlockEvent::Damage(_) => is_whole = false,
        }
        ControlFlow::Continue(())
    });
    is_whole
}

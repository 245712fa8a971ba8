//! Leaves of directories, as the name tree needs them.

use uxfs_format::{
    directory::{
        leaf,
        leaf_edit::{self, LeafEdit},
    },
    edit::Edit,
    name_tree::{entry_array::MoveSide, header_edit::BlockIdentity},
};

use crate::name_tree::{Side, TreeLeaf};
use uxfs_volume::error::Result;

/// Leaves of node directories.
pub struct DirectoryLeaf;

impl TreeLeaf for DirectoryLeaf {
    const MAGIC: u16 = leaf::NODE_MAGIC;

    fn last_hash(&self, leaf: &[u8]) -> Option<u32> {
        leaf_edit::last_hash(leaf)
    }

    fn fill(&self, leaf: &[u8]) -> (usize, usize) {
        leaf_edit::fill(leaf)
    }

    fn split(&self, left: Edit<'_>, right: Edit<'_>, identity: &BlockIdentity, hash: u32) -> Result<Side> {
        let mut left = LeafEdit::new(left);
        left.split_off(&mut LeafEdit::init_node(right, identity));
        let is_right = left.last_hash().is_some_and(|last| hash > last);
        Ok(if is_right { Side::Right } else { Side::Left })
    }

    fn take_all(&self, leaf: Edit<'_>, other: &[u8], place: MoveSide) -> Result<()> {
        LeafEdit::new(leaf).take_all(other, place);
        Ok(())
    }
}

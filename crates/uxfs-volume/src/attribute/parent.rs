//! One parent pointer of an inode, by directory, generation and name.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::{leaf::LeafBlock, parent_pointer},
    directory::name_hash::NameRule,
    units::FileBlock,
};

use super::{Attribute, AttributeValue, Namespace, reader::AttributeReader};
use crate::{
    error::Result,
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
};

/// A parent pointer that is looked for.
#[derive(Debug, Clone, Copy)]
pub struct WantedParent<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The directory and its generation, as on disk.
    pub value: &'a [u8],
}

impl WantedParent<'_> {
    fn is(&self, attribute: &Attribute<'_>) -> bool {
        let value = match attribute.value {
            AttributeValue::Local(value) => value,
            AttributeValue::Remote { .. } => return false,
        };
        attribute.namespace == Namespace::Parent && attribute.name == self.name && value == self.value
    }
}

impl AttributeReader<'_> {
    /// Whether the inode has a parent pointer.
    pub fn has_parent(&self, wanted: WantedParent<'_>) -> Result<bool> {
        if let Some(blocks) = self.blocks() {
            return find_in_blocks(blocks, wanted);
        }
        let mut is_found = false;
        self.visit(|attribute| {
            is_found |= wanted.is(attribute);
            Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(is_found)
    }

    /// Whether the inode has more than one parent pointer.
    pub fn has_many_parents(&self) -> Result<bool> {
        let mut count = 0_u32;
        self.visit(|attribute| {
            count += u32::from(attribute.namespace == Namespace::Parent);
            Ok(if count > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(count > 1)
    }
}

fn find_in_blocks(blocks: &ForkBlocks<'_>, wanted: WantedParent<'_>) -> Result<bool> {
    let geometry = blocks.geometry();
    let hash = parent_pointer::hash_of(wanted.name, wanted.value, NameRule::of(geometry));
    let root = blocks.read_tree_block(FileBlock::new(0))?;
    let Some(mut walk) = LeafWalk::descend(blocks, root, Start::Hash(hash))? else { return Ok(false) };
    loop {
        let corrupt =
            |fault| blocks.corruption(blocks.index_structure(), walk.block, Some(walk.leaf.sector()), fault);
        let leaf = LeafBlock::parse(&walk.leaf, geometry).map_err(corrupt)?;
        for attribute in leaf.attributes_of(hash) {
            let attribute = attribute.map_err(&corrupt)?;
            if Attribute::of_leaf(attribute).is_some_and(|attribute| wanted.is(&attribute)) {
                return Ok(true);
            }
        }
        let last_hash = leaf.last_hash();
        // Equal hashes may go on in the next leaf.
        if last_hash.is_some_and(|last| last > hash) || !walk.next(last_hash)? {
            return Ok(false);
        }
    }
}

//! All attributes of an inode, one after the other.

use std::ops::ControlFlow;

use uxfs_format::{
    attribute::{leaf::LeafBlock, remote, shortform::ShortformAttributes},
    fault::Fault,
    name_tree::fault::NameTreeFault,
    units::FileBlock,
};

use super::{
    Attribute, AttributeValue,
    leaves::visit_leaves,
    reader::{AttributeForm, AttributeReader},
};
use crate::{error::Result, name_tree::ForkBlocks, volume::MetadataBuffer};

/// Called for each attribute.
type Visit<'v> = dyn FnMut(&Attribute<'_>) -> Result<ControlFlow<()>> + 'v;

impl AttributeReader<'_> {
    /// Calls `visit` for every attribute of the inode, parent pointers included, in the order of Linux (as they lie in the
    /// inode, else by hash), until it breaks or fails. Attributes that are half made or half removed are left out. A tolerant
    /// volume goes on behind damage, with the attributes of the leaves that can be read.
    ///
    /// # Errors
    /// Damage; the device; what `visit` gives.
    pub fn visit(&self, mut visit: impl FnMut(&Attribute<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let visit: &mut Visit<'_> = &mut visit;
        match self.form()? {
            AttributeForm::None => Ok(()),
            AttributeForm::Shortform(list) => self.visit_list(list, visit),
            AttributeForm::Blocks(blocks) => {
                BlockVisitor { value_blocks: blocks.most_blocks(), blocks }.all(visit)
            }
        }
    }

    fn visit_list(&self, list: ShortformAttributes<'_>, visit: &mut Visit<'_>) -> Result<()> {
        for attribute in list {
            let attribute = attribute.map_err(|fault| self.list_corruption(fault))?;
            let Some(namespace) = attribute.flags.namespace() else { continue };
            let value = AttributeValue::Local(attribute.value);
            if visit(&Attribute { namespace, name: attribute.name, value })?.is_break() {
                break;
            }
        }
        Ok(())
    }
}

struct BlockVisitor<'a, 'fs> {
    blocks: &'a ForkBlocks<'fs>,
    /// Blocks that values may still claim: many attributes that share one value's blocks must not multiply it.
    value_blocks: u64,
}

impl BlockVisitor<'_, '_> {
    fn all(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let blocks = self.blocks;
        visit_leaves(blocks, |buffer, place| self.leaf(buffer, place, visit))
    }

    fn leaf(
        &mut self,
        buffer: &MetadataBuffer,
        place: FileBlock,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<(), Option<u32>>> {
        let (blocks, structure) = (self.blocks, self.blocks.index_structure());
        let corrupt = |fault: Fault| blocks.corruption(structure, place, Some(buffer.sector()), fault);
        let leaf = LeafBlock::parse(buffer, blocks.geometry()).map_err(|fault| corrupt(fault.into()))?;
        for attribute in leaf.attributes() {
            let attribute = attribute.map_err(|fault| corrupt(fault.into()))?;
            let Some(attribute) = Attribute::of_leaf(attribute) else { continue };
            if let AttributeValue::Remote { length_bytes, .. } = attribute.value {
                let count = remote::block_count(blocks.geometry(), length_bytes);
                let most = blocks.most_blocks();
                let Some(left) = self.value_blocks.checked_sub(count.into()) else {
                    blocks.volume.leave_out(corrupt(NameTreeFault::TooManyValueBlocks { most }.into()))?;
                    return Ok(ControlFlow::Break(()));
                };
                self.value_blocks = left;
            }
            if visit(&attribute)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(leaf.last_hash()))
    }
}

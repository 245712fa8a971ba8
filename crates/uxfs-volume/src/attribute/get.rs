//! One attribute by name, by the hash of the name.

use std::{borrow::Cow, ops::ControlFlow};

use uxfs_format::{
    attribute::{MAX_NAME_BYTES, leaf::LeafBlock, shortform::ShortformAttributes},
    directory::name_hash,
    units::FileBlock,
};

use super::{
    Attribute, AttributeValue, Namespace,
    reader::{AttributeForm, AttributeReader},
};
use crate::{
    error::{Error, OperationError, Result},
    name_tree::{
        ForkBlocks,
        leaf_walk::{LeafWalk, Start},
    },
    volume::MetadataBuffer,
};

impl AttributeReader<'_> {
    /// The value of one attribute, or `None` where there is none of this name. Parent pointers, which a name alone does not
    /// identify, are read with [`Volume::parent_pointers`](crate::volume::Volume::parent_pointers). Where the way to it is
    /// damaged, a tolerant volume looks at all attributes that can be read.
    ///
    /// # Errors
    /// [`OperationError::NameTooLong`]; damage (also where it may have lain in what a tolerant volume could not read); the device.
    pub fn get(&self, namespace: Namespace, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if name.len() > MAX_NAME_BYTES {
            return Err(OperationError::NameTooLong.into());
        }
        match self.form()? {
            AttributeForm::None => Ok(None),
            AttributeForm::Shortform(list) => find_in_list(self, list, namespace, name),
            AttributeForm::Blocks(blocks) => match self.find_in_blocks(blocks, namespace, name) {
                Err(error) if self.volume.may_pass_over(&error) => self.find_anywhere(namespace, name, error),
                found => found,
            },
        }
    }

    /// One attribute among all that can be read. `error` is the fault on the way by its hash.
    fn find_anywhere(&self, namespace: Namespace, name: &[u8], error: Error) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.visit(|attribute| {
            if attribute.namespace != namespace || attribute.name != name {
                return Ok(ControlFlow::Continue(()));
            }
            found = Some(self.value(&attribute.value)?.into_owned());
            Ok(ControlFlow::Break(()))
        })?;
        found.map(Some).ok_or(error)
    }

    fn find_in_blocks(
        &self,
        blocks: &ForkBlocks<'_>,
        namespace: Namespace,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let hash = name_hash::hash(name);
        let root = blocks.read_tree_block(FileBlock::new(0))?;
        let Some(mut walk) = LeafWalk::descend(blocks, root, Start::Hash(hash))? else { return Ok(None) };
        loop {
            let (found, last_hash) = find_in_leaf(blocks, &walk.leaf, walk.block, hash, namespace, name)?;
            if let Some(value) = found {
                return self.value(&value).map(Cow::into_owned).map(Some);
            }
            // Equal hashes may go on in the next leaf.
            if last_hash.is_some_and(|last| last > hash) || !walk.next(last_hash)? {
                return Ok(None);
            }
        }
    }
}

fn find_in_list(
    reader: &AttributeReader<'_>,
    list: ShortformAttributes<'_>,
    namespace: Namespace,
    name: &[u8],
) -> Result<Option<Vec<u8>>> {
    for attribute in list {
        let attribute = attribute.map_err(|fault| reader.list_corruption(fault))?;
        if attribute.flags.namespace() == Some(namespace) && attribute.name == name {
            return Ok(Some(attribute.value.to_vec()));
        }
    }
    Ok(None)
}

/// Looks at all attributes of a leaf with this hash. Gives the value, and the leaf's last hash.
fn find_in_leaf<'a>(
    blocks: &ForkBlocks<'_>,
    buffer: &'a MetadataBuffer,
    place: FileBlock,
    hash: u32,
    namespace: Namespace,
    name: &[u8],
) -> Result<(Option<AttributeValue<'a>>, Option<u32>)> {
    let corrupt = |fault| blocks.corruption(blocks.index_structure(), place, Some(buffer.sector()), fault);
    let leaf = LeafBlock::parse(buffer, blocks.geometry()).map_err(corrupt)?;
    for attribute in leaf.attributes_of(hash) {
        let attribute = attribute.map_err(&corrupt)?;
        let Some(attribute) = Attribute::of_leaf(attribute) else { continue };
        if attribute.namespace == namespace && attribute.name == name {
            return Ok((Some(attribute.value), leaf.last_hash()));
        }
    }
    Ok((None, leaf.last_hash()))
}

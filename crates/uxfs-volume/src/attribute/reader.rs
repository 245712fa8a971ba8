//! The attributes of an inode, in whichever form they are.

use uxfs_format::{
    attribute::shortform::{Shortform, ShortformAttributes},
    fault::{Corruption, Fault, Location, Structure},
    inode::Fork,
    name_tree::TreeKind,
};

use crate::{
    error::{Error, Result},
    inode::Inode,
    name_tree::ForkBlocks,
    volume::Volume,
};

/// Reads the attributes of an inode: a view that borrows the volume and the inode.
#[derive(Debug)]
pub struct AttributeReader<'a> {
    pub(super) volume: &'a Volume,
    pub(super) inode: &'a Inode,
    /// Leaves and nodes, where the attributes do not lie in the inode.
    blocks: Option<ForkBlocks<'a>>,
}

/// In which form attributes are.
#[derive(Debug)]
pub(super) enum AttributeForm<'r, 'a> {
    /// There are none.
    None,
    /// In the inode.
    Shortform(ShortformAttributes<'r>),
    /// In leaves.
    Blocks(&'r ForkBlocks<'a>),
}

impl Volume {
    /// To read the attributes of an inode.
    ///
    /// # Errors
    /// Damage of the attribute fork's extents; the device.
    pub fn attributes<'a>(&'a self, inode: &'a Inode) -> Result<AttributeReader<'a>> {
        let has_blocks = inode.has_extents(Fork::Attribute);
        let blocks = has_blocks.then(|| ForkBlocks::new(self, inode, TreeKind::Attribute)).transpose()?;
        Ok(AttributeReader { volume: self, inode, blocks })
    }
}

impl<'a> AttributeReader<'a> {
    /// Whether the attributes fill more than one block: then [`get`](Self::get) is quicker for a few of them than
    /// [`visit`](Self::visit).
    pub fn has_several_blocks(&self) -> bool {
        self.blocks().is_some_and(|blocks| blocks.most_blocks() > 1)
    }

    /// Leaves and nodes, where the attributes do not lie in the inode.
    pub(super) fn blocks(&self) -> Option<&ForkBlocks<'a>> {
        self.blocks.as_ref()
    }

    /// The form they are in; a list in the inode is verified here. A tolerant volume gives the attributes of a damaged list that
    /// lie before the fault.
    pub(super) fn form(&self) -> Result<AttributeForm<'_, 'a>> {
        if let Some(blocks) = &self.blocks {
            return Ok(AttributeForm::Blocks(blocks));
        }
        let Some(bytes) = self.inode.local_fork(Fork::Attribute) else { return Ok(AttributeForm::None) };
        if !self.inode.is_local_fork_verified()
            && let Err(fault) = Shortform::verify(bytes)
        {
            self.volume.leave_out(self.list_corruption(fault))?;
            let sound = Shortform::sound_attributes(bytes);
            return Ok(sound.map_or(AttributeForm::None, AttributeForm::Shortform));
        }
        let list = Shortform::parse(bytes).map_err(|fault| self.list_corruption(fault))?;
        Ok(AttributeForm::Shortform(list.attributes()))
    }

    /// Damage in attributes that lie in their inode.
    pub(super) fn list_corruption(&self, fault: impl Into<Fault>) -> Error {
        Corruption::new(Structure::AttributeShortform, Location::of_inode(self.inode.number), fault).into()
    }
}

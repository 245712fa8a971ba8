//! The attributes of an inode, whoever holds it: one that was read, or one that is open and locked.

use uxfs_format::{
    attribute::shortform::{Shortform, ShortformAttributes},
    fault::{Corruption, Fault, Location, Structure},
    inode::Fork,
    name_tree::TreeKind,
    units::InodeNumber,
};

use crate::{
    error::{Error, Result},
    filesystem::FileSystem,
    inode::{
        ForkView, Inode,
        edit::{EditFork, EditInode},
    },
    name_tree::ForkBlocks,
};

/// Where the attributes of an inode lie.
#[derive(Debug)]
pub(crate) struct AttributeReader<'a> {
    pub(super) inode: InodeNumber,
    pub(super) place: Place<'a>,
}

/// In which form they are.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// There are none.
    Nowhere,
    /// In the inode, as it was read.
    List(&'a [u8]),
    /// In the inode, by whoever has it open.
    OpenList(&'a [u8]),
    /// In leaves.
    Blocks(ForkBlocks<'a>),
}

impl<'a> AttributeReader<'a> {
    /// Of an inode that was read.
    pub(crate) fn new(file_system: &'a FileSystem, inode: &'a Inode) -> Result<Self> {
        let place = match inode.fork(Fork::Attribute) {
            ForkView::Local(bytes) => Place::List(bytes),
            ForkView::Extents | ForkView::Btree => {
                Place::Blocks(ForkBlocks::new(file_system, inode, TreeKind::Attribute)?)
            }
            _ => Place::Nowhere,
        };
        Ok(Self { inode: inode.number, place })
    }

    /// Of an inode that is open and locked.
    pub(crate) fn of_open(file_system: &'a FileSystem, inode: &'a EditInode) -> Self {
        let place = match &inode.attribute {
            Some(EditFork::Local(bytes)) => Place::OpenList(bytes),
            Some(EditFork::Extents(extents)) if !extents.extents.is_empty() => {
                Place::Blocks(ForkBlocks::of_open(file_system, inode, TreeKind::Attribute))
            }
            _ => Place::Nowhere,
        };
        Self { inode: inode.number, place }
    }

    /// A list in the inode, entry by entry.
    pub(super) fn list<'b>(&self, bytes: &'b [u8], is_verified: bool) -> Result<ShortformAttributes<'b>> {
        if !is_verified {
            Shortform::verify(bytes).map_err(|fault| self.list_corruption(fault))?;
        }
        Ok(Shortform::parse(bytes).map_err(|fault| self.list_corruption(fault))?.attributes())
    }

    /// Damage in attributes that lie in their inode.
    pub(super) fn list_corruption(&self, fault: impl Into<Fault>) -> Error {
        Corruption::new(Structure::AttributeShortform, Location::of_inode(self.inode), fault).into()
    }
}

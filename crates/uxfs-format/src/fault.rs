//! Faults of a structure read from disk, and where it lies.
//!
//! Each structure has its own fault type with one variant per check, beside the structure, and its functions return
//! that type. [`Fault`] gathers them and lies above all structures: no structure imports this file. [`Corruption`]
//! adds which structure it is and where it was read. Callers higher up decide whether a corruption
//! ends the operation or is one finding among many.

use std::fmt;

use thiserror::Error;

use crate::{
    allocation_group::{
        free_list::FreeListFault, free_space_header::FreeSpaceHeaderFault, inode_header::InodeHeaderFault,
    },
    attribute::{
        leaf::AttributeLeafFault, parent_pointer::ParentPointerFault, posix_acl::AclFault,
        remote::RemoteValueFault, shortform::AttributeShortformFault,
    },
    btree::{
        check::BtreeFault,
        extent_map::{ExtentMapFault, ExtentMapRootFault},
        inode_index::InodeIndexFault,
        reference_count::ReferenceCountFault,
        reverse_map::ReverseMapFault,
    },
    directory::{
        block::DirectoryBlockFault, data::DirectoryDataFault, entry_fault::EntryFault,
        free_index::FreeIndexFault, leaf::DirectoryLeafFault, shortform::DirectoryShortformFault,
    },
    inode::{InodeFault, symlink::SymlinkFault},
    log::{
        LogFault, item::LogItemFault, operation::LogOperationFault, record::LogRecordFault,
        transaction::TransactionFault,
    },
    name_tree::{fault::NameTreeFault, node::NodeFault},
    quota::QuotaFault,
    realtime::group_superblock::RealtimeSuperblockFault,
    superblock::SuperblockFault,
};

pub use crate::{header_fault::HeaderFault, location::Location, structure::Structure};

/// Any fault of any structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// Header fields common to all blocks.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Superblock.
    #[error(transparent)]
    Superblock(#[from] SuperblockFault),
    /// The log as a whole.
    #[error(transparent)]
    Log(#[from] LogFault),
    /// A log record.
    #[error(transparent)]
    LogRecord(LogRecordFault),
    /// An operation in a log record.
    #[error(transparent)]
    LogOperation(#[from] LogOperationFault),
    /// The assembly of a logged transaction.
    #[error(transparent)]
    Transaction(#[from] TransactionFault),
    /// A log item.
    #[error(transparent)]
    LogItem(#[from] LogItemFault),
    /// Inode.
    #[error(transparent)]
    Inode(InodeFault),
    /// Symbolic link.
    #[error(transparent)]
    Symlink(SymlinkFault),
    /// AGF.
    #[error(transparent)]
    FreeSpaceHeader(FreeSpaceHeaderFault),
    /// AGI.
    #[error(transparent)]
    InodeHeader(InodeHeaderFault),
    /// AGFL.
    #[error(transparent)]
    FreeList(FreeListFault),
    /// Block of any btree.
    #[error(transparent)]
    Btree(BtreeFault),
    /// Inode chunks beside what they should say.
    #[error(transparent)]
    InodeIndex(#[from] InodeIndexFault),
    /// Reverse mappings beside what they should say.
    #[error(transparent)]
    ReverseMap(#[from] ReverseMapFault),
    /// Reference counts beside what they should say.
    #[error(transparent)]
    ReferenceCount(#[from] ReferenceCountFault),
    /// Extent, or root of an extent map in an inode.
    #[error(transparent)]
    ExtentMap(#[from] ExtentMapFault),
    /// Interior block of a directory's or of attributes' name tree.
    #[error(transparent)]
    Node(NodeFault),
    /// Between the blocks of a directory or of attributes.
    #[error(transparent)]
    NameTree(#[from] NameTreeFault),
    /// Shortform directory.
    #[error(transparent)]
    DirectoryShortform(DirectoryShortformFault),
    /// Records of a directory's data block.
    #[error(transparent)]
    DirectoryData(DirectoryDataFault),
    /// Directory entries beside their inodes.
    #[error(transparent)]
    Entry(#[from] EntryFault),
    /// Index of a single-block directory.
    #[error(transparent)]
    DirectoryBlock(DirectoryBlockFault),
    /// Directory leaf.
    #[error(transparent)]
    DirectoryLeaf(DirectoryLeafFault),
    /// Free index of a directory.
    #[error(transparent)]
    FreeIndex(FreeIndexFault),
    /// Shortform attributes.
    #[error(transparent)]
    AttributeShortform(AttributeShortformFault),
    /// Attribute leaf.
    #[error(transparent)]
    AttributeLeaf(AttributeLeafFault),
    /// Remote attribute value.
    #[error(transparent)]
    RemoteValue(RemoteValueFault),
    /// Access control list.
    #[error(transparent)]
    Acl(#[from] AclFault),
    /// Parent pointer.
    #[error(transparent)]
    ParentPointer(ParentPointerFault),
    /// Quota record.
    #[error(transparent)]
    Quota(QuotaFault),
    /// Superblock of the realtime section.
    #[error(transparent)]
    RealtimeSuperblock(RealtimeSuperblockFault),
}

/// A header fault is [`Fault::Header`] whichever structure the header begins.
macro_rules! from_structure_faults {
    ($($variant:ident($fault:ident)),* $(,)?) => {
        $(impl From<$fault> for Fault {
            fn from(fault: $fault) -> Self {
                match fault {
                    $fault::Header(header) => Self::Header(header),
                    other => Self::$variant(other),
                }
            }
        })*
    };
}

from_structure_faults! {
    LogRecord(LogRecordFault),
    Inode(InodeFault),
    Symlink(SymlinkFault),
    FreeSpaceHeader(FreeSpaceHeaderFault),
    InodeHeader(InodeHeaderFault),
    FreeList(FreeListFault),
    Btree(BtreeFault),
    Node(NodeFault),
    DirectoryShortform(DirectoryShortformFault),
    DirectoryData(DirectoryDataFault),
    DirectoryLeaf(DirectoryLeafFault),
    FreeIndex(FreeIndexFault),
    AttributeShortform(AttributeShortformFault),
    AttributeLeaf(AttributeLeafFault),
    RemoteValue(RemoteValueFault),
    ParentPointer(ParentPointerFault),
    Quota(QuotaFault),
    RealtimeSuperblock(RealtimeSuperblockFault),
}

impl From<DirectoryBlockFault> for Fault {
    fn from(fault: DirectoryBlockFault) -> Self {
        match fault {
            DirectoryBlockFault::Header(header) => Self::Header(header),
            DirectoryBlockFault::Data(data) => data.into(),
            other => Self::DirectoryBlock(other),
        }
    }
}

impl From<ExtentMapRootFault> for Fault {
    fn from(fault: ExtentMapRootFault) -> Self {
        match fault {
            ExtentMapRootFault::Header(header) => Self::Header(header),
            ExtentMapRootFault::ExtentMap(extent_map) => Self::ExtentMap(extent_map),
            ExtentMapRootFault::Btree(btree) => btree.into(),
        }
    }
}

/// A damaged structure: which, where and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corruption {
    /// Which structure.
    pub structure: Structure,
    /// Where it lies.
    pub location: Location,
    /// The fault.
    pub fault: Fault,
}

impl Corruption {
    /// Puts the three together.
    pub fn new(structure: Structure, location: Location, fault: impl Into<Fault>) -> Self {
        Self { structure, location, fault: fault.into() }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.structure.name(), self.location, self.fault)
    }
}

impl std::error::Error for Corruption {}

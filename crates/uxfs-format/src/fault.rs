//! What can be wrong with a structure read from disk, and where it lies.
//!
//! Each structure has its own fault type with one variant per check, beside the structure. [`Fault`] gathers them;
//! [`Corruption`] adds which structure it is and where it was read. Callers higher up decide whether a corruption
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
        check::BtreeFault, extent_map::ExtentMapFault, inode_index::InodeIndexFault,
        reference_count::ReferenceCountFault, reverse_map::ReverseMapFault,
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
    units::{AgBlock, AgNumber, FileBlock, InodeNumber, Lsn, Sector, Uuid},
};

/// A fault in what every self-describing block carries, whatever kind it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// Fewer bytes than the fixed part needs.
    #[error("only {length_bytes} bytes where {needed_bytes} are needed")]
    Truncated {
        /// There are.
        length_bytes: u64,
        /// There must be.
        needed_bytes: u64,
    },
    /// Another structure, or none.
    #[error("magic number is {found:#x}, not {expected:#x}")]
    BadMagic {
        /// On disk.
        found: u32,
        /// For this structure.
        expected: u32,
    },
    /// The bytes are not those that were written.
    #[error("checksum is {found:#010x}, but the contents give {computed:#010x}")]
    BadChecksum {
        /// On disk.
        found: u32,
        /// Over the bytes read.
        computed: u32,
    },
    /// Part of another file system (or of an earlier one on this device).
    #[error("uuid is {found}, not {expected} of this file system")]
    WrongUuid {
        /// On disk.
        found: Uuid,
        /// From the superblock.
        expected: Uuid,
    },
    /// A misdirected write.
    #[error("block says that it belongs at sector {found}, but was read from {expected}")]
    WrongSector {
        /// On disk.
        found: Sector,
        /// Where it was read.
        expected: Sector,
    },
    /// Belongs to another allocation group or inode.
    #[error("owner is {found}, not {expected}")]
    WrongOwner {
        /// On disk.
        found: u64,
        /// From the structure that led here.
        expected: u64,
    },
    /// The log sequence number lies ahead of the log.
    #[error("log sequence number {found} lies ahead of the log at {head}")]
    AheadOfLog {
        /// On disk.
        found: Lsn,
        /// Head of the log.
        head: Lsn,
    },
}

impl From<crate::checksum::Mismatch> for HeaderFault {
    fn from(mismatch: crate::checksum::Mismatch) -> Self {
        Self::BadChecksum { found: mismatch.found, computed: mismatch.computed }
    }
}

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
    LogRecord(#[from] LogRecordFault),
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
    Inode(#[from] InodeFault),
    /// Symbolic link.
    #[error(transparent)]
    Symlink(#[from] SymlinkFault),
    /// AGF.
    #[error(transparent)]
    FreeSpaceHeader(#[from] FreeSpaceHeaderFault),
    /// AGI.
    #[error(transparent)]
    InodeHeader(#[from] InodeHeaderFault),
    /// AGFL.
    #[error(transparent)]
    FreeList(#[from] FreeListFault),
    /// Block of any btree.
    #[error(transparent)]
    Btree(#[from] BtreeFault),
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
    Node(#[from] NodeFault),
    /// Between the blocks of a directory or of attributes.
    #[error(transparent)]
    NameTree(#[from] NameTreeFault),
    /// Shortform directory.
    #[error(transparent)]
    DirectoryShortform(#[from] DirectoryShortformFault),
    /// Records of a directory's data block.
    #[error(transparent)]
    DirectoryData(#[from] DirectoryDataFault),
    /// Directory entries beside their inodes.
    #[error(transparent)]
    Entry(#[from] EntryFault),
    /// Index of a single-block directory.
    #[error(transparent)]
    DirectoryBlock(#[from] DirectoryBlockFault),
    /// Directory leaf.
    #[error(transparent)]
    DirectoryLeaf(#[from] DirectoryLeafFault),
    /// Free index of a directory.
    #[error(transparent)]
    FreeIndex(#[from] FreeIndexFault),
    /// Shortform attributes.
    #[error(transparent)]
    AttributeShortform(#[from] AttributeShortformFault),
    /// Attribute leaf.
    #[error(transparent)]
    AttributeLeaf(#[from] AttributeLeafFault),
    /// Remote attribute value.
    #[error(transparent)]
    RemoteValue(#[from] RemoteValueFault),
    /// Access control list.
    #[error(transparent)]
    Acl(#[from] AclFault),
    /// Parent pointer.
    #[error(transparent)]
    ParentPointer(#[from] ParentPointerFault),
    /// Quota record.
    #[error(transparent)]
    Quota(#[from] QuotaFault),
    /// Superblock of the realtime section.
    #[error(transparent)]
    RealtimeSuperblock(#[from] RealtimeSuperblockFault),
}

/// Which structure is meant, in words for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// Superblock of a group.
    Superblock,
    /// AGF: free space header of a group.
    FreeSpaceHeader,
    /// AGI: inode header of a group.
    InodeHeader,
    /// AGFL: blocks kept for the group's btrees.
    FreeList,
    /// Block of the free space btree ordered by block.
    FreeSpaceByBlock,
    /// Block of the free space btree ordered by length.
    FreeSpaceByLength,
    /// Block of the inode btree.
    InodeIndex,
    /// Block of the free inode btree.
    FreeInodeIndex,
    /// Block of the reverse mapping btree.
    ReverseMap,
    /// Block of the reference count btree.
    ReferenceCount,
    /// Block of an inode's extent map btree.
    ExtentMap,
    /// One inode.
    Inode,
    /// A buffer of several inodes.
    InodeCluster,
    /// Directory inside its inode.
    DirectoryShortform,
    /// Single-block directory (XDB3).
    DirectoryBlock,
    /// Data block of a larger directory (XDD3).
    DirectoryData,
    /// Either of the two above, by magic number.
    DirectoryAnyData,
    /// The one leaf of a leaf directory, with bests (0x3df1).
    DirectoryLeaf,
    /// Leaf of a node directory (0x3dff).
    DirectoryLeafNode,
    /// Interior block of a node directory (0x3ebe).
    DirectoryNode,
    /// Any of the three above, by magic number.
    DirectoryAnyIndex,
    /// Free index of a node directory (XDF3).
    DirectoryFreeIndex,
    /// Attributes inside their inode.
    AttributeShortform,
    /// Attribute leaf (0x3bee).
    AttributeLeaf,
    /// Interior block of an attribute tree (0x3ebe).
    AttributeNode,
    /// Either of the two above, by magic number.
    AttributeAnyIndex,
    /// Block of a remote attribute value (XARM).
    AttributeRemoteValue,
    /// One parent pointer attribute.
    ParentPointer,
    /// A POSIX access control list.
    AccessControlList,
    /// Block of a long symbolic link (XSLM).
    Symlink,
    /// Symbolic link inside its inode.
    SymlinkLocal,
    /// Disk quota record.
    Quota,
    /// Block of disk quota records.
    QuotaBlock,
    /// Bitmap block of a realtime group.
    RealtimeBitmap,
    /// Summary block of a realtime group.
    RealtimeSummary,
    /// Superblock of the realtime section.
    RealtimeSuperblock,
    /// The log as a whole.
    Log,
    /// One log record.
    LogRecord,
    /// One item of a logged transaction.
    LogItem,
}

impl Structure {
    /// Its name, with the kernel's where that is better known.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::FreeSpaceHeader => "free space header (AGF)",
            Self::InodeHeader => "inode header (AGI)",
            Self::FreeList => "free list (AGFL)",
            Self::FreeSpaceByBlock => "free space btree by block (bnobt)",
            Self::FreeSpaceByLength => "free space btree by length (cntbt)",
            Self::InodeIndex => "inode btree (inobt)",
            Self::FreeInodeIndex => "free inode btree (finobt)",
            Self::ReverseMap => "reverse mapping btree (rmapbt)",
            Self::ReferenceCount => "reference count btree (refcountbt)",
            Self::ExtentMap => "extent map btree (bmbt)",
            Self::Inode => "inode",
            Self::InodeCluster => "inode cluster",
            Self::DirectoryShortform => "shortform directory",
            Self::DirectoryBlock => "directory block",
            Self::DirectoryData => "directory data block",
            Self::DirectoryAnyData => "directory data block",
            Self::DirectoryLeaf => "directory leaf block",
            Self::DirectoryLeafNode => "directory leaf block",
            Self::DirectoryNode => "directory node block",
            Self::DirectoryAnyIndex => "directory index block",
            Self::DirectoryFreeIndex => "directory free index block",
            Self::AttributeShortform => "shortform attributes",
            Self::AttributeLeaf => "attribute leaf block",
            Self::AttributeNode => "attribute node block",
            Self::AttributeAnyIndex => "attribute index block",
            Self::AttributeRemoteValue => "remote attribute value block",
            Self::ParentPointer => "parent pointer",
            Self::AccessControlList => "access control list",
            Self::Symlink => "remote symbolic link block",
            Self::SymlinkLocal => "symbolic link",
            Self::Quota => "quota record",
            Self::QuotaBlock => "quota block",
            Self::RealtimeBitmap => "realtime bitmap block",
            Self::RealtimeSummary => "realtime summary block",
            Self::RealtimeSuperblock => "realtime superblock",
            Self::Log => "log",
            Self::LogRecord => "log record",
            Self::LogItem => "log item",
        }
    }
}

/// Where a structure lies, as far as the reader knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// First 512-byte unit of the device region that was read.
    pub sector: Option<Sector>,
    /// The allocation group.
    pub group: Option<AgNumber>,
    /// Block in that group.
    pub group_block: Option<AgBlock>,
    /// The inode that it is or belongs to.
    pub inode: Option<InodeNumber>,
    /// Block in the inode's fork.
    pub file_block: Option<FileBlock>,
    /// Byte in the structure.
    pub offset_bytes: Option<u32>,
}

impl Location {
    /// A place on the device.
    pub const fn at_sector(sector: Sector) -> Self {
        Self {
            sector: Some(sector),
            group: None,
            group_block: None,
            inode: None,
            file_block: None,
            offset_bytes: None,
        }
    }

    /// An inode.
    pub const fn of_inode(inode: InodeNumber) -> Self {
        Self {
            sector: None,
            group: None,
            group_block: None,
            inode: Some(inode),
            file_block: None,
            offset_bytes: None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, value: Option<u64>| -> fmt::Result {
            if let Some(value) = value {
                write!(f, "{separator}{name} {value}")?;
                separator = ", ";
            }
            Ok(())
        };
        part(f, "inode", self.inode.map(InodeNumber::get))?;
        part(f, "file block", self.file_block.map(FileBlock::get))?;
        part(f, "group", self.group.map(|group| group.get().into()))?;
        part(f, "block", self.group_block.map(|block| block.get().into()))?;
        part(f, "sector", self.sector.map(Sector::get))?;
        part(f, "offset", self.offset_bytes.map(u64::from))
    }
}

/// A damaged structure: which, where and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corruption {
    /// Which structure.
    pub structure: Structure,
    /// Where it lies.
    pub location: Location,
    /// What is wrong.
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

//! Faults of an inode. One variant per check.

use thiserror::Error;

use crate::{header_fault::HeaderFault, inode::fork::Fork};

/// A fault in an inode. Sizes are in bytes, counts in extents or blocks as named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // The message says what each variant and field means.
pub enum InodeFault {
    #[error(transparent)]
    Header(#[from] HeaderFault),
    #[error("inode version is {found}, not 3")]
    Version { found: u8 },
    #[error("inode says that its number is {found}, not {expected}")]
    Number { found: u64, expected: u64 },
    #[error("old link count is {value}, not 0")]
    OldLinkCount { value: u16 },
    #[error("size {size_bytes:#x} is negative")]
    NegativeSize { size_bytes: u64 },
    #[error("inode is free, but the inode index says that it is in use")]
    FreeThoughIndexed,
    #[error("inode is in use (mode {mode:#o}), but the inode index says that it is free")]
    InUseThoughFree { mode: u16 },
    #[error("mode {mode:#o} has no file type")]
    Mode { mode: u16 },
    #[error("a directory or symbolic link (mode {mode:#o}) with {link_count} links has size 0")]
    ZeroSize { mode: u16, link_count: u32 },

    #[error("large extent counts on a file system without them")]
    LargeCountsWithoutFeature,
    #[error("unused counter beside large extent counts is {value}, not 0")]
    LargeCountsPadding { value: u16 },
    #[error("the flag for large extent counts contradicts the extents")]
    LargeCountsFlag,
    #[error("large extent count is {value:#x} in an inode without large counts")]
    SmallCountsPadding { value: u64 },
    #[error("{extents} extents and {attribute_extents} attribute extents cannot lie in {blocks} blocks")]
    MoreExtentsThanBlocks { extents: u64, attribute_extents: u64, blocks: u64 },
    #[error("{blocks} blocks, but no extents")]
    BlocksWithoutExtents { blocks: u64 },
    #[error("directory has {extents} extents, at most {extents_max} fit its address space")]
    DirectoryExtents { extents: u64, extents_max: u64 },

    #[error("realtime file on a file system without realtime device")]
    RealtimeWithoutDevice,

    #[error("fork offset {fork_offset} × 8 is not within the {literal_size_bytes} bytes behind the core")]
    ForkOffset { fork_offset: u8, literal_size_bytes: u32 },
    #[error("fork offset of a device file is {fork_offset}, not 1")]
    DeviceForkOffset { fork_offset: u8 },
    #[error("attribute fork beside a metadata btree on a file system without parent pointers")]
    MetadataBtreeForkOffset { fork_offset: u8 },
    #[error("{fork} format {format} is unknown")]
    UnknownFormat { fork: Fork, format: u8 },
    #[error("device file, fifo or socket (mode {mode:#o}) has data fork format {format}, not 0")]
    SpecialFileFormat { mode: u16, format: u8 },
    #[error("{fork} format {format} is not possible here")]
    Format { fork: Fork, format: u8 },
    #[error("directory of {size_bytes} bytes fits {fork_size_bytes} bytes in the inode, but is not there")]
    DirectoryNotLocal { size_bytes: u64, fork_size_bytes: u32 },
    #[error("symbolic link of {size_bytes} bytes has data fork format {format}")]
    SymlinkFormat { size_bytes: u64, format: u8 },
    #[error("{size_bytes} bytes do not fit {fork_size_bytes} bytes in the inode")]
    LocalTooLarge { size_bytes: u64, fork_size_bytes: u32 },
    #[error("regular file has its data in the inode")]
    LocalRegularFile,
    #[error("{fork} in the inode has {extents} extents")]
    LocalWithExtents { fork: Fork, extents: u64 },
    #[error("{fork} has {extents} extents, but at most {extents_max} fit the inode")]
    TooManyInlineExtents { fork: Fork, extents: u64, extents_max: u64 },
    #[error("{fork} has {extents} extents, which its counter cannot say (at most {extents_max})")]
    TooManyExtents { fork: Fork, extents: u64, extents_max: u64 },
    #[error("{fork} has a btree for {extents} extents, though {inline_extents_max} fit the inode")]
    BtreeNotNeeded { fork: Fork, extents: u64, inline_extents_max: u64 },
    #[error("no attribute fork, but attribute fork format {format}")]
    AttributeFormatWithoutFork { format: u8 },
    #[error("no attribute fork, but {extents} attribute extents")]
    AttributeExtentsWithoutFork { extents: u64 },

    #[error("{fork} is a metadata btree on a file system without metadata directory")]
    MetadataBtreeWithoutFeature { fork: Fork },
    #[error("{fork} is a metadata btree, but the inode is no metadata file")]
    MetadataBtreeFlag { fork: Fork },
    #[error("{fork} is a metadata btree of metadata type {metadata_type}, which has none here")]
    MetadataBtreeType { fork: Fork, metadata_type: u16 },

    #[error("extent size hint on a file of mode {mode:#o}: flags {flags:#x} do not belong there")]
    ExtentSizeFileType { mode: u16, flags: u16 },
    #[error("extent size hint is in use, but 0")]
    ExtentSizeZero,
    #[error("extent size hint of {blocks} blocks is not in use")]
    ExtentSizeUnflagged { blocks: u32 },
    #[error("extent size hint of {blocks} blocks is not a multiple of the realtime extent ({unit_blocks})")]
    ExtentSizeAlignment { blocks: u32, unit_blocks: u32 },
    #[error("extent size hint of {blocks} blocks is more than {blocks_max}")]
    ExtentSizeTooLarge { blocks: u32, blocks_max: u32 },

    #[error("shared extents or their hint (flags2 {flags2:#x}) on a file system without reflink")]
    ReflinkWithoutFeature { flags2: u64 },
    #[error("shared extents in a file of mode {mode:#o}")]
    ReflinkFileType { mode: u16 },
    #[error("shared extents in a realtime file")]
    ReflinkRealtime,
    #[error("copy-on-write extent size hint on a file of mode {mode:#o}")]
    CowExtentSizeFileType { mode: u16 },
    #[error("copy-on-write extent size hint is in use, but 0")]
    CowExtentSizeZero,
    #[error("copy-on-write extent size hint of {blocks} blocks is not in use")]
    CowExtentSizeUnflagged { blocks: u32 },
    #[error(
        "copy-on-write extent size hint of {blocks} blocks is no multiple of the realtime extent ({unit_blocks})"
    )]
    CowExtentSizeAlignment { blocks: u32, unit_blocks: u32 },
    #[error("copy-on-write extent size hint of {blocks} blocks is more than {blocks_max}")]
    CowExtentSizeTooLarge { blocks: u32, blocks_max: u32 },
    #[error("{blocks} used blocks in a zone of {blocks_max}")]
    ZoneUsedBlocks { blocks: u32, blocks_max: u32 },

    #[error("64-bit times on a file system without them")]
    BigTimeWithoutFeature,

    #[error("metadata file on a file system without metadata directory")]
    MetadataWithoutFeature,
    #[error("metadata type {metadata_type} is unknown")]
    MetadataType { metadata_type: u16 },
    #[error("metadata file has mode {mode:#o}, neither directory nor regular file")]
    MetadataFileType { mode: u16 },
    #[error("metadata file has permissions (mode {mode:#o})")]
    MetadataPermissions { mode: u16 },
    #[error("metadata file has DMAPI events {event_mask:#x} or state {state:#x}")]
    MetadataDmapi { event_mask: u32, state: u16 },
    #[error("metadata file belongs to user {uid} and group {gid}")]
    MetadataOwner { uid: u32, gid: u32 },
    #[error("metadata file has flags {flags:#x}, which lack some of {needed:#x}")]
    MetadataFlags { flags: u16, needed: u16 },
    #[error("metadata file has direct access set")]
    MetadataDax,

    #[error("inode {index} of the buffer: next unlinked inode {found:#x} cannot be one")]
    NextUnlinked { index: u32, found: u32 },
    #[error("inode {index} of the buffer: magic number is {found:#x}, not 0x494e")]
    ClusterMagic { index: u32, found: u16 },
    #[error("inode {index} of the buffer: version is {found}, not 3")]
    ClusterVersion { index: u32, found: u8 },
}

//! From a kind of structure to its verifier: the one table that the buffer cache, the checker and the fuzzers share.
//!
//! The same verifier runs after a read and before a write. It looks at one block alone; who owns the block is
//! compared by whoever followed a pointer to it, because a cached block may be reached a second way.

use crate::{
    allocation_group,
    attribute::{self, parent_pointer::ParentRecord, remote::RemoteBlock},
    btree::{
        check::verify as verify_btree,
        extent_map::ExtentMap,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    directory::{self, block::SingleBlock, data::DataBlock, free_index::FreeIndexBlock, leaf},
    fault::{Fault, Structure},
    geometry::Geometry,
    inode, log,
    name_tree::{
        TreeKind,
        header::magic_of,
        node::{self, NodeBlock},
    },
    quota, realtime,
    units::Sector,
};

/// What a verifier may know beside the bytes.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The file system's sizes, uuid and features.
    pub geometry: &'a Geometry,
    /// First sector from which the bytes were read: blocks say where they belong.
    pub sector: Sector,
}

/// Verifies `bytes` as one `structure`.
///
/// # Errors
/// The first check that fails.
pub fn verify(structure: Structure, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Fault> {
    // Each structure's module has the verifier; this only chooses.
    match structure {
        _ if bytes.is_empty() => {
            Err(crate::fault::HeaderFault::Truncated { length_bytes: 0, needed_bytes: 1 }.into())
        }
        Structure::Inode => inode::verify::verify_inode_in_place(bytes, context),
        Structure::InodeCluster => inode::verify_inode_cluster(bytes, context),
        Structure::Symlink => inode::symlink::verify_symlink(bytes, context),
        Structure::SymlinkLocal => Ok(inode::symlink::verify_target(bytes)?),
        Structure::DirectoryShortform => directory::shortform::Shortform::verify(bytes, context.geometry),
        Structure::DirectoryBlock => SingleBlock::verify(bytes, context),
        Structure::DirectoryData => DataBlock::verify(bytes, context),
        Structure::DirectoryAnyData => directory::verify_any_data(bytes, context),
        Structure::DirectoryLeaf => leaf::LeafBlock::verify_single(bytes, context),
        Structure::DirectoryLeafNode => leaf::LeafBlock::verify_node(bytes, context),
        Structure::DirectoryNode => NodeBlock::verify(bytes, TreeKind::Directory, context),
        Structure::DirectoryAnyIndex => match magic_of(bytes) {
            Some(node::MAGIC) => NodeBlock::verify(bytes, TreeKind::Directory, context),
            Some(leaf::SINGLE_MAGIC) => leaf::LeafBlock::verify_single(bytes, context),
            _ => leaf::LeafBlock::verify_node(bytes, context),
        },
        Structure::DirectoryFreeIndex => FreeIndexBlock::verify(bytes, context),
        Structure::AttributeShortform => attribute::shortform::Shortform::verify(bytes),
        Structure::AttributeLeaf => attribute::leaf::LeafBlock::verify(bytes, context),
        Structure::AttributeNode => NodeBlock::verify(bytes, TreeKind::Attribute, context),
        Structure::AttributeAnyIndex => match magic_of(bytes) {
            Some(node::MAGIC) => NodeBlock::verify(bytes, TreeKind::Attribute, context),
            _ => attribute::leaf::LeafBlock::verify(bytes, context),
        },
        Structure::AttributeRemoteValue => RemoteBlock::verify(bytes, context),
        Structure::AccessControlList => {
            attribute::posix_acl::PosixAcl::decode(bytes).map(drop).map_err(Fault::from)
        }
        Structure::ParentPointer => ParentRecord::verify(bytes, context.geometry),
        Structure::Quota => quota::verify_record(bytes, context),
        Structure::QuotaBlock => quota::verify_block(bytes, context),
        Structure::RealtimeBitmap => realtime::block::verify(bytes, realtime::block::BITMAP_MAGIC, context),
        Structure::RealtimeSummary => realtime::block::verify(bytes, realtime::block::SUMMARY_MAGIC, context),
        Structure::RealtimeSuperblock => realtime::group_superblock::verify(bytes, context),
        Structure::FreeSpaceHeader => allocation_group::free_space_header::verify(bytes, context),
        Structure::InodeHeader => allocation_group::inode_header::verify(bytes, context),
        Structure::FreeList => allocation_group::free_list::verify(bytes, context),
        Structure::FreeSpaceByBlock => verify_btree::<ByBlock>(bytes, context),
        Structure::FreeSpaceByLength => verify_btree::<ByLength>(bytes, context),
        Structure::InodeIndex => verify_btree::<InodeIndex>(bytes, context),
        Structure::FreeInodeIndex => verify_btree::<FreeInodeIndex>(bytes, context),
        Structure::ReverseMap => verify_btree::<ReverseMap>(bytes, context),
        Structure::ReferenceCount => verify_btree::<ReferenceCount>(bytes, context),
        Structure::ExtentMap => verify_btree::<ExtentMap>(bytes, context),
        Structure::LogRecord => log::record::verify(bytes, context),
        _ => Ok(()),
    }
}

//! From a kind of structure to its verifier: the one table that the buffer cache, the checker and the fuzzers share.
//!
//! The same verifier runs after a read and before a write. It looks at one block alone. The code that
//! followed a pointer to the block compares its owner, because a cached block may be reached a second way.

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
    inode, log,
    name_tree::{
        TreeKind,
        header::magic_of,
        node::{self, NodeBlock},
    },
    quota, realtime,
};

pub use crate::verify_context::VerifyContext;

/// Verifies `bytes` as one `structure`.
///
/// # Errors
/// The first check that fails.
pub fn verify(structure: Structure, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Fault> {
    // Each structure's module has the verifier; this only chooses.
    match structure {
        _ if bytes.is_empty() => {
            Err(crate::header_fault::HeaderFault::Truncated { length_bytes: 0, needed_bytes: 1 }.into())
        }
        Structure::Inode => Ok(inode::verify::verify_inode_in_place(bytes, context)?),
        Structure::InodeCluster => Ok(inode::verify_inode_cluster(bytes, context)?),
        Structure::Symlink => Ok(inode::symlink::verify_symlink(bytes, context)?),
        Structure::SymlinkLocal => Ok(inode::symlink::verify_target(bytes)?),
        Structure::DirectoryShortform => {
            Ok(directory::shortform::Shortform::verify(bytes, context.geometry)?)
        }
        Structure::DirectoryBlock => Ok(SingleBlock::verify(bytes, context)?),
        Structure::DirectoryData => Ok(DataBlock::verify(bytes, context)?),
        Structure::DirectoryAnyData => Ok(directory::verify_any_data(bytes, context)?),
        Structure::DirectoryLeaf => Ok(leaf::LeafBlock::verify_single(bytes, context)?),
        Structure::DirectoryLeafNode => Ok(leaf::LeafBlock::verify_node(bytes, context)?),
        Structure::DirectoryNode => Ok(NodeBlock::verify(bytes, TreeKind::Directory, context)?),
        Structure::DirectoryAnyIndex => match magic_of(bytes) {
            Some(node::MAGIC) => Ok(NodeBlock::verify(bytes, TreeKind::Directory, context)?),
            Some(leaf::SINGLE_MAGIC) => Ok(leaf::LeafBlock::verify_single(bytes, context)?),
            _ => Ok(leaf::LeafBlock::verify_node(bytes, context)?),
        },
        Structure::DirectoryFreeIndex => Ok(FreeIndexBlock::verify(bytes, context)?),
        Structure::AttributeShortform => Ok(attribute::shortform::Shortform::verify(bytes)?),
        Structure::AttributeLeaf => Ok(attribute::leaf::LeafBlock::verify(bytes, context)?),
        Structure::AttributeNode => Ok(NodeBlock::verify(bytes, TreeKind::Attribute, context)?),
        Structure::AttributeAnyIndex => match magic_of(bytes) {
            Some(node::MAGIC) => Ok(NodeBlock::verify(bytes, TreeKind::Attribute, context)?),
            _ => Ok(attribute::leaf::LeafBlock::verify(bytes, context)?),
        },
        Structure::AttributeRemoteValue => Ok(RemoteBlock::verify(bytes, context)?),
        Structure::AccessControlList => Ok(attribute::posix_acl::PosixAcl::decode(bytes).map(drop)?),
        Structure::ParentPointer => Ok(ParentRecord::verify(bytes, context.geometry)?),
        Structure::Quota => Ok(quota::verify_record(bytes, context)?),
        Structure::QuotaBlock => Ok(quota::verify_block(bytes, context)?),
        Structure::RealtimeBitmap => {
            Ok(realtime::block::verify(bytes, realtime::block::BITMAP_MAGIC, context)?)
        }
        Structure::RealtimeSummary => {
            Ok(realtime::block::verify(bytes, realtime::block::SUMMARY_MAGIC, context)?)
        }
        Structure::RealtimeSuperblock => Ok(realtime::group_superblock::verify(bytes, context)?),
        Structure::FreeSpaceHeader => Ok(allocation_group::free_space_header::verify(bytes, context)?),
        Structure::InodeHeader => Ok(allocation_group::inode_header::verify(bytes, context)?),
        Structure::FreeList => Ok(allocation_group::free_list::verify(bytes, context)?),
        Structure::FreeSpaceByBlock => Ok(verify_btree::<ByBlock>(bytes, context)?),
        Structure::FreeSpaceByLength => Ok(verify_btree::<ByLength>(bytes, context)?),
        Structure::InodeIndex => Ok(verify_btree::<InodeIndex>(bytes, context)?),
        Structure::FreeInodeIndex => Ok(verify_btree::<FreeInodeIndex>(bytes, context)?),
        Structure::ReverseMap => Ok(verify_btree::<ReverseMap>(bytes, context)?),
        Structure::ReferenceCount => Ok(verify_btree::<ReferenceCount>(bytes, context)?),
        Structure::ExtentMap => Ok(verify_btree::<ExtentMap>(bytes, context)?),
        Structure::LogRecord => Ok(log::record::verify(bytes, context)?),
        _ => Ok(()),
    }
}

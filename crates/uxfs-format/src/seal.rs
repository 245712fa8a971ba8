//! Making changed metadata fit to be written: log sequence number and checksum.
//!
//! Bytes say by their magic number what they are, so that a block which has turned from one kind into another needs
//! no bookkeeping.

use crate::{
    allocation_group::{free_list, free_space_header, inode_header},
    attribute::remote,
    btree, checksum,
    convert::to_usize,
    directory,
    geometry::Geometry,
    inode,
    name_tree::header::magic_of,
    name_tree::node,
    structure::Structure,
    superblock,
    units::{Lsn, Sector},
};

/// Where structures of one kind keep checksum, log sequence number and uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamps {
    checksum_offset_bytes: u32,
    lsn_offset_bytes: u32,
    uuid_offset_bytes: u32,
}

const fn stamps(checksum_offset_bytes: u32, lsn_offset_bytes: u32, uuid_offset_bytes: u32) -> Stamps {
    Stamps { checksum_offset_bytes, lsn_offset_bytes, uuid_offset_bytes }
}

/// First byte of the number of the first child in an interior block of a tree of names.
const FIRST_CHILD_OFFSET_BYTES: usize = 68;

/// The structure of the bytes, by their magic number; inode clusters are recognised by their first inode. Interior blocks of
/// directories and of attributes look alike: the numbers of their children tell them apart.
pub fn structure_of(bytes: &[u8], geometry: &Geometry) -> Option<Structure> {
    let four = u32::from_be_bytes(*bytes.first_chunk()?);
    let structure = match four {
        superblock::MAGIC => Structure::Superblock,
        free_space_header::MAGIC => Structure::FreeSpaceHeader,
        inode_header::MAGIC => Structure::InodeHeader,
        free_list::MAGIC => Structure::FreeList,
        btree::free_space::BY_BLOCK_MAGIC => Structure::FreeSpaceByBlock,
        btree::free_space::BY_LENGTH_MAGIC => Structure::FreeSpaceByLength,
        btree::inode_index::MAGIC => Structure::InodeIndex,
        btree::inode_index::FREE_MAGIC => Structure::FreeInodeIndex,
        btree::reverse_map::MAGIC => Structure::ReverseMap,
        btree::reference_count::MAGIC => Structure::ReferenceCount,
        btree::extent_map::MAGIC => Structure::ExtentMap,
        directory::block::MAGIC => Structure::DirectoryBlock,
        directory::data::MAGIC => Structure::DirectoryData,
        directory::free_index::MAGIC => Structure::DirectoryFreeIndex,
        remote::MAGIC => Structure::AttributeRemoteValue,
        inode::symlink::MAGIC => Structure::Symlink,
        _ if four >> 16 == u32::from(inode::core::MAGIC) => Structure::InodeCluster,
        _ => return tree_of_names(bytes, geometry),
    };
    Some(structure)
}

fn tree_of_names(bytes: &[u8], geometry: &Geometry) -> Option<Structure> {
    Some(match magic_of(bytes)? {
        directory::leaf::SINGLE_MAGIC => Structure::DirectoryLeaf,
        directory::leaf::NODE_MAGIC => Structure::DirectoryLeafNode,
        crate::attribute::leaf::MAGIC => Structure::AttributeLeaf,
        node::MAGIC => {
            let child = u32::from_be_bytes(*bytes.get(FIRST_CHILD_OFFSET_BYTES..)?.first_chunk()?);
            let is_directory = u64::from(child) >= geometry.directory_leaf_start().get();
            if is_directory { Structure::DirectoryNode } else { Structure::AttributeNode }
        }
        _ => return None,
    })
}

fn stamps_of(structure: Structure) -> Option<Stamps> {
    Some(match structure {
        Structure::Superblock => stamps(224, 240, 32),
        Structure::FreeSpaceHeader => stamps(216, 208, 64),
        Structure::InodeHeader => stamps(312, 320, 296),
        Structure::FreeList => stamps(32, 24, 8),
        Structure::FreeSpaceByBlock
        | Structure::FreeSpaceByLength
        | Structure::InodeIndex
        | Structure::FreeInodeIndex
        | Structure::ReverseMap
        | Structure::ReferenceCount => stamps(52, 24, 32),
        Structure::ExtentMap => stamps(64, 32, 40),
        Structure::DirectoryBlock | Structure::DirectoryData | Structure::DirectoryFreeIndex => {
            stamps(4, 16, 24)
        }
        Structure::DirectoryLeaf
        | Structure::DirectoryLeafNode
        | Structure::DirectoryNode
        | Structure::AttributeLeaf
        | Structure::AttributeNode => stamps(12, 24, 32),
        Structure::AttributeRemoteValue | Structure::Symlink => stamps(12, 48, 16),
        Structure::Inode => stamps(100, 112, 160),
        _ => return None,
    })
}

/// Where structures of one kind keep their checksum; `None` for those without one of their own.
pub fn checksum_offset_of(structure: Structure) -> Option<u32> {
    stamps_of(structure).map(|stamps| stamps.checksum_offset_bytes)
}

/// The sector at which a block of this file system says that it lies. `None` for group headers and inodes, which say it in other
/// ways, and for anything else.
pub fn own_sector(bytes: &[u8], geometry: &Geometry) -> Option<Sector> {
    let structure = structure_of(bytes, geometry)?;
    let offset_bytes: u32 = match structure {
        Structure::FreeSpaceByBlock
        | Structure::FreeSpaceByLength
        | Structure::InodeIndex
        | Structure::FreeInodeIndex
        | Structure::ReverseMap
        | Structure::ReferenceCount
        | Structure::DirectoryLeaf
        | Structure::DirectoryLeafNode
        | Structure::DirectoryNode
        | Structure::AttributeLeaf
        | Structure::AttributeNode => 16,
        Structure::ExtentMap => 24,
        Structure::DirectoryBlock | Structure::DirectoryData | Structure::DirectoryFreeIndex => 8,
        Structure::AttributeRemoteValue | Structure::Symlink => 40,
        _ => return None,
    };
    let uuid_offset_bytes = stamps_of(structure)?.uuid_offset_bytes;
    let uuid = bytes.get(to_usize(uuid_offset_bytes)..)?.first_chunk::<16>()?;
    let sector = bytes.get(to_usize(offset_bytes)..)?.first_chunk::<8>()?;
    (*uuid == geometry.metadata_uuid.0).then(|| Sector::new(u64::from_be_bytes(*sector)))
}

/// The log sequence number of a block that says itself what it is and that it belongs to this file system: which changes
/// are in it already. `None` for inodes and for remote values, whose buffers carry no such number, and for anything else.
#[doc(alias = "xlog_recover_get_buf_lsn")]
pub fn lsn_of(bytes: &[u8], geometry: &Geometry) -> Option<Lsn> {
    let structure = structure_of(bytes, geometry)?;
    if matches!(structure, Structure::InodeCluster | Structure::AttributeRemoteValue) {
        return None;
    }
    let stamps = stamps_of(structure)?;
    let uuid = bytes.get(to_usize(stamps.uuid_offset_bytes)..)?.first_chunk::<16>()?;
    // The primary superblock says the uuid that users know first.
    let is_ours = match structure {
        Structure::Superblock => *uuid == geometry.uuid.0,
        _ => *uuid == geometry.metadata_uuid.0,
    };
    let lsn = bytes.get(to_usize(stamps.lsn_offset_bytes)..)?.first_chunk::<8>()?;
    is_ours.then(|| Lsn::new(u64::from_be_bytes(*lsn)))
}

/// A log sequence number in metadata of kind `structure` that lies ahead of `head`, where the log ends; of a cluster that of any
/// inode whose checksum is right. `None` where nothing is ahead.
#[doc(alias = "xlog_valid_lsn")]
pub fn lsn_ahead_of(head: Lsn, structure: Structure, bytes: &[u8], geometry: &Geometry) -> Option<Lsn> {
    let is_ahead = |lsn: &Lsn| *lsn > head && *lsn != Lsn::NULL;
    if structure != Structure::InodeCluster {
        return lsn_of(bytes, geometry).filter(is_ahead);
    }
    let core_of = <inode::InodeCore as crate::field_table::OnDisk>::prefix_of;
    let inodes = bytes.chunks_exact(geometry.inode_size().max(1));
    let mut inodes = inodes.filter_map(|inode| Some((inode, core_of(inode)?)));
    let is_inode = |(inode, core): &(&[u8], &inode::InodeCore)| {
        is_ahead(&Lsn::new(core.lsn.get()))
            && core.magic.get() == inode::core::MAGIC
            && core.uuid == geometry.metadata_uuid
            && checksum::check(inode, inode::core::CHECKSUM_OFFSET_BYTES).is_ok()
    };
    inodes.find(is_inode).map(|(_, core)| Lsn::new(core.lsn.get()))
}

/// Stamps `lsn` (where there is one) and the checksum into changed metadata; every inode of a cluster, every block of a
/// remote value. Gives what the bytes are, or `None` where no magic number says so.
pub fn seal(bytes: &mut [u8], lsn: Option<Lsn>, geometry: &Geometry) -> Option<Structure> {
    let structure = structure_of(bytes, geometry)?;
    let (part_bytes, part) = match structure {
        Structure::InodeCluster => (geometry.inode_size(), Structure::Inode),
        Structure::AttributeRemoteValue => (geometry.block_size(), structure),
        _ => (bytes.len(), structure),
    };
    let stamps = stamps_of(part)?;
    // Remote values are not logged and always carry the same number, which they got when they were made.
    let lsn = lsn.filter(|_| structure != Structure::AttributeRemoteValue);
    for part in bytes.chunks_exact_mut(part_bytes.max(1)) {
        if let Some(lsn) = lsn {
            let offset = to_usize(stamps.lsn_offset_bytes);
            if let Some(field) = part.get_mut(offset..).and_then(<[u8]>::first_chunk_mut) {
                *field = lsn.get().to_be_bytes();
            }
        }
        checksum::seal(part, stamps.checksum_offset_bytes);
    }
    Some(structure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        allocation_group::{free_space_header::FreeSpaceHeader, inode_header::InodeHeader},
        btree::block_header::{LongBlockHeader, ShortBlockHeader},
        field_table::{Field, OnDisk},
        inode::InodeCore,
        superblock::Superblock,
    };

    /// The numbers here are those of the structures' own tables.
    #[test]
    fn stamps_lie_where_the_tables_say() {
        let tables: [(Structure, &[Field]); 6] = [
            (Structure::Superblock, Superblock::FIELDS),
            (Structure::FreeSpaceHeader, FreeSpaceHeader::FIELDS),
            (Structure::InodeHeader, InodeHeader::FIELDS),
            (Structure::ReverseMap, ShortBlockHeader::FIELDS),
            (Structure::ExtentMap, LongBlockHeader::FIELDS),
            (Structure::Inode, InodeCore::FIELDS),
        ];
        for (structure, fields) in tables {
            let at = |name: &str| {
                let is_named = |field: &&Field| field.name.rsplit('.').next() == Some(name);
                fields.iter().find(is_named).map(|field| field.bit_offset / 8)
            };
            let stamps = stamps_of(structure).unwrap();
            assert_eq!(Some(stamps.lsn_offset_bytes), at("lsn"), "{structure:?}");
            assert_eq!(Some(stamps.checksum_offset_bytes), at("crc"), "{structure:?}");
            assert_eq!(Some(stamps.uuid_offset_bytes), at("uuid"), "{structure:?}");
        }
    }
}

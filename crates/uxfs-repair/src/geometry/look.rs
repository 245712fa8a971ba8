//! What begins at a sector: structures whose checksum is right for one of the sizes that they may have.

use std::ops::RangeInclusive;

use uxfs_format::{
    allocation_group::{
        free_list::{self, FreeListHeader},
        free_space_header::{self, FreeSpaceHeader},
        inode_header::{self, InodeHeader},
    },
    attribute::{self, remote::RemoteHeader},
    btree::{
        self,
        block_header::{BlockHeader as _, LongBlockHeader, ShortBlockHeader},
    },
    checksum, directory,
    fault::Structure as Kind,
    field_table::OnDisk,
    inode::{InodeCore, core},
    log::record::RecordHeader,
    name_tree::{header::BlockHeader, node},
    seal::checksum_offset_of,
    units::{SECTOR_SIZE_BYTES, Uuid},
};

use super::survey::Looked;

/// A structure with a right checksum. Of records of the log the header alone was looked at.
pub(crate) struct Structure<'s> {
    /// Where it begins on the device.
    pub offset_bytes: u64,
    pub kind: Kind,
    pub uuid: Uuid,
    /// All of it.
    pub bytes: &'s [u8],
}

/// log2 of the sizes that sectors, blocks and inodes may have.
const SECTORS: RangeInclusive<u32> = 9..=15;
const BLOCKS: RangeInclusive<u32> = 10..=16;
const INODES: RangeInclusive<u32> = 9..=11;

/// What a sector's first bytes claim.
struct Claim {
    kind: Kind,
    uuid: Uuid,
    /// Where it says that it lies; `None` where that is said in another way.
    sector: Option<u64>,
    sizes: RangeInclusive<u32>,
}

/// Looks at what begins at `offset_bytes`, where `bytes` lie. Without `may_compute` no checksums are computed.
pub(super) fn look(
    offset_bytes: u64,
    bytes: &[u8],
    may_compute: bool,
    found: &mut dyn FnMut(&Structure<'_>),
) -> Looked {
    if let Ok(record) = RecordHeader::parse(bytes) {
        let is_sound = record.verify_format().is_ok() && record.cycle.get() == record.lsn().cycle();
        if is_sound && record.header_blocks() <= 8 {
            found(&Structure { offset_bytes, kind: Kind::LogRecord, uuid: record.uuid, bytes });
        }
        return Looked::Nothing;
    }
    let Some(claim) = claim(bytes) else { return Looked::Nothing };
    if claim.sector.is_some_and(|sector| sector.checked_mul(SECTOR_SIZE_BYTES) != Some(offset_bytes)) {
        return Looked::Nothing;
    }
    let Some(checksum_offset_bytes) = checksum_offset_of(claim.kind).filter(|_| may_compute) else {
        return Looked::Nothing;
    };
    for size_log in claim.sizes {
        let Some(bytes) = bytes.get(..1 << size_log) else { break };
        if checksum::check(bytes, checksum_offset_bytes).is_ok() {
            let Claim { kind, uuid, .. } = claim;
            found(&Structure { offset_bytes, kind, uuid, bytes });
            return Looked::Bytes(bytes.len());
        }
    }
    Looked::Wrong
}

fn claim(bytes: &[u8]) -> Option<Claim> {
    let four = u32::from_be_bytes(*bytes.first_chunk()?);
    let kind = match four {
        free_space_header::MAGIC => {
            return Some(header(Kind::FreeSpaceHeader, FreeSpaceHeader::prefix_of(bytes)?.uuid));
        }
        inode_header::MAGIC => return Some(header(Kind::InodeHeader, InodeHeader::prefix_of(bytes)?.uuid)),
        free_list::MAGIC => return Some(header(Kind::FreeList, FreeListHeader::prefix_of(bytes)?.uuid)),
        btree::free_space::BY_BLOCK_MAGIC => Kind::FreeSpaceByBlock,
        btree::free_space::BY_LENGTH_MAGIC => Kind::FreeSpaceByLength,
        btree::inode_index::MAGIC => Kind::InodeIndex,
        btree::inode_index::FREE_MAGIC => Kind::FreeInodeIndex,
        btree::reverse_map::MAGIC => Kind::ReverseMap,
        btree::reference_count::MAGIC => Kind::ReferenceCount,
        _ => return claim_of_inode(four, bytes),
    };
    let header = ShortBlockHeader::prefix_of(bytes)?;
    Some(block(kind, header.uuid, header.sector().get()))
}

/// Inodes, and blocks that belong to one.
fn claim_of_inode(four: u32, bytes: &[u8]) -> Option<Claim> {
    match four {
        btree::extent_map::MAGIC => {
            let header = LongBlockHeader::prefix_of(bytes)?;
            Some(block(Kind::ExtentMap, header.uuid, header.sector().get()))
        }
        directory::block::MAGIC => directory_block(Kind::DirectoryBlock, bytes),
        directory::data::MAGIC => directory_block(Kind::DirectoryData, bytes),
        directory::free_index::MAGIC => directory_block(Kind::DirectoryFreeIndex, bytes),
        attribute::remote::MAGIC => {
            let header = RemoteHeader::prefix_of(bytes)?;
            Some(block(Kind::AttributeRemoteValue, header.uuid, header.sector.get()))
        }
        _ if four >> 16 == u32::from(core::MAGIC) => {
            let inode = InodeCore::prefix_of(bytes)?;
            let is_right = inode.version == core::VERSION;
            is_right.then_some(Claim { kind: Kind::Inode, uuid: inode.uuid, sector: None, sizes: INODES })
        }
        _ => claim_of_names(bytes),
    }
}

fn claim_of_names(bytes: &[u8]) -> Option<Claim> {
    let header = BlockHeader::prefix_of(bytes)?;
    let kind = match header.magic.get() {
        directory::leaf::SINGLE_MAGIC => Kind::DirectoryLeaf,
        directory::leaf::NODE_MAGIC => Kind::DirectoryLeafNode,
        attribute::leaf::MAGIC => Kind::AttributeLeaf,
        // One of a directory has the size of its blocks, and one of attributes that of all blocks.
        node::MAGIC => Kind::DirectoryNode,
        _ => return None,
    };
    Some(block(kind, header.uuid, header.sector.get()))
}

fn directory_block(kind: Kind, bytes: &[u8]) -> Option<Claim> {
    let header = directory::header::DirectoryBlockHeader::prefix_of(bytes)?;
    Some(block(kind, header.uuid, header.sector.get()))
}

fn header(kind: Kind, uuid: Uuid) -> Claim {
    Claim { kind, uuid, sector: None, sizes: SECTORS }
}

fn block(kind: Kind, uuid: Uuid, sector: u64) -> Claim {
    Claim { kind, uuid, sector: Some(sector), sizes: BLOCKS }
}

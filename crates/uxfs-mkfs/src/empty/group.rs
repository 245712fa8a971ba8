//! Headers and tree roots of one group.

use uxfs_format::{
    allocation_group::{
        free_list::{self, FreeListHeader},
        free_space_header::{self, FreeSpaceHeader},
        inode_header::{self, InodeHeader},
    },
    btree::{
        BtreeKind,
        block_header::{BlockHeader, ShortBlockHeader},
        free_space::{ByBlock, ByLength, FreeExtent, FreeSpaceRecord},
        inode_index::{FreeInodeIndex, FullInodeIndexRecord, InodeIndex, InodeIndexRecord},
        reference_count::ReferenceCount,
        reverse_map::{ReverseMap, ReverseMapRecord},
    },
    field_table::OnDisk,
    units::{AgBlock, Sector},
};
use zerocopy::{
    FromZeros,
    big_endian::{U16, U32, U64},
};

use super::{Batch, FormatError, Image, bytes, inodes, superblocks};
use crate::layout::{GroupSpace, Run};

/// Inodes in a chunk.
const CHUNK_INODES: u32 = 64;

/// Writes headers and roots. The ruling superblock is left to others.
pub fn write(image: &Image<'_>, group: u32, batch: &mut Batch<'_>) -> Result<(), FormatError> {
    let sector_bytes = image.layout.sizes.sector_bytes as usize;
    let space = image.layout.space(group);
    let mut headers = vec![0; sector_bytes * 4];
    let (superblock, rest) = headers.split_at_mut(sector_bytes);
    let (free_space, rest) = rest.split_at_mut(sector_bytes);
    let (inode, free_list) = rest.split_at_mut(sector_bytes);
    superblock.copy_from_slice(&bytes::sealed_sector(&superblocks::copy(image, group), sector_bytes));
    free_space_header(image, group, &space, free_space);
    inode_header(image, group, inode);
    free_list_sector(image, group, &space, free_list);
    if group == 0 {
        // The first sector is written already.
        batch.push(sector_bytes as u64, headers.split_off(sector_bytes))?;
    } else {
        batch.push(image.byte_of(group, 0), headers)?;
    }
    batch.push(image.byte_of(group, image.layout.tables.by_block), roots(image, group, &space))
}

fn free_space_header(image: &Image<'_>, group: u32, space: &GroupSpace, sector: &mut [u8]) {
    let tables = &image.layout.tables;
    let mut header = FreeSpaceHeader::new_zeroed();
    header.magic = U32::new(free_space_header::MAGIC);
    header.version = U32::new(free_space_header::VERSION);
    header.group = U32::new(group);
    header.length_blocks = U32::new(image.layout.group_blocks(group));
    header.by_block_root = U32::new(tables.by_block);
    header.by_length_root = U32::new(tables.by_length);
    header.by_block_levels = U32::new(1);
    header.by_length_levels = U32::new(1);
    if let Some(root) = tables.reverse_map {
        header.reverse_map_root = U32::new(root);
        header.reverse_map_levels = U32::new(1);
        header.reverse_map_blocks = U32::new(1);
    }
    if let Some(root) = tables.reference_count {
        header.reference_count_root = U32::new(root);
        header.reference_count_levels = U32::new(1);
        header.reference_count_blocks = U32::new(1);
    }
    // The ring begins with slot 1, where the first block put into an empty one goes.
    header.free_list_first = U32::new(1);
    header.free_list_last = U32::new(space.free_list.len() as u32);
    header.free_list_count = U32::new(space.free_list.len() as u32);
    header.free_blocks = U32::new(space.free_blocks());
    header.longest_blocks = U32::new(space.free.iter().map(|run| run.length).max().unwrap_or(0));
    header.uuid = image.identity.uuid;
    bytes::put(sector, 0, &header);
    bytes::seal(sector, free_space_header::CHECKSUM_OFFSET_BYTES);
}

fn inode_header(image: &Image<'_>, group: u32, sector: &mut [u8]) {
    let (tables, features) = (&image.layout.tables, &image.layout.features);
    let null = U32::new(u32::MAX);
    let mut header = InodeHeader::new_zeroed();
    header.magic = U32::new(inode_header::MAGIC);
    header.version = U32::new(inode_header::VERSION);
    header.group = U32::new(group);
    header.length_blocks = U32::new(image.layout.group_blocks(group));
    header.root = U32::new(tables.inode_index);
    header.levels = U32::new(1);
    header.newest_inode = null;
    header.directory_inode = null;
    header.unlinked = [null; 64];
    header.uuid = image.identity.uuid;
    if group == 0 {
        let count = image.layout.sizes.inodes_at_once();
        header.count = U32::new(count);
        header.free_count = U32::new(count - inodes::USED);
        header.newest_inode = U32::new(image.layout.root_inode());
    }
    if let Some(root) = tables.free_inode_index {
        header.free_root = U32::new(root);
        header.free_levels = U32::new(1);
    }
    if features.inode_btree_counts {
        header.blocks = U32::new(1);
        header.free_blocks = U32::new(1);
    }
    bytes::put(sector, 0, &header);
    bytes::seal(sector, inode_header::CHECKSUM_OFFSET_BYTES);
}

fn free_list_sector(image: &Image<'_>, group: u32, space: &GroupSpace, sector: &mut [u8]) {
    let mut header = FreeListHeader::new_zeroed();
    header.magic = U32::new(free_list::MAGIC);
    header.group = U32::new(group);
    header.uuid = image.identity.uuid;
    let slots = bytes::put(sector, 0, &header);
    sector[slots..].fill(0xff);
    for (index, block) in space.free_list.iter().enumerate() {
        bytes::put(sector, slots + (index + 1) * 4, &free_list::FreeListSlot { block: U32::new(*block) });
    }
    bytes::seal(sector, free_list::CHECKSUM_OFFSET_BYTES);
}

/// All roots, which are neighbours.
fn roots(image: &Image<'_>, group: u32, space: &GroupSpace) -> Vec<u8> {
    let tables = &image.layout.tables;
    let mut all = Roots {
        image,
        group,
        first_block: tables.by_block,
        bytes: vec![0; (tables.first_free_block - tables.by_block) as usize * image.block_bytes()],
    };
    let free = |run: &Run| -> FreeSpaceRecord {
        FreeExtent { start: AgBlock::new(run.start), length_blocks: run.length }.into()
    };
    let by_block: Vec<_> = space.free.iter().map(free).collect();
    let mut by_length = by_block.clone();
    by_length.sort_by_key(ByLength::position_of_record);
    all.put::<ByBlock, _>(tables.by_block, &by_block);
    all.put::<ByLength, _>(tables.by_length, &by_length);
    all.put_inode_index::<InodeIndex>(tables.inode_index);
    if let Some(block) = tables.free_inode_index {
        all.put_inode_index::<FreeInodeIndex>(block);
    }
    if let Some(block) = tables.reverse_map {
        let mappings: Vec<_> = space
            .used
            .iter()
            .map(|(run, owner)| ReverseMapRecord {
                start: U32::new(run.start),
                length_blocks: U32::new(run.length),
                owner: U64::new(owner.raw()),
                offset: U64::new(0),
            })
            .collect();
        all.put::<ReverseMap, _>(block, &mappings);
    }
    if let Some(block) = tables.reference_count {
        all.put::<ReferenceCount, FreeSpaceRecord>(block, &[]);
    }
    all.bytes
}

/// The blocks of all roots.
#[derive(Debug)]
struct Roots<'a> {
    image: &'a Image<'a>,
    group: u32,
    first_block: u32,
    bytes: Vec<u8>,
}

impl Roots<'_> {
    /// A root that is a leaf with `records`.
    fn put<K, R>(&mut self, block: u32, records: &[R])
    where
        K: BtreeKind<Header = ShortBlockHeader>,
        R: OnDisk,
    {
        let block_bytes = self.image.block_bytes();
        let start = (block - self.first_block) as usize * block_bytes;
        let bytes = &mut self.bytes[start..start + block_bytes];
        let sector = Sector::new(self.image.byte_of(self.group, block) / 512);
        let mut header = ShortBlockHeader::new_zeroed();
        header.magic = U32::new(K::MAGIC);
        header.record_count = U16::new(records.len() as u16); // A handful.
        header.left_sibling = U32::new(u32::MAX);
        header.right_sibling = U32::new(u32::MAX);
        header.sector = U64::new(sector.get());
        header.uuid = self.image.identity.uuid;
        header.owner = U32::new(self.group);
        let mut at = bytes::put(bytes, 0, &header);
        for record in records {
            at = bytes::put(bytes, at, record);
        }
        bytes::seal(bytes, ShortBlockHeader::CHECKSUM_OFFSET_BYTES);
    }

    /// The index of the first chunks in group 0, an empty one elsewhere.
    fn put_inode_index<K: BtreeKind<Header = ShortBlockHeader>>(&mut self, block: u32) {
        let count = if self.group == 0 { self.image.layout.sizes.inodes_at_once() } else { 0 };
        let first = self.image.layout.root_inode();
        let chunks = (0..count).step_by(CHUNK_INODES as usize).map(|index| {
            let used = inodes::USED.saturating_sub(index);
            (U32::new(first + index), CHUNK_INODES - used, U64::new(u64::MAX << used))
        });
        if self.image.layout.features.sparse_inodes {
            let record = |(start, free_count, free)| InodeIndexRecord {
                start,
                hole_mask: U16::new(0),
                count: CHUNK_INODES as u8,
                free_count: free_count as u8, // At most 64.
                free,
            };
            self.put::<K, _>(block, &chunks.map(record).collect::<Vec<_>>());
        } else {
            let record = |(start, free_count, free)| FullInodeIndexRecord {
                start,
                free_count: U32::new(free_count),
                free,
            };
            self.put::<K, _>(block, &chunks.map(record).collect::<Vec<_>>());
        }
    }
}

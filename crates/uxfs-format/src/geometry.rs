//! Sizes and address conversions of one file system, taken from its verified superblock.
//!
//! All conversions between kinds of number go through [`Geometry`]. Those that take numbers from disk check them
//! against the file system's bounds and return `None` when they lie outside.

use crate::{
    convert::{low_u32, to_usize},
    features::FeatureWords,
    superblock::Superblock,
    units::{AgBlock, AgInode, AgNumber, FileBlock, FsBlock, InodeNumber, SECTOR_SIZE_BYTES, Sector, Uuid},
};

/// Bytes of each address space of a directory: data at 0, leaf at 32 GiB, free index at 64 GiB.
#[doc(alias = "XFS_DIR2_SPACE_SIZE")]
pub const DIRECTORY_SPACE_BYTES: u64 = 1 << 35;
/// Inodes in a chunk, the unit of the inode index.
#[doc(alias = "XFS_INODES_PER_CHUNK")]
pub const INODES_PER_CHUNK: u32 = 64;
/// The fixed part of a version 3 inode.
pub const INODE_CORE_SIZE_BYTES: u32 = 176;

/// Where an inode lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeLocation {
    /// Its group.
    pub group: AgNumber,
    /// The block in that group.
    pub block: AgBlock,
    /// Byte in the block.
    pub offset_bytes: u32,
}

/// The sizes of one file system. Fields are what other code divides and shifts by; all are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// Bytes in a block, 1024 to 65536.
    pub block_size_bytes: u32,
    /// log2 of the block size.
    pub block_log: u32,
    /// Bytes in a sector of this file system (group headers are one sector each).
    pub sector_size_bytes: u32,
    /// Bytes in an inode.
    pub inode_size_bytes: u32,
    /// log2 of the inode size.
    pub inode_log: u32,
    /// log2 of inodes per block.
    pub inodes_per_block_log: u32,
    /// Blocks in a full allocation group.
    pub ag_blocks: u32,
    /// log2 of `ag_blocks`, rounded up.
    pub ag_block_log: u32,
    /// Allocation groups.
    pub ag_count: u32,
    /// Blocks in the data section.
    pub data_blocks: u64,
    /// Bytes in a directory block, at most 65536.
    pub directory_block_size_bytes: u32,
    /// log2 of directory block size / block size.
    pub directory_block_log: u32,
    /// Alignment of inode chunks in blocks.
    pub inode_alignment_blocks: u32,
    /// Blocks in the realtime section, 0 for none.
    pub realtime_blocks: u64,
    /// Blocks in a realtime extent.
    pub realtime_extent_size_blocks: u32,
    /// Realtime extents in a realtime group.
    pub realtime_group_extents: u32,
    /// First block of the internal log, or `None` for an external one.
    pub log_start: Option<FsBlock>,
    /// Blocks in the log.
    pub log_blocks: u32,
    /// Records in the log are multiples of so many bytes: its stripe unit, its sector, or 512.
    pub log_unit_bytes: u32,
    /// Root directory.
    pub root_inode: InodeNumber,
    /// The uuid in every piece of metadata.
    pub metadata_uuid: Uuid,
    /// The user-visible uuid, which the log carries.
    pub uuid: Uuid,
    /// Feature bits.
    pub features: FeatureWords,
}

impl Geometry {
    /// Takes the sizes from a superblock that [`Superblock::verify`] accepted.
    pub fn new(superblock: &Superblock) -> Self {
        let directory_block_log = u32::from(superblock.directory_block_log);
        let block_size_bytes = superblock.block_size_bytes.get();
        let log_start = superblock.log_start.get();
        Self {
            block_size_bytes,
            block_log: superblock.block_log.into(),
            sector_size_bytes: superblock.sector_size_bytes.get().into(),
            inode_size_bytes: superblock.inode_size_bytes.get().into(),
            inode_log: superblock.inode_log.into(),
            inodes_per_block_log: superblock.inodes_per_block_log.into(),
            ag_blocks: superblock.ag_blocks.get(),
            ag_block_log: superblock.ag_block_log.into(),
            ag_count: superblock.ag_count.get(),
            data_blocks: superblock.data_blocks.get(),
            directory_block_size_bytes: block_size_bytes.wrapping_shl(directory_block_log),
            directory_block_log,
            inode_alignment_blocks: superblock.inode_alignment_blocks.get(),
            realtime_blocks: superblock.realtime_blocks.get(),
            realtime_extent_size_blocks: superblock.realtime_extent_size_blocks.get(),
            realtime_group_extents: superblock.realtime_group_extents.get(),
            log_start: (log_start != 0).then(|| FsBlock::new(log_start)),
            log_blocks: superblock.log_blocks.get(),
            log_unit_bytes: superblock
                .log_stripe_unit_bytes
                .get()
                .max(superblock.log_sector_size_bytes.get().into())
                .max(512),
            root_inode: InodeNumber::new(superblock.root_inode.get()),
            metadata_uuid: superblock.effective_metadata_uuid(),
            uuid: superblock.uuid,
            features: superblock.feature_words(),
        }
    }

    /// Whether another geometry has the same fixed sizes, places and uuids. A file system that is in use can grow, and get
    /// features; nothing else changes.
    pub fn has_fixed_fields_of(&self, other: &Self) -> bool {
        let grown = Self {
            ag_count: self.ag_count,
            data_blocks: self.data_blocks,
            realtime_blocks: self.realtime_blocks,
            realtime_extent_size_blocks: self.realtime_extent_size_blocks,
            realtime_group_extents: self.realtime_group_extents,
            features: self.features,
            ..other.clone()
        };
        *self == grown
    }

    /// Bytes in a block, as a slice length.
    #[inline]
    pub const fn block_size(&self) -> usize {
        to_usize(self.block_size_bytes)
    }

    /// Bytes in an inode, as a slice length.
    #[inline]
    pub const fn inode_size(&self) -> usize {
        to_usize(self.inode_size_bytes)
    }

    /// 512-byte units in a block.
    #[inline]
    pub const fn sectors_per_block(&self) -> u32 {
        self.block_size_bytes >> 9
    }

    /// 512-byte units in one sector of this file system.
    #[inline]
    pub const fn sectors_per_header(&self) -> u32 {
        self.sector_size_bytes >> 9
    }

    /// Blocks in a directory block.
    #[inline]
    pub fn blocks_per_directory_block(&self) -> u32 {
        1u32.wrapping_shl(self.directory_block_log)
    }

    /// Inodes in a block.
    #[inline]
    pub fn inodes_per_block(&self) -> u32 {
        1u32.wrapping_shl(self.inodes_per_block_log)
    }

    /// Blocks of a whole inode chunk, at least 1.
    #[inline]
    pub fn blocks_per_inode_chunk(&self) -> u32 {
        INODES_PER_CHUNK.wrapping_shr(self.inodes_per_block_log).max(1)
    }

    /// Bytes that the forks of an inode share.
    #[inline]
    pub const fn literal_size_bytes(&self) -> u32 {
        self.inode_size_bytes.wrapping_sub(INODE_CORE_SIZE_BYTES)
    }

    /// Size of the data section in bytes.
    #[inline]
    pub const fn data_size_bytes(&self) -> u64 {
        self.data_blocks.wrapping_mul(self.block_size_bytes_long())
    }

    #[allow(clippy::as_conversions)] // Widening in a const fn.
    const fn block_size_bytes_long(&self) -> u64 {
        self.block_size_bytes as u64
    }

    /// All group numbers.
    pub fn groups(&self) -> impl DoubleEndedIterator<Item = AgNumber> + ExactSizeIterator + use<> {
        (0..self.ag_count).map(AgNumber::new)
    }

    /// Blocks in `group`, or `None` where there is no such group.
    #[inline]
    pub fn group_length_blocks(&self, group: AgNumber) -> Option<u32> {
        let last = self.ag_count.checked_sub(1)?;
        if group.get() < last {
            return Some(self.ag_blocks);
        }
        if group.get() > last {
            return None;
        }
        let before = u64::from(last).checked_mul(self.ag_blocks.into())?;
        u32::try_from(self.data_blocks.checked_sub(before)?).ok()
    }

    /// Joins group and block to the sparse block number, if the block exists.
    #[inline]
    pub fn fs_block(&self, group: AgNumber, block: AgBlock) -> Option<FsBlock> {
        if block.get() >= self.group_length_blocks(group)? {
            return None;
        }
        Some(FsBlock::new(u64::from(group.get()).wrapping_shl(self.ag_block_log) | u64::from(block.get())))
    }

    /// Splits a sparse block number, if the block exists.
    #[inline]
    pub fn split_fs_block(&self, block: FsBlock) -> Option<(AgNumber, AgBlock)> {
        let group = AgNumber::new(u32::try_from(block.get().wrapping_shr(self.ag_block_log)).ok()?);
        let in_group = AgBlock::new(low_u32(block.get() & self.ag_block_mask()));
        (in_group.get() < self.group_length_blocks(group)?).then_some((group, in_group))
    }

    #[inline]
    fn ag_block_mask(&self) -> u64 {
        1u64.wrapping_shl(self.ag_block_log).wrapping_sub(1)
    }

    /// Whether `length_blocks` (at least 1) blocks from `start` lie within one existing group.
    #[inline]
    pub fn contains_extent(&self, start: FsBlock, length_blocks: u64) -> bool {
        let Some((group, first)) = self.split_fs_block(start) else { return false };
        let Some(group_length) = self.group_length_blocks(group) else { return false };
        length_blocks > 0 && length_blocks <= u64::from(group_length.saturating_sub(first.get()))
    }

    /// First sector of a block, if the block exists.
    #[inline]
    pub fn sector_of_block(&self, block: FsBlock) -> Option<Sector> {
        let (group, in_group) = self.split_fs_block(block)?;
        self.sector_of_group_block(group, in_group)
    }

    /// First sector of a block of a group, if the block exists.
    #[inline]
    pub fn sector_of_group_block(&self, group: AgNumber, block: AgBlock) -> Option<Sector> {
        if block.get() >= self.group_length_blocks(group)? {
            return None;
        }
        let linear =
            u64::from(group.get()).checked_mul(self.ag_blocks.into())?.checked_add(block.get().into())?;
        linear.checked_mul(self.sectors_per_block().into()).map(Sector::new)
    }

    /// Sector of a group's header: 0 superblock, 1 AGF, 2 AGI, 3 AGFL.
    #[inline]
    pub fn sector_of_group_header(&self, group: AgNumber, index: u32) -> Option<Sector> {
        let start = self.sector_of_group_block(group, AgBlock::new(0))?;
        start.checked_add(u64::from(index).checked_mul(self.sectors_per_header().into())?)
    }

    /// The group and block that a sector lies in, and the byte within that block, if it lies in the data section.
    pub fn block_of_sector(&self, sector: Sector) -> Option<(AgNumber, AgBlock, u32)> {
        let byte = sector.get().checked_mul(SECTOR_SIZE_BYTES)?;
        let linear = byte.wrapping_shr(self.block_log);
        let offset = low_u32(byte) & self.block_size_bytes.wrapping_sub(1);
        if linear >= self.data_blocks {
            return None;
        }
        let group = linear.checked_div(self.ag_blocks.into())?;
        let block = linear.checked_rem(self.ag_blocks.into())?;
        Some((AgNumber::new(u32::try_from(group).ok()?), AgBlock::new(low_u32(block)), offset))
    }

    /// Byte of the device at which a sector begins.
    #[inline]
    pub const fn byte_of_sector(sector: Sector) -> u64 {
        sector.get().wrapping_mul(SECTOR_SIZE_BYTES)
    }

    /// Joins group and inode-in-group to the inode number. Does not check bounds.
    #[inline]
    pub fn inode_number(&self, group: AgNumber, inode: AgInode) -> InodeNumber {
        let shift = self.ag_block_log.wrapping_add(self.inodes_per_block_log);
        InodeNumber::new(u64::from(group.get()).wrapping_shl(shift) | u64::from(inode.get()))
    }

    /// Splits an inode number. Does not check bounds beyond what fits the types.
    #[inline]
    pub fn split_inode_number(&self, inode: InodeNumber) -> Option<(AgNumber, AgInode)> {
        let shift = self.ag_block_log.wrapping_add(self.inodes_per_block_log);
        let group = u32::try_from(inode.get().wrapping_shr(shift)).ok()?;
        let mask = 1u64.wrapping_shl(shift).wrapping_sub(1);
        let in_group = u32::try_from(inode.get() & mask).ok()?;
        Some((AgNumber::new(group), AgInode::new(in_group)))
    }

    /// Where an inode lies, if its number can name one: within a group and behind the group's headers.
    #[inline]
    pub fn inode_place(&self, inode: InodeNumber) -> Option<InodeLocation> {
        let (group, in_group) = self.split_inode_number(inode)?;
        let block = in_group.get().wrapping_shr(self.inodes_per_block_log);
        let index = in_group.get() & self.inodes_per_block().wrapping_sub(1);
        let header_blocks = self.group_header_blocks();
        if block < header_blocks || block >= self.group_length_blocks(group)? {
            return None;
        }
        Some(InodeLocation {
            group,
            block: AgBlock::new(block),
            offset_bytes: index.wrapping_shl(self.inode_log),
        })
    }

    /// Whether `inode` may be the number of an inode in `group`: between the first and the last block at which clusters are aligned,
    /// behind the headers.
    #[doc(alias = "xfs_verify_agino")]
    #[inline]
    pub fn group_may_hold_inode(&self, group: AgNumber, inode: AgInode) -> bool {
        let align = self.inode_cluster_alignment_blocks();
        let place = self.inode_place(self.inode_number(group, inode)).filter(|place| place.group == group);
        let end = self.group_length_blocks(group).map(|blocks| {
            let behind = blocks.checked_rem(align).unwrap_or(0);
            blocks.saturating_sub(behind)
        });
        let first = self.group_header_blocks().checked_next_multiple_of(align);
        let is_within = |place: InodeLocation| {
            first.is_some_and(|first| first <= place.block.get())
                && end.is_some_and(|end| place.block.get() < end)
        };
        place.is_some_and(is_within)
    }

    /// Blocks at whose multiples inode clusters begin: where chunks are not aligned well enough, at every block.
    #[doc(alias = "xfs_ialloc_cluster_alignment")]
    fn inode_cluster_alignment_blocks(&self) -> u32 {
        match self.inode_alignment_blocks >= self.inode_cluster_blocks() {
            true => self.inode_alignment_blocks.max(1),
            false => 1,
        }
    }

    /// Blocks of an inode cluster, the buffer in which Linux reads, writes and logs inodes: 16 inodes of 512 bytes
    /// where chunks are aligned well enough, 8 KiB otherwise, and at least one block.
    #[doc(alias = "XFS_INODE_BIG_CLUSTER_SIZE")]
    #[inline]
    pub fn inode_cluster_blocks(&self) -> u32 {
        // 8192 bytes for each 256 bytes of inode size; both are powers of two.
        let large = self.inode_size_bytes.wrapping_shl(5).wrapping_shr(self.block_log);
        let small = 8192u32.wrapping_shr(self.block_log);
        if self.inode_alignment_blocks >= large { large.max(1) } else { small.max(1) }
    }

    /// Inodes that come and go together in a sparse chunk: those of a cluster.
    #[inline]
    pub fn inodes_per_sparse_unit(&self) -> u32 {
        self.inode_cluster_blocks().wrapping_shl(self.inodes_per_block_log).clamp(4, INODES_PER_CHUNK)
    }

    /// First inodes of the chunks that Linux makes together with the chunk that begins at `start`, ascending: all chunks of its block
    /// where a block holds several, else that chunk alone.
    #[doc(alias = "M_IGEO_ialloc_inos")]
    pub fn chunks_made_together(&self, start: AgInode) -> impl Iterator<Item = AgInode> + use<> {
        let inodes = self.inodes_per_block().max(INODES_PER_CHUNK);
        let first =
            if inodes > INODES_PER_CHUNK { start.get() & !inodes.wrapping_sub(1) } else { start.get() };
        (0..inodes.wrapping_div(INODES_PER_CHUNK))
            .map(move |chunk| AgInode::new(first.saturating_add(chunk.saturating_mul(INODES_PER_CHUNK))))
    }

    /// The last inode up to `inode` at which a chunk may begin that holds it; with sparse inodes, or blocks that hold a chunk, chunks begin
    /// nowhere else. Otherwise they may begin earlier.
    pub fn last_chunk_start(&self, inode: AgInode) -> AgInode {
        let alignment_inodes = self.inode_alignment_blocks.wrapping_shl(self.inodes_per_block_log);
        let step = match alignment_inodes {
            0 => INODES_PER_CHUNK,
            inodes if inodes.is_multiple_of(INODES_PER_CHUNK) => INODES_PER_CHUNK,
            inodes => inodes,
        };
        let behind_start = inode.get().checked_rem(step).unwrap_or(0);
        AgInode::new(inode.get().saturating_sub(behind_start))
    }

    /// Whether a block holds the inodes of several chunks. Linux makes them at once, and never frees them.
    #[inline]
    pub fn has_several_chunks_in_block(&self) -> bool {
        self.inodes_per_block() > INODES_PER_CHUNK
    }

    /// First block and length in blocks of the inode cluster that holds `block` of `group`, or `None` where it does
    /// not lie within the group. Chunks, and with them clusters, are aligned.
    pub fn inode_cluster_of(&self, group: AgNumber, block: AgBlock) -> Option<(AgBlock, u32)> {
        let length_blocks = self.inode_cluster_blocks();
        let first = if self.inode_alignment_blocks >= length_blocks {
            block.get() & !length_blocks.wrapping_sub(1)
        } else {
            return (block.get() < self.group_length_blocks(group)?).then_some((block, 1));
        };
        let end = first.checked_add(length_blocks)?;
        (end <= self.group_length_blocks(group)?).then_some((AgBlock::new(first), length_blocks))
    }

    /// Blocks that the four header sectors of a group take.
    #[inline]
    pub fn group_header_blocks(&self) -> u32 {
        self.sector_size_bytes.wrapping_mul(4).div_ceil(self.block_size_bytes)
    }

    /// First file block of the leaf space of directories.
    #[inline]
    pub fn directory_leaf_start(&self) -> FileBlock {
        FileBlock::new(DIRECTORY_SPACE_BYTES.wrapping_shr(self.block_log))
    }

    /// First file block of the free index space of directories.
    #[inline]
    pub fn directory_free_start(&self) -> FileBlock {
        FileBlock::new(DIRECTORY_SPACE_BYTES.wrapping_mul(2).wrapping_shr(self.block_log))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Copy;

    fn geometry() -> Geometry {
        let bytes = include_bytes!("../testdata/superblock.bin");
        let (superblock, sector) = Superblock::parse(bytes).unwrap();
        superblock.verify(sector, Copy::Primary).unwrap();
        Geometry::new(superblock)
    }

    #[test]
    fn addresses_of_a_default_512_mib_image() {
        let geometry = geometry();
        // Log start 65543 is block 7 of group 2, as xfs_db's `convert fsblock 65543 agno agbno` says.
        let log_start = geometry.log_start.unwrap();
        assert_eq!(geometry.split_fs_block(log_start), Some((AgNumber::new(2), AgBlock::new(7))));
        assert_eq!(geometry.fs_block(AgNumber::new(2), AgBlock::new(7)), Some(log_start));
        assert_eq!(geometry.sector_of_block(log_start), Some(Sector::new((2 * 32768 + 7) * 8)));
        let place = geometry.inode_place(InodeNumber::new(131)).unwrap();
        assert_eq!((place.group.get(), place.block.get(), place.offset_bytes), (0, 16, 3 * 512));
    }

    #[test]
    fn inode_clusters_are_as_the_kernel_reads_them() {
        let mut geometry = geometry();
        let cluster = |geometry: &Geometry, block| {
            let (first, length) = geometry.inode_cluster_of(AgNumber::new(0), AgBlock::new(block))?;
            Some((first.get(), length))
        };
        // 32 inodes of 512 bytes: xfs_db reads inode 131 as block 128 of the device, 32 sectors.
        assert_eq!(cluster(&geometry, 16), Some((16, 4)));
        assert_eq!(cluster(&geometry, 23), Some((20, 4)));
        assert_eq!(cluster(&geometry, 32767), Some((32764, 4)));
        assert_eq!(cluster(&geometry, 32768), None);
        // Where chunks are not aligned, the block alone.
        geometry.inode_alignment_blocks = 0;
        assert_eq!(cluster(&geometry, 23), Some((23, 1)));
        assert!(geometry.group_may_hold_inode(AgNumber::new(0), AgInode::new(131)));
        assert!(!geometry.group_may_hold_inode(AgNumber::new(0), AgInode::new(7)));
        assert!(!geometry.group_may_hold_inode(AgNumber::new(0), AgInode::NULL));
    }

    #[test]
    fn numbers_outside_the_file_system_are_none() {
        let geometry = geometry();
        assert_eq!(geometry.split_fs_block(FsBlock::new(4 << 15)), None);
        assert_eq!(geometry.fs_block(AgNumber::new(0), AgBlock::new(32768)), None);
        assert_eq!(geometry.inode_place(InodeNumber::NULL), None);
        assert_eq!(geometry.inode_place(InodeNumber::new(0)), None, "group headers hold no inodes");
        assert!(geometry.contains_extent(FsBlock::new(32767), 1));
        assert!(!geometry.contains_extent(FsBlock::new(32767), 2), "extents never cross groups");
        assert!(!geometry.contains_extent(FsBlock::new(0), u64::MAX));
    }
}

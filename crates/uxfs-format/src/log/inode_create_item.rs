//! A newly initialised inode chunk (ICREATE): replay writes all its inodes, so that their buffers need no logging.
//!
//! The one item whose numbers are big-endian, but for the type and region count that all items begin with.

use zerocopy::{big_endian::U32, little_endian::U16};

use crate::{
    geometry::{Geometry, INODES_PER_CHUNK},
    log::item::{ItemType, LogItemFault, Regions},
    on_disk,
    units::{AgBlock, AgNumber},
};

on_disk! {
    /// ICREATE.
    #[doc(alias = "xfs_icreate_log")]
    pub struct InodeCreateItem {
        /// [`ItemType`].
        pub kind: U16 => "type" Hexadecimal little,
        /// Regions: 1.
        pub region_count: U16 => "size" Decimal little,
        /// The group.
        pub group: U32 => "ag" Decimal,
        /// First block in it.
        pub block: U32 => "agbno" Decimal,
        /// Inodes.
        pub inode_count: U32 => "count" Decimal,
        /// Bytes in each.
        pub inode_size_bytes: U32 => "isize" Decimal,
        /// Blocks.
        pub length_blocks: U32 => "length" Decimal,
        /// Their generation.
        pub generation: U32 => "gen" Decimal,
    }
}

impl InodeCreateItem {
    pub(crate) fn decode(regions: Regions<'_>) -> Result<&Self, LogItemFault> {
        regions.expect_count(1)?;
        regions.exactly::<Self>(0)
    }

    pub(crate) fn verify(&self, geometry: &Geometry) -> Result<(), LogItemFault> {
        let (count, length_blocks) = (self.inode_count.get(), self.length_blocks.get());
        let size_bytes = self.inode_size_bytes.get();
        let chunk = LogItemFault::InodeChunk { count, size_bytes, length_blocks };
        if size_bytes != geometry.inode_size_bytes || count == 0 || length_blocks == 0 {
            return Err(chunk);
        }
        // A whole chunk, or a sparse part of one; blocks may hold more than a chunk.
        let holds = u64::from(length_blocks).checked_mul(geometry.inodes_per_block().into());
        if holds != Some(count.into()) || (count > INODES_PER_CHUNK && length_blocks > 1) {
            return Err(chunk);
        }
        let start = geometry.fs_block(AgNumber::new(self.group.get()), AgBlock::new(self.block.get()));
        if start.is_some_and(|start| geometry.contains_extent(start, length_blocks.into())) {
            return Ok(());
        }
        Err(LogItemFault::OutsideFileSystem {
            item: ItemType::InodeCreate,
            start: self.block.get().into(),
            length: length_blocks.into(),
        })
    }
}

//! Where inodes may lie, and the root directory's place.

use super::{Features, LayoutError, Sizes, Stripe};
use crate::options::{Options, grammar::Setting};

/// Alignment of inode chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeAlignment {
    /// Of chunks, in blocks; 0 where a block holds a chunk.
    pub chunk_blocks: u32,
    /// Of parts of sparse chunks, in blocks; 0 without them.
    pub sparse_blocks: u32,
}

/// Inodes in a cluster, the buffer that Linux reads at once: 8 KiB for inodes of 256 bytes, more for larger ones.
const CLUSTER_INODES: u32 = 32;
const CHUNK_INODES: u32 = 64;

impl InodeAlignment {
    /// As it follows from sizes and features.
    pub fn new(sizes: &Sizes, features: &Features) -> Self {
        let cluster_blocks = CLUSTER_INODES * sizes.inode_bytes / sizes.block_bytes;
        if features.sparse_inodes {
            let chunk_blocks = CHUNK_INODES * sizes.inode_bytes / sizes.block_bytes;
            Self { chunk_blocks, sparse_blocks: cluster_blocks }
        } else {
            Self { chunk_blocks: cluster_blocks, sparse_blocks: 0 }
        }
    }
}

/// First block of the first chunk, from the first block of group 0 that is free for it.
pub fn first_chunk_block(first_free: u64, alignment: InodeAlignment, stripe: Stripe) -> u64 {
    let chunk = alignment.chunk_blocks;
    let unit = stripe.unit_blocks;
    // A stripe is kept to where that keeps to the chunk's own alignment.
    let multiple = if chunk > 1 && unit >= chunk && unit.is_multiple_of(chunk) { unit } else { chunk };
    first_free.next_multiple_of(multiple.max(1).into())
}

/// Most of the space that inodes may take, in per cent.
pub fn max_percent(options: &Options, data_bytes: u64) -> u8 {
    match options.number(Setting::InodeMaxPercent) {
        Some(percent) => percent as u8, // At most 100.
        None => usual_max_percent(data_bytes),
    }
}

/// The same where nothing was asked: less of a larger file system.
pub fn usual_max_percent(data_bytes: u64) -> u8 {
    const TIB: u64 = 1 << 40;
    match data_bytes {
        ..TIB => 25,
        bytes if bytes < 50 * TIB => 5,
        _ => 1,
    }
}

/// Settings of the first inodes, which files made in them inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inheritance {
    /// On the realtime device, if there ever is one.
    pub realtime: bool,
    /// Project.
    pub project_id: Option<u32>,
    /// Extent size hint in blocks.
    pub extent_size_blocks: Option<u32>,
    /// The same for copies on write.
    pub cow_extent_size_blocks: Option<u32>,
    /// Direct access to persistent memory.
    pub direct_access: bool,
}

/// The longest extent.
const MAX_EXTENT_BLOCKS: u64 = (1 << 21) - 1;

impl Inheritance {
    /// From the options.
    ///
    /// # Errors
    /// A hint that is too large.
    pub fn resolve(
        options: &Options,
        group_blocks: u64,
        realtime_extent_blocks: u32,
    ) -> Result<Self, LayoutError> {
        let realtime = options.switch(Setting::DataRealtimeInherit, false);
        let multiple = if realtime { realtime_extent_blocks } else { 1 };
        let hint = |setting, option, multiple: u32| match options.number(setting) {
            None | Some(0) => Ok(None),
            Some(blocks) => {
                let max = MAX_EXTENT_BLOCKS.min(group_blocks / 2);
                if blocks > max || blocks % u64::from(multiple) != 0 {
                    return Err(LayoutError::ExtentHint { option, blocks, max, multiple });
                }
                Ok(u32::try_from(blocks).ok())
            }
        };
        Ok(Self {
            realtime,
            project_id: options.number(Setting::DataProjectInherit).map(|id| id as u32), // Bounded by its rule.
            extent_size_blocks: hint(Setting::DataExtentSizeInherit, "-d extszinherit", multiple)?,
            cow_extent_size_blocks: hint(Setting::DataCowExtentSize, "-d cowextsize", 1)?,
            direct_access: options.switch(Setting::DataDaxInherit, false),
        })
    }
}

//! Interior blocks of a name tree: the largest hash below each child, and where the child lies.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{
    MAX_LEVEL, TreeKind,
    header::{BlockHeader, too_short},
};
use crate::{
    convert::{low_u32, to_u64},
    field_table::{
        Field,
        FieldFormat::{Checksum, Decimal, Hexadecimal, Padding, Uuid},
        OnDisk,
    },
    geometry::Geometry,
    header_fault::HeaderFault,
    on_disk,
    units::FileBlock,
    verify_context::VerifyContext,
};

/// Magic number of interior blocks.
#[doc(alias = "XFS_DA3_NODE_MAGIC")]
pub const MAGIC: u16 = 0x3ebe;

/// Fixed part of an interior block.
#[doc(alias = "xfs_da3_node_hdr")]
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(C)]
pub struct NodeHeader {
    /// Common to all blocks of the tree.
    pub info: BlockHeader,
    /// Entries in use.
    pub count: U16,
    /// Height above the leaves, which are 0.
    pub level: U16,
    /// Zero.
    pub padding: U32,
}

impl OnDisk for NodeHeader {
    const FIELDS: &'static [Field] = crate::tree_block_fields![
        Field::bytes("count", 56, 2, Decimal),
        Field::bytes("level", 58, 2, Decimal),
        Field::bytes("pad32", 60, 4, Padding),
    ];
}

on_disk! {
    /// One child of an interior block.
    #[doc(alias = "xfs_da_node_entry")]
    pub struct NodeEntry {
        /// The largest hash below the child.
        pub hash: U32 => "hashval" Hexadecimal,
        /// Where the child lies in the fork.
        pub child: U32 => "before" Decimal,
    }
}

/// Faults of an interior block. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Not above the leaves, or too high.
    #[error("level {level} is not from 1 to {MAX_LEVEL}")]
    Level {
        /// On disk.
        level: u16,
    },
    /// No children, or more than fit.
    #[error("{count} children where there may be 1 to {most}")]
    Count {
        /// On disk.
        count: u16,
        /// That fit.
        most: u32,
    },
    /// Hashes fall.
    #[error("hash {hash:#x} of child {index} is smaller than the one before")]
    HashOrder {
        /// Which child.
        index: u32,
        /// Its hash.
        hash: u32,
    },
    /// A child where no block of the tree can lie.
    #[error("child {index} lies at file block {block}, where no block of the tree can lie")]
    Child {
        /// Which child.
        index: u32,
        /// Where it is said to lie.
        block: u32,
    },
    /// A neighbour where no block of the tree can lie.
    #[error("a neighbour lies at file block {block}, where no block of the tree can lie")]
    Neighbour {
        /// Where it is said to lie.
        block: u32,
    },
}

/// An interior block.
#[derive(Debug, Clone, Copy)]
pub struct NodeBlock<'a> {
    /// Its fixed part.
    pub header: &'a NodeHeader,
    /// Its children, by rising hash.
    pub entries: &'a [NodeEntry],
}

/// How many children fit into a block.
#[inline]
pub const fn most_entries(block_size_bytes: u32) -> u32 {
    // Sizes are powers of two from 1024: nothing can wrap, and the divisor is 8.
    #[allow(clippy::arithmetic_side_effects)]
    let count = block_size_bytes.saturating_sub(64) / 8;
    count
}

impl<'a> NodeBlock<'a> {
    /// Bytes only: finds the children that the count claims.
    ///
    /// # Errors
    /// Too few bytes, or more children than fit.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NodeFault> {
        let (header, rest) = NodeHeader::ref_from_prefix(bytes)
            .map_err(|_| too_short(bytes, to_u64(NodeHeader::SIZE_BYTES)))?;
        let count = header.count.get();
        let entries = <[NodeEntry]>::ref_from_prefix_with_elems(rest, count.into());
        let most = most_entries(low_u32(to_u64(bytes.len())));
        let (entries, _) = entries.map_err(|_| NodeFault::Count { count, most })?;
        Ok(Self { header, entries })
    }

    /// Verifies an interior block of a tree of the given kind.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &[u8], kind: TreeKind, context: &VerifyContext<'_>) -> Result<(), NodeFault> {
        let size_bytes = kind.block_size_bytes(context.geometry);
        let (header, block) = BlockHeader::parse(bytes, size_bytes)?;
        header.verify(block, MAGIC, context)?;
        let node = NodeBlock::parse(block)?;
        let level = node.header.level.get();
        if !(1..=MAX_LEVEL).contains(&level) {
            return Err(NodeFault::Level { level });
        }
        if node.entries.is_empty() {
            return Err(NodeFault::Count { count: 0, most: most_entries(size_bytes) });
        }
        verify_neighbours(header, kind, context.geometry).map_err(|block| NodeFault::Neighbour { block })?;
        node.verify_entries(kind, context.geometry)
    }

    fn verify_entries(&self, kind: TreeKind, geometry: &Geometry) -> Result<(), NodeFault> {
        let mut last = 0;
        for (index, entry) in (0u32..).zip(self.entries) {
            let hash = entry.hash.get();
            if hash < last {
                return Err(NodeFault::HashOrder { index, hash });
            }
            last = hash;
            let block = entry.child.get();
            if !kind.may_hold(geometry, FileBlock::new(block.into())) {
                return Err(NodeFault::Child { index, block });
            }
        }
        Ok(())
    }

    /// The first child that can hold `hash`. Equal hashes may go on in the next.
    #[inline]
    pub fn child_for(&self, hash: u32) -> Option<FileBlock> {
        let index = self.entries.partition_point(|entry| entry.hash.get() < hash);
        self.entries.get(index).map(|entry| FileBlock::new(entry.child.get().into()))
    }

    /// The child with the smallest hashes.
    pub fn first_child(&self) -> Option<FileBlock> {
        self.entries.first().map(|entry| FileBlock::new(entry.child.get().into()))
    }
}

/// Checks where the neighbours of a tree block lie. The error is the impossible one.
pub(crate) fn verify_neighbours(
    header: &BlockHeader,
    kind: TreeKind,
    geometry: &Geometry,
) -> Result<(), u32> {
    for block in [header.forward.get(), header.backward.get()] {
        if block != 0 && !kind.may_hold(geometry, FileBlock::new(block.into())) {
            return Err(block);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;

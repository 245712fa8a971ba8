//! Leaves of directories: name hashes and where their entries lie in the data space.
//!
//! Two kinds share header and entries. The one leaf of a *leaf directory* also ends in the longest free region of
//! each data block; the leaves of a *node directory* do not, as that has a free index.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U16, U32},
};

use super::{DATA_HEADER_BYTES, DataPointer, NO_DATA_BLOCK, length_of};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    field_table::{
        Field,
        FieldFormat::{Checksum, Decimal, Hexadecimal, Padding, Uuid},
        OnDisk,
    },
    geometry::Geometry,
    header_fault::HeaderFault,
    name_tree::{
        TreeKind,
        header::{BlockHeader, too_short, whole_block},
        node::verify_neighbours,
    },
    on_disk,
    verify_context::VerifyContext,
};

/// Magic number of the one leaf of a leaf directory.
#[doc(alias = "XFS_DIR3_LEAF1_MAGIC")]
pub const SINGLE_MAGIC: u16 = 0x3df1;
/// Magic number of the leaves of a node directory.
#[doc(alias = "XFS_DIR3_LEAFN_MAGIC")]
pub const NODE_MAGIC: u16 = 0x3dff;
/// Bytes of the header.
const HEADER_BYTES: u32 = 64;

/// Fixed part of a leaf.
#[doc(alias = "xfs_dir3_leaf_hdr")]
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
pub struct LeafHeader {
    /// Common to all blocks of the tree.
    pub info: BlockHeader,
    /// Entries, removed ones included.
    pub count: U16,
    /// Removed entries.
    pub stale: U16,
    /// Zero.
    pub padding: U32,
}

impl OnDisk for LeafHeader {
    const FIELDS: &'static [Field] = crate::tree_block_fields![
        Field::bytes("count", 56, 2, Decimal),
        Field::bytes("stale", 58, 2, Decimal),
        Field::bytes("pad", 60, 4, Padding),
    ];
}

on_disk! {
    /// One name's hash and place. A removed one keeps its hash and has address 0.
    #[doc(alias = "xfs_dir2_leaf_entry")]
    pub struct LeafEntry {
        /// Hash of the name.
        pub hash: U32 => "hashval" Hexadecimal,
        /// Where the entry lies.
        pub address: U32 => "address" Hexadecimal,
    }
    /// The end of the one leaf of a leaf directory.
    #[doc(alias = "xfs_dir2_leaf_tail")]
    pub struct LeafTail {
        /// Data blocks: as many bests lie before the tail.
        pub best_count: U32 => "bestcount" Decimal,
    }
}

impl LeafEntry {
    /// Where the entry lies, or `None` for a removed one.
    #[inline]
    pub fn pointer(&self) -> Option<DataPointer> {
        (self.address.get() != 0).then(|| DataPointer::new(self.address.get()))
    }
}

/// Faults of a leaf. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectoryLeafFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// More entries than fit.
    #[error("{count} entries where {most} fit")]
    EntryCount {
        /// On disk.
        count: u16,
        /// That fit.
        most: u32,
    },
    /// Removed entries miscounted.
    #[error("{stale} entries are said to be removed, {found} are")]
    StaleCount {
        /// On disk.
        stale: u16,
        /// Counted.
        found: u32,
    },
    /// Hashes fall.
    #[error("hash {hash:#x} of entry {index} is smaller than the one before")]
    HashOrder {
        /// Which entry.
        index: u32,
        /// Its hash.
        hash: u32,
    },
    /// No entry can lie there: in a block's header, or in a data block that is not.
    #[error("entry {index} points to {address:#x}, where no entry can lie")]
    Address {
        /// Which entry.
        index: u32,
        /// On disk.
        address: u32,
    },
    /// More bests than fit beside the entries.
    #[error("{count} data blocks where the leaf has room for {most}")]
    BestCount {
        /// On disk.
        count: u32,
        /// That fit.
        most: u32,
    },
    /// A longest free region that no data block can have.
    #[error("data block {index} is said to have a free region of {length_bytes} bytes")]
    Best {
        /// Which data block.
        index: u32,
        /// On disk.
        length_bytes: u16,
    },
    /// A neighbour where none can lie; the one leaf of a leaf directory has none.
    #[error("a neighbour lies at file block {block}, where none can be")]
    Neighbour {
        /// Where it is said to lie.
        block: u32,
    },
}

/// A leaf of either kind.
#[derive(Debug, Clone, Copy)]
pub struct LeafBlock<'a> {
    /// Its fixed part.
    pub header: &'a LeafHeader,
    /// Entries by rising hash, removed ones included.
    pub entries: &'a [LeafEntry],
    block: &'a [u8],
}

impl<'a> LeafBlock<'a> {
    /// Bytes only: finds the entries that the count claims.
    ///
    /// # Errors
    /// Too few bytes, or more entries than fit.
    pub fn parse(bytes: &'a [u8], geometry: &Geometry) -> Result<Self, DirectoryLeafFault> {
        let block = whole_block(bytes, geometry.directory_block_size_bytes)?;
        let (header, rest) = LeafHeader::ref_from_prefix(block)
            .map_err(|_| too_short(block, to_u64(LeafHeader::SIZE_BYTES)))?;
        let count = header.count.get();
        let most = most_entries(length_of(block));
        let (entries, _) = <[LeafEntry]>::ref_from_prefix_with_elems(rest, count.into())
            .map_err(|_| DirectoryLeafFault::EntryCount { count, most })?;
        Ok(Self { header, entries, block })
    }

    /// Verifies the one leaf of a leaf directory.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_single(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), DirectoryLeafFault> {
        let (header, block) = BlockHeader::parse(bytes, context.geometry.directory_block_size_bytes)?;
        header.verify(block, SINGLE_MAGIC, context)?;
        let leaf = LeafBlock::parse(block, context.geometry)?;
        for neighbour in [header.forward.get(), header.backward.get()] {
            if neighbour != 0 {
                return Err(DirectoryLeafFault::Neighbour { block: neighbour });
            }
        }
        let bests = leaf.bests()?;
        let most = context.geometry.directory_block_size_bytes.saturating_sub(DATA_HEADER_BYTES);
        verify_bests(bests, most)
            .map_err(|(index, length_bytes)| DirectoryLeafFault::Best { index, length_bytes })?;
        leaf.verify_entries(context.geometry, |data_block| {
            bests.get(to_usize(data_block)).is_some_and(|best| best.get() != NO_DATA_BLOCK)
        })?;
        Ok(())
    }

    /// Verifies a leaf of a node directory.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify_node(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), DirectoryLeafFault> {
        let (header, block) = BlockHeader::parse(bytes, context.geometry.directory_block_size_bytes)?;
        header.verify(block, NODE_MAGIC, context)?;
        let leaf = LeafBlock::parse(block, context.geometry)?;
        verify_neighbours(header, TreeKind::Directory, context.geometry)
            .map_err(|block| DirectoryLeafFault::Neighbour { block })?;
        leaf.verify_entries(context.geometry, |_| true)?;
        Ok(())
    }

    fn verify_entries(
        &self,
        geometry: &Geometry,
        has_data_block: impl Fn(u32) -> bool,
    ) -> Result<(), DirectoryLeafFault> {
        let (mut last, mut found) = (0, 0u32);
        for (index, entry) in (0u32..).zip(self.entries) {
            let hash = entry.hash.get();
            if hash < last {
                return Err(DirectoryLeafFault::HashOrder { index, hash });
            }
            last = hash;
            let Some(pointer) = entry.pointer() else {
                found = found.saturating_add(1);
                continue;
            };
            let (data_block, offset_bytes) = pointer.split(geometry);
            if offset_bytes < DATA_HEADER_BYTES || !has_data_block(data_block) {
                return Err(DirectoryLeafFault::Address { index, address: pointer.get() });
            }
        }
        let stale = self.header.stale.get();
        if found == u32::from(stale) {
            return Ok(());
        }
        Err(DirectoryLeafFault::StaleCount { stale, found })
    }

    /// The longest free region of each data block, at the end of the one leaf of a leaf directory;
    /// [`NO_DATA_BLOCK`] where the block is a hole.
    ///
    /// # Errors
    /// They do not fit.
    pub fn bests(&self) -> Result<&'a [U16], DirectoryLeafFault> {
        let room = most_entries(length_of(self.block)).saturating_sub(self.header.count.get().into());
        let (_, tail) = LeafTail::ref_from_suffix(self.block)
            .map_err(|_| DirectoryLeafFault::BestCount { count: 0, most: 0 })?;
        let count = tail.best_count.get();
        // Room for entries in bytes, less the tail, in pairs of bytes.
        let most = room.saturating_mul(8).saturating_sub(4).wrapping_shr(1);
        let fault = DirectoryLeafFault::BestCount { count, most };
        if count > most {
            return Err(fault);
        }
        let end = self.block.len().checked_sub(LeafTail::SIZE_BYTES).ok_or(fault)?;
        let before_tail = self.block.get(..end).ok_or(fault)?;
        match <[U16]>::ref_from_suffix_with_elems(before_tail, to_usize(count)) {
            Ok((_, bests)) => Ok(bests),
            Err(_) => Err(fault),
        }
    }

    /// The first entry with a hash not smaller than `hash`: its index, which may be past the last.
    #[inline]
    pub fn first_at_or_after(&self, hash: u32) -> usize {
        self.entries.partition_point(|entry| entry.hash.get() < hash)
    }

    /// Entries with exactly this hash, removed ones left out.
    #[inline]
    pub fn pointers_of(&self, hash: u32) -> impl Iterator<Item = DataPointer> + use<'a> {
        let from = self.entries.get(self.first_at_or_after(hash)..).unwrap_or_default();
        from.iter().take_while(move |entry| entry.hash.get() == hash).filter_map(LeafEntry::pointer)
    }

    /// The largest hash, or `None` in an empty leaf.
    #[inline]
    pub fn last_hash(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.hash.get())
    }
}

/// How many entries fit into a leaf without bests.
#[inline]
pub const fn most_entries(block_size_bytes: u32) -> u32 {
    block_size_bytes.saturating_sub(HEADER_BYTES) >> 3
}

/// Checks longest free regions against what a data block can have. The error is the first bad one.
pub(crate) fn verify_bests(bests: &[U16], most_bytes: u32) -> Result<(), (u32, u16)> {
    let bad = |best: &U16| {
        let length = best.get();
        length != NO_DATA_BLOCK && (length & 7 != 0 || u32::from(length) > most_bytes)
    };
    match bests.iter().position(bad) {
        Some(index) => Err((low_u32(to_u64(index)), bests.get(index).map_or(0, |best| best.get()))),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;

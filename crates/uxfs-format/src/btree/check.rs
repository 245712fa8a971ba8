//! Verifies one btree block alone, whatever its kind.
//!
//! Not checked here because it takes more than this block: the owner (the code that followed a pointer compares
//! it), the fewest records (a root may have fewer), and keys against the children.

use thiserror::Error;

use super::{
    BlockPointer, BtreeKind,
    block::BtreeBlock,
    block_header::BlockHeader,
    extent_map::ExtentMapFault,
    free_space::FreeSpaceFault,
    inode_index::InodeIndexFault,
    reference_count::ReferenceCountFault,
    reverse_map::{Owner, ReverseMapFault},
};
use crate::{
    convert::{low_u32, to_u64},
    header_fault::HeaderFault,
    units::AgNumber,
    verify_context::VerifyContext,
};

/// Faults of a btree block, alone or beside the blocks that led to it. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BtreeFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// Blocks that are free, or are to become free, have an owner.
    #[error("the extent is free or becomes free, but blocks of it belong to {owner}")]
    OwnedFreeSpace {
        /// The owner of blocks of it.
        owner: Owner,
    },
    /// Blocks that are free, or are to become free, have a reference count.
    #[error("the extent is free or becomes free, but files share blocks of it")]
    SharedFreeSpace,
    /// Higher than any tree of this kind can be.
    #[error("level is {level}, but such a tree has at most {max_levels} levels")]
    Level {
        /// `level`.
        level: u16,
        /// Most levels.
        max_levels: u32,
    },
    /// More than fit in the block.
    #[error("{count} records at level {level}, where at most {capacity} fit")]
    TooManyRecords {
        /// `numrecs`.
        count: u16,
        /// `level`.
        level: u16,
        /// Most that fit.
        capacity: u32,
    },
    /// Only an empty tree's single leaf may be empty.
    #[error("no records in a block at level {level} that is not the leaf of an empty tree")]
    Empty {
        /// `level`.
        level: u16,
    },
    /// A sibling that cannot be: outside, among the headers, or the block itself.
    #[error("{side} sibling {block} is not a block that can be one")]
    Sibling {
        /// "left" or "right".
        side: &'static str,
        /// `leftsib` or `rightsib`.
        block: u64,
    },
    /// A child that cannot be.
    #[error("pointer {index} leads to block {block}, which cannot be part of the tree")]
    Pointer {
        /// Counted from 1, as `xfs_db` does.
        index: u32,
        /// `ptrs[index]`.
        block: u64,
    },
    /// A record before, or overlapping, the one to its left.
    #[error("record {index} does not lie behind the record before it")]
    RecordOrder {
        /// Counted from 1.
        index: u32,
    },
    /// A key not larger than the one to its left.
    #[error("key {index} does not lie behind the key before it")]
    KeyOrder {
        /// Counted from 1.
        index: u32,
    },
    /// Not at the level at which a pointer led to it.
    #[error("block is at level {found}, where the pointer to it says {expected}")]
    WrongLevel {
        /// `level`.
        found: u16,
        /// One less than the parent's, or as the header of the group says for a root.
        expected: u16,
    },
    /// Siblings that do not name each other as their parents order them.
    #[error(
        "{side} sibling is block {found}, but the parents lead to block {expected} there (all ones: none)"
    )]
    WrongSibling {
        /// "left" or "right".
        side: &'static str,
        /// `leftsib` or `rightsib`.
        found: u64,
        /// The block that a walk came from or goes to.
        expected: u64,
    },
    /// A block whose contents begin before the key that leads to it, or before the block to its left ends.
    #[error("contents begin before the key that leads here or before the block to the left ends")]
    BlockOrder,
    /// A record that must be there because another structure, or the caller, says so.
    #[error("a record that must be there is not")]
    MissingRecord,
    /// A record that is to be added where one is, or over a neighbour.
    #[error("a record is to be added where others lie already")]
    RecordExists,
    /// A walk that came by more blocks than there are.
    #[error("the tree has more than {budget} blocks: it runs in circles")]
    TooManyBlocks {
        /// Blocks that there can be.
        budget: u64,
    },
    /// A record that is wrong in itself.
    #[error("record {index}: {fault}")]
    Record {
        /// Counted from 1.
        index: u32,
        /// Its fault.
        fault: RecordFault,
    },
}

/// Faults of one record, by kind of tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// A free extent.
    #[error(transparent)]
    FreeSpace(#[from] FreeSpaceFault),
    /// An inode chunk.
    #[error(transparent)]
    InodeIndex(#[from] InodeIndexFault),
    /// An owned extent.
    #[error(transparent)]
    ReverseMap(#[from] ReverseMapFault),
    /// A shared extent.
    #[error(transparent)]
    ReferenceCount(#[from] ReferenceCountFault),
    /// An extent of a fork.
    #[error(transparent)]
    ExtentMap(#[from] ExtentMapFault),
}

/// Verifies `bytes` as one block of a tree of kind `K`.
///
/// # Errors
/// The first check that fails.
pub fn verify<K: BtreeKind>(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), BtreeFault> {
    let needed = context.geometry.block_size();
    let Some(bytes) = bytes.get(..needed) else {
        let fault =
            HeaderFault::Truncated { length_bytes: to_u64(bytes.len()), needed_bytes: to_u64(needed) };
        return Err(fault.into());
    };
    let block = BtreeBlock::<K>::parse(bytes)?;
    verify_header(bytes, block.header(), K::MAGIC, context)?;
    // Sectors that lie in no group (a block of a realtime section) make group-relative pointers impossible.
    let place = context.geometry.block_of_sector(context.sector);
    let group = place.map(|(group, ..)| group);
    verify_shape(&block, group, context)?;
    if block.is_leaf() {
        verify_records(&block, group, context)?;
    } else {
        verify_node(&block, group, context)?;
    }
    Ok(())
}

fn verify_header<H: BlockHeader>(
    bytes: &[u8],
    header: &H,
    magic: u32,
    context: &VerifyContext<'_>,
) -> Result<(), HeaderFault> {
    if header.magic() != magic {
        return Err(HeaderFault::BadMagic { found: header.magic(), expected: magic });
    }
    context.check_checksum(bytes, H::CHECKSUM_OFFSET_BYTES)?;
    let expected = context.geometry.metadata_uuid;
    if header.uuid() != expected {
        return Err(HeaderFault::WrongUuid { found: header.uuid(), expected });
    }
    if header.sector() != context.sector {
        return Err(HeaderFault::WrongSector { found: header.sector(), expected: context.sector });
    }
    Ok(())
}

fn verify_shape<K: BtreeKind>(
    block: &BtreeBlock<'_, K>,
    group: Option<AgNumber>,
    context: &VerifyContext<'_>,
) -> Result<(), BtreeFault> {
    let (level, max_levels) = (block.level(), K::max_levels(context.geometry));
    if u32::from(level) >= max_levels {
        return Err(BtreeFault::Level { level, max_levels });
    }
    let (count, capacity) = (block.header().record_count(), block.capacity());
    if u32::from(count) > capacity {
        return Err(BtreeFault::TooManyRecords { count, level, capacity });
    }
    let (left, right) = (block.header().left_sibling(), block.header().right_sibling());
    let is_alone = left.is_null() && right.is_null();
    if count == 0 && !(level == 0 && is_alone) {
        return Err(BtreeFault::Empty { level });
    }
    for (side, pointer) in [("left", left), ("right", right)] {
        let is_self = pointer.sector(context.geometry, group) == Some(context.sector);
        if !pointer.is_null() && (is_self || !pointer.is_possible(context.geometry, group)) {
            return Err(BtreeFault::Sibling { side, block: pointer.raw() });
        }
    }
    Ok(())
}

fn verify_records<K: BtreeKind>(
    block: &BtreeBlock<'_, K>,
    group: Option<AgNumber>,
    context: &VerifyContext<'_>,
) -> Result<(), BtreeFault> {
    let mut previous: Option<&K::Record> = None;
    let (header_bytes, record_bytes) = (size_of::<K::Header>(), size_of::<K::Record>());
    // With another count, or another neighbour, records come into the block that no change marks.
    let has_same_records = !context.may_have_changed(0, header_bytes);
    let mut offset_bytes = header_bytes;
    for (index, record) in (1u32..).zip(block.records()) {
        let first = offset_bytes.saturating_sub(record_bytes).max(header_bytes);
        offset_bytes = offset_bytes.saturating_add(record_bytes);
        if has_same_records && !context.may_have_changed(first, offset_bytes.saturating_sub(first)) {
            previous = Some(record);
            continue;
        }
        K::verify_record(record, context.geometry, group)
            .map_err(|fault| BtreeFault::Record { index, fault })?;
        if previous.is_some_and(|previous| !K::may_follow(previous, record)) {
            return Err(BtreeFault::RecordOrder { index });
        }
        previous = Some(record);
    }
    Ok(())
}

fn verify_node<K: BtreeKind>(
    block: &BtreeBlock<'_, K>,
    group: Option<AgNumber>,
    context: &VerifyContext<'_>,
) -> Result<(), BtreeFault> {
    verify_keys::<K>(block.keys())?;
    for (index, pointer) in (1u32..).zip(block.pointers()) {
        let is_self = pointer.sector(context.geometry, group) == Some(context.sector);
        if is_self || !pointer.is_possible(context.geometry, group) {
            return Err(BtreeFault::Pointer { index, block: pointer.raw() });
        }
    }
    Ok(())
}

/// Checks that keys ascend.
pub(super) fn verify_keys<K: BtreeKind>(keys: &[K::Key]) -> Result<(), BtreeFault> {
    for (index, pair) in keys.windows(2).enumerate() {
        if let [previous, next] = pair
            && !K::key_may_follow(previous, next)
        {
            return Err(BtreeFault::KeyOrder { index: low_u32(to_u64(index)).saturating_add(2) });
        }
    }
    Ok(())
}

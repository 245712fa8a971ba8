//! Headers of an allocation group: four sectors at its start.
//!
//! | sector | XFS name | module |
//! |---|---|---|
//! | 0 | superblock (a copy, but for group 0) | [`superblock`](crate::superblock) |
//! | 1 | AGF | [`free_space_header`] |
//! | 2 | AGI | [`inode_header`] |
//! | 3 | AGFL | [`free_list`] |
//!
//! "Sector" is the sector size of the file system, which may be larger than 512 bytes and even than what a block of
//! 1 KiB holds of them.

use thiserror::Error;
use zerocopy::big_endian::U32;

use crate::{
    btree::BtreeKind,
    convert::{to_u64, to_usize},
    field_table::OnDisk,
    header_fault::HeaderFault,
    structure::Structure,
    units::{AgBlock, AgNumber, Uuid},
    verify_context::VerifyContext,
};

pub mod free_list;
pub mod free_space_header;
pub mod inode_header;

/// Faults of a header's note of where a btree of the group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TreeRootFault {
    /// The root lies outside the group, or in its headers.
    #[error("root of the {} lies at block {block}, outside the usable blocks of the group", tree.name())]
    Block {
        /// Which tree.
        tree: Structure,
        /// On disk.
        block: AgBlock,
    },
    /// No levels, or more than such a tree can have.
    #[error("{} has {levels} levels, not from 1 to {max_levels}", tree.name())]
    Levels {
        /// Which tree.
        tree: Structure,
        /// On disk.
        levels: u32,
        /// The most possible.
        max_levels: u32,
    },
}

/// Which group a header sector belongs to, and how long that group is. All from the place where it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GroupExtent {
    group: AgNumber,
    length_blocks: u32,
}

/// The fields that the three headers have in common, as found in one of them.
struct Common {
    magic: u32,
    expected_magic: u32,
    checksum_offset_bytes: u32,
    uuid: Uuid,
    group: u32,
}

/// The bytes of one header sector.
fn sector_of<'a>(bytes: &'a [u8], context: &VerifyContext<'_>) -> Result<&'a [u8], HeaderFault> {
    let needed = to_usize(context.geometry.sector_size_bytes);
    let (length_bytes, needed_bytes) = (to_u64(bytes.len()), to_u64(needed));
    bytes.get(..needed).ok_or(HeaderFault::Truncated { length_bytes, needed_bytes })
}

/// The structure at the start of a header sector.
fn parse<T: OnDisk>(sector: &[u8]) -> Result<&T, HeaderFault> {
    let (length_bytes, needed_bytes) = (to_u64(sector.len()), to_u64(T::SIZE_BYTES));
    T::prefix_of(sector).ok_or(HeaderFault::Truncated { length_bytes, needed_bytes })
}

/// Checks what the three headers have in common, and gives the group that they were read from.
fn verify_common(
    sector: &[u8],
    found: &Common,
    context: &VerifyContext<'_>,
) -> Result<GroupExtent, HeaderFault> {
    if found.magic != found.expected_magic {
        return Err(HeaderFault::BadMagic { found: found.magic, expected: found.expected_magic });
    }
    context.check_checksum(sector, found.checksum_offset_bytes).map_err(HeaderFault::from)?;
    let expected = context.geometry.metadata_uuid;
    if found.uuid != expected {
        return Err(HeaderFault::WrongUuid { found: found.uuid, expected });
    }
    // A sector outside the file system belongs to no group; such a read is refused before it happens.
    let group = context.geometry.block_of_sector(context.sector).map_or(AgNumber::NULL, |(group, ..)| group);
    if found.group != group.get() {
        let (found, expected) = (found.group.into(), group.get().into());
        return Err(HeaderFault::WrongOwner { found, expected });
    }
    let length_blocks = context.geometry.group_length_blocks(group).unwrap_or(0);
    Ok(GroupExtent { group, length_blocks })
}

/// Whether a block of the group can be anything but its headers.
fn is_body_block(context: &VerifyContext<'_>, place: GroupExtent, block: AgBlock) -> bool {
    (context.geometry.group_header_blocks()..place.length_blocks).contains(&block.get())
}

/// Checks where a header says that a btree of its group begins, and how high it is.
fn verify_tree<K: BtreeKind>(
    root: U32,
    levels: U32,
    place: GroupExtent,
    context: &VerifyContext<'_>,
) -> Result<(), TreeRootFault> {
    let (tree, levels, max_levels) = (K::STRUCTURE, levels.get(), K::max_levels(context.geometry));
    let block = AgBlock::new(root.get());
    if !is_body_block(context, place, block) {
        return Err(TreeRootFault::Block { tree, block });
    }
    if !(1..=max_levels).contains(&levels) {
        return Err(TreeRootFault::Levels { tree, levels, max_levels });
    }
    Ok(())
}

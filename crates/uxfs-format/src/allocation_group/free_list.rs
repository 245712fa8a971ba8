//! AGFL: blocks kept ready for the group's own btrees; fourth sector of the group.
//!
//! The slots are a ring. Which of them are active is said by the free space header; the others hold stale numbers and
//! mean nothing.

use thiserror::Error;
use zerocopy::{
    FromBytes,
    big_endian::{U32, U64},
};

use super::{Common, free_space_header::FreeSpaceHeader, sector_of, verify_common};
use crate::{
    checksum::Checksum,
    convert::{low_u32, to_u64, to_usize},
    field_table::OnDisk,
    header_fault::HeaderFault,
    on_disk,
    units::{AgBlock, Uuid},
    verify_context::VerifyContext,
};

/// "XAFL".
#[doc(alias = "XFS_AGFL_MAGIC")]
pub const MAGIC: u32 = 0x5841_464c;
/// Where the checksum lies.
pub const CHECKSUM_OFFSET_BYTES: u32 = 32;
/// Bytes before the first slot.
pub const HEADER_SIZE_BYTES: u32 = 36;

on_disk! {
    /// The header before the slots. The checksum covers the sector.
    #[doc(alias = "xfs_agfl")]
    pub struct FreeListHeader {
        /// [`MAGIC`].
        pub magic: U32 => "magicnum" Hexadecimal,
        /// Number of this group.
        pub group: U32 => "seqno" DecimalOrNull,
        /// Metadata uuid.
        pub uuid: Uuid => "uuid" Uuid,
        /// Log sequence number of the last write.
        pub lsn: U64 => "lsn" Hexadecimal,
        /// CRC32C of the sector.
        pub checksum: Checksum => "crc" Checksum,
    }

    /// One slot.
    pub struct FreeListSlot {
        /// A block of the group, or null.
        pub block: U32 => "bno" DecimalOrNull,
    }
}

/// Faults of a free list. One variant per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreeListFault {
    /// The header, which has the form of every header.
    #[error(transparent)]
    Header(#[from] HeaderFault),
    /// A slot, active or left over, with a number that no block of a group has. Whether an active one names a
    /// usable block of this group takes the free space header to say.
    #[error("slot {slot} holds block {block}, which no group has")]
    Block {
        /// Counted from 0.
        slot: u32,
        /// On disk.
        block: AgBlock,
    },
    /// An active slot that names no usable block of this group.
    #[error("active slot {slot} holds block {block}, outside the usable blocks of the group")]
    ActiveBlock {
        /// Counted from 0.
        slot: u32,
        /// On disk.
        block: AgBlock,
    },
}

/// Slots that a sector has room for.
#[doc(alias = "xfs_agfl_size")]
pub const fn slots(sector_size_bytes: u32) -> u32 {
    sector_size_bytes.saturating_sub(HEADER_SIZE_BYTES) >> 2
}

/// A free list, seen without copying.
#[derive(Debug, Clone, Copy)]
pub struct FreeList<'a> {
    header: &'a FreeListHeader,
    slots: &'a [FreeListSlot],
}

impl<'a> FreeList<'a> {
    /// Looks at one whole sector.
    ///
    /// # Errors
    /// Too short for the header.
    pub fn parse(sector: &'a [u8]) -> Result<Self, HeaderFault> {
        let (length_bytes, needed_bytes) = (to_u64(sector.len()), to_u64(FreeListHeader::SIZE_BYTES));
        let Ok((header, rest)) = FreeListHeader::ref_from_prefix(sector) else {
            return Err(HeaderFault::Truncated { length_bytes, needed_bytes });
        };
        let count = to_usize(slots(low_u32(length_bytes)));
        let slots = <[FreeListSlot]>::ref_from_prefix_with_elems(rest, count);
        Ok(Self { header, slots: slots.map_or(&[], |(slots, _)| slots) })
    }

    /// The header before the slots.
    pub fn header(&self) -> &'a FreeListHeader {
        self.header
    }

    /// All slots, active or not.
    pub fn slots(&self) -> &'a [FreeListSlot] {
        self.slots
    }

    /// The active slots with their blocks, oldest first. Where the header's three numbers disagree, the list counts as empty,
    /// as it does for the kernel.
    pub fn active(&self, header: &FreeSpaceHeader) -> impl Iterator<Item = (u32, AgBlock)> + use<'a> {
        let (first, last) = (header.free_list_first.get(), header.free_list_last.get());
        let (slots, count) = (low_u32(to_u64(self.slots.len())), header.free_list_count.get());
        let count = if is_consistent(first, last, count, slots) { count } else { 0 };
        (0u32..)
            .zip(self.slots)
            .cycle()
            .skip(to_usize(first))
            .take(to_usize(count))
            .map(|(slot, entry)| (slot, AgBlock::new(entry.block.get())))
    }
}

/// Whether first and last slot agree with the count. An empty list has its first slot right behind its last.
pub fn is_consistent(first: u32, last: u32, count: u32, slots: u32) -> bool {
    if first >= slots || last >= slots || count > slots {
        return false;
    }
    let distance = if last >= first { last } else { last.saturating_add(slots) };
    let active = distance.saturating_sub(first).saturating_add(1);
    // A full and an empty ring look alike.
    active == count || (count == 0 && active == slots)
}

/// Verifies `bytes` as a free list.
///
/// # Errors
/// The first check that fails.
pub fn verify(bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), FreeListFault> {
    let sector = sector_of(bytes, context)?;
    let list = FreeList::parse(sector)?;
    let common = Common {
        magic: list.header.magic.get(),
        expected_magic: MAGIC,
        checksum_offset_bytes: CHECKSUM_OFFSET_BYTES,
        uuid: list.header.uuid,
        group: list.header.group.get(),
    };
    verify_common(sector, &common, context)?;
    for (slot, entry) in (0u32..).zip(list.slots) {
        let block = AgBlock::new(entry.block.get());
        if !block.is_null() && block.get() >= context.geometry.ag_blocks {
            return Err(FreeListFault::Block { slot, block });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "free_list_tests.rs"]
mod tests;

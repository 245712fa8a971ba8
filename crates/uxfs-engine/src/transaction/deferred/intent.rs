//! Deferred work as the log's intents say it, and back: what a logged transaction writes when work is deferred, and what
//! recovery defers where an intent has no end.

use uxfs_format::{
    btree::{
        extent_map::Extent,
        reverse_map::{Mapping, Owner},
    },
    geometry::Geometry,
    inode::Fork,
    log::{
        extent_map::{self, ExtentMapFlags},
        free_extent::FreedExtent,
        intent::{MapExtent, PhysicalExtent},
        reference_count,
        reverse_map::{self, ReverseMapFlags},
    },
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber},
};
use zerocopy::little_endian::{U32, U64};

use super::{FreedOwner, queue::Work};

/// The extent of an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentExtent {
    /// Of an RUI.
    ReverseMap(MapExtent),
    /// Of a BUI.
    ExtentMap(MapExtent),
    /// Of a CUI.
    ReferenceCount(PhysicalExtent),
    /// Of an EFI. It does not say who owned the blocks.
    Free(FreedExtent),
}

impl Work {
    /// The extent that stands for this work in an intent; `None` for blocks outside the file system, and for attributes,
    /// whose intents hold none ([`AttributeChange`](super::attribute_change::AttributeChange)).
    pub fn to_intent(&self, geometry: &Geometry) -> Option<IntentExtent> {
        let place = |start: AgBlock| {
            let start = geometry.fs_block(self.group()?, start)?;
            Some(U64::new(start.get()))
        };
        Some(match self {
            Self::Owners { operation, mapping, .. } => {
                let mut flags = ReverseMapFlags::empty();
                flags.set(ReverseMapFlags::ATTRIBUTE_FORK, mapping.is_attribute_fork);
                flags.set(ReverseMapFlags::EXTENT_MAP_BLOCK, mapping.is_extent_map_block);
                flags.set(ReverseMapFlags::UNWRITTEN, mapping.is_unwritten);
                IntentExtent::ReverseMap(MapExtent {
                    owner: U64::new(mapping.owner.raw()),
                    start_block: place(mapping.start)?,
                    start_offset_blocks: U64::new(mapping.file_block.get()),
                    length_blocks: U32::new(mapping.length_blocks),
                    flags: U32::new(operation.code() | flags.bits()),
                })
            }
            Self::References { operation, start, length_blocks, .. } => {
                IntentExtent::ReferenceCount(PhysicalExtent {
                    start_block: place(*start)?,
                    length_blocks: U32::new(*length_blocks),
                    flags: U32::new(operation.code()),
                })
            }
            Self::ExtentMap { operation, inode, fork, extent } => {
                let mut flags = ExtentMapFlags::empty();
                flags.set(ExtentMapFlags::ATTRIBUTE_FORK, *fork == Fork::Attribute);
                flags.set(ExtentMapFlags::UNWRITTEN, extent.is_unwritten);
                IntentExtent::ExtentMap(MapExtent {
                    owner: U64::new(inode.get()),
                    start_block: U64::new(extent.start.get()),
                    start_offset_blocks: U64::new(extent.file_block.get()),
                    length_blocks: U32::new(u32::try_from(extent.length_blocks).ok()?),
                    flags: U32::new(operation.code() | flags.bits()),
                })
            }
            Self::Attribute(_) => return None,
            Self::Free { start, length_blocks, .. } => IntentExtent::Free(FreedExtent {
                start_block: place(*start)?,
                length_blocks: U32::new(*length_blocks),
                padding: U32::new(0),
            }),
        })
    }

    /// The work that an intent's extent stands for; `None` where it makes no sense.
    pub fn from_intent(intent: &IntentExtent, geometry: &Geometry) -> Option<Self> {
        let place = |start: U64, length_blocks: U32| -> Option<(AgNumber, AgBlock, u32)> {
            let (start, length_blocks) = (FsBlock::new(start.get()), length_blocks.get());
            if !geometry.contains_extent(start, length_blocks.into()) {
                return None;
            }
            let (group, start) = geometry.split_fs_block(start)?;
            Some((group, start, length_blocks))
        };
        Some(match intent {
            IntentExtent::ReverseMap(extent) => {
                let (group, start, length_blocks) = place(extent.start_block, extent.length_blocks)?;
                let flags = ReverseMapFlags::from_bits_truncate(extent.flags.get());
                let mapping = Mapping {
                    start,
                    length_blocks,
                    owner: Owner::from_raw(extent.owner.get()),
                    file_block: FileBlock::new(extent.start_offset_blocks.get()),
                    is_attribute_fork: flags.contains(ReverseMapFlags::ATTRIBUTE_FORK),
                    is_extent_map_block: flags.contains(ReverseMapFlags::EXTENT_MAP_BLOCK),
                    is_unwritten: flags.contains(ReverseMapFlags::UNWRITTEN),
                };
                Self::Owners { operation: reverse_map::operation(extent.flags.get())?, group, mapping }
            }
            IntentExtent::ExtentMap(extent) => {
                place(extent.start_block, extent.length_blocks)?;
                let flags = ExtentMapFlags::from_bits_truncate(extent.flags.get());
                let is_attribute = flags.contains(ExtentMapFlags::ATTRIBUTE_FORK);
                Self::ExtentMap {
                    operation: extent_map::operation(extent.flags.get())?,
                    inode: InodeNumber::new(extent.owner.get()),
                    fork: if is_attribute { Fork::Attribute } else { Fork::Data },
                    extent: Extent {
                        file_block: FileBlock::new(extent.start_offset_blocks.get()),
                        start: FsBlock::new(extent.start_block.get()),
                        length_blocks: extent.length_blocks.get().into(),
                        is_unwritten: flags.contains(ExtentMapFlags::UNWRITTEN),
                    },
                }
            }
            IntentExtent::ReferenceCount(extent) => {
                let (group, start, length_blocks) = place(extent.start_block, extent.length_blocks)?;
                let operation = reference_count::operation(extent.flags.get())?;
                Self::References { operation, group, start, length_blocks }
            }
            IntentExtent::Free(extent) => {
                let (group, start, length_blocks) = place(extent.start_block, extent.length_blocks)?;
                Self::Free { group, start, length_blocks, owner: FreedOwner::Unknown }
            }
        })
    }
}

#[cfg(test)]
#[path = "intent_tests.rs"]
mod tests;

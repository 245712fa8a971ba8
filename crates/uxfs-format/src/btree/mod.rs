//! B+trees: one block format, seven kinds of tree.
//!
//! ```text
//! leaf   │ header │ record 1 … record n │ unused              │
//! node   │ header │ key 1 … key n │ unused │ pointer 1 … n │ unused │
//!                                 ▲ pointers begin behind room for the *most* keys, not behind the last one
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`block_header`] | the short header (trees of a group) and the long one (trees of an inode) |
//! | [`block`] | views of whole blocks, generic over the kind of tree |
//! | [`block_edit`] | the same, to be changed |
//! | [`check`] | the verifier of one block, generic over the kind of tree |
//! | [`levels`] | how high each kind of tree may become |
//! | [`free_space`] | bnobt, cntbt: free extents by block and by length |
//! | [`inode_index`] | inobt, finobt: inode chunks |
//! | [`reverse_map`] | rmapbt: owners of extents |
//! | [`reference_count`] | refcountbt: shared extents |
//! | [`extent_map`] | bmbt: extents of a fork, with the root inside the inode |
//!
//! A kind of tree is a type without values that implements [`BtreeKind`]: magic number, record, key, order.

use std::fmt;

use crate::{
    field_table::{Field, FieldFormat, OnDisk},
    geometry::Geometry,
    structure::Structure,
    units::{AgBlock, AgNumber, FsBlock, Sector},
};

pub mod block;
pub mod block_edit;
pub mod block_header;
pub mod check;
pub mod extent_map;
pub mod free_space;
#[cfg(test)]
pub(crate) mod golden;
pub mod inode_index;
pub mod levels;
pub mod reference_count;
pub mod reverse_map;

use block_header::BlockHeader;
use check::RecordFault;

/// "MAPR", recognised but not read.
#[doc(alias = "XFS_RTRMAP_CRC_MAGIC")]
pub const REALTIME_REVERSE_MAP_MAGIC: u32 = 0x4d41_5052;
/// "RCNT", recognised but not read.
#[doc(alias = "XFS_RTREFC_CRC_MAGIC")]
pub const REALTIME_REFERENCE_COUNT_MAGIC: u32 = 0x5243_4e54;

/// One kind of tree: what its records and keys are, and how they are ordered.
pub trait BtreeKind: 'static + Copy + fmt::Debug {
    /// Header of its blocks, which also decides how wide pointers are.
    type Header: BlockHeader;
    /// Records of the leaves.
    type Record: OnDisk + Copy + fmt::Debug + PartialEq;
    /// Keys of the nodes, one for each child. In trees of overlapping extents (reverse map) it is a pair of keys.
    type Key: OnDisk + Copy + fmt::Debug + PartialEq;
    /// A key in the form in which it is compared.
    type Position: Ord + Copy + fmt::Debug;

    /// First four bytes of every block.
    const MAGIC: u32;
    /// Its name in messages and in the verifier table.
    const STRUCTURE: Structure;

    /// Where a record stands in the order of the tree.
    fn position_of_record(record: &Self::Record) -> Self::Position;

    /// Where the first record below a key stands in the order of the tree.
    fn position_of_key(key: &Self::Key) -> Self::Position;

    /// The key of a node entry whose child holds this record alone.
    fn key_of_record(record: &Self::Record) -> Self::Key;

    /// Whether keys say how far the records below reach, so that a change of any record may change them.
    const HAS_HIGH_KEYS: bool = false;

    /// Makes a key reach at least as far as `other`. Does nothing in trees whose keys only say where a child begins.
    fn widen_key(_key: &mut Self::Key, _other: &Self::Key) {}

    /// Whether a key reaches no farther than `part`, the key of something below it: without that, it may shrink.
    fn reaches_only_to(_key: &Self::Key, _part: &Self::Key) -> bool {
        false
    }

    /// Whether `next` may follow directly on `previous` in a leaf: in order, and without overlap where the kind
    /// forbids it.
    fn may_follow(previous: &Self::Record, next: &Self::Record) -> bool;

    /// Whether `next` may follow directly on `previous` in a node.
    fn key_may_follow(previous: &Self::Key, next: &Self::Key) -> bool {
        Self::position_of_key(previous) < Self::position_of_key(next)
    }

    /// Checks one record against the bounds of the file system, and of `group` for the trees of a group.
    ///
    /// # Errors
    /// The first check that fails.
    fn verify_record(
        record: &Self::Record,
        geometry: &Geometry,
        group: Option<AgNumber>,
    ) -> Result<(), RecordFault>;

    /// Most levels that such a tree can have in this file system.
    fn max_levels(geometry: &Geometry) -> u32;

    /// Most records that fit in a leaf.
    #[inline]
    fn max_leaf_records(block_size_bytes: u32) -> u32 {
        fitting(block_size_bytes, Self::Header::SIZE_BYTES, Self::Record::SIZE_BYTES)
    }

    /// Most entries that fit in a node.
    #[inline]
    fn max_node_entries(block_size_bytes: u32) -> u32 {
        let pointer = size_of::<<Self::Header as BlockHeader>::Pointer>();
        fitting(block_size_bytes, Self::Header::SIZE_BYTES, Self::Key::SIZE_BYTES.wrapping_add(pointer))
    }

    /// Most records or entries that fit in a block of `level`, 0 for leaves.
    #[inline]
    fn max_entries(block_size_bytes: u32, level: u16) -> u32 {
        match level {
            0 => Self::max_leaf_records(block_size_bytes),
            _ => Self::max_node_entries(block_size_bytes),
        }
    }

    /// Fewest records or entries in a block of `level` that is not the root.
    #[inline]
    fn min_entries(block_size_bytes: u32, level: u16) -> u32 {
        Self::max_entries(block_size_bytes, level) >> 1
    }
}

/// A field of a bit-packed record, for its field table.
const fn bit_field(name: &'static str, bit_offset: u32, bit_length: u32, format: FieldFormat) -> Field {
    Field { name, bit_offset, bit_length, count: 1, format, little_endian: false }
}

/// Whether `length_blocks` (at least 1) blocks from `start` lie within the group and behind its headers.
fn is_group_extent(geometry: &Geometry, group: Option<AgNumber>, start: AgBlock, length_blocks: u32) -> bool {
    let group_length = group.and_then(|group| geometry.group_length_blocks(group)).unwrap_or(0);
    let end = start.get().checked_add(length_blocks);
    length_blocks > 0
        && start.get() >= geometry.group_header_blocks()
        && end.is_some_and(|end| end <= group_length)
}

/// The name of the tree whose blocks begin with `magic`, realtime trees (whose roots lie in inodes of the metadata
/// directory) included.
pub fn name_of_magic(magic: u32) -> Option<&'static str> {
    Some(match magic {
        free_space::BY_BLOCK_MAGIC => Structure::FreeSpaceByBlock.name(),
        free_space::BY_LENGTH_MAGIC => Structure::FreeSpaceByLength.name(),
        inode_index::MAGIC => Structure::InodeIndex.name(),
        inode_index::FREE_MAGIC => Structure::FreeInodeIndex.name(),
        reverse_map::MAGIC => Structure::ReverseMap.name(),
        reference_count::MAGIC => Structure::ReferenceCount.name(),
        extent_map::MAGIC => Structure::ExtentMap.name(),
        REALTIME_REVERSE_MAP_MAGIC => "realtime reverse mapping btree (rtrmapbt)",
        REALTIME_REFERENCE_COUNT_MAGIC => "realtime reference count btree (rtrefcountbt)",
        _ => return None,
    })
}

/// How many entries of a size fit behind a header.
#[inline]
fn fitting(block_size_bytes: u32, header_bytes: usize, entry_bytes: usize) -> u32 {
    let room = u64::from(block_size_bytes).saturating_sub(crate::convert::to_u64(header_bytes));
    let count = room.checked_div(crate::convert::to_u64(entry_bytes)).unwrap_or(0);
    crate::convert::low_u32(count)
}

/// A block number in a node or header, as it lies on disk.
pub trait BlockPointer:
    zerocopy::FromBytes
    + zerocopy::IntoBytes
    + zerocopy::KnownLayout
    + zerocopy::Immutable
    + zerocopy::Unaligned
    + Copy
    + PartialEq
    + fmt::Debug
{
    /// Its address space: blocks of one group or of the file system.
    type Address: Copy + Eq + fmt::Debug + fmt::Display;

    /// In host order. All ones means "none".
    fn address(self) -> Self::Address;

    /// From host order.
    fn from_address(address: Self::Address) -> Self;

    /// The on-disk "none".
    const NULL: Self;

    /// Widened, for messages.
    fn raw(self) -> u64;

    /// From a wide number, whose upper bits narrow pointers do not keep.
    fn of_raw(raw: u64) -> Self;

    /// Whether it is the on-disk "none".
    fn is_null(self) -> bool;

    /// Whether the block exists and can hold metadata: not one of the group's headers. `group` is the one that
    /// the pointer was read from.
    fn is_possible(self, geometry: &Geometry, group: Option<AgNumber>) -> bool;

    /// First sector of the block, if it exists.
    fn sector(self, geometry: &Geometry, group: Option<AgNumber>) -> Option<Sector>;
}

impl BlockPointer for zerocopy::big_endian::U32 {
    type Address = AgBlock;

    #[inline]
    fn address(self) -> AgBlock {
        AgBlock::new(self.get())
    }

    #[inline]
    fn from_address(address: AgBlock) -> Self {
        Self::new(address.get())
    }

    const NULL: Self = Self::MAX_VALUE;

    #[inline]
    fn raw(self) -> u64 {
        self.get().into()
    }

    #[inline]
    fn of_raw(raw: u64) -> Self {
        Self::new(crate::convert::low_u32(raw))
    }

    #[inline]
    fn is_null(self) -> bool {
        self.address().is_null()
    }

    #[inline]
    fn is_possible(self, geometry: &Geometry, group: Option<AgNumber>) -> bool {
        let length = group.and_then(|group| geometry.group_length_blocks(group)).unwrap_or(0);
        (geometry.group_header_blocks()..length).contains(&self.get())
    }

    #[inline]
    fn sector(self, geometry: &Geometry, group: Option<AgNumber>) -> Option<Sector> {
        geometry.sector_of_group_block(group?, self.address())
    }
}

impl BlockPointer for zerocopy::big_endian::U64 {
    type Address = FsBlock;

    #[inline]
    fn address(self) -> FsBlock {
        FsBlock::new(self.get())
    }

    #[inline]
    fn from_address(address: FsBlock) -> Self {
        Self::new(address.get())
    }

    const NULL: Self = Self::MAX_VALUE;

    #[inline]
    fn raw(self) -> u64 {
        self.get()
    }

    #[inline]
    fn of_raw(raw: u64) -> Self {
        Self::new(raw)
    }

    #[inline]
    fn is_null(self) -> bool {
        self.address().is_null()
    }

    #[inline]
    fn is_possible(self, geometry: &Geometry, _: Option<AgNumber>) -> bool {
        let place = geometry.split_fs_block(self.address());
        place.is_some_and(|(_, block)| block.get() >= geometry.group_header_blocks())
    }

    #[inline]
    fn sector(self, geometry: &Geometry, _: Option<AgNumber>) -> Option<Sector> {
        geometry.sector_of_block(self.address())
    }
}

//! Structures as trees of named fields with their exact bits: what `uxfs inspect` prints, what its JSON holds and
//! what the field fuzzer damages.
//!
//! [`describe`] looks at bytes of one structure, however damaged, and says where every field lies. Fixed parts come
//! from the structures' own field tables; counts, offsets and formats found in the bytes lead to the variable
//! parts. Nothing is verified here: a count that the block cannot hold is cut to what it can, and a part that
//! cannot be found is left out. Values are read from the bytes when they are printed ([`value`]).
//!
//! | module | holds |
//! |---|---|
//! | [`value`] | reading a field's bits and writing them for people |
//! | [`text`] | the tree as `xfs_db print` writes it |
//! | [`leaves`] | the tree as a flat list of fuzzable fields |
//! | `superblock`, `group`, `btree`, `inode`, `name_tree`, `directory`, `attribute`, `quota` | one family of structures each |

use std::borrow::Cow;

use crate::{
    btree::{
        extent_map::ExtentMap,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    convert::{low_u32, to_u64},
    field_table::{Field, FieldFormat, OnDisk, bits},
    geometry::Geometry,
    structure::Structure,
};

mod attribute;
mod btree;
mod directory;
mod group;
mod inode;
pub mod leaves;
mod name_tree;
mod quota;
mod superblock;
pub mod text;
pub mod value;

/// A structure as a tree. All bit offsets count from the first bit of the bytes that were described.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// In the order in which `xfs_db` prints them.
    pub nodes: Vec<Node>,
}

/// One named part of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// As `xfs_db` prints it; may hold dots.
    pub name: Cow<'static, str>,
    /// Its kind.
    pub content: Content,
}

/// Bits and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First bit, most significant bit first.
    pub bit_offset: u32,
    /// How many. Over 64 only for text, bytes and uuids.
    pub bit_length: u32,
    /// How the value is written.
    pub format: Format,
    /// Whether the least significant byte comes first. Only whole bytes can be so.
    pub little_endian: bool,
}

/// How a value is written: that of the field table, or one that depends on other fields of the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// By the field table.
    Table(FieldFormat),
    /// An inode's time: nanoseconds since 1901 where `bigtime`, else seconds and nanoseconds.
    Time {
        /// The inode's flag.
        bigtime: bool,
    },
    /// A quota record's timer: a quarter of seconds where `bigtime`.
    QuotaTimer {
        /// The record's flag.
        bigtime: bool,
        /// A length of time rather than a moment (the record of id 0 holds the grace periods).
        period: bool,
    },
}

impl From<FieldFormat> for Format {
    fn from(format: FieldFormat) -> Self {
        Self::Table(format)
    }
}

/// Kinds of [`Node`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// One value.
    Field(Place),
    /// Equal values one after the other.
    Array {
        /// Index of the first: 0, or 1 in btrees.
        first_index: u32,
        /// How many.
        count: u32,
        /// The first of them.
        first: Place,
    },
    /// Equal records one after the other.
    Table {
        /// Index of the first: 0, or 1 in btrees.
        first_index: u32,
        /// How many.
        count: u32,
        /// First bit of the first record.
        bit_offset: u32,
        /// Bits from one record to the next.
        stride_bits: u32,
        /// Fields of a record, from its first bit, in the order of printing.
        columns: Vec<Field>,
    },
    /// Parts with a common prefix.
    Struct(Vec<Node>),
    /// Parts of varying shape with an index each.
    List(Vec<Vec<Node>>),
    /// A fork without contents.
    Empty,
}

/// Describes `bytes` as one `structure`. Never fails: what cannot be found is left out, and the result is bounded
/// by the length of the bytes.
pub fn describe(structure: Structure, bytes: &[u8], geometry: &Geometry) -> Description {
    let nodes = match structure {
        Structure::Superblock => superblock::nodes(bytes),
        Structure::FreeSpaceHeader => group::free_space_header_nodes(bytes),
        Structure::InodeHeader => group::inode_header_nodes(bytes),
        Structure::FreeList => group::free_list_nodes(bytes),
        Structure::FreeSpaceByBlock => {
            btree::block_nodes::<ByBlock>(bytes, btree::Layouts::usual::<ByBlock>())
        }
        Structure::FreeSpaceByLength => btree::block_nodes::<ByLength>(bytes, btree::Layouts::by_length()),
        Structure::InodeIndex => btree::block_nodes::<InodeIndex>(bytes, btree::Layouts::of_inodes(geometry)),
        Structure::FreeInodeIndex => {
            btree::block_nodes::<FreeInodeIndex>(bytes, btree::Layouts::of_inodes(geometry))
        }
        Structure::ReverseMap => {
            btree::block_nodes::<ReverseMap>(bytes, btree::Layouts::usual::<ReverseMap>())
        }
        Structure::ReferenceCount => {
            btree::block_nodes::<ReferenceCount>(bytes, btree::Layouts::usual::<ReferenceCount>())
        }
        Structure::ExtentMap => btree::block_nodes::<ExtentMap>(bytes, btree::Layouts::usual::<ExtentMap>()),
        Structure::Inode => inode::nodes(bytes, geometry),
        Structure::Symlink => inode::symlink_nodes(bytes),
        Structure::Quota => quota::nodes(bytes),
        Structure::DirectoryBlock => directory::block_nodes(bytes, geometry),
        Structure::DirectoryData => directory::data_nodes(bytes, geometry),
        Structure::DirectoryLeaf => directory::leaf_nodes(bytes, true),
        Structure::DirectoryLeafNode => directory::leaf_nodes(bytes, false),
        Structure::DirectoryNode => name_tree::nodes(bytes, name_tree::Owner::Directory),
        Structure::DirectoryFreeIndex => directory::free_index_nodes(bytes),
        Structure::DirectoryShortform => directory::shortform_nodes(bytes, 0, length_bytes(bytes), geometry),
        Structure::AttributeLeaf => attribute::leaf_nodes(bytes),
        Structure::AttributeNode => name_tree::nodes(bytes, name_tree::Owner::Attributes),
        Structure::AttributeRemoteValue => attribute::remote_nodes(bytes),
        Structure::AttributeShortform => attribute::shortform_nodes(bytes, 0, length_bytes(bytes)),
        _ => Vec::new(),
    };
    Description { nodes }
}

/// Describes `bytes` by a field table alone: for structures without variable parts.
pub fn describe_fields(fields: &[Field], bytes: &[u8]) -> Description {
    Description { nodes: fields.iter().filter_map(|field| table_field(bytes, 0, field)).collect() }
}

impl Node {
    /// One value.
    fn field(
        name: impl Into<Cow<'static, str>>,
        bit_offset: u32,
        bit_length: u32,
        format: FieldFormat,
    ) -> Self {
        Self::place(name, Place { bit_offset, bit_length, format: format.into(), little_endian: false })
    }

    /// One value at a place.
    fn place(name: impl Into<Cow<'static, str>>, place: Place) -> Self {
        Self { name: name.into(), content: Content::Field(place) }
    }

    /// Bytes as text. `None` where there are none or they do not lie within `bytes`.
    fn text(
        name: impl Into<Cow<'static, str>>,
        bytes: &[u8],
        offset_bytes: u32,
        length_bytes: u32,
    ) -> Option<Self> {
        let fits = u64::from(offset_bytes).saturating_add(length_bytes.into()) <= to_u64(bytes.len());
        (fits && length_bytes > 0).then(|| {
            Self::field(name, offset_bytes.wrapping_mul(8), length_bytes.wrapping_mul(8), FieldFormat::Text)
        })
    }

    /// Parts with a common prefix.
    fn group(name: impl Into<Cow<'static, str>>, nodes: Vec<Node>) -> Self {
        Self { name: name.into(), content: Content::Struct(nodes) }
    }

    /// Parts with an index each. `None` where there are none.
    fn list(name: impl Into<Cow<'static, str>>, elements: Vec<Vec<Node>>) -> Option<Self> {
        (!elements.is_empty()).then(|| Self { name: name.into(), content: Content::List(elements) })
    }

    /// Equal values, as many of `count` as `bytes` hold. `None` where that is none.
    fn array(
        name: impl Into<Cow<'static, str>>,
        bytes: &[u8],
        first_index: u32,
        count: u32,
        first: Place,
    ) -> Option<Self> {
        let count = count.min(room_for(bytes, first.bit_offset, first.bit_length));
        let content = Content::Array { first_index, count, first };
        (count > 0).then(|| Self { name: name.into(), content })
    }

    /// Equal records, as many of `count` as `bytes` hold. `None` where that is none.
    fn table(
        name: impl Into<Cow<'static, str>>,
        bytes: &[u8],
        (first_index, count): (u32, u32),
        bit_offset: u32,
        (stride_bits, columns): (u32, Vec<Field>),
    ) -> Option<Self> {
        let count = count.min(room_for(bytes, bit_offset, stride_bits));
        let content = Content::Table { first_index, count, bit_offset, stride_bits, columns };
        (count > 0).then(|| Self { name: name.into(), content })
    }
}

/// How many pieces of `stride_bits` fit into `bytes` from `bit_offset` on.
fn room_for(bytes: &[u8], bit_offset: u32, stride_bits: u32) -> u32 {
    bit_length(bytes).saturating_sub(bit_offset).checked_div(stride_bits).unwrap_or(0)
}

/// The length of `bytes`.
fn length_bytes(bytes: &[u8]) -> u32 {
    low_u32(to_u64(bytes.len()).min(u32::MAX.into()))
}

/// The length of `bytes` in bits. No structure reaches 512 MiB.
fn bit_length(bytes: &[u8]) -> u32 {
    low_u32(to_u64(bytes.len()).saturating_mul(8).min(u32::MAX.into()))
}

/// The fields of `Type`, which lies at `offset_bytes` of `bytes`, as far as they lie within them.
fn fields_of<Type: OnDisk>(bytes: &[u8], offset_bytes: u32) -> Vec<Node> {
    Type::FIELDS.iter().filter_map(|field| table_field(bytes, offset_bytes, field)).collect()
}

/// One field of a structure that lies at `offset_bytes` of `bytes`, if it lies within them.
fn table_field(bytes: &[u8], offset_bytes: u32, field: &Field) -> Option<Node> {
    let bit_offset = offset_bytes.checked_mul(8)?.checked_add(field.bit_offset)?;
    let end = bit_offset.checked_add(field.bit_length.checked_mul(field.count)?)?;
    if end > bit_length(bytes) {
        return None;
    }
    let little_endian = field.little_endian;
    let place =
        Place { bit_offset, bit_length: field.bit_length, format: field.format.into(), little_endian };
    if field.count == 1 {
        return Some(Node::place(field.name, place));
    }
    Node::array(field.name, bytes, 0, field.count, place)
}

/// Moves the names of `nodes` under a prefix, which may be empty.
fn prefixed(prefix: &'static str, nodes: Vec<Node>) -> Vec<Node> {
    if prefix.is_empty() || nodes.is_empty() {
        return nodes;
    }
    vec![Node::group(prefix, nodes)]
}

/// The size of a structure in bytes, for offsets.
fn size_of_structure<Type: OnDisk>() -> u32 {
    bits(Type::SIZE_BYTES).wrapping_div(8)
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;

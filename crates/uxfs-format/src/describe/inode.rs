//! Inodes with both forks, and extents of long symbolic links.

use super::{
    Content, Format, Node, Place, attribute, bit_length, btree, directory, fields_of, size_of_structure,
    table_field,
};
use crate::{
    btree::extent_map::ExtentRecord,
    convert::to_usize,
    field_table::{FieldFormat, OnDisk},
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{core::InodeCore, file_type::FileType, flags::InodeFlags2, symlink::SymlinkHeader},
};

/// Format codes of forks.
const DEVICE: u8 = 0;
const LOCAL: u8 = 1;
const EXTENTS: u8 = 2;
const BTREE: u8 = 3;

/// One inode; `bytes` are all of it and nothing more.
pub(super) fn nodes(bytes: &[u8], geometry: &Geometry) -> Vec<Node> {
    let Some(core) = InodeCore::prefix_of(bytes) else { return Vec::new() };
    let mut nodes = core_nodes(bytes, core);
    let inode_end = bit_length(bytes) >> 3;
    let fork_offset = u32::from(core.fork_offset).saturating_mul(8);
    let attribute_start = INODE_CORE_SIZE_BYTES.saturating_add(fork_offset);
    let data_end = if fork_offset == 0 { inode_end } else { attribute_start.min(inode_end) };
    nodes.push(fork_node("u3", data_fork(bytes, core, data_end, geometry)));
    if fork_offset != 0 && attribute_start < inode_end {
        nodes.push(fork_node("a", attribute_fork(bytes, core, attribute_start, inode_end)));
    }
    nodes
}

fn fork_node(name: &'static str, children: Vec<Node>) -> Node {
    if children.is_empty() {
        Node { name: name.into(), content: Content::Empty }
    } else {
        Node::group(name, children)
    }
}

/// The fields that are printed, then the words of the disk that are not printed whole.
fn core_nodes(bytes: &[u8], core: &InodeCore) -> Vec<Node> {
    let bigtime = core.flags2().contains(InodeFlags2::BIG_TIME);
    let mut nodes: Vec<Node> = core.print_fields().filter_map(|field| table_field(bytes, 0, field)).collect();
    for node in &mut nodes {
        if let Content::Field(place) = &mut node.content
            && place.format == Format::Table(FieldFormat::Timestamp)
        {
            place.format = Format::Time { bigtime };
        }
    }
    let is_printed = |place: &Place| {
        nodes.iter().any(|node| match &node.content {
            Content::Field(other) => {
                other.bit_offset == place.bit_offset && other.bit_length == place.bit_length
            }
            _ => false,
        })
    };
    let hidden =
        fields_of::<InodeCore>(bytes, 0).into_iter().filter_map(|mut node| match &mut node.content {
            Content::Field(place) if !is_printed(place) => {
                place.format = FieldFormat::Padding.into();
                Some(node)
            }
            _ => None,
        });
    let hidden: Vec<Node> = hidden.collect();
    nodes.extend(hidden);
    nodes
}

fn data_fork(bytes: &[u8], core: &InodeCore, end: u32, geometry: &Geometry) -> Vec<Node> {
    let start = INODE_CORE_SIZE_BYTES;
    let room = end.saturating_sub(start);
    match core.format {
        DEVICE => vec![Node::field("dev", start.saturating_mul(8), 32, FieldFormat::Hexadecimal)],
        LOCAL => match core.file_type() {
            Some(FileType::Directory) => {
                vec![Node::group("sfdir3", directory::shortform_nodes(bytes, start, end, geometry))]
            }
            file_type => {
                let name = if file_type == Some(FileType::SymbolicLink) { "symlink" } else { "c" };
                let length = u32::try_from(core.size_bytes.get()).unwrap_or(u32::MAX).min(room);
                Node::text(name, bytes, start, length).into_iter().collect()
            }
        },
        EXTENTS => extents(bytes, start, end, data_extent_count(core)),
        BTREE => vec![Node::group("bmbt", btree::fork_root_nodes(bytes, start, end))],
        _ => Vec::new(),
    }
}

fn attribute_fork(bytes: &[u8], core: &InodeCore, start: u32, end: u32) -> Vec<Node> {
    match core.attribute_format {
        LOCAL => vec![Node::group("sfattr", attribute::shortform_nodes(bytes, start, end))],
        EXTENTS => extents(bytes, start, end, attribute_extent_count(core)),
        BTREE => vec![Node::group("bmbt", btree::fork_root_nodes(bytes, start, end))],
        _ => Vec::new(),
    }
}

fn data_extent_count(core: &InodeCore) -> u64 {
    let is_large = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
    if is_large { core.large_extent_count.get() } else { core.extent_count.get().into() }
}

fn attribute_extent_count(core: &InodeCore) -> u64 {
    let is_large = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
    if is_large { core.extent_count.get().into() } else { core.attribute_extent_count.get().into() }
}

/// Extent records, as many of `count` as the fork holds.
fn extents(bytes: &[u8], start: u32, end: u32, count: u64) -> Vec<Node> {
    let fork = bytes.get(..to_usize(end)).unwrap_or(bytes);
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let layout = btree::record_layout::<ExtentRecord>();
    Node::table("bmx", fork, (0, count), start.saturating_mul(8), layout).into_iter().collect()
}

/// One extent of a long symbolic link.
pub(super) fn symlink_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = fields_of::<SymlinkHeader>(bytes, 0);
    let start = size_of_structure::<SymlinkHeader>();
    let room = (bit_length(bytes) >> 3).saturating_sub(start);
    let length = SymlinkHeader::prefix_of(bytes).map_or(0, |header| header.length_bytes.get().min(room));
    nodes.extend(Node::text("data", bytes, start, length));
    nodes
}

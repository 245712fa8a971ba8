//! Directory blocks of every kind, and directories inside their inode.

use super::{Node, Place, fields_of, prefixed, size_of_structure};
use crate::{
    convert::{low_u32, to_u64, to_usize},
    directory::{
        DATA_HEADER_BYTES, EntryFormat,
        block::BlockTail,
        data::{DataHeader, EntryHead, FREE_TAG, FreeHead},
        free_index::FreeIndexHeader,
        leaf::{LeafEntry, LeafHeader, LeafTail},
        shortform::{ShortformEntryHead, ShortformHeader, ShortformLargeHeader},
    },
    field_table::{FieldFormat, OnDisk, bits},
    geometry::Geometry,
};

/// The one block of a small directory.
pub(super) fn block_nodes(bytes: &[u8], geometry: &Geometry) -> Vec<Node> {
    let mut nodes = prefixed("bhdr", fields_of::<DataHeader>(bytes, 0));
    let length = low_u32(to_u64(bytes.len()));
    let tail_start = length.saturating_sub(size_of_structure::<BlockTail>());
    let tail = bytes.get(to_usize(tail_start)..).and_then(BlockTail::prefix_of);
    let Some(tail) = tail else { return nodes };
    let entry_size = size_of_structure::<LeafEntry>();
    let most = tail_start.saturating_sub(DATA_HEADER_BYTES).checked_div(entry_size).unwrap_or(0);
    let count = tail.count.get().min(most);
    let index_start = tail_start.saturating_sub(count.saturating_mul(entry_size));
    nodes.extend(Node::list("bu", record_nodes(bytes, index_start, geometry)));
    nodes.extend(Node::list("bleaf", index_nodes(bytes, index_start, count)));
    nodes.extend(prefixed("btail", fields_of::<BlockTail>(bytes, tail_start)));
    nodes
}

/// Data block of a larger directory.
pub(super) fn data_nodes(bytes: &[u8], geometry: &Geometry) -> Vec<Node> {
    let mut nodes = prefixed("dhdr", fields_of::<DataHeader>(bytes, 0));
    nodes.extend(Node::list("du", record_nodes(bytes, low_u32(to_u64(bytes.len())), geometry)));
    nodes
}

/// Entries and free regions up to `end_bytes`, or up to where they make no sense.
fn record_nodes(bytes: &[u8], end_bytes: u32, geometry: &Geometry) -> Vec<Vec<Node>> {
    let mut records = Vec::new();
    let mut offset = DATA_HEADER_BYTES;
    while offset < end_bytes {
        let Some(rest) = bytes.get(to_usize(offset)..to_usize(end_bytes)) else { break };
        let record = match FreeHead::prefix_of(rest) {
            Some(head) if head.free_tag.get() == FREE_TAG => {
                free_region(bytes, offset, head.length_bytes.get())
            }
            Some(_) => entry(bytes, offset, EntryFormat::of(geometry)),
            None => None,
        };
        let Some((nodes, length_bytes)) = record else { break };
        if u64::from(length_bytes) > to_u64(rest.len()) {
            break;
        }
        records.push(nodes);
        offset = offset.saturating_add(length_bytes);
    }
    records
}

/// A free region and how long it is; always at least 8 bytes.
fn free_region(bytes: &[u8], offset: u32, length_bytes: u16) -> Option<(Vec<Node>, u32)> {
    let length_bytes = u32::from(length_bytes);
    if length_bytes < 8 || length_bytes & 7 != 0 {
        return None;
    }
    let mut nodes = fields_of::<FreeHead>(bytes, offset);
    nodes.push(tag(offset, length_bytes));
    Some((nodes, length_bytes))
}

/// An entry and how long it is.
fn entry(bytes: &[u8], offset: u32, format: EntryFormat) -> Option<(Vec<Node>, u32)> {
    let head = EntryHead::prefix_of(bytes.get(to_usize(offset)..)?)?;
    let name_length = u32::from(head.name_length);
    let length_bytes = format.entry_size_bytes(head.name_length);
    let mut nodes = fields_of::<EntryHead>(bytes, offset);
    let name = offset.saturating_add(size_of_structure::<EntryHead>());
    nodes.extend(Node::text("name", bytes, name, name_length));
    if format.has_file_type {
        let bit_offset = name.saturating_add(name_length).saturating_mul(8);
        nodes.push(Node::field("filetype", bit_offset, 8, FieldFormat::Decimal));
    }
    nodes.push(tag(offset, length_bytes));
    Some((nodes, length_bytes))
}

/// The last two bytes of a record.
fn tag(offset: u32, length_bytes: u32) -> Node {
    let bit_offset = offset.saturating_add(length_bytes).saturating_sub(2).saturating_mul(8);
    Node::field("tag", bit_offset, 16, FieldFormat::Hexadecimal)
}

/// Index entries.
fn index_nodes(bytes: &[u8], start_bytes: u32, count: u32) -> Vec<Vec<Node>> {
    let size = size_of_structure::<LeafEntry>();
    let room = low_u32(to_u64(bytes.len())).saturating_sub(start_bytes).checked_div(size).unwrap_or(0);
    (0..count.min(room))
        .map(|index| fields_of::<LeafEntry>(bytes, start_bytes.saturating_add(size.saturating_mul(index))))
        .collect()
}

/// Leaf of a directory; with bests where it is the only one.
pub(super) fn leaf_nodes(bytes: &[u8], has_bests: bool) -> Vec<Node> {
    let mut nodes = prefixed("lhdr", fields_of::<LeafHeader>(bytes, 0));
    let Some(header) = LeafHeader::prefix_of(bytes) else { return nodes };
    let length = low_u32(to_u64(bytes.len()));
    let start = size_of_structure::<LeafHeader>();
    let entries = index_nodes(bytes, start, header.count.get().into());
    if !has_bests {
        nodes.extend(Node::list("lents", entries));
        return nodes;
    }
    let tail_start = length.saturating_sub(size_of_structure::<LeafTail>());
    let best_count = bytes
        .get(to_usize(tail_start)..)
        .and_then(LeafTail::prefix_of)
        .map_or(0, |tail| tail.best_count.get());
    let best_count = best_count.min(tail_start.saturating_sub(start) >> 1);
    let first = Place {
        bit_offset: tail_start.saturating_sub(best_count.saturating_mul(2)).saturating_mul(8),
        bit_length: 16,
        format: FieldFormat::Hexadecimal.into(),
        little_endian: false,
    };
    nodes.extend(Node::array("lbests", bytes, 0, best_count, first));
    nodes.extend(Node::list("lents", entries));
    nodes.extend(prefixed("ltail", fields_of::<LeafTail>(bytes, tail_start)));
    nodes
}

/// Free index of a node directory.
pub(super) fn free_index_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = prefixed("fhdr", fields_of::<FreeIndexHeader>(bytes, 0));
    let Some(header) = FreeIndexHeader::prefix_of(bytes) else { return nodes };
    let first = Place {
        bit_offset: bits(FreeIndexHeader::SIZE_BYTES),
        bit_length: 16,
        format: FieldFormat::HexadecimalUnlessZero.into(),
        little_endian: false,
    };
    nodes.extend(Node::array("fbests", bytes, 0, header.valid.get(), first));
    nodes
}

/// A directory inside its inode: `start_bytes` to `end_bytes`.
pub(super) fn shortform_nodes(
    bytes: &[u8],
    start_bytes: u32,
    end_bytes: u32,
    geometry: &Geometry,
) -> Vec<Node> {
    let fork = bytes.get(..to_usize(end_bytes)).unwrap_or(bytes);
    let Some(header) = fork.get(to_usize(start_bytes)..).and_then(ShortformHeader::prefix_of) else {
        return Vec::new();
    };
    let is_large = header.large_count != 0;
    let (header_nodes, header_size) = if is_large {
        (fields_of::<ShortformLargeHeader>(fork, start_bytes), size_of_structure::<ShortformLargeHeader>())
    } else {
        (fields_of::<ShortformHeader>(fork, start_bytes), size_of_structure::<ShortformHeader>())
    };
    let mut nodes = prefixed("hdr", header_nodes);
    let mut entries = Vec::new();
    let mut offset = start_bytes.saturating_add(header_size);
    for _ in 0..header.count {
        let Some((entry, next)) = shortform_entry(fork, offset, is_large, EntryFormat::of(geometry)) else {
            break;
        };
        entries.push(entry);
        offset = next;
    }
    nodes.extend(Node::list("list", entries));
    nodes
}

/// One entry, and where the next begins.
fn shortform_entry(
    fork: &[u8],
    offset: u32,
    is_large: bool,
    format: EntryFormat,
) -> Option<(Vec<Node>, u32)> {
    let head = ShortformEntryHead::prefix_of(fork.get(to_usize(offset)..)?)?;
    let mut nodes = fields_of::<ShortformEntryHead>(fork, offset);
    let name = offset.saturating_add(size_of_structure::<ShortformEntryHead>());
    nodes.extend(Node::text("name", fork, name, head.name_length.into()));
    let file_type = name.saturating_add(head.name_length.into());
    let inode = file_type.saturating_add(format.has_file_type.into());
    let (inode_name, inode_size) = if is_large { ("inumber.i8", 8) } else { ("inumber.i4", 4) };
    let end = inode.saturating_add(inode_size);
    if u64::from(end) > to_u64(fork.len()) {
        return None;
    }
    let bit = |byte: u32| byte.saturating_mul(8);
    nodes.push(Node::field(inode_name, bit(inode), bit(inode_size), FieldFormat::Decimal));
    if format.has_file_type {
        nodes.push(Node::field("filetype", bit(file_type), 8, FieldFormat::Decimal));
    }
    Some((nodes, end))
}

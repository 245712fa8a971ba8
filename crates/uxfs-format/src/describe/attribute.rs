//! Attribute leaves, blocks of remote values, and attributes inside their inode.

use super::{Content, Node, fields_of, prefixed, size_of_structure};
use crate::{
    attribute::{
        flags::AttributeFlags,
        leaf::{FreeRegion, LeafEntry, LeafHeader, LocalHead, RemoteHead},
        parent_pointer::ParentRecord,
        remote::RemoteHeader,
        shortform::{ShortformEntryHead, ShortformHeader},
    },
    convert::to_usize,
    field_table::{Field, OnDisk, bits},
};

/// Columns of leaf entries in the order of printing; filler comes behind them.
const ENTRY_ORDER: [&str; 7] = ["hashval", "nameidx", "incomplete", "root", "secure", "local", "parent"];
/// The same for entries inside an inode.
const SHORTFORM_ORDER: [&str; 5] = ["namelen", "valuelen", "root", "secure", "parent"];

/// A leaf of attributes.
pub(super) fn leaf_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut header_nodes = fields_of::<LeafHeader>(bytes, 0);
    // The map of free regions is printed as a table.
    let is_map = |node: &Node| node.name.starts_with("freemap[");
    let first_of_map = header_nodes.iter().find_map(|node| match node.content {
        Content::Field(place) if is_map(node) => Some(place.bit_offset),
        _ => None,
    });
    header_nodes.retain(|node| !is_map(node));
    if let Some(bit_offset) = first_of_map {
        let layout = (bits(FreeRegion::SIZE_BYTES), FreeRegion::FIELDS.to_vec());
        header_nodes.extend(Node::table("freemap", bytes, (0, 3), bit_offset, layout));
    }
    let mut nodes = prefixed("hdr", header_nodes);
    let count = LeafHeader::prefix_of(bytes).map_or(0, |header| header.count.get().into());
    let start = size_of_structure::<LeafHeader>();
    let layout = (bits(LeafEntry::SIZE_BYTES), in_order(LeafEntry::FIELDS, &ENTRY_ORDER));
    nodes.extend(Node::table("entries", bytes, (0, count), start.saturating_mul(8), layout));
    let size = size_of_structure::<LeafEntry>();
    let entries = (0..count).map_while(|index| {
        let offset = start.saturating_add(size.saturating_mul(index));
        LeafEntry::prefix_of(bytes.get(to_usize(offset)..)?)
    });
    nodes.extend(Node::list("nvlist", entries.map(|entry| name_and_value(bytes, entry)).collect()));
    nodes
}

/// The table's fields with the named ones first.
fn in_order(fields: &[Field], order: &[&str]) -> Vec<Field> {
    let mut columns = fields.to_vec();
    columns.sort_by_key(|column| order.iter().position(|name| *name == column.name).unwrap_or(order.len()));
    columns
}

/// The contents that a leaf entry points to. Empty where it points outside.
fn name_and_value(bytes: &[u8], entry: &LeafEntry) -> Vec<Node> {
    let offset = u32::from(entry.name_offset.get());
    let Some(rest) = bytes.get(to_usize(offset)..) else { return Vec::new() };
    if !entry.flags().contains(AttributeFlags::LOCAL) {
        let mut nodes = fields_of::<RemoteHead>(bytes, offset);
        let name = offset.saturating_add(size_of_structure::<RemoteHead>());
        let name_length = RemoteHead::prefix_of(rest).map_or(0, |head| head.name_length);
        nodes.extend(Node::text("name", bytes, name, name_length.into()));
        return nodes;
    }
    let mut nodes = fields_of::<LocalHead>(bytes, offset);
    let Some(head) = LocalHead::prefix_of(rest) else { return nodes };
    let name = offset.saturating_add(size_of_structure::<LocalHead>());
    nodes.extend(Node::text("name", bytes, name, head.name_length.into()));
    let value = name.saturating_add(head.name_length.into());
    let is_parent = entry.flags().contains(AttributeFlags::PARENT);
    nodes.extend(value_nodes(bytes, value, head.value_length.get().into(), is_parent));
    nodes
}

/// The value of an attribute: text, or a parent pointer.
fn value_nodes(bytes: &[u8], offset: u32, length: u32, is_parent: bool) -> Vec<Node> {
    if is_parent && length == size_of_structure::<ParentRecord>() {
        return prefixed("parent_dir", fields_of::<ParentRecord>(bytes, offset));
    }
    Node::text("value", bytes, offset, length).into_iter().collect()
}

/// A block of a remote value.
pub(super) fn remote_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = fields_of::<RemoteHeader>(bytes, 0);
    let start = size_of_structure::<RemoteHeader>();
    let room = super::bit_length(bytes).wrapping_div(8).saturating_sub(start);
    let length = RemoteHeader::prefix_of(bytes).map_or(0, |header| header.length_bytes.get().min(room));
    nodes.extend(Node::text("data", bytes, start, length));
    nodes
}

/// Attributes inside their inode: `start_bytes` to `end_bytes`.
pub(super) fn shortform_nodes(bytes: &[u8], start_bytes: u32, end_bytes: u32) -> Vec<Node> {
    let fork = bytes.get(..to_usize(end_bytes)).unwrap_or(bytes);
    let mut nodes = prefixed("hdr", fields_of::<ShortformHeader>(fork, start_bytes));
    let count = fork
        .get(to_usize(start_bytes)..)
        .and_then(ShortformHeader::prefix_of)
        .map_or(0, |header| header.count);
    let mut entries = Vec::new();
    let mut offset = start_bytes.saturating_add(size_of_structure::<ShortformHeader>());
    for _ in 0..count {
        let Some((entry, next)) = shortform_entry(fork, offset) else { break };
        entries.push(entry);
        offset = next;
    }
    nodes.extend(Node::list("list", entries));
    nodes
}

/// One entry, and where the next begins.
fn shortform_entry(fork: &[u8], offset: u32) -> Option<(Vec<Node>, u32)> {
    let head = ShortformEntryHead::prefix_of(fork.get(to_usize(offset)..)?)?;
    let columns = in_order(ShortformEntryHead::FIELDS, &SHORTFORM_ORDER);
    let mut nodes: Vec<Node> =
        columns.iter().filter_map(|field| super::table_field(fork, offset, field)).collect();
    let name = offset.saturating_add(size_of_structure::<ShortformEntryHead>());
    nodes.extend(Node::text("name", fork, name, head.name_length.into()));
    let value = name.saturating_add(head.name_length.into());
    let is_parent = AttributeFlags::from_bits_retain(head.flags).contains(AttributeFlags::PARENT);
    nodes.extend(value_nodes(fork, value, head.value_length.into(), is_parent));
    let end = value.saturating_add(head.value_length.into());
    (to_usize(end) <= fork.len()).then_some((nodes, end))
}

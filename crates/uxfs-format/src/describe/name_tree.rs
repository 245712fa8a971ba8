//! Interior blocks of the trees of name hashes that directories and attributes share.

use super::{Node, fields_of, prefixed};
use crate::{
    field_table::{OnDisk, bits},
    name_tree::node::{NodeEntry, NodeHeader},
};

/// The names that `xfs_db` gives to header and entries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    Directory,
    Attributes,
}

/// An interior block.
pub(super) fn nodes(bytes: &[u8], owner: Owner) -> Vec<Node> {
    let (header_name, entries_name) = match owner {
        Owner::Directory => ("nhdr", "nbtree"),
        Owner::Attributes => ("hdr", "btree"),
    };
    let mut nodes = prefixed(header_name, fields_of::<NodeHeader>(bytes, 0));
    let count = NodeHeader::prefix_of(bytes).map_or(0, |header| header.count.get().into());
    let layout = (bits(NodeEntry::SIZE_BYTES), NodeEntry::FIELDS.to_vec());
    nodes.extend(Node::table(entries_name, bytes, (0, count), bits(NodeHeader::SIZE_BYTES), layout));
    nodes
}

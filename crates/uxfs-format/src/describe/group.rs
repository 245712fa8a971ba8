//! Headers of allocation groups.

use super::{Node, Place, bit_length, fields_of};
use crate::{
    allocation_group::{
        free_list::{FreeListHeader, FreeListSlot},
        free_space_header::FreeSpaceHeader,
        inode_header::InodeHeader,
    },
    field_table::{FieldFormat, OnDisk, bits},
};

/// Fields of an AGF that `xfs_db` prints in another order than that on disk: each comes behind its neighbour here.
const PRINTED_BEHIND: [(&str, &str); 4] = [
    ("refcntroot", "rmaproot"),
    ("refcntlevel", "rmaplevel"),
    ("rmapblocks", "refcntlevel"),
    ("refcntblocks", "rmapblocks"),
];

/// AGF.
pub(super) fn free_space_header_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = fields_of::<FreeSpaceHeader>(bytes, 0);
    for (name, neighbour) in PRINTED_BEHIND {
        let position = |nodes: &[Node], name: &str| nodes.iter().position(|node| node.name == name);
        let Some(from) = position(&nodes, name) else { continue };
        let node = nodes.remove(from);
        let to = position(&nodes, neighbour).map_or(nodes.len(), |index| index.saturating_add(1));
        nodes.insert(to, node);
    }
    nodes
}

/// AGI.
pub(super) fn inode_header_nodes(bytes: &[u8]) -> Vec<Node> {
    fields_of::<InodeHeader>(bytes, 0)
}

/// AGFL: as many slots as the sector has.
pub(super) fn free_list_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = fields_of::<FreeListHeader>(bytes, 0);
    let slot_bits = bits(FreeListSlot::SIZE_BYTES);
    let first = Place {
        bit_offset: bits(FreeListHeader::SIZE_BYTES),
        bit_length: slot_bits,
        format: FieldFormat::DecimalOrNullUnlessZero.into(),
        little_endian: false,
    };
    let slots = bit_length(bytes).saturating_sub(first.bit_offset).checked_div(slot_bits).unwrap_or(0);
    nodes.extend(Node::array("bno", bytes, 0, slots, first));
    nodes
}

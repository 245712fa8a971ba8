//! Blocks of all btrees, and the root of an extent map inside its inode.

use super::{Format, Node, Place, fields_of, length_bytes, room_for, size_of_structure};
use crate::{
    btree::{
        BtreeKind,
        block::Pointer,
        block_header::BlockHeader,
        extent_map::{ExtentMap, RootHeader},
        free_space::ByLength,
        inode_index::{FullInodeIndexRecord, InodeIndex},
    },
    convert::to_usize,
    field_table::{Field, FieldFormat, OnDisk, bits},
    geometry::Geometry,
};

/// Columns that `xfs_db` prints in another order than that on disk come in this one, behind all others.
const PRINT_ORDER: [&str; 16] = [
    "startoff",
    "startblock",
    "blockcount",
    "refcount",
    "owner",
    "offset",
    "extentflag",
    "attrfork",
    "bmbtblock",
    "cowflag",
    "startblock_hi",
    "owner_hi",
    "offset_hi",
    "extentflag_hi",
    "attrfork_hi",
    "bmbtblock_hi",
];

/// How far records lie apart, in bits, and their columns in the order of printing.
type Layout = (u32, Vec<Field>);

/// Layouts of the records and keys of a tree.
pub(super) struct Layouts {
    records: Layout,
    keys: Layout,
}

impl Layouts {
    /// By the field tables of the kind of tree.
    pub(super) fn usual<K: BtreeKind>() -> Self {
        Self { records: record_layout::<K::Record>(), keys: record_layout::<K::Key>() }
    }

    /// Keys of free space by length are printed length first.
    pub(super) fn by_length() -> Self {
        let mut layouts = Self::usual::<ByLength>();
        layouts.keys.1.reverse();
        layouts
    }

    /// Records of the inode indexes differ where chunks can be sparse.
    pub(super) fn of_inodes(geometry: &Geometry) -> Self {
        let mut layouts = Self::usual::<InodeIndex>();
        if !geometry.features.has_sparse_inodes() {
            layouts.records = record_layout::<FullInodeIndexRecord>();
        }
        layouts
    }
}

/// One block of a tree, node or leaf.
pub(super) fn block_nodes<K: BtreeKind>(bytes: &[u8], layouts: Layouts) -> Vec<Node> {
    let mut nodes = fields_of::<K::Header>(bytes, 0);
    let Some(header) = K::Header::prefix_of(bytes) else { return nodes };
    let capacity = K::max_entries(length_bytes(bytes), header.level());
    let count = u32::from(header.record_count()).min(capacity);
    let start = bits(K::Header::SIZE_BYTES);
    if header.level() == 0 {
        nodes.extend(Node::table("recs", bytes, (1, count), start, layouts.records));
        return nodes;
    }
    nodes.extend(key_and_pointer_nodes::<K>(bytes, start, (count, capacity), layouts.keys));
    nodes
}

/// The root of an extent map: the fork's bytes from `start_bytes` to `end_bytes`.
pub(super) fn fork_root_nodes(bytes: &[u8], start_bytes: u32, end_bytes: u32) -> Vec<Node> {
    let fork = bytes.get(..to_usize(end_bytes)).unwrap_or(bytes);
    let mut nodes = fields_of::<RootHeader>(fork, start_bytes);
    let start = start_bytes.saturating_add(size_of_structure::<RootHeader>()).saturating_mul(8);
    let header = fork.get(to_usize(start_bytes)..).and_then(RootHeader::prefix_of);
    let Some(header) = header else { return nodes };
    let keys = record_layout::<<ExtentMap as BtreeKind>::Key>();
    let entry_bits = keys.0.saturating_add(bits(size_of::<Pointer<ExtentMap>>()));
    let capacity = room_for(fork, start, entry_bits);
    let count = u32::from(header.record_count.get()).min(capacity);
    nodes.extend(key_and_pointer_nodes::<ExtentMap>(fork, start, (count, capacity), keys));
    nodes
}

/// Keys from `start` on, and the pointers behind room for as many keys as fit.
fn key_and_pointer_nodes<K: BtreeKind>(
    bytes: &[u8],
    start: u32,
    (count, capacity): (u32, u32),
    keys: Layout,
) -> Vec<Node> {
    let pointers = Place {
        bit_offset: start.saturating_add(keys.0.saturating_mul(capacity)),
        bit_length: bits(size_of::<Pointer<K>>()),
        format: Format::Table(FieldFormat::Decimal),
        little_endian: false,
    };
    let keys = Node::table("keys", bytes, (1, count), start, keys);
    keys.into_iter().chain(Node::array("ptrs", bytes, 1, count, pointers)).collect()
}

/// How records of a type lie, with their columns in the order of printing.
pub(super) fn record_layout<Record: OnDisk>() -> Layout {
    let mut columns = Record::FIELDS.to_vec();
    columns.sort_by_key(|column| PRINT_ORDER.iter().position(|name| *name == column.name));
    (bits(Record::SIZE_BYTES), columns)
}

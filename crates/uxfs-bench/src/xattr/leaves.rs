//! How full the leaves of an attribute fork are, and how evenly hashes are spread over them.

use serde::Serialize;
use uxfs_volume::attribute::leaf_use::{LeafFigures, LeafUse, MOST_COUNTED_NAMES};

use crate::table::Table;

/// For people.
pub fn table(found: &LeafUse) -> String {
    let mut table = Table::new(&["attribute fork", ""]);
    let percent = |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
    let mut line = |name: &str, value: String| table.row([name.to_owned(), value]);
    line("attributes", found.attributes.to_string());
    line("leaf blocks", found.leaves.to_string());
    line("bytes used", found.used_bytes.to_string());
    line("wasted", percent(found.room_bytes.saturating_sub(found.used_bytes), found.room_bytes));
    line(&format!("leaves under {} bytes", LeafUse::SPARSE_BYTES), found.sparse_leaves.to_string());
    line("values of their own", found.remote_values.to_string());
    line("hashes", found.hashes.to_string());
    line("most names of one hash", found.most_of_one_hash.to_string());
    line("least and most of a 256th of all hashes", format!("{} {}", found.spread().0, found.spread().1));
    for (names, count) in (1..).zip(found.hashes_by_names).filter(|(_, count)| *count > 0) {
        let more = if names == MOST_COUNTED_NAMES { " or more" } else { "" };
        line(&format!("hashes of {names}{more} names"), count.to_string());
    }
    table.to_string()
}

/// The series of leaves, a line for each, in the order of hashes.
pub fn series(leaves: &[LeafFigures]) -> String {
    let mut table =
        Table::new(&["leaf", "attributes", "hashes", "first hash", "last hash", "used", "wasted"]);
    for leaf in leaves {
        table.row([
            leaf.block.get().to_string(),
            leaf.attributes.to_string(),
            leaf.hashes.to_string(),
            format!("{:08x}", leaf.first_hash),
            format!("{:08x}", leaf.last_hash),
            leaf.used_bytes.to_string(),
            leaf.room_bytes.saturating_sub(leaf.used_bytes).to_string(),
        ]);
    }
    table.to_string()
}

/// A leaf in JSON.
#[derive(Debug, Serialize)]
pub struct LeafDocument {
    leaf: u64,
    attributes: u64,
    hashes: u64,
    first_hash: u32,
    last_hash: u32,
    used_bytes: u32,
    room_bytes: u32,
}

impl LeafDocument {
    /// Takes what was found.
    pub fn new(leaf: &LeafFigures) -> Self {
        Self {
            leaf: leaf.block.get(),
            attributes: leaf.attributes,
            hashes: leaf.hashes,
            first_hash: leaf.first_hash,
            last_hash: leaf.last_hash,
            used_bytes: leaf.used_bytes,
            room_bytes: leaf.room_bytes,
        }
    }
}

/// In JSON.
#[derive(Debug, Serialize)]
pub struct Document {
    attributes: u64,
    leaf_blocks: u64,
    used_bytes: u64,
    room_bytes: u64,
    sparse_leaves: u64,
    remote_values: u64,
    hashes: u64,
    most_of_one_hash: u64,
    hashes_by_names: [u64; MOST_COUNTED_NAMES],
    least_of_a_256th: u64,
    most_of_a_256th: u64,
}

impl Document {
    /// Takes what was found.
    pub fn new(found: &LeafUse) -> Self {
        let (least_of_a_256th, most_of_a_256th) = found.spread();
        Self {
            attributes: found.attributes,
            leaf_blocks: found.leaves,
            used_bytes: found.used_bytes,
            room_bytes: found.room_bytes,
            sparse_leaves: found.sparse_leaves,
            remote_values: found.remote_values,
            hashes: found.hashes,
            most_of_one_hash: found.most_of_one_hash,
            hashes_by_names: found.hashes_by_names,
            least_of_a_256th,
            most_of_a_256th,
        }
    }
}

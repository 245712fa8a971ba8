//! How full the leaves of an attribute fork are, and how evenly hashes are spread over them.

use serde::Serialize;
use uxfs_volume::attribute::leaf_use::LeafUse;

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
    table.to_string()
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
            least_of_a_256th,
            most_of_a_256th,
        }
    }
}

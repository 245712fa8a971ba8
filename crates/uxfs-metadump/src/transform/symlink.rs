//! Pieces of targets of symbolic links outside their inodes.

use uxfs_format::{field_table::OnDisk, inode::symlink::SymlinkHeader};

use super::plan::Plan;

pub(super) fn plan(bytes: &[u8]) -> Plan {
    let header = SymlinkHeader::SIZE_BYTES;
    let length = SymlinkHeader::prefix_of(bytes).map_or(0, |header| header.length_bytes.get() as usize);
    let end = header.saturating_add(length).min(bytes.len());
    let mut plan = Plan::beginning_with_numbers(header);
    plan.use_bytes(0, end);
    plan.paths.push(header.min(end)..end);
    plan
}

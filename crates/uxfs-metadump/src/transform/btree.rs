//! Blocks of btrees: header, records or keys, pointers.

use uxfs_format::{
    btree::{
        BtreeKind,
        block::BtreeBlock,
        extent_map::ExtentMap,
        free_space::{ByBlock, ByLength},
        inode_index::{FreeInodeIndex, InodeIndex},
        reference_count::ReferenceCount,
        reverse_map::ReverseMap,
    },
    fault::Structure,
    field_table::OnDisk,
};

use super::plan::Plan;

pub(super) fn plan(structure: Structure, bytes: &[u8]) -> Plan {
    let mut plan = match structure {
        Structure::FreeSpaceByBlock => parts::<ByBlock>(bytes),
        Structure::FreeSpaceByLength => parts::<ByLength>(bytes),
        Structure::InodeIndex => parts::<InodeIndex>(bytes),
        Structure::FreeInodeIndex => parts::<FreeInodeIndex>(bytes),
        Structure::ReverseMap => parts::<ReverseMap>(bytes),
        Structure::ReferenceCount => parts::<ReferenceCount>(bytes),
        _ => parts::<ExtentMap>(bytes),
    };
    // A btree has no text.
    plan.without_text.push(0..bytes.len());
    plan
}

fn parts<K: BtreeKind>(bytes: &[u8]) -> Plan {
    let mut plan = Plan::default();
    let Ok(block) = BtreeBlock::<K>::parse(bytes) else { return plan };
    let (header, count) = (K::Header::SIZE_BYTES, block.len());
    plan.use_bytes(0, header);
    if block.is_leaf() {
        plan.use_bytes(header, count * K::Record::SIZE_BYTES);
        return plan;
    }
    let pointers = header + block.capacity() as usize * K::Key::SIZE_BYTES;
    plan.use_bytes(header, count * K::Key::SIZE_BYTES);
    plan.use_bytes(pointers, size_of_val(block.pointers()));
    plan
}

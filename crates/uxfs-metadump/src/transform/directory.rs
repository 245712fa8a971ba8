//! Blocks of directories: entries, index, free index; nodes, which those of attributes look like.

use uxfs_format::{
    directory::{
        block::SingleBlock,
        data::{DataEntry, DataRecord, DataRecords},
        free_index::{FreeIndexBlock, FreeIndexHeader},
        leaf::{LeafBlock, LeafHeader},
        salvage::{SalvagedEntries, SalvagedIndex},
        {EntryFormat, header::DirectoryBlockHeader},
    },
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    name_tree::node::{NodeBlock, NodeHeader},
};

use super::{Transform, plan::Plan, range_in};

/// Bytes before the first record of a block of entries.
const DATA_HEADER_BYTES: usize = 64;
/// Before the name of an entry: inode number and length.
const ENTRY_HEAD_BYTES: usize = 9;

/// A block of entries, alone or with its index.
pub(super) fn plan_data(
    structure: Structure,
    bytes: &[u8],
    transform: &Transform<'_>,
    is_usable: bool,
) -> Plan {
    let geometry = transform.geometry;
    let owner = DirectoryBlockHeader::prefix_of(bytes).map_or(0, |header| header.owner.get());
    let replaces_names = transform.has_names_of_users(owner);
    let end = match structure {
        Structure::DirectoryBlock if is_usable => {
            SingleBlock::parse(bytes, geometry).map_or(0, |block| block.data_end_bytes() as usize)
        }
        Structure::DirectoryBlock => SalvagedIndex::new(bytes, geometry).data_end_bytes as usize,
        _ => bytes.len(),
    };
    let end = end.min(bytes.len());
    let mut plan = Plan::default();
    plan.use_bytes(0, DATA_HEADER_BYTES);
    plan.use_bytes(end, bytes.len() - end);
    plan.without_text.extend([0..DATA_HEADER_BYTES, end..bytes.len()]);
    let end = u32::try_from(end).unwrap_or(0);
    if is_usable {
        for record in DataRecords::new(bytes, end, EntryFormat::of(geometry)).map_while(Result::ok) {
            add_record(&mut plan, bytes, &record, EntryFormat::of(geometry), replaces_names);
        }
        return plan;
    }
    for salvaged in SalvagedEntries::new(bytes, end, geometry) {
        add_record(
            &mut plan,
            bytes,
            &DataRecord::Entry(salvaged.entry),
            EntryFormat::of(geometry),
            replaces_names,
        );
    }
    plan
}

fn add_record(
    plan: &mut Plan,
    block: &[u8],
    record: &DataRecord<'_>,
    format: EntryFormat,
    replaces_names: bool,
) {
    match record {
        DataRecord::Entry(entry) => add_entry(plan, block, entry, format, replaces_names),
        DataRecord::Free { offset_bytes, length_bytes } => {
            let (start, length) = (*offset_bytes as usize, usize::from(*length_bytes));
            plan.use_bytes(start, 4);
            plan.use_bytes(start + length.saturating_sub(2), 2);
        }
    }
}

fn add_entry(
    plan: &mut Plan,
    block: &[u8],
    entry: &DataEntry<'_>,
    format: EntryFormat,
    replaces_names: bool,
) {
    let (start, name) = (entry.offset_bytes as usize, range_in(block, entry.name));
    let length = format.entry_size_bytes(u8::try_from(entry.name.len()).unwrap_or(u8::MAX)) as usize;
    plan.use_bytes(start, ENTRY_HEAD_BYTES + entry.name.len() + usize::from(format.has_file_type));
    plan.use_bytes(start + length.saturating_sub(2), 2);
    plan.without_text.push(start..start + length);
    if replaces_names {
        plan.names.push(name);
    }
}

/// Hashes and places of entries.
pub(super) fn plan_leaf(structure: Structure, bytes: &[u8], geometry: &Geometry) -> Plan {
    let mut plan = Plan::beginning_with_numbers(bytes.len());
    let Ok(leaf) = LeafBlock::parse(bytes, geometry) else { return plan };
    plan.use_bytes(0, LeafHeader::SIZE_BYTES);
    plan.used.push(range_in(bytes, zerocopy::IntoBytes::as_bytes(leaf.entries)));
    if structure == Structure::DirectoryLeaf {
        let bests = leaf.bests().unwrap_or_default();
        let start = range_in(bytes, zerocopy::IntoBytes::as_bytes(bests)).start;
        plan.used.push(if bests.is_empty() {
            bytes.len().saturating_sub(4)..bytes.len()
        } else {
            start..bytes.len()
        });
    }
    plan
}

/// An interior block.
pub(super) fn plan_node(bytes: &[u8]) -> Plan {
    let mut plan = Plan::beginning_with_numbers(bytes.len());
    if let Ok(node) = NodeBlock::parse(bytes) {
        plan.use_bytes(0, NodeHeader::SIZE_BYTES);
        plan.used.push(range_in(bytes, zerocopy::IntoBytes::as_bytes(node.entries)));
    }
    plan
}

/// The longest free regions of data blocks.
pub(super) fn plan_free_index(bytes: &[u8], geometry: &Geometry) -> Plan {
    let mut plan = Plan::beginning_with_numbers(bytes.len());
    if let Ok(block) = FreeIndexBlock::parse(bytes, geometry) {
        plan.use_bytes(0, FreeIndexHeader::SIZE_BYTES);
        plan.used.push(range_in(bytes, zerocopy::IntoBytes::as_bytes(block.bests)));
    }
    plan
}

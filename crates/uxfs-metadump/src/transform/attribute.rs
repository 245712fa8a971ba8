//! Attributes: leaves, remote values.

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        leaf::{LeafAttribute, LeafBlock, LeafValue},
        remote::{HEADER_BYTES, RemoteHeader},
    },
    field_table::OnDisk,
    geometry::Geometry,
};

use super::{Transform, plan::Plan, range_in};

/// Bytes before the name: of an attribute whose value lies beside it, and of any other.
const LOCAL_HEAD_BYTES: usize = 3;
const REMOTE_HEAD_BYTES: usize = 9;

/// A leaf; `None` where its entries do not fit.
pub(super) fn plan_leaf(bytes: &[u8], transform: &Transform<'_>) -> Option<Plan> {
    let leaf = LeafBlock::parse(bytes, transform.geometry).ok()?;
    let replaces_names = transform.has_names_of_users(leaf.header.info.owner.get());
    let table_bytes = leaf.entries_end_bytes() as usize;
    let mut plan = Plan::default();
    plan.use_bytes(0, table_bytes);
    plan.without_text.push(0..table_bytes);
    for attribute in leaf.attributes().flatten() {
        add(&mut plan, bytes, &attribute, replaces_names);
    }
    Some(plan)
}

fn add(plan: &mut Plan, block: &[u8], attribute: &LeafAttribute<'_>, replaces_names: bool) {
    let name = range_in(block, attribute.name);
    let (head_bytes, value) = match attribute.value {
        LeafValue::Local(value) => (LOCAL_HEAD_BYTES, range_in(block, value)),
        LeafValue::Remote { .. } => (REMOTE_HEAD_BYTES, name.end..name.end),
    };
    let start = name.start.saturating_sub(head_bytes);
    plan.used.push(start..value.end.max(name.end));
    plan.without_text.push(start..name.start);
    add_parts(plan, attribute.flags, name, value, replaces_names);
}

/// Name and value of an attribute. The value of a parent pointer says where the directory is.
pub(super) fn add_parts(
    plan: &mut Plan,
    flags: AttributeFlags,
    name: std::ops::Range<usize>,
    value: std::ops::Range<usize>,
    replaces_names: bool,
) {
    if flags.contains(AttributeFlags::PARENT) {
        plan.without_text.push(value);
        match replaces_names {
            true => plan.names.push(name),
            false => plan.without_text.push(name),
        }
        return;
    }
    plan.attribute_names.push(name);
    plan.values.push(value);
}

/// A block of a remote value.
pub(super) fn plan_remote(bytes: &[u8], geometry: &Geometry) -> Plan {
    let header = HEADER_BYTES as usize;
    let length = RemoteHeader::prefix_of(bytes).map_or(0, |header| header.length_bytes.get() as usize);
    let end = header.saturating_add(length).min(geometry.block_size());
    let mut plan = Plan::beginning_with_numbers(header);
    plan.use_bytes(0, end);
    plan.values.push(header..end);
    plan
}

//! Quota records.

use super::{Content, Format, Node, fields_of};
use crate::{
    field_table::{FieldFormat, OnDisk},
    quota::{QuotaRecord, RecordType},
};

/// One record; `bytes` are all of it and nothing more.
pub(super) fn nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes = fields_of::<QuotaRecord>(bytes, 0);
    let Some(record) = QuotaRecord::prefix_of(bytes) else { return nodes };
    let bigtime = record.record_type().contains(RecordType::BIG_TIME);
    // The record of id 0 holds the grace periods of all others.
    let format = Format::QuotaTimer { bigtime, period: record.id.get() == 0 };
    for node in &mut nodes {
        if let Content::Field(place) = &mut node.content
            && place.format == Format::Table(FieldFormat::QuotaTimer)
        {
            place.format = format;
        }
    }
    nodes
}

//! The log: its state, then its records with their operations and items.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};
use uxfs_format::{
    describe::{Description, describe_fields, text},
    fault::{Corruption, Location, Structure},
    field_table::{Field, OnDisk},
    log::{
        operation::OperationHeader,
        record::{ChecksumState, RecordHeader},
    },
    units::Sector,
};
use uxfs_journal::{
    LogState,
    listing::{
        ListingRange, LogSummary, LoggedItem, LoggedPart, LoggedRecord, TransactionEvent, log_listing,
        summary,
    },
};
use uxfs_volume::error::Error;
use uxfs_volume::volume::Volume;

use super::{Shown, document};
use crate::{failure::Failure, output::Output, text::hexadecimal};

/// Shows the log's state and the records of `range`.
pub(super) fn show(shown: &mut Shown<'_>, filesystem: &Volume, range: ListingRange) -> Result<(), Failure> {
    let (device, geometry) = (filesystem.device().as_ref(), filesystem.geometry());
    match summary(device, geometry).map_err(Error::from) {
        Ok(log) if shown.context.json => shown.output.json(&summary_document(&log))?,
        Ok(log) => write_summary(&mut shown.output, &log)?,
        // Without head and tail the records can still be shown.
        Err(error @ Error::Corrupt(_)) if range == ListingRange::Everything => {
            shown.complaints.add("log", &error);
        }
        Err(error) => return Err(error.into()),
    }
    for record in log_listing(device, geometry, range).map_err(Error::from)? {
        let record = match record.map_err(Error::from) {
            Ok(record) => record,
            Err(error @ Error::Corrupt(_)) => {
                shown.output.flush()?;
                shown.complaints.add("damaged", &error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if shown.context.json {
            shown.output.json(&record_document(&record))?;
        } else {
            write_record(&mut shown.output, &record)?;
        }
        complain(shown, filesystem, &record)?;
    }
    Ok(())
}

/// Reports the problems of a record.
fn complain(shown: &mut Shown<'_>, filesystem: &Volume, record: &LoggedRecord) -> io::Result<()> {
    let geometry = filesystem.geometry();
    let start = geometry.log_start.and_then(|start| geometry.sector_of_block(start));
    let sector = start.and_then(|start| start.checked_add(record.block.into())).unwrap_or(Sector::NULL);
    let items =
        record.items.iter().filter_map(|item| item.fault).map(|fault| (Structure::LogItem, fault.into()));
    let faults = record.faults.iter().map(|fault| (Structure::LogRecord, *fault));
    for (structure, fault) in faults.chain(items) {
        shown.output.flush()?;
        let corruption = Corruption::new(structure, Location::at_sector(sector), fault);
        shown.complaints.add("damaged", &corruption.into());
    }
    Ok(())
}

pub(crate) fn state_name(state: &LogState) -> &'static str {
    match state {
        LogState::Empty => "empty",
        LogState::Clean(_) => "clean",
        LogState::Dirty(_) => "dirty",
    }
}

fn write_summary(output: &mut Output, log: &LogSummary) -> io::Result<()> {
    let LogSummary { start, blocks, state } = log;
    writeln!(output, "log of {blocks} 512-byte blocks from sector {start}: {}", state_name(state))?;
    if let (Some(tail), Some(head)) = (state.tail(), state.head()) {
        writeln!(output, "tail {tail}, head {head} (cycle:block)")?;
    }
    let LogState::Dirty(dirty) = state else { return Ok(()) };
    writeln!(output, "{} records to replay", dirty.records)?;
    if let Some(block) = dirty.torn_block {
        writeln!(output, "torn record at block {block}: ignored, with all that follow")?;
    }
    if let Some(block) = dirty.overwritten_tail {
        writeln!(output, "the tail was at block {block}, which is already overwritten")?;
    }
    Ok(())
}

fn summary_document(log: &LogSummary) -> Json {
    let dirty = match &log.state {
        LogState::Dirty(dirty) => Some(dirty),
        LogState::Empty | LogState::Clean(_) => None,
    };
    json!({
        "structure": Structure::Log.name(),
        "sector": log.start.get(),
        "log_blocks": log.blocks,
        "state": state_name(&log.state),
        "tail": log.state.tail().map(|lsn| lsn.to_string()),
        "head": log.state.head().map(|lsn| lsn.to_string()),
        "records": dirty.map_or(0, |dirty| dirty.records),
        "torn_block": dirty.and_then(|dirty| dirty.torn_block),
        "overwritten_tail": dirty.and_then(|dirty| dirty.overwritten_tail),
    })
}

/// The fields of a header but for the words that it saves for its payload, and for the checksum: that covers the whole
/// record, so the header's bytes cannot tell whether it is right.
fn header_fields() -> Vec<Field> {
    let is_shown = |field: &&Field| !matches!(field.name, "cycle_data" | "crc");
    RecordHeader::FIELDS.iter().filter(is_shown).copied().collect()
}

fn write_fields(output: &mut Output, description: &Description, bytes: &[u8]) -> io::Result<()> {
    let mut print = String::new();
    text::write(description, bytes, &mut print).map_err(io::Error::other)?;
    output.write_all(print.as_bytes())
}

fn checksum_name(checksum: ChecksumState) -> &'static str {
    match checksum {
        ChecksumState::Right => "correct",
        ChecksumState::Absent => "absent",
        ChecksumState::Wrong(_) => "bad",
    }
}

fn write_record(output: &mut Output, record: &LoggedRecord) -> io::Result<()> {
    let checksum = checksum_name(record.checksum);
    writeln!(output, "\n# record {} of {} blocks, checksum {checksum}", record.lsn, record.blocks)?;
    let bytes = record.header.disk_bytes();
    write_fields(output, &describe_fields(&header_fields(), bytes), bytes)?;
    for (index, operation) in record.operations.iter().enumerate() {
        let OperationHeader { transaction, length_bytes, client, flags, .. } = operation.header;
        let kind = operation.kind;
        writeln!(
            output,
            "operation[{index}] tid {transaction:x} len {length_bytes} clientid {client:#x} flags {flags:#x} ({kind:?})"
        )?;
    }
    for event in &record.events {
        match event {
            TransactionEvent::Begin(transaction, header) => {
                writeln!(
                    output,
                    "# transaction {:x} begins: num_items {}",
                    transaction.id, header.region_count
                )?;
            }
            TransactionEvent::Commit(transaction) => {
                let (id, start, items) = (transaction.id, transaction.start, transaction.items);
                writeln!(output, "# transaction {id:x} from {start} commits {items} items")?;
            }
            TransactionEvent::Unmount => writeln!(output, "# unmount")?,
        }
    }
    record.items.iter().try_for_each(|item| write_item(output, item))
}

fn write_item(output: &mut Output, item: &LoggedItem) -> io::Result<()> {
    writeln!(output, "# {} of transaction {:x}, {} regions", item.name(), item.transaction.id, item.regions)?;
    for part in &item.parts {
        if part.fields.is_empty() {
            writeln!(output, "{}: {} bytes", part.name, part.bytes.len())?;
        } else {
            write_fields(output, &describe_fields(part.fields, &part.bytes), &part.bytes)?;
        }
    }
    Ok(())
}

fn record_document(record: &LoggedRecord) -> Json {
    let bytes = record.header.disk_bytes();
    let operations = record.operations.iter().map(|operation| {
        let header = operation.header.disk_bytes();
        let mut fields = document::fields(&describe_fields(OperationHeader::FIELDS, header), header);
        if let Json::Object(fields) = &mut fields {
            fields.insert("kind".to_owned(), format!("{:?}", operation.kind).to_lowercase().into());
        }
        fields
    });
    let event = |event: &TransactionEvent| match event {
        TransactionEvent::Begin(transaction, _) => json!({"event": "begin", "tid": transaction.id}),
        TransactionEvent::Commit(transaction) => {
            let start = transaction.start.to_string();
            json!({"event": "commit", "tid": transaction.id, "start": start, "items": transaction.items})
        }
        TransactionEvent::Unmount => json!({"event": "unmount"}),
    };
    json!({
        "structure": Structure::LogRecord.name(),
        "lsn": record.lsn.to_string(),
        "tail_lsn": record.tail_lsn.to_string(),
        "block": record.block,
        "blocks": record.blocks,
        "checksum": checksum_name(record.checksum),
        "problems": record.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "fields": document::fields(&describe_fields(&header_fields(), bytes), bytes),
        "operations": operations.collect::<Vec<_>>(),
        "transactions": record.events.iter().map(event).collect::<Vec<_>>(),
        "items": record.items.iter().map(item_document).collect::<Vec<_>>(),
    })
}

fn item_document(item: &LoggedItem) -> Json {
    json!({
        "item": item.name(),
        "tid": item.transaction.id,
        "problem": item.fault.map(|fault| fault.to_string()),
        "parts": item.parts.iter().map(part_document).collect::<Vec<_>>(),
    })
}

fn part_document(part: &LoggedPart) -> Json {
    let mut object = Map::new();
    object.insert("part".to_owned(), part.name.into());
    if part.fields.is_empty() {
        object.insert("hex".to_owned(), hexadecimal(&part.bytes).into());
    } else {
        let fields = document::fields(&describe_fields(part.fields, &part.bytes), &part.bytes);
        object.insert("fields".to_owned(), fields);
    }
    Json::Object(object)
}

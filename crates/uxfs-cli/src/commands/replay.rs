//! `uxfs replay`: replays the log; afterwards the image is as after a clean unmount.

use std::{collections::BTreeMap, io::Write};

use serde_json::{Value as Json, json};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::{self, RecoveryReport};
use uxfs_format::log::item::{ItemType, LogItem};
use uxfs_journal::recovery::{
    replay::{ItemOutcome, ReplayObserver},
    transactions::TransactionInfo,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::{ImageArguments, not_for_changes},
    output::{Output, put_path, set_image},
    text::counted,
};

/// Arguments of `uxfs replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Replays committed transactions, finishes intents, frees unlinked inodes and closes the log. After a \
    crash in the middle run it again. An image whose log cannot be replayed is left unchanged. Exits with 3 where damage \
    kept some work undone.\n\
    Example: uxfs replay disk.img",
    // Refused, with the reason.
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("superblock", |argument| argument.hide(true))
)]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Print what would be done without changing the image
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Show each log item and what replay does with it, without changing the image
    #[arg(long)]
    list: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let image = &arguments.image;
    set_image(&image.image);
    image.refuse_repaired()?;
    if image.is_tolerant() || image.names_superblock() {
        return Err(Failure::usage("--tolerant and --superblock cannot be used with replay"));
    }
    if image.ignore_log {
        return Err(Failure::usage("--ignore-log cannot be used with replay"));
    }
    let is_change = !arguments.dry_run && !arguments.list;
    let device = if is_change { image.device_for_changes()? } else { image.device()? };
    let options = MountOptions { cache_budget_bytes: image.cache_size, ..MountOptions::default() };
    let mut output = Output::new();
    let mut list = List { output: &mut output, context, failure: None };
    let recovered = if arguments.list {
        recovery::recover(&device, &options, &mut list)
    } else {
        recovery::recover(&device, &options, &mut ())
    };
    let failure = list.failure.take();
    let recovered = recovered.map_err(|error| image.not_opened(error))?;
    failure.map_or(Ok(()), |error| Err(Failure::from(error)))?;
    let report = match recovered {
        Some(recovered) if is_change => {
            Some(recovered.write().map_err(not_for_changes).about_image(&image.image)?)
        }
        Some(recovered) => Some(recovered.report().clone()),
        None => None,
    };
    if context.json {
        let mut document = document(report.as_ref(), is_change);
        put_path(&mut document, "image", &image.image);
        output.json(&document)?;
    } else {
        print(&mut output, report.as_ref(), is_change)?;
    }
    output.finish()?;
    let has_found_damage = report.is_some_and(|report| report.has_found_damage());
    Ok(if has_found_damage { Exit::Corruption } else { Exit::Success })
}

/// Shows each item as it is replayed.
struct List<'a> {
    output: &'a mut Output,
    context: &'a Context,
    /// The first error of the output.
    failure: Option<std::io::Error>,
}

impl ReplayObserver for List<'_> {
    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]], outcome: ItemOutcome) {
        if self.failure.is_some() {
            return;
        }
        let Ok(item) = LogItem::decode(regions) else { return };
        let (kind, about) = (item.item_type().name(), about(&item));
        let written = if self.context.json {
            self.output.json(&json!({
                "transaction": transaction.id,
                "lsn": transaction.start.to_string(),
                "item": kind,
                "about": about,
                "outcome": outcome.name(),
            }))
        } else {
            let (id, start, outcome) = (transaction.id, transaction.start, outcome.name());
            writeln!(self.output, "{start} {id:08x} {kind} {about}: {outcome}")
        };
        self.failure = written.err();
    }
}

/// The subject of an item, in a few words.
fn about(item: &LogItem<'_>) -> String {
    match item {
        LogItem::Buffer(item) => {
            let contents = item.format.contents().map_or("unknown", |contents| contents.name());
            let (sector, sectors) = (item.format.sector.get(), item.format.length_sectors.get());
            format!("sector {sector}+{sectors} {contents}")
        }
        LogItem::Inode(item) => format!("inode {}", item.core.inode),
        LogItem::InodeCreate(item) => {
            format!("group {} block {}+{}", item.group, item.block, item.length_blocks)
        }
        LogItem::Quota(item) => format!("id {}", item.format.id),
        LogItem::FreeExtent(item) => {
            let extents = item.extents.iter().map(|(start, length)| format!("{start}+{length}"));
            format!("{:#x} blocks {}", item.header.id, extents.collect::<Vec<_>>().join(" "))
        }
        LogItem::ReverseMapIntent(item) => format!("{:#x} {} extents", item.header.id, item.extents.len()),
        LogItem::ReferenceCountIntent(item) => {
            format!("{:#x} {} extents", item.header.id, item.extents.len())
        }
        LogItem::ExtentMapIntent(item) => format!("{:#x} inode {}", item.header.id, item.extent.owner),
        LogItem::AttributeIntent(item) => {
            format!("{:#x} inode {} {:?}", item.format.id, item.format.inode, item.operation)
        }
        LogItem::ExchangeIntent(item) => {
            format!("{:#x} inodes {} and {}", item.id, item.first_inode, item.second_inode)
        }
        LogItem::ReverseMapDone(item) => format!("{:#x}", item.done.intent_id),
        LogItem::ReferenceCountDone(item) => format!("{:#x}", item.done.intent_id),
        LogItem::ExtentMapDone(item) => format!("{:#x}", item.done.intent_id),
        LogItem::AttributeDone(item) => format!("{:#x}", item.done.intent_id),
        LogItem::ExchangeDone(item) => format!("{:#x}", item.done.intent_id),
        LogItem::QuotaOff(_) => String::new(),
    }
}

/// Intents by kind.
fn by_kind(report: &RecoveryReport) -> BTreeMap<ItemType, u64> {
    let mut kinds = BTreeMap::new();
    for intent in &report.intents {
        *kinds.entry(intent.item_type).or_default() += 1;
    }
    kinds
}

fn print(output: &mut Output, report: Option<&RecoveryReport>, is_change: bool) -> std::io::Result<()> {
    let Some(report) = report else { return writeln!(output, "the log is clean: nothing to do") };
    let replay = &report.replay;
    let verb = if is_change { "replayed" } else { "would be replayed" };
    writeln!(
        output,
        "log from {} to {}: {}",
        report.log.tail,
        report.log.head,
        counted(replay.records, "record")
    )?;
    if let Some(block) = report.log.torn_block {
        writeln!(output, "torn record at block {block}: ignored, with all that follow")?;
    }
    writeln!(
        output,
        "{verb}: {}; {}, {}, {}, {}",
        counted(replay.transactions, "transaction"),
        counted(replay.buffers, "buffer"),
        counted(replay.inodes, "inode"),
        counted(replay.inode_chunks, "inode chunk"),
        counted(replay.quotas, "quota record")
    )?;
    writeln!(
        output,
        "skipped: {} of freed buffers, {} already in place; {} without commit",
        counted(replay.cancelled, "item"),
        replay.newer,
        counted(replay.dropped_transactions, "transaction")
    )?;
    let kinds = by_kind(report).into_iter().map(|(kind, count)| format!("{count} {}", kind.name()));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    writeln!(output, "intents finished: {}", if kinds.is_empty() { "none" } else { &kinds })?;
    writeln!(
        output,
        "freed: {}, {}",
        counted(report.freed_inodes, "unlinked inode"),
        counted(report.freed_staging_blocks, "CoW staging block")
    )?;
    if report.kept_inodes > 0 {
        let kept = report.kept_inodes;
        writeln!(output, "{kept} inodes on unlinked lists are in use, and were not freed: run xfs_repair")?;
    }
    if report.broken_lists > 0 {
        writeln!(output, "{} damaged unlinked lists were truncated: run xfs_repair", report.broken_lists)?;
    }
    let given_up = report.given_up.free_intents.len();
    if given_up > 0 {
        writeln!(
            output,
            "the blocks of {given_up} intents could not be freed, because the free space is damaged: run xfs_repair"
        )?;
    }
    Ok(())
}

fn document(report: Option<&RecoveryReport>, is_change: bool) -> Json {
    let Some(report) = report else { return json!({"state": "clean", "changed": false}) };
    let replay = &report.replay;
    let intents: serde_json::Map<_, _> =
        by_kind(report).into_iter().map(|(kind, count)| (kind.name().to_owned(), count.into())).collect();
    json!({
        "state": "dirty",
        "changed": is_change,
        "tail": report.log.tail.to_string(),
        "head": report.log.head.to_string(),
        "torn_block": report.log.torn_block,
        "records": replay.records,
        "transactions": replay.transactions,
        "dropped_transactions": replay.dropped_transactions,
        "buffers": replay.buffers,
        "inodes": replay.inodes,
        "inode_chunks": replay.inode_chunks,
        "quota_records": replay.quotas,
        "cancelled": replay.cancelled,
        "newer_on_disk": replay.newer,
        "intents": intents,
        "freed_inodes": report.freed_inodes,
        "kept_inodes": report.kept_inodes,
        "freed_staging_blocks": report.freed_staging_blocks,
        "broken_lists": report.broken_lists,
        "free_intents_given_up": report.given_up.free_intents.len(),
    })
}

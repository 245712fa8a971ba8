//! `uxfs freespace`: free extents by length.

use std::io::Write;

use serde_json::json;
use uxfs_format::units::AgNumber;
use uxfs_volume::allocation_group::damage_limit::DamageLimit;
use uxfs_volume::allocation_group::free_space::FreeSpaceHistogram;
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    commands::put_image,
    failure::{Complaints, Exit, Failure, Outcome},
    output::Output,
    progress::{Measure, Progress},
};

/// Arguments of `uxfs freespace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs freespace disk.img\n\
    Counts the free extents of each allocation group by length, in powers of two of a block. Each block of a group's \
    free list counts as an extent.")]
pub struct Arguments {
    /// Show this allocation group only
    #[arg(short = 'a', long, value_name = "GROUP")]
    group: Option<u32>,
    /// Print a line for each allocation group before the histogram
    #[arg(short, long)]
    groups: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let count = filesystem.geometry().ag_count;
    let groups = match arguments.group {
        Some(group) if group >= count => {
            return Err(Failure::usage(format!("no allocation group {group}: the image has {count}")));
        }
        Some(group) => group..group + 1,
        None => 0..count,
    };
    let mut output = Output::new();
    let mut complaints = Complaints::default();
    let mut all = FreeSpaceHistogram::default();
    let is_quiet = output.is_terminal() && arguments.groups;
    let total = Some(groups.len() as u64);
    let progress = Progress::new("reading", Measure::Things("groups", total), is_quiet);
    let mut limit = DamageLimit::default();
    for group in groups.clone() {
        let mut one = FreeSpaceHistogram::default();
        let added = filesystem.group(AgNumber::new(group)).add_free_space(&mut one);
        limit.count(added.is_ok());
        if let Err(error) = added {
            complaints.add(format_args!("group {group}"), &error);
        }
        if arguments.groups && !context.json {
            let total = one.total();
            writeln!(output, "group {group:>6} {:>12} extents {:>14} blocks", total.extents, total.blocks)?;
        }
        all.merge(&one);
        progress.add(1);
        if limit.is_reached() && group + 1 < groups.end {
            let message = too_many_damaged(groups.end - group - 1, filesystem);
            complaints.conclude(Exit::Corruption, message);
            break;
        }
    }
    drop(progress);
    if context.json {
        let total = all.total();
        let buckets: Vec<_> = all
            .buckets()
            .map(|(from, bucket)| {
                json!({"from_blocks": from, "to_blocks": u64::from(from) * 2 - 1,
                       "extents": bucket.extents, "blocks": bucket.blocks})
            })
            .collect();
        let mut document = json!({"extents": total.extents, "blocks": total.blocks, "histogram": buckets});
        put_image(&mut document, context);
        output.json(&document)?;
    } else {
        print(&all, &mut output)?;
    }
    output.finish()?;
    Ok(complaints.exit())
}

/// The message for a walk over all AGs that stopped early.
pub(super) fn too_many_damaged(unseen: u32, filesystem: &Volume) -> String {
    let count = filesystem.geometry().ag_count;
    format!(
        "too many damaged allocation groups: {unseen} of {count} were skipped (is the AG count of the superblock right?)"
    )
}

fn print(histogram: &FreeSpaceHistogram, output: &mut Output) -> Result<(), Failure> {
    let total = histogram.total();
    writeln!(output, "{:>10} {:>10} {:>12} {:>14} {:>7}", "from", "to", "extents", "blocks", "share")?;
    for (from, bucket) in histogram.buckets() {
        let share = 100.0 * bucket.blocks as f64 / total.blocks.max(1) as f64;
        let to = u64::from(from) * 2 - 1;
        writeln!(output, "{from:>10} {to:>10} {:>12} {:>14} {share:>6.2}%", bucket.extents, bucket.blocks)?;
    }
    let average = total.blocks as f64 / total.extents.max(1) as f64;
    writeln!(output, "{} free extents, {} blocks, {average:.1} on average", total.extents, total.blocks)?;
    Ok(())
}

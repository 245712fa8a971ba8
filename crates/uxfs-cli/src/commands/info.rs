//! `uxfs info`: geometry in the layout of xfs_info, features, counters.

use std::{io::Write, path::Path};

use serde_json::json;
use uxfs_format::superblock::Superblock;
use uxfs_mkfs::summary::{Summary, log_sector_bytes, log_stripe_unit_bytes, switches};
use uxfs_volume::volume::Volume;

use crate::{
    commands::{Context, inspect::log::state_name},
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    output::{JsonName, Output, put_path, set_image},
    text::human_size,
};

/// Arguments of `uxfs info`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs info disk.img")]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let (filesystem, log) = arguments.image.open_with_log_state()?;
    let log = log.as_ref().map(state_name);
    let mut output = Output::new();
    if context.json {
        output.json(&document(&filesystem, log, &arguments.image.image))?;
    } else {
        print(&filesystem, &arguments.image.image.display().to_string(), &mut output)?;
        print_state(&Space::of(&filesystem), log, arguments.image.ignore_log, &mut output)?;
    }
    output.finish()?;
    filesystem.conclude(Ok(Exit::Success))
}

/// Bytes for data, and those that are free.
struct Space {
    size_bytes: u64,
    free_bytes: u64,
}

impl Space {
    fn of(filesystem: &Volume) -> Self {
        let superblock = filesystem.superblock();
        let block_bytes = u64::from(superblock.block_size_bytes.get());
        let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
        Self {
            size_bytes: bytes(superblock.data_blocks.get()),
            free_bytes: bytes(superblock.free_data_blocks.get()),
        }
    }

    /// With a digit behind the point.
    fn free_percent(&self) -> f64 {
        (self.free_bytes as f64 * 1000.0 / self.size_bytes.max(1) as f64).round() / 10.0
    }
}

fn document(filesystem: &Volume, log: Option<&str>, image: &Path) -> serde_json::Value {
    let superblock = filesystem.superblock();
    let space = Space::of(filesystem);
    let mut document = layout_document(superblock);
    put_path(&mut document, "image", image);
    document["size_bytes"] = space.size_bytes.into();
    document["free_bytes"] = space.free_bytes.into();
    document["free_percent"] = space.free_percent().into();
    document["log"]["state"] = log.into();
    document["counters"] = json!({
        "inodes_allocated": superblock.inode_count.get(),
        "inodes_free": superblock.free_inodes.get(),
        "data_blocks_free": superblock.free_data_blocks.get(),
        "realtime_extents_free": superblock.free_realtime_extents.get(),
    });
    document
}

/// All fields of a superblock except its counters.
pub fn layout_document(superblock: &Superblock) -> serde_json::Value {
    let label = JsonName::new(superblock.label());
    let features: serde_json::Map<_, _> =
        switches(superblock).into_iter().map(|(name, on)| (name.to_owned(), on.into())).collect();
    let block_bytes = superblock.block_size_bytes.get();
    json!({
        "label": label.text(),
        "label_hex": label.hex(),
        "uuid": superblock.uuid.to_string(),
        "block_size_bytes": block_bytes,
        "sector_size_bytes": superblock.sector_size_bytes.get(),
        "inode_size_bytes": superblock.inode_size_bytes.get(),
        "directory_block_size_bytes": block_bytes.wrapping_shl(superblock.directory_block_log.into()),
        "data_blocks": superblock.data_blocks.get(),
        "group_count": superblock.ag_count.get(),
        "group_blocks": superblock.ag_blocks.get(),
        "inode_max_percent": superblock.inode_max_percent,
        "stripe_unit_blocks": superblock.stripe_unit_blocks.get(),
        "stripe_width_blocks": superblock.stripe_width_blocks.get(),
        "log": {
            "is_internal": superblock.log_start.get() != 0,
            "blocks": superblock.log_blocks.get(),
            "sector_size_bytes": log_sector_bytes(superblock),
            "stripe_unit_bytes": log_stripe_unit_bytes(superblock),
        },
        "realtime": {
            "blocks": superblock.realtime_blocks.get(),
            "extents": superblock.realtime_extents.get(),
            "extent_size_blocks": superblock.realtime_extent_size_blocks.get(),
            "group_count": superblock.realtime_group_count.get(),
            "group_extents": superblock.realtime_group_extents.get(),
        },
        "features": features,
    })
}

/// Prints the layout that users of xfs_info know, then label, uuid and counters.
fn print(filesystem: &Volume, name: &str, output: &mut Output) -> Result<(), Failure> {
    write!(output, "{}", Summary { superblock: filesystem.superblock(), name })?;
    print_identity(filesystem, output)
}

fn print_identity(filesystem: &Volume, output: &mut Output) -> Result<(), Failure> {
    let superblock = filesystem.superblock();
    write!(output, "label    =")?;
    output.name(superblock.label())?;
    writeln!(output)?;
    writeln!(output, "uuid     ={}", superblock.uuid)?;
    writeln!(
        output,
        "counters =                       inodes={}, free inodes={}, free blocks={}",
        superblock.inode_count, superblock.free_inodes, superblock.free_data_blocks
    )?;
    Ok(())
}

fn print_state(
    space: &Space,
    log: Option<&str>,
    ignores_log: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let Space { size_bytes, free_bytes } = *space;
    let (size, free) = (human_size(size_bytes), human_size(free_bytes));
    let percent = space.free_percent();
    writeln!(output, "space    ={size_bytes} bytes ({size}), {free_bytes} free ({free}, {percent} %)")?;
    match log {
        Some("dirty") if !ignores_log => {
            writeln!(output, "log is   =dirty: the numbers are those after its replay")?
        }
        Some(state) => writeln!(output, "log is   ={state}")?,
        None => {}
    }
    Ok(())
}

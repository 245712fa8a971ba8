//! `uxfs info`: geometry in the layout of xfs_info, features, counters.

use std::io::Write;

use serde_json::json;
use uxfs_format::superblock::Superblock;
use uxfs_mkfs::summary::{Summary, log_sector_bytes, log_stripe_unit_bytes, switches};
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    failure::{Exit, Failure, Outcome},
    image::ImageArguments,
    output::{JsonName, Output},
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
    let filesystem = arguments.image.open()?;
    let mut output = Output::new();
    if context.json {
        output.json(&document(&filesystem))?;
    } else {
        print(&filesystem, &arguments.image.image.display().to_string(), &mut output)?;
    }
    output.finish()?;
    filesystem.conclude(Ok(Exit::Success))
}

fn document(filesystem: &Volume) -> serde_json::Value {
    let superblock = filesystem.superblock();
    let mut document = layout_document(superblock);
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

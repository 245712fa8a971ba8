//! `uxfs map`: the extent map of a file.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt};

use serde_json::json;
use uxfs_format::geometry::Geometry;
use uxfs_volume::inode::{Fork, InodeFork};
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    failure::{About, Exit, Outcome},
    output::Output,
    output::put_name,
};

/// Arguments of `uxfs map`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs map disk.img /var/lib/db.dat\n\
    Columns are in file system blocks, but for byte, where the extent begins in the file system; group and group block are those of \
    the first block.")]
pub struct Arguments {
    /// Path in the image, or inode number
    #[arg(value_name = "PATH")]
    target: OsString,
    /// Show the attribute fork instead of the data
    #[arg(short, long)]
    attributes: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let target = context.target(&arguments.target);
    let inode = target.find(filesystem, true).about_target(&target)?;
    let fork = if arguments.attributes { Fork::Attribute } else { Fork::Data };
    let mut output = Output::new();
    if !inode.has_extents(fork) {
        let form = match inode.fork(fork) {
            None => "missing",
            Some(InodeFork::Local(_)) => "in the inode",
            Some(InodeFork::Device(_)) => "a device number",
            Some(InodeFork::Extents(_)) => "empty",
        };
        if !context.json {
            writeln!(output, "{target}: no extents ({form})")?;
        }
        output.finish()?;
        return Ok(Exit::Success);
    }
    let map = filesystem.extent_map(&inode, fork).about_target(&target)?;
    if !context.json {
        writeln!(
            output,
            "{:>8} {:>14} {:>10} {:>8} {:>12} {:>16} {:>16}  state",
            "extent", "file block", "blocks", "group", "group block", "block", "byte"
        )?;
    }
    for (index, extent) in map.iter().enumerate() {
        let place = filesystem.geometry().split_fs_block(extent.start);
        let (group, block) =
            place.map_or((None, None), |(group, block)| (Some(group.get()), Some(block.get())));
        let byte = filesystem.geometry().sector_of_block(extent.start).map(Geometry::byte_of_sector);
        if context.json {
            let mut document = json!({
                "file_block": extent.file_block.get(),
                "length_blocks": extent.length_blocks,
                "block": extent.start.get(),
                "group": group,
                "group_block": block,
                "byte": byte,
                "unwritten": extent.is_unwritten,
            });
            put_name(&mut document, "path", arguments.target.as_bytes());
            output.json(&document)?;
            continue;
        }
        let text = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        writeln!(
            output,
            "{index:>8} {:>14} {:>10} {:>8} {:>12} {:>16} {:>16}  {}",
            extent.file_block,
            extent.length_blocks,
            text(group),
            text(block),
            extent.start,
            byte.map_or_else(|| "-".to_owned(), |byte| byte.to_string()),
            if extent.is_unwritten { "unwritten" } else { "written" }
        )?;
    }
    output.finish()?;
    Ok(Exit::Success)
}

//! `uxfs bench leaves`: how full the attribute leaves of a file are.

use std::{ffi::OsString, io::Write};

use uxfs_bench::xattr::leaves::{self, Document, LeafDocument};
use uxfs_volume::{
    attribute::leaf_use::{LeafFigures, LeafUse},
    volume::Volume,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::ImageArguments,
    output::{Output, set_image},
    target::Target,
};

/// Arguments of `uxfs bench leaves`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs bench leaves disk.img /attributes\n\
    Reads the attribute fork of one file in a single pass.")]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Path in the image, or inode number
    #[arg(value_name = "PATH")]
    target: OsString,
    /// Show each leaf: how full it is, and its hashes
    #[arg(long)]
    series: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image(&arguments.image.image);
    let filesystem = arguments.image.open()?;
    filesystem.conclude(show(&filesystem, arguments, context))
}

fn show(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let target = Target::parse(&arguments.target);
    let inode = target.find(filesystem, false).about_target(&target)?;
    let mut series = Vec::new();
    let found = filesystem
        .attributes(&inode)
        .about_target(&target)?
        .visit_leaves(|leaf| {
            if arguments.series {
                series.push(*leaf);
            }
        })
        .about_target(&target)?;
    let mut output = Output::new();
    print(&mut output, &found, &series, context.json)?;
    output.finish()?;
    Ok(Exit::Success)
}

/// Prints the figures of all leaves, and of each where there is a series.
pub(super) fn print(
    output: &mut Output,
    found: &LeafUse,
    series: &[LeafFigures],
    json: bool,
) -> Result<(), Failure> {
    if json {
        output.json(&Document::new(found))?;
        series.iter().try_for_each(|leaf| output.json(&LeafDocument::new(leaf)))?;
        return Ok(());
    }
    write!(output, "{}", leaves::table(found))?;
    if !series.is_empty() {
        write!(output, "\n{}", leaves::series(series))?;
    }
    Ok(())
}

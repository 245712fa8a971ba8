//! `uxfs bench leaves`: how full the attribute leaves of a file are.

use std::{ffi::OsString, io::Write};

use uxfs_bench::xattr::leaves::{self, Document};

use crate::{
    commands::Context,
    failure::{About, Exit, Outcome},
    image::ImageArguments,
    output::Output,
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
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let filesystem = arguments.image.open()?;
    let target = Target::parse(&arguments.target);
    let inode = target.find(&filesystem, false).about(&target)?;
    let found = filesystem.attribute_leaf_use(&inode).about(&target)?;
    let mut output = Output::new();
    if context.json {
        output.json(&Document::new(&found))?;
    } else {
        write!(output, "{}", leaves::table(&found))?;
    }
    output.finish()?;
    Ok(Exit::Success)
}

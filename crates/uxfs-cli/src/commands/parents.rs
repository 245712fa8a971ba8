//! `uxfs parents`: every path of an inode, from parent pointers alone.

use std::{ffi::OsString, io::Write};

use serde_json::json;
use uxfs_volume::parent_pointer::paths::PathLimits;
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    failure::{About, Complaints, Exit, Outcome},
    kind::Note,
    output::put_name,
    output::{Output, notice},
};

/// Arguments of `uxfs parents`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs parents disk.img 131\n\
    The paths come from the parent pointers of the inode and of the directories above it; no directory is read.")]
pub struct Arguments {
    /// Path in the image, or inode number
    #[arg(value_name = "PATH|INODE")]
    target: OsString,
    /// Stop after this many paths
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let target = context.target(&arguments.target);
    let inode = target.find(filesystem, false).about_target(&target)?;
    let mut limits = PathLimits::default();
    if let Some(paths) = arguments.limit {
        limits.paths = paths;
    }
    let found = filesystem.paths_of(&inode, &limits).about_target(&target)?;
    let mut output = Output::new();
    for path in &found.paths {
        if context.json {
            let mut document = json!({"inode": inode.number.get()});
            put_name(&mut document, "path", path);
            output.json(&document)?;
        } else {
            output.name(path)?;
            output.write_all(b"\n")?;
        }
    }
    output.finish()?;
    let mut complaints = Complaints::default();
    for problem in found.problems {
        complaints.add_target(&target, &problem.into());
    }
    if !found.is_complete {
        notice!(Note::Incomplete, "{target}: stopped after {} paths; there may be more", found.paths.len());
        if arguments.limit.is_none() {
            complaints.raise(Exit::Failed);
        }
    }
    Ok(complaints.exit())
}

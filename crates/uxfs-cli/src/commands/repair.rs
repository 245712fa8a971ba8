//! `uxfs repair`: makes what contradicts something else anew.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::json;
use uxfs_block::device::BlockDevice;
use uxfs_repair::{
    Finding,
    commit::{self, ChangeFile, Existing, State, default_path},
    repair::{RepairOptions, Staged, repair},
};

use super::undo::failure;
use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    image::{ImageArguments, no_file_system},
    output::{Output, message},
};

/// Arguments of `uxfs repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each damaged structure is made anew from what else says the same: groups from inodes and their extents, \
    directories from their entries and from the parent pointers of their files. The repaired file system is checked before \
    anything is written; where something would be left, nothing is. A dirty log is replayed first. What is written \
    over is kept in an undo file: uxfs undo takes the repair back.\n\
    Exits with 0 where the image is sound afterwards, and with 3 where it could not be repaired; with --dry-run with 3 where \
    there is anything to repair.\n\
    Examples:\n  uxfs repair --dry-run disk.img\n  uxfs repair disk.img",
    mut_arg("tolerant", |argument| argument.hide(true)),
    mut_arg("repaired", |argument| argument.hide(true)),
    mut_arg("ignore_log", |argument| argument.hide(true)),
    mut_arg("no_lock", |argument| argument.hide(true)),
)]
pub struct Arguments {
    #[command(flatten)]
    image: ImageArguments,
    /// Print what would be done, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Keep what is written over in this file, for uxfs undo and for a repair that is cut off [default: IMAGE.uxfs-undo]
    #[arg(long, value_name = "FILE", conflicts_with = "no_undo")]
    undo: Option<PathBuf>,
    /// Keep nothing: the repair cannot be undone, and one that is cut off may lose more
    #[arg(long)]
    no_undo: bool,
    /// Use no older copies of metadata that the log holds, where another program changed the file system without writing its log
    #[arg(long)]
    no_log_copies: bool,
}

/// Findings that are shown where a repair leaves some.
const MOST_SHOWN: usize = 100;

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let image = &arguments.image;
    let device = if arguments.dry_run { image.device_at_rest()? } else { image.device_to_repair()? };
    let options = RepairOptions {
        cache_budget_bytes: image.cache_size,
        superblock: image.superblock_choice(),
        ignore_log_copies: arguments.no_log_copies,
        ..RepairOptions::default()
    };
    let undo_path = if arguments.dry_run { None } else { arguments.undo_path()? };
    if let Some(path) = &undo_path {
        finish_earlier(path, device.as_ref()).about(image.image.display())?;
    }
    let staged = repair(&device, &options).map_err(no_file_system).about(image.image.display())?;
    let is_written = !arguments.dry_run && !staged.is_clean() && staged.remaining.is_empty();
    let mut bytes = None;
    if is_written {
        let about = undo_path.map(|path| arguments.about(path, &staged)).transpose()?;
        let written = staged.write(device.as_ref(), about.as_ref()).map_err(failure);
        bytes = Some(written.about(image.image.display())?);
    }
    let mut output = Output::new();
    match context.json {
        true => print_json(&mut output, &staged, bytes)?,
        false => print(&mut output, &staged, bytes, arguments.dry_run)?,
    }
    output.finish()?;
    let is_sound = staged.remaining.is_empty() && (bytes.is_some() || staged.is_clean());
    Ok(if is_sound { Exit::Success } else { Exit::Corruption })
}

impl Arguments {
    /// Where the undo file goes.
    fn undo_path(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_undo {
            return Ok(None);
        }
        match &self.undo {
            Some(path) => Ok(Some(path.clone())),
            None => default_path(&self.image.image).map(Some).map_err(failure),
        }
    }

    fn about(&self, path: PathBuf, staged: &Staged) -> Result<commit::About, Failure> {
        Ok(commit::About {
            path,
            filesystem_uuid: staged.uuid()?,
            start_bytes: self.image.offset,
            // One that was cut off has been finished by now.
            existing: Existing::Replace,
        })
    }
}

/// Finishes a repair that was cut off, from its undo file.
fn finish_earlier(path: &Path, device: &dyn BlockDevice) -> Result<(), Failure> {
    if !path.exists() {
        return Ok(());
    }
    let file = ChangeFile::open(path).map_err(failure)?;
    if commit::state_of(&file, device).map_err(failure)? == State::Partly {
        commit::apply(&file, device).map_err(failure)?;
        message!("uxfs: finished an earlier repair, which was cut off, from {}", path.display());
    }
    Ok(())
}

fn print(output: &mut Output, staged: &Staged, bytes: Option<u64>, is_dry_run: bool) -> std::io::Result<()> {
    for action in &staged.actions {
        writeln!(output, "{action}")?;
    }
    for finding in staged.remaining.iter().take(MOST_SHOWN) {
        writeln!(output, "left: [{}] {finding}", finding.number())?;
    }
    let findings = staged.findings;
    match bytes {
        Some(bytes) => writeln!(output, "{findings} findings: repaired, {bytes} bytes written"),
        None if staged.is_clean() => writeln!(output, "nothing to repair"),
        None if staged.remaining.is_empty() => {
            writeln!(output, "{findings} findings: all of this would repair them; nothing was written")
        }
        None if is_dry_run => {
            writeln!(output, "{findings} findings, of which some would be left; nothing was written")
        }
        None => {
            writeln!(output, "{findings} findings: they could not all be repaired, so nothing was written")
        }
    }
}

fn print_json(output: &mut Output, staged: &Staged, bytes: Option<u64>) -> std::io::Result<()> {
    for action in &staged.actions {
        output.json(&json!({
            "schema_version": 1,
            "type": "action",
            "message": action.to_string(),
            "missing_witness": action.missing_witness(),
        }))?;
    }
    for finding in &staged.remaining {
        let (number, message) = (Finding::number(finding), finding.to_string());
        output.json(&json!({"schema_version": 1, "type": "left", "number": number, "message": message}))?;
    }
    output.json(&json!({
        "schema_version": 1,
        "type": "summary",
        "findings": staged.findings,
        "actions": staged.actions.len(),
        "left": staged.remaining.len(),
        "written": bytes.is_some(),
        "bytes_written": bytes.unwrap_or(0),
    }))
}

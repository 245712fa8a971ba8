//! What to do after a repair or a dry run: the commands, as they can be pasted.

use std::{
    io::{self, Write},
    path::Path,
};

use uxfs_repair::{
    Finding,
    commit::default_path,
    repair::action::{Action, Certainty},
};

use super::{
    job::{Done, Job, Result},
    page, undo_files,
};
use crate::{
    ddrescue_map::MapArgument,
    forms,
    output::Output,
    text::{shell_path, shell_word},
};

/// Prints what fits. `hidden` actions were not shown.
pub(super) fn print(output: &mut Output, job: &Job<'_>, result: &Result<'_>, hidden: u64) -> io::Result<()> {
    // Begins with a space, and names the partition.
    let image = job.image.image_place().arguments();
    let with_map = with_map(job);
    // Of the options that decide about a repair, the commands that read have one; a plan has all behind it.
    let as_repaired = match result.plan {
        Some(plan) => format!("--repaired={}{image}", shell_path(plan)),
        None => format!("--repaired{}{image}", job.image.superblock_option()),
    };
    if let Some(way) = way_back(job, result.done, result.undo_file.as_deref()) {
        writeln!(output, "  {way}")?;
    }
    if let Some(folder) = folder_of_found(result) {
        writeln!(output, "  files whose names are lost: uxfs ls -lR{image} {folder}")?;
    }
    if hidden > 0 && can_be_taken_back(result) {
        writeln!(output, "  to see every action: take it back, then uxfs repair -n --all{}", options(job))?;
    }
    if job.is_dry_run {
        writeln!(output, "  what is wrong: uxfs check{with_map}")?;
    }
    if result.done == Done::Left {
        let needed_bytes = result.staged.remaining.iter().find_map(Finding::needed_bytes);
        if let Some(remedy) = needed_bytes.and_then(|bytes| job.image.image_place().lengthening(bytes)) {
            writeln!(output, "  {remedy}")?;
        }
        writeln!(output, "  what can be read: uxfs ls -lR {as_repaired}")?;
        writeln!(output, "  to save the files: uxfs rescue{with_map} --to DIR")?;
    }
    if result.done == Done::Planned && (result.plan.is_some() || !(has_map(job) || job.ignore_log_copies)) {
        writeln!(output, "  the files as they would be: uxfs ls -lR {as_repaired}")?;
    }
    print_remedy_of_losses(output, job, result)?;
    match result.done {
        // The drop-ins have options of their own.
        Done::Planned if job.is_command && forms::of(&job.image.image).is_none() => {
            let undo = if default_path(&job.image.image).is_err() { " --undo FILE" } else { "" };
            let options = match result.plan {
                Some(plan) => format!(" --plan {}{image}", shell_path(plan)),
                None => options(job),
            };
            writeln!(output, "  to repair it: uxfs repair{undo}{options}")
        }
        _ => Ok(()),
    }
}

/// The options that decide what a repair does, and the image, with a space in front.
fn options(job: &Job<'_>) -> String {
    let log = if job.ignore_log_copies { " --no-log-copies" } else { "" };
    format!("{log}{}{}", job.image.superblock_option(), with_map(job))
}

fn has_map(job: &Job<'_>) -> bool {
    job.map.and_then(MapArgument::path).is_some()
}

/// The image as arguments of commands that take the map as well.
fn with_map(job: &Job<'_>) -> String {
    job.image.image_place().with_map(job.map.and_then(MapArgument::path)).arguments()
}

fn can_be_taken_back(result: &Result<'_>) -> bool {
    matches!(result.done, Done::Repaired { .. }) && result.undo_file.is_some()
}

/// Where files without names are after a repair.
fn folder_of_found(result: &Result<'_>) -> Option<String> {
    if !matches!(result.done, Done::Repaired { .. }) {
        return None;
    }
    result.staged.actions.iter().find_map(|action| match action {
        Action::LostAndFound { folder, .. } => Some(shell_word(&[b"/", &folder[..]].concat())),
        _ => None,
    })
}

/// How to take a repair back.
pub(super) fn way_back(job: &Job<'_>, done: Done, undo_file: Option<&Path>) -> Option<String> {
    if !matches!(done, Done::Repaired { .. }) {
        return None;
    }
    // Begins with a space, and names the partition.
    let image = job.image.image_place().arguments();
    Some(match undo_file {
        Some(file) if undo_files::is_beside(&job.image.image, file) => {
            format!("to take it back: uxfs undo{image} (from {})", file.display())
        }
        Some(file) => format!("to take it back: uxfs undo --undo {}{image}", shell_path(file)),
        None => "it cannot be taken back: no undo file was kept".to_owned(),
    })
}

/// What became of the image, and how to take it back, where nothing else can be printed.
pub(super) fn in_one_line(job: &Job<'_>, result: &Result<'_>) -> String {
    let way_back = way_back(job, result.done, result.undo_file.as_deref());
    let way_back = way_back.map(|way| format!("; {way}")).unwrap_or_default();
    format!("{}{way_back}", page::headline(job, result))
}

/// A rescue tells of each file what is missing, and takes also what a repair gives up.
fn print_remedy_of_losses(output: &mut Output, job: &Job<'_>, result: &Result<'_>) -> io::Result<()> {
    let image = with_map(job);
    let has = |certainty| result.staged.actions.iter().any(|action| action.certainty() == certainty);
    let has_losses = has(Certainty::Loss);
    match result.done {
        Done::Planned | Done::LogNeeded if has_losses => {
            writeln!(output, "  to save before what a repair gives up: uxfs rescue{image} --to DIR")
        }
        Done::Planned if has(Certainty::Guess) => {
            writeln!(
                output,
                "  to save the files, and learn which are doubtful: uxfs rescue{image} --to DIR --manifest FILE"
            )
        }
        Done::Repaired { .. } if has_losses && result.undo_file.is_some() => {
            writeln!(output, "  to save what it gave up: take it back, then uxfs rescue{image} --to DIR")
        }
        _ => Ok(()),
    }
}

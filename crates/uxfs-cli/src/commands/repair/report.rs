//! What a repair does and leaves, as text and as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::Arc,
};

use serde_json::json;
use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::geometry::Geometry;
use uxfs_repair::{
    Finding,
    finding::fields::Value,
    repair::{
        Staged,
        action::{Action, Certainty, ObjectKind},
    },
};
use uxfs_volume::{tolerant::TolerantOptions, volume::Volume};

use super::{
    job::{Done, Job, Result},
    losses, undo_files,
};
use crate::{
    commands::check::report::{document, inodes_of, paths_of, place, values},
    ddrescue_map::MapArgument,
    output::Output,
    output::put_path,
    paths::Paths,
    text::shell_path,
};

/// Findings that are shown where a repair leaves some.
const MOST_SHOWN: usize = 100;
/// Of the JSON documents. Fields may be added to a version; none is removed or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// Prints all of it.
pub(super) fn print(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    is_json: bool,
) -> io::Result<()> {
    let staged = result.staged;
    let device: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&staged.overlay);
    let mut paths = match job.has_paths {
        true => Paths::new(Arc::clone(&device)),
        false => Paths::default(),
    };
    if is_json {
        return print_json(output, job, result, device, paths);
    }
    let actions = staged.actions.iter().filter(|_| !job.is_quiet);
    print_actions(output, actions, device, &mut paths)?;
    for finding in staged.remaining.iter().take(MOST_SHOWN) {
        writeln!(output, "left: [{}] {finding}", finding.number())?;
    }
    if let Some(more @ 1..) = staged.remaining.len().checked_sub(MOST_SHOWN) {
        writeln!(output, "left: and {more} more")?;
    }
    print_summary(output, job, result, &mut paths)
}

/// Sizes of the file system as it will be; none where it has no superblock even then.
fn geometry_of(device: Arc<dyn BlockDevice>) -> Option<Geometry> {
    let options = TolerantOptions { cache_budget_bytes: Some(1 << 20), ..TolerantOptions::default() };
    Volume::open_tolerantly(device, &options).ok().map(|volume| volume.geometry().clone())
}

fn print_actions<'a>(
    output: &mut Output,
    actions: impl Iterator<Item = &'a Action>,
    device: Arc<dyn BlockDevice>,
    paths: &mut Paths,
) -> io::Result<()> {
    let mut geometry = None;
    for action in actions {
        writeln!(output, "{action}")?;
        if let Some(alternative) = action.alternative() {
            writeln!(output, "    a guess; otherwise {alternative}")?;
        }
        let geometry = geometry.get_or_insert_with(|| geometry_of(Arc::clone(&device)));
        let Some(geometry) = geometry else { continue };
        for inode in inodes_of(&action.object(geometry)).filter(|_| !is_gone(action)) {
            for path in paths.of(inode) {
                write!(output, "    inode {inode} is ")?;
                output.name(&path)?;
                output.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

/// Whether the inode is free after the repair: another one may have its number, and the path of that.
fn is_gone(action: &Action) -> bool {
    matches!(action, Action::InodeLost { .. } | Action::SymlinkLost { .. } | Action::UnlinkedFreed { .. })
}

fn print_summary(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    paths: &mut Paths,
) -> io::Result<()> {
    let Result { staged, done, .. } = result;
    // Begins with a space, and names the partition.
    let image = job.image.image_place().arguments();
    let with_map = with_map(job);
    writeln!(output, "{}", headline(job, result))?;
    if *done == Done::Clean {
        return Ok(());
    }
    let words = [
        (Certainty::Computed, "computed anew"),
        (Certainty::Restored, "brought back"),
        (Certainty::Guess, "guessed"),
        (Certainty::Loss, "lost, or moved to lost+found"),
    ];
    for (certainty, words) in words {
        let counts = counted(staged, certainty);
        if !counts.is_empty() {
            writeln!(output, "  {words}: {counts}")?;
        }
    }
    losses::print(output, &staged.actions, paths)?;
    if let Some(way) = way_back(job, result) {
        writeln!(output, "  {way}")?;
    }
    if job.is_dry_run {
        writeln!(output, "  what is wrong: uxfs check{with_map}")?;
    }
    if *done == Done::Left {
        let needed_bytes = staged.remaining.iter().find_map(Finding::needed_bytes);
        if let Some(remedy) = needed_bytes.and_then(|bytes| job.image.image_place().lengthening(bytes)) {
            writeln!(output, "  {remedy}")?;
        }
        writeln!(output, "  what can be read: uxfs ls -lR --repaired{image}")?;
        writeln!(output, "  to save the files: uxfs rescue{with_map} --to DIR")?;
    }
    print_remedy_of_losses(output, job, result)
}

/// The image as arguments of commands that take the map as well.
fn with_map(job: &Job<'_>) -> String {
    job.image.image_place().with_map(job.map.and_then(MapArgument::path)).arguments()
}

/// What became of the image.
fn headline(job: &Job<'_>, result: &Result<'_>) -> String {
    let findings = result.staged.findings;
    let plural = if findings == 1 { "finding" } else { "findings" };
    let words = match result.done {
        Done::Clean => return "nothing to repair".to_owned(),
        Done::Repaired { .. } => {
            let lost = match losses::all(&result.staged.actions).len() {
                0 => String::new(),
                1 => ", but a file is lost or in part".to_owned(),
                count => format!(", but {count} files are lost or in part"),
            };
            return format!("{findings} {plural}: repaired, {} bytes written{lost}", result.bytes_written);
        }
        Done::Planned if findings == 1 => ": this would repair it",
        Done::Planned => ": all of this would repair them",
        Done::Left if job.is_dry_run => ", of which some would be left",
        Done::Left => ": they could not all be repaired",
        Done::LogNeeded => ": the log cannot be used, and changes that only it has would be lost",
    };
    format!("{findings} {plural}{words}; nothing was written")
}

/// How to take a repair back.
fn way_back(job: &Job<'_>, result: &Result<'_>) -> Option<String> {
    if !matches!(result.done, Done::Repaired { .. }) {
        return None;
    }
    // Begins with a space, and names the partition.
    let image = job.image.image_place().arguments();
    Some(match &result.undo_file {
        Some(file) if undo_files::is_beside(&job.image.image, file) => {
            format!("to take it back: uxfs undo{image} (from {})", file.display())
        }
        Some(file) => format!("to take it back: uxfs undo --undo {}{image}", shell_path(file)),
        None => "it cannot be taken back: no undo file was kept".to_owned(),
    })
}

/// What became of the image, and how to take it back, where nothing else can be printed.
pub(super) fn in_one_line(job: &Job<'_>, result: &Result<'_>) -> String {
    let image = job.image.image.display();
    let way_back = way_back(job, result).map(|way| format!("; {way}")).unwrap_or_default();
    format!("{image}: {}{way_back}", headline(job, result))
}

/// A rescue tells of each file what is missing, and takes also what a repair gives up.
fn print_remedy_of_losses(output: &mut Output, job: &Job<'_>, result: &Result<'_>) -> io::Result<()> {
    let image = with_map(job);
    let has_losses = result.staged.actions.iter().any(|action| action.certainty() == Certainty::Loss);
    match result.done {
        Done::Planned | Done::LogNeeded if has_losses => {
            writeln!(output, "  to save before what a repair gives up: uxfs rescue{image} --to DIR")
        }
        Done::Repaired { .. } if has_losses && result.undo_file.is_some() => {
            writeln!(output, "  to save what it gave up: take it back, then uxfs rescue{image} --to DIR")
        }
        _ => Ok(()),
    }
}

/// The objects of all actions that are this sure, each once, as "3 inodes, 1 extent map".
fn counted(staged: &Staged, certainty: Certainty) -> String {
    let mut objects: BTreeSet<(ObjectKind, Vec<u64>)> = BTreeSet::new();
    let mut names = 0;
    for action in staged.actions.iter().filter(|action| action.certainty() == certainty) {
        let kind = action.description().object;
        if let Action::Directory { from_parent_pointers, .. } = action {
            names += from_parent_pointers;
        }
        if kind == ObjectKind::Name {
            names += 1;
            continue;
        }
        let numbers = action.fields().into_iter().filter_map(|(name, value)| match value {
            Value::Number(number) if IDENTIFYING.contains(&name) => Some(number),
            _ => None,
        });
        objects.insert((kind, numbers.collect()));
    }
    let mut counts: BTreeMap<ObjectKind, u64> = BTreeMap::new();
    for (kind, _) in objects {
        *counts.entry(kind).or_default() += 1;
    }
    if names > 0 {
        counts.insert(ObjectKind::Name, names);
    }
    let words = counts.into_iter().map(|(kind, count)| format!("{count} {}", plural(kind, count)));
    words.collect::<Vec<_>>().join(", ")
}

/// Fields that tell objects of one kind apart.
const IDENTIFYING: [&str; 5] = ["group", "inode", "directory", "sector", "first_inode_of_group"];

fn plural(kind: ObjectKind, count: u64) -> String {
    let word = kind.name().replace('_', " ");
    match (kind, count) {
        (ObjectKind::Attributes, 1) => "attribute fork".to_owned(),
        (ObjectKind::Attributes, _) => "attribute forks".to_owned(),
        (_, 1) => word,
        (ObjectKind::Directory, _) => "directories".to_owned(),
        _ => format!("{word}s"),
    }
}

fn print_json(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    device: Arc<dyn BlockDevice>,
    mut paths: Paths,
) -> io::Result<()> {
    let Result { staged, done, bytes_written, undo_file } = result;
    let geometry = geometry_of(device);
    for action in staged.actions.iter().filter(|_| !job.is_quiet) {
        let object = geometry.as_ref().map(|geometry| action.object(geometry)).unwrap_or_default();
        let inodes = inodes_of(&object).filter(|_| !is_gone(action));
        let inodes: Vec<_> = inodes.map(|inode| (inode, paths.of(inode))).collect();
        let description = action.description();
        output.json(&json!({
            "schema_version": SCHEMA_VERSION,
            "type": "action",
            "what": description.what,
            "kind": description.object.name(),
            "rule": description.rule.number(),
            "certainty": action.certainty().name(),
            "witness": description.witness.name(),
            "alternative": action.alternative(),
            "missing_witness": action.missing_witness(),
            "message": action.to_string(),
            "fields": values(action.fields()),
            "object": place(&object),
            "paths": paths_of(&inodes),
        }))?;
    }
    for finding in &staged.remaining {
        let mut left = document(finding);
        left["type"] = "left".into();
        output.json(&left)?;
    }
    let of = |certainty| staged.actions.iter().filter(|action| action.certainty() == certainty).count();
    let mut summary = json!({
        "schema_version": SCHEMA_VERSION,
        "type": "summary",
        "findings": staged.findings,
        "actions": staged.actions.len(),
        "computed": of(Certainty::Computed),
        "restored": of(Certainty::Restored),
        "guesses": of(Certainty::Guess),
        "losses": of(Certainty::Loss),
        "files_lost": losses::all(&staged.actions).len(),
        "left": staged.remaining.len(),
        "written": matches!(done, Done::Repaired { .. }),
        "bytes_written": bytes_written,
        "undo_file": null,
    });
    if let Some(path) = undo_file {
        put_path(&mut summary, "undo_file", path);
    }
    put_path(&mut summary, "image", &job.image.image);
    output.json(&summary)
}

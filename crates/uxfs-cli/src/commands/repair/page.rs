//! What a person reads of a repair: the first changes of each kind, how many of each there are, what is lost or doubtful, and what to do
//! next.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::Arc,
};

use uxfs_block::device::BlockDevice;
use uxfs_repair::{
    Finding,
    finding::fields::Value,
    repair::{
        Staged,
        action::{Action, Certainty, ObjectKind},
    },
};

use super::{
    job::{Done, Job, Result},
    losses, next,
    report::{geometry_of, is_gone},
};
use crate::{
    commands::check::report::inodes_of, counted_kinds::CountedKinds, output::Output, paths::Paths,
    text::counted,
};

/// Prints it.
pub(super) fn print(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    device: Arc<dyn BlockDevice>,
    mut paths: Paths,
) -> io::Result<()> {
    let staged = result.staged;
    let hidden = match job.is_quiet {
        true => 0,
        false => print_actions(output, job, &staged.actions, device, &mut paths)?,
    };
    print_left(output, job, &staged.remaining)?;
    if hidden > 0 {
        let verb = if hidden == 1 { "action is" } else { "actions are" };
        // What has been written is no longer there to be shown.
        let way = if matches!(result.done, Done::Repaired { .. }) { "" } else { "--all shows them, " };
        writeln!(output, "{hidden} {verb} not shown: {way}uxfs help rule N explains a kind")?;
    }
    writeln!(output, "{}", headline(job, result))?;
    if result.done == Done::Clean {
        return Ok(());
    }
    losses::print(output, &staged.actions, job.amount, &mut paths)?;
    let words = [
        (Certainty::Loss, "lost, or moved to lost+found"),
        (Certainty::Guess, "guessed"),
        (Certainty::Restored, "brought back"),
        (Certainty::Computed, "recomputed"),
    ];
    for (certainty, words) in words {
        let counts = objects_of(staged, certainty);
        if !counts.is_empty() {
            writeln!(output, "  {words}: {counts}")?;
        }
    }
    next::print(output, job, result, hidden)
}

/// Prints the first actions of each kind, and the counts where those are not all; gives how many are not shown.
fn print_actions(
    output: &mut Output,
    job: &Job<'_>,
    actions: &[Action],
    device: Arc<dyn BlockDevice>,
    paths: &mut Paths,
) -> io::Result<u64> {
    let mut geometry = None;
    let mut kinds = CountedKinds::new(job.amount);
    for action in actions {
        let rule = action.description().rule.number();
        if !kinds.add((Reverse(action.certainty()), rule, action.words_of_kind())) {
            continue;
        }
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
    let hidden = kinds.hidden();
    if hidden > 0 {
        for ((Reverse(certainty), rule, words), count) in kinds.iter() {
            writeln!(output, "[{rule}] {}: {count} ({words})", certainty.name())?;
        }
    }
    Ok(hidden)
}

/// Prints the findings that the repair leaves.
fn print_left(output: &mut Output, job: &Job<'_>, findings: &[Finding]) -> io::Result<()> {
    let mut kinds = CountedKinds::new(job.amount);
    for finding in findings {
        if kinds.add(finding.number()) {
            writeln!(output, "left: [{}] {finding}", finding.number())?;
        }
    }
    for (number, count) in kinds.iter() {
        let hidden = kinds.hidden_of(*count);
        if hidden > 0 {
            let meaning = Finding::meaning_of(*number).unwrap_or_default();
            writeln!(output, "left: [{number}] {hidden} more ({meaning})")?;
        }
    }
    Ok(())
}

/// What became of the image.
pub(super) fn headline(job: &Job<'_>, result: &Result<'_>) -> String {
    let findings = counted(result.staged.findings, "finding");
    let words = match result.done {
        Done::Clean => return "nothing to repair".to_owned(),
        Done::Repaired { .. } => {
            let lost = match losses::all(&result.staged.actions).len() {
                0 => String::new(),
                1 => ", but a file is lost or in part".to_owned(),
                count => format!(", but {count} files are lost or in part"),
            };
            return format!("{findings}: repaired, {} bytes written{lost}", result.bytes_written);
        }
        Done::Planned if result.staged.findings == 1 => ": this would repair it",
        Done::Planned => ": all of this would repair them",
        Done::Left if job.is_dry_run => ", of which some would be left",
        Done::Left => ": they could not all be repaired",
        Done::LogNeeded => ": the log cannot be used, and changes that only it has would be lost",
    };
    format!("{findings}{words}; nothing was written")
}

/// The objects of all actions that are this sure, each once, as "3 inodes, 1 extent map".
fn objects_of(staged: &Staged, certainty: Certainty) -> String {
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

//! What a repair does and leaves, for programs; [`page`] is for people.

use std::{io, sync::Arc};

use serde_json::json;
use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::geometry::Geometry;
use uxfs_repair::repair::action::{Action, Certainty};
use uxfs_volume::{tolerant::TolerantOptions, volume::Volume};

use super::{
    job::{Done, Job, Result},
    losses, page,
};
use crate::{
    commands::check::report::{document, inodes_of, paths_of, place, values},
    output::Output,
    output::put_path,
    paths::Paths,
};

/// Of the JSON documents. Fields may be added to a version; none is removed or changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Prints all of it.
pub(super) fn print(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    is_json: bool,
) -> io::Result<()> {
    let device: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&result.staged.overlay);
    let paths = match job.has_paths {
        true => Paths::new(Arc::clone(&device)),
        false => Paths::default(),
    };
    match is_json {
        true => print_json(output, job, result, device, paths),
        false => page::print(output, job, result, device, paths),
    }
}

/// Sizes of the file system as it will be; none where it has no superblock even then.
pub(super) fn geometry_of(device: Arc<dyn BlockDevice>) -> Option<Geometry> {
    let options = TolerantOptions { cache_budget_bytes: Some(1 << 20), ..TolerantOptions::default() };
    Volume::open_tolerantly(device, &options).ok().map(|volume| volume.geometry().clone())
}

/// Whether the inode is free after the repair: another one may have its number, and the path of that.
pub(super) fn is_gone(action: &Action) -> bool {
    matches!(action, Action::InodeLost { .. } | Action::SymlinkLost { .. } | Action::UnlinkedFreed { .. })
}

fn print_json(
    output: &mut Output,
    job: &Job<'_>,
    result: &Result<'_>,
    device: Arc<dyn BlockDevice>,
    mut paths: Paths,
) -> io::Result<()> {
    let Result { staged, done, bytes_written, undo_file, .. } = result;
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
        "plan": null,
    });
    if let Some(path) = undo_file {
        put_path(&mut summary, "undo_file", path);
    }
    if let Some(path) = result.plan {
        put_path(&mut summary, "plan", path);
    }
    put_path(&mut summary, "image", &job.image.image);
    output.json(&summary)
}

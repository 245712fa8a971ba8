//! `--plan`: what a repair would write, kept in a file; later it is shown, or carried out, without looking for damage again.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use uxfs_block::device::BlockDevice;
use uxfs_format::units::Uuid;
use uxfs_repair::{
    commit::{About as Kept, CommitError, Existing, PlanFacts, Planned},
    repair::{Staged, action::Certainty},
};
use uxfs_volume::error::Error;

use super::{
    job::{Done, Ended, Job},
    losses, next,
    report::SCHEMA_VERSION,
};
use crate::{
    commands::Context,
    destination,
    failure::{About, Failure},
    output::{Output, put_path},
    overwrite::{self, Input, Product},
    place::ImagePlace,
    remains::Remains,
    text::{counted, shell_path},
};

/// Refuses a file that holds something else than a plan, before any work is done.
pub(super) fn refuse_other(path: &Path, inputs: &[Input<'_>]) -> Result<(), Failure> {
    overwrite::refuse_or_other(path, inputs, Product::Plan)?;
    destination::must_have_folder(path)?;
    // The plan gets its name when it is complete, and would take the place of a device.
    match path.metadata() {
        Ok(found) if !found.is_file() => {
            Err(Failure::usage("a plan is kept in a regular file")).about_host(path)
        }
        _ => Ok(()),
    }
}

/// Keeps what a repair would write.
pub(super) fn keep(path: &Path, device: &dyn BlockDevice, staged: &Staged) -> Result<(), Failure> {
    let least = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let of = |certainty| staged.actions.iter().filter(|action| action.certainty() == certainty).count();
    let facts = PlanFacts {
        findings: u32::try_from(staged.findings).unwrap_or(u32::MAX),
        actions: least(staged.actions.len()),
        guesses: least(of(Certainty::Guess)),
        losses: least(of(Certainty::Loss)),
        files_lost: least(losses::all(&staged.actions).len()),
        remaining: least(staged.remaining.len()),
    };
    let about = Kept {
        // Through a link to what it leads to.
        path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        filesystem_uuid: staged.uuid().unwrap_or(Uuid([0; 16])),
        // Of the file system, wherever it lies: a plan fits a copy of its partition as well.
        start_bytes: 0,
        existing: Existing::Replace,
    };
    staged.write_plan(device, &about, facts).map_err(|error| match error {
        CommitError::Device(error) => Error::from(error).into(),
        error => Failure::caused_by(&error).with_remedy("no plan was made"),
    })
}

/// Opens a plan over the image.
pub(crate) fn open(
    path: &Path,
    device: &Arc<dyn BlockDevice>,
    image: &ImagePlace,
) -> Result<Planned, Failure> {
    let remedy =
        |plan: &str| format!("make a new plan: uxfs repair --dry-run --plan {plan}{}", image.arguments());
    Planned::open(path, device).map_err(|error| match error {
        CommitError::Device(error) => Error::from(error).into(),
        error @ (CommitError::Foreign { .. } | CommitError::OtherSize { .. }) => Failure::caused_by(&error)
            .about("the plan does not fit the image")
            .about_image(image.path())
            .with_remedy(&remedy(&shell_path(path))),
        // A file that is no plan is not replaced.
        error => Failure::caused_by(&error).with_remedy(&remedy("FILE")),
    })
}

impl Job<'_> {
    /// Carries out a plan, and prints what became of the image.
    pub(super) fn carry_out(&self, plan: &Path, context: &Context) -> Result<Ended, Failure> {
        let image = self.image;
        let place = image.image_place();
        let device = image.device_to_repair()?;
        let undo_place = self.undo_path(device.as_ref())?;
        let remains = Remains::begin(format!("{}: nothing has been written", image.image.display()));
        let planned = open(plan, &device, &place)?;
        let facts = *planned.facts();
        if facts.remaining > 0 {
            let left = counted(facts.remaining.into(), "finding");
            let failure = Failure::corruption(format!("the plan leaves {left}, and is for looking only"));
            return Err(failure.about_host(plan).with_remedy(&format!(
                "nothing was written; uxfs rescue{} --to DIR saves the files",
                place.arguments()
            )));
        }
        let (done, bytes_written, undo_file) = match planned.is_done() {
            true => (Done::Clean, 0, None),
            false => {
                let uuid = || Ok(planned.file_facts().filesystem_uuid);
                let write = |device: &dyn BlockDevice, about: Option<&Kept>| planned.write(device, about);
                let (bytes, file) = self.write(device.as_ref(), undo_place, &remains, uuid, write)?;
                (Done::Repaired { findings: facts.findings.into() }, bytes, file)
            }
        };
        let carried_out = CarriedOut { job: self, plan, facts, done, bytes_written, undo_file };
        let mut output = Output::new();
        let printed = carried_out.print(&mut output, context.json).and_then(|()| output.finish());
        let words = || carried_out.in_one_line();
        let unprinted = printed.err().and_then(|error| self.tell_without_output(&error, &words(), done));
        Ok(Ended { done, has_lost_files: done != Done::Clean && facts.files_lost > 0, unprinted })
    }
}

/// A plan that was carried out.
struct CarriedOut<'c> {
    job: &'c Job<'c>,
    plan: &'c Path,
    facts: PlanFacts,
    done: Done,
    bytes_written: u64,
    undo_file: Option<PathBuf>,
}

impl CarriedOut<'_> {
    fn headline(&self) -> String {
        if self.done == Done::Clean {
            return "nothing to repair: the image is as the plan leaves it".to_owned();
        }
        let PlanFacts { findings, files_lost, .. } = self.facts;
        let lost = match files_lost {
            0 => String::new(),
            1 => ", but a file is lost or in part".to_owned(),
            count => format!(", but {count} files are lost or in part"),
        };
        let findings = counted(findings.into(), "finding");
        format!("{findings}: repaired as planned, {} bytes written{lost}", self.bytes_written)
    }

    fn way_back(&self) -> Option<String> {
        next::way_back(self.job, self.done, self.undo_file.as_deref())
    }

    fn in_one_line(&self) -> String {
        let way_back = self.way_back().map(|way| format!("; {way}")).unwrap_or_default();
        format!("{}{way_back}", self.headline())
    }

    fn print(&self, output: &mut Output, is_json: bool) -> io::Result<()> {
        if is_json {
            return self.print_json(output);
        }
        writeln!(output, "{}", self.headline())?;
        match self.way_back() {
            Some(way) => writeln!(output, "  {way}"),
            None => Ok(()),
        }
    }

    fn print_json(&self, output: &mut Output) -> io::Result<()> {
        let PlanFacts { findings, actions, guesses, losses, files_lost, .. } = self.facts;
        let mut document = json!({
            "schema_version": SCHEMA_VERSION,
            "type": "carried_out",
            "findings": findings,
            "actions": actions,
            "guesses": guesses,
            "losses": losses,
            "files_lost": files_lost,
            "written": self.done != Done::Clean,
            "bytes_written": self.bytes_written,
            "undo_file": null,
        });
        if let Some(path) = &self.undo_file {
            put_path(&mut document, "undo_file", path);
        }
        put_path(&mut document, "plan", self.plan);
        put_path(&mut document, "image", &self.job.image.image);
        output.json(&document)
    }
}

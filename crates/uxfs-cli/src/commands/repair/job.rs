//! One repair, from the image to what became of it.

use std::{
    io,
    path::{Path, PathBuf},
};

use uxfs_block::{device::BlockDevice, ranges::RangeSet};
use uxfs_repair::{
    commit::{self, CommitError, Existing, default_path},
    repair::{RepairOptions, Staged, action::Action, repair_with_progress},
};

use uxfs_format::units::Uuid;
use uxfs_volume::error::{Error, OperationError};

use super::{losses, next, plan, report, undo_files};
use crate::{
    commands::{Context, undo::failure},
    counted_kinds::Amount,
    ddrescue_map::MapArgument,
    failure::{About, Failure},
    image::ImageArguments,
    kind::{Kind, Note},
    output::{Output, notice},
    overwrite::{self, Input},
    place::ImagePlace,
    progress::{Measure, Progress},
    remains::Remains,
    text::shell_path,
};

/// Where the undo file goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UndoPlace {
    /// Beside the image; a block device needs a path.
    BesideImage,
    /// Beside the image; none for a block device.
    BesideImageFile,
    /// There.
    At(PathBuf),
    /// None is kept.
    None,
}

/// A repair that was asked for.
#[derive(Debug)]
pub(crate) struct Job<'j> {
    pub image: &'j ImageArguments,
    /// With a dry run the plan to be kept, else the one to be carried out.
    pub plan: Option<&'j Path>,
    /// What of the image was read.
    pub map: Option<&'j MapArgument>,
    /// Nothing is written.
    pub is_dry_run: bool,
    pub undo: UndoPlace,
    pub ignore_log_copies: bool,
    /// A log that cannot be read or replayed is not given up.
    pub keeps_unread_log: bool,
    /// How many actions of a kind are shown.
    pub amount: Amount,
    /// Neither single actions nor progress are shown.
    pub is_quiet: bool,
    /// It is `uxfs repair`, and no drop-in.
    pub is_command: bool,
    /// Paths of inodes are looked for.
    pub has_paths: bool,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// There was nothing to repair.
    Clean,
    /// It was repaired.
    Repaired {
        /// Findings before; none where only the log was replayed.
        findings: u64,
    },
    /// A dry run: it would be repaired.
    Planned,
    /// It cannot be repaired. Nothing was written.
    Left,
    /// A log that cannot be used would be given up, and may not be. Nothing was written.
    LogNeeded,
}

/// A repair that came to an end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub done: Done,
    /// The repair gives files up, or has only a part of them.
    pub has_lost_files: bool,
    /// Standard output is full: says so, and what became of the image.
    pub unprinted: Option<Failure>,
}

impl Ended {
    /// Says what could not be printed, for the drop-ins, whose exit codes are about the image alone.
    pub fn tell(self) -> Done {
        if let Some(failure) = self.unprinted {
            failure.tell(false);
        }
        self.done
    }
}

/// What is known at the end.
#[derive(Debug)]
pub(super) struct Result<'r> {
    pub staged: &'r Staged,
    pub done: Done,
    pub bytes_written: u64,
    pub undo_file: Option<PathBuf>,
    /// Where the plan is kept.
    pub plan: Option<&'r Path>,
}

impl Job<'_> {
    /// Repairs, and prints what was done.
    pub fn run(&self, context: &Context) -> std::result::Result<Ended, Failure> {
        let image = self.image;
        self.refuse_outputs()?;
        if let Some(plan) = self.plan.filter(|_| !self.is_dry_run) {
            return self.carry_out(plan, context);
        }
        let device = if self.is_dry_run { image.device_at_rest()? } else { image.device_to_repair()? };
        let undo_place = if self.is_dry_run { None } else { self.undo_path(device.as_ref())? };
        let mut unread = RangeSet::default();
        if let Some(map) = self.map {
            map.unread(image, device.size_bytes())?.into_iter().for_each(|range| unread.insert(range));
        }
        let options = RepairOptions {
            unread,
            cache_budget_bytes: image.cache_size,
            superblock: image.superblock_choice(),
            ignore_log_copies: self.ignore_log_copies,
            ..RepairOptions::default()
        };
        let remains = Remains::begin(format!("{}: nothing has been written", image.image.display()));
        let progress = Progress::new("looking", Measure::Things("inodes", None), self.is_quiet);
        let staged = repair_with_progress(&device, &options, &|event| progress.follow(event));
        drop(progress);
        let staged = staged.map_err(|error| self.not_repaired(error))?;
        let done = self.done(&staged);
        let (bytes_written, undo_file) = match done {
            Done::Repaired { .. } => {
                let write =
                    |device: &dyn BlockDevice, about: Option<&commit::About>| staged.write(device, about);
                self.write(device.as_ref(), undo_place, &remains, || staged.uuid(), write)?
            }
            _ => (0, None),
        };
        // Without room for the plan the page is printed all the same.
        let kept = self.plan.map(|path| plan::keep(path, device.as_ref(), &staged)).transpose();
        let plan = self.plan.filter(|_| kept.is_ok());
        let result = Result { staged: &staged, done, bytes_written, undo_file, plan };
        let mut output = Output::new();
        let printed = report::print(&mut output, self, &result, context.json);
        let unprinted = printed.and_then(|()| output.finish()).err();
        kept?;
        let words = || next::in_one_line(self, &result);
        let unprinted = unprinted.and_then(|error| self.tell_without_output(&error, &words(), done));
        let has_lost_files = !losses::all(&staged.actions).is_empty();
        Ok(Ended { done, has_lost_files, unprinted })
    }

    /// Refuses to write over what is read, and over other files.
    fn refuse_outputs(&self) -> std::result::Result<(), Failure> {
        let inputs = self.map.map(|map| map.inputs(&self.image.image));
        let mut inputs = inputs.unwrap_or_else(|| vec![Input::image(&self.image.image)]);
        if let Some(plan) = self.plan.filter(|_| self.is_dry_run) {
            plan::refuse_other(plan, &inputs)?;
        }
        inputs.extend(self.plan.map(|plan| Input::new("plan", plan)));
        match &self.undo {
            UndoPlace::At(path) => overwrite::refuse_or_file_system(path, &inputs),
            _ => Ok(()),
        }
    }

    /// Carries a repair to the image; gives how many bytes were written, and the undo file.
    pub(super) fn write(
        &self,
        device: &dyn BlockDevice,
        undo_place: Option<(PathBuf, Option<Uuid>)>,
        remains: &Remains,
        uuid: impl FnOnce() -> std::result::Result<Uuid, Error>,
        write: impl FnOnce(&dyn BlockDevice, Option<&commit::About>) -> std::result::Result<u64, CommitError>,
    ) -> std::result::Result<(u64, Option<PathBuf>), Failure> {
        let image = self.image;
        let (undo_file, earlier) = undo_place.unzip();
        let about = undo_file.clone().map(|path| self.about(path, uuid()?)).transpose()?;
        remains.say(left_half_written(&image.image_place(), undo_file.as_deref()));
        let written = write(device, about.as_ref());
        if let (Some(path), Some(Some(earlier))) = (&undo_file, earlier) {
            undo_files::tell_replaced(path, earlier);
        }
        let bytes_written = written
            .map_err(|error| not_written(error, &image.image_place(), undo_file.as_deref()))
            .about_image(&image.image)?;
        if let Some(about) = about.as_ref().filter(|_| bytes_written > 0) {
            undo_files::give_owner(&about.path, &image.image);
        }
        // The file may have changed nothing but what lay in the log.
        Ok((bytes_written, about.map(|about| about.path).filter(|_| bytes_written > 0)))
    }

    /// Reports on standard error what became of the image, if standard output cannot be written: the image may have changed.
    pub(super) fn tell_without_output(&self, error: &io::Error, words: &str, done: Done) -> Option<Failure> {
        if error.kind() == io::ErrorKind::BrokenPipe {
            if matches!(done, Done::Repaired { .. }) {
                notice!(Note::Progress, "{}: {words}", self.image.image.display());
            }
            return None;
        }
        let words = format!("{words} (cannot write output: {error})");
        Some(match done {
            Done::Clean | Done::Repaired { .. } => Failure::refused(Kind::Output, words),
            Done::Planned | Done::Left | Done::LogNeeded => Failure::corruption(words),
        })
    }

    /// Why no repair was possible. Where a file system is there, a rescue may save its files all the same.
    fn not_repaired(&self, error: Error) -> Failure {
        let is_file_system =
            matches!(&error, Error::Operation(error) if !matches!(error, OperationError::NoSuchGroup));
        let failure = self.image.not_opened(error);
        match is_file_system {
            true => failure.with_remedy(&format!(
                "no repair is possible, and nothing was written; uxfs rescue {} --to DIR saves the files",
                self.image.image.display()
            )),
            false => failure,
        }
    }

    /// What the repair comes to, once it is written where it may be.
    fn done(&self, staged: &Staged) -> Done {
        let gives_up_log =
            || staged.actions.iter().any(|action| matches!(action, Action::NewLog { is_unread: true, .. }));
        if staged.is_clean() {
            Done::Clean
        } else if !staged.remaining.is_empty() {
            Done::Left
        } else if self.is_dry_run {
            Done::Planned
        } else if self.keeps_unread_log && gives_up_log() {
            Done::LogNeeded
        } else {
            Done::Repaired { findings: staged.findings }
        }
    }

    /// Where the undo file goes, and which one is there that it replaces. A repair that was cut off is finished before.
    pub(super) fn undo_path(
        &self,
        device: &dyn BlockDevice,
    ) -> std::result::Result<Option<(PathBuf, Option<Uuid>)>, Failure> {
        let image = &self.image.image;
        let target = undo_files::Target {
            device,
            start_bytes: self.image.place.find(image).about_image(image)?.start_bytes,
        };
        let first = match (&self.undo, default_path(image)) {
            (UndoPlace::None, _) | (UndoPlace::BesideImageFile, Err(CommitError::NoDefaultPath)) => {
                return Ok(None);
            }
            (UndoPlace::At(path), _) => {
                let earlier = undo_files::take_named(path, target).about_image(image)?;
                return Ok(Some((path.clone(), earlier)));
            }
            (_, first) => first.map_err(failure).about_image(image)?,
        };
        undo_files::next(&first, target).map(|path| Some((path, None))).about_image(image)
    }

    fn about(&self, path: PathBuf, filesystem_uuid: Uuid) -> std::result::Result<commit::About, Failure> {
        Ok(commit::About {
            path,
            filesystem_uuid,
            start_bytes: self.image.place.find(&self.image.image).about_image(&self.image.image)?.start_bytes,
            // One that was cut off has been finished by now.
            existing: Existing::Replace,
        })
    }
}

/// What a signal leaves while a repair is being written.
fn left_half_written(image: &ImagePlace, undo_file: Option<&Path>) -> String {
    let (back, image) = (taking_back(image, undo_file), image.path().display());
    format!("{image}: it may be half written, and is marked then: repair it again{back}")
}

/// The command that takes it back, behind other words.
fn taking_back(image: &ImagePlace, undo_file: Option<&Path>) -> String {
    let back = |path| format!("; uxfs undo --undo {}{} takes it back", shell_path(path), image.arguments());
    undo_file.map(back).unwrap_or_default()
}

/// Why a repair was not written, with a remedy.
fn not_written(error: CommitError, image: &ImagePlace, undo_file: Option<&Path>) -> Failure {
    match &error {
        CommitError::Device(_) => failure(error).with_remedy(&format!(
            "the image may be half written, and is marked then: make room on the host, or mend the device, and repair it again{}",
            taking_back(image, undo_file)
        )),
        CommitError::NoRoom { .. } | CommitError::File { .. } => failure(error).with_remedy(
            "nothing was written to the image; uxfs repair --undo FILE puts the file elsewhere, --no-undo keeps none",
        ),
        _ => failure(error),
    }
}

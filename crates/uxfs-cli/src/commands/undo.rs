//! `uxfs undo`: takes a repair back.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{OpenOptions, hole_filler::Shortage, open_plain},
    window::Part,
};
use uxfs_repair::commit::{CommitError, Facts, State, UndoFile, UndoOptions, Undone, default_path, undo};
use uxfs_volume::error::Error;

use crate::{
    commands::{Context, repair::undo_files},
    failure::{About, Exit, Failure, Outcome},
    forms,
    image::EngineArgument,
    kind::Kind,
    output::Output,
    output::put_path,
    overwrite,
    partitions::Disk,
    place::{ImagePlace, PlaceArguments},
};

/// Arguments of `uxfs undo`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Restores what `uxfs repair` changed, byte for byte, from the undo file that it left beside the image. \
    An undo that was cut off is taken up by calling it again. An image that was changed since the repair is refused, and \
    nothing is written. The undo file stays: after several repairs, each call takes back one more. Without it a repair cannot be taken back.\n\
    Exits with 0 where the image is as it was before the repair, and with 1 where it is not. Where standard output is full, it exits with 1, \
    and standard error says that it was restored.\n\
    Examples:\n  uxfs undo disk.img\n  uxfs undo --undo /var/tmp/sda1.undo --remove /dev/sda1"
)]
pub struct Arguments {
    /// Image file or block device
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The undo file [default: IMAGE.uxfs-undo; of several repairs, that of the last which is not taken back yet]
    #[arg(long, value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Restore even if the image was changed since the repair: later changes of the same places are lost, others stay. Run
    /// uxfs check afterwards
    #[arg(long)]
    force: bool,
    /// Remove the undo file when the image is restored
    #[arg(long)]
    remove: bool,
    /// Where the file system lies in it; where that is not given, from where it began at the repair to the end of the image.
    #[command(flatten)]
    place: PlaceArguments,
    /// I/O engine
    #[arg(long, value_enum, default_value_t, help_heading = "Input and output")]
    engine: EngineArgument,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    arguments.run(context).about_image(&arguments.image)
}

impl Arguments {
    fn run(&self, context: &Context) -> Outcome {
        // An image that is not there has no undo file either, and that would be the message.
        open_plain(&self.image).map_err(|error| Failure::caused_by(&error).about("cannot open it"))?;
        let path = match &self.undo {
            Some(path) => path.clone(),
            None => undo_files::newest(&self.image, |file| self.device(file.facts()))?,
        };
        overwrite::refuse(&self.image, &[overwrite::Input::new("undo file", &path)])?;
        let file = UndoFile::open(&path).map_err(failure)?;
        let device = self.device(file.facts())?;
        let options = UndoOptions { force: self.force };
        let undone = undo(&file, &*device, options).map_err(|error| self.not_undone(error, file.facts()))?;
        if self.remove {
            fs::remove_file(&path).map_err(|error| {
                Failure::caused_by(&error)
                    .about_host(&path)
                    .about("restored, but cannot remove the undo file")
            })?;
        }
        let document = self.document(&undone, file.facts(), &path);
        // Which one, where there is a choice.
        let is_first = self.undo.is_some() || default_path(&self.image).is_ok_and(|first| first == path);
        let from = (!is_first).then_some(path.as_path());
        print(&undone, &document, from, context.json)
            .map_err(|error| Failure::from(error).about(words(&undone, from)))?;
        Ok(Exit::Success)
    }

    /// Why the repair was not taken back. Nothing can be restored behind the end of an image.
    fn not_undone(&self, error: CommitError, facts: &Facts) -> Failure {
        let CommitError::OtherSize { expected_bytes, found_bytes } = error else { return failure(error) };
        let Some(missing_bytes @ 1..) = expected_bytes.checked_sub(found_bytes) else {
            return failure(error);
        };
        let words = format!("{error}: the image is {missing_bytes} bytes too short");
        let failure = Failure::refused(Kind::Changed, words);
        let place = ImagePlace::new(&self.image, facts.start_bytes);
        failure.with_remedy(&match place.lengthening(expected_bytes) {
            Some(lengthening) => {
                format!(
                    "nothing was changed, and --force cannot restore what lies behind its end; {lengthening}"
                )
            }
            None => "nothing was changed, and --force cannot restore what lies behind its end".to_owned(),
        })
    }

    /// The image for changes, from where the repaired file system begins.
    fn device(&self, facts: &Facts) -> Result<Arc<dyn BlockDevice>, Failure> {
        let repaired = facts.start_bytes;
        let extent = match self.place.is_given() {
            true => self.place.find(&self.image)?,
            false => self.place_of_repair(facts),
        };
        if extent.start_bytes != repaired {
            let given = extent.start_bytes;
            let message =
                format!("the repair was of the file system at byte {repaired}, not of that at byte {given}");
            return Err(Failure::refused(Kind::Invalid, message));
        }
        forms::refuse_changes(&self.image)?;
        let options = OpenOptions {
            engine: self.engine.into(),
            writable: true,
            lock: Lock::Exclusive,
            ..OpenOptions::default()
        };
        extent.open(&self.image, &options).map_err(|error| Failure::from(Error::from(error)))
    }

    /// Where the repaired file system lies: in a partition where there is one of its place and length, else up to the end of the image.
    fn place_of_repair(&self, facts: &Facts) -> Part {
        let (start_bytes, size_bytes) = (facts.start_bytes, facts.device_size_bytes);
        let part = start_bytes..start_bytes.saturating_add(size_bytes);
        let is_partition = Disk::open(&self.image).is_ok_and(|disk| disk.has(&part));
        Part { start_bytes, length_bytes: is_partition.then_some(size_bytes) }
    }

    fn document(&self, undone: &Undone, facts: &Facts, path: &Path) -> serde_json::Value {
        let is_changed = undone.found != State::NotApplied;
        let mut document = json!({
            "found": undone.found.name(),
            "changed": is_changed,
            "restored_bytes": if is_changed { undone.changed_bytes } else { 0 },
            "restored_ranges": if is_changed { undone.ranges } else { 0 },
            "undo_file_removed": self.remove,
            "id": facts.id.to_string(),
            "uuid": facts.filesystem_uuid.to_string(),
        });
        put_path(&mut document, "undo_file", path);
        put_path(&mut document, "image", &self.image);
        document
    }
}

fn print(
    undone: &Undone,
    document: &serde_json::Value,
    from: Option<&Path>,
    is_json: bool,
) -> io::Result<()> {
    let mut output = Output::new();
    match is_json {
        true => output.json(document)?,
        false => writeln!(output, "{}", words(undone, from))?,
    }
    output.finish()
}

fn words(undone: &Undone, from: Option<&Path>) -> String {
    let Undone { found, changed_bytes, ranges } = undone;
    let plural = if *ranges == 1 { "" } else { "s" };
    match found {
        State::NotApplied => "the image is as it was before the repair: nothing to do".to_owned(),
        _ => {
            let from = from.map(|path| format!(" (from {})", path.display())).unwrap_or_default();
            format!("restored: {changed_bytes} bytes in {ranges} range{plural}{from}")
        }
    }
}

/// What went wrong, with a remedy where there is one.
pub(super) fn failure(error: CommitError) -> Failure {
    let remedy = match &error {
        CommitError::Foreign { .. } | CommitError::OtherSize { .. } => Some(
            "nothing was changed; --force restores all the same, and loses later changes of the same places",
        ),
        CommitError::NoDefaultPath => Some("give it with --undo FILE"),
        CommitError::File { action: "open", source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
            "uxfs repair leaves it beside the image, or where its --undo said: give that with --undo FILE; nothing was changed",
        ),
        CommitError::Unusable { .. } => Some("nothing was changed"),
        CommitError::ImageRoom(Shortage::Limit { .. }) => Some("nothing was changed; raise the limit"),
        CommitError::ImageRoom(_) => {
            Some("nothing was changed: make room on the host, or copy the image to where there is more")
        }
        _ => None,
    };
    let failure = match error {
        CommitError::Device(error) => Error::from(error).into(),
        error => Failure::caused_by(&error),
    };
    match remedy {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}

//! `uxfs extract`: files out of an image, to a directory or a pax archive.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::pipe::fcntl_setpipe_size;
use serde_json::{Value, json};
use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Aspect, Counts, Observer, Problem, Severity},
    sink::{Sink, SinkError},
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
    volume::Volume,
};

use crate::{
    commands::Context,
    destination,
    failure::{About, Complaints, Exit, Failure, Outcome},
    kind::{Kind, Note},
    output::put_path,
    output::{JsonName, Output, message, notice},
    overwrite,
    progress::{Measure, Progress, QuietArgument, closing::Closing},
    remains::Remains,
    target::Target,
    text::write_escaped,
};

/// Problems that the JSON document lists; of more it gives the number.
const LISTED_PROBLEMS_MAX: usize = 10_000;

/// Requested pipe size: the maximum for unprivileged users.
const PIPE_BYTES: usize = 1 << 20;

/// Arguments of `uxfs extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "PATH is extracted under its last name; of / and DIR/. the contents are extracted.\n\
                  DIR is created if it is missing. Nothing is written outside of it, and existing files are kept unless \
                  --overwrite is given.\nOwners, devices and trusted attributes need root: a device that cannot be made is a \
                  failure; metadata that cannot be restored is counted, and listed with --json.\n\
                  Examples: uxfs extract disk.img /etc --to rescued\n          \
                  uxfs extract disk.img --tar - | tar tv")]
pub struct Arguments {
    /// File or directory in the image, or an inode number
    #[arg(value_name = "PATH", default_value = "/")]
    path: OsString,
    #[command(flatten)]
    place: Destination,
    /// Replace existing files (existing directories are merged into)
    #[arg(long, requires = "to")]
    overwrite: bool,
    /// Threads that read and encode [default: one for each processor, up to 16]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    #[command(flatten)]
    quiet: QuietArgument,
}

/// Where to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Destination {
    /// Write files below this directory
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Write a pax archive to this file, or to standard output for -. An existing archive is replaced, and no
    /// other file
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let start = find_start(filesystem, &arguments.path, context)?;
    let mut options = ExtractOptions::default();
    if let Some(threads) = arguments.threads {
        options.workers = threads.into();
    }
    let total = (arguments.path == "/").then(|| files_in(filesystem));
    let mut tally = Tally::new(context, total, arguments.quiet);
    let mut is_stdout_taken = false;
    let images: Vec<_> = context.image.iter().map(|image| overwrite::Input::image(image)).collect();
    if let Some(directory) = &arguments.place.to {
        if arguments.overwrite {
            spare_image(filesystem, &start, directory, context)?;
        }
        let _remains = Remains::begin(format!(
            "{}: the files so far are there, the last ones perhaps in part",
            directory.display()
        ));
        let sink = DirectorySink::create(directory, DirectoryOptions { overwrite: arguments.overwrite });
        let sink = sink.map_err(|error| Failure::from(error).at_host_tree(directory))?;
        carry_out(filesystem, &start, &options, sink, &mut tally)
            .map_err(|failure| failure.at_host_tree(directory))?;
    } else if let Some(file) = &arguments.place.tar {
        is_stdout_taken = destination::is_standard_output(file);
        overwrite::refuse_or_other(file, &images, overwrite::Product::Archive)?;
        let remains = Remains::begin(format!("{}: the archive is not complete", file.display()));
        let sink = TarSink::new(open_archive(file, |path| remains.making(path, destination::create))?);
        let written = carry_out(filesystem, &start, &options, sink, &mut tally);
        if written.as_ref().is_err_and(Failure::is_quiet) {
            // The reader has what it wanted; what was found on the way decides.
            return Ok(tally.complaints.exit());
        }
        written.map_err(|failure| destination::named(failure, file))?;
        remains.kept();
    }
    tally.finish(is_stdout_taken)
}

/// Extracts, and prints a report.
///
/// # Errors
/// Nothing can be written any more.
pub(super) fn carry_out(
    filesystem: &Volume,
    start: &Start,
    options: &ExtractOptions,
    mut sink: impl Sink,
    tally: &mut Tally,
) -> Result<(), Failure> {
    Ok(extract(filesystem, start, options, &mut sink, tally)?)
}

impl From<SinkError> for Failure {
    fn from(error: SinkError) -> Self {
        match error.source.kind() {
            io::ErrorKind::BrokenPipe => error.source.into(),
            _ => Self::caused_by(&error).of_host_tree(),
        }
    }
}

/// Opens the archive without a buffer between: chunks are large.
pub(super) fn open_archive(
    path: &Path,
    make: impl FnOnce(&Path) -> io::Result<File>,
) -> Result<File, Failure> {
    destination::must_take(path, "an archive")?;
    let archive = make(path);
    let archive = archive.map_err(|error| Failure::caused_by(&error)).about_host(path)?;
    if destination::is_standard_output(path) {
        // A reader that keeps up saves switches between the two. No pipe, or none so large, is no harm.
        let _ = fcntl_setpipe_size(&archive, PIPE_BYTES);
    }
    Ok(archive)
}

/// Refuses an extraction that would put a file in the place of the image.
pub(super) fn spare_image(
    filesystem: &Volume,
    start: &Start,
    folder: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let Some(image) = &context.image else { return Ok(()) };
    let Some(within) = overwrite::path_within(folder, image) else { return Ok(()) };
    let mut names = within.iter().map(OsStrExt::as_bytes);
    if start.name.as_deref().is_some_and(|name| names.next() != Some(name)) {
        return Ok(());
    }
    let mut inode = filesystem.inode_from_outside(start.inode);
    for name in names {
        let entry = inode.and_then(|directory| filesystem.lookup(&directory, name));
        inode = match entry {
            Ok(Some(entry)) => filesystem.inode_from_outside(entry.inode),
            Ok(None) | Err(Error::Operation(OperationError::NotADirectory)) => return Ok(()),
            Err(error) => Err(error),
        };
    }
    let failure = Failure::usage("a file of this name would take the place of the image itself");
    Err(failure.with_remedy("extract to another directory")).about_image(image)
}

/// The meaning of PATH: `/`, `DIR/.` and `DIR/..` are their contents, anything else a file or directory under its last name. An
/// inode has no name: a file gets its number, a directory comes out as its contents.
fn find_start(filesystem: &Volume, path: &OsString, context: &Context) -> Result<Start, Failure> {
    let target = context.target(path);
    let inode = target.find(filesystem, false).about_target(&target)?;
    let mut names = path.as_bytes().rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let is_directory = inode.file_type() == Some(FileType::Directory);
    let name = match target {
        Target::Inode(_) if is_directory => None,
        _ => names.next().filter(|name| !matches!(*name, b"." | b"..")).map(<[u8]>::to_vec),
    };
    Ok(Start { inode: inode.number, name })
}

/// How many inodes are in use, as the superblock says.
fn files_in(filesystem: &Volume) -> u64 {
    let superblock = filesystem.superblock();
    superblock.inode_count.get().saturating_sub(superblock.free_inodes.get())
}

/// Counts, prints and remembers problems.
pub(super) struct Tally {
    json: bool,
    image: Option<PathBuf>,
    quiet: QuietArgument,
    closing: Closing,
    progress: Progress,
    counts: Counts,
    complaints: Complaints,
    listed: Vec<Value>,
    problem_count: u64,
    /// Metadata that was not restored, with an example of each kind.
    not_restored: BTreeMap<(Severity, Aspect), (u64, Problem)>,
}

impl Tally {
    /// For an extraction of so many files, if that is known.
    pub fn new(context: &Context, total: Option<u64>, quiet: QuietArgument) -> Self {
        Self {
            json: context.json,
            image: context.image.clone(),
            quiet,
            closing: Closing::begin("extracted"),
            progress: Progress::new("extracting", Measure::Things("files", total), quiet.quiet),
            counts: Counts::default(),
            complaints: Complaints::default(),
            listed: Vec::new(),
            problem_count: 0,
            not_restored: BTreeMap::new(),
        }
    }

    /// Prints the summary or the document.
    pub fn finish(mut self, is_stdout_taken: bool) -> Outcome {
        drop(self.progress);
        if self.json {
            let mut document = json!({
                "directories": self.counts.directories,
                "files": self.counts.files,
                "symlinks": self.counts.symlinks,
                "hard_links": self.counts.hard_links,
                "special_files": self.counts.specials,
                "data_bytes": self.counts.data_bytes,
                "problem_count": self.problem_count,
                "problems": self.listed,
            });
            if let Some(image) = &self.image {
                put_path(&mut document, "image", image);
            }
            if is_stdout_taken {
                message!("{document}");
            } else {
                let mut output = Output::new();
                let written = output.json(&document).and_then(|()| output.finish());
                return Ok(self.complaints.exit_after(written, self.json));
            }
            return Ok(self.complaints.exit());
        }
        for (count, example) in self.not_restored.values() {
            tell_not_restored(*count, example);
        }
        self.closing.directories = self.counts.directories;
        self.closing.things.0 = self.counts.entries().saturating_sub(self.counts.directories);
        self.closing.bytes = self.counts.data_bytes;
        self.closing.tell(self.quiet.quiet);
        Ok(self.complaints.exit())
    }
}

impl Observer for Tally {
    fn progress(&mut self, part: &Counts) {
        self.counts.add(part);
        self.progress.add(part.entries());
        self.progress.add_beside(part.data_bytes);
    }

    fn problem(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.json && self.listed.len() < LISTED_PROBLEMS_MAX {
            self.listed.push(document(&problem));
        }
        let exit = match problem.severity {
            Severity::NotRestored | Severity::LeftOut => Exit::Success,
            Severity::Failed => Exit::Failed,
            Severity::Unsupported => Exit::Unsupported,
            Severity::Damaged => Exit::Corruption,
        };
        self.complaints.raise(exit);
        match problem.severity {
            Severity::NotRestored | Severity::LeftOut => {
                let key = (problem.severity, problem.aspect);
                self.not_restored.entry(key).or_insert((0, problem)).0 += 1;
            }
            _ if self.json => {}
            _ => self.complaints.tell(&failure_of(&problem, exit)),
        }
    }
}

/// Says how often metadata of a kind was not restored, with an example.
pub(super) fn tell_not_restored(count: u64, example: &Problem) {
    let verb = if example.severity == Severity::LeftOut { "left out" } else { "not restored" };
    notice!(Note::NotRestored, "{} {verb}: {count} (first: {})", example.aspect, describe(example));
}

fn failure_of(problem: &Problem, exit: Exit) -> Failure {
    let kind = match problem.severity {
        Severity::Unsupported => Kind::UnsupportedFeature,
        Severity::Damaged => Kind::Damage,
        Severity::NotRestored | Severity::LeftOut | Severity::Failed => Kind::Io,
    };
    let failure = Failure::new(kind, exit, describe(problem)).counted_as(problem.aspect.name());
    match problem.severity {
        // The host failed: the path is one below the target.
        Severity::Failed => failure.at_host(Path::new(OsStr::from_bytes(&problem.path))),
        _ => failure.at_path(&problem.path),
    }
}

fn describe(problem: &Problem) -> String {
    let mut text = Vec::new();
    let path: &[u8] = if problem.path.is_empty() { b"." } else { &problem.path };
    // Writing to memory cannot fail.
    let _ = write_escaped(&mut text, path);
    format!("{}: {}: {}", String::from_utf8_lossy(&text), problem.aspect, problem.reason)
}

fn document(problem: &Problem) -> Value {
    let path = JsonName::new(&problem.path);
    let severity = match problem.severity {
        Severity::NotRestored => "not_restored",
        Severity::LeftOut => "left_out",
        Severity::Unsupported => "unsupported",
        Severity::Failed => "failed",
        Severity::Damaged => "damaged",
    };
    json!({
        "path": path.text(),
        "path_hex": path.hex(),
        "severity": severity,
        "aspect": problem.aspect.name(),
        "reason": problem.reason,
    })
}

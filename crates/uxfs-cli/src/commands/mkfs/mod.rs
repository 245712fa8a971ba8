//! `uxfs mkfs`: makes a file system, with the options of mkfs.xfs.
//!
//! | module | holds |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`config`] | configuration files, read and written |

use std::{io::Write, path::Path};

use serde_json::json;
use uxfs_format::superblock::Superblock;
use uxfs_mkfs::{
    empty::{self, Written},
    identity::Identity,
    layout::{Layout, LayoutError, Warning},
    options::{OptionError, Options, grammar::Setting, number::Units},
    summary::Summary,
    target::{FileSize, Target, TargetError},
};

use crate::{
    commands::{Context, info::layout_document},
    failure::{About, Exit, Failure, Outcome},
    output::Output,
};

mod arguments;
mod config;

pub use arguments::Arguments;

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    if arguments.print_version {
        let mut output = Output::new();
        writeln!(output, "uxfs {}, making what mkfs.xfs 7.2 makes", env!("CARGO_PKG_VERSION"))?;
        output.finish()?;
        return Ok(Exit::Success);
    }
    let mut options = arguments.options()?;
    config::read_files(&mut options)?;
    if options.has(Setting::ProtoFile) {
        return Err(Failure::unsupported("-p: file systems are made empty; there is no filling them yet"));
    }
    let path = device(arguments, &options)?;
    make(arguments, &options, path, context).about(path.display())
}

fn make(arguments: &Arguments, options: &Options, path: &Path, context: &Context) -> Outcome {
    let size = file_size(arguments, options)?;
    let is_dry_run = arguments.dry_run || options.has(Setting::ConfigMake);
    let mut target = Target::open(path, size, is_dry_run)?;
    let (layout, warnings) = Layout::resolve(options, target.facts())?;
    tell(&warnings, arguments);
    // A file that is emptied anyway needs no second word.
    if !arguments.force && !matches!(size, FileSize::Exactly(_)) {
        target.refuse_occupied()?;
    }
    if let Some(path) = options.text(Setting::ConfigMake) {
        return config::write_file(&layout, path);
    }
    let (identity, problem) = Identity::from_environment(options.uuid()?, |name| std::env::var_os(name));
    if let Some(problem) = problem {
        eprintln!("uxfs: warning: {problem}");
    }
    let superblock = layout.superblock(identity.uuid);
    if !context.json {
        print(&superblock, path, arguments.quiet)?;
    }
    let mut written = Written::default();
    if !arguments.dry_run {
        let device = target.prepare(&layout, !arguments.keep)?;
        written = empty::format(&*device, &layout, &identity)?;
        target.keep();
    }
    if context.json {
        print_json(&superblock, written, arguments.dry_run)?;
    }
    Ok(Exit::Success)
}

/// The device is the last argument, or named in the options; not both.
fn device<'a>(arguments: &'a Arguments, options: &'a Options) -> Result<&'a Path, Failure> {
    let named = options.text(Setting::DataName).map(Path::new);
    match (&arguments.image, named) {
        (Some(_), Some(_)) => Err(Failure::usage("the image is named twice: as IMAGE and with -d name")),
        (Some(image), None) => Ok(image),
        (None, Some(name)) => Ok(name),
        (None, None) => Err(Failure::usage("no IMAGE to make a file system in")),
    }
}

/// What size the file gets, if it is a file.
fn file_size(arguments: &Arguments, options: &Options) -> Result<FileSize, Failure> {
    if let Some(bytes) = arguments.size {
        return Ok(FileSize::AtLeast(bytes));
    }
    if !options.switch(Setting::DataFile, false) {
        return Ok(FileSize::Present);
    }
    // Units of blocks and sectors are those of the options; the layout refuses what is wrong with them.
    let or = |setting, default| match options.size(setting, NO_UNITS) {
        Ok(Some(bytes)) => Some(bytes),
        _ => Some(default),
    };
    let units =
        Units { block_bytes: or(Setting::BlockSize, 4096), sector_bytes: or(Setting::SectorSize, 512) };
    match options.size(Setting::DataSize, units)? {
        Some(bytes) => Ok(FileSize::Exactly(bytes)),
        None => Err(Failure::usage("-d file needs -d size, which says how large the file will be")),
    }
}

const NO_UNITS: Units = Units { block_bytes: None, sector_bytes: None };

fn tell(warnings: &[Warning], arguments: &Arguments) {
    // Linux's own tests make small file systems by the thousand, and compare what is said.
    let is_told = |warning: &&Warning| **warning != Warning::Unsupported || arguments.unsupported;
    for warning in warnings.iter().filter(is_told) {
        eprintln!("uxfs: warning: {warning}");
    }
}

fn print(superblock: &Superblock, path: &Path, quiet: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    if !quiet {
        write!(output, "{}", Summary { superblock, name: &path.display().to_string() })?;
    }
    Ok(output.finish()?)
}

fn print_json(superblock: &Superblock, written: Written, dry_run: bool) -> Result<(), Failure> {
    let mut document = layout_document(superblock);
    document["written_bytes"] = json!(written.bytes);
    document["dry_run"] = json!(dry_run);
    let mut output = Output::new();
    output.json(&document)?;
    Ok(output.finish()?)
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Self {
        let message = error.to_string();
        if error.is_unsupported() { Self::unsupported(message) } else { Self::usage(message) }
    }
}

impl From<LayoutError> for Failure {
    fn from(error: LayoutError) -> Self {
        let message = error.to_string();
        if error.is_unsupported() { Self::unsupported(message) } else { Self::usage(message) }
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<empty::FormatError> for Failure {
    fn from(error: empty::FormatError) -> Self {
        Self::failed(error.to_string())
    }
}

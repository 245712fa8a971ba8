//! `uxfs du`: how much space trees take.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt};

use serde_json::json;
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    document::type_name,
    failure::{Complaints, Failure, Outcome},
    output::{JsonName, Output},
    search::{
        amount::{Unit, UnitArguments, parse_bytes},
        usage::{CountOptions, Counted, Counter, Usage},
    },
};

/// Arguments of `uxfs du`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sizes are rounded up, and in units of 1024 bytes where nothing else is asked for. A file with several names counts once. \
    SIZE is a number, a unit (K, M, G …; KB, MB … for powers of 1000), or both.\n\
    Examples: uxfs du -sh disk.img /usr /var\n          \
    uxfs du -ad1 disk.img /etc | sort -n"
)]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH")]
    targets: Vec<OsString>,
    /// Show files, too, not only directories
    #[arg(short, long)]
    all: bool,
    /// Show only the sum of each PATH
    #[arg(short, long, conflicts_with = "all")]
    summarize: bool,
    /// Show what lies at most so many levels below PATH
    #[arg(short = 'd', long, value_name = "LEVELS")]
    max_depth: Option<usize>,
    /// Show the sum of all
    #[arg(short = 'c', long)]
    total: bool,
    /// Count a file once for each of its names
    #[arg(short = 'l', long)]
    count_links: bool,
    /// Show directories without their subdirectories
    #[arg(short = 'S', long)]
    separate_dirs: bool,
    /// Count the lengths of files, not the space that they take
    #[arg(long)]
    apparent_size: bool,
    /// As --apparent-size, in bytes unless another unit is asked for
    #[arg(short, long)]
    bytes: bool,
    /// Count inodes
    #[arg(long)]
    inodes: bool,
    /// Leave out what is smaller than SIZE, or with -SIZE, what is larger
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true, value_parser = parse_threshold)]
    threshold: Option<Threshold>,
    /// End lines with a zero byte, and show names as they are
    #[arg(short = '0', long)]
    null: bool,
    #[command(flatten)]
    unit: UnitArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Which sizes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// These and larger ones.
    AtLeast(u64),
    /// These and smaller ones.
    AtMost(u64),
}

fn parse_threshold(text: &str) -> Result<Threshold, String> {
    match text.strip_prefix('-') {
        Some(size) => match parse_bytes(size)? {
            0 => Err("nothing is smaller than 0".to_owned()),
            size => Ok(Threshold::AtMost(size)),
        },
        None => Ok(Threshold::AtLeast(parse_bytes(text)?)),
    }
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let most_levels = match (arguments.summarize, arguments.max_depth) {
        (true, Some(1..)) => {
            return Err(Failure::usage("--summarize shows no levels: leave it or --max-depth out"));
        }
        (true, _) => 0,
        (false, levels) => levels.unwrap_or(usize::MAX),
    };
    let everything = [context.default_path().to_owned()];
    let targets = if arguments.targets.is_empty() { &everything[..] } else { &arguments.targets };
    let default_unit = if arguments.bytes { 1 } else { 1024 };
    let mut printer = Printer {
        output: Output::new(),
        json: context.json,
        unit: arguments.unit.unit().unwrap_or_else(|| Unit::of(default_unit)),
        arguments,
        most_levels,
    };
    let mut complaints = Complaints::default();
    let mut counter = Counter::new(
        filesystem,
        CountOptions {
            counts_links: arguments.count_links,
            separates_directories: arguments.separate_dirs,
            remembers_all: targets.len() > 1,
        },
    );
    for argument in targets {
        let target = context.target(argument);
        match target.find(filesystem, false) {
            Ok(inode) => {
                counter.tree(argument.as_bytes(), inode, &mut complaints, &mut |counted| {
                    printer.tell(counted)
                })?;
            }
            Err(error) => complaints.add_target(&target, &error),
        }
    }
    if arguments.total {
        printer.total(counter.total)?;
    }
    printer.output.finish()?;
    Ok(complaints.exit())
}

struct Printer<'a> {
    output: Output,
    json: bool,
    unit: Unit,
    arguments: &'a Arguments,
    most_levels: usize,
}

impl Printer<'_> {
    fn number(&self, usage: Usage) -> u64 {
        let Arguments { inodes, apparent_size, bytes, .. } = self.arguments;
        match () {
            () if *inodes => usage.inodes,
            () if *apparent_size || *bytes => usage.apparent_bytes,
            () => usage.disk_bytes,
        }
    }

    fn tell(&mut self, counted: Counted<'_>) -> Result<(), Failure> {
        let is_directory = counted.file_type == Some(uxfs_volume::inode::FileType::Directory);
        let is_shown = (is_directory || self.arguments.all) && counted.depth <= self.most_levels;
        let number = self.number(counted.usage);
        let is_in_range = match self.arguments.threshold {
            None => true,
            Some(Threshold::AtLeast(least)) => number >= least,
            Some(Threshold::AtMost(most)) => number <= most,
        };
        if !is_in_range || !(is_shown || counted.depth == 0) {
            return Ok(());
        }
        if self.json {
            let (path, Usage { disk_bytes, apparent_bytes, inodes }) =
                (JsonName::new(counted.path), counted.usage);
            let mut document = json!({
                "path": path.text(),
                "type": counted.file_type.map(type_name),
                "disk_bytes": disk_bytes,
                "apparent_bytes": apparent_bytes,
                "inodes": inodes,
            });
            if let Some(hex) = path.hex() {
                document["path_hex"] = hex.into();
            }
            return Ok(self.output.json(&document)?);
        }
        self.line(number, counted.path)
    }

    fn line(&mut self, number: u64, path: &[u8]) -> Result<(), Failure> {
        let shown = match self.arguments.inodes {
            true => self.unit.counted(number),
            false => self.unit.shown(number),
        };
        write!(self.output, "{shown}\t")?;
        match self.arguments.null {
            true => self.output.write_all(path)?,
            false => self.output.name(path)?,
        }
        self.output.write_all(if self.arguments.null { b"\0" } else { b"\n" })?;
        Ok(())
    }

    fn total(&mut self, usage: Usage) -> Result<(), Failure> {
        if self.json {
            let Usage { disk_bytes, apparent_bytes, inodes } = usage;
            return Ok(self.output.json(&json!({
                "type": "total",
                "disk_bytes": disk_bytes,
                "apparent_bytes": apparent_bytes,
                "inodes": inodes,
            }))?);
        }
        self.line(self.number(usage), b"total")
    }
}

//! The target of a workload: directories of a mounted file system, or an image.

use std::{
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use clap::Parser;
use serde_json::json;
use uxfs_bench::backend::{Backend, image::ImageDirectories, system::MountedDirectories};
use uxfs_block::{claim::Lock, engine::OpenOptions};
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::filesystem::FileSystem;

use crate::{
    commands::{Context, mkfs},
    edit::session::checkpoint_interval,
    failure::{About, Exit, Failure, Outcome},
    kind::Kind,
    output::Output,
    overwrite,
    text::parse_size,
};

/// Where.
#[derive(Debug, clap::Args)]
pub struct TargetArguments {
    /// Directory to work in, created if missing; with several, the threads are distributed over them
    #[arg(short = 'd', value_name = "DIR", required_unless_present = "image")]
    pub directories: Vec<PathBuf>,
    /// Work in process on this image; -d names directories in it
    #[arg(long, value_name = "FILE", help_heading = "In process")]
    image: Option<PathBuf>,
    /// Make a file system of this size in the image first
    #[arg(
        long = "size", value_name = "BYTES", value_parser = parse_size, requires = "image",
        help_heading = "In process"
    )]
    image_size: Option<u64>,
    /// Let --size replace a file system that is there
    #[arg(long, requires = "image_size", help_heading = "In process")]
    force: bool,
    /// Options of uxfs mkfs for --size, such as "-n parent=0"
    #[arg(
        long,
        value_name = "OPTIONS",
        requires = "image_size",
        allow_hyphen_values = true,
        default_value = "",
        help_heading = "In process"
    )]
    mkfs: String,
    /// How changes are logged
    #[arg(long, value_enum, default_value_t, requires = "image", help_heading = "In process")]
    log_mode: LogMode,
    /// Size of a log record: 32K, 64K, 128K or 256K
    #[arg(
        long, value_name = "BYTES", value_parser = parse_size, default_value = "32K",
        help_heading = "In process"
    )]
    log_record: u64,
    /// Memory for cached metadata [default: 256M, or less where memory is scarce]
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "image", help_heading = "In process")]
    cache: Option<u64>,
    /// Write changes to the log at the latest after this time; 0 sets no limit
    #[arg(long, value_name = "SECONDS", default_value_t = LogOptions::USUAL_CHECKPOINT_INTERVAL.as_secs(), help_heading = "In process")]
    checkpoint_interval: u64,
}

/// How changes go through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum LogMode {
    /// Delayed logging: many transactions in a checkpoint
    #[default]
    Delayed,
    /// Each transaction is a checkpoint of its own
    Immediate,
    /// Nothing is logged; the image is usable only after the end
    Bulk,
}

/// A workload that is measured.
pub trait Work {
    /// Runs the workload and prints the results.
    fn on<B: Backend>(&self, backend: &B, context: &Context, output: &mut Output) -> Result<(), Failure>;
}

/// The command line of `uxfs mkfs`, by itself.
#[derive(Debug, Parser)]
#[command(name = "--mkfs")]
struct Mkfs {
    #[command(flatten)]
    arguments: mkfs::Arguments,
}

impl TargetArguments {
    /// Does the work where it is to be done.
    pub fn run(&self, work: &impl Work, context: &Context) -> Outcome {
        let mut output = Output::new();
        match &self.image {
            None => {
                let backend = MountedDirectories::new(self.directories.clone()).map_err(|error| {
                    let failure = Failure::caused_by(&error).about("cannot make the directory");
                    match self.directories.as_slice() {
                        [directory] => failure.about_host(directory),
                        _ => failure,
                    }
                })?;
                work.on(&backend, context, &mut output)?;
            }
            Some(image) => self.run_in_process(image, work, context, &mut output).about_image(image)?,
        }
        output.finish()?;
        Ok(Exit::Success)
    }

    fn run_in_process(
        &self,
        image: &Path,
        work: &impl Work,
        context: &Context,
        output: &mut Output,
    ) -> Result<(), Failure> {
        if let Some(size) = self.image_size {
            self.make(image, size)?;
        }
        let roots = self.directories.iter().map(|path| path.as_os_str().as_bytes().to_vec());
        let roots: Vec<Vec<u8>> =
            if self.directories.is_empty() { vec![Vec::new()] } else { roots.collect() };
        let backend = ImageDirectories::new(self.mount(image)?, roots);
        let done = work.on(&backend, context, output);
        // What a mount leaves to the time after the workload is not hidden. The image is closed whatever the workload or its
        // output came to.
        let started = Instant::now();
        let closed = backend.file_system().close();
        let seconds = started.elapsed().as_secs_f64();
        done?;
        closed?;
        if context.json {
            output.json(&json!({"close_seconds": seconds}))?;
        } else {
            writeln!(output, "\nclosed in {seconds:.3} s")?;
        }
        Ok(())
    }

    fn make(&self, image: &Path, size: u64) -> Result<(), Failure> {
        if !self.force && overwrite::holds_file_system(image) {
            let failure =
                Failure::refused(Kind::Occupied, "it holds an XFS file system, and is not replaced");
            return Err(failure.with_remedy("give another file, or --force"));
        }
        // As a file of just this size: mkfs empties it, so that an old image leaves no blocks in it.
        let data = format!("file=1,size={size}");
        let words = ["--mkfs", "-q", "-f", "-d", &data].into_iter().chain(self.mkfs.split_whitespace());
        let words = words.map(std::ffi::OsString::from).chain([image.as_os_str().to_owned()]);
        let mkfs = Mkfs::try_parse_from(words).map_err(|error| Failure::usage(error.to_string()))?;
        mkfs::run(&mkfs.arguments, &Context::default()).map(drop)
    }

    fn mount(&self, image: &Path) -> Result<Arc<FileSystem>, Failure> {
        let open = OpenOptions { writable: true, lock: Lock::Exclusive, ..OpenOptions::default() };
        let device = uxfs_block::engine::open(image, &open).map_err(uxfs_volume::error::Error::from)?;
        let record_size_bytes = u32::try_from(self.log_record).unwrap_or(u32::MAX);
        let is_immediate = self.log_mode == LogMode::Immediate;
        let log = LogOptions {
            is_immediate,
            record_size_bytes,
            has_background: !is_immediate,
            checkpoint_interval: checkpoint_interval(self.checkpoint_interval),
        };
        let options = MountOptions { cache_budget_bytes: self.cache, log, ..MountOptions::default() };
        Ok(match self.log_mode {
            LogMode::Bulk => Arc::new(FileSystem::mount_bulk(device, &options)?),
            LogMode::Delayed | LogMode::Immediate => FileSystem::mount_logged(device, &options)?,
        })
    }
}

//! `uxfs bench fsmark`: many files by many threads.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use uxfs_bench::{
    backend::Backend,
    fsmark::{self, Iteration, Options, Outcome as Run, SyncMethod, report},
};

use super::target::{TargetArguments, Work};
use crate::{
    commands::Context,
    failure::{About, Failure, Outcome},
    output::Output,
    text::parse_size,
};

/// Arguments of `uxfs bench fsmark`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uxfs bench fsmark -d /mnt/a -d /mnt/b -t 2 -D 1000 -N 1000 -n 500000 -s 0 -S 0\n  \
    uxfs bench fsmark --image new.img --size 8G -d /a -d /b -t 2 -s 0 -S 0\n\
    Options and columns are those of fs_mark. The seed determines names and directories. Iterations keep \
    their files; at the end all threads delete them, unless -k is given."
)]
pub struct Arguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Subdirectories of each directory
    #[arg(short = 'D', value_name = "COUNT", default_value_t = 0)]
    subdirectories: u64,
    /// Files in a subdirectory before the next one is used; 0: one subdirectory for each iteration
    #[arg(short = 'N', value_name = "COUNT", default_value_t = 0)]
    files_per_subdirectory: u64,
    /// Files per thread and iteration
    #[arg(short = 'n', value_name = "COUNT", default_value_t = 1000)]
    files: u64,
    /// Bytes of each file
    #[arg(short = 's', value_name = "BYTES", default_value = "51200", value_parser = parse_size)]
    size: u64,
    /// Bytes of each write
    #[arg(short = 'w', value_name = "BYTES", default_value = "16384", value_parser = parse_size)]
    write_size: u64,
    /// Iterations
    #[arg(short = 'L', value_name = "COUNT", default_value_t = 1, conflicts_with = "fill")]
    loops: u64,
    /// Continue until the file system is full
    #[arg(short = 'F')]
    fill: bool,
    /// When files are fsynced: 0 never, 1 before close, 2 syncfs and one file, 3 afterwards in reverse order, 4 syncfs
    /// and 3, 5 afterwards in order, 6 syncfs and 5, 7 like 1 and the directory
    #[arg(short = 'S', value_name = "METHOD", default_value_t = 1)]
    sync: u8,
    /// Threads; at least one for each directory
    #[arg(short = 't', value_name = "COUNT", default_value_t = 1)]
    threads: usize,
    /// Keep the files
    #[arg(short = 'k')]
    keep: bool,
    /// Also append the lines to this file
    #[arg(short = 'l', value_name = "FILE")]
    log: Option<PathBuf>,
    /// Show minimum, average and maximum time of each call
    #[arg(short = 'v')]
    verbose: bool,
    /// Length of file names in bytes
    #[arg(short = 'p', value_name = "BYTES", default_value_t = 40)]
    name_bytes: usize,
    /// Random bytes at the end of a name
    #[arg(short = 'r', value_name = "BYTES", default_value_t = 24)]
    random_bytes: usize,
    /// Seed of the names
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

impl Arguments {
    fn options(&self) -> Result<Options, Failure> {
        let sync = SyncMethod::from_number(self.sync)
            .ok_or_else(|| Failure::usage(format!("no sync method {}: use 0 to 7", self.sync)))?;
        Ok(Options {
            // At least one for each directory, as fs_mark does.
            threads: self.threads.max(self.target.directories.len()),
            files: self.files,
            loops: (!self.fill).then_some(self.loops),
            size_bytes: self.size,
            write_bytes: usize::try_from(self.write_size).unwrap_or(usize::MAX),
            subdirectories: self.subdirectories,
            files_per_subdirectory: self.files_per_subdirectory,
            sync,
            keep: self.keep,
            name_bytes: self.name_bytes,
            random_bytes: self.random_bytes,
            seed: self.seed,
        })
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    arguments.target.run(arguments, context)
}

impl Work for Arguments {
    fn on<B: Backend>(&self, backend: &B, context: &Context, output: &mut Output) -> Result<(), Failure> {
        let options = self.options()?;
        options.check(backend.root_count())?;
        let mut lines = Lines::open(self.log.as_deref(), context.json, output)?;
        lines.write(&report::heading(&options, backend.root_count(), self.verbose))?;
        let mut failed = None;
        let run = fsmark::run(backend, &options, |iteration: &Iteration| {
            let line = report::line(iteration, self.verbose);
            if let Err(failure) = lines.write(&format!("{line}\n")) {
                failed.get_or_insert(failure);
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        lines.finish(&options, &run)
    }
}

/// Standard output, flushed line by line because iterations take their time, and the log.
struct Lines<'o> {
    output: &'o mut Output,
    log: Option<File>,
    json: bool,
}

impl<'o> Lines<'o> {
    fn open(log: Option<&Path>, json: bool, output: &'o mut Output) -> Result<Self, Failure> {
        let open = |path: &Path| -> Result<File, Failure> {
            let file = File::options().create(true).append(true).open(path);
            file.map_err(|error| Failure::caused_by(&error)).about_host(path)
        };
        Ok(Self { output, log: log.map(open).transpose()?, json })
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        if !self.json {
            self.output.write_all(text.as_bytes())?;
            self.output.flush()?;
        }
        if let Some(log) = &mut self.log {
            log.write_all(text.as_bytes())
                .map_err(|error: io::Error| Failure::caused_by(&error).about("cannot write the log"))?;
        }
        Ok(())
    }

    fn finish(mut self, options: &Options, run: &Run) -> Result<(), Failure> {
        let summary = report::summary(run);
        self.write(&summary)?;
        if self.json {
            self.output.json(&report::Document::new(options, run))?;
        }
        Ok(())
    }
}

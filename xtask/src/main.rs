//! The one door for developer commands: `cargo xtask --help`.

mod bench;
mod crash;
mod diff_walk;
mod extremes;
mod field_fuzz;
mod fuzz;
mod golden_images;
mod judges;
mod linux_logs;
mod manual;
mod process;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Developer commands of uxfs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Arguments {
    /// Set up what the tests need and run them all
    Test(test::Arguments),
    /// Check the repository's policy: sizes, banned words, tables of modules, licences
    Tidy,
    /// Set up the outside judges: xfsprogs and what else the tests need
    Judges(judges::Arguments),
    /// List, make, check and unpack the golden images
    GoldenImages(golden_images::Arguments),
    /// Compare everything that an image holds with what the kernel here says of it (needs root)
    DiffWalk(diff_walk::Arguments),
    /// Measure uxfs beside its rivals in the same run (needs root)
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Crash random workloads everywhere and recover: the states must be those of the model
    Crash(crash::Arguments),
    /// Fill images with a million files, names and more, and have them judged (needs root)
    Extremes(extremes::Arguments),
    /// Damage every field of every structure in eight ways and read: nothing may panic, hang or take much memory
    FieldFuzz(field_fuzz::Arguments),
    /// Coverage-guided fuzzing of every parser and of whole images
    Fuzz(fuzz::Arguments),
    /// Cut kernel mounts off under load and compare our recovery with the kernel's (needs root)
    LinuxLogs(linux_logs::Arguments),
    /// Write man pages and shell completions
    Manual(manual::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments {
        Arguments::Test(arguments) => test::run(&arguments),
        Arguments::Tidy => tidy::run(),
        Arguments::Judges(arguments) => judges::run(&arguments),
        Arguments::GoldenImages(arguments) => golden_images::run(&arguments),
        Arguments::DiffWalk(arguments) => diff_walk::run(&arguments),
        Arguments::Bench(benchmark) => bench::run(&benchmark),
        Arguments::Crash(arguments) => crash::run(&arguments),
        Arguments::Extremes(arguments) => extremes::run(&arguments),
        Arguments::FieldFuzz(arguments) => field_fuzz::run(&arguments),
        Arguments::Fuzz(arguments) => fuzz::run(&arguments),
        Arguments::LinuxLogs(arguments) => linux_logs::run(&arguments),
        Arguments::Manual(arguments) => manual::run(&arguments),
    }
}

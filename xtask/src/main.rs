//! The one door for developer commands: `cargo xtask --help`.

mod bench;
mod crash;
mod diff_walk;
mod dist;
mod extremes;
mod field_fuzz;
mod fuzz;
mod golden_images;
mod hostile;
mod judges;
mod linux_logs;
mod manual;
mod mount_load;
mod mount_model;
mod process;
mod repair_fuzz;
mod repair_kills;
mod rescue_fuzz;
mod revive;
mod soak;
mod sound;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Developer commands of uxfs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Arguments {
    /// Install what the tests need and run all tests
    Test(test::Arguments),
    /// Check the repository's policy: sizes, banned words, module tables, paths in documents, licences
    Tidy,
    /// Install the judges: xfsprogs and what else the tests need
    Judges(judges::Arguments),
    /// List, make, check and unpack the golden images
    GoldenImages(golden_images::Arguments),
    /// Compare the contents of an image with this machine's kernel (needs root)
    DiffWalk(diff_walk::Arguments),
    /// Measure uxfs against its rivals in the same run (needs root)
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Crash random workloads at every write, recover, and compare with a model
    Crash(crash::Arguments),
    /// Fill images with a million files and names; xfs_repair and the kernel judge them (needs root)
    Extremes(extremes::Arguments),
    /// Damage every field of every structure in eight ways and read the images: no panic, hang or excessive memory
    FieldFuzz(field_fuzz::Arguments),
    /// Coverage-guided fuzzing of every parser and of whole images
    Fuzz(fuzz::Arguments),
    /// Damage images in several places at once, repair them, and edit the result
    RepairFuzz(repair_fuzz::Arguments),
    /// Images whose structures lie, with right checksums: no panic, hang or excessive memory, and sound after a repair
    Hostile(hostile::Arguments),
    /// Kill repairs and undos at random moments, and run them again: the same bytes
    RepairKills(repair_kills::Arguments),
    /// Rescue files from damaged images and failing devices: nothing that is called whole may be wrong
    RescueFuzz(rescue_fuzz::Arguments),
    /// Shut kernel mounts down under load and compare our recovery with the kernel's (needs root)
    LinuxLogs(linux_logs::Arguments),
    /// Damage images in many ways and measure what xfs_repair and uxfs repair save (needs root)
    Revive(revive::Arguments),
    /// Age images of every shape, by the kernel and by uxfs: none may have findings (needs root)
    Sound(sound::Arguments),
    /// Threads of random system calls on real mounts, equal to a model; their processes are killed (needs root)
    MountModel(mount_model::Arguments),
    /// Run programs, crashes and damage through a FUSE mount, and judge the image (needs root)
    MountLoad(mount_load::Arguments),
    /// Mixed work on a FUSE mount for an hour: its memory and descriptors must not grow (needs root)
    LongRun(mount_load::long_run::Arguments),
    /// Run all laboratories in turn for a time, each round with a new seed: one line a round, and what was found
    Soak(soak::Arguments),
    /// Write man pages and shell completions
    Manual(manual::Arguments),
    /// Make a static program, a Debian package and an RPM
    Dist(dist::Arguments),
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
        Arguments::RepairFuzz(arguments) => repair_fuzz::run(&arguments),
        Arguments::Hostile(arguments) => hostile::run(&arguments),
        Arguments::RepairKills(arguments) => repair_kills::run(&arguments),
        Arguments::RescueFuzz(arguments) => rescue_fuzz::run(&arguments),
        Arguments::LinuxLogs(arguments) => linux_logs::run(&arguments),
        Arguments::Revive(arguments) => revive::run(&arguments),
        Arguments::Sound(arguments) => sound::run(&arguments),
        Arguments::MountModel(arguments) => mount_model::run(&arguments),
        Arguments::MountLoad(arguments) => mount_load::run(&arguments),
        Arguments::LongRun(arguments) => mount_load::long_run::run(&arguments),
        Arguments::Soak(arguments) => soak::run(&arguments),
        Arguments::Manual(arguments) => manual::run(&arguments),
        Arguments::Dist(arguments) => dist::run(&arguments),
    }
}

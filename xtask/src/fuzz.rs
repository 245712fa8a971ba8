//! `cargo xtask fuzz`: coverage-guided fuzzing of every parser and of whole images, from seeds taken from golden images.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};
use uxfs_lab::{
    field_fuzz::sparse_device::{DamagedImage, SparseImage},
    fuzz::{TARGETS, Target, forms, log, quota, repair, superblock},
};
use uxfs_testkit::{golden::GoldenImage, judges::workspace_directory, structures};

use crate::process;

/// Seeds of one kind of structure and target.
const SEEDS_MAX: u32 = 60;
/// Time after which a run counts as a hang.
const TIMEOUT_SECONDS: u32 = 10;

/// Fuzz every parser and whole images (needs a nightly toolchain and cargo-fuzz)
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Run this target only; may be given several times
    #[arg(long)]
    target: Vec<String>,
    /// Fuzzers in parallel [default: the number of processors]
    #[arg(long)]
    jobs: Option<usize>,
}

/// Builds the targets, gives them seeds, runs them and prints how often each ran.
///
/// # Errors
/// Something cannot be built or run, or an input escaped; it is kept in `fuzz/artifacts`.
pub fn run(arguments: &Arguments) -> Result<()> {
    build()?;
    let workspace = workspace_directory();
    let fuzz = workspace.join("fuzz");
    let targets: Vec<Target> = TARGETS
        .into_iter()
        .filter(|target| {
            arguments.target.is_empty() || arguments.target.iter().any(|name| name == target.name)
        })
        .collect();
    seeds(&targets, &fuzz.join("corpus"))?;
    let jobs = arguments.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let (mut total, mut escaped) = (0, Vec::new());
    for group in targets.chunks(jobs.max(1)) {
        let outcomes = thread::scope(|scope| {
            let runs: Vec<_> = group
                .iter()
                .map(|target| scope.spawn(|| run_target(target, &workspace, arguments.seconds)))
                .collect();
            runs.into_iter()
                .map(|run| run.join().expect("a fuzzer's thread does not panic"))
                .collect::<Vec<_>>()
        });
        for (target, outcome) in group.iter().zip(outcomes) {
            let (executions, is_clean) = outcome?;
            println!(
                "{:<18} {executions:>14} executions{}",
                target.name,
                if is_clean { "" } else { "  ESCAPED" }
            );
            total += executions;
            escaped.extend((!is_clean).then_some(target.name));
        }
    }
    println!("{:<18} {total:>14} executions", "all");
    ensure!(escaped.is_empty(), "inputs escaped and are kept in fuzz/artifacts: {}", escaped.join(", "));
    Ok(())
}

/// Builds the targets.
///
/// # Errors
/// A tool is missing, or they do not build.
pub fn build() -> Result<()> {
    process::run(
        Command::new("cargo")
            .current_dir(workspace_directory().join("fuzz"))
            // The parsers hold no unsafe code, so that a sanitizer would only cost speed.
            .args(["+nightly", "fuzz", "build", "--sanitizer", "none", "-O"]),
    )
    .context("cargo-fuzz and a nightly toolchain are needed: cargo install cargo-fuzz")
}

/// Runs one fuzzer; returns its executions and whether it succeeded.
fn run_target(target: &Target, workspace: &Path, seconds: u32) -> Result<(u64, bool)> {
    let fuzz = workspace.join("fuzz");
    let artifacts = fuzz.join("artifacts").join(target.name);
    fs::create_dir_all(&artifacts)?;
    let binary = fuzz.join("target").join(host_triple()?).join("release").join(target.name);
    let output = Command::new(&binary)
        .current_dir(workspace)
        .arg(fuzz.join("corpus").join(target.name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={TIMEOUT_SECONDS}"))
        .arg(format!("-max_len={}", target.input_bytes_max))
        .args(["-rss_limit_mb=512", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .output()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let executions = words
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0);
    if !output.status.success() {
        let tail: Vec<&str> = words.lines().rev().take(30).collect();
        tail.iter().rev().for_each(|line| eprintln!("{line}"));
    }
    Ok((executions, output.status.success()))
}

fn host_triple() -> Result<String> {
    let words = process::read(Command::new("rustc").arg("-vV"))?;
    let host = words.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

/// Sound blocks of a golden image and real logs, as first inputs.
fn seeds(targets: &[Target], corpus: &Path) -> Result<()> {
    let image = GoldenImage::named("block-1k")?.unpacked()?;
    let device = DamagedImage::sound(SparseImage::load(&image)?);
    let (_, instances) = structures::list(&device)?;
    for target in targets {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        let mut seen = HashMap::new();
        for instance in &instances {
            let count = seen.entry(instance.structure).or_insert(0);
            if *count == SEEDS_MAX {
                continue;
            }
            if let Some(input) = target.seed(instance, &instance.read(&device)?) {
                *count += 1;
                fs::write(folder.join(format!("seed-{:?}-{count}", instance.structure)), input)?;
            }
        }
    }
    let is_wanted = |name: &str| targets.iter().any(|target| target.name == name);
    if is_wanted("log") {
        log_seeds(&corpus.join("log"))?;
    }
    if is_wanted("quota") {
        more_seeds(&corpus.join("quota"), "records", quota::seeds())?;
    }
    if is_wanted("undo_file") {
        more_seeds(&corpus.join("undo_file"), "sound", vec![repair::undo_file_seed()])?;
    }
    if is_wanted("restore") {
        more_seeds(&corpus.join("restore"), "sound", vec![repair::dump_seed()])?;
    }
    for name in forms::NAMES.into_iter().filter(|name| is_wanted(name)) {
        kept_seeds(name, &corpus.join(name))?;
    }
    if is_wanted("superblock") {
        let sound = instances.first().context("the list begins with the superblock")?.read(&device)?;
        more_seeds(&corpus.join("superblock"), "groups", superblock::seeds(&sound))?;
    }
    Ok(())
}

fn more_seeds(folder: &Path, name: &str, seeds: Vec<Vec<u8>>) -> Result<()> {
    for (number, seed) in seeds.into_iter().enumerate() {
        fs::write(folder.join(format!("{name}-{number}")), seed)?;
    }
    Ok(())
}

/// Sound files are kept among the findings of a target.
fn kept_seeds(name: &str, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(workspace_directory().join("fuzz/artifacts").join(name))? {
        let path = entry?.path();
        fs::copy(&path, folder.join(path.file_name().context("a name")?))?;
    }
    Ok(())
}

/// The beginnings of logs that the kernel wrote; those of the image that they are replayed into in several lengths.
fn log_seeds(folder: &Path) -> Result<()> {
    for kibibytes in log::SEED_KIBIBYTES {
        fs::write(folder.join(format!("own-{kibibytes}")), log::seed(kibibytes << 10))?;
    }
    let dumps: PathBuf = workspace_directory().join("crates/uxfs-journal/testdata");
    for entry in fs::read_dir(dumps)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            let mut log = zstd::decode_all(fs::File::open(&path)?)?;
            // A dump begins with the superblock; records know at which block of the log they lie.
            log.drain(..4096.min(log.len()));
            log.truncate(log::INPUT_BYTES_MAX);
            fs::write(folder.join(path.file_stem().context("a name")?), log)?;
        }
    }
    Ok(())
}

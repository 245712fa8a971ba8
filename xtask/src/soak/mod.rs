//! `cargo xtask soak`: all laboratories in turn, for a time.
//!
//! Each round of a laboratory is a process of its own, with a seed of its own: a crash of the laboratory is a finding like any other. The
//! programs are built once, with optimisation and all checks, and copied: a build during the soak does not change what it runs.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | the laboratories |
//! | [`needs`] | what a laboratory needs of the machine |
//! | [`schedule`] | which one comes next |
//! | [`round`] | one round |
//! | [`said`] | what the log of a round says |

mod needs;
mod round;
mod said;
mod schedule;
mod table;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail, ensure};
use uxfs_testkit::{judges::workspace_directory, seeds::Random};

use self::{
    schedule::Schedule,
    table::{KEPT, Laboratory, Slice, UXFS, WORK},
};
use crate::{fuzz, process};

/// For logs and programs, in the workspace.
const FOLDER: &str = "target/soak";
/// A round that takes longer than its usual time by this factor hangs.
const PATIENCE: f64 = 8.0;
/// No round counts as hanging before.
const LEAST_LIMIT: Duration = Duration::from_secs(600);
/// Lines of the log of a round that found something.
const SHOWN_LINES: usize = 15;
/// Seeds are below this: short enough to type.
const SEEDS: u64 = 1_000_000_000;

/// Run all laboratories in turn
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Minutes for all laboratories together, beside the time for building them
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Only these laboratories: `crash` for all forms of one, `crash/threads` for one form; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Seed, from which those of all rounds follow [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Run the programs that the last soak built
    #[arg(long)]
    no_build: bool,
    /// List the laboratories
    #[arg(long)]
    list: bool,
}

/// Runs them.
///
/// # Errors
/// A round found something; nothing could be run.
pub fn run(arguments: &Arguments) -> Result<()> {
    let chosen = chosen(&arguments.only)?;
    if arguments.list {
        chosen.iter().for_each(|laboratory| println!("{:<28}{}", laboratory.name, laboratory.about));
        return Ok(());
    }
    let seed = arguments.seed.map_or_else(clock_seed, Ok)?;
    let total = Duration::try_from_secs_f64(arguments.minutes * 60.0).context("--minutes")?;
    println!("--seed {seed} --minutes {}: {} laboratories", arguments.minutes, chosen.len());
    let mut stands: Vec<Stand> = chosen.into_iter().map(Stand::new).collect();
    for stand in &stands {
        if let Some(why) = &stand.skipped {
            println!("{:<28}{:>6}    skipped: {why}", stand.laboratory.name, "");
        }
    }
    if !arguments.no_build {
        build(&stands)?;
    }
    let begun = Instant::now();
    soak(&mut stands, seed, total)?;
    summarise(&stands, begun.elapsed())
}

/// A laboratory and what has become of its rounds.
struct Stand {
    laboratory: &'static Laboratory,
    /// Why it cannot run.
    skipped: Option<String>,
    rounds: u32,
    time: Duration,
    findings: u32,
}

impl Stand {
    fn new(laboratory: &'static Laboratory) -> Self {
        let skipped = laboratory.needs.iter().find_map(|need| need.missing());
        Self { laboratory, skipped, rounds: 0, time: Duration::ZERO, findings: 0 }
    }
}

/// Those that are named; all where none is.
fn chosen(names: &[String]) -> Result<Vec<&'static Laboratory>> {
    let is_meant =
        |laboratory: &Laboratory, name: &String| laboratory.name == name || laboratory.family() == name;
    if let Some(name) = names.iter().find(|name| !table::all().any(|laboratory| is_meant(laboratory, name))) {
        let all: Vec<&str> = table::all().map(|laboratory| laboratory.name).collect();
        bail!("there is no laboratory {name}; there are {}", all.join(", "));
    }
    let is_asked =
        |laboratory: &&Laboratory| names.is_empty() || names.iter().any(|name| is_meant(laboratory, name));
    Ok(table::all().filter(is_asked).collect())
}

fn clock_seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % SEEDS)
}

/// The seed of a round. It does not depend on what other laboratories run.
fn round_seed(seed: u64, name: &str, round: u32) -> u64 {
    let named = name.bytes().fold(seed, |seed, byte| Random::new(seed ^ u64::from(byte)).next_u64());
    Random::new(named.wrapping_add(u64::from(round))).below(SEEDS)
}

/// Builds what rounds run, and copies it.
fn build(stands: &[Stand]) -> Result<()> {
    let begun = Instant::now();
    let workspace = workspace_directory();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--profile", "checked", "--package", "xtask", "--package", "uxfs"]);
    process::run(command.current_dir(&workspace))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    fs::create_dir_all(workspace.join(KEPT))?;
    for program in ["xtask", "uxfs"] {
        let copy = workspace.join(UXFS).with_file_name(program);
        fs::create_dir_all(copy.parent().context("a folder")?)?;
        // One that still runs cannot be overwritten.
        let _ = fs::remove_file(&copy);
        fs::copy(target.join("checked").join(program), &copy)?;
    }
    let fuzzes = stands.iter().any(|stand| stand.skipped.is_none() && stand.laboratory.family() == "fuzz");
    // Its first round reports what does not build.
    if fuzzes && let Err(error) = fuzz::build() {
        println!("{error:#}");
    }
    println!("built in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Rounds until the time is over.
fn soak(stands: &mut [Stand], seed: u64, total: Duration) -> Result<()> {
    let mut ready: Vec<&mut Stand> = stands.iter_mut().filter(|stand| stand.skipped.is_none()).collect();
    ensure!(!ready.is_empty(), "no laboratory can run on this machine");
    let mut schedule = Schedule::new(total, ready.iter().map(|stand| stand.laboratory.cost));
    let begun = Instant::now();
    while let Some(plan) = schedule.next(begun.elapsed()) {
        let stand = &mut ready[plan.index];
        let seed = round_seed(seed, stand.laboratory.name, stand.rounds);
        let limit = plan.expected.mul_f64(PATIENCE).max(LEAST_LIMIT);
        let took = run_round(stand, &Slice { seed, scale: plan.scale }, limit)?;
        schedule.record(&plan, took);
    }
    // Empty where no image shows a finding.
    let _ = fs::remove_dir(WORK);
    Ok(())
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

/// Runs one round, and prints its line.
fn run_round(stand: &mut Stand, slice: &Slice, limit: Duration) -> Result<Duration> {
    let (workspace, name) = (workspace_directory(), stand.laboratory.name);
    let log = workspace.join(FOLDER).join(format!("{}-{}.log", name.replace('/', "-"), slice.seed));
    let arguments = (stand.laboratory.arguments)(slice);
    let round = round::run(&workspace.join(UXFS).with_file_name("xtask"), &arguments, &log, limit)?;
    let line = format!("{name:<28}{:>6.0} s  seed {}: ", round.took.as_secs_f64(), slice.seed);
    match &round.found {
        None => {
            println!("{line}{}; found nothing", said::closing(&round.log));
            fs::remove_file(&log)?;
            // Not all laboratories use it.
            let _ = fs::remove_dir_all(slice.folder());
        }
        Some(found) => {
            let whole = format!("cargo xtask {}", arguments.trim_end());
            let again =
                said::repeating_command(&round.log).map_or(String::new(), |part| format!(", or {part}"));
            println!("{line}FOUND: {found}; again: {whole}{again}");
            show(&log, &round.log);
            stand.findings += 1;
        }
    }
    stand.rounds += 1;
    stand.time += round.took;
    Ok(round.took)
}

/// The end of a log, below the line of its round.
fn show(path: &Path, log: &str) {
    println!("    {}", path.display());
    said::tail(log, SHOWN_LINES).iter().for_each(|line| println!("    | {line}"));
}

/// A line for each laboratory, and the sums.
fn summarise(stands: &[Stand], took: Duration) -> Result<()> {
    println!("\n{:<28}{:>7}{:>9}{:>10}", "laboratory", "rounds", "seconds", "findings");
    for Stand { laboratory, skipped, rounds, time, findings } in stands {
        let remark = match skipped {
            Some(why) => format!("  skipped: {why}"),
            None if *rounds == 0 => "  not run: no time was left".to_owned(),
            None => String::new(),
        };
        println!("{:<28}{rounds:>7}{:>9.0}{findings:>10}{remark}", laboratory.name, time.as_secs_f64());
    }
    let sum = |of: fn(&Stand) -> u32| stands.iter().map(of).sum::<u32>();
    let (rounds, findings) = (sum(|stand| stand.rounds), sum(|stand| stand.findings));
    let not_run = stands.iter().filter(|stand| stand.rounds == 0).count();
    println!(
        "{rounds} rounds of {} laboratories in {:.0} min, {not_run} laboratories not run, {findings} findings",
        stands.len() - not_run,
        minutes(took)
    );
    ensure!(rounds > 0, "the time is too short for a round");
    ensure!(findings == 0, "{findings} of {rounds} rounds found something");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Result<Vec<&'static str>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(chosen(&words)?.into_iter().map(|laboratory| laboratory.name).collect())
    }

    #[test]
    fn names_choose_a_form_or_all_of_a_laboratory() {
        assert_eq!(names(&["sound", "crash/threads"]).unwrap(), ["crash/threads", "sound"]);
        assert_eq!(
            names(&["field-fuzz"]).unwrap(),
            ["field-fuzz/read", "field-fuzz/edit", "field-fuzz/check"]
        );
        assert_eq!(names(&[]).unwrap().len(), table::all().count());
        let error = names(&["crash/thread"]).unwrap_err().to_string();
        assert!(error.contains("no laboratory crash/thread; there are crash/states,"), "{error}");
    }

    #[test]
    fn each_round_has_a_seed_of_its_own() {
        let mut seeds: Vec<u64> = table::all()
            .flat_map(|laboratory| (0..10).map(|round| round_seed(7, laboratory.name, round)))
            .collect();
        assert!(seeds.iter().all(|seed| *seed < SEEDS));
        assert_eq!(round_seed(7, "sound", 3), round_seed(7, "sound", 3));
        assert_ne!(round_seed(7, "sound", 3), round_seed(8, "sound", 3));
        let count = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), count);
    }
}

//! `cargo xtask test`: sets up what the tests need, runs everything that must hold before a change is taken, and says what was judged.
//!
//! | module | holds |
//! |---|---|
//! | [`binaries`] | building the test binaries, and the tests of each |
//! | [`schedule`] | which tests share a process, and what starts first |
//! | [`processes`] | running them, several processes at a time |
//! | [`events`] | what a test binary reports while it runs |
//! | [`times`] | times of tests, kept in a file |
//! | [`lints`] | format, policy, documentation; Clippy's lints come with the build |

mod binaries;
mod events;
mod lints;
mod processes;
mod schedule;
mod times;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
    time::Instant,
};

use anyhow::{Result, bail, ensure};
use uxfs_block::self_checks;
use uxfs_testkit::{image, judges as kit, seeds};

use self::{
    binaries::{Binary, Built, Listed},
    events::Ended,
    processes::Outcome,
    times::Times,
};
use crate::{judges, process};

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Fail where a judge is missing (always so where CI is set)
    #[arg(long)]
    required: bool,
    /// Print the time of each test binary and of the thirty slowest tests, and keep the times in tests/times.txt
    #[arg(long)]
    times: bool,
    /// Only tests whose name has one of these in it, as `uxfs-repair/tests` or `mount::`; nothing but tests is run then
    names: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let is_required = arguments.required || env::var_os("CI").is_some() || kit::are_required();
    let directory = kit::judges_directory();
    let workspace = kit::workspace_directory();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let is_whole = arguments.names.is_empty();
    if is_whole {
        lints::quick(&cargo, &workspace)?;
    }
    let mut times = Times::read(&workspace)?;
    // Tests run programs as ordinary users, too.
    let work = tempfile::Builder::new()
        .prefix("uxfs-tests-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(image::memory_folder())?;
    let environment = Environment::new(&directory, &workspace, work.path(), is_required)?;
    let set_up = |command: &mut Command| environment.set(command);
    let (outcomes, lints) = thread::scope(|scope| {
        let judges = scope.spawn(|| judges::set_up(&directory));
        let built = binaries::build(&cargo, &workspace);
        println!("{:5} s  built", started.elapsed().as_secs());
        let libraries = built.as_ref().map(|built| built.libraries.clone());
        let lints = libraries.ok().filter(|_| is_whole);
        let lints =
            lints.map(|libraries| scope.spawn(|| lints::thorough(&cargo, &workspace, libraries, set_up)));
        let judges = judges.join().expect("it does not panic");
        let test = || -> Result<(Vec<Outcome>, Vec<String>)> {
            let Built { binaries, warnings, .. } = built?;
            match judges {
                Err(error) if !is_required => println!("{error:#}"),
                judges => judges?,
            }
            judges::report(&directory);
            let listed = list(binaries, &arguments.names)?;
            Ok((processes::run(&schedule::plan(&listed, &times), &cargo, set_up)?, warnings))
        };
        (test(), lints.map(|lints| lints.join().expect("it does not panic")))
    });
    let ((outcomes, warnings), mut lints) = (outcomes?, lints.transpose()?.unwrap_or_default());
    if is_whole {
        lints.failures.extend(warnings.into_iter().map(|warning| format!("lints:\n{warning}")));
    }
    if arguments.times {
        if is_whole {
            times = Times::default();
        }
        print_times(&outcomes);
        outcomes.iter().for_each(|outcome| outcome.record(&mut times));
        times.write(&workspace)?;
    }
    let is_judged = summarise(&fs::read_to_string(&environment.report).unwrap_or_default(), is_required);
    conclude(&outcomes, &lints, is_judged, started)
}

/// The binaries that have tests of these names, or all.
fn list(binaries: Vec<Binary>, names: &[String]) -> Result<Vec<(Binary, Listed)>> {
    let is_wanted =
        |name: String| names.is_empty() || names.iter().any(|wanted| name.contains(wanted.as_str()));
    let mut all = Vec::new();
    for binary in binaries {
        let listed = match binary.list()? {
            Listed::Own if !is_wanted(binary.name.clone()) => continue,
            Listed::Own => Listed::Own,
            Listed::Harness(mut tests) => {
                tests.retain(|test| is_wanted(format!("{} {test}", binary.name)));
                Listed::Harness(tests)
            }
        };
        all.push((binary, listed));
    }
    Ok(all)
}

/// What every test finds in its environment.
struct Environment {
    variables: BTreeMap<&'static str, OsString>,
    report: std::path::PathBuf,
}

impl Environment {
    fn new(judges: &Path, workspace: &Path, work: &Path, is_required: bool) -> Result<Self> {
        let (report, temporary) = (work.join("report"), work.join("tmp"));
        fs::create_dir(&temporary)?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o1777))?;
        let target = env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace.join("target"), |target| workspace.join(target));
        let folders = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(judges.join("bin")).chain(env::split_paths(&folders));
        let mut variables = BTreeMap::from([
            (kit::DIRECTORY_VARIABLE, judges.into()),
            (kit::REPORT_VARIABLE, report.clone().into()),
            (image::CACHE_VARIABLE, work.join("images").into()),
            // In memory, and removed with the folder after a killed test.
            ("TMPDIR", temporary.into()),
            (self_checks::VARIABLE, "1".into()),
            // glibc keeps freed memory: returning it to the kernel cost up to a third of a test's time.
            ("MALLOC_TRIM_THRESHOLD_", "1073741824".into()),
            ("MALLOC_MMAP_THRESHOLD_", "1073741824".into()),
            ("MALLOC_TOP_PAD_", "16777216".into()),
            ("PATH", env::join_paths(folders)?),
        ]);
        if is_required {
            variables.insert(kit::REQUIRED_VARIABLE, "required".into());
        }
        if env::var_os(kit::PROGRAM_VARIABLE).is_none() {
            variables.insert(kit::PROGRAM_VARIABLE, target.join("release/uxfs").into());
        }
        let seed = env::var_os(seeds::RUN_VARIABLE);
        let seed = seed.unwrap_or_else(|| seed_of_commit(workspace).to_string().into());
        println!("{}={}", seeds::RUN_VARIABLE, seed.to_string_lossy());
        variables.insert(seeds::RUN_VARIABLE, seed);
        Ok(Self { variables, report })
    }

    fn set(&self, command: &mut Command) {
        command.envs(&self.variables);
    }
}

/// Random seed of a run: the same for each run of a commit; 0 outside a repository.
fn seed_of_commit(workspace: &Path) -> u64 {
    let commit = process::read(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(workspace));
    commit.ok().and_then(|commit| u64::from_str_radix(commit.get(..12)?, 16).ok()).unwrap_or(0)
}

/// Every test with the name of its binary.
fn tests_of(outcomes: &[Outcome]) -> impl Iterator<Item = (&str, &Ended)> {
    outcomes.iter().flat_map(|outcome| outcome.ended.iter().map(|ended| (&*outcome.binary, ended)))
}

/// Times by the clock, and of processors, which only whole processes have.
fn print_times(outcomes: &[Outcome]) {
    let mut binaries: BTreeMap<&str, (f64, f64, usize)> = BTreeMap::new();
    for outcome in outcomes {
        let sum = binaries.entry(&outcome.binary).or_default();
        sum.0 += outcome.ended.iter().map(|ended| ended.seconds).sum::<f64>();
        sum.1 += outcome.processor.as_secs_f64();
        sum.2 += outcome.ended.len();
    }
    let mut binaries: Vec<_> = binaries.into_iter().collect();
    binaries.sort_by(|one, other| other.1.0.total_cmp(&one.1.0));
    println!("\nseconds  processor  tests  test binary");
    for (name, (seconds, processor, tests)) in binaries {
        println!("{seconds:7.1} {processor:10.1} {tests:6}  {name}");
    }
    let mut slowest: Vec<_> = tests_of(outcomes).collect();
    slowest.sort_by(|one, other| other.1.seconds.total_cmp(&one.1.seconds));
    println!("\nseconds  slowest tests");
    for (binary, ended) in slowest.into_iter().take(30) {
        println!("{:7.1}  {binary} {}", ended.seconds, ended.test);
    }
}

/// Prints the number of judgements of each judge, and the judges that are missing. Gives whether all required judges were asked.
fn summarise(report: &str, is_required: bool) -> bool {
    let mut lines: Vec<&str> = report.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    let (skipped, judged): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with(kit::SKIPPED_WORD));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    judged
        .iter()
        .for_each(|line| *counts.entry(line.split(": ").next().unwrap_or_default()).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(judge, count)| format!("{judge} {count}")).collect();
    println!("\njudged: {} ({})", judged.len(), counts.join(", "));
    skipped.iter().for_each(|line| println!("  {line}"));
    println!("skipped for want of a judge: {}", skipped.len());
    !is_required || skipped.is_empty()
}

/// What failed, last of all that is printed but for the counts.
fn conclude(outcomes: &[Outcome], lints: &lints::Report, is_judged: bool, started: Instant) -> Result<()> {
    lints.failures.iter().for_each(|failure| println!("\n==== {failure}"));
    let (passed, failed): (Vec<_>, Vec<_>) = tests_of(outcomes).partition(|(_, ended)| ended.passed);
    for (binary, ended) in &failed {
        println!("\n==== {binary} {}\n{}", ended.test, ended.printed.trim_end());
    }
    println!();
    failed.iter().for_each(|(binary, ended)| println!("failed: {binary} {}", ended.test));
    let passed = passed.len() + lints.documentation_tests.passed;
    let failed = failed.len() + lints.documentation_tests.failed;
    println!("in {} s", started.elapsed().as_secs());
    println!("{passed} passed, {failed} failed");
    ensure!(is_judged, "every judge was required");
    if failed > 0 || !lints.failures.is_empty() {
        bail!("{failed} tests and {} other steps failed", lints.failures.len());
    }
    ensure!(passed > 0, "no test has such a name");
    Ok(())
}

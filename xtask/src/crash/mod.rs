//! `cargo xtask crash`: workloads on recording devices, and what their crash states recover to.

mod failing;
mod filling;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use uxfs_lab::crash::{
    geometry::{SHAPES, Shape},
    run::{Depth, Failure, Setup, Tally, record},
    sweep::SweepTally,
};
use uxfs_testkit::judges::workspace_directory;

/// Try crash states of random workloads: recovery must lead to a state of the model
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Number of crash states
    #[arg(long, default_value_t = 100_000)]
    states: u64,
    /// Start no workloads after this many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of the first workload; each further one has the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use this shape of file system only
    #[arg(long)]
    geometry: Option<String>,
    /// At most this many states of one workload
    #[arg(long, default_value_t = 20_000)]
    states_per_run: u64,
    /// Let Linux recover about one state in this many, too (needs root)
    #[arg(long, default_value_t = 0)]
    linux_every: u64,
    /// Try only this state of the first workload
    #[arg(long)]
    only: Option<u64>,
    /// At most this many operations in a workload
    #[arg(long)]
    operations: Option<usize>,
    /// Workloads in parallel [default: the number of processors]
    #[arg(long)]
    jobs: Option<usize>,
    /// Threads in each workload, each in a directory of its own; such runs are not reproducible
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Run the journal's background thread; such runs are not reproducible
    #[arg(long)]
    background: bool,
    /// Continue after a failure, and count failures
    #[arg(long)]
    keep_going: bool,
    /// Folder in which the image of a wrong state and the reason are kept; with several threads it is always kept
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Instead: let the device fail at every n-th read, write and flush of a workload of 500 operations on each geometry
    #[arg(long)]
    failures: bool,
    /// Instead: try every kind of operation on each geometry with every number of free blocks up to this
    #[arg(long)]
    full: Option<u64>,
    #[arg(long, hide = true)]
    is_optimised: bool,
}

/// Runs the laboratory.
///
/// # Errors
/// A state was wrong, or a workload could not be run.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !arguments.is_optimised {
        return run_optimised();
    }
    let shape = arguments.geometry.as_deref().map(named).transpose()?;
    let started = Instant::now();
    if arguments.failures || arguments.full.is_some() {
        return on_each_shape(arguments, shape);
    }
    let laboratory = Laboratory {
        arguments,
        shape,
        started,
        next: AtomicU64::new(arguments.seed),
        is_over: AtomicBool::new(false),
        minutes: AtomicU64::new(0),
        broken: AtomicU64::new(0),
        total: Mutex::default(),
        failures: Mutex::default(),
    };
    let jobs = if arguments.only.is_some() { 1 } else { jobs(arguments) };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| laboratory.work())).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread of the laboratory panicked"),
        })
    })?;
    laboratory.end()
}

/// State that the threads of the laboratory share.
struct Laboratory<'a> {
    arguments: &'a Arguments,
    shape: Option<Shape>,
    started: Instant,
    /// The seed of the next workload.
    next: AtomicU64,
    is_over: AtomicBool,
    /// Minutes that have been reported.
    minutes: AtomicU64,
    /// Workloads that could not be recorded.
    broken: AtomicU64,
    total: Mutex<Tally>,
    failures: Mutex<Vec<Failure>>,
}

impl Laboratory<'_> {
    /// Tries workloads until there are enough.
    fn work(&self) -> Result<()> {
        let Self { arguments, is_over, .. } = self;
        while !is_over.load(Relaxed) {
            let setup = setup_of(arguments, self.next.fetch_add(1, Relaxed), self.shape.as_ref());
            let failure = match try_one(arguments, &setup, &self.total) {
                Ok(failure) => failure,
                Err(error) if arguments.keep_going => {
                    println!("WRONG: {setup}: {error:#}");
                    self.broken.fetch_add(1, Relaxed);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.tell();
            let stops = failure.is_some() && !arguments.keep_going;
            if let Some(failure) = failure
                && let Ok(mut failures) = self.failures.lock()
            {
                println!("WRONG: {}", failure.to_string().lines().next().unwrap_or_default());
                failures.push(*failure);
            }
            if self.is_enough() || stops || arguments.only.is_some() {
                is_over.store(true, Relaxed);
            }
        }
        Ok(())
    }

    fn is_enough(&self) -> bool {
        let is_late =
            self.arguments.seconds.is_some_and(|seconds| self.started.elapsed().as_secs() >= seconds);
        is_late || self.total.lock().is_ok_and(|total| total.states >= self.arguments.states)
    }

    /// Reports progress each minute.
    fn tell(&self) {
        let minute = self.started.elapsed().as_secs() / 60;
        if self.minutes.fetch_max(minute, Relaxed) < minute
            && let Ok(total) = self.total.lock()
        {
            println!("after {minute} min: {total}");
        }
    }

    /// Reports the result.
    fn end(self) -> Result<()> {
        let Self { arguments, started, .. } = self;
        let (Ok(total), Ok(failures)) = (self.total.into_inner(), self.failures.into_inner()) else {
            bail!("a lock")
        };
        println!("{total}; {:.0} states a second", total.states as f64 / started.elapsed().as_secs_f64());
        for failure in &failures {
            println!("WRONG: {failure}");
            // What several threads did does not come again.
            let may_return = failure.setup.threads <= 1 && !failure.setup.has_background;
            let elsewhere = (!may_return).then(|| env::temp_dir().join("uxfs-crash"));
            if let Some(folder) = arguments.keep.clone().or(elsewhere) {
                keep(failure, &folder)?;
            }
        }
        if let Some(failure) = failures.first() {
            report(arguments, failure);
            bail!("{} workloads with a wrong state", failures.len());
        }
        let broken = self.broken.into_inner();
        ensure!(broken == 0, "{broken} workloads could not be recorded");
        println!(
            "every state is that of the model: {} states of {} operations in {} workloads",
            total.states, total.operations, total.runs
        );
        Ok(())
    }
}

fn jobs(arguments: &Arguments) -> usize {
    arguments.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into))
}

/// The alternatives to crash states.
fn on_each_shape(arguments: &Arguments, shape: Option<Shape>) -> Result<()> {
    // The largest log takes as long as all others: only where it is asked for.
    let all = || SHAPES.iter().filter(|shape| shape.name != "largest-log").cloned().collect();
    let shapes = shape.map_or_else(all, |shape| vec![shape]);
    let (mut failures, mut swept, mut is_wrong) = (0, SweepTally::default(), false);
    for shape in shapes {
        for is_immediate in [false, true] {
            let setup = Setup {
                operations: arguments.operations.unwrap_or(500),
                is_immediate,
                free_blocks: None,
                ..Setup::new(arguments.seed, Some(shape.clone()))
            };
            let result = match arguments.full {
                Some(levels) => filling::every_level(&setup, levels, jobs(arguments))
                    .map(|tally| filling::add(&mut swept, &tally)),
                None => failing::every_failure(&setup, jobs(arguments)).map(|count| failures += count),
            };
            if let Err(error) = result {
                println!("{error:#}");
                is_wrong = true;
            }
        }
    }
    ensure!(!is_wrong, "something was wrong");
    match arguments.full {
        Some(_) => println!("{swept}"),
        None => println!("{failures} failures of the device; recovery gave a state of the model after each"),
    }
    Ok(())
}

fn setup_of(arguments: &Arguments, seed: u64, shape: Option<&Shape>) -> Setup {
    let mut setup = Setup::new(seed, shape.cloned());
    (setup.threads, setup.has_background) = (arguments.threads, arguments.background);
    setup.operations = arguments.operations.map_or(setup.operations, |most| most.min(setup.operations));
    setup
}

fn try_one(arguments: &Arguments, setup: &Setup, total: &Mutex<Tally>) -> Result<Option<Box<Failure>>> {
    let recording = record(setup)?;
    let depth = match arguments.only {
        Some(state) => Depth::only(state),
        None => Depth { linux_every: arguments.linux_every, ..Depth::new(arguments.states_per_run) },
    };
    match recording.explore(&recording.plan(), &depth) {
        Ok(tally) => {
            if let Ok(mut total) = total.lock() {
                total.add(&tally);
            }
            Ok(None)
        }
        Err(failure) => Ok(Some(failure)),
    }
}

/// The command that reproduces the failure with as few operations as possible.
fn report(arguments: &Arguments, failure: &Failure) {
    let (setup, shape) = (&failure.setup, &failure.setup.shape);
    let most = failure.promises.iter().map(|promise| promise.most).max().unwrap_or(0);
    if setup.threads > 1 || setup.has_background {
        println!("it may not come again: see what was kept");
        return;
    }
    println!(
        "again: cargo xtask crash --seed {} --geometry {shape} --only {} --keep FOLDER",
        setup.seed, failure.state.number
    );
    // Shorter workloads have other states behind their end: looked for, not computed.
    let mut shortest: Option<Box<Failure>> = None;
    let (mut low, mut high) = (1, most.saturating_sub(setup.warm_up).max(1));
    while low <= high {
        let operations = low.midpoint(high);
        let shorter = Setup { operations, ..setup.clone() };
        let found = record(&shorter).ok().and_then(|recording| {
            let depth = Depth::new(arguments.states_per_run);
            recording.explore(&recording.plan(), &depth).err()
        });
        match found {
            Some(found) => {
                high = operations - 1;
                shortest = Some(found);
            }
            None => low = operations + 1,
        }
    }
    if let Some(shortest) = shortest {
        println!(
            "shortest: cargo xtask crash --seed {} --geometry {shape} --operations {}\n{shortest}",
            setup.seed, shortest.setup.operations
        );
    }
}

fn keep(failure: &Failure, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = format!("seed-{}-state-{}.img", failure.setup.seed, failure.state.number);
    let path = folder.join(name);
    failure.state.image.save(&path)?;
    std::fs::write(path.with_extension("txt"), failure.to_string())?;
    println!("kept: {}", path.display());
    Ok(())
}

fn named(name: &str) -> Result<Shape> {
    let names = || SHAPES.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ");
    Shape::named(name).with_context(|| format!("no such geometry; there are {}", names()))
}

/// Builds this program with optimisation and all checks, and runs it.
fn run_optimised() -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "checked", "--package", "xtask"])
        .current_dir(workspace_directory())
        .status()?;
    ensure!(status.success(), "cannot build");
    let target = env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| workspace_directory().join("target"), PathBuf::from);
    let program = target.join("checked/xtask");
    let status = Command::new(program).args(env::args_os().skip(1)).arg("--is-optimised").status()?;
    if status.success() { Ok(()) } else { bail!("crash states are wrong") }
}

//! `cargo xtask long-run`: mixed work for a long time, on files whose number stays the same. What the processes of the mount take of the
//! machine must not grow.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use uxfs_testkit::seeds::Random;

use super::{
    Stage,
    place::Place,
    processes::{self, Usage},
};

const WORKERS: u64 = 4;
/// Kinds of steps.
const KINDS: u64 = 12;
/// Files of a thread at a time.
const FILES: u64 = 3000;
const LONGEST_BYTES: u64 = 200_000;
/// Samples at the beginning that do not count: caches fill.
const WARM_UP_PERCENT: usize = 30;
/// Growth that is noise.
const NOISE_KIBIBYTES: u64 = 24 << 10;
const NOISE_DESCRIPTORS: u64 = 4;
/// Resident memory that a mount with the default cache may take, whatever it does.
const MOST_KIBIBYTES: u64 = 600 << 10;

/// Work for a long time, and watch memory and descriptors of the mount (needs root)
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// How long
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Seconds between two samples
    #[arg(long, default_value_t = 60.0)]
    every: f64,
    /// The uxfs binary; built unless given
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Folder for the image, in memory unless given
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Seed; random unless given
    #[arg(long)]
    seed: Option<u64>,
    /// Options for uxfs mount -o
    #[arg(long, default_value = "")]
    options: String,
    /// Keep the image of a run that fails
    #[arg(long)]
    keep: bool,
}

/// One number of a sample.
type Value = fn(&Sample) -> u64;

/// What threads tell each other.
#[derive(Default)]
struct State {
    /// The time is over, or one of them has failed.
    is_over: AtomicBool,
    operations: AtomicU64,
}

/// What both processes take at a moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    server: Usage,
    supervisor: Usage,
}

/// Runs it.
///
/// # Errors
/// Something grows; a call fails; the image is not sound.
pub fn run(arguments: &Arguments) -> Result<()> {
    let stage = super::stage(&super::Arguments {
        uxfs: arguments.uxfs.clone(),
        directory: arguments.directory.clone(),
        seed: arguments.seed,
        options: arguments.options.clone(),
        minutes: arguments.minutes,
        keep: arguments.keep,
        ..super::Arguments::default()
    })?;
    println!("--seed {}", stage.seed);
    let outcome = watched(&stage, Duration::from_secs_f64(arguments.every));
    stage.words_of_mounts().iter().for_each(|line| println!("the mount said: {line}"));
    let _ = fs::remove_dir(&stage.directory);
    outcome
}

fn watched(stage: &Stage, every: Duration) -> Result<()> {
    let place = Place::mounted(stage, "4G", stage.time * 2 + Duration::from_secs(300))?;
    let state = State::default();
    let samples = thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS)
            .map(|number| {
                let random = Random::new(stage.seed ^ (number << 40));
                let mut worker = Worker { root: place.join(format!("w{number}")), random };
                let state = &state;
                scope.spawn(move || worker.work(state))
            })
            .collect();
        let samples = sample(&place, stage.time, every, &state);
        state.is_over.store(true, Relaxed);
        let mut failures = Vec::new();
        for thread in threads {
            match thread.join().map_err(|_| anyhow!("a thread panicked"))? {
                Ok(()) => {}
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        samples
    })?;
    let paths = place.finish()?;
    judge(&samples)?;
    println!(
        "{} operations, {paths} paths, sound; what the processes take did not grow in {} samples",
        state.operations.into_inner(),
        samples.len()
    );
    Ok(())
}

fn sample(place: &Place<'_>, time: Duration, every: Duration, state: &State) -> Result<Vec<Sample>> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    println!(
        "{:>8}{:>14}{:>14}{:>10}{:>10}{:>14}{:>12}",
        "seconds", "server KiB", "descriptors", "threads", "other KiB", "descriptors", "operations"
    );
    while begun.elapsed() < time && !state.is_over.load(Relaxed) {
        let next = Instant::now() + every;
        while Instant::now() < next && begun.elapsed() < time && !state.is_over.load(Relaxed) {
            thread::sleep(Duration::from_millis(100));
        }
        let of = processes::of(place.image());
        let [supervisor, server] = of[..] else { anyhow::bail!("the processes of the mount: {of:?}") };
        let one =
            Sample { server: processes::usage(server.id)?, supervisor: processes::usage(supervisor.id)? };
        println!(
            "{:>8.0}{:>14}{:>14}{:>10}{:>10}{:>14}{:>12}",
            begun.elapsed().as_secs_f64(),
            one.server.memory_kibibytes,
            one.server.descriptors,
            one.server.threads,
            one.supervisor.memory_kibibytes,
            one.supervisor.descriptors,
            state.operations.load(Relaxed)
        );
        samples.push(one);
    }
    Ok(samples)
}

/// The second half of what counts must not take more than the first.
fn judge(samples: &[Sample]) -> Result<()> {
    let from = samples.len() * WARM_UP_PERCENT / 100;
    let (early, late) = samples.get(from..).unwrap_or_default().split_at((samples.len() - from) / 2);
    ensure!(!early.is_empty(), "{} samples are too few to see growth", samples.len());
    let middle = |of: &[Sample], value: Value| {
        let mut values: Vec<u64> = of.iter().map(value).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let kinds: [(&str, Value, u64); 5] = [
        ("memory of the server (KiB)", |one| one.server.memory_kibibytes, NOISE_KIBIBYTES),
        ("descriptors of the server", |one| one.server.descriptors, NOISE_DESCRIPTORS),
        ("threads of the server", |one| one.server.threads, NOISE_DESCRIPTORS),
        ("memory of the supervisor (KiB)", |one| one.supervisor.memory_kibibytes, NOISE_KIBIBYTES),
        ("descriptors of the supervisor", |one| one.supervisor.descriptors, NOISE_DESCRIPTORS),
    ];
    for (name, value, noise) in kinds {
        let (before, after) = (middle(early, value), middle(late, value));
        println!("{name}: {before}, later {after}");
        ensure!(after <= before + before / 10 + noise, "{name} grows from {before} to {after}");
    }
    let most = samples.iter().map(|one| one.server.memory_kibibytes).max().unwrap_or(0);
    ensure!(most <= MOST_KIBIBYTES, "the server takes {most} KiB");
    Ok(())
}

/// A thread that works in a directory of its own.
struct Worker {
    root: PathBuf,
    random: Random,
}

impl Worker {
    fn work(&mut self, state: &State) -> Result<()> {
        let outcome = self.work_until(state);
        if outcome.is_err() {
            state.is_over.store(true, Relaxed);
        }
        outcome
    }

    fn work_until(&mut self, state: &State) -> Result<()> {
        fs::create_dir(&self.root)?;
        while !state.is_over.load(Relaxed) {
            let number = self.random.below(FILES);
            let kind = self.random.below(KINDS);
            let path = self.directory(number)?.join(format!("f{number}"));
            self.step(&path, kind).with_context(|| format!("{}, step {kind}", path.display()))?;
            state.operations.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn directory(&self, number: u64) -> Result<PathBuf> {
        let directory = self.root.join(format!("d{}", number % 50));
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    fn step(&mut self, path: &Path, kind: u64) -> Result<()> {
        match kind {
            0..=3 => self.write(path),
            4 | 5 => read(path),
            6 => absent_is_well(fs::remove_file(path)),
            7 => {
                let other = self.random.below(FILES);
                let other = self.directory(other)?.join(format!("f{other}"));
                absent_is_well(fs::rename(path, other))
            }
            8 => {
                let file = File::options().append(true).create(true).open(path)?;
                (&file).write_all(&[5; 300])?;
                if file.metadata()?.len() > LONGEST_BYTES * 2 {
                    file.set_len(0)?;
                }
                Ok(file.sync_data()?)
            }
            9 => absent_is_well(attribute(path, self.random.below(4000))),
            10 => {
                // Deleted while it is open.
                self.write(path)?;
                let file = File::open(path)?;
                fs::remove_file(path)?;
                let mut byte = [0];
                Ok(file.read_exact_at(&mut byte, 0)?)
            }
            _ => fs::read_dir(path.parent().context("no parent")?)?
                .try_for_each(|entry| absent_is_well(entry.and_then(|entry| entry.metadata()).map(drop))),
        }
    }

    fn write(&mut self, path: &Path) -> Result<()> {
        let most = 1 << (6 + self.random.below(12));
        let mut bytes = vec![0; 1 + self.random.below(most).min(LONGEST_BYTES) as usize];
        self.random.fill(&mut bytes);
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        if self.random.below(20) == 0 {
            file.sync_all()?;
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<()> {
    absent_is_well(File::open(path).and_then(|mut file| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(drop)
    }))
}

fn attribute(path: &Path, length: u64) -> std::io::Result<()> {
    let value = vec![3; length as usize];
    Ok(rustix::fs::setxattr(path, "user.value", &value, rustix::fs::XattrFlags::empty())?)
}

fn absent_is_well(outcome: std::io::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => Ok(other?),
    }
}

//! `cargo xtask revive`: how much of a file system survives damage and repair, by `xfs_repair` and by `uxfs repair`.
//!
//! The kernel says what a sound image holds. A copy is damaged, repaired, judged by `xfs_repair -n`, and only when that
//! is silent mounted read-only and compared with the sound one, path by path.
//!
//! | module | holds |
//! |---|---|
//! | `sample` | the sound image |
//! | `filling` | what it holds beside the recipe of the golden images |
//! | `objects` | its metadata by type |
//! | `damage` | changes of objects |
//! | `catalogue` | the kinds of damage |
//! | `repairers` | running a repair until the judge is silent |
//! | `survival` | comparison of a repaired tree with the sound one |
//! | `case` | one damage, repaired by each |
//! | `report` | sums and the table |
//! | `demo` | this source tree without its directories, repaired |

mod case;
mod catalogue;
mod damage;
mod demo;
mod filling;
mod objects;
mod repairers;
mod report;
mod sample;
mod survival;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use uxfs_lab::field_fuzz::sparse_device::{DamagedImage, SparseImage};
use uxfs_testkit::shapes::SHAPES;

use self::{
    case::{Bench, Case},
    catalogue::Kind,
    damage::Scene,
    objects::Objects,
    repairers::Repairer,
    report::{Report, tally},
    sample::Sample,
};
use crate::bench;

/// Damage images in many ways and measure what each repair saves
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Seed: the same number gives the same damages [default: a new one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Run only kinds of damage whose names contain this, or the one whose name it is
    #[arg(long, default_value = "")]
    only: String,
    /// List the kinds of damage
    #[arg(long)]
    list: bool,
    /// Cases of each kind
    #[arg(long, default_value_t = 1)]
    cases: usize,
    /// Cases at the same time [default: the number of processors]
    #[arg(long)]
    jobs: Option<usize>,
    /// Damage this golden image instead of the sample
    #[arg(long, conflicts_with = "shape")]
    image: Option<String>,
    /// Shape of the sample
    #[arg(long, default_value = "default")]
    shape: String,
    /// The uxfs to be measured [default: built here]
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Measure xfs_repair alone
    #[arg(long, conflicts_with = "uxfs")]
    xfs_repair_only: bool,
    /// Measure uxfs alone
    #[arg(long, conflicts_with = "xfs_repair_only")]
    uxfs_only: bool,
    /// Folder for images, in memory
    #[arg(long, default_value = "/dev/shm/uxfs-revive")]
    directory: PathBuf,
    /// Keep damaged images in this folder where something was lost
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Write every case to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Six kinds on a golden image
    #[arg(long)]
    quick: bool,
    /// Show each case: what was damaged and the first differences
    #[arg(long)]
    verbose: bool,
    /// Destroy a third of the directories of an image with this source tree, and repair it
    #[arg(long)]
    demo: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<()> {
    let kinds = kinds(arguments)?;
    if arguments.list {
        kinds.iter().for_each(|kind| println!("{}", kind.name));
        return Ok(());
    }
    let started = Instant::now();
    let seed = arguments.seed.map_or_else(new_seed, Ok)?;
    let repairers = repairers(arguments)?;
    fs::create_dir_all(&arguments.directory)?;
    let work = tempfile::Builder::new().prefix("work-").tempdir_in(&arguments.directory)?;
    println!("seed {seed}");
    if arguments.demo {
        return demo::run(work.path(), &repairers, seed);
    }
    let sample = sample(arguments)?;
    let device = DamagedImage::sound(SparseImage::load(&sample.image)?);
    let older = sample.older.as_deref().map(SparseImage::load).transpose()?.map(DamagedImage::sound);
    let objects = Objects::locate(&device)?;
    println!("{}: {} paths, {}", sample.name, sample.truth.len(), counts(&objects));
    let older = older.as_ref().map(|older| older as &dyn uxfs_block::device::BlockDevice);
    let scene = Scene { device: &device, older, objects: &objects };
    let bench = Bench {
        sample: &sample,
        scene: &scene,
        repairers: &repairers,
        work: work.path(),
        seed,
        keep: arguments.keep.as_deref(),
    };
    let cases = run_cases(arguments, &bench, &kinds)?;
    let entries = sample.truth.len();
    let report = Report {
        seed,
        sample: sample.name.clone(),
        entries,
        seconds: started.elapsed().as_secs_f64(),
        totals: tally(&cases, entries),
        cases,
    };
    let names: Vec<&'static str> = repairers.iter().map(Repairer::name).collect();
    print!("{}", report.table(&kinds, &names));
    println!("{:.0} s", report.seconds);
    arguments.json.as_deref().map_or(Ok(()), |path| report.write(path))
}

fn kinds(arguments: &Arguments) -> Result<Vec<Kind>> {
    let all = if arguments.quick { catalogue::quick() } else { catalogue::all() };
    let exact: Vec<Kind> = all.iter().filter(|kind| kind.name == arguments.only).cloned().collect();
    let chosen = if exact.is_empty() {
        all.into_iter().filter(|kind| kind.name.contains(&arguments.only)).collect()
    } else {
        exact
    };
    ensure!(!chosen.is_empty(), "no kind of damage has {} in its name; see --list", arguments.only);
    Ok(chosen)
}

fn new_seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64 % 1_000_000_000)
}

/// Those that can repair.
fn repairers(arguments: &Arguments) -> Result<Vec<Repairer>> {
    // Its mode that changes nothing is the judge in any case.
    ensure!(Repairer::XfsRepair.is_there()?, "xfs_repair is the judge, and it is not there");
    let mut wanted = if arguments.uxfs_only { Vec::new() } else { vec![Repairer::XfsRepair] };
    if !arguments.xfs_repair_only {
        wanted.push(Repairer::Uxfs(arguments.uxfs.clone().map_or_else(bench::build, Ok)?));
    }
    let mut there = Vec::new();
    for repairer in wanted {
        if repairer.is_there()? {
            there.push(repairer);
        } else {
            println!("{} is not there and not measured", repairer.name());
        }
    }
    ensure!(!there.is_empty(), "there is nothing to be measured");
    Ok(there)
}

fn sample(arguments: &Arguments) -> Result<Sample> {
    let golden = arguments.image.as_deref().or(arguments.quick.then_some("default"));
    if let Some(name) = golden {
        return Sample::golden(&arguments.directory, name);
    }
    let shape = SHAPES.iter().find(|shape| shape.name == arguments.shape);
    let names = || SHAPES.map(|shape| shape.name).join(", ");
    let shape = shape.with_context(|| format!("no such shape; there are {}", names()))?;
    Sample::filled(&arguments.directory, *shape)
}

/// How many objects of each type there are.
fn counts(objects: &Objects) -> String {
    let counts = objects::TYPES.iter().map(|kind| format!("{} {kind}", objects.of(kind).len()));
    counts.collect::<Vec<_>>().join(", ")
}

fn run_cases(arguments: &Arguments, bench: &Bench<'_>, kinds: &[Kind]) -> Result<Vec<Case>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(processors).max(1);
    let all: Vec<(&Kind, usize)> =
        kinds.iter().flat_map(|kind| (0..arguments.cases).map(move |number| (kind, number))).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Case>)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((kind, number)) = all.get(index) else { break };
                    let case = bench.run(kind, *number);
                    if let (Ok(case), true) = (&case, arguments.verbose) {
                        tell(case);
                    }
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((index, case));
                    if done.len().is_multiple_of(50) {
                        eprintln!("revive: {} of {} cases", done.len(), all.len());
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, case)| case).collect()
}

fn tell(case: &Case) {
    let mut lines = vec![format!("{} case {}", case.kind, case.number)];
    lines.extend(case.damage.iter().take(20).map(|words| format!("  {words}")));
    for ending in &case.endings {
        let survival = ending.survival.as_ref();
        let intact = survival.map_or(0, |survival| survival.intact);
        lines.push(format!(
            "  {}: {intact} intact after {} runs, {:.2} s {}",
            ending.repairer,
            ending.runs,
            ending.seconds,
            ending.fault.as_deref().unwrap_or_default()
        ));
        let examples = survival.map(|survival| survival.examples.as_slice()).unwrap_or_default();
        lines.extend(examples.iter().map(|example| format!("    {example}")));
    }
    println!("{}", lines.join("\n"));
}

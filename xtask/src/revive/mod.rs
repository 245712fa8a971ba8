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
//! | `regions` | damages of stretches of the device |
//! | `catalogue` | the kinds of damage |
//! | `repairers` | running a repair until the judge is silent |
//! | `survival` | comparison of a repaired tree with the sound one |
//! | `contents` | where the contents of files lie |
//! | `work` | work of the kernel on a repaired image |
//! | `case` | one damage, repaired by each |
//! | `runs` | all cases of one sample, several at a time |
//! | `classes` | kinds of damage, in classes |
//! | `report` | all cases, their sums, and the file of them |
//! | `table` | the tables for a terminal |
//! | `summary` | compact tables, and what is still lossy |
//! | `picture` | the classes as a picture |
//! | `demo` | this source tree without its directories, repaired |

mod case;
mod catalogue;
mod classes;
mod contents;
mod damage;
mod demo;
mod filling;
mod objects;
mod picture;
mod regions;
mod repairers;
mod report;
mod runs;
mod sample;
mod summary;
mod survival;
mod table;
mod work;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use uxfs_testkit::shapes::{SHAPES, SIZES, Shape};

use self::{
    catalogue::Kind,
    repairers::Repairer,
    report::{Report, tally},
    sample::Sample,
};
use crate::bench;

/// Shapes beside the common ones.
const OTHER_SHAPES: [Shape; 1] = [Shape { name: "groups-16", options: "-d agcount=16" }];
/// The shape that the kernel here does not mount.
const NOT_MOUNTED: &str = "ascii-ci";

/// Damage images in many ways and measure what each repair saves
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Seed: the same number gives the same damages [default: a new one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Run only kinds of damage whose names contain one of these, or the one whose name it is
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// List the kinds of damage
    #[arg(long)]
    list: bool,
    /// The whole catalogue: every change with every number, and each of eight ways to change a field for itself
    #[arg(long)]
    full: bool,
    /// Run only so many of the kinds, which the seed chooses for each shape
    #[arg(long, value_name = "NUMBER")]
    kinds: Option<usize>,
    /// Run one part of the kinds: 2/5 is every fifth, from the second on
    #[arg(long, value_name = "PART/PARTS", value_parser = part_of)]
    part: Option<(usize, usize)>,
    /// Cases of each kind
    #[arg(long, default_value_t = 1)]
    cases: usize,
    /// Cases at the same time [default: the number of processors]
    #[arg(long)]
    jobs: Option<usize>,
    /// Damage this golden image instead of the sample
    #[arg(long, conflicts_with = "shapes")]
    image: Option<String>,
    /// Shapes of the sample, one after the other; "all" for all that the kernel mounts, "sizes" for each size of blocks with each of inodes
    #[arg(long, visible_alias = "shape", value_delimiter = ',', default_value = "default")]
    shapes: Vec<String>,
    /// The uxfs to be measured [default: built here]
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Measure xfs_repair alone
    #[arg(long, conflicts_with = "uxfs")]
    xfs_repair_only: bool,
    /// Measure uxfs alone
    #[arg(long, conflicts_with = "xfs_repair_only")]
    uxfs_only: bool,
    /// Measure uxfs without copies of metadata in the log: uxfs repair --no-log-copies
    #[arg(long, conflicts_with = "xfs_repair_only")]
    no_log_copies: bool,
    /// Measure uxfs with copies in the log and without
    #[arg(long, conflicts_with_all = ["xfs_repair_only", "no_log_copies"])]
    both: bool,
    /// Have the kernel work on one repaired image of so many, which the seed chooses: make files, then remove everything; 0 for none
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    work_every: u64,
    /// A command that also has to pass each repaired image, whose path it gets: the online scrub of another kernel
    #[arg(long, value_name = "COMMAND")]
    judge: Option<PathBuf>,
    /// Folder for images, in memory
    #[arg(long, default_value = "/dev/shm/uxfs-revive")]
    directory: PathBuf,
    /// Keep damaged images in this folder where something was lost
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Write every case to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the classes of damage to this SVG file
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Run nothing: read what earlier runs wrote with --json
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
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
    if !arguments.from.is_empty() {
        return tell(&Report::read(&arguments.from)?, arguments);
    }
    let kinds = kinds(arguments)?;
    if arguments.list {
        kinds.iter().for_each(|kind| println!("{}", kind.name));
        return Ok(());
    }
    let seed = arguments.seed.map_or_else(new_seed, Ok)?;
    let started = Instant::now();
    let repairers = repairers(arguments)?;
    let built = started.elapsed();
    fs::create_dir_all(&arguments.directory)?;
    let work = tempfile::Builder::new().prefix("work-").tempdir_in(&arguments.directory)?;
    println!("seed {seed}");
    if arguments.demo {
        demo::run(work.path(), &repairers, seed, built)?;
        work.close()?;
        // Where earlier runs have kept something it stays.
        let _ = fs::remove_dir(&arguments.directory);
        return Ok(());
    }
    let report = measure(arguments, (&kinds, seed), &repairers, work.path())?;
    tell(&report, arguments)?;
    let broken = summary::promises_broken_by_uxfs(&report);
    ensure!(broken == 0, "uxfs repair broke {broken} promises");
    Ok(())
}

/// All cases of all samples.
fn measure(
    arguments: &Arguments,
    (kinds, seed): (&[Kind], u64),
    repairers: &[Repairer],
    work: &Path,
) -> Result<Report> {
    let started = Instant::now();
    let names = repairers.iter().map(|repairer| repairer.name().to_owned()).collect();
    let mut report = Report { seed, repairers: names, ..Report::default() };
    let golden = arguments.image.as_deref().or(arguments.quick.then_some("default"));
    if let Some(name) = golden {
        let sample = Sample::golden(&arguments.directory, name)?;
        report.cases = runs::run(arguments, (kinds, seed), repairers, (&sample, work))?;
    } else {
        let shapes = shapes(&arguments.shapes)?;
        let is_kept = shapes.len() == 1;
        for shape in shapes {
            match Sample::filled(&arguments.directory, shape) {
                Ok(sample) => {
                    report.cases.extend(runs::run(arguments, (kinds, seed), repairers, (&sample, work))?);
                    if !is_kept {
                        sample.remove()?;
                    }
                }
                Err(error) if !is_kept => {
                    eprintln!("revive: {} cannot be measured: {error:#}", shape.name);
                    report.not_measured.insert(shape.name.to_owned(), format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    ensure!(!report.cases.is_empty(), "nothing was measured");
    report.totals = tally(&report.cases);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn tell(report: &Report, arguments: &Arguments) -> Result<()> {
    print!("{}", table::text(report));
    println!("\n{}\n{}", summary::classes(report), summary::shapes(report));
    print!("{}", summary::losses(report));
    println!("{}", summary::closing(report));
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    arguments.picture.as_deref().map_or(Ok(()), |path| picture::write(report, path))
}

fn kinds(arguments: &Arguments) -> Result<Vec<Kind>> {
    let all = match (arguments.quick, arguments.full) {
        (true, _) => catalogue::quick(),
        (false, true) => catalogue::full(),
        (false, false) => catalogue::short(),
    };
    let only = &arguments.only;
    let exact: Vec<Kind> = all.iter().filter(|kind| only.contains(&kind.name)).cloned().collect();
    let is_wanted = |kind: &Kind| only.is_empty() || only.iter().any(|name| kind.name.contains(name));
    let chosen = if exact.is_empty() { all.into_iter().filter(is_wanted).collect() } else { exact };
    ensure!(!chosen.is_empty(), "no kind of damage has {} in its name; see --list", only.join(" or "));
    let (part, parts) = arguments.part.unwrap_or((1, 1));
    Ok(chosen.into_iter().skip(part - 1).step_by(parts).collect())
}

/// Two numbers with a slash between.
fn part_of(words: &str) -> Result<(usize, usize)> {
    let (part, parts) = words.split_once('/').context("two numbers with a slash between, as 2/5")?;
    let (part, parts) = (part.parse()?, parts.parse()?);
    ensure!(part >= 1 && part <= parts, "the part is not one of {parts}");
    Ok((part, parts))
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
        let program = arguments.uxfs.clone().map_or_else(bench::build, Ok)?;
        let uxfs = |uses_log_copies| Repairer::Uxfs { program: program.clone(), uses_log_copies };
        if !arguments.no_log_copies {
            wanted.push(uxfs(true));
        }
        if arguments.no_log_copies || arguments.both {
            wanted.push(uxfs(false));
        }
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

fn shapes(names: &[String]) -> Result<Vec<Shape>> {
    let known: Vec<Shape> = SHAPES.into_iter().chain(SIZES).chain(OTHER_SHAPES).collect();
    if names.iter().any(|name| name == "all") {
        return Ok(known.into_iter().filter(|shape| shape.name != NOT_MOUNTED).collect());
    }
    if names == ["sizes"] {
        let is_of_sizes = |shape: &Shape| {
            let settings = shape.settings();
            settings.iter().all(|(letter, value)| matches!(letter, 'b' | 'i') && value.starts_with("size="))
        };
        return Ok(known.into_iter().filter(is_of_sizes).collect());
    }
    let named = |name: &String| {
        let found = known.iter().find(|shape| shape.name == name).copied();
        let all = || known.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ");
        found.with_context(|| format!("{name} is no shape; there are {}", all()))
    };
    names.iter().map(named).collect()
}

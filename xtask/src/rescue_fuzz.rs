//! `cargo xtask rescue-fuzz`: rescues of damaged images and failing devices, beside what the kernel saw in the sound image.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uxfs_lab::{
    field_fuzz::sparse_device::SparseImage,
    repair_fuzz::Fixture,
    rescue_fuzz::{Case, Counts, Kind, Truth},
};
use uxfs_testkit::{golden::GoldenImage, seeds::Random};

/// Damage golden images in many ways, rescue their files, and compare what is called whole with what the kernel saw
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Golden images, in turn
    #[arg(long, default_values_t = ["default", "block-1k", "no-rmapbt", "no-parent", "no-feature", "groups-16"].map(String::from))]
    image: Vec<String>,
    /// Cases of each kind of damage for each image
    #[arg(long, default_value_t = 10)]
    cases: u64,
    /// Seed of the first case; the next has the next seed. Random unless given
    #[arg(long)]
    seed: Option<u64>,
    /// Run only kinds of damage whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// Print what was damaged, and all that is called whole and is not
    #[arg(long)]
    verbose: bool,
}

/// A case that takes longer hangs.
const CASE_LIMIT: Duration = Duration::from_secs(300);
/// Wrong names that are shown of a case.
const SHOWN: usize = 3;

/// Runs the cases and prints a table.
///
/// # Errors
/// Something was called whole that is not; a rescue panicked; an image cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let seed = arguments.seed.map_or_else(fresh_seed, Ok)?;
    println!("--seed {seed}");
    let begun = watch();
    let wanted = |kind: &&Kind| arguments.only.as_ref().is_none_or(|only| kind.name().contains(only));
    let kinds: Vec<Kind> = Kind::ALL.iter().filter(wanted).copied().collect();
    let mut rows: Vec<(Kind, Counts)> = kinds.iter().map(|kind| (*kind, Counts::default())).collect();
    let (mut escapes, started) = (0, Instant::now());
    for name in &arguments.image {
        let golden = GoldenImage::named(name)?;
        let image = SparseImage::load(&golden.unpacked()?)?;
        let truth = Truth::of(&golden, &image).with_context(|| name.clone())?;
        let fixture = Fixture::of(image)?;
        for (kind, row) in &mut rows {
            for number in 0..arguments.cases {
                begun.store(started.elapsed().as_millis() as u64, SeqCst);
                let case = Case::new(&fixture, *kind, &mut Random::new(seed + number))?;
                let judge = AssertUnwindSafe(|| truth.judge(Arc::clone(&case.device), &case.known));
                let what =
                    format!("--image {name} --only \"{}\" --cases 1 --seed {}", kind.name(), seed + number);
                let Ok(counts) = panic::catch_unwind(judge) else {
                    println!("PANICS {what}: {}", case.words.join("; "));
                    escapes += 1;
                    continue;
                };
                let counts = counts?;
                let wrong = wrong_of(*kind, &counts);
                escapes += u64::from(!wrong.is_empty());
                if !wrong.is_empty() || arguments.verbose {
                    println!("{what}: {}", case.words.join("; "));
                    let most = if arguments.verbose { usize::MAX } else { SHOWN };
                    wrong.iter().take(most).for_each(|wrong| println!("  WRONG {wrong}"));
                }
                row.add(counts);
            }
        }
        begun.store(u64::MAX, SeqCst);
    }
    let Counts { rescues, names, whole, refused, .. } = print(&rows);
    println!(
        "{rescues} rescues ({refused} refused), {names} names, {whole} called whole; {:.0} s",
        started.elapsed().as_secs_f64()
    );
    ensure!(escapes == 0, "{escapes} cases broke a promise");
    Ok(())
}

fn fresh_seed() -> Result<u64> {
    Ok(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs())
}

/// Ends the process where a case takes too long. Gives what has the milliseconds at which the case at hand began.
fn watch() -> Arc<AtomicU64> {
    let (started, begun) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
    let watched = Arc::clone(&begun);
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(1));
            let now = started.elapsed().as_millis() as u64;
            if now.saturating_sub(watched.load(SeqCst)) > CASE_LIMIT.as_millis() as u64 {
                println!("a case hangs");
                std::process::exit(9);
            }
        }
    });
    begun
}

/// What breaks a promise.
fn wrong_of(kind: Kind, counts: &Counts) -> Vec<String> {
    let mut wrong = counts.wrong.clone();
    wrong.extend(
        counts.untold_in_whole.iter().map(|path| format!("{path}: missing from a directory called whole")),
    );
    if !kind.may_change_metadata() {
        wrong.extend(counts.wrong_metadata.iter().cloned());
    }
    wrong
}

/// Prints the table, and gives its sums.
fn print(rows: &[(Kind, Counts)]) -> Counts {
    let titles = [
        "cases", "refused", "names", "whole", "older?", "inferred", "partial", "lost", "untold", "wrong",
        "metadata",
    ];
    let line = |name: &str, cells: &[String]| {
        println!("{name:<30}{}", cells.iter().map(|cell| format!("{cell:>10}")).collect::<String>());
    };
    line("damage", &titles.map(String::from));
    let cells = |counts: &Counts| {
        [
            counts.rescues,
            counts.refused,
            counts.names,
            counts.whole,
            counts.perhaps_older,
            counts.inferred,
            counts.partial,
            counts.lost,
            counts.untold,
            (counts.wrong.len() + counts.untold_in_whole.len()) as u64,
            counts.wrong_metadata.len() as u64,
        ]
        .map(|count| count.to_string())
    };
    let mut all = Counts::default();
    for (kind, counts) in rows {
        line(kind.name(), &cells(counts));
        all.add(counts.clone());
    }
    line("all", &cells(&all));
    all
}

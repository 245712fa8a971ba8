//! `cargo xtask repair-fuzz`: random damages, several at once; check, repair, edits of the result, and `xfs_repair -n`.
//!
//! Cases run in a process below this one, with little address space. It tells which case it begins; where it dies or takes too long in
//! one, that case has escaped, and another process goes on behind it.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write, stdout},
    panic::{self, AssertUnwindSafe},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, setrlimit};
use uxfs_block::device::BlockDevice;
use uxfs_lab::{
    crash::image::Image,
    field_fuzz::small,
    repair_fuzz::{Fixture, Outcome, Promises},
};
use uxfs_testkit::{golden::GoldenImage, judges::workspace_directory, seeds::Random};

/// Damage golden images in several places at once, repair them, edit the result, and have xfs_repair judge it
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Golden images, in turn; those whose names begin with small- have few hard links, so that xfs_repair is fast
    #[arg(long, default_values_t = [String::from("small-default"), "small-block-1k".into(), "small-no-rmapbt".into(), "small-no-parent".into(), "small-no-feature".into()])]
    image: Vec<String>,
    /// Cases for each image
    #[arg(long, default_value_t = 100)]
    cases: u64,
    /// Seed of the first case; the next has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Damages of a case, at most
    #[arg(long, default_value_t = 20)]
    damages: usize,
    /// Do not ask xfs_repair, and limit the memory
    #[arg(long)]
    no_judge: bool,
    /// Also repair with several threads
    #[arg(long)]
    threads: bool,
    /// Run one case, and print what was damaged and done
    #[arg(long)]
    verbose: bool,
    #[arg(long, hide = true)]
    worker: Option<u64>,
}

/// A case that takes longer hangs. With judges, which have limits of their own.
const CASE_LIMIT: Duration = Duration::from_secs(60);
/// Address space of a worker without judges.
const ADDRESS_SPACE_BYTES: u64 = 1 << 30;

/// Runs the cases, and prints what escaped.
///
/// # Errors
/// A case escaped; an image cannot be made.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(from) = arguments.worker {
        return work(arguments, from);
    }
    let (mut counts, mut escapes): (BTreeMap<String, u64>, u64) = Default::default();
    for image in &arguments.image {
        let mut from = 0;
        while from < arguments.cases {
            from = supervise(arguments, image, from, &mut counts, &mut escapes)?;
        }
    }
    for (outcome, count) in &counts {
        println!("{count:>8} {outcome}");
    }
    ensure!(escapes == 0, "{escapes} cases escaped");
    let outcomes: Vec<String> = counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let cases: u64 = counts.values().sum();
    println!("{cases} cases on {} images: {}", arguments.image.len(), outcomes.join(", "));
    Ok(())
}

/// Runs cases until the worker ends. Gives the case with which to go on.
fn supervise(
    arguments: &Arguments,
    image: &str,
    from: u64,
    counts: &mut BTreeMap<String, u64>,
    escapes: &mut u64,
) -> Result<u64> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["repair-fuzz", "--image", image, "--worker", &from.to_string()]);
    command.args(["--cases", &arguments.cases.to_string(), "--seed", &arguments.seed.to_string()]);
    command.args(["--damages", &arguments.damages.to_string()]);
    for (flag, is_given) in [
        ("--no-judge", arguments.no_judge),
        ("--threads", arguments.threads),
        ("--verbose", arguments.verbose),
    ] {
        if is_given {
            command.arg(flag);
        }
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start a worker")?;
    let mut at = None;
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        let Some((kind, rest)) = line.split_once(' ') else { continue };
        match kind {
            "B" => at = rest.parse::<u64>().ok(),
            "X" => {
                let seed = arguments.seed + at.unwrap_or(0);
                println!("ESCAPED --image {image} --seed {seed} --damages {}: {rest}", arguments.damages);
                *counts.entry("escaped".to_owned()).or_default() += 1;
                *escapes += 1;
            }
            "E" => *counts.entry(rest.to_owned()).or_default() += 1,
            _ => println!("{line}"),
        }
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(arguments.cases);
    }
    let at = at.with_context(|| format!("a worker failed before its first case: {status}"))?;
    let seed = arguments.seed + at;
    println!("ESCAPED --image {image} --seed {seed} --damages {}: {status}", arguments.damages);
    *escapes += 1;
    Ok(at + 1)
}

fn fixture(image: &str) -> Result<(Fixture, Image)> {
    let path = match image.strip_prefix(small::PREFIX) {
        None => GoldenImage::named(image)?.unpacked()?,
        Some(golden) => {
            small::make(&GoldenImage::named(golden)?, &workspace_directory().join("target/small-images"))?
        }
    };
    Ok((Fixture::load(&path)?, Image::load(&path)?))
}

fn work(arguments: &Arguments, from: u64) -> Result<()> {
    let (fixture, base) = fixture(arguments.image.first().context("an image")?)?;
    if arguments.no_judge {
        let limit = Some(ADDRESS_SPACE_BYTES);
        setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })?;
    }
    // Milliseconds since the start at which the case at hand began.
    let (started, begun) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
    let watched = Arc::clone(&begun);
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_millis(200));
            let now = started.elapsed().as_millis() as u64;
            if now.saturating_sub(watched.load(SeqCst)) > CASE_LIMIT.as_millis() as u64 {
                println!("X hangs");
                std::process::exit(9);
            }
        }
    });
    panic::set_hook(Box::new(|info| eprintln!("{info}")));
    for number in from..arguments.cases {
        println!("B {number}");
        stdout().flush()?;
        begun.store(started.elapsed().as_millis() as u64, SeqCst);
        let case = AssertUnwindSafe(|| run_case(arguments, &fixture, &base, arguments.seed + number));
        match panic::catch_unwind(case) {
            Ok(Ok(Ok(outcome))) => println!("E {outcome}"),
            Ok(Ok(Err(why))) => println!("X {}", why.replace('\n', " ")),
            Ok(Err(error)) => return Err(error),
            Err(_) => println!("X panics"),
        }
        begun.store(u64::MAX, SeqCst);
    }
    Ok(())
}

fn run_case(
    arguments: &Arguments,
    fixture: &Fixture,
    base: &Image,
    seed: u64,
) -> Result<Result<String, String>> {
    let mut random = Random::new(seed);
    // Few are as often as many.
    let most = arguments.damages.max(1);
    let count = (1_usize << random.index(most.ilog2() as usize + 1)).min(most);
    let damaged = fixture.damaged(&fixture.case(count, &mut random))?;
    if arguments.verbose {
        damaged.damages.iter().for_each(|damage| println!("damage: {damage}"));
    }
    let copy = damaged.image_from(base);
    let device: Arc<dyn BlockDevice> = damaged.device();
    let promises = Promises { threads: arguments.threads, edits: true, judge: !arguments.no_judge };
    let outcome = promises.try_on(&device, || copy, seed);
    if arguments.verbose {
        println!("outcome: {outcome:#?}");
    }
    Ok(outcome.map(|outcome| {
        let word = match outcome {
            Outcome::Nothing => "nothing to repair",
            Outcome::Refused(_) => "refused",
            Outcome::Left(_) => "left",
            Outcome::Repaired(..) => "repaired",
        };
        word.to_owned()
    }))
}

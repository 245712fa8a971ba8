//! `cargo xtask hostile`: images with structures that lie, each with the right checksum. Check, repair, rescue, dumps and reading run over
//! them within limits of time and memory; what a repair makes must be sound, and sound for `xfs_repair -n` after edits.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_lab::{
    crash::image::{Image, ImageDevice},
    field_fuzz::small,
    hostile::{Liar, lies::LIES},
    repair_fuzz::promises::{Outcome, Promises},
};
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::workspace_directory,
    limits::{Limits, run_limited},
};

/// Of what is said about a broken promise.
const MOST_CHARACTERS: usize = 1000;
/// Of the clock, against waiting for ever.
const LONGEST: Duration = Duration::from_secs(120);
/// The smallest that `uxfs check --memory` takes, and what a repair of such an image may take.
const MOST_MEMORY_BYTES: u64 = 256 << 20;

/// Tell lies with right checksums
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Name of a golden image, of which names of files with many are parted, or a path
    #[arg(long, default_value = "block-1k")]
    image: String,
    /// Only lies whose names hold this word
    #[arg(long, default_value = "")]
    only: String,
    /// The uxfs that is run [default: that of this build]
    #[arg(long)]
    uxfs: Option<PathBuf>,
}

/// What the commands took for one lie, at most.
#[derive(Debug, Default)]
struct Cost {
    memory_bytes: u64,
    time: Duration,
    escapes: Vec<String>,
}

/// Tells every lie.
///
/// # Errors
/// The image cannot be made, or a promise is broken.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = match &arguments.uxfs {
        Some(uxfs) => uxfs.clone(),
        None => built()?,
    };
    let path = match GoldenImage::named(&arguments.image) {
        Ok(golden) => small::make(&golden, &workspace_directory().join("target/small-images"))?,
        Err(_) => PathBuf::from(&arguments.image),
    };
    let image = Image::load(&path)?;
    let sound = Liar::new(image.clone())?;
    println!("| lie | repair | longest command | most memory |\n|---|---|---|---|");
    let (mut broken, mut told, mut most) = (Vec::new(), 0, Cost::default());
    for lie in LIES.iter().filter(|lie| lie.name.contains(&arguments.only)) {
        let mut liar = sound.again(&image);
        if let Err(error) = (lie.tell)(&mut liar) {
            println!("| {} | not told: {error:#} | | |", lie.name);
            continue;
        }
        let word = match repaired(liar.image()) {
            Ok(word) => word,
            Err(why) => {
                broken.push(format!("{}: {why}", lie.name));
                "broken".to_owned()
            }
        };
        let cost = commands(&uxfs, liar.image())?;
        println!(
            "| {} | {word} | {:.2} s | {} MiB |",
            lie.name,
            cost.time.as_secs_f64(),
            cost.memory_bytes >> 20
        );
        broken.extend(cost.escapes.iter().map(|escape| format!("{}: {escape}", lie.name)));
        told += 1;
        most.time = most.time.max(cost.time);
        most.memory_bytes = most.memory_bytes.max(cost.memory_bytes);
    }
    broken
        .iter()
        .for_each(|line| eprintln!("BROKEN: {}", line.chars().take(MOST_CHARACTERS).collect::<String>()));
    ensure!(broken.is_empty(), "{} promises are broken", broken.len());
    println!(
        "{told} lies on {}; the longest command took {:.2} s, the largest {} MiB",
        arguments.image,
        most.time.as_secs_f64(),
        most.memory_bytes >> 20
    );
    Ok(())
}

fn built() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "--release", "--package", "uxfs"];
    let status = Command::new(cargo).args(build).current_dir(workspace_directory()).status()?;
    ensure!(status.success(), "cannot build");
    Ok(workspace_directory().join("target/release/uxfs"))
}

/// How a repair ends; the result is edited, and judged after both.
fn repaired(image: &Image) -> Result<String, String> {
    let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(image.clone()));
    let promises = Promises { threads: true, edits: true, judge: true };
    Ok(match promises.try_on(&device, || image.clone(), 1)? {
        Outcome::Nothing => "nothing to do".to_owned(),
        Outcome::Refused(why) => format!("refused: {why}"),
        Outcome::Left(left) => format!("left: {}", left.first().map_or("", String::as_str)),
        Outcome::Repaired(findings, actions) => format!("{findings} findings, {} actions", actions.len()),
    })
}

fn commands(uxfs: &Path, image: &Image) -> Result<Cost> {
    let folder = tempfile::tempdir_in(memory_folder())?;
    let path = folder.path().join("image");
    image.save_written(&path)?;
    let (dump, tree) = (folder.path().join("dump"), folder.path().join("tree"));
    let all: [&[&std::ffi::OsStr]; 8] = [
        &["check".as_ref(), path.as_ref()],
        &["check".as_ref(), "--memory".as_ref(), "64M".as_ref(), "--json".as_ref(), path.as_ref()],
        &["repair".as_ref(), "--dry-run".as_ref(), path.as_ref()],
        &["ls".as_ref(), "-lR".as_ref(), "--repaired".as_ref(), path.as_ref()],
        &["ls".as_ref(), "-lR".as_ref(), "--tolerant".as_ref(), path.as_ref()],
        &["rescue".as_ref(), path.as_ref(), "--to".as_ref(), tree.as_ref()],
        &["metadump".as_ref(), path.as_ref(), dump.as_ref()],
        &["repair".as_ref(), path.as_ref()],
    ];
    let mut cost = Cost::default();
    for arguments in all {
        let limits = Limits { time: LONGEST, ..Limits::default() };
        let outcome = run_limited(Command::new(uxfs).args(arguments), &limits)?;
        cost.memory_bytes = cost.memory_bytes.max(outcome.peak_memory_bytes);
        cost.time = cost.time.max(outcome.elapsed);
        let is_known = matches!(outcome.code, Some(0..=4));
        let words = String::from_utf8_lossy(&outcome.stderr);
        let escape = outcome.escape(MOST_MEMORY_BYTES);
        let escape = escape.or_else(|| (!is_known).then(|| format!("ends with {:?}: {words}", outcome.code)));
        cost.escapes.extend(escape.map(|escape| format!("{:?}: {escape}", arguments[0])));
    }
    Ok(cost)
}

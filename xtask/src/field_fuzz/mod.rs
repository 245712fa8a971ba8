//! `cargo xtask field-fuzz`: every field of every structure of an image damaged in eight ways, the checksum sealed
//! again, and everything that reads run over it. Damage may only ever be an error: no panic, no hang, bounded memory.
//! With `--edit` the damaged images are edited instead: no edit may lock an image, or change what it did not name.
//! With `--check` they are checked and repaired: the check finds something wherever `xfs_repair -n` does, and `xfs_repair -n`
//! is silent after a repair that leaves nothing. The kernel's tree is then that of the sound image, but for fields whose value nothing else
//! tells.
//!
//! The work is done by processes that can be killed and that run in little memory; the first one supervises.
//!
//! | module | holds |
//! |---|---|
//! | `supervisor` | starts workers, watches the clock, restarts them behind a case that killed one |
//! | `worker` | runs cases and reports each |
//! | `binary` | a sample of cases through the real `uxfs` |
//! | `report` | counts, the table, reproducers |
//! | `remarks` | what is said about cases, by field |

mod binary;
mod remarks;
mod report;
mod supervisor;
mod worker;

use std::{env, path::PathBuf, process::Command, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use uxfs_lab::field_fuzz::{
    checking::JudgedImage,
    editing::Sound,
    plan::{Case, Plan},
    quota, small,
    sparse_device::{DamagedImage, SparseImage},
};
use uxfs_testkit::{golden::GoldenImage, judges::workspace_directory};

/// Damage every field of every structure in eight ways and read
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Number of damaged fields
    #[arg(long, default_value_t = 100_000)]
    cases: usize,
    /// Seed: the same number gives the same cases
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Worker processes [default: the number of processors]
    #[arg(long)]
    jobs: Option<usize>,
    /// Name of a golden image, `small-` and such a name for one with few hard links (for `--check`), `quota` for one with quota
    /// inodes, or a path
    #[arg(long, default_value = "block-1k")]
    image: String,
    /// One case in this many reads the whole image, the others only what the damaged structure belongs to
    #[arg(long, default_value_t = 32)]
    whole: usize,
    /// Number of cases that also run the uxfs command
    #[arg(long, default_value_t = 40)]
    binary_cases: usize,
    /// Edit the damaged images instead of reading them, and compare what they hold before and after
    #[arg(long)]
    edit: bool,
    /// Check and repair the damaged images, and compare with `xfs_repair -n`
    #[arg(long, conflicts_with = "edit")]
    check: bool,
    /// Only fields whose structure or name holds this word
    #[arg(long, value_name = "WORD")]
    field: Option<String>,
    /// Run only the case of this index, in this process
    #[arg(long)]
    only: Option<usize>,
    #[arg(long, hide = true)]
    is_optimised: bool,
    /// Worker `K` of `jobs`, from this case on
    #[arg(long, hide = true, value_name = "K:FROM")]
    worker: Option<String>,
}

/// The image, its structures and the cases.
struct Work {
    base: Arc<SparseImage>,
    plan: Plan,
    cases: Vec<Case>,
    /// For edits.
    sound: Option<Sound>,
    /// For checks, in a worker.
    judged: Option<JudgedImage>,
}

impl Work {
    fn new(arguments: &Arguments) -> Result<Self> {
        let base = SparseImage::load(&image_path(&arguments.image)?)?;
        let device = DamagedImage::sound(Arc::clone(&base));
        let mut plan = if arguments.check { Plan::by_file_type(&device) } else { Plan::new(&device) }?;
        if let Some(word) = &arguments.field {
            plan.keep(word);
        }
        let cases = plan.cases(arguments.cases, arguments.seed);
        let sound = || Sound::of(DamagedImage::sound(Arc::clone(&base)));
        let sound = arguments.edit.then(sound).transpose()?;
        Ok(Self { base, plan, cases, sound, judged: None })
    }

    /// As [`new`](Self::new), ready to run cases.
    fn of_worker(arguments: &Arguments) -> Result<Self> {
        let mut work = Self::new(arguments)?;
        if arguments.check {
            work.judged = Some(JudgedImage::new(Arc::clone(&work.base))?);
        }
        Ok(work)
    }
}

/// Runs the fuzzer.
///
/// # Errors
/// The image cannot be read, a worker cannot be started, or a case escaped.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(worker) = &arguments.worker {
        let (index, from) = worker.split_once(':').context("K:FROM")?;
        return worker::run(arguments, index.parse()?, from.parse()?);
    }
    if !arguments.is_optimised {
        return run_optimised();
    }
    if let Some(index) = arguments.only {
        return worker::run_one(arguments, index);
    }
    supervisor::run(arguments)
}

/// Builds this program and `uxfs` with optimisation and all checks, and runs itself.
fn run_optimised() -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "checked", "--package", "xtask", "--package", "uxfs"])
        .current_dir(workspace_directory())
        .status()?;
    ensure!(status.success(), "cannot build");
    let program = target_directory().join("checked/xtask");
    let status = Command::new(program).args(env::args_os().skip(1)).arg("--is-optimised").status()?;
    if status.success() { Ok(()) } else { bail!("the field fuzz failed") }
}

fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_directory().join("target"), PathBuf::from)
}

/// A golden image by name, one that is made here, else a path.
fn image_path(name: &str) -> Result<PathBuf> {
    if name == quota::NAME {
        let path = target_directory().join("quota-image");
        // Workers come to it later, and several at once: the name leads to a complete image.
        if !path.exists() {
            let made = path.with_extension(std::process::id().to_string());
            quota::make(&made)?;
            std::fs::rename(&made, &path)?;
        }
        return Ok(path);
    }
    if let Some(name) = name.strip_prefix(small::PREFIX) {
        return small::make(&GoldenImage::named(name)?, &target_directory().join("small-images"));
    }
    match GoldenImage::named(name) {
        Ok(image) => image.unpacked(),
        Err(_) => Ok(PathBuf::from(name)),
    }
}

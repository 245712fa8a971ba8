//! `cargo xtask mount-load`: programs that people use, and crashes, on a mount through FUSE.
//!
//! Each load has an image of its own in memory. When it has done its work, the image is unmounted and judged: `xfs_repair -n` and
//! `uxfs check` find nothing, and the kernel's XFS shows the tree that the mount showed, path by path.
//!
//! | module | holds |
//! |---|---|
//! | here | arguments, the list of loads, the report |
//! | `place` | an image, its mount, the judgement, the end of a mount that hangs |
//! | `tree` | what two mounts of an image must show alike |
//! | `program` | running programs with a limit of time |
//! | `processes` | the processes of a mount: killing, measuring |
//! | `system_log` | what mounts say in the background |
//! | `programs` | loads that are programs: fio, dbench, rsync, git, a build |
//! | `exerciser` | one file, read and written in every way, beside a model in memory |
//! | `memory_map` | files mapped to memory |
//! | `databases` | SQLite and PostgreSQL, killed |
//! | `container_root` | a tree with all that containers have, as on the kernel's XFS |
//! | `full_host` | an image on a host without room |
//! | `damaged` | images of which every seventh structure is damaged |
//! | `users` | users, namespaces, two mounts at once |
//! | [`long_run`] | `cargo xtask long-run`: memory and descriptors of a mount that works for long |
//! | `kills` | mounts that are killed while files are made and synced |

mod container_root;
mod damaged;
mod databases;
mod exerciser;
mod full_host;
mod kills;
pub mod long_run;
mod memory_map;
mod place;
mod processes;
mod program;
mod programs;
mod system_log;
mod tree;
mod users;

use std::{
    cell::RefCell,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uxfs_testkit::image::memory_folder;

use self::system_log::SystemLog;
use crate::bench;

/// Run programs through a mount, and judge the image (needs root)
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Arguments {
    /// The uxfs binary; built unless given
    #[arg(long)]
    uxfs: Option<PathBuf>,
    /// Folder for images and mounts, in memory unless given
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Only these loads
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// How long loads that have no end go on, each
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Seed; random unless given
    #[arg(long)]
    seed: Option<u64>,
    /// Options for uxfs mount -o
    #[arg(long, default_value = "")]
    options: String,
    /// Operations of fsx
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Rounds of loads that kill; each has its own number unless given
    #[arg(long)]
    rounds: Option<u64>,
    /// Keep the image of a load that fails
    #[arg(long)]
    keep: bool,
    /// List the loads
    #[arg(long)]
    list: bool,
    /// Be the process that does the work of fsx, on this file
    #[arg(long, hide = true)]
    exercise: Option<PathBuf>,
}

/// What loads are given.
struct Stage {
    uxfs: PathBuf,
    directory: PathBuf,
    options: String,
    time: Duration,
    seed: u64,
    operations: u64,
    rounds: Option<u64>,
    keep: bool,
    log: SystemLog,
    /// Processes that mounted, whose words the log has.
    supervisors: RefCell<Vec<u32>>,
}

impl Stage {
    /// A folder of its own for a load.
    fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("load-").tempdir_in(&self.directory)?)
    }

    fn remember(&self, supervisors: impl Iterator<Item = u32>) {
        self.supervisors.borrow_mut().extend(supervisors);
    }

    fn words_of_mounts(&self) -> Vec<String> {
        self.log.take(&std::mem::take(&mut *self.supervisors.borrow_mut()))
    }
}

/// One load. It gives, in a few words, what it did.
pub struct Load {
    /// Its name, for `--only`.
    pub name: &'static str,
    about: &'static str,
    run: fn(&Stage) -> Result<String>,
}

/// All loads.
pub const LOADS: [Load; 14] = [
    Load {
        name: "fsx",
        about: "one file, every way to read and write it, beside a model in memory",
        run: exerciser::load,
    },
    Load { name: "fio", about: "four engines at once, every block verified", run: programs::fio },
    Load {
        name: "dbench",
        about: "1, 4 and 12 clients; directories synced; files synced",
        run: programs::dbench,
    },
    Load { name: "fsmark", about: "files in many directories, synced in every way", run: programs::fsmark },
    Load { name: "source", about: "this source tree unpacked, built and removed", run: programs::source },
    Load { name: "git", about: "clone, repack, check, old versions checked out", run: programs::git },
    Load {
        name: "rsync",
        about: "a tree copied twice; the second copy has nothing to do",
        run: programs::rsync,
    },
    Load {
        name: "kills",
        about: "both processes killed at random while files are made, renamed and synced",
        run: kills::load,
    },
    Load { name: "sqlite", about: "clients that commit, both processes killed", run: databases::sqlite },
    Load {
        name: "postgresql",
        about: "a server and clients that commit, both processes killed",
        run: databases::postgresql,
    },
    Load {
        name: "container-root",
        about: "owners, devices, capabilities, lists, as on the kernel's XFS",
        run: container_root::load,
    },
    Load { name: "full-host", about: "a sparse image on a host that becomes full", run: full_host::load },
    Load { name: "damaged", about: "every seventh structure damaged, in turn", run: damaged::load },
    Load {
        name: "users",
        about: "root, a user with fusermount3, a user namespace; two mounts at once",
        run: users::load,
    },
];

/// Runs them.
///
/// # Errors
/// A load failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.exercise {
        let seed = arguments.seed.context("--exercise needs --seed")?;
        return exerciser::exercise(path, seed, arguments.operations);
    }
    let known = |name: &String| LOADS.iter().any(|load| load.name == name);
    if let Some(name) = arguments.only.iter().find(|name| !known(name)) {
        anyhow::bail!("there is no load {name}; --list shows them");
    }
    if arguments.list {
        LOADS.iter().for_each(|load| println!("{:<16}{}", load.name, load.about));
        return Ok(());
    }
    let stage = stage(arguments)?;
    println!("--seed {}", stage.seed);
    let is_asked =
        |load: &&Load| arguments.only.is_empty() || arguments.only.iter().any(|name| name == load.name);
    let loads: Vec<&Load> = LOADS.iter().filter(is_asked).collect();
    let failed = loads.iter().filter(|load| !report(load, &stage)).count();
    let _ = fs::remove_dir(&stage.directory);
    ensure!(failed == 0, "{failed} of {} loads failed", loads.len());
    Ok(())
}

fn stage(arguments: &Arguments) -> Result<Stage> {
    ensure!(rustix::process::geteuid().is_root(), "mounts are made as root");
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs(),
    };
    let directory = arguments.directory.clone().unwrap_or_else(|| memory_folder().join("uxfs-mount-load"));
    fs::create_dir_all(&directory)?;
    Ok(Stage {
        uxfs: fs::canonicalize(arguments.uxfs.clone().map_or_else(bench::build, Ok)?)?,
        directory: fs::canonicalize(directory)?,
        options: arguments.options.clone(),
        time: Duration::from_secs_f64(arguments.minutes * 60.0),
        seed,
        operations: arguments.operations,
        rounds: arguments.rounds,
        keep: arguments.keep,
        log: SystemLog::listen(),
        supervisors: RefCell::default(),
    })
}

/// Runs one load, and prints what came of it; says whether all was well.
fn report(load: &Load, stage: &Stage) -> bool {
    let begun = Instant::now();
    let outcome = (load.run)(stage);
    let seconds = begun.elapsed().as_secs_f64();
    let words = stage.words_of_mounts();
    match outcome {
        Ok(did) => {
            println!("{:<16}sound  {seconds:>7.1} s  {did}", load.name);
            true
        }
        Err(error) => {
            println!("{:<16}FAILED {seconds:>7.1} s  {error:#}", load.name);
            words.iter().for_each(|line| println!("    the mount said: {line}"));
            false
        }
    }
}

/// The limit of a load that takes `usual` beside the time that it was asked for.
fn limit(stage: &Stage, usual: Duration) -> Duration {
    stage.time * 3 + usual
}

/// Whether a program is there.
pub fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

/// A load without its program is a failure: it proves nothing.
fn need(program: &str, package: &str) -> Result<()> {
    ensure!(is_there(program), "there is no {program}: install the package {package}");
    Ok(())
}

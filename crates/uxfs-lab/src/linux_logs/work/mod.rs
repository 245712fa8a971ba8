//! Work for the kernel: every kind of change, on few names, so that they meet. Each seed does without some kinds
//! and has more of others.
//!
//! | module | holds |
//! |---|---|
//! | [`contents`] | writes, holes, space, sharing, exchanges |
//! | [`names`] | names that come and go, files without any |
//! | [`attributes`] | extended attributes, modes, owners, flags |
//! | [`large`] | thousands of extents, names and attributes |
//! | [`tool`] | calls that only `xfs_io` knows |

mod attributes;
mod contents;
mod large;
mod names;
mod tool;

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use rustix::fs::OFlags;
use tool::Tool;

use uxfs_testkit::seeds::Random;

/// Names in use in each directory.
const NAMES: u64 = 14;
const DIRECTORIES: u64 = 5;
/// Files that are kept open.
const OPEN_MAX: usize = 40;

/// Among the names are fifos, which would be waited for.
const PROMPT: i32 = OFlags::NONBLOCK.bits() as i32;

/// One change. What the file system refuses is part of the work.
type Step = fn(&mut Worker) -> io::Result<()>;
/// A kind of change, and how often it comes.
type Weighted = (u32, Step);

/// Errors that only say that the file system was shut down: then the work is over.
pub(super) fn is_over(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Handles that are open when the work ends. They must be dropped before the file system is unmounted.
#[derive(Debug)]
pub struct Leftovers {
    _open: Vec<File>,
    _tool: Option<Tool>,
}

/// Changes things below `root` until the file system is gone, or `is_gone` says so: what is not there fails without asking the
/// file system. With `is_large` there are very large files, directories and lists of attributes, too.
pub fn operate(root: &Path, seed: u64, is_large: bool, is_gone: &AtomicBool) -> Leftovers {
    let mut random = Random::new(seed);
    let mut steps = kinds(&mut random);
    if is_large {
        steps.extend(large::KINDS);
    }
    let mut worker = Worker { root: root.to_path_buf(), random, open: Vec::new(), tool: None };
    let _ = fs::create_dir_all(root);
    for directory in 0..DIRECTORIES {
        let _ = fs::create_dir_all(root.join(format!("d{directory}")));
    }
    let sum = steps.iter().map(|(weight, _)| u64::from(*weight)).sum();
    while !is_gone.load(Relaxed) {
        let mut left = worker.random.below(sum) as u32;
        let chosen = steps.iter().find(|(weight, _)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        let Some((_, step)) = chosen else { continue };
        if step(&mut worker).is_err_and(|error| is_over(&error)) {
            break;
        }
    }
    Leftovers { _open: worker.open, _tool: worker.tool }
}

/// One kind in six is left out, and one in eight comes much more often.
fn kinds(random: &mut Random) -> Vec<Weighted> {
    let all = contents::KINDS.iter().chain(names::KINDS).chain(attributes::KINDS);
    let mut kinds: Vec<Weighted> = all.copied().filter(|_| random.below(6) != 0).collect();
    for (weight, _) in &mut kinds {
        if random.below(8) == 0 {
            *weight *= 5;
        }
    }
    // So that there is something to change.
    kinds.push((4, names::create));
    kinds
}

/// Forces the log now and then until the file system is gone; the larger `pause`, the less often.
pub fn force_log(root: &Path, seed: u64, pause: Duration) {
    let mut random = Random::new(seed);
    loop {
        thread::sleep(pause.mul_f64(random.below(100) as f64 / 100.0));
        let forced = File::open(root).and_then(|root| Ok(rustix::fs::syncfs(&root)?));
        if forced.is_err() {
            return;
        }
    }
}

/// One thread.
#[derive(Debug)]
struct Worker {
    root: PathBuf,
    random: Random,
    open: Vec<File>,
    /// Started where it is needed.
    tool: Option<Tool>,
}

impl Worker {
    /// One time in `times`.
    fn chance(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    fn one_of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.random.below(N as u64) as usize]
    }

    fn directory(&mut self) -> PathBuf {
        let number = self.random.below(DIRECTORIES);
        self.root.join(format!("d{number}"))
    }

    fn name(&mut self) -> PathBuf {
        let long = if self.chance(6) { "x".repeat(120) } else { String::new() };
        let number = self.random.below(NAMES);
        self.directory().join(format!("n{number}{long}"))
    }

    fn file(&mut self) -> io::Result<File> {
        let path = self.name();
        OpenOptions::new().read(true).write(true).custom_flags(PROMPT).open(path)
    }

    /// Has `xfs_io` open `path` and do `commands`, some time from now.
    fn ask_tool(&mut self, path: &Path, how: &str, commands: &str) -> io::Result<()> {
        if self.tool.is_none() {
            self.tool = Some(Tool::new()?);
        }
        let asked = self.tool.as_mut().map_or(Ok(()), |tool| tool.ask(path, how, commands));
        if asked.is_err() {
            // Killed by a write to a mapping for which there was no space: the next request starts another.
            self.tool = None;
        }
        Ok(())
    }
}

//! The promises, tried on one damaged image.

use std::{num::NonZeroUsize, ops::ControlFlow, path::Path, sync::Arc};

use anyhow::Result;
use tempfile::TempDir;
use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{Clock, Generations, LogOptions, MountOptions};
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_format::inode::Timestamp;
use uxfs_repair::{
    CheckOptions, check,
    check::all,
    opening::{self, OpeningOptions},
    repair::{RepairOptions, Staged, repair},
};
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    limits::{Limits, run_limited},
    seeds::Random,
    verdict::findings_in,
};
use uxfs_volume::{
    error::Error,
    inode::{FileType, scan::ScanOptions},
};

use crate::{
    crash::image::{Image, ImageDevice},
    field_fuzz::{
        edits::{EDITS, Target},
        holdings::Holdings,
    },
};

const CACHE_BYTES: u64 = 16 << 20;
/// Files that are edited after a repair.
const VICTIMS: usize = 3;
/// Entries that the removal of trees reads at most.
const MOST_REMOVED: usize = 20_000;

/// How a repair ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to do.
    Nothing,
    /// It failed: this is its error.
    Refused(String),
    /// It leaves findings, and writes nothing.
    Left(Vec<String>),
    /// It leaves nothing. How many findings there were, and what was done.
    Repaired(u64, Vec<String>),
}

/// What is tried beside the repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Promises {
    /// The repair is done by several threads as well.
    pub threads: bool,
    /// The repaired image is edited.
    pub edits: bool,
    /// `xfs_repair -n` is asked.
    pub judge: bool,
}

/// Checks a damaged image and throws the findings away: for fuzzers.
pub fn check_only(device: &Arc<dyn BlockDevice>) {
    let _ = findings_of(device);
}

fn findings_of(device: &Arc<dyn BlockDevice>) -> Result<Vec<String>, Error> {
    let options = OpeningOptions { cache_budget_bytes: Some(CACHE_BYTES), ..OpeningOptions::default() };
    let mut opened = opening::open(device, &options)?;
    let mut findings = std::mem::take(&mut opened.findings);
    check(
        &opened.volume,
        &CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() },
        &mut all(&mut findings),
    );
    Ok(findings.iter().map(|finding| format!("{}: {finding}", finding.number())).collect())
}

fn repair_with(device: &Arc<dyn BlockDevice>, scan: ScanOptions) -> Result<Staged, Error> {
    let options = RepairOptions { cache_budget_bytes: Some(CACHE_BYTES), scan, ..RepairOptions::default() };
    repair(device, &options)
}

/// What a repair leaves of an image: where it differs from the base, and how.
fn bytes_of(staged: &Staged) -> Vec<(u64, Vec<u8>)> {
    let runs = staged.overlay.runs(0).into_iter();
    runs.map(|(start, length)| {
        let mut bytes = vec![0; length as usize];
        // What was written can be read.
        let _ = staged.overlay.read(start, &mut bytes);
        (start, bytes)
    })
    .collect()
}

impl Promises {
    /// Tries them. `base` holds the same as `device`.
    ///
    /// # Errors
    /// A promise is broken: which, and how.
    pub fn try_on(
        &self,
        device: &Arc<dyn BlockDevice>,
        base: impl FnOnce() -> Image,
        seed: u64,
    ) -> Result<Outcome, String> {
        let findings = findings_of(device);
        let staged = match (repair_with(device, ScanOptions::in_order()), &findings) {
            (Ok(staged), _) => staged,
            (Err(error), _) => return Ok(Outcome::Refused(error.to_string())),
        };
        if self.threads {
            compare_threads(device, &staged)?;
        }
        if staged.is_clean() {
            return match findings {
                Ok(findings) if findings.is_empty() => Ok(Outcome::Nothing),
                Ok(findings) => Err(format!("idle: nothing is repaired, but {}", first(&findings))),
                Err(error) => Err(format!("idle: nothing is repaired, but {error}")),
            };
        }
        if !staged.remaining.is_empty() {
            return Ok(Outcome::Left(
                staged
                    .remaining
                    .iter()
                    .take(10)
                    .map(|finding| format!("{}: {finding}", finding.number()))
                    .collect(),
            ));
        }
        let copy = Arc::new(ImageDevice::new(base()));
        staged.write(copy.as_ref(), None).map_err(|error| format!("not written: {error}"))?;
        let actions: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
        self.after(&copy, seed).map_err(|why| format!("{why} (after: {})", actions.join("; ")))?;
        Ok(Outcome::Repaired(staged.findings, actions))
    }

    /// Of an image that was repaired.
    fn after(&self, copy: &Arc<ImageDevice>, seed: u64) -> Result<(), String> {
        let device: Arc<dyn BlockDevice> = Arc::<ImageDevice>::clone(copy);
        must_be_sound(&device, "unsound")?;
        let again = repair_with(&device, ScanOptions::in_order());
        match again {
            Ok(again) if again.is_clean() => {}
            Ok(again) => {
                let actions: Vec<_> = again.actions.iter().map(ToString::to_string).collect();
                return Err(format!("second: a second repair does {}", first(&actions)));
            }
            Err(error) => return Err(format!("second: a second repair fails: {error}")),
        }
        if self.judge {
            must_be_silent(copy, "objected")?;
        }
        if self.edits {
            edit(&device, seed)?;
            must_be_sound(&device, "unsound-edited")?;
            if self.judge {
                must_be_silent(copy, "objected-edited")?;
            }
        }
        Ok(())
    }
}

fn first(all: &[String]) -> &str {
    all.first().map_or("nothing", String::as_str)
}

pub(super) fn must_be_sound(device: &Arc<dyn BlockDevice>, what: &str) -> Result<(), String> {
    match findings_of(device) {
        Ok(findings) if findings.is_empty() => Ok(()),
        Ok(findings) => Err(format!("{what}: {}", first(&findings))),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Asks `xfs_repair -n`. What it does not decide in time counts as silence.
fn must_be_silent(copy: &ImageDevice, what: &str) -> Result<(), String> {
    let objections = || -> Result<Vec<String>> {
        let folder: TempDir = tempfile::tempdir_in(memory_folder())?;
        let path = folder.path().join("image");
        copy.image().save_written(&path)?;
        xfs_repair(&path)
    };
    match objections() {
        Ok(lines) if lines.is_empty() => Ok(()),
        Ok(lines) => Err(format!("{what}: {}", first(&lines))),
        Err(error) => Err(format!("{what}: the judge cannot be asked: {error:#}")),
    }
}

fn xfs_repair(path: &Path) -> Result<Vec<String>> {
    let outcome = run_limited(Judge::XfsRepair.command().args(["-n", "-f"]).arg(path), &Limits::default())?;
    let mut lines = findings_in(&[outcome.stdout, outcome.stderr].concat());
    match outcome.code {
        Some(0) => {}
        Some(code @ 1..=127) if !outcome.timed_out && lines.is_empty() => {
            lines.push(format!("exit code {code}"))
        }
        Some(_) if !outcome.timed_out => {}
        _ => lines.clear(),
    }
    Ok(lines)
}

/// One thread and several must come to the same.
fn compare_threads(device: &Arc<dyn BlockDevice>, one: &Staged) -> Result<(), String> {
    let expected = bytes_of(one);
    for threads in [2, 4] {
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        let scan = ScanOptions { threads, helpers: 0 };
        let several =
            repair_with(device, scan).map_err(|error| format!("threads: {threads} threads fail: {error}"))?;
        let (found, wanted) = (&several.actions, &one.actions);
        if found != wanted {
            return Err(format!("threads: {threads} threads do {found:?}, one does {wanted:?}"));
        }
        if bytes_of(&several) != expected {
            return Err(format!("threads: {threads} threads come to other bytes"));
        }
    }
    Ok(())
}

fn mount(device: &Arc<dyn BlockDevice>) -> Result<Arc<FileSystem>, String> {
    let options = MountOptions {
        cache_budget_bytes: Some(CACHE_BYTES),
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(Timestamp { seconds: 1_700_000_000, nanoseconds: 7 }),
        log: LogOptions { has_background: false, ..LogOptions::default() },
        ..MountOptions::default()
    };
    FileSystem::mount_logged(Arc::clone(device), &options)
        .map_err(|error| format!("locked: a repaired image cannot be changed: {error}"))
}

/// Edits a few files in every way, and removes half of all trees.
fn edit(device: &Arc<dyn BlockDevice>, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let holdings = Holdings::read(device).map_err(|error| format!("locked: {error}"))?;
    let paths: Vec<&Vec<u8>> = holdings.paths.keys().filter(|path| !path.is_empty()).collect();
    let filesystem = mount(device)?;
    for number in 0..VICTIMS.min(paths.len()) {
        let victim = paths[random.index(paths.len())];
        for (what, edit) in EDITS {
            match edit(&filesystem, &Target { path: victim, number }) {
                Ok(()) | Err(Error::Operation(_)) => {}
                Err(error) => {
                    return Err(format!("edit: {what} of {}: {error}", victim.escape_ascii()));
                }
            }
        }
    }
    if random.below(2) == 0 {
        let root = filesystem.open_root().map_err(|error| format!("edit: {error}"))?;
        let mut left = MOST_REMOVED;
        remove_below(&filesystem, &root, &mut left)
            .map_err(|error| format!("edit: removing trees: {error}"))?;
    }
    filesystem.close().map(drop).map_err(|error| format!("edit: not closed: {error}"))
}

/// Removes all that lies in a directory.
fn remove_below(filesystem: &FileSystem, directory: &InodeHandle, left: &mut usize) -> Result<(), Error> {
    let mut names = Vec::new();
    filesystem.read_entries(directory, 0, |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    for name in names {
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        let inode = filesystem.find(directory, &name)?;
        let is_directory = filesystem.stat(&inode)?.file_type == FileType::Directory;
        let removed = if is_directory {
            remove_below(filesystem, &inode, left)?;
            drop(inode);
            filesystem.remove_directory(directory, &name)
        } else {
            drop(inode);
            filesystem.unlink(directory, &name)
        };
        match removed {
            // Immutable files, what lies above them, and what lies behind the limit stay.
            Ok(()) | Err(Error::Operation(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

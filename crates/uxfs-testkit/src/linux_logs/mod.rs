//! Logs that Linux left behind: kernel mounts under load, cut off in the middle, recovered by the kernel and by us.
//!
//! ```text
//! mkfs ─▶ mount ─▶ two threads of operations, one of log forces ─▶ shutdown ─▶ the image, twice
//!           ▲                                                                    │      │
//!           └──────────────── next round: on what the kernel recovered ◀── kernel      uxfs
//!                                                                            └─ equal? ──┘
//! ```
//!
//! What recovery makes of an image must be the same: read through an overlay, and after the log was replayed onto the image;
//! that must be sound, and the kernel must mount it. Images are only ever mounted for writing when the kernel itself left them,
//! or when `xfs_repair` has found nothing.

pub mod crashes;
pub mod hostile;
mod work;

use std::{
    fs::{self, File},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use uxfs_block::engine::{self, OpenOptions};
use uxfs_core::{
    mount::MountOptions,
    recovery::{self, FinishedIntent, RecoveryReport},
};

use uxfs_format::log::item::ItemType;

use crate::{
    judges::Judge,
    manifest::{self, Header, Manifest},
    mount::{Access, LoopMount},
    seeds::Random,
    verdict, walk,
};

/// Geometries by the options of `mkfs.xfs`.
pub const GEOMETRIES: [(&str, &str); 8] = [
    ("default", ""),
    ("block-1k", "-b size=1024"),
    ("inode-1k", "-i size=1024"),
    ("directory-16k", "-n size=16k"),
    ("no-rmap", "-m rmapbt=0"),
    ("no-reflink", "-m reflink=0,rmapbt=1"),
    ("no-parent", "-n parent=0"),
    ("plain", "-m rmapbt=0,reflink=0,finobt=0 -n parent=0 -i sparse=0"),
];

/// What became of the logs so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Logs that were dirty and recovered by both.
    pub logs: u64,
    /// Logs that were clean although the file system was cut off.
    pub clean: u64,
    /// Records replayed.
    pub records: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Intents finished, by kind.
    pub intents: std::collections::BTreeMap<&'static str, u64>,
    /// Inodes without names that were freed.
    pub freed_inodes: u64,
    /// Blocks set aside for copies on write that were freed.
    pub freed_staging_blocks: u64,
    /// Paths compared.
    pub paths: u64,
}

impl Tally {
    fn add(&mut self, report: &RecoveryReport, paths: usize) {
        self.logs += 1;
        self.records += report.replay.records;
        self.transactions += report.replay.transactions;
        for intent in &report.intents {
            *self.intents.entry(intent.item_type.name()).or_default() += 1;
        }
        self.freed_inodes += report.freed_inodes;
        self.freed_staging_blocks += report.freed_staging_blocks;
        self.paths += paths as u64;
    }
}

/// Makes a file system and leaves `rounds` logs of it behind, each recovered by both.
///
/// # Errors
/// The two differ, a judge finds something, or a tool fails. The images stay in `keep` then, if it is given.
pub fn run(seed: u64, rounds: u32, keep: Option<&Path>, tally: &mut Tally) -> Result<()> {
    let mut random = Random::new(seed);
    let (name, options) = GEOMETRIES[random.below(GEOMETRIES.len() as u64) as usize];
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let image = work.path().join("image");
    make(&image, options, &mut random)?;
    for round in 0..rounds {
        let dirty = work.path().join("dirty");
        let result = leave_log(&image, &mut random)
            .and_then(|()| copy(&image, &dirty))
            .and_then(|()| compare(&image, &dirty, tally));
        if let Err(error) = result {
            if let Some(keep) = keep {
                fs::create_dir_all(keep)?;
                let kept = keep.join(format!("seed-{seed}-round-{round}.img"));
                copy(&dirty, &kept)?;
                eprintln!("kept {}", kept.display());
            }
            return Err(error).with_context(|| format!("geometry {name}, seed {seed}, round {round}"));
        }
    }
    Ok(())
}

/// Makes a file system, leaves a log of it behind, and gives the image to `look`.
///
/// # Errors
/// A tool fails, or `look` does: the image is then kept in `keep`, if that is given.
pub fn with_dirty_image(
    seed: u64,
    keep: Option<&Path>,
    look: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let mut random = Random::new(seed);
    let (name, options) = GEOMETRIES[random.below(GEOMETRIES.len() as u64) as usize];
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let image = work.path().join("image");
    make(&image, options, &mut random)?;
    // The second log is of an older file system.
    leave_log(&image, &mut random)?;
    LoopMount::new(&image, Access::ReadWrite)?.unmount()?;
    leave_log(&image, &mut random)?;
    look(&image).with_context(|| {
        if let Some(keep) = keep {
            let kept = keep.join(format!("dirty-seed-{seed}.img"));
            let _ = fs::create_dir_all(keep).map_err(anyhow::Error::from).and_then(|()| copy(&image, &kept));
        }
        format!("geometry {name}, seed {seed}")
    })
}

fn make(image: &Path, options: &str, random: &mut Random) -> Result<()> {
    File::create(image)?.set_len(160 << 20)?;
    let mut command = Judge::Mkfs.command();
    command.args(["-q", "--unsupported", "-d", &format!("agcount={}", 2 + random.below(3))]);
    command.args(options.split_whitespace());
    let output = command.arg(image).output()?;
    ensure!(output.status.success(), "mkfs.xfs: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Mounts, works, and cuts off.
fn leave_log(image: &Path, random: &mut Random) -> Result<()> {
    let options = ["", "logbsize=32k", "logbsize=256k"][random.below(3) as usize];
    let mount = LoopMount::with_options(image, Access::ReadWrite, options)?;
    let is_gone = Arc::<AtomicBool>::default();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let (root, seed) = (mount.join(format!("t{thread}")), random.next_u64());
            let is_gone = Arc::clone(&is_gone);
            thread::spawn(move || work::operate(&root, seed, &is_gone))
        })
        .collect();
    let (root, seed) = (mount.path().to_path_buf(), random.next_u64());
    let forces = thread::spawn(move || work::force_log(&root, seed));
    thread::sleep(Duration::from_millis(30 + random.below(400)));
    let command = if random.below(2) == 0 { "shutdown" } else { "shutdown -f" };
    let output = Judge::XfsIo.command().args(["-x", "-c", command]).arg(mount.path()).output()?;
    is_gone.store(true, Ordering::Relaxed);
    ensure!(output.status.success(), "xfs_io: {}", String::from_utf8_lossy(&output.stderr));
    for thread in threads {
        // Files that are open without names stay so until here.
        drop(thread.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?);
    }
    drop(forces.join());
    mount.unmount()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp").args(["--sparse=always"]).arg(from).arg(to).status()?;
    ensure!(status.success(), "cp {}", from.display());
    Ok(())
}

fn header(judge: &str) -> Header {
    Header { image: "a log of Linux".into(), judge: judge.into(), made_by: "linux_logs".into() }
}

/// The kernel recovers `image` and we `dirty`, a copy of it: in an overlay, then on the copy.
fn compare(image: &Path, dirty: &Path, tally: &mut Tally) -> Result<()> {
    LoopMount::new(image, Access::ReadWrite)?.unmount()?;
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = engine::open(dirty, &options)?;
    let Some(recovered) = recovery::recover(&device, &MountOptions::default(), &mut ())? else {
        tally.clean += 1;
        return Ok(());
    };
    let expected = without_own_ways(kernel_manifest(image, "the kernel's recovery")?, recovered.report());
    let file_system = recovered.mount(&MountOptions::default())?;
    let found = walk::from_file_system(&file_system, header("uxfs, through an overlay"))?;
    drop(file_system);
    let found = without_own_ways(found, recovered.report());
    verdict::same(&expected, &found).context("the overlay differs from the kernel's recovery")?;
    let report = recovered.write().context("carrying the recovery to the image")?;
    drop(device);
    sound_as(dirty, image)?;
    let found = walk::from_image(dirty, header("uxfs, after replay"))?;
    let found = without_own_ways(found, &report);
    verdict::same(&expected, &found).context("the replayed image differs from the kernel's recovery")?;
    let found = without_own_ways(kernel_manifest(dirty, "the kernel, on ours")?, &report);
    verdict::same(&expected, &found).context("the kernel finds something else in the replayed image")?;
    tally.add(&report, expected.entries.len());
    Ok(())
}

fn kernel_manifest(image: &Path, judge: &str) -> Result<Manifest> {
    let mount = LoopMount::new(image, Access::ReadOnly)?;
    let manifest = manifest::from_mount(mount.path(), header(judge))?;
    mount.unmount()?;
    Ok(manifest)
}

/// `xfs_repair` finds nothing in `ours`, but for attributes that were being written when the kernel was cut off: those it finds
/// in `the_kernels`, too.
fn sound_as(ours: &Path, the_kernels: &Path) -> Result<()> {
    let is_half_written = |finding: &String| finding.contains("is INCOMPLETE");
    let findings = verdict::repair_findings(ours)?;
    if findings.is_empty()
        || findings.iter().all(is_half_written) && findings == verdict::repair_findings(the_kernels)?
    {
        return Ok(());
    }
    bail!("xfs_repair -n of what we replayed:\n{}", findings.join("\n"))
}

/// Without what depends on who recovers, and when: where blocks of attributes lie that intents ask for, and when an inode
/// was changed whose attributes an intent changed.
fn without_own_ways(mut manifest: Manifest, report: &RecoveryReport) -> Manifest {
    let is_attribute = |intent: &&FinishedIntent| intent.item_type == ItemType::AttributeIntent;
    let changed: Vec<u64> =
        report.intents.iter().filter(is_attribute).filter_map(|intent| Some(intent.inode?.get())).collect();
    for entry in &mut manifest.entries {
        let Some(details) = entry.details.as_deref_mut() else { continue };
        if entry.inode.is_some_and(|inode| changed.contains(&inode)) {
            details.change_time = None;
            for extent in details.attribute_extents.iter_mut().flatten() {
                extent.disk_bytes = 0;
            }
        }
    }
    manifest
}

//! Logs that Linux left behind: kernel mounts under load, cut off in the middle, recovered by the kernel and by us.
//!
//! ```text
//! mkfs ─▶ mount ─▶ one to four threads of operations, one of log forces ─▶ shutdown ─▶ the image, twice
//!           ▲                                                                            │      │
//!           └──────────── next round: on what either of them recovered ◀────────────── kernel  uxfs
//!                                                                                        └─ equal? ─┘
//! ```
//!
//! A recovered image must be the same by each way: read through an overlay, and after the log was replayed onto the image;
//! that must be sound, and the kernel must mount it. Images are only ever mounted for writing when the kernel itself left them,
//! or when `xfs_repair` has found nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`shapes`] | geometries, and how they are mounted |
//! | [`work`] | what threads do |
//! | [`load`] | a mount under load, cut off |
//! | [`compare`](mod@compare) | the kernel's recovery beside ours |
//! | [`chain`] | uxfs and the kernel in turn, each of which goes on where the other was cut off |
//! | [`crashes`] | crashes during our recovery |
//! | [`hostile`] | logs that lie |

pub mod chain;
pub mod compare;
pub mod crashes;
pub mod hostile;
pub mod load;
pub mod shapes;
pub mod work;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use compare::{Author, Recovery, compare, copy};
use load::leave_log;
use shapes::Shape;
use uxfs_filesystem::recovery::RecoveryReport;

use uxfs_testkit::{
    mount::{Access, LoopMount},
    seeds::Random,
};

/// Counts of logs.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Logs that were dirty and recovered by both.
    pub logs: u64,
    /// Logs that were clean although the file system was cut off.
    pub clean: u64,
    /// Logs that had been written round at least once.
    pub wrapped: u64,
    /// Logs whose part to be replayed went round the end.
    pub round_the_end: u64,
    /// Records replayed.
    pub records: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// Intents finished, by kind.
    pub intents: BTreeMap<&'static str, u64>,
    /// Inodes without names that were freed.
    pub freed_inodes: u64,
    /// Blocks set aside for copies on write that were freed.
    pub freed_staging_blocks: u64,
    /// Paths compared.
    pub paths: u64,
    /// Logs that Linux cannot recover (it stumbles over attributes that it was freeing), and we can: not counted above.
    pub refused_by_linux: u64,
    /// Files whose end or size Linux got wrong in its recovery, and we did not.
    pub losses_of_linux: u64,
    /// Mounts that Linux had shut down by itself before it was told to.
    pub shutdowns_by_linux: u64,
    /// Operations of our own between crashes.
    pub own_operations: u64,
    /// Dirty logs by shape.
    pub shapes: BTreeMap<&'static str, u64>,
    /// Where the time went.
    pub times: BTreeMap<&'static str, Duration>,
}

impl Tally {
    fn add(&mut self, report: &RecoveryReport, paths: usize) {
        self.logs += 1;
        let (head, tail) = (report.log.head, report.log.tail);
        self.wrapped += u64::from(head.cycle() > 1);
        self.round_the_end += u64::from(head.cycle() != tail.cycle());
        self.records += report.replay.records;
        self.transactions += report.replay.transactions;
        for intent in &report.intents {
            *self.intents.entry(intent.item_type.name()).or_default() += 1;
        }
        self.freed_inodes += report.freed_inodes;
        self.freed_staging_blocks += report.freed_staging_blocks;
        self.paths += paths as u64;
    }

    /// Adds what another thread found.
    pub fn merge(&mut self, other: &Self) {
        self.logs += other.logs;
        self.clean += other.clean;
        self.wrapped += other.wrapped;
        self.round_the_end += other.round_the_end;
        self.records += other.records;
        self.transactions += other.transactions;
        self.freed_inodes += other.freed_inodes;
        self.freed_staging_blocks += other.freed_staging_blocks;
        self.paths += other.paths;
        self.refused_by_linux += other.refused_by_linux;
        self.own_operations += other.own_operations;
        self.losses_of_linux += other.losses_of_linux;
        self.shutdowns_by_linux += other.shutdowns_by_linux;
        other.intents.iter().for_each(|(name, count)| *self.intents.entry(name).or_default() += count);
        other.shapes.iter().for_each(|(name, count)| *self.shapes.entry(name).or_default() += count);
        other.times.iter().for_each(|(name, time)| *self.times.entry(name).or_default() += *time);
    }

    /// The time since `clock` was spent on `what`; the clock starts anew.
    fn spend(&mut self, what: &'static str, clock: &mut Instant) {
        *self.times.entry(what).or_default() += clock.elapsed();
        *clock = Instant::now();
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} logs ({} written round, {} replayed round the end, {} clean), {} records, {} transactions, intents {:?}, {} \
             inodes and {} blocks freed, {} paths, {} files wrong by Linux, {} logs refused by Linux, {} mounts shut down by Linux, {} operations by uxfs; shapes {:?}; seconds",
            self.logs,
            self.wrapped,
            self.round_the_end,
            self.clean,
            self.records,
            self.transactions,
            self.intents,
            self.freed_inodes,
            self.freed_staging_blocks,
            self.paths,
            self.losses_of_linux,
            self.refused_by_linux,
            self.shutdowns_by_linux,
            self.own_operations,
            self.shapes
        )?;
        self.times.iter().try_for_each(|(what, time)| write!(f, ", {what} {:.1}", time.as_secs_f64()))
    }
}

/// Makes a file system and leaves `rounds` logs of it behind, each recovered by both.
///
/// # Errors
/// The two differ, a judge finds something, or a tool fails. The images stay in `keep` then, if it is given.
pub fn run(seed: u64, rounds: u32, keep: Option<&Path>, tally: &mut Tally) -> Result<()> {
    let mut random = Random::new(seed);
    let shape = Shape::any(&mut random);
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let image = work.path().join("image");
    shape.make(&image, &mut random)?;
    for round in 0..rounds {
        let (dirty, recovered) = (work.path().join("dirty"), work.path().join("recovered"));
        let before = tally.logs;
        let result = leave_log(&image, &shape, &mut random, tally)
            .and_then(|()| both_recover(&image, &dirty, &recovered, Author::Linux, tally));
        *tally.shapes.entry(shape.name).or_default() += tally.logs - before;
        let outcome = result.with_context(|| {
            let name = format!("seed-{seed}-round-{round}.img");
            format!("{shape}, seed {seed}, round {round}{}", kept(keep, &dirty, &name))
        })?;
        // The next load is on what we recovered, now and then.
        if outcome == Recovery::RefusedByLinux || random.below(3) == 0 {
            fs::rename(&recovered, &image)?;
        }
    }
    Ok(())
}

/// Both recover an image that was kept.
///
/// # Errors
/// As for [`run`].
pub fn again(kept: &Path, tally: &mut Tally) -> Result<Recovery> {
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let [image, dirty, recovered] = ["image", "dirty", "recovered"].map(|name| work.path().join(name));
    copy(kept, &image)?;
    both_recover(&image, &dirty, &recovered, Author::Linux, tally).with_context(|| kept.display().to_string())
}

/// The kernel recovers `image`, and we a copy of it, `recovered`. It stays as it was in `dirty`.
fn both_recover(
    image: &Path,
    dirty: &Path,
    recovered: &Path,
    author: Author<'_>,
    tally: &mut Tally,
) -> Result<Recovery> {
    let mut clock = Instant::now();
    copy(image, dirty)?;
    copy(image, recovered)?;
    tally.spend("copies", &mut clock);
    compare(image, recovered, author, tally)
}

/// Keeps an image that something is wrong with; says where.
fn kept(keep: Option<&Path>, image: &Path, name: &str) -> String {
    let Some(keep) = keep else { return String::new() };
    let path = keep.join(name);
    match fs::create_dir_all(keep).map_err(anyhow::Error::from).and_then(|()| copy(image, &path)) {
        Ok(()) => format!(", kept as {}", path.display()),
        Err(error) => format!(", not kept: {error}"),
    }
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
    let shape = Shape::any(&mut random);
    let work = tempfile::Builder::new().prefix("uxfs-linux-log-").tempdir()?;
    let image = work.path().join("image");
    shape.make(&image, &mut random)?;
    // The second log is of an older file system.
    let tally = &mut Tally::default();
    leave_log(&image, &shape, &mut random, tally)?;
    LoopMount::new(&image, Access::ReadWrite)?.unmount()?;
    leave_log(&image, &shape, &mut random, tally)?;
    look(&image).with_context(|| {
        format!("{shape}, seed {seed}{}", kept(keep, &image, &format!("dirty-seed-{seed}.img")))
    })
}

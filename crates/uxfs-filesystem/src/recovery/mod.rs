//! Recovery of a file system whose log is dirty.
//!
//! ```text
//! device ──replay──▶ layer 0: what the log holds
//!                    ──finish──▶ layers 1…: counters, intents without an end, space set aside for copies on write,
//!                                inodes without names
//! ```
//!
//! All of it is done in an overlay first, and nothing on the device is touched: an image that cannot be recovered stays
//! as it was. Reading commands then read the overlay ([`Recovered::mount`]); [`Recovered::write`] carries it to the device so
//! that a crash at any moment leaves what recovery makes the same of again.
//!
//! | module | holds |
//! |---|---|
//! | here | the order of things |
//! | [`counters`] | the superblock's counters, from the groups |
//! | `intents` | finishing intents |
//! | `attribute` | intents on attributes, which may be half done |
//! | `exchange` | intents to exchange contents |
//! | `leftovers` | inodes without names, space set aside for copies on write |
//! | `write` | carrying all of it to the device |

mod attribute;
pub mod counters;
mod exchange;
mod intents;
pub(crate) mod leftovers;
mod write;

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_format::{
    fault::{Corruption, Location, Structure},
    features::Unsupported,
    geometry::Geometry,
    log::item::ItemType,
    superblock::SuperblockFault,
    units::{InodeNumber, Lsn, Sector},
};
use uxfs_journal::{
    LogState,
    area::LogArea,
    recovery::{
        find_head_tail::DirtyLog,
        intents::RecoveredIntent,
        replay::{RealtimeBitmaps, ReplayCounts, ReplayObserver, replay},
    },
};

use crate::{filesystem::FileSystem, mount};
use uxfs_engine::options::MountOptions;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    error::{Error, OperationError, Result},
    superblock,
};

/// A report of what recovery did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log as it was found.
    pub log: DirtyLog,
    /// How much was replayed.
    pub replay: ReplayCounts,
    /// Intents that were finished, in the order in which they were.
    pub intents: Vec<FinishedIntent>,
    /// Inodes without names that were freed.
    pub freed_inodes: u64,
    /// Inodes on unlinked lists that are in use: they were removed from the lists and stay.
    pub kept_inodes: u64,
    /// Lists of such inodes that led to something else and were cut off there.
    pub broken_lists: u64,
    /// Blocks set aside for copies on write that were freed.
    pub freed_staging_blocks: u64,
    /// Work that damage prevents. It is left undone.
    pub given_up: GivenUp,
    /// The work that is being done, if it may be given up.
    current: Option<Work>,
}

impl RecoveryReport {
    /// Whether damage kept some work undone: the file system needs a repair.
    pub fn has_found_damage(&self) -> bool {
        self.kept_inodes > 0 || self.broken_lists > 0 || self.given_up != GivenUp::default()
    }
}

/// Work of a recovery that damage prevents, and that nothing else depends on: a damaged structure must not keep the image
/// from being opened. `xfs_repair` finds the inodes and blocks that stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// Unlinked inodes that cannot be freed. They stay as they are.
    pub inodes: Vec<InodeNumber>,
    /// Intents to free blocks that the free space btrees cannot take, by [`RecoveredIntent::number`]. The blocks belong to
    /// no file and are not free.
    pub free_intents: Vec<u32>,
}

/// Work that may be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Freeing an unlinked inode.
    Inode(InodeNumber),
    /// Freeing the blocks of the intent with this number.
    FreeIntent(u32),
}

impl GivenUp {
    fn add(&mut self, work: Work) {
        match work {
            Work::Inode(number) => self.inodes.push(number),
            Work::FreeIntent(number) => self.free_intents.push(number),
        }
    }
}

/// An intent that was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedIntent {
    /// Its kind.
    pub item_type: ItemType,
    /// Its name in the log.
    pub id: u64,
    /// Where its transaction began.
    pub lsn: Lsn,
    /// The inode that it changed, if it is about one.
    pub inode: Option<InodeNumber>,
    /// The other inode that it changed, if it exchanged the contents of two.
    pub other_inode: Option<InodeNumber>,
}

/// A file system that has been recovered in an overlay.
#[derive(Debug)]
pub struct Recovered {
    overlay: Arc<OverlayDevice>,
    geometry: Geometry,
    options: MountOptions,
    intents: Vec<RecoveredIntent>,
    report: RecoveryReport,
}

/// What follows a recovery in an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The overlay is read.
    Read,
    /// The recovery is written to the device. Metadata with a log sequence number ahead of the log counts as damage, because it
    /// will when the journal goes on: what is given up here is what must be given up then.
    Write,
}

/// Recovers the file system on `device` in an overlay, if its log is dirty, so that it can be written; `None` where there is
/// nothing to do.
///
/// # Errors
/// As for mounting; a log that cannot be replayed, or leads to damage.
pub fn recover(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    observer: &mut dyn ReplayObserver,
) -> Result<Option<Recovered>> {
    recover_for(Purpose::Write, device, options, observer)
}

/// As [`recover`], for a file system that is only read: metadata ahead of the log counts as sound.
///
/// # Errors
/// As there.
pub fn recover_to_read(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<Option<Recovered>> {
    recover_for(Purpose::Read, device, options, &mut ())
}

fn recover_for(
    purpose: Purpose,
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    observer: &mut dyn ReplayObserver,
) -> Result<Option<Recovered>> {
    let superblock = superblock::read_superblock(device.as_ref(), options.is_unfinished)?;
    let geometry = Geometry::new(&superblock);
    superblock::check_device_size(device.as_ref(), &geometry)?;
    let LogState::Dirty(log) = uxfs_journal::examine(device.as_ref(), &geometry)? else { return Ok(None) };
    let features = superblock.feature_words();
    match options.is_thrown_away {
        true => features.judge_to_read_log()?.write?,
        false => features.judge()?.write?,
    }
    let target = Target { device, log, geometry: &geometry, options, purpose };
    let mut recovered = recover_log(&target, GivenUp::default(), observer);
    let mut tries = 1_u64;
    let log_bytes = u64::from(geometry.log_blocks) << geometry.block_log;
    // Each try gives up one more piece of work.
    loop {
        recovered = match recovered {
            Err(Unfinished {
                given_up: Some(given_up),
                error: Error::Corrupt(_) | Error::Operation(_),
                intents,
            }) if tries < most_tries(log_bytes, intents) => recover_log(&target, given_up, &mut ()),
            done => return done.map(Some).map_err(|unfinished| unfinished.error),
        };
        tries += 1;
    }
}

/// How often recovery begins anew, at most, and so how many pieces of work it gives up.
const MOST_TRIES: u64 = 65;
/// A log that holds much is replayed at least so often.
const LEAST_TRIES: u64 = 5;
/// Bytes of the log that all tries replay, and intents that they finish. A hostile log must not multiply its own size.
const MOST_REPLAYED_BYTES: u64 = 2 << 30;
const MOST_FINISHED_INTENTS: u64 = 1_000_000;

fn most_tries(log_bytes: u64, intents: usize) -> u64 {
    let of_bytes = MOST_REPLAYED_BYTES / log_bytes.max(1);
    let of_intents = MOST_FINISHED_INTENTS / (intents as u64).max(1);
    of_bytes.min(of_intents).clamp(LEAST_TRIES, MOST_TRIES)
}

/// A recovery that failed.
struct Unfinished {
    error: Error,
    /// The work that the next try gives up; `None` where the error has nothing to do with such work.
    given_up: Option<GivenUp>,
    /// How many intents the log holds.
    intents: usize,
}

impl<E: Into<Error>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self { error: error.into(), given_up: None, intents: 0 }
    }
}

/// What is recovered.
struct Target<'a> {
    device: &'a Arc<dyn BlockDevice>,
    log: DirtyLog,
    geometry: &'a Geometry,
    options: &'a MountOptions,
    purpose: Purpose,
}

impl Target<'_> {
    fn refuse_metadata_ahead_of_log(&self, volume: &Volume) -> Result<()> {
        match self.purpose {
            Purpose::Read => Ok(()),
            Purpose::Write => volume.begin_log_at(self.log.head),
        }
    }
}

/// Recovers in a new overlay, without the work that has been given up.
fn recover_log(
    target: &Target<'_>,
    given_up: GivenUp,
    observer: &mut dyn ReplayObserver,
) -> std::result::Result<Recovered, Unfinished> {
    let Target { device, log, geometry, options, .. } = *target;
    let overlay = Arc::new(OverlayDevice::new(Arc::clone(device)));
    let area = LogArea::new(device.as_ref(), geometry)?;
    let realtime_bitmaps = match target.purpose {
        Purpose::Read => RealtimeBitmaps::LeftOut,
        Purpose::Write => RealtimeBitmaps::Refused,
    };
    let mut replayed = replay(&area, &log, geometry, (overlay.as_ref(), realtime_bitmaps), observer)?;
    if target.purpose == Purpose::Read {
        // What they would change is not read.
        replayed.intents.retain(|intent| !intent.is_realtime());
    }
    // A mapping that is still to be made may be of blocks whose former owner is still to be forgotten: of an exchange Linux
    // logs the first before the second. Linux does all that intents say before anything that follows from it; here each
    // is finished with what follows, so that owners who go, which nothing has to wait for, come first.
    replayed
        .intents
        .sort_unstable_by_key(|intent| (intent.item_type != ItemType::ReverseMapIntent, intent.number));
    let mut report = RecoveryReport {
        log,
        replay: replayed.counts,
        intents: Vec::new(),
        freed_inodes: 0,
        kept_inodes: 0,
        broken_lists: 0,
        freed_staging_blocks: 0,
        given_up,
        current: None,
    };
    overlay.begin_layer();
    let options = MountOptions { ignore_dirty_log: true, ..*options };
    if let Err(error) = finish(&overlay, target, &options, &replayed.intents, &mut report) {
        let Some(work) = report.current else { return Err(error.into()) };
        report.given_up.add(work);
        return Err(Unfinished { error, given_up: Some(report.given_up), intents: replayed.intents.len() });
    }
    Ok(Recovered { overlay, geometry: geometry.clone(), options, intents: replayed.intents, report })
}

/// Mounts for reading; a dirty log is recovered in an overlay, so that the image is seen as it will be. Gives what was
/// done, where something was.
///
/// # Errors
/// As for mounting, and as [`recover`].
pub fn mount_recovered(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<(Volume, Option<RecoveryReport>)> {
    match mount::open_volume(Arc::clone(device), options) {
        Err(Error::Operation(OperationError::DirtyLog { .. })) => {}
        result => return result.map(|volume| (volume, None)),
    }
    match recover_to_read(device, options)? {
        Some(recovered) => Ok((recovered.mount(options)?, Some(recovered.report))),
        // Somebody else replayed it meanwhile.
        None => mount::open_volume(Arc::clone(device), options).map(|volume| (volume, None)),
    }
}

impl Recovered {
    /// The report.
    pub fn report(&self) -> &RecoveryReport {
        &self.report
    }

    /// The device as it will be, but for its log: that is still the old one.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::<OverlayDevice>::clone(&self.overlay)
    }

    /// Mounts the recovered file system for reading.
    ///
    /// # Errors
    /// As for mounting.
    pub fn mount(&self, options: &MountOptions) -> Result<Volume> {
        mount::open_volume(self.device(), &MountOptions { ignore_dirty_log: true, ..*options })
    }
}

/// Checks that a superblock from the log is of the file system whose log was replayed. With another place of the log the image
/// would be locked, since its log would no longer be found.
fn require_same_file_system(replayed: &Volume, geometry: &Geometry) -> Result<()> {
    if replayed.geometry().has_fixed_fields_of(geometry) {
        return Ok(());
    }
    let location = Location::at_sector(Sector::new(0));
    Err(Corruption::new(Structure::Superblock, location, SuperblockFault::OtherInLog).into())
}

/// Finishes recovery after the replay.
#[doc(alias = "xlog_recover_finish")]
fn finish(
    overlay: &Arc<OverlayDevice>,
    target: &Target<'_>,
    options: &MountOptions,
    intents: &[RecoveredIntent],
    report: &mut RecoveryReport,
) -> Result<()> {
    let device = || -> Arc<dyn BlockDevice> { Arc::<OverlayDevice>::clone(overlay) };
    let needs_changes = {
        let replayed = mount::open_volume(device(), options)?;
        require_same_file_system(&replayed, target.geometry)?;
        target.refuse_metadata_ahead_of_log(&replayed)?;
        counters::correct(&replayed)?;
        !intents.is_empty() || leftovers::are_there(&replayed)?
    };
    if !needs_changes {
        return Ok(());
    }
    if intents.iter().any(RecoveredIntent::is_realtime) {
        return Err(Unsupported::RealtimeData.into());
    }
    let file_system = FileSystem::mount_bulk_unmarked(device(), options)?;
    target.refuse_metadata_ahead_of_log(&file_system)?;
    for intent in intents {
        // In the overlay an intent needs no end.
        if report.given_up.free_intents.contains(&intent.number) {
            continue;
        }
        if target.purpose == Purpose::Read && intents::is_of_realtime_file(&file_system, intent)? {
            continue;
        }
        let may_be_given_up = intent.item_type == ItemType::FreeExtentIntent;
        report.current = may_be_given_up.then_some(Work::FreeIntent(intent.number));
        intents::finish(&file_system, intent)?;
        report.current = None;
        report.intents.push(intents::finished(intent));
    }
    leftovers::free(&file_system, target.purpose, report)?;
    file_system.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_is_to_repeat_the_fewer_tries_there_are() {
        assert_eq!(most_tries(32 << 20, 100), 64);
        assert_eq!(most_tries(10 << 20, 100), MOST_TRIES);
        assert_eq!(most_tries(10 << 20, 225_000), LEAST_TRIES);
        assert_eq!(most_tries(2 << 30, 0), LEAST_TRIES);
    }
}

//! Opening an image to check it: damaged or not, with its log as recovery would leave it.

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::{self, RecoveryReport};
use uxfs_format::{fault::Structure, features::Unsupported, geometry::Geometry, units::Lsn};
use uxfs_journal::recovery::find_head_tail::LogState;
use uxfs_volume::{
    error::{Error, Result},
    tolerant::{
        self, SuperblockChoice, TolerantOptions,
        search::{find_superblock, read_group_superblock},
    },
    volume::Volume,
};

use crate::{
    finding::Finding,
    geometry::{self, Inferred, Witnesses},
    lost_writes::LostWrites,
    superblock::check::is_other,
};

/// The table of last changes takes this part of what the cache may take.
const COMPARISON_SHARE: u64 = 8;

/// How to open an image.
#[derive(Debug, Clone, Default)]
pub struct OpeningOptions {
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
    /// Look at the metadata as it is on the device, whatever the log holds.
    pub ignore_log: bool,
    /// Whether metadata is compared with its last change in the log, and with which: see [`lost_writes`](crate::lost_writes).
    pub comparison: LogComparison,
}

/// Which log metadata is compared with.
#[derive(Debug, Clone, Default)]
pub enum LogComparison {
    /// That of the image.
    #[default]
    OfImage,
    /// One that was read before.
    Known(Arc<LostWrites>),
    /// None.
    None,
}

/// An image that is open to be checked.
#[derive(Debug)]
pub struct Opened {
    /// On the device, or on the overlay of the log's recovery.
    pub volume: Volume,
    /// What recovery did in the overlay, where the log is dirty.
    pub recovery: Option<RecoveryReport>,
    /// Faults of the log, which [`check`](crate::check()) does not look at.
    pub findings: Vec<Finding>,
}

/// Opens the file system on `device` tolerantly. A dirty log is recovered in an overlay; where that is not possible, the
/// device is looked at as it is. Nothing is written to the device.
///
/// # Errors
/// No superblock describes a file system; one with features that uxfs does not know.
pub fn open(device: &Arc<dyn BlockDevice>, options: &OpeningOptions) -> Result<Opened> {
    let superblock = without_need(device, &options.superblock)?;
    let options = &OpeningOptions { superblock, ..options.clone() };
    let opened = open_volume(Arc::clone(device), options);
    let volume = opened.as_ref().map(|opened| &opened.volume);
    let Some((overlay, found)) = put_superblock(device, &options.superblock, volume)? else {
        return open_log(device, options, opened?);
    };
    let device: Arc<dyn BlockDevice> = overlay;
    let mut on_overlay = open_log(&device, options, open_volume(Arc::clone(&device), options)?)?;
    let why = opened.err().map(tolerant::Finding::PrimarySuperblock);
    let findings = why.into_iter().chain(found.finding());
    on_overlay.findings.extend(findings.map(|finding| Finding::Opening { finding }));
    Ok(on_overlay)
}

/// The choice of a superblock; the automatic one where a copy is named, and the first superblock is sound and says the same. Counters,
/// quota inodes and bits that Linux sets at their first use are kept up to date in the first one only.
///
/// # Errors
/// There is no such copy, or it is damaged.
pub(crate) fn without_need(
    device: &Arc<dyn BlockDevice>,
    choice: &SuperblockChoice,
) -> Result<SuperblockChoice> {
    let group = match choice {
        SuperblockChoice::Group(group) if group.get() != 0 => *group,
        _ => return Ok(choice.clone()),
    };
    let (_, copy) = find_superblock(device.as_ref(), Some(group))?;
    let first = read_group_superblock(device.as_ref(), 0);
    Ok(match first.is_ok_and(|first| !is_other(&first, &copy, &Geometry::new(&copy))) {
        true => SuperblockChoice::Automatic,
        false => choice.clone(),
    })
}

/// Opens the file system on `device` to read its sound parts, without its log: also where no group has a superblock.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(device: Arc<dyn BlockDevice>, options: &TolerantOptions) -> Result<Volume> {
    let opened = Volume::open_tolerantly(Arc::clone(&device), options);
    let Some((overlay, found)) = put_superblock(&device, &options.superblock, opened.as_ref())? else {
        return opened;
    };
    let volume = Volume::open_tolerantly(overlay, options)?;
    let why = opened.err().map(tolerant::Finding::PrimarySuperblock);
    if let Some(findings) = volume.findings() {
        why.into_iter().chain(found.finding()).for_each(|finding| findings.add(finding));
    }
    Ok(volume)
}

/// Where a superblock came from that no group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundSuperblock {
    /// The log held it.
    InLog,
    /// It was inferred.
    Inferred(Witnesses),
}

impl FoundSuperblock {
    fn finding(self) -> Option<tolerant::Finding> {
        match self {
            Self::InLog => None,
            Self::Inferred(witnesses) => {
                Some(tolerant::Finding::InferredSuperblock { witnesses: witnesses.to_string() })
            }
        }
    }
}

/// Where no group has a superblock, or nothing lies where it says: another one, and the device with it in its place. `opened` is what
/// opening gave.
///
/// # Errors
/// The device; a temporary file.
pub(crate) fn put_superblock(
    device: &Arc<dyn BlockDevice>,
    choice: &SuperblockChoice,
    opened: std::result::Result<&Volume, &Error>,
) -> Result<Option<(Arc<OverlayDevice>, FoundSuperblock)>> {
    if *choice != SuperblockChoice::Automatic {
        return Ok(None);
    }
    let found = match opened {
        Ok(volume) => geometry::outvoting(device.as_ref(), volume.superblock()).map(inferred),
        Err(Error::Corrupt(corruption)) if corruption.structure == Structure::Superblock => {
            match uxfs_journal::copies::find_superblock(device.as_ref())? {
                Some(bytes) => Some((bytes, FoundSuperblock::InLog)),
                None => geometry::infer(device.as_ref()).map(inferred),
            }
        }
        Err(_) => None,
    };
    let Some((bytes, found)) = found else { return Ok(None) };
    let overlay = Arc::new(OverlayDevice::new(Arc::clone(device)));
    overlay.write(0, &bytes)?;
    Ok(Some((overlay, found)))
}

fn inferred(inferred: Inferred) -> (Vec<u8>, FoundSuperblock) {
    (inferred.sector(), FoundSuperblock::Inferred(inferred.witnesses))
}

fn open_log(device: &Arc<dyn BlockDevice>, options: &OpeningOptions, opened: Opened) -> Result<Opened> {
    if options.ignore_log {
        return Ok(opened);
    }
    match uxfs_journal::examine(device.as_ref(), opened.volume.geometry()) {
        Err(error) => Ok(opened.with(Finding::of_error(error.into()))),
        // A log that was never written begins there.
        Ok(LogState::Empty) => Ok(opened.with(Finding::LogUnwritten).begin_log_at(Lsn::from_parts(1, 0))),
        Ok(LogState::Clean(log)) => Ok(opened.begin_log_at(log.newest).compare_with_log(options)),
        Ok(LogState::Dirty(_)) => recover(device, options, opened),
    }
}

fn recover(device: &Arc<dyn BlockDevice>, options: &OpeningOptions, on_device: Opened) -> Result<Opened> {
    let mount_options =
        MountOptions { cache_budget_bytes: options.cache_budget_bytes, ..MountOptions::default() };
    let recovered = match recovery::recover_to_read(device, &mount_options) {
        Ok(Some(recovered)) => recovered,
        // Another program replayed it meanwhile.
        Ok(None) => return open_volume(Arc::clone(device), options),
        // Nothing can be said of what such a log holds.
        Err(error @ Error::Unsupported(Unsupported::UnknownLogIncompatible { .. })) => return Err(error),
        Err(error) => return Ok(on_device.with(Finding::LogNotReplayed { error })),
    };
    let report = recovered.report().clone();
    let mut opened = open_volume(recovered.device(), options)?.begin_log_at(report.log.head);
    opened.recovery = Some(report);
    Ok(opened.compare_with_log(options))
}

fn open_volume(device: Arc<dyn BlockDevice>, options: &OpeningOptions) -> Result<Opened> {
    let OpeningOptions { cache_budget_bytes, superblock, .. } = options.clone();
    let volume = Volume::open_tolerantly(device, &TolerantOptions { cache_budget_bytes, superblock })?;
    Ok(Opened { volume, recovery: None, findings: Vec::new() })
}

impl Opened {
    fn with(mut self, finding: Finding) -> Self {
        self.findings.push(finding);
        self
    }

    /// From now on metadata that is older than the log says is a finding.
    fn compare_with_log(self, options: &OpeningOptions) -> Self {
        let volume = &self.volume;
        let most_bytes = volume.cache().budget_bytes() / COMPARISON_SHARE;
        let comparison = match &options.comparison {
            LogComparison::OfImage => LostWrites::of_log(
                volume.device().as_ref(),
                volume.geometry(),
                usize::try_from(most_bytes).unwrap_or(usize::MAX),
            ),
            LogComparison::Known(known) => Some(known.again()),
            LogComparison::None => None,
        };
        if let Some(comparison) = comparison {
            volume.newest_lsn().compare_with(comparison);
        }
        self
    }

    /// From now on metadata with a greater number is a finding. It is that of the newest record: Linux lets the number pass that the next
    /// record will have, `xfs_repair` does not. What recovery finishes has that number.
    fn begin_log_at(self, newest: Lsn) -> Self {
        match self.volume.begin_log_at(newest) {
            Ok(()) => self,
            Err(error) => self.with(Finding::of_error(error)),
        }
    }
}

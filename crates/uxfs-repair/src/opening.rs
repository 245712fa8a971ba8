//! Opening an image to check it: damaged or not, with its log as recovery would leave it.

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::{self, RecoveryReport};
use uxfs_format::{fault::Structure, units::Lsn};
use uxfs_journal::recovery::find_head_tail::LogState;
use uxfs_volume::{
    error::{Error, Result},
    tolerant::{self, SuperblockChoice, TolerantOptions},
    volume::Volume,
};

use crate::finding::Finding;

/// How to open an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpeningOptions {
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
    /// Look at the metadata as it is on the device, whatever the log holds.
    pub ignore_log: bool,
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
    let error = match open_volume(Arc::clone(device), options) {
        Ok(opened) => return open_log(device, options, opened),
        Err(error) => error,
    };
    // The log may still have a superblock.
    if options.superblock != SuperblockChoice::Automatic || !is_without_superblock(&error) {
        return Err(error);
    }
    let overlay = Arc::new(OverlayDevice::new(Arc::clone(device)));
    if !put_superblock(&overlay)? {
        return Err(error);
    }
    let device: Arc<dyn BlockDevice> = overlay;
    let opened = open_volume(Arc::clone(&device), options)?;
    let opened = open_log(&device, options, opened)?;
    Ok(opened.with(Finding::Opening { finding: tolerant::Finding::PrimarySuperblock(error) }))
}

/// Whether opening failed because no group has a superblock.
pub(crate) fn is_without_superblock(error: &Error) -> bool {
    matches!(error, Error::Corrupt(corruption) if corruption.structure == Structure::Superblock)
}

/// Puts the superblock that a log on the device holds in its place. Gives whether there is one.
///
/// # Errors
/// The device; a temporary file.
pub(crate) fn put_superblock(overlay: &Arc<OverlayDevice>) -> Result<bool> {
    let found = uxfs_journal::copies::find_superblock(overlay.as_ref())?;
    if let Some(bytes) = &found {
        overlay.write(0, bytes)?;
    }
    Ok(found.is_some())
}

fn open_log(device: &Arc<dyn BlockDevice>, options: &OpeningOptions, opened: Opened) -> Result<Opened> {
    if options.ignore_log {
        return Ok(opened);
    }
    match uxfs_journal::examine(device.as_ref(), opened.volume.geometry()) {
        Err(error) => Ok(opened.with(Finding::of_error(error.into()))),
        // A log that was never written begins there.
        Ok(LogState::Empty) => Ok(opened.begin_log_at(Lsn::from_parts(1, 0))),
        Ok(LogState::Clean(log)) => Ok(opened.begin_log_at(log.head)),
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
        Err(error) => return Ok(on_device.with(Finding::LogNotReplayed { error })),
    };
    let report = recovered.report().clone();
    let mut opened = open_volume(recovered.device(), options)?.begin_log_at(report.log.head);
    opened.recovery = Some(report);
    Ok(opened)
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

    /// From now on metadata ahead of the log is a finding.
    fn begin_log_at(self, head: Lsn) -> Self {
        match self.volume.begin_log_at(head) {
            Ok(()) => self,
            Err(error) => self.with(Finding::of_error(error)),
        }
    }
}

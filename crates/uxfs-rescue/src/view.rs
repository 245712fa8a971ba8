//! The image as a repair would leave it; where that is not possible, what can be read of it all the same.

use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

use uxfs_block::{device::BlockDevice, ranges::RangeSet};
use uxfs_format::{geometry::Geometry, units::InodeNumber};
use uxfs_repair::{
    CheckOptions, Finding, check,
    opening::{self, OpeningOptions},
    repair::{RepairOptions, action::Action, repair},
};
use uxfs_volume::{
    error::{Error, Result},
    inode::{Inode, scan::ScanOptions},
    tolerant::{SuperblockChoice, TolerantOptions},
    volume::Volume,
};

use crate::{device::RescueDevice, evidence::Evidence, log, state::State};

/// How to open.
#[derive(Debug, Clone, Default)]
pub struct ViewOptions {
    /// Memory for cached metadata.
    pub cache_budget_bytes: Option<u64>,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
    /// Use no older copies of metadata that the log holds.
    pub ignore_log_copies: bool,
    /// Threads of checks and scans.
    pub scan: ScanOptions,
    /// Another program uses the image, and may change it: which one.
    pub user: Option<String>,
}

/// What the files are taken from.
#[derive(Debug)]
pub enum Origin {
    /// The image is sound.
    Sound,
    /// As a repair would leave it.
    Repaired {
        /// Changes of the repair.
        changes: usize,
    },
    /// As a repair would leave it that could not mend everything.
    RepairedInPart {
        /// Changes of the repair.
        changes: usize,
        /// Findings that are left.
        findings: u64,
    },
    /// As it is: no repair was possible.
    Damaged {
        /// Why.
        error: Error,
    },
}

/// A file system to take files from.
#[derive(Debug)]
pub struct View {
    /// Read tolerantly.
    pub volume: Volume,
    /// What is doubtful in it.
    pub evidence: Evidence,
    /// What it is.
    pub origin: Origin,
    /// The image without the repair, where there was one: for entries of what the repair gave up.
    pub before: Option<Volume>,
}

/// What a superblock says of the file system, before anything else is read: its size, and where its log lies.
///
/// # Errors
/// No superblock describes one. (The log may still have one.)
pub fn geometry_of(device: &Arc<dyn BlockDevice>, options: &ViewOptions) -> Result<Geometry> {
    let options = TolerantOptions { superblock: options.superblock.clone(), ..TolerantOptions::default() };
    Ok(Volume::open_tolerantly(Arc::clone(device), &options)?.geometry().clone())
}

/// The device of a rescue from `inner`, of which a map says that `unread` was not read: as long as the superblock says, where the image
/// has been truncated.
pub fn device_for(
    inner: Arc<dyn BlockDevice>,
    unread: impl IntoIterator<Item = Range<u64>>,
    options: &ViewOptions,
) -> Arc<RescueDevice> {
    let size_bytes = inner.size_bytes();
    let device = Arc::new(RescueDevice::new(Arc::clone(&inner), size_bytes, unread));
    let shared: Arc<dyn BlockDevice> = Arc::<RescueDevice>::clone(&device);
    match geometry_of(&shared, options) {
        Ok(geometry) if geometry.data_size_bytes() > size_bytes => {
            let known: Vec<_> = device.unreadable().iter().collect();
            Arc::new(RescueDevice::new(inner, geometry.data_size_bytes(), known))
        }
        _ => device,
    }
}

impl View {
    /// Opens what can be opened.
    ///
    /// # Errors
    /// Nothing describes a file system; one with features that uxfs does not know.
    pub fn open(device: &Arc<RescueDevice>, options: &ViewOptions) -> Result<Self> {
        let mut view = Self::open_what_lies_there(device, options)?;
        if let Some(user) = &options.user {
            let reason =
                format!("the image was in use ({user}): newer changes may be missing, or there in part");
            view.evidence.doubt_all(State::PerhapsOlder, reason);
        }
        Ok(view)
    }

    fn open_what_lies_there(device: &Arc<RescueDevice>, options: &ViewOptions) -> Result<Self> {
        let shared: Arc<dyn BlockDevice> = Arc::<RescueDevice>::clone(device);
        let repair_options = RepairOptions {
            // The device has zeros there, and knows it.
            unread: RangeSet::default(),
            cache_budget_bytes: options.cache_budget_bytes,
            superblock: options.superblock.clone(),
            scan: options.scan,
            ignore_log_copies: options.ignore_log_copies,
            keeps_partial_names: true,
        };
        let staged = match repair(&shared, &repair_options) {
            Ok(staged) => staged,
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Err(error) => return Self::without_repair(device, &shared, options, error),
        };
        let (findings, changes) = (staged.remaining.len(), staged.actions.len());
        let overlay: Arc<dyn BlockDevice> = staged.overlay;
        let mut view = Self::of(Self::open_volume(overlay, options)?, device);
        for action in &staged.actions {
            view.evidence.add_action(action, view.volume.geometry());
        }
        let is_replay_partial =
            staged.actions.iter().any(|action| matches!(action, Action::LogReplayedInPart { .. }));
        if findings > 0 || is_replay_partial {
            let findings = view.check(options);
            view.origin = Origin::RepairedInPart { changes, findings };
        } else if changes > 0 {
            view.origin = Origin::Repaired { changes };
        }
        if changes > 0 {
            view.before = Self::open_as_it_is(&shared, options).ok();
            view.add_conflicts(options);
        }
        Ok(view)
    }

    /// A view whose inodes may be anything, since no repair came to an end.
    fn without_repair(
        device: &Arc<RescueDevice>,
        shared: &Arc<dyn BlockDevice>,
        options: &ViewOptions,
        error: Error,
    ) -> Result<Self> {
        let mut view = Self::of(Self::open_as_it_is(shared, options)?, device);
        view.origin = Origin::Damaged { error };
        view.check(options);
        Ok(view)
    }

    fn open_as_it_is(device: &Arc<dyn BlockDevice>, options: &ViewOptions) -> Result<Volume> {
        let options = OpeningOptions {
            cache_budget_bytes: options.cache_budget_bytes,
            superblock: options.superblock.clone(),
            ignore_log: false,
            ..OpeningOptions::default()
        };
        Ok(opening::open(device, &options)?.volume)
    }

    fn open_volume(device: Arc<dyn BlockDevice>, options: &ViewOptions) -> Result<Volume> {
        let ViewOptions { cache_budget_bytes, superblock, .. } = options.clone();
        Volume::open_tolerantly(device, &TolerantOptions { cache_budget_bytes, superblock })
    }

    fn of(volume: Volume, device: &RescueDevice) -> Self {
        let mut evidence = Evidence::default();
        let log_doubt = log::doubt(device, volume.geometry());
        // Behind the doubt, which reads of the log what it needs.
        let place = log::place(volume.geometry());
        evidence.is_log_unreadable = place.is_some_and(|log| !device.unreadable_in(log).is_empty());
        if let Some(reason) = log_doubt {
            evidence.doubt_all(State::PerhapsOlder, reason);
        }
        Self { volume, evidence, origin: Origin::Sound, before: None }
    }

    /// Without a reverse map extents have no second witness but the blocks that they must not have.
    fn add_conflicts(&mut self, options: &ViewOptions) {
        let Some(before) =
            self.before.as_ref().filter(|before| !before.geometry().features.has_reverse_map())
        else {
            return;
        };
        let evidence = &mut self.evidence;
        let check_options = CheckOptions { scan: options.scan, ..CheckOptions::default() };
        check(before, &check_options, &mut |finding: Finding| {
            evidence.add_conflict(&finding, before.geometry());
            ControlFlow::Continue(())
        });
        drop(drain(before));
    }

    /// Takes all findings of a check as evidence; gives how many there were.
    fn check(&mut self, options: &ViewOptions) -> u64 {
        let (mut count, evidence) = (0, &mut self.evidence);
        let geometry = self.volume.geometry();
        check(
            &self.volume,
            &CheckOptions { scan: options.scan, ..CheckOptions::default() },
            &mut |finding: Finding| {
                count += 1;
                evidence.add_finding(&finding, geometry);
                ControlFlow::Continue(())
            },
        );
        self.drain();
        count
    }

    /// Whether a repair mended everything that was wrong, or nothing was.
    pub fn is_sound(&self) -> bool {
        matches!(self.origin, Origin::Sound | Origin::Repaired { .. })
    }

    /// Reads an inode in use. One bad inode does not make those beside it unreadable.
    ///
    /// # Errors
    /// As [`Volume::inode`].
    pub fn inode(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        inode_of(&self.volume, number)
    }

    /// What the volume passed over since the last call, in sentences.
    pub fn drain(&self) -> Vec<String> {
        drain(&self.volume)
    }
}

/// What a tolerant volume passed over since the last call, in sentences.
pub fn drain(volume: &Volume) -> Vec<String> {
    let Some(findings) = volume.findings() else { return Vec::new() };
    let (list, others) = findings.take();
    let mut sentences: Vec<String> = list.iter().take(8).map(ToString::to_string).collect();
    if others > 0 || list.len() > sentences.len() {
        sentences.push("more was left out".to_owned());
    }
    sentences
}

/// Reads an inode in use, also where others in its cluster are none.
///
/// # Errors
/// As [`Volume::inode`].
pub fn inode_of(volume: &Volume, number: InodeNumber) -> Result<Arc<Inode>> {
    let error = match volume.inode(number) {
        Err(error @ Error::Corrupt(_)) => error,
        result => return result,
    };
    let geometry = volume.geometry();
    let bytes = volume.inode_bytes(number)?;
    let Ok(core) = uxfs_format::inode::verify_inode(&bytes, number, geometry) else { return Err(error) };
    Inode::decode(&bytes, core, geometry).map(Arc::new).ok_or(error)
}

/// The state of what a volume passed over while a file was read.
pub const PASSED_OVER: State = State::Partial;

//! Opening a damaged image, and reading what is left of it.
//!
//! [`Volume::open`] is strict: a mount wants it so. [`Volume::open_tolerantly`] opens what rescue and repair need:
//! with the superblock of any group, with one that the caller gives, on a device that is too short, with
//! `NEEDSREPAIR` set. Each fault is a [`Finding`] in the volume.
//!
//! Invariants:
//! 1. A tolerant volume verifies every structure as a strict one does, and leaves out what fails. Of a damaged block of directory
//!    entries, and of a damaged list in an inode, it gives those entries that pass every check of an entry alone. (So no name
//!    with a slash reaches `extract`.)
//! 2. A walk that goes on after damage has moved ahead before it goes on, so that each walk ends.
//! 3. Findings take bounded memory: beyond [`MOST_FINDINGS`] they are only counted.
//!
//! | module | holds |
//! |---|---|
//! | here | options, findings, opening |
//! | [`records`] | all records of a btree with damaged blocks |
//! | [`lost`] | parts of extent maps that could not be read |
//! | [`root`] | the root directory where the superblock does not name it |
//! | [`search`] | the superblocks of groups on a device whose geometry is not known |

use std::{
    cell::Cell,
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use thiserror::Error as ThisError;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    features::{Incompatible, Unsupported},
    geometry::Geometry,
    superblock::Superblock,
    units::{AgNumber, InodeNumber},
};

use crate::{
    error::{Error, Result},
    volume::Volume,
};

pub mod lost;
pub(crate) mod records;
pub mod root;
pub mod search;

use root::RootOrigin;
use search::{find_superblock, read_group_superblock};

/// Findings that are kept.
pub const MOST_FINDINGS: usize = 1000;

/// Blocks of damaged attribute forks, of all inodes together, that are searched for leaves in vain. The extents of a hostile image
/// may claim any number of blocks.
pub(crate) const MOST_SEARCHED_BLOCKS: u64 = 1 << 20;

/// Which superblock describes the file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SuperblockChoice {
    /// That of group 0 if it is sound, else that of the first group that has a sound one.
    #[default]
    Automatic,
    /// That of this group.
    Group(AgNumber),
    /// One that the caller has made, which needs no checksum: a geometry that was inferred.
    Given(Box<Superblock>),
}

/// How to open a damaged volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TolerantOptions {
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
}

/// Damage that a tolerant volume passed over.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Finding {
    /// Group 0 has no sound superblock.
    #[error("the superblock of group 0 cannot be used: {0}")]
    PrimarySuperblock(Error),
    /// Another group's superblock describes the file system.
    #[error("the superblock of group {group} is used")]
    OtherSuperblock {
        /// The group.
        group: AgNumber,
    },
    /// No superblock can be used: the geometry follows from other structures.
    #[error("no superblock can be used; the geometry is inferred from {witnesses}")]
    InferredSuperblock {
        /// From which ones, in words.
        witnesses: String,
    },
    /// `NEEDSREPAIR` is set.
    #[error("the file system is marked as needing repair (NEEDSREPAIR)")]
    NeedsRepair,
    /// `inprogress` is set in the superblock of group 0.
    #[error("the superblock says that making the file system was not finished")]
    Unfinished,
    /// The image was truncated.
    #[error("the device has {length_bytes} bytes, but the file system takes {needed_bytes}")]
    DeviceTooShort {
        /// The size in the superblock.
        needed_bytes: u64,
        /// The device's length.
        length_bytes: u64,
    },
    /// The superblock names no root directory, as copies that mkfs made early, or something else.
    #[error("{}; inode {inode} is taken for it: {origin}", without_root(*.named))]
    RootInode {
        /// The inode in the superblock, if it can be one.
        named: Option<InodeNumber>,
        /// The inode that is taken.
        inode: InodeNumber,
        /// Why.
        origin: RootOrigin,
    },
    /// A walk left something out.
    #[error("left out: {0}")]
    LeftOut(Error),
    /// An attribute is there, and its value cannot be read.
    #[error("left out: the value of attribute {} of inode {inode}: {error}", name.escape_ascii())]
    AttributeValue {
        /// The inode.
        inode: InodeNumber,
        /// The name that Linux shows.
        name: Box<[u8]>,
        /// Why.
        error: Error,
    },
}

fn without_root(named: Option<InodeNumber>) -> String {
    match named {
        Some(named) => format!("inode {named}, which the superblock names, is not the root directory"),
        None => "the superblock that is used names no root directory".to_owned(),
    }
}

/// The findings of a tolerant volume.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Mutex<Kept>,
    lost: lost::LostExtents,
    uses_copy: AtomicBool,
    searched_blocks: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    list: Vec<Finding>,
    /// The sentences of the list. Several walks may pass over one fault.
    texts: HashSet<String>,
    others: u64,
}

impl Findings {
    /// Adds one that says something new.
    pub fn add(&self, finding: Finding) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.list.len() >= MOST_FINDINGS {
            kept.others += 1;
        } else if kept.texts.insert(finding.to_string()) {
            kept.list.push(finding);
        }
    }

    /// Whether the volume was opened with the superblock of another group than 0, whose counters are those of mkfs.
    pub fn uses_copy(&self) -> bool {
        self.uses_copy.load(Relaxed)
    }

    fn use_copy(&self, group: AgNumber) {
        self.uses_copy.store(true, Relaxed);
        self.add(Finding::OtherSuperblock { group });
    }

    /// Takes one of the [`MOST_SEARCHED_BLOCKS`]; `false` where none is left.
    pub(crate) fn search_block(&self) -> bool {
        self.searched_blocks.fetch_add(1, Relaxed) < MOST_SEARCHED_BLOCKS
    }

    /// Takes all that were kept, and the number of those that were not.
    pub fn take(&self) -> (Vec<Finding>, u64) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        (kept.list, kept.others)
    }
}

impl Volume {
    /// Opens a damaged file system to read its sound parts. The log is not replayed. [`findings`](Self::findings) holds the
    /// faults, also those that later walks pass over.
    ///
    /// # Errors
    /// No superblock describes a file system; one with features that uxfs does not know.
    pub fn open_tolerantly(device: Arc<dyn BlockDevice>, options: &TolerantOptions) -> Result<Self> {
        let findings = Findings::default();
        let superblock = choose_superblock(device.as_ref(), &options.superblock, &findings)?;
        let geometry = Geometry::new(&superblock);
        let (needed_bytes, length_bytes) = (geometry.data_size_bytes(), device.size_bytes());
        if length_bytes < needed_bytes {
            findings.add(Finding::DeviceTooShort { needed_bytes, length_bytes });
        }
        let mut volume = Self::of_parts(device, superblock, options.cache_budget_bytes, Some(findings));
        root::find_root(&mut volume);
        root::name_realtime_inodes(&mut volume);
        Ok(volume)
    }

    /// The findings of a tolerant volume so far; `None` for a strict one.
    pub fn findings(&self) -> Option<&Findings> {
        self.tolerance.as_ref()
    }

    /// After damage in a walk that has moved ahead already: a finding where the volume is tolerant, so that the walk
    /// goes on.
    ///
    /// # Errors
    /// The same error, in a strict volume or where going on is not possible.
    pub(crate) fn leave_out(&self, error: Error) -> Result<()> {
        self.pass_over(error, Finding::LeftOut)
    }

    /// As [`leave_out`](Self::leave_out), with a finding of the caller's.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn pass_over(&self, error: Error, finding: impl FnOnce(Error) -> Finding) -> Result<()> {
        match self.findings().filter(|_| is_damage(&error)) {
            Some(findings) => {
                PASSED_OVER.set(PASSED_OVER.get().wrapping_add(1));
                findings.add(finding(error));
                Ok(())
            }
            None => Err(error),
        }
    }

    /// Whether another way around an error may be tried: damage, in a tolerant volume.
    pub(crate) fn may_pass_over(&self, error: &Error) -> bool {
        self.findings().is_some() && is_damage(error)
    }
}

thread_local! {
    static PASSED_OVER: Cell<u64> = const { Cell::new(0) };
}

/// How many faults this thread has passed over, in all tolerant volumes. What was passed over in one inode is what came while it was read:
/// [`Findings`] are those of all threads.
pub fn passed_over_by_this_thread() -> u64 {
    PASSED_OVER.get()
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt(_) | Error::Io(_))
}

fn choose_superblock(
    device: &dyn BlockDevice,
    choice: &SuperblockChoice,
    findings: &Findings,
) -> Result<Superblock> {
    let mut superblock = match choice {
        SuperblockChoice::Given(superblock) => search::verified(superblock)?,
        SuperblockChoice::Group(group) if group.get() == 0 => read_group_superblock(device, 0)?,
        SuperblockChoice::Group(group) => {
            let (_, superblock) = find_superblock(device, Some(*group))?;
            findings.use_copy(*group);
            superblock
        }
        SuperblockChoice::Automatic => match read_group_superblock(device, 0) {
            Ok(superblock) => superblock,
            Err(error @ (Error::Corrupt(_) | Error::Io(_))) => {
                let Ok((group, superblock)) = find_superblock(device, None) else { return Err(error) };
                findings.add(Finding::PrimarySuperblock(error));
                findings.use_copy(group);
                superblock
            }
            Err(error @ Error::Unsupported(Unsupported::OldVersion { .. }))
                if search::has_checksum(device) =>
            {
                let Ok((group, superblock)) = find_superblock(device, None) else { return Err(error) };
                findings.add(Finding::PrimarySuperblock(error));
                findings.use_copy(group);
                superblock
            }
            Err(error @ Error::Unsupported(Unsupported::UnknownIncompatible { .. })) => {
                let Some((group, superblock)) = search::without_unknown_features(device) else {
                    return Err(error);
                };
                findings.add(Finding::PrimarySuperblock(error));
                findings.use_copy(group);
                superblock
            }
            Err(error) => return Err(error),
        },
    };
    let words = superblock.feature_words();
    if words.incompatible.contains(Incompatible::NEEDS_REPAIR) {
        findings.add(Finding::NeedsRepair);
        superblock.incompatible.set((words.incompatible - Incompatible::NEEDS_REPAIR).bits());
    }
    // Copies of the superblock always say so.
    if superblock.in_progress != 0 && !findings.uses_copy() {
        findings.add(Finding::Unfinished);
    }
    superblock.in_progress = 0;
    Ok(superblock)
}

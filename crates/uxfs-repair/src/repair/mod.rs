//! Repair of a whole file system: witnesses first, decisions second, changes last.
//!
//! ```text
//! check ─▶ work: which objects contradict others ─▶ each is rebuilt from its witnesses, in the stage ─▶ check the stage …
//!     until nothing is found ─▶ the caller carries the stage to the device
//! ```
//!
//! Invariants:
//! 1. The device is only read. All changes are in the [`Stage`], whose base is the device.
//! 2. A pass that begins with the same findings as the one before ends the repair, unless that one did something that no pass before it
//!    had done: findings name the first of several damaged blocks, and none of those that lie behind another damage. The findings that
//!    remain are reported, and the caller writes nothing.
//!
//! | module | holds |
//! |---|---|
//! | here | the passes |
//! | [`action`] | what a repair does, in sentences and as fields |
//! | [`weighing`] | which witness is believed: one table for all objects |
//! | [`work`] | which objects have to be rebuilt |
//! | [`bit_flips`] | structures with a few changed bits |
//! | [`block_fields`] | single wrong fields of blocks of files |
//! | [`conflicts`] | blocks that two have |
//! | [`doubts`] | what was kept and may be older |
//! | [`identity`] | whose a block of a file is |
//! | [`log`] | replaying a dirty log; a new one |
//! | [`log_copies`] | blocks that the log still has |
//! | [`loss`] | witnesses that were missing |
//! | [`misplaced`] | inodes and blocks at the place of another |
//! | [`naming`] | the tree of names |
//! | [`older`] | inodes and blocks that are older than the log says |
//! | [`owned_blocks`] | whether the inode that a block names has it |
//! | [`lsn`] | log sequence numbers that no log has reached |
//! | [`progress`] | what it tells while it works |
//! | [`settle`] | what the first superblock says, before anything relies on it |
//! | [`signature`] | whether two passes are the same |
//! | [`space`] | inodes and allocation groups |
//! | [`superblocks`] | superblocks and their counters |
//! | [`told_by_log`] | facts that nothing but the log repeats |
//! | [`unproved`] | inodes that were kept with a wrong checksum |
//! | [`value_blocks`] | which blocks of a damaged value are damaged |
//! | [`stage`] | where changes are kept until all of them have been checked |
//! | [`staged`] | a repair that waits to be written |

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use uxfs_block::{
    device::BlockDevice,
    engine::{overlay::OverlayDevice, unreadable::FilledDevice},
    ranges::RangeSet,
};
use uxfs_engine::options::MountOptions;
use uxfs_format::units::{InodeNumber, Lsn, Sector};
use uxfs_volume::{error::Result, inode::scan::ScanOptions, tolerant::SuperblockChoice, volume::Volume};

use crate::{
    attribute::{self, stored_values::SearchBudget},
    check::{CheckOptions, check_with_progress},
    extent_map::{
        self,
        contradicted::{self, Undecided},
    },
    finding::Finding,
    inode,
    lost_writes::LostWrites,
    opening::{self, LogComparison, OpeningOptions},
    quota, symlink,
};

pub mod action;
mod bit_flips;
mod block_fields;
mod conflicts;
mod doubts;
pub(crate) mod identity;
mod log;
pub(crate) mod log_copies;
mod loss;
pub(crate) mod lsn;
pub(crate) mod misplaced;
mod naming;
mod older;
mod owned_blocks;
pub mod progress;
mod settle;
mod signature;
mod space;
pub(crate) mod stage;
mod staged;
mod superblocks;
mod told_by_log;
mod unproved;
mod value_blocks;
pub mod weighing;
pub(crate) mod work;

use action::Action;
use bit_flips::{Asked, BitFlips};
use doubts::Doubts;
use log_copies::DamagedBlock;
use progress::{Event, Phase, ShowRepair};
use signature::{Signature, sum_of};
use space::Sources;
use stage::{Stage, StagedTrees};
pub use staged::Staged;
use work::Work;

/// How to repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairOptions {
    /// Memory for cached metadata; `None` takes 256 MiB, or less where memory is scarce.
    pub cache_budget_bytes: Option<u64>,
    /// Which superblock describes the file system.
    pub superblock: SuperblockChoice,
    /// Threads of the checks.
    pub scan: ScanOptions,
    /// What of the device is known to be unreadable, in bytes.
    pub unread: RangeSet,
    /// Leaves copies of metadata in the log alone.
    pub ignore_log_copies: bool,
    /// Leaves regular files of which blocks are missing at their paths. The missing blocks read as zeros: callers must tell such files
    /// from whole ones by [`Action::FilePartial`].
    pub keeps_partial_names: bool,
}

/// What the table of last changes takes at most.
const COMPARISON_BYTES: usize = 32 << 20;
/// Passes, at most: each repairs what the one before has made visible.
const MOST_PASSES: u32 = 48;
/// Remaining findings that are kept.
const MOST_REMAINING: usize = 1000;

/// Repairs the file system on `device` in an overlay. Nothing is written to the device.
///
/// # Errors
/// No superblock describes a file system; the device; temporary files.
pub fn repair(device: &Arc<dyn BlockDevice>, options: &RepairOptions) -> Result<Staged> {
    repair_with_progress(device, options, &|_| {})
}

/// As [`repair`], and tells `progress` what it does.
///
/// # Errors
/// As [`repair`].
pub fn repair_with_progress(
    device: &Arc<dyn BlockDevice>,
    options: &RepairOptions,
    progress: &ShowRepair<'_>,
) -> Result<Staged> {
    let filled = Arc::new(FilledDevice::knowing(Arc::clone(device), options.unread.clone()));
    let staged = repair_filled(&filled, options, progress);
    // Findings and decisions may rest on it.
    match filled.host_failure() {
        Some(error) => Err(error.copy().into()),
        None => staged,
    }
}

fn repair_filled(
    filled: &Arc<FilledDevice>,
    options: &RepairOptions,
    progress: &ShowRepair<'_>,
) -> Result<Staged> {
    let overlay = Arc::new(OverlayDevice::new(Arc::<FilledDevice>::clone(filled)));
    let staged: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&overlay);
    let mut repair = Repair {
        options,
        superblock: SuperblockChoice::Automatic,
        progress,
        original: filled.as_ref(),
        filled: Arc::clone(filled),
        device: staged,
        overlay,
        trees: Arc::default(),
        comparison: LogComparison::None,
        actions: Vec::new(),
        partial: BTreeSet::new(),
        unread: BTreeSet::new(),
        given_up: BTreeSet::new(),
        undecided_maps: Undecided::new(),
        doubts: Doubts::default(),
        bit_flips: BitFlips::default(),
        unproved: BTreeSet::new(),
        unsettled: BTreeSet::new(),
        done: HashSet::new(),
        findings: None,
    };
    repair.take_chosen_superblock()?;
    repair.find_superblock()?;
    // A log at the wrong place would be replayed from, and written over, what lies there.
    repair.settle_superblock()?;
    repair.replay_log()?;
    let mut before = None;
    for _ in 0..MOST_PASSES {
        let actions_before = repair.actions.len();
        match repair.pass(before)? {
            Pass::Done(remaining) => return Ok(repair.finish(remaining)),
            Pass::Changed(signature) => {
                repair.give_up_freed(actions_before);
                before = Some(signature).filter(|_| !repair.has_done_new(actions_before));
            }
        }
    }
    let remaining = repair.check()?.findings;
    Ok(repair.finish(remaining))
}

enum Pass {
    /// Nothing more can be done; these findings are left.
    Done(Vec<Finding>),
    /// Something was done; the findings before it had this signature.
    Changed(Signature),
}

/// A check of the stage.
struct Checked {
    volume: Volume,
    /// The first findings.
    findings: Vec<Finding>,
    /// What follows from all of them.
    work: Work,
    signature: Signature,
}

struct Repair<'r> {
    options: &'r RepairOptions,
    /// The superblock of the stage. One chosen by the caller replaces the primary one first.
    superblock: SuperblockChoice,
    progress: &'r ShowRepair<'r>,
    /// The device as it was found.
    original: &'r dyn BlockDevice,
    filled: Arc<FilledDevice>,
    overlay: Arc<OverlayDevice>,
    /// The overlay.
    device: Arc<dyn BlockDevice>,
    /// Blocks in which btrees of groups were staged.
    trees: Arc<StagedTrees>,
    /// What metadata is compared with: the log as it was found.
    comparison: LogComparison,
    actions: Vec<Action>,
    /// Regular files of which something is missing, and that still have their names.
    partial: BTreeSet<InodeNumber>,
    /// Inodes of which groups were rebuilt without all extents: what the new reverse maps say of them is not all.
    unread: BTreeSet<InodeNumber>,
    /// Symbolic links that were given up.
    given_up: BTreeSet<InodeNumber>,
    /// Extent maps that stay although the reverse map contradicts them.
    undecided_maps: Undecided,
    doubts: Doubts,
    bit_flips: BitFlips,
    /// Inodes that were kept with a wrong checksum.
    unproved: BTreeSet<InodeNumber>,
    /// Those with fields not yet compared with other structures.
    unsettled: BTreeSet<InodeNumber>,
    /// Sums of the actions of earlier passes.
    done: HashSet<u64>,
    /// Of the first check.
    findings: Option<u64>,
}

impl<'r> Repair<'r> {
    fn stage(&self, volume: &Volume) -> Stage {
        Stage::new(Arc::clone(&self.overlay), volume.geometry().clone(), Arc::clone(&self.trees))
    }

    fn opening_options(&self) -> OpeningOptions {
        OpeningOptions {
            cache_budget_bytes: self.options.cache_budget_bytes,
            superblock: self.superblock.clone(),
            ignore_log: false,
            comparison: self.comparison.clone(),
        }
    }

    /// A dirty log comes first: what it holds is newer than what lies on the device.
    fn replay_log(&mut self) -> Result<()> {
        (self.progress)(Event::Begin(Phase::Log));
        let options = OpeningOptions { ignore_log: true, ..self.opening_options() };
        let volume = opening::open(&self.device, &options)?.volume;
        if volume.device().size_bytes() < volume.geometry().data_size_bytes() {
            return Ok(());
        }
        if let Some(known) = LostWrites::of_log(self.original, volume.geometry(), COMPARISON_BYTES) {
            self.comparison = LogComparison::Known(known);
        }
        let stage = self.stage(&volume);
        let options =
            MountOptions { cache_budget_bytes: self.options.cache_budget_bytes, ..MountOptions::default() };
        if log::replay_dirty(&stage, &options, &mut self.actions)? {
            log::write_new(&stage, log::new_cycle(&volume, 0), false, &mut self.actions)?;
        }
        Ok(())
    }

    /// Opens the stage and checks it.
    fn check(&mut self) -> Result<Checked> {
        let opened = opening::open(&self.device, &self.opening_options())?;
        let geometry = opened.volume.geometry().clone();
        let (mut findings, mut work, mut signature) = (Vec::new(), Work::default(), Signature::default());
        let mut take = |finding: Finding| {
            work.add(&finding, &geometry);
            signature.add(&finding);
            if findings.len() < MOST_REMAINING {
                findings.push(finding);
            }
            ControlFlow::Continue(())
        };
        for finding in opened.findings {
            let _ = take(finding);
        }
        let superblock = opened.volume.superblock();
        let inodes = superblock.inode_count.get().saturating_sub(superblock.free_inodes.get());
        (self.progress)(Event::Begin(Phase::Check { inodes: inodes.saturating_mul(2) }));
        let show = |inodes| (self.progress)(Event::Inodes(inodes));
        check_with_progress(
            &opened.volume,
            &CheckOptions { scan: self.options.scan, ..CheckOptions::default() },
            &show,
            &mut take,
        );
        self.findings.get_or_insert(signature.count);
        work.sort();
        work.judge_log();
        self.doubts.add(&work, geometry);
        Ok(Checked { volume: opened.volume, findings, work, signature })
    }

    /// Whether one of the actions from this one on is none of an earlier pass. They count as such from now on.
    fn has_done_new(&mut self, from: usize) -> bool {
        let mut is_new = false;
        for action in self.actions.iter().skip(from) {
            is_new |= self.done.insert(sum_of(action));
        }
        is_new
    }

    /// Inodes that actions from this one on have freed do not come back: what the log has of them is older.
    fn give_up_freed(&mut self, from: usize) {
        let freed = self.actions.iter().skip(from).filter_map(|action| match action {
            Action::UnlinkedFreed { inode } => Some(*inode),
            _ => None,
        });
        self.given_up.extend(freed);
    }

    /// The device with the log as it was found, where copies in it may be used.
    fn log(&self) -> Option<&'r dyn BlockDevice> {
        (!self.options.ignore_log_copies).then_some(self.original)
    }

    fn sources<'s>(
        &self,
        volume: &'s Volume,
        (given_up, unproved): (&'s BTreeSet<InodeNumber>, &'s BTreeSet<InodeNumber>),
    ) -> Sources<'s>
    where
        'r: 's,
    {
        let (log, scan) = (self.log(), self.options.scan);
        let is_reverse_map_remade = self.actions.iter().any(|action| matches!(action, Action::Group { .. }));
        Sources { volume, log, scan, given_up, unproved, is_reverse_map_remade, may_lack_extents: false }
    }

    fn pass(&mut self, before: Option<Signature>) -> Result<Pass> {
        let checked = self.check()?;
        let count = checked.count();
        let Checked { volume, findings, work, signature } = checked;
        let is_nothing_left = work.is_empty() && self.partial.is_empty() && self.unsettled.is_empty();
        if is_nothing_left || work.is_without_geometry || before == Some(signature) {
            return Ok(Pass::Done(findings));
        }
        let stage = self.stage(&volume);
        let actions_before = self.actions.len();
        if self.put_back(&volume, &stage, &work)? {
            return Ok(Pass::Changed(signature));
        }
        if work.log {
            // Metadata ahead of a sound log says the cycle.
            let is_unread = work.log_cycle == 0;
            if log::has_other_metadata(&volume) {
                return Ok(Pass::Done(findings));
            }
            let cycle = log::new_cycle(&volume, work.log_cycle);
            log::write_new(&stage, cycle, is_unread, &mut self.actions)?;
            // What was ahead of the old one is read from now on.
            return Ok(Pass::Changed(signature));
        }
        let may_be_outvoted = !work.superblock_copies.is_empty() || !work.internal_inodes.is_empty();
        if may_be_outvoted && self.follow_witnesses(&volume, &stage, count)? {
            return Ok(Pass::Changed(signature));
        }
        superblocks::write(&volume, &stage, &work, &mut self.actions)?;
        if work.superblock_fields {
            // Among them are the numbers of inodes, which the volume has from the superblock as it was.
            return Ok(Pass::Changed(signature));
        }
        if self.mend(&volume, &stage, &work)? {
            // What else is wrong may follow from these fields.
            return Ok(Pass::Changed(signature));
        }
        // What is ahead of the log is read all the same: extents that could not be read would be taken for free.
        volume.newest_lsn().set(Lsn::NULL);
        if self.rebuild_extent_maps(&volume, &stage, &work)? {
            // What else is wrong may follow from the old maps.
            return Ok(Pass::Changed(signature));
        }
        if work.has_space_work() {
            if extent_map::check::are_any_unknown(&volume, self.options.scan) {
                // They would become free.
                return Ok(Pass::Done(findings));
            }
            if self.repair_space(&volume, &stage, &work)? {
                return Ok(Pass::Changed(signature));
            }
        }
        // Names are gathered from inodes and groups that are sound.
        if self.actions.len() == actions_before && (work.has_name_work() || !self.partial.is_empty()) {
            self.repair_names(&volume, &stage, &work)?;
        }
        // What else is changed moves blocks.
        if self.actions.len() == actions_before {
            self.repair_quotas(&volume, &stage, &work)?;
        }
        let is_changed = self.actions.len() > actions_before;
        Ok(if is_changed { Pass::Changed(signature) } else { Pass::Done(findings) })
    }

    /// Returns whether any could be rebuilt.
    fn rebuild_extent_maps(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<bool> {
        if work.extent_maps.is_empty() {
            return Ok(false);
        }
        let before = self.actions.len();
        if extent_map::count_width::mend(stage, &work.extent_maps, &mut self.actions)? {
            return Ok(true);
        }
        // A reverse map that is older than the log does not say all.
        let unread = if work.older_groups.is_empty() { &self.unread } else { &work.extent_maps };
        let partial =
            extent_map::rebuild::rebuild(volume, stage, &work.extent_maps, unread, &mut self.actions)?;
        self.partial.extend(partial);
        Ok(self.actions.len() > before)
    }

    /// Inodes and groups. Gives whether extent maps were mended instead: what they tell would have become free.
    fn repair_space(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<bool> {
        (self.progress)(Event::Begin(Phase::Space));
        self.given_up.extend(&work.symlinks);
        let (given_up, unproved) = (self.given_up.clone(), self.unproved.clone());
        let before = self.actions.len();
        let sources = self.sources(volume, (&given_up, &unproved));
        let mut repaired = space::repair(sources, stage, work, &mut self.actions)?;
        self.partial.append(&mut repaired.partial);
        self.add_unproved(std::mem::take(&mut repaired.unproved));
        if self.actions.len() > before || repaired.unread.is_empty() {
            return Ok(false);
        }
        if self.mend_extent_maps(volume, stage, &repaired.unread)? {
            return Ok(true);
        }
        self.unread.extend(repaired.unread);
        let sources = Sources { may_lack_extents: true, ..sources };
        self.partial.extend(space::repair(sources, stage, work, &mut self.actions)?.partial);
        Ok(false)
    }

    /// What is known to the last bit: log sequence numbers, changed bits, writes that were lost. Gives whether there was any.
    fn put_back(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<bool> {
        let before = self.actions.len();
        for block in &work.absurd_lsns {
            lsn::clear(stage, block, &mut self.actions)?;
        }
        if work.primary_superblock {
            self.bit_flips.correct_superblock(stage, &mut self.actions)?;
        }
        self.bit_flips.correct(volume, stage, &work.suspects, Asked::Proof, &mut self.actions)?;
        if !work.older.is_empty() {
            let log = self.log();
            let older = (work.older.as_slice(), &self.given_up);
            older::bring_up_to_date(volume, stage, log, older, &mut self.actions)?;
        }
        if !work.contradicted.is_empty() {
            let log = self.log();
            told_by_log::follow(stage, log, &work.contradicted, &mut self.actions)?;
        }
        Ok(self.actions.len() > before)
    }

    /// Quota inodes, records and counts.
    fn repair_quotas(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<()> {
        let lost = work.quota.lost.union(&work.internal_inodes).copied().collect();
        if !quota::mend::forget_lost(volume, stage, &lost, &mut self.actions)? {
            quota::mend::mend(volume, stage, &work.quota, &mut self.actions)?;
        }
        Ok(())
    }

    /// Repairs inodes and file blocks in place: wrong fields, blocks copied from the log. Returns whether there were any.
    fn mend(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<bool> {
        // What a wrong map leads to is no damaged block. A reverse map that is older than the log is no witness.
        let log = self.log();
        let is_any = !work.contradicted_maps.is_empty();
        let rebuilt = self.actions.iter().filter(|_| is_any).filter_map(Action::rebuilt_inode).collect();
        if contradicted::follow_reverse_map(
            volume,
            stage,
            log,
            (&work.contradicted_maps, &self.unsettled, &rebuilt, &work.older_groups),
            &mut self.actions,
            &mut self.undecided_maps,
        )? {
            return Ok(true);
        }
        let budget = SearchBudget::new(stage.geometry());
        if attribute::leaf::contradicted::mend(volume, stage, &work.attributes, &budget, &mut self.actions)?
            || symlink::format::mend(stage, &work.symlinks, &mut self.actions)?
            || symlink::size::mend(volume, stage, &work.symlinks, &mut self.actions)?
        {
            return Ok(true);
        }
        let before = self.actions.len();
        let mut blocks = value_blocks::with_whole_values(volume, stage, &work.blocks);
        misplaced::put_home(volume, stage, work, &blocks, &mut self.actions)?;
        self.leave_out_mended(before, &mut blocks);
        block_fields::mend(volume, stage, &blocks, &budget, &mut self.actions)?;
        self.leave_out_mended(before, &mut blocks);
        if !blocks.is_empty() && !self.options.ignore_log_copies {
            log_copies::restore(volume, stage, self.original, &blocks, &mut self.actions)?;
        }
        if self.actions.len() > before {
            return Ok(true);
        }
        // What another damage may look like comes last.
        let (suspects, asked) = (&work.suspects, Asked::Likelihood);
        if self.bit_flips.correct(volume, stage, suspects, asked, &mut self.actions)?
            || block_fields::seal_again(volume, stage, &blocks, &mut self.actions)?
        {
            return Ok(true);
        }
        if extent_map::lengths::mend(volume, stage, work, &mut self.actions, &mut self.undecided_maps)?
            || attribute::lists::mend(stage, &work.attributes, &mut self.actions)?
            || attribute::lists::find_hidden(stage, &work.without_pointers, &mut self.actions)?
        {
            return Ok(true);
        }
        let (log, mut unproved) = (self.log(), BTreeSet::new());
        let is_mended = inode::mend::mend(volume, stage, work, log, &mut unproved, &mut self.actions)?;
        self.add_unproved(unproved);
        Ok(is_mended || self.settle_unproved(volume, stage, work)?)
    }

    /// Repairs extent-map blocks of these inodes in place; returns whether there were any.
    fn mend_extent_maps(
        &mut self,
        volume: &Volume,
        stage: &Stage,
        inodes: &BTreeSet<InodeNumber>,
    ) -> Result<bool> {
        let mut work = Work::default();
        extent_map::check::check_some(volume, inodes, self.options.scan, &mut |finding| {
            work.add(&finding, volume.geometry());
            ControlFlow::Continue(())
        });
        work.sort();
        Ok(self.put_back(volume, stage, &work)? || self.mend(volume, stage, &work)?)
    }

    /// Takes blocks from a list that actions since `before` have mended: the next witness is asked about the others only.
    fn leave_out_mended(&self, before: usize, blocks: &mut Vec<DamagedBlock>) {
        let mended: BTreeSet<Sector> =
            self.actions.iter().skip(before).filter_map(Action::mended_block).collect();
        blocks.retain(|block| !mended.contains(&block.sector));
    }

    fn finish(mut self, remaining: Vec<Finding>) -> Staged {
        self.add_doubts();
        loss::forget_made_again(&mut self.actions);
        let findings = self.findings.unwrap_or(0);
        Staged { overlay: self.overlay, filled: self.filled, actions: self.actions, findings, remaining }
    }
}

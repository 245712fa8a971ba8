//! Repair of a whole file system: witnesses first, decisions second, changes last.
//!
//! ```text
//! check ─▶ work: which objects contradict others ─▶ each is made anew from its witnesses, in the stage ─▶ check the stage …
//!     until nothing is found ─▶ the caller carries the stage to the device
//! ```
//!
//! Invariants:
//! 1. The device is only read. All changes are in the [`Stage`], whose base is the device.
//! 2. A pass that leaves the same work as the one before ends the repair: what is left is reported, and the caller writes nothing.
//!
//! | module | holds |
//! |---|---|
//! | here | the passes |
//! | [`action`] | what a repair does, in sentences |
//! | [`work`] | which objects have to be made anew |
//! | [`space`] | inodes and allocation groups |
//! | [`superblocks`] | superblocks and their counters |
//! | [`stage`] | where changes are kept until all of them have been checked |

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_filesystem::recovery;
use uxfs_journal::recovery::find_head_tail::LogState;
use uxfs_volume::{error::Result, inode::scan::ScanOptions, tolerant::SuperblockChoice, volume::Volume};

use crate::{
    check::{CheckOptions, check},
    finding::Finding,
    names::{self, decide::Decision, write::Changes},
    opening::{self, OpeningOptions},
};

pub mod action;
mod space;
pub(crate) mod stage;
mod superblocks;
pub(crate) mod work;

use action::Action;
use stage::Stage;
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
}

/// A repair that waits to be written.
#[derive(Debug)]
pub struct Staged {
    /// The device as it will be.
    pub overlay: Arc<OverlayDevice>,
    /// What was done, in order.
    pub actions: Vec<Action>,
    /// How many findings there were at first.
    pub findings: u64,
    /// Findings that are left, the first of them. Where there are any, the stage must not be written.
    pub remaining: Vec<Finding>,
}

/// Passes, at most: each repairs what the one before has made visible.
const MOST_PASSES: u32 = 12;
/// Remaining findings that are kept.
const MOST_REMAINING: usize = 1000;

/// Repairs the file system on `device` in an overlay. Nothing is written to the device.
///
/// # Errors
/// No superblock describes a file system; the device; temporary files.
pub fn repair(device: &Arc<dyn BlockDevice>, options: &RepairOptions) -> Result<Staged> {
    let overlay = Arc::new(OverlayDevice::new(Arc::clone(device)));
    let staged: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(&overlay);
    let mut repair = Repair { options, device: staged, overlay, actions: Vec::new(), findings: None };
    repair.replay_log()?;
    let mut before = None;
    for _ in 0..MOST_PASSES {
        let pass = repair.pass(before.as_ref())?;
        match pass {
            Pass::Done(remaining) => return Ok(repair.finish(remaining)),
            Pass::Changed(work) => before = Some(work),
        }
    }
    let (_, remaining, _) = repair.check()?;
    Ok(repair.finish(remaining))
}

enum Pass {
    /// Nothing more can be done; these findings are left.
    Done(Vec<Finding>),
    /// This was done.
    Changed(Work),
}

struct Repair<'r> {
    options: &'r RepairOptions,
    overlay: Arc<OverlayDevice>,
    /// The overlay.
    device: Arc<dyn BlockDevice>,
    actions: Vec<Action>,
    /// Of the first check.
    findings: Option<u64>,
}

impl Repair<'_> {
    fn opening_options(&self) -> OpeningOptions {
        OpeningOptions {
            cache_budget_bytes: self.options.cache_budget_bytes,
            superblock: self.options.superblock.clone(),
            ignore_log: false,
        }
    }

    /// A dirty log comes first: what it holds is newer than what lies on the device.
    fn replay_log(&mut self) -> Result<()> {
        let options = OpeningOptions { ignore_log: true, ..self.opening_options() };
        let volume = opening::open(&self.device, &options)?.volume;
        if !matches!(uxfs_journal::examine(self.device.as_ref(), volume.geometry()), Ok(LogState::Dirty(_))) {
            return Ok(());
        }
        let options = uxfs_engine::options::MountOptions {
            cache_budget_bytes: self.options.cache_budget_bytes,
            ..uxfs_engine::options::MountOptions::default()
        };
        // A log that cannot be recovered stays, and so does its finding.
        if let Ok(Some(recovered)) = recovery::recover(&self.device, &options, &mut ())
            && let Ok(report) = recovered.write()
        {
            self.actions.push(Action::LogReplayed { transactions: report.replay.transactions });
        }
        Ok(())
    }

    /// Opens the stage and checks it: the volume, the first findings, and the work that they make.
    fn check(&mut self) -> Result<(Volume, Vec<Finding>, Work)> {
        let opened = opening::open(&self.device, &self.opening_options())?;
        let geometry = opened.volume.geometry().clone();
        let (mut kept, mut work, mut count) = (Vec::new(), Work::default(), 0_u64);
        let mut take = |finding: Finding| {
            work.add(&finding, &geometry);
            count += 1;
            if kept.len() < MOST_REMAINING {
                kept.push(finding);
            }
            std::ops::ControlFlow::Continue(())
        };
        for finding in opened.findings {
            let _ = take(finding);
        }
        check(&opened.volume, &CheckOptions { scan: self.options.scan }, &mut take);
        self.findings.get_or_insert(count);
        Ok((opened.volume, kept, work))
    }

    fn pass(&mut self, before: Option<&Work>) -> Result<Pass> {
        let (volume, findings, work) = self.check()?;
        if work.is_empty() || before == Some(&work) {
            return Ok(Pass::Done(findings));
        }
        let stage = Stage::new(Arc::clone(&self.overlay), volume.geometry().clone());
        let actions_before = self.actions.len();
        superblocks::write(&volume, &stage, &work, &mut self.actions)?;
        let has_space_work = work.inodes || !work.groups.is_empty() || !work.inode_blocks.is_empty();
        if has_space_work {
            space::repair(&volume, &stage, &work, self.options.scan, &mut self.actions)?;
        }
        let has_name_work = work.names || !work.directories.is_empty() || !work.attributes.is_empty();
        if !has_space_work && has_name_work {
            self.repair_names(&volume, &stage, &work)?;
        }
        let is_changed = self.actions.len() > actions_before;
        Ok(if is_changed { Pass::Changed(work) } else { Pass::Done(findings) })
    }

    /// The tree of names, once all inodes and groups are sound.
    fn repair_names(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<()> {
        let gathered = names::gather::gather(volume, work);
        let decision = Decision::of(&gathered.facts);
        let changes = Changes::of(&gathered, &decision, work);
        if changes.is_empty(&decision, &gathered) {
            return Ok(());
        }
        if changes.write_inodes(volume, stage, &gathered, &decision)? {
            // The blocks of what was emptied are free now, and directories that were made again are in use.
            let options = OpeningOptions { ignore_log: true, ..self.opening_options() };
            let emptied = opening::open(&self.device, &options)?.volume;
            let groups = emptied.geometry().groups().collect();
            let work = Work { inodes: true, groups, ..Work::default() };
            space::repair(&emptied, stage, &work, self.options.scan, &mut Vec::new())?;
        }
        changes.write_names(stage, &gathered, &decision, &mut self.actions)
    }

    fn finish(self, remaining: Vec<Finding>) -> Staged {
        let findings = self.findings.unwrap_or(0);
        Staged { overlay: self.overlay, actions: self.actions, findings, remaining }
    }
}

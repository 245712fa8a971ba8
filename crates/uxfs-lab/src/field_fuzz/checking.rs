//! A damaged field before three judges: `xfs_repair -n`, the check, and `xfs_repair -n` again after the repair.
//!
//! Promises:
//! 1. The check has a finding wherever `xfs_repair -n` objects.
//! 2. Where a repair leaves nothing, `xfs_repair -n` is silent afterwards.
//! 3. The tree that the kernel reads is that of the sound image, in a repaired image and where nothing was found: all but what
//!    [`witness`](super::witness) lists.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use uxfs_block::device::BlockDevice;
use uxfs_repair::{
    CheckOptions, Finding, check,
    check::all,
    opening::{self, OpeningOptions},
    repair::{RepairOptions, Staged, repair},
};
use uxfs_testkit::{
    image::memory_folder,
    judges::Judge,
    limits::{Limits, run_limited},
    verdict::findings_in,
};
use uxfs_volume::inode::scan::ScanOptions;

use super::{
    plan::Damage,
    sparse_device::{DamagedImage, SparseImage},
    tree::{TreeFound, Truth},
};

const CACHE_BYTES: u64 = 16 << 20;
/// `xfs_repair` is killed after this; damage may send it far.
const JUDGE_LIMIT: Duration = Duration::from_secs(30);

/// A copy of a sound image, into which damage is written and taken out again.
#[derive(Debug)]
pub struct JudgedImage {
    base: Arc<SparseImage>,
    file: File,
    path: PathBuf,
    /// Where the kernel mounts it.
    truth: Option<Truth>,
    _folder: TempDir,
}

/// What is said about one damaged field.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Lines of `xfs_repair -n`; `None` where it crashed or was stopped.
    pub objections: Option<Vec<String>>,
    /// The findings of the check, as number and sentence; one where the image cannot be opened.
    pub findings: Vec<(u16, String)>,
    /// How the repair ended.
    pub repair: RepairEnd,
    /// The tree at the end, where nothing is said against the image any more.
    pub tree: TreeFound,
    /// Why the value of the field is lost with it, if it is.
    pub missing_witness: Option<&'static str>,
}

/// How a repair ended.
#[derive(Debug, Default)]
pub enum RepairEnd {
    /// There was nothing to do.
    #[default]
    Nothing,
    /// It failed: this is its error.
    Failed(String),
    /// It leaves findings, and so writes nothing: number and sentence of each.
    Left(Vec<(u16, String)>),
    /// It leaves nothing.
    Whole {
        /// What it did.
        actions: Vec<String>,
        /// Lines of `xfs_repair -n` afterwards; `None` where it crashed or was stopped.
        objections: Option<Vec<String>>,
    },
}

impl Judgement {
    /// The promise that is broken, if one is: its name and why.
    pub fn escape(&self) -> Option<(&'static str, String)> {
        let first = |lines: &Option<Vec<String>>| lines.as_ref().and_then(|lines| lines.first()).cloned();
        if self.findings.is_empty()
            && let Some(line) = first(&self.objections)
        {
            return Some(("unseen", line));
        }
        match &self.repair {
            RepairEnd::Whole { objections, actions } => {
                if let Some(line) = first(objections) {
                    return Some(("wrong-repair", format!("{line} (after: {})", actions.join("; "))));
                }
            }
            RepairEnd::Nothing if !self.findings.is_empty() => {
                return Some(("idle-repair", self.findings[0].1.clone()));
            }
            _ => {}
        }
        let loss = self.loss().filter(|_| self.missing_witness.is_none())?;
        let actions = match &self.repair {
            RepairEnd::Whole { actions, .. } => actions.join("; "),
            _ => return Some((LOSSES[1], loss.to_owned())),
        };
        Some((LOSSES[0], format!("{loss} (after: {actions})")))
    }

    /// In what the tree differs.
    fn loss(&self) -> Option<&str> {
        match &self.tree {
            TreeFound::Other(differences) => Some(differences),
            TreeFound::Same | TreeFound::NotAsked => None,
        }
    }

    /// The outcome in a word. [`LOSSLESS`] says which of them lose nothing.
    pub fn word(&self) -> &'static str {
        match (&self.objections, &self.repair) {
            (None, _) => UNJUDGED,
            (_, RepairEnd::Left(_) | RepairEnd::Failed(_)) => "not-repaired",
            _ if self.loss().is_some() => "without-witness",
            (Some(lines), _) if lines.is_empty() && self.findings.is_empty() => "harmless",
            (Some(lines), _) if lines.is_empty() => "repaired-stricter",
            _ => "repaired",
        }
    }

    /// What a reader of the report should know beside the outcome.
    pub fn remark(&self) -> Option<(&'static str, String)> {
        let said = |found: &(u16, String)| format!("{}: {}", found.0, found.1);
        match &self.repair {
            RepairEnd::Left(left) => Some(("left", left.first().map(said).unwrap_or_default())),
            RepairEnd::Failed(error) => Some(("failed", error.clone())),
            _ if self.loss().is_some() => {
                let (why, loss) = (self.missing_witness.unwrap_or_default(), self.loss().unwrap_or_default());
                Some(("without-witness", format!("{why}: {loss}")))
            }
            _ if self.objections.as_ref().is_some_and(Vec::is_empty) => {
                self.findings.first().map(|found| ("stricter", said(found)))
            }
            _ => None,
        }
    }
}

/// `xfs_repair -n` crashed.
pub const UNJUDGED: &str = "unjudged";
/// Escapes that are losses: another tree after a repair, and where nothing was found.
pub const LOSSES: [&str; 2] = ["lossy", "wrong-but-clean"];
/// Outcomes after which the whole tree is there.
pub const LOSSLESS: [&str; 3] = ["harmless", "repaired", "repaired-stricter"];

impl JudgedImage {
    /// A copy of this image.
    ///
    /// # Errors
    /// It cannot be written, or is not sound.
    pub fn new(base: Arc<SparseImage>) -> Result<Self> {
        let folder = tempfile::tempdir_in(memory_folder())?;
        let path = folder.path().join("image");
        let file = base.save(&path)?;
        let mut image = Self { base, file, path, truth: None, _folder: folder };
        let objections = image.objections()?;
        ensure!(objections == Some(Vec::new()), "the image is not sound: {objections:?}");
        image.truth = Truth::of(&image.path)?;
        Ok(image)
    }

    /// Judges a damage and its repair. The copy is sound again afterwards.
    ///
    /// # Errors
    /// The judge cannot be run, or the copy not be written.
    pub fn judge(&self, damage: &Damage<'_>) -> Result<Judgement> {
        let pieces = &damage.instance.pieces;
        let mut rest = damage.bytes.as_slice();
        for (offset, length) in pieces {
            let (piece, after) = rest.split_at(*length as usize);
            self.file.write_all_at(piece, *offset)?;
            rest = after;
        }
        let objections = self.objections()?;
        let device: Arc<dyn BlockDevice> =
            Arc::new(DamagedImage::new(Arc::clone(&self.base), pieces, &damage.bytes));
        let findings = findings_of(&device);
        let (repair, written) = self.repair(&device)?;
        let last = match &repair {
            RepairEnd::Whole { objections, .. } => objections,
            _ => &objections,
        };
        // Images that something is said against are not shown to the kernel.
        let tree = match (&self.truth, &repair, last) {
            (Some(truth), RepairEnd::Nothing | RepairEnd::Whole { .. }, Some(lines)) if lines.is_empty() => {
                truth.compare(&self.path)
            }
            _ => TreeFound::NotAsked,
        };
        let pieces = pieces.iter().map(|(offset, length)| (*offset, u64::from(*length)));
        for (offset, length) in pieces.chain(written) {
            let mut bytes = vec![0; length as usize];
            DamagedImage::sound(Arc::clone(&self.base)).read(offset, &mut bytes)?;
            self.file.write_all_at(&bytes, offset)?;
        }
        Ok(Judgement { objections, findings, repair, tree, missing_witness: damage.missing_witness })
    }

    /// Repairs, and has the result judged. Gives the ranges that the copy has from it.
    fn repair(&self, device: &Arc<dyn BlockDevice>) -> Result<(RepairEnd, Vec<(u64, u64)>)> {
        let options = RepairOptions {
            cache_budget_bytes: Some(CACHE_BYTES),
            scan: ScanOptions::in_order(),
            ..RepairOptions::default()
        };
        let staged = match repair(device, &options) {
            Ok(staged) => staged,
            Err(error) => return Ok((RepairEnd::Failed(error.to_string()), Vec::new())),
        };
        if staged.is_clean() {
            return Ok((RepairEnd::Nothing, Vec::new()));
        }
        let Staged { overlay, actions, remaining, .. } = staged;
        if !remaining.is_empty() {
            return Ok((RepairEnd::Left(remaining.iter().map(said).collect()), Vec::new()));
        }
        let written = overlay.runs(0);
        for (offset, length) in &written {
            let mut bytes = vec![0; *length as usize];
            overlay.read(*offset, &mut bytes)?;
            self.file.write_all_at(&bytes, *offset)?;
        }
        let actions = actions.iter().map(ToString::to_string).collect();
        Ok((RepairEnd::Whole { actions, objections: self.objections()? }, written))
    }

    /// Lines of `xfs_repair -n` about the copy; `None` where it crashes, or takes too long.
    fn objections(&self) -> Result<Option<Vec<String>>> {
        let limits = Limits { time: JUDGE_LIMIT, ..Limits::default() };
        let outcome = run_limited(Judge::XfsRepair.command().args(["-n", "-f"]).arg(&self.path), &limits)?;
        let mut lines = findings_in(&[outcome.stdout, outcome.stderr].concat());
        Ok(match outcome.code {
            Some(0) => {
                lines.retain(|line| !is_usual_in_first_superblock(line));
                Some(lines)
            }
            Some(code @ 1..=127) if !outcome.timed_out => {
                if lines.is_empty() {
                    lines.push(format!("exit code {code}"));
                }
                Some(lines)
            }
            _ => None,
        })
    }
}

/// Linux sets features of the log in the first superblock alone, as the log needs them: `xfs_repair` says how copies differ, and calls the
/// file system clean.
fn is_usual_in_first_superblock(line: &str) -> bool {
    line.starts_with("would sync log incompat feature") && line.ends_with(" != 0x0")
}

fn said(finding: &Finding) -> (u16, String) {
    (finding.number(), finding.to_string())
}

/// As `uxfs check` looks at an image.
fn findings_of(device: &Arc<dyn BlockDevice>) -> Vec<(u16, String)> {
    let options = OpeningOptions { cache_budget_bytes: Some(CACHE_BYTES), ..OpeningOptions::default() };
    let mut opened = match opening::open(device, &options) {
        Ok(opened) => opened,
        Err(error) => return vec![(0, error.to_string())],
    };
    let mut findings = std::mem::take(&mut opened.findings);
    check(
        &opened.volume,
        &CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() },
        &mut all(&mut findings),
    );
    findings.iter().map(said).collect()
}

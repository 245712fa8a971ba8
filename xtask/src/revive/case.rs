//! One case: a damaged copy for each repairer, and how much of the tree is there afterwards.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use uxfs_testkit::sparse;

use super::{
    catalogue::Kind,
    contents::Contents,
    damage::{Damage, Patch, Scene},
    repairers::Repairer,
    sample::{self, Sample},
    survival::{self, Known, Survival, Tree},
    work,
};

/// How a repair of one damaged image ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ending {
    /// Of the repairer.
    pub repairer: String,
    /// Runs that it took.
    pub runs: u32,
    /// Time of the runs.
    pub seconds: f64,
    /// Why it counts as not repaired.
    pub fault: Option<String>,
    /// It died, or said something untrue.
    pub broken_promise: Option<String>,
    /// Witnesses that were missing, as the repair says, and how often.
    pub missing_witnesses: BTreeMap<String, usize>,
    /// Of the repaired tree.
    pub survival: Option<Survival>,
    /// The kernel has worked on the repaired image.
    pub is_worked_on: bool,
}

impl Ending {
    fn is_lossless(&self) -> bool {
        self.survival.as_ref().is_some_and(Survival::is_lossless)
    }
}

/// One damage and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// Shape of the image.
    pub shape: String,
    /// Paths of the sound image.
    pub entries: usize,
    /// Name of the damage.
    pub kind: String,
    /// Number among the cases of its kind.
    pub number: usize,
    /// What was damaged, object by object.
    pub damage: Vec<String>,
    /// Why there was no such damage.
    pub skipped: Option<String>,
    /// One for each repairer.
    pub endings: Vec<Ending>,
}

/// What all cases share.
pub struct Bench<'a> {
    /// The sound image.
    pub sample: &'a Sample,
    /// Its bytes and objects.
    pub scene: &'a Scene<'a>,
    /// Where contents lie in it.
    pub contents: &'a Contents,
    /// Programs to be measured.
    pub repairers: &'a [Repairer],
    /// For the copies.
    pub work: &'a Path,
    /// Of all cases.
    pub seed: u64,
    /// Where damaged images stay whose repair lost something.
    pub keep: Option<&'a Path>,
    /// The kernel works on one repaired image of so many; on none where it is 0.
    pub work_every: u64,
    /// A command that also has to pass each repaired image.
    pub judge: Option<&'a Path>,
}

impl Bench<'_> {
    /// Runs one case.
    pub fn run(&self, kind: &Kind, number: usize) -> Result<Case> {
        let mut damage = Damage::new(self.scene, kind.seed(self.seed, number));
        let skipped = kind.damage(&mut damage, self.scene, &self.sample.truth)?;
        let mut case = Case {
            shape: self.sample.name.clone(),
            entries: self.sample.truth.len(),
            kind: kind.name.clone(),
            number,
            damage: damage.words,
            skipped,
            endings: Vec::new(),
        };
        let draw = kind.seed(self.seed, number) >> 7;
        let is_worked_on = draw.checked_rem(self.work_every) == Some(0);
        if case.skipped.is_none() {
            for repairer in self.repairers {
                let ending = self.repair(repairer, &damage.patches, is_worked_on.then_some(draw));
                let (ending, _) = ending.with_context(|| format!("{} case {number}", kind.name))?;
                case.endings.push(ending);
            }
            if let Some(keep) = self.keep.filter(|_| case.endings.iter().any(|ending| !ending.is_lossless()))
            {
                let path = keep.join(format!("{}-{number}.img", kind.name.replace('/', "-")));
                fs::create_dir_all(keep)?;
                sparse::copy(&self.sample.image, &path)?;
                apply(&path, &damage.patches)?;
            }
        }
        Ok(case)
    }

    /// Damages a copy, has it repaired and looks at it. With a seed for it the kernel works on the repaired image.
    pub fn repair(
        &self,
        repairer: &Repairer,
        patches: &[Patch],
        work: Option<u64>,
    ) -> Result<(Ending, Option<Tree>)> {
        let copy = tempfile::Builder::new().prefix("case-").tempdir_in(self.work)?;
        let image = copy.path().join("image");
        sparse::copy(&self.sample.image, &image)?;
        apply(&image, patches)?;
        let repaired = repairer.repair(&image)?;
        let mut ending = Ending {
            repairer: repairer.name().to_owned(),
            runs: repaired.runs,
            seconds: repaired.seconds,
            fault: repaired.fault,
            broken_promise: repaired.broken_promise,
            missing_witnesses: repaired.missing_witnesses,
            survival: None,
            is_worked_on: false,
        };
        let mut tree = None;
        if let (Some(judge), None) = (self.judge, &ending.fault) {
            ending.fault = complaint_of(judge, &image)?;
        }
        // The kernel is shown no image that a judge complains of.
        if ending.fault.is_none() {
            match sample::describe_repaired(&image) {
                Ok(manifest) => {
                    let found = tree.insert(Tree::new(&manifest));
                    let overwritten = self.contents.overwritten_by(patches);
                    let known = Known { overwritten, declared: repaired.declared };
                    ending.survival = Some(survival::compare(&self.sample.truth, found, &known));
                }
                Err(error) => ending.fault = Some(format!("the kernel cannot read it: {error:#}")),
            }
        }
        if let (Some(seed), None) = (work, &ending.fault) {
            ending.is_worked_on = true;
            if let Err(error) = work::work_on(&image, seed) {
                ending.broken_promise.get_or_insert(format!("the kernel worked on it: {error:#}"));
            }
        }
        fs::remove_file(&image)?;
        Ok((ending, tree))
    }
}

/// What a command says of an image that it does not pass.
fn complaint_of(judge: &Path, image: &Path) -> Result<Option<String>> {
    let output = Command::new(judge).arg(image).output().context("running the judge")?;
    let words = [output.stdout, output.stderr].concat();
    let words: Vec<_> = String::from_utf8_lossy(&words).lines().take(4).map(str::to_owned).collect();
    Ok((!output.status.success()).then(|| format!("{}: {}", judge.display(), words.join("; "))))
}

fn apply(image: &Path, patches: &[Patch]) -> Result<()> {
    let file = File::options().write(true).open(image)?;
    patches.iter().try_for_each(|patch| Ok(file.write_all_at(&patch.bytes, patch.offset_bytes)?))
}

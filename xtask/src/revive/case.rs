//! One case: a damaged copy for each repairer, and how much of the tree is there afterwards.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::{Context, Result};
use serde::Serialize;
use uxfs_testkit::sparse;

use super::{
    catalogue::Kind,
    damage::{Damage, Patch, Scene},
    repairers::Repairer,
    sample::{self, Sample},
    survival::{self, Survival, Tree},
};

/// How a repair of one damaged image ended.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Ending {
    /// Of the repairer.
    pub repairer: &'static str,
    /// Runs that it took.
    pub runs: u32,
    /// Time of the runs.
    pub seconds: f64,
    /// Why it counts as not repaired.
    pub fault: Option<String>,
    /// It died, or said something untrue.
    pub broken_promise: Option<String>,
    /// Of the repaired tree.
    pub survival: Option<Survival>,
}

impl Ending {
    fn is_lossless(&self) -> bool {
        self.survival.as_ref().is_some_and(Survival::is_lossless)
    }
}

/// One damage and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
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
    /// Programs to be measured.
    pub repairers: &'a [Repairer],
    /// For the copies.
    pub work: &'a Path,
    /// Of all cases.
    pub seed: u64,
    /// Where damaged images stay whose repair lost something.
    pub keep: Option<&'a Path>,
}

impl Bench<'_> {
    /// Runs one case.
    pub fn run(&self, kind: &Kind, number: usize) -> Result<Case> {
        let mut damage = Damage::new(self.scene, kind.seed(self.seed, number));
        let skipped = kind.damage(&mut damage, self.scene, &self.sample.truth)?;
        let mut case =
            Case { kind: kind.name.clone(), number, damage: damage.words, skipped, endings: Vec::new() };
        if case.skipped.is_none() {
            for repairer in self.repairers {
                let ending = self.repair(repairer, &damage.patches);
                case.endings.push(ending.with_context(|| format!("{} case {number}", kind.name))?);
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

    /// Damages a copy, has it repaired and looks at it.
    pub fn repair(&self, repairer: &Repairer, patches: &[Patch]) -> Result<Ending> {
        let copy = tempfile::Builder::new().prefix("case-").tempdir_in(self.work)?;
        let image = copy.path().join("image");
        sparse::copy(&self.sample.image, &image)?;
        apply(&image, patches)?;
        let repaired = repairer.repair(&image)?;
        let mut ending = Ending {
            repairer: repairer.name(),
            runs: repaired.runs,
            seconds: repaired.seconds,
            fault: repaired.fault,
            broken_promise: repaired.broken_promise,
            survival: None,
        };
        // The kernel is shown no image that the judge complains of.
        if ending.fault.is_none() {
            match sample::describe_repaired(&image) {
                Ok(manifest) => {
                    ending.survival = Some(survival::compare(&self.sample.truth, &Tree::new(&manifest)));
                }
                Err(error) => ending.fault = Some(format!("the kernel cannot read it: {error:#}")),
            }
        }
        fs::remove_file(&image)?;
        Ok(ending)
    }
}

fn apply(image: &Path, patches: &[Patch]) -> Result<()> {
    let file = File::options().write(true).open(image)?;
    patches.iter().try_for_each(|patch| Ok(file.write_all_at(&patch.bytes, patch.offset_bytes)?))
}

//! All that was measured, added up, and as a file.

use std::{collections::BTreeMap, fs::File, io::BufReader, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::{Case, Ending};

/// Endings of one repairer, added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Damaged images.
    pub cases: usize,
    /// Everything was there.
    pub lossless: usize,
    /// Of the others: everything was there, but some times differ.
    pub only_times: usize,
    /// Something was not.
    pub lossy: usize,
    /// The judge complains, or the kernel.
    pub not_repaired: usize,
    /// The repair died, hung or said something untrue.
    pub broken_promises: usize,
    /// Entries of the sound images.
    pub entries: usize,
    /// Of those, intact at their path. None of an image that was not repaired.
    pub intact: usize,
    /// Elsewhere.
    pub moved: usize,
    /// Different.
    pub changed: usize,
    /// Of those, unreadable.
    pub unreadable: usize,
    /// Of those, with wrong contents that can be read.
    pub wrong_bytes: usize,
    /// Of those, with contents that the damage has overwritten.
    #[serde(default)]
    pub overwritten: usize,
    /// Of the others, those of which the repair speaks.
    #[serde(default)]
    pub declared: usize,
    /// Of the others, those of which nothing tells.
    #[serde(default)]
    pub silently_wrong: usize,
    /// Gone, in repaired images.
    pub lost: usize,
    /// New paths.
    pub extra: usize,
    /// Images that the kernel has worked on.
    pub worked_on: usize,
    /// Time of the repairs.
    pub seconds: f64,
}

impl Tally {
    fn add(&mut self, ending: &Ending, entries: usize) {
        self.cases += 1;
        self.entries += entries;
        self.seconds += ending.seconds;
        self.worked_on += usize::from(ending.is_worked_on);
        self.broken_promises += usize::from(ending.broken_promise.is_some());
        let Some(survival) = &ending.survival else {
            self.not_repaired += 1;
            return;
        };
        if survival.is_lossless() {
            self.lossless += 1;
        } else if survival.is_lossless_but_for_times() {
            self.only_times += 1;
        } else {
            self.lossy += 1;
        }
        self.intact += survival.intact;
        self.moved += survival.moved;
        self.changed += survival.changed;
        self.unreadable += survival.unreadable;
        self.wrong_bytes += survival.wrong_bytes;
        self.overwritten += survival.overwritten;
        self.declared += survival.declared;
        self.silently_wrong += survival.silently_wrong();
        self.lost += survival.lost;
        self.extra += survival.extra;
    }

    /// Share of entries that are intact at their path, in percent.
    pub fn percent_intact(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { 100.0 * self.intact as f64 / self.entries as f64 }
    }
}

/// By repairer.
pub type Tallies = BTreeMap<String, Tally>;

/// Everything that is told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// `--seed`.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// The repairers, in the order of the columns.
    pub repairers: Vec<String>,
    /// Shapes that were not measured, and why.
    pub not_measured: BTreeMap<String, String>,
    /// By repairer.
    pub totals: Tallies,
    /// Every case.
    pub cases: Vec<Case>,
}

/// Adds up the endings of each repairer.
pub fn tally<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Tallies {
    let mut tallies = Tallies::new();
    for case in cases {
        for ending in &case.endings {
            tallies.entry(ending.repairer.clone()).or_default().add(ending, case.entries);
        }
    }
    tallies
}

impl Report {
    /// Writes it for programs.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(serde_json::to_writer_pretty(File::create(path)?, self)?)
    }

    /// Reads what earlier runs wrote, as one.
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut all = Self::default();
        for path in paths {
            let path = path.as_ref();
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let one: Self = serde_json::from_reader(BufReader::new(file))?;
            all.seed = one.seed;
            all.seconds += one.seconds;
            all.not_measured.extend(one.not_measured);
            let new = one.repairers.into_iter().filter(|name| !all.repairers.contains(name));
            let new: Vec<String> = new.collect();
            all.repairers.extend(new);
            all.cases.extend(one.cases);
        }
        all.totals = tally(&all.cases);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::survival::Survival;
    use super::*;

    fn ending(repairer: &str, survival: Option<Survival>) -> Ending {
        let fault = survival.is_none().then(|| "broken".to_owned());
        Ending { repairer: repairer.into(), survival, fault, ..Ending::default() }
    }

    fn case(kind: &str, endings: Vec<Ending>) -> Case {
        let (shape, entries, damage) = ("default".into(), 10, Vec::new());
        Case { shape, entries, kind: kind.into(), number: 0, damage, skipped: None, endings }
    }

    #[test]
    fn endings_are_counted() {
        let all = Survival { entries: 10, intact: 10, ..Survival::default() };
        let times = Survival { entries: 10, intact: 9, changed: 1, only_times: 1, ..Survival::default() };
        let part = Survival { entries: 10, intact: 5, lost: 3, moved: 2, ..Survival::default() };
        let cases = [
            case("a/zero/1", vec![ending("one", Some(all)), ending("two", Some(part))]),
            case("b/zero/1", vec![ending("one", Some(times)), ending("two", None)]),
        ];
        let tallies = tally(&cases);
        let (one, two) = (&tallies["one"], &tallies["two"]);
        assert_eq!((one.lossless, one.only_times, one.lossy, one.not_repaired), (1, 1, 0, 0));
        assert_eq!((two.lossless, two.only_times, two.lossy, two.not_repaired), (0, 0, 1, 1));
        assert!((one.percent_intact() - 95.0).abs() < 1e-9);
        // Nothing of an image that was not repaired is intact.
        assert!((two.percent_intact() - 25.0).abs() < 1e-9);
        assert_eq!((two.lost, two.moved), (3, 2));
    }

    #[test]
    fn reports_of_several_runs_become_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, shape) in ["default", "block-1k"].into_iter().enumerate() {
            let mut case = case("a/zero/1", vec![ending("one", None)]);
            case.shape = shape.into();
            let report = Report {
                seconds: 2.0,
                repairers: vec!["one".into()],
                cases: vec![case],
                ..Report::default()
            };
            let path = folder.path().join(number.to_string());
            report.write(&path).unwrap();
            paths.push(path);
        }
        let report = Report::read(&paths).unwrap();
        assert_eq!((report.cases.len(), report.totals["one"].not_repaired), (2, 2));
        assert_eq!(report.repairers, ["one"]);
        assert!((report.seconds - 4.0).abs() < 1e-9);
    }
}

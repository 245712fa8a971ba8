//! The table: one row for each kind of damage, the repairers side by side, and totals.

use std::{collections::BTreeMap, fmt::Write as _, fs::File, path::Path};

use anyhow::Result;
use serde::Serialize;

use super::{
    case::{Case, Ending},
    catalogue::Kind,
};

/// Endings of one repairer, added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Gone, in repaired images.
    pub lost: usize,
    /// New paths.
    pub extra: usize,
    /// Time of the repairs.
    pub seconds: f64,
}

impl Tally {
    fn add(&mut self, ending: &Ending, entries: usize) {
        self.cases += 1;
        self.entries += entries;
        self.seconds += ending.seconds;
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
        self.lost += survival.lost;
        self.extra += survival.extra;
    }

    /// Share of entries that are intact at their path, in percent.
    pub fn percent_intact(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { 100.0 * self.intact as f64 / self.entries as f64 }
    }

    fn cells(&self) -> String {
        format!(
            "{:>5}{:>6}{:>6}{:>6}{:>8.2}{:>7}{:>7}{:>7}",
            self.lossless,
            self.only_times,
            self.lossy,
            self.not_repaired,
            self.percent_intact(),
            self.moved,
            self.wrong_bytes,
            self.lost
        )
    }
}

/// A part of a kind's name.
type Part = fn(&Kind) -> &str;
/// By repairer.
type Tallies = BTreeMap<&'static str, Tally>;

/// Everything that is told.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `--seed`.
    pub seed: u64,
    /// The image's name.
    pub sample: String,
    /// Its paths.
    pub entries: usize,
    /// How long it took.
    pub seconds: f64,
    /// Every case.
    pub cases: Vec<Case>,
    /// By repairer.
    pub totals: Tallies,
}

/// Adds up the endings of each repairer.
pub fn tally<'a>(cases: impl IntoIterator<Item = &'a Case>, entries: usize) -> Tallies {
    let mut tallies = Tallies::new();
    for ending in cases.into_iter().flat_map(|case| &case.endings) {
        tallies.entry(ending.repairer).or_default().add(ending, entries);
    }
    tallies
}

impl Report {
    /// Writes it for programs.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(serde_json::to_writer_pretty(File::create(path)?, self)?)
    }

    /// The table of kinds, those by object type and by change, and the totals.
    pub fn table(&self, kinds: &[Kind], repairers: &[&'static str]) -> String {
        let mut text = header("damage", repairers);
        for kind in kinds {
            let cases = || self.cases.iter().filter(|case| case.kind == kind.name);
            let skipped = cases().find_map(|case| case.skipped.as_deref());
            match skipped {
                Some(reason) => _ = writeln!(text, "{:<36} skipped: {reason}", kind.name),
                None => self.row(&mut text, &kind.name, repairers, cases()),
            }
        }
        let parts: [(&str, Part); 2] = [("object", Kind::group), ("change", Kind::change)];
        for (title, part) in parts {
            text.push('\n');
            text.push_str(&header(title, repairers));
            for name in in_order(kinds.iter().map(part)) {
                let names: Vec<&str> =
                    kinds.iter().filter(|kind| part(kind) == name).map(|kind| kind.name.as_str()).collect();
                let cases = self.cases.iter().filter(|case| names.contains(&case.kind.as_str()));
                self.row(&mut text, name, repairers, cases);
            }
        }
        text.push('\n');
        self.row(&mut text, "all", repairers, &self.cases);
        for (repairer, tally) in &self.totals {
            let seconds = tally.seconds / (tally.cases.max(1) as f64);
            let _ = writeln!(
                text,
                "{repairer}: {} cases, {} changed ({} unreadable) and {} new paths, {} broken promises, {seconds:.2} s a repair",
                tally.cases, tally.changed, tally.unreadable, tally.extra, tally.broken_promises,
            );
        }
        text.push_str(&self.complaints());
        text
    }

    fn row<'a>(
        &self,
        text: &mut String,
        name: &str,
        repairers: &[&'static str],
        cases: impl IntoIterator<Item = &'a Case>,
    ) {
        let tallies = tally(cases, self.entries);
        let count = tallies.values().map(|tally| tally.cases).max().unwrap_or(0);
        let _ = write!(text, "{name:<36}{count:>5}");
        for repairer in repairers {
            let cells = tallies.get(repairer).map_or_else(|| "-".to_owned(), Tally::cells);
            let _ = write!(text, " |{cells:<52}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }

    /// Images that were not repaired, and promises that were broken.
    fn complaints(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            for ending in &case.endings {
                let told = [("not repaired", &ending.fault), ("BROKEN PROMISE", &ending.broken_promise)];
                for (word, reason) in told {
                    if let Some(reason) = reason {
                        let (kind, number, repairer) = (&case.kind, case.number, ending.repairer);
                        let _ = writeln!(text, "{word}: {kind} case {number}, {repairer}: {reason}");
                    }
                }
            }
        }
        text
    }
}

fn header(title: &str, repairers: &[&'static str]) -> String {
    let mut text = format!("{:<36}{:>5}", "", "");
    repairers.iter().for_each(|repairer| _ = write!(text, " |{repairer:^52}"));
    text.truncate(text.trim_end().len());
    let _ = write!(text, "\n{title:<36}{:>5}", "cases");
    for _ in repairers {
        let _ = write!(
            text,
            " |{:>5}{:>6}{:>6}{:>6}{:>8}{:>7}{:>7}{:>7}",
            "full", "times", "lossy", "none", "intact%", "moved", "wrong", "lost"
        );
    }
    text.push('\n');
    text
}

/// Each word once, in the order in which they come first.
fn in_order<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::survival::Survival;
    use super::*;

    fn ending(repairer: &'static str, survival: Option<Survival>) -> Ending {
        let fault = survival.is_none().then(|| "broken".to_owned());
        Ending { repairer, survival, fault, ..Ending::default() }
    }

    fn case(kind: &str, endings: Vec<Ending>) -> Case {
        Case { kind: kind.into(), number: 0, damage: Vec::new(), skipped: None, endings }
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
        let tallies = tally(&cases, 10);
        let (one, two) = (&tallies["one"], &tallies["two"]);
        assert_eq!((one.lossless, one.only_times, one.lossy, one.not_repaired), (1, 1, 0, 0));
        assert_eq!((two.lossless, two.only_times, two.lossy, two.not_repaired), (0, 0, 1, 1));
        assert!((one.percent_intact() - 95.0).abs() < 1e-9);
        // Nothing of an image that was not repaired is intact.
        assert!((two.percent_intact() - 25.0).abs() < 1e-9);
        assert_eq!((two.lost, two.moved), (3, 2));
    }

    #[test]
    fn rows_come_in_the_order_of_the_catalogue() {
        assert_eq!(in_order(["b", "a", "b", "c"].into_iter()), ["b", "a", "c"]);
    }
}

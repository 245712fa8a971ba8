//! The tables for a terminal: one row for each kind of damage, object and change, the repairers side by side.

use std::fmt::Write as _;

use super::{
    case::Case,
    classes::part,
    report::{Report, Tally, tally},
};

/// What a row is about, of a kind's name.
type RowOf = fn(&str) -> &str;

/// The tables, and what is to be said of single cases.
pub fn text(report: &Report) -> String {
    let mut text = header("damage", &report.repairers);
    let kinds = in_order(report.cases.iter().map(|case| case.kind.as_str()));
    for kind in &kinds {
        let cases: Vec<&Case> = report.cases.iter().filter(|case| case.kind == *kind).collect();
        match cases.iter().map(|case| case.skipped.as_deref()).collect::<Option<Vec<_>>>() {
            Some(reasons) => {
                let reason = reasons.first().copied().unwrap_or_default();
                _ = writeln!(text, "{kind:<36} skipped: {reason}");
            }
            None => row(&mut text, kind, report, cases),
        }
    }
    let parts: [(&str, RowOf); 2] = [("object", |kind| part(kind, 0)), ("change", |kind| part(kind, 1))];
    for (title, row_of) in parts {
        text.push('\n');
        text.push_str(&header(title, &report.repairers));
        for name in in_order(kinds.iter().map(|kind| row_of(kind))) {
            row(&mut text, name, report, report.cases.iter().filter(|case| row_of(&case.kind) == name));
        }
    }
    text.push('\n');
    row(&mut text, "all", report, &report.cases);
    for repairer in &report.repairers {
        let Some(tally) = report.totals.get(repairer) else { continue };
        let seconds = tally.seconds / (tally.cases.max(1) as f64);
        let _ = writeln!(
            text,
            "{repairer}: {} cases, {} changed ({} unreadable, {} overwritten by the damage, {} with contents that the \
             repair calls doubtful) and {} new paths, {} broken promises, the kernel worked on {}, \
             {seconds:.2} s a repair",
            tally.cases,
            tally.changed,
            tally.unreadable,
            tally.overwritten,
            tally.declared,
            tally.extra,
            tally.broken_promises,
            tally.worked_on,
        );
    }
    text.push_str(&complaints(report));
    text
}

fn row<'a>(text: &mut String, name: &str, report: &Report, cases: impl IntoIterator<Item = &'a Case>) {
    let tallies = tally(cases);
    let count = tallies.values().map(|tally| tally.cases).max().unwrap_or(0);
    let _ = write!(text, "{name:<36}{count:>5}");
    for repairer in &report.repairers {
        let cells = tallies.get(repairer).map_or_else(|| "-".to_owned(), cells);
        let _ = write!(text, " |{cells:<52}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

fn cells(tally: &Tally) -> String {
    format!(
        "{:>5}{:>6}{:>6}{:>6}{:>8.2}{:>7}{:>7}{:>7}",
        tally.lossless,
        tally.only_times,
        tally.lossy,
        tally.not_repaired,
        tally.percent_intact(),
        tally.moved,
        tally.silently_wrong,
        tally.lost
    )
}

/// Images that were not repaired, and promises that were broken.
fn complaints(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        for ending in &case.endings {
            let told = [("not repaired", &ending.fault), ("BROKEN PROMISE", &ending.broken_promise)];
            for (word, reason) in told {
                if let Some(reason) = reason {
                    let Case { shape, kind, number, .. } = case;
                    let repairer = &ending.repairer;
                    let _ = writeln!(text, "{word}: {shape}, {kind} case {number}, {repairer}: {reason}");
                }
            }
        }
    }
    for (shape, reason) in &report.not_measured {
        let _ = writeln!(text, "not measured: {shape}: {reason}");
    }
    text
}

fn header(title: &str, repairers: &[String]) -> String {
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
pub fn in_order<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = std::collections::HashSet::new();
    words.filter(|word| seen.insert(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_the_catalogue() {
        assert_eq!(in_order(["b", "a", "b", "c"].into_iter()), ["b", "a", "c"]);
    }
}

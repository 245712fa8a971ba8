//! Compact tables for pages, in Markdown: by class of damage, by shape, and the kinds of damage that lose something, with
//! the witnesses that were missing.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    case::Case,
    classes::{CLASSES, class_of},
    report::{Report, Tallies, Tally, tally},
    table::in_order,
};

/// Reasons that are shown of each kind.
const REASONS: usize = 4;

/// The classes of damage.
pub fn classes(report: &Report) -> String {
    let rows = CLASSES.iter().map(|(class, _)| {
        let cases = report.cases.iter().filter(|case| class_of(&case.kind) == *class);
        ((*class).to_owned(), tally(cases))
    });
    table("damage to", report, rows)
}

/// One line that says what each repairer did.
pub fn closing(report: &Report) -> String {
    let repairers = report.repairers.iter().filter_map(|repairer| {
        let tally = report.totals.get(repairer)?;
        Some(format!(
            "{repairer}: {} damages, {} % of the paths intact, {} images not repaired, {} files silently wrong, {} broken promises",
            tally.cases,
            percent(tally),
            tally.not_repaired,
            tally.silently_wrong,
            tally.broken_promises
        ))
    });
    let repairers: Vec<String> = repairers.collect();
    format!("{}; {:.0} s", repairers.join("; "), report.seconds)
}

/// Promises of `uxfs repair` that were broken.
pub fn promises_broken_by_uxfs(report: &Report) -> usize {
    let totals = report.totals.iter().filter(|(repairer, _)| repairer.starts_with("uxfs"));
    totals.map(|(_, tally)| tally.broken_promises).sum()
}

/// The shapes.
pub fn shapes(report: &Report) -> String {
    let shapes = in_order(report.cases.iter().map(|case| case.shape.as_str()));
    let rows = shapes
        .into_iter()
        .map(|shape| (shape.to_owned(), tally(report.cases.iter().filter(|case| case.shape == shape))));
    table("shape", report, rows)
}

fn table(title: &str, report: &Report, rows: impl Iterator<Item = (String, Tallies)>) -> String {
    let mut text = format!("| {title} | damages |");
    let mut line = "|---|---|".to_owned();
    for repairer in &report.repairers {
        let _ = write!(text, " {repairer} | nothing lost | not repaired |");
        line.push_str("---|---|---|");
    }
    let _ = writeln!(text, "\n{line}");
    for (name, tallies) in rows.chain([("all".to_owned(), report.totals.clone())]) {
        let count = tallies.values().map(|tally| tally.cases).max().unwrap_or(0);
        if count == 0 {
            continue;
        }
        let _ = write!(text, "| {name} | {count} |");
        for repairer in &report.repairers {
            let _ = match tallies.get(repairer) {
                Some(tally) => {
                    let (percent, lossless) = (percent(tally), tally.lossless);
                    write!(text, " {percent} | {lossless} | {} |", tally.not_repaired)
                }
                None => write!(text, " | | |"),
            };
        }
        text.push('\n');
    }
    text
}

/// Never rounded up to 100.
pub fn percent(tally: &Tally) -> String {
    if tally.intact == tally.entries && tally.entries > 0 {
        return "100".to_owned();
    }
    let digits = if tally.percent_intact() < 99.0 { 1 } else { 3 };
    let scale = 10_f64.powi(digits);
    format!("{:.*}", digits as usize, (tally.percent_intact() * scale).floor() / scale)
}

/// Losses of one kind of damage by one repairer.
#[derive(Default)]
struct Loss {
    cases: usize,
    lost: usize,
    moved: usize,
    overwritten: usize,
    declared: usize,
    silently_wrong: usize,
    otherwise: usize,
    not_repaired: usize,
    reasons: BTreeMap<String, usize>,
}

/// The kinds of damage of which `uxfs repair` does not bring everything back.
pub fn losses(report: &Report) -> String {
    let mut text = String::new();
    for repairer in report.repairers.iter().filter(|repairer| repairer.starts_with("uxfs")) {
        let _ = writeln!(
            text,
            "\nstill lossy, {repairer}: entries of all cases, and which witnesses were missing"
        );
        for kind in in_order(report.cases.iter().map(|case| case.kind.as_str())) {
            let loss = loss(report.cases.iter().filter(|case| case.kind == kind), repairer);
            if loss.cases > 0 {
                let _ = writeln!(text, "{}", line(kind, &loss));
            }
        }
    }
    text
}

fn loss<'a>(cases: impl Iterator<Item = &'a Case>, repairer: &str) -> Loss {
    let mut loss = Loss::default();
    for ending in cases.flat_map(|case| &case.endings).filter(|ending| ending.repairer == repairer) {
        let Some(survival) = &ending.survival else {
            loss.cases += 1;
            loss.not_repaired += 1;
            continue;
        };
        if survival.is_lossless() {
            continue;
        }
        loss.cases += 1;
        loss.lost += survival.lost;
        loss.moved += survival.moved;
        loss.overwritten += survival.overwritten;
        loss.declared += survival.declared;
        loss.silently_wrong += survival.silently_wrong();
        loss.otherwise += survival.changed - survival.wrong_bytes;
        for (reason, count) in &ending.missing_witnesses {
            *loss.reasons.entry(reason.clone()).or_default() += count;
        }
    }
    loss
}

fn line(kind: &str, loss: &Loss) -> String {
    let counts = [
        (loss.not_repaired, "images not repaired"),
        (loss.lost, "lost"),
        (loss.moved, "in lost+found"),
        (loss.silently_wrong, "with wrong contents"),
        (loss.declared, "with contents that the repair calls doubtful"),
        (loss.overwritten, "with contents that the damage overwrote"),
        (loss.otherwise, "otherwise changed"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut reasons: Vec<_> = loss.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let reasons: Vec<String> =
        reasons.iter().take(REASONS).map(|(reason, count)| format!("{reason} ({count})")).collect();
    let cases = if loss.cases == 1 { "case" } else { "cases" };
    format!("  {kind}: {} {cases}, {}; {}", loss.cases, counts.join(", "), reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_not_rounded_up() {
        let of = |intact| percent(&Tally { entries: 1_000_000, intact, ..Tally::default() });
        assert_eq!(of(1_000_000), "100");
        assert_eq!(of(999_999), "99.999");
        assert_eq!(of(989_999), "98.9");
    }
}

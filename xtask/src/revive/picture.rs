//! A picture of the table: for each class of damage a bar of each repairer, as SVG.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Result;

use super::{
    classes::{CLASSES, class_of},
    report::{Report, Tallies, Tally, tally},
    summary::percent,
};

const WIDTH: usize = 900;
/// Where bars begin, and how long one of 100 % is.
const BARS_X: usize = 300;
const BARS_LENGTH: f64 = 380.0;
const BAR_HEIGHT: usize = 13;
const ROW_GAP: usize = 16;
const TOP: usize = 100;
const BOTTOM: usize = 48;
/// Of the repairers, in order of the legend.
const COLOURS: [&str; 3] = ["#b9bec6", "#2f6fdb", "#7fb0f5"];

/// Writes the picture of a report.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    Ok(fs::write(path, draw(report))?)
}

fn draw(report: &Report) -> String {
    let rows: Vec<(&str, usize, Tallies)> = CLASSES
        .iter()
        .map(|(class, _)| (*class, tally(report.cases.iter().filter(|case| class_of(&case.kind) == *class))))
        .chain([("all", report.totals.clone())])
        .map(|(class, tallies)| {
            (class, tallies.values().map(|tally| tally.cases).max().unwrap_or(0), tallies)
        })
        .filter(|(_, cases, _)| *cases > 0)
        .collect();
    let row_height = report.repairers.len() * BAR_HEIGHT + ROW_GAP;
    let height = TOP + rows.len() * row_height + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    text(
        &mut svg,
        (20, 32),
        "font-size=\"19\" font-weight=\"bold\"",
        "What is still there after damage and repair",
    );
    text(
        &mut svg,
        (20, 52),
        "fill=\"#555555\"",
        "Entries intact at their path: type, contents, mode, owner, times and attributes as before, in per cent",
    );
    legend(&mut svg, report);
    grid(&mut svg, height);
    for (index, (class, cases, tallies)) in rows.iter().enumerate() {
        let top = TOP + index * row_height;
        row(&mut svg, report, (class, *cases, tallies), top);
    }
    let damages = rows.last().map_or(0, |(_, cases, _)| *cases);
    let note = format!("{damages} damages of an image of 512 MiB; cargo xtask revive --seed {}", report.seed);
    text(&mut svg, (20, height - 16), "fill=\"#777777\" font-size=\"11\"", &note);
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, report: &Report) {
    let mut x = 20;
    for (repairer, colour) in report.repairers.iter().zip(COLOURS) {
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"66\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        text(svg, (x + 18, 77), "fill=\"#333333\"", repairer);
        x += 40 + repairer.len() * 8;
    }
    text(svg, (x, 77), "fill=\"#c0392b\"", "images that were not repaired");
}

fn grid(svg: &mut String, height: usize) {
    for step in 0..=4 {
        let x = BARS_X as f64 + BARS_LENGTH * f64::from(step) / 4.0;
        let (top, bottom) = (TOP - 6, height - BOTTOM);
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" fill=\"#777777\" font-size=\"11\">{}</text>",
            bottom + 14,
            step * 25
        );
    }
}

fn row(svg: &mut String, report: &Report, (class, cases, tallies): (&str, usize, &Tallies), top: usize) {
    let middle = top + report.repairers.len() * BAR_HEIGHT / 2;
    let weight = if class == "all" { "font-weight=\"bold\"" } else { "" };
    let anchor = BARS_X - 10;
    let damages = if cases == 1 { "damage" } else { "damages" };
    let _ = writeln!(
        svg,
        "<text x=\"{anchor}\" y=\"{middle}\" text-anchor=\"end\" {weight} fill=\"#222222\">{class}</text>\
         <text x=\"{anchor}\" y=\"{}\" text-anchor=\"end\" fill=\"#777777\" font-size=\"11\">{cases} {damages}</text>",
        middle + 13
    );
    for (index, (repairer, colour)) in report.repairers.iter().zip(COLOURS).enumerate() {
        if let Some(tally) = tallies.get(repairer) {
            bar(svg, tally, colour, top + index * BAR_HEIGHT);
        }
    }
}

fn bar(svg: &mut String, tally: &Tally, colour: &str, y: usize) {
    let length = BARS_LENGTH * tally.percent_intact() / 100.0;
    let _ = writeln!(
        svg,
        "<rect x=\"{BARS_X}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>",
        BAR_HEIGHT - 2
    );
    let x = BARS_X + BARS_LENGTH as usize + 12;
    text(svg, (x, y + 10), "font-size=\"12\" fill=\"#222222\"", &percent(tally));
    if tally.not_repaired > 0 {
        let note = format!("{} of {} not repaired", tally.not_repaired, tally.cases);
        text(svg, (x + 56, y + 10), "font-size=\"12\" fill=\"#c0392b\"", &note);
    }
}

fn text(svg: &mut String, (x, y): (usize, usize), style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {style}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::super::{
        case::{Case, Ending},
        survival::Survival,
    };
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        let survival = Some(Survival { entries: 4, intact: 1, ..Survival::default() });
        let ending = Ending { repairer: "xfs_repair".into(), survival, ..Ending::default() };
        let case = Case {
            shape: "default".into(),
            entries: 4,
            kind: "agf/zero/1".into(),
            number: 0,
            damage: Vec::new(),
            skipped: None,
            endings: vec![ending],
        };
        let cases = vec![case];
        let totals = tally(&cases);
        let report = Report { repairers: vec!["xfs_repair".into()], cases, totals, ..Report::default() };
        let svg = draw(&report);
        assert_eq!(svg.matches("width=\"95.0\"").count(), 2, "{svg}");
        assert!(svg.contains(">25.0<") && svg.contains("superblocks and headers of groups"));
    }
}

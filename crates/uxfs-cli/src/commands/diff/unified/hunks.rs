//! Changes with the lines around them, as `diff -u` writes them.

use std::{
    io::{self, Write},
    ops::Range,
};

use super::{
    super::both::Both,
    changes::{Change, Changes},
    lines::Lines,
};

/// Behind a last line without a newline.
const NO_NEWLINE: &[u8] = b"\n\\ No newline at end of file\n";

/// Writes all changes, with so many lines around each.
///
/// # Errors
/// The output.
pub(super) fn write_hunks(
    output: &mut dyn Write,
    lines: &Both<Lines>,
    changes: &Changes,
    context_lines: usize,
) -> io::Result<()> {
    let mut hunk: Vec<Change> = Vec::new();
    for change in changes.iter() {
        let equal_lines = hunk.last().map_or(0, |last| change.first.start.saturating_sub(last.first.end));
        if equal_lines > context_lines.saturating_mul(2) {
            write_hunk(output, lines, &hunk, context_lines)?;
            hunk.clear();
        }
        hunk.push(change);
    }
    write_hunk(output, lines, &hunk, context_lines)
}

fn write_hunk(
    output: &mut dyn Write,
    lines: &Both<Lines>,
    hunk: &[Change],
    context_lines: usize,
) -> io::Result<()> {
    let (Some(begin), Some(end)) = (hunk.first(), hunk.last()) else { return Ok(()) };
    let before = context_lines.min(begin.first.start);
    let behind = context_lines.min(lines.first.len().saturating_sub(end.first.end));
    let range = |begin: &Range<usize>, end: &Range<usize>| {
        begin.start.saturating_sub(before)..end.end.saturating_add(behind)
    };
    let (first, second) = (range(&begin.first, &end.first), range(&begin.second, &end.second));
    writeln!(output, "@@ -{} +{} @@", place(&first), place(&second))?;
    let mut at = first.start;
    for change in hunk {
        write_lines(output, b" ", &lines.first, at..change.first.start)?;
        write_lines(output, b"-", &lines.first, change.first.clone())?;
        write_lines(output, b"+", &lines.second, change.second.clone())?;
        at = change.first.end;
    }
    write_lines(output, b" ", &lines.first, at..first.end)
}

/// The number of the first line, and how many there are. No lines come behind the line of that number.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start.saturating_add(1)),
        count => format!("{},{count}", lines.start.saturating_add(1)),
    }
}

fn write_lines(output: &mut dyn Write, sign: &[u8], lines: &Lines, range: Range<usize>) -> io::Result<()> {
    for index in range {
        let line = lines.get(index);
        output.write_all(sign)?;
        match line.strip_suffix(b"\n") {
            // In one piece: on a terminal it is looked at as a whole.
            Some(text) => {
                output.write_all(text)?;
                output.write_all(b"\n")?;
            }
            None => {
                output.write_all(line)?;
                output.write_all(NO_NEWLINE)?;
            }
        }
    }
    Ok(())
}

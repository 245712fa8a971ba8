//! `--html FILE`: the image as a page, block by block, with its damage.
//!
//! The page is one file that works offline. Names and paths come from the image and may be anything: they are in the page as JSON without
//! any character that could end it, and its script shows them as text only. Its size is bounded whatever the image is.
//!
//! | module | holds |
//! |---|---|
//! | [`cells`] | what the blocks of the image are used for, cell by cell |

mod cells;

use std::{collections::BTreeMap, io, path::Path};

use serde_json::{Value as Json, json};
use uxfs_format::{geometry::Geometry, units::InodeNumber};
use uxfs_repair::{BlockKind, CheckSummary, Finding};

pub use self::cells::Cells;
use crate::{
    destination::Replacement,
    failure::Failure,
    overwrite::{self, Input, Product},
};

/// Findings that are told in full; of further ones the page has only the number in each cell.
const MOST_FINDINGS: usize = 2000;
/// Bytes of a sentence or a path.
const MOST_TEXT_BYTES: usize = 2000;
/// The page without its data.
const PAGE: &str = include_str!("page.html");
/// Where the data go.
const DATA: &str = "@DATA@";

/// The findings for the page.
#[derive(Debug)]
pub struct Page {
    file: Replacement,
    image: String,
    geometry: Geometry,
    /// Of the same form as those that are filled.
    cells: Cells,
    findings: Vec<Json>,
    left_out: u64,
    /// How many more findings a cell has than the one before it, those that are left out included.
    changes: BTreeMap<u32, i64>,
}

impl Page {
    /// A page that will be in `file`.
    ///
    /// # Errors
    /// The file is an input, or holds something else than a page; it cannot be made, or is no file that a page can be in.
    pub fn new(
        file: &Path,
        (image, inputs): (&Path, &[Input<'_>]),
        geometry: &Geometry,
    ) -> Result<Self, Failure> {
        overwrite::refuse_or_other(file, inputs, Product::Page)?;
        Ok(Self {
            file: Replacement::of(file)?,
            image: image.display().to_string(),
            geometry: geometry.clone(),
            cells: Cells::new(geometry),
            findings: Vec::new(),
            left_out: 0,
            changes: BTreeMap::new(),
        })
    }

    /// Adds a finding with the paths of its inodes.
    pub fn add(&mut self, finding: &Finding, paths: &[(InodeNumber, Vec<Vec<u8>>)]) {
        let place = finding.place(&self.geometry);
        let cells = place.map(|place| self.cells.cells_of(&place));
        if let Some((first, last)) = cells {
            *self.changes.entry(first).or_default() += 1;
            *self.changes.entry(last.saturating_add(1)).or_default() -= 1;
        }
        if self.findings.len() >= MOST_FINDINGS {
            self.left_out += 1;
            return;
        }
        let paths = paths.iter().flat_map(|(inode, paths)| {
            paths.iter().map(move |path| format!("inode {inode} is {}", shortened(path)))
        });
        self.findings.push(json!({
            "number": finding.number(),
            "severity": finding.severity().name(),
            "message": shortened(finding.to_string().as_bytes()),
            "paths": paths.collect::<Vec<_>>(),
            "cells": cells.map(|(first, last)| [first, last]),
            "group": place.map(|place| place.group.get()),
            "block": place.map(|place| place.start.get()),
            "blocks": place.map(|place| place.length_blocks),
        }));
    }

    /// Writes the page: whole or not at all, where it is a regular file.
    ///
    /// # Errors
    /// The host.
    pub fn write(self, cells: &Cells, summary: &CheckSummary) -> io::Result<()> {
        let kinds = BlockKind::ALL.map(name);
        let document = json!({
            "image": self.image,
            "block_size_bytes": self.geometry.block_size_bytes,
            "inodes": summary.inodes,
            "blocks_in_use": summary.blocks_in_use,
            "kinds": kinds,
            "cells": cells.document(),
            "findings": self.findings,
            "left_out": self.left_out,
            "changes": self.changes.iter().map(|(cell, change)| json!([cell, change])).collect::<Vec<_>>(),
        });
        let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
        let page = [before, &without_markup(&document.to_string()), after].concat();
        self.file.write(page.as_bytes())
    }
}

fn name(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Free => "free",
        BlockKind::Headers => "headers",
        BlockKind::Log => "log",
        BlockKind::Btrees => "btrees",
        BlockKind::Inodes => "inodes",
        BlockKind::Data => "data",
        BlockKind::Directories => "directories",
        BlockKind::Attributes => "attributes",
        BlockKind::CopyOnWrite => "copy on write",
    }
}

fn shortened(bytes: &[u8]) -> String {
    match bytes.get(..MOST_TEXT_BYTES) {
        Some(begin) if bytes.len() > MOST_TEXT_BYTES => format!("{}…", String::from_utf8_lossy(begin)),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// JSON in which no character means anything to HTML or ends a line of a script. All of these are within strings.
fn without_markup(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<'
            | '>'
            | '&'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{7f}'..='\u{9f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                text.push_str(&format!("\\u{:04x}", character as u32));
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_data_of_the_page() {
        let hostile = "</script><script>alert(1)</script><!-- \u{2028} & \u{202e}";
        let text = without_markup(&json!({ "message": hostile }).to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{202e}']), "{text}");
        let back: Json = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(back["message"], hostile);
        assert_eq!(PAGE.matches(DATA).count(), 1);
    }
}

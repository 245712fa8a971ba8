//! Findings as text and as JSON.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value as Json, json};
use uxfs_filesystem::recovery::RecoveryReport;
use uxfs_format::{
    fault::{Fault, HeaderFault},
    geometry::Geometry,
    units::{AgNumber, InodeNumber},
};
use uxfs_repair::{
    CheckSummary, Finding,
    finding::{
        fields::{Fields, Object, Value},
        severity::Severity,
    },
};

use super::page::{Cells, Page};
use crate::{
    counted_kinds::{Amount, CountedKinds},
    failure::Exit,
    output::put_path,
    output::{JsonName, Output},
    paths::Paths,
    place::ImagePlace,
    text::counted,
};

/// Of the JSON documents. Fields may be added to a version; none is removed or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// So many older inodes and blocks of a group are no single lost writes.
const MANY_OLDER: u64 = 16;
/// So many structures of a group do not get the same wrong uuid by accident. Of a whole group only the headers are looked at.
const MANY_FOREIGN: u64 = 2;

/// Prints findings as they come.
pub struct Report {
    output: Output,
    is_json: bool,
    is_summary: bool,
    has_colour: bool,
    paths: Paths,
    geometry: Geometry,
    page: Option<Page>,
    kinds: CountedKinds<(u16, Severity)>,
    /// Of the file system, where the image has fewer.
    needed_bytes: Option<u64>,
    /// Inodes and blocks of each group that are older than the log says, and those of another file system.
    strange: BTreeMap<AgNumber, Strange>,
    /// Findings that were not asked for.
    left_out: u64,
    /// Inodes in use by the count of the superblock.
    pub expected_inodes: u64,
    /// The reader of standard output has gone: nothing more is printed.
    is_unread: bool,
}

/// What a group has that does not belong to it.
#[derive(Debug, Clone, Copy, Default)]
struct Strange {
    older: u64,
    foreign: u64,
}

impl Strange {
    fn of(finding: &Finding) -> Self {
        let is_foreign = match finding {
            Finding::Damaged { corruption } => {
                matches!(corruption.fault, Fault::Header(HeaderFault::WrongUuid { .. }))
            }
            _ => false,
        };
        let is_older = matches!(finding, Finding::OlderThanLog { .. });
        Self { older: is_older.into(), foreign: is_foreign.into() }
    }

    fn words(self) -> Option<String> {
        let Self { older, foreign } = self;
        if foreign >= MANY_FOREIGN {
            return Some(format!("of another file system: {foreign} structures have another uuid"));
        }
        (older >= MANY_OLDER).then(|| {
            format!(
                "of an older copy: {older} inodes and blocks are older than the log says (if the log itself is stale: uxfs repair \
                 --no-log-copies)"
            )
        })
    }
}

impl Report {
    /// One that is empty so far.
    pub fn new(is_json: bool, amount: Amount, paths: Paths, geometry: Geometry, page: Option<Page>) -> Self {
        let output = Output::new();
        let has_colour =
            output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            output,
            is_json,
            is_summary: amount == Amount::Counts,
            has_colour,
            paths,
            geometry,
            page,
            kinds: CountedKinds::new(if is_json && amount == Amount::First { Amount::All } else { amount }),
            needed_bytes: None,
            strange: BTreeMap::new(),
            left_out: 0,
            expected_inodes: 0,
            is_unread: false,
        }
    }

    /// Counts a finding that was not asked for.
    pub fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Whether there has been no finding.
    pub fn is_empty(&self) -> bool {
        self.kinds.kinds() == 0
    }

    /// Whether further findings make no difference: none of them is shown, and the exit code is known.
    pub fn is_decided(&self) -> bool {
        self.is_unread && self.page.is_none() && !self.is_empty()
    }

    /// Adds a finding. A reader of standard output that has gone is no error.
    pub fn add(&mut self, finding: &Finding) -> io::Result<()> {
        self.needed_bytes = self.needed_bytes.or(finding.needed_bytes());
        let is_hidden = !self.kinds.add((finding.number(), finding.severity()));
        let object = finding.object(&self.geometry);
        let strange = Strange::of(finding);
        if strange.older + strange.foreign > 0
            && let Some(place) = finding.place(&self.geometry)
        {
            let of_group = self.strange.entry(place.group).or_default();
            of_group.older += strange.older;
            of_group.foreign += strange.foreign;
        }
        if is_hidden && self.page.is_none() {
            return Ok(());
        }
        let inodes = inodes_of(&object).map(|inode| (inode, self.paths.of(inode)));
        let inodes: Vec<_> = inodes.filter(|(_, paths)| !paths.is_empty()).collect();
        if let Some(page) = &mut self.page {
            page.add(finding, &inodes);
        }
        if is_hidden || self.is_unread {
            return Ok(());
        }
        let shown = self.show(finding, &object, inodes);
        self.unless_unread(shown)
    }

    /// Takes note of a reader that has gone.
    fn unless_unread(&mut self, printed: io::Result<()>) -> io::Result<()> {
        self.is_unread |= printed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if self.is_unread { Ok(()) } else { printed }
    }

    fn show(
        &mut self,
        finding: &Finding,
        object: &Object,
        inodes: Vec<(InodeNumber, Vec<Vec<u8>>)>,
    ) -> io::Result<()> {
        if self.is_json {
            let mut document = document(finding);
            document["object"] = place(object);
            document["paths"] = paths_of(&inodes);
            return self.output.json(&document);
        }
        let severity = finding.severity();
        let style = self.style(severity);
        write!(self.output, "[{}] {style}{}{style:#}: ", finding.number(), severity.name())?;
        // The sentence has no bytes of the image as they are: names in it are escaped.
        writeln!(self.output, "{finding}")?;
        for (inode, paths) in inodes {
            for path in paths {
                write!(self.output, "    inode {inode} is ")?;
                self.output.name(&path)?;
                self.output.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn style(&self, severity: Severity) -> Style {
        let colour = match severity {
            Severity::Leftover => AnsiColor::Cyan,
            Severity::Inconsistent => AnsiColor::Yellow,
            Severity::Damaged => AnsiColor::Red,
        };
        if self.has_colour { Style::new().bold().fg_color(Some(colour.into())) } else { Style::new() }
    }

    /// Writes the page, where one is wanted. It may go to standard output as well.
    pub fn write_page(&mut self, cells: Option<&Cells>, summary: &CheckSummary) -> io::Result<()> {
        let printed = self.output.flush();
        self.unless_unread(printed)?;
        match (self.page.take(), cells) {
            (Some(page), Some(cells)) => page.write(cells, summary),
            _ => Ok(()),
        }
    }

    /// What is to be known beside the findings.
    fn write_remarks(&mut self, recovery: Option<&RecoveryReport>, image: &ImagePlace) -> io::Result<()> {
        if let Some(remedy) = self.needed_bytes.and_then(|bytes| image.lengthening(bytes)) {
            writeln!(self.output, "{remedy}")?;
        }
        for (group, strange) in &self.strange {
            if let Some(words) = strange.words() {
                writeln!(
                    self.output,
                    "allocation group {group} looks like a part {words}; contents of its files may be wrong, whatever a repair brings back"
                )?;
            }
        }
        if let Some(recovery) = recovery {
            let transactions = recovery.replay.transactions;
            let verb = if transactions == 1 { "is" } else { "are" };
            let transactions = counted(transactions, "transaction");
            writeln!(
                self.output,
                "the log is dirty: checked as it will be after its {transactions} {verb} replayed"
            )?;
        }
        Ok(())
    }

    /// How many findings of each kind there are, where not all have been shown.
    fn write_counts(&mut self) -> io::Result<()> {
        let hidden = self.kinds.hidden();
        if hidden == 0 {
            return Ok(());
        }
        let mut counts: Vec<_> = self.kinds.iter().collect();
        counts.sort_by_key(|((number, severity), _)| (Reverse(*severity), *number));
        for ((number, severity), count) in counts {
            let meaning = Finding::meaning_of(*number).unwrap_or_default();
            writeln!(self.output, "[{number}] {}: {count} ({meaning})", severity.name())?;
        }
        if !self.is_summary {
            let verb = if hidden == 1 { "finding is" } else { "findings are" };
            writeln!(
                self.output,
                "{hidden} {verb} not shown: --all shows them, uxfs help finding N explains a kind"
            )?;
        }
        Ok(())
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        if self.is_empty() { Exit::Success } else { Exit::Corruption }
    }

    /// Prints the counts and gives the exit code.
    pub fn finish(
        mut self,
        summary: &CheckSummary,
        recovery: Option<&RecoveryReport>,
        image: &ImagePlace,
    ) -> io::Result<Exit> {
        if !self.is_unread {
            let printed = self.show_end(summary, recovery, image).and_then(|()| self.output.flush());
            self.unless_unread(printed)?;
        }
        Ok(self.exit())
    }

    fn show_end(
        &mut self,
        summary: &CheckSummary,
        recovery: Option<&RecoveryReport>,
        image: &ImagePlace,
    ) -> io::Result<()> {
        let findings = self.kinds.total();
        let counts: Vec<_> = self.kinds.iter().map(|(kind, count)| (*kind, *count)).collect();
        let of = |severity| -> u64 {
            counts.iter().filter(|((_, found), _)| *found == severity).map(|(_, count)| count).sum()
        };
        if self.is_json {
            let by_number = counts.iter().map(|((number, severity), count)| {
                json!({"number": number, "severity": severity.name(), "count": count})
            });
            let mut document = json!({
                "schema_version": SCHEMA_VERSION,
                "type": "summary",
                "findings": findings,
                "damaged": of(Severity::Damaged),
                "inconsistent": of(Severity::Inconsistent),
                "leftover": of(Severity::Leftover),
                "by_number": by_number.collect::<Vec<_>>(),
                "allocation_groups": summary.groups,
                "inodes": summary.inodes,
                "expected_inodes": self.expected_inodes,
                "blocks_in_use": summary.blocks_in_use,
                "log_recovered_in_memory": recovery.is_some(),
                "left_out": self.left_out,
            });
            put_path(&mut document, "image", image.path());
            self.output.json(&document)?;
        } else {
            self.write_counts()?;
            self.write_remarks(recovery, image)?;
            writeln!(
                self.output,
                "{} and {} in use in {}: {}",
                counted(summary.inodes, "inode"),
                counted(summary.blocks_in_use, "block"),
                counted(summary.groups.into(), "allocation group"),
                in_words(findings, of(Severity::Damaged), of(Severity::Inconsistent), of(Severity::Leftover)),
            )?;
            let unseen = self.expected_inodes.saturating_sub(summary.inodes);
            if unseen > 0 && of(Severity::Damaged) > 0 {
                writeln!(
                    self.output,
                    "the superblock counts {}: {unseen} of them could not be read, and nothing was checked of those",
                    counted(self.expected_inodes, "inode")
                )?;
            }
            if self.left_out > 0 {
                let others = if self.left_out == 1 { "finding was" } else { "findings were" };
                writeln!(self.output, "{} other {others} left out", self.left_out)?;
            }
            if of(Severity::Damaged) > 0 {
                writeln!(
                    self.output,
                    "uxfs rescue{} --to DIR saves the files before anything is changed",
                    image.arguments()
                )?;
            }
            if findings > 0 {
                writeln!(self.output, "uxfs repair -n{} shows what a repair would do", image.arguments())?;
            }
        }
        Ok(())
    }
}

fn in_words(findings: u64, damaged: u64, inconsistent: u64, leftover: u64) -> String {
    match findings {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        _ => format!(
            "{findings} findings ({damaged} damaged, {inconsistent} inconsistent, {leftover} leftover)"
        ),
    }
}

/// Where an object lies, as a document.
pub(in crate::commands) fn place(object: &Object) -> Json {
    json!({
        "group": object.group.map(AgNumber::get),
        "inode": object.inode.map(InodeNumber::get),
        "other_inode": object.other_inode.map(InodeNumber::get),
    })
}

/// Inodes with their paths, as a document.
pub(in crate::commands) fn paths_of(inodes: &[(InodeNumber, Vec<Vec<u8>>)]) -> Json {
    let paths = inodes.iter().flat_map(|(inode, paths)| {
        paths.iter().map(|path| {
            let path = JsonName::new(path);
            json!({"inode": inode.get(), "path": path.text(), "path_hex": path.hex()})
        })
    });
    paths.collect()
}

/// Names and values, as a document.
pub(in crate::commands) fn values(fields: Fields) -> Map<String, Json> {
    let mut values = Map::new();
    for (name, value) in fields {
        let value = match value {
            Value::Number(number) => number.into(),
            Value::Text(text) => text.into(),
            Value::Flag(flag) => flag.into(),
            Value::None => continue,
            Value::Name(bytes) => {
                let text = JsonName::new(&bytes);
                if let Some(hex) = text.hex() {
                    values.insert(format!("{name}_hex"), hex.into());
                }
                text.text().into()
            }
        };
        values.insert(name.to_owned(), value);
    }
    values
}

pub(in crate::commands) fn inodes_of(object: &Object) -> impl Iterator<Item = InodeNumber> + use<> {
    let object = *object;
    object.inode.into_iter().chain(object.other_inode.filter(|other| Some(*other) != object.inode))
}

/// A finding as a document, without its paths.
pub(in crate::commands) fn document(finding: &Finding) -> Json {
    json!({
        "schema_version": SCHEMA_VERSION,
        "type": "finding",
        "number": finding.number(),
        "severity": finding.severity().name(),
        "message": finding.to_string(),
        "fields": values(finding.fields()),
    })
}

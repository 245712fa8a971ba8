//! The manifest of a rescue: JSON lines in a file, text or JSON on standard output.
//!
//! Each line is written at once, so that what an interrupted rescue leaves is valid.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use serde_json::{Map, Value, json};
use uxfs_extract::layout::FileRange;
use uxfs_rescue::{
    Record, RescueDevice, State, Summary,
    run::Report,
    view::{Origin, View},
};

use super::wanted::Wanted;
use crate::{
    counted_kinds::{Amount, CountedKinds},
    document::type_name,
    failure::{About, Failure},
    output::{JsonName, put_path},
    progress::{self, Measure, Progress},
    text::{escaped, hexadecimal, human_size},
};

/// Missing ranges that the text shows of a file.
const SHOWN_RANGES: usize = 3;
/// Most kinds of lines that are counted separately.
const MOST_KINDS: usize = 1000;
/// Version of the lines.
const SCHEMA_VERSION: u32 = 1;

/// Where lines go.
pub(super) struct Manifest {
    file: Option<File>,
    json: bool,
    verbose: bool,
    is_stdout_taken: bool,
    is_archive: bool,
    /// What `--only` asks for.
    pub wanted: Wanted,
    progress: Progress,
    /// Lines of the text, by state and reason.
    kinds: CountedKinds<(State, String)>,
    /// Another program that used the image meanwhile.
    user: Option<String>,
    /// The first error; nothing is written to a file that fails.
    file_error: Option<io::Error>,
    output_error: Option<io::Error>,
}

impl Manifest {
    /// For a rescue into a directory, with the file of the manifest.
    pub fn new(file: Option<File>, json: bool, verbose: bool, is_quiet: bool) -> Self {
        let progress = Progress::new("saving", Measure::Things("files", None), is_quiet);
        Self {
            file,
            json,
            verbose,
            is_stdout_taken: false,
            is_archive: false,
            wanted: Wanted::default(),
            progress,
            kinds: CountedKinds::new(Amount::First),
            user: None,
            file_error: None,
            output_error: None,
        }
    }

    /// For a rescue into an archive, which may take standard output.
    pub fn of_archive(mut self, is_stdout_taken: bool) -> Self {
        (self.is_archive, self.is_stdout_taken) = (true, is_stdout_taken);
        self
    }

    /// The first line. `user` is another program that uses the image, `map` the file of `--map`.
    pub fn begin(
        &mut self,
        view: &View,
        device: &RescueDevice,
        user: Option<&str>,
        (image, map): (&Path, Option<&Path>),
    ) {
        self.user = user.map(str::to_owned);
        let (origin, more) = match &view.origin {
            Origin::Sound => ("sound", json!({})),
            Origin::Repaired { changes } => ("repaired", json!({ "changes": changes })),
            Origin::RepairedInPart { changes, findings } => {
                ("repaired_in_part", json!({ "changes": changes, "findings": findings }))
            }
            Origin::Damaged { error } => ("damaged", json!({ "error": error.to_string() })),
        };
        let mut line = json!({
            "schema_version": SCHEMA_VERSION,
            "type": "image",
            "origin": origin,
            "in_use": user,
            "map": null,
            "log_unreadable": view.evidence.is_log_unreadable,
            "unreadable_bytes": device.unreadable().total_bytes(),
        });
        put_path(&mut line, "image", image);
        if let Some(map) = map {
            put_path(&mut line, "map", map);
        }
        if let (Some(line), Value::Object(mut more)) = (line.as_object_mut(), more) {
            line.append(&mut more);
        }
        self.put_json(&line);
    }

    /// The last line.
    pub fn finish(&mut self, summary: &Summary, device: &RescueDevice) -> Result<(), Failure> {
        let unreadable = device.unreadable();
        let line = json!({
            "schema_version": SCHEMA_VERSION,
            "type": "summary",
            "whole": summary.whole,
            "perhaps_older": summary.perhaps_older,
            "inferred": summary.inferred,
            "partial": summary.partial,
            "lost": summary.lost,
            "directories": summary.directories,
            "written_bytes": summary.written_bytes,
            "missing_bytes": summary.missing_bytes,
            "in_holes": summary.in_holes,
            "unreadable_bytes": unreadable.total_bytes(),
            "failed_bytes": device.failed_bytes(),
            "in_use": self.user.as_deref(),
            "interrupted": summary.is_interrupted,
        });
        self.put_json(&line);
        let Summary { whole, perhaps_older, inferred, partial, lost, .. } = summary;
        let written = human_size(summary.written_bytes);
        let older = match perhaps_older {
            0 => String::new(),
            _ => format!("{perhaps_older} perhaps older, "),
        };
        let mut text = format!(
            "{whole} whole, {older}{inferred} inferred, {partial} partial, {lost} lost; {written} written"
        );
        if !unreadable.is_empty() {
            text += &format!("; {} of the image could not be read", human_size(unreadable.total_bytes()));
        }
        if summary.in_holes > 0 {
            text += &format!(
                "; {} zeros where the image file has holes: if a copy left out what could not be read, give its map \
                 with --map",
                match summary.in_holes {
                    1 => "1 file has".to_owned(),
                    count => format!("{count} files have"),
                }
            );
        }
        if let Some(user) = &self.user {
            text += &format!("; the image was in use: {user}");
        }
        if summary.is_interrupted {
            text += match self.is_archive {
                true => "; interrupted: the archive ends here",
                false => "; interrupted: the same command with --resume goes on",
            };
        }
        self.put_hidden();
        self.put_text(&text);
        if let Some(error) = self.file_error.take() {
            return Err(Failure::caused_by(&error)).about("the manifest");
        }
        match self.output_error.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn put_json(&mut self, line: &Value) {
        let text = format!("{line}\n");
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(text.as_bytes())
        {
            self.file_error.get_or_insert(error);
            self.file = None;
        }
        if self.json {
            self.print(&text);
        }
    }

    fn put_text(&mut self, text: &str) {
        if !self.json {
            self.print(&format!("{text}\n"));
        }
    }

    /// A reader of standard output that goes away ends nothing: the files still come out.
    fn print(&mut self, text: &str) {
        if self.output_error.is_some() {
            return;
        }
        let written = progress::suspend(|| match self.is_stdout_taken {
            true => io::stderr().write_all(text.as_bytes()),
            false => io::stdout().write_all(text.as_bytes()),
        });
        self.output_error = written.err();
    }
}

impl Report for Manifest {
    fn record(&mut self, record: Record) {
        self.progress.add(1);
        self.wanted.meet(&record.path);
        if self.file.is_some() || self.json {
            self.put_json(&document(&record));
        }
        if !self.json
            && (self.verbose || record.verdict.state != State::Whole && self.is_among_first(&record))
        {
            self.put_text(&describe(&record));
        }
    }
}

impl Manifest {
    /// Counts a line by its kind.
    fn is_among_first(&mut self, record: &Record) -> bool {
        let mut kind = (record.verdict.state, kind_of(&record.verdict.reasons));
        if self.kinds.kinds() >= MOST_KINDS && !self.kinds.has(&kind) {
            kind.1 = "other reasons".to_owned();
        }
        self.kinds.add(kind)
    }

    /// Says how many lines of each kind were not shown.
    fn put_hidden(&mut self) {
        let hidden = |count| self.kinds.hidden_of(count);
        let kinds: Vec<_> = self.kinds.iter().filter(|(_, count)| hidden(**count) > 0).collect();
        let lines: Vec<_> = kinds
            .iter()
            .map(|((state, reason), count)| {
                let state = state.name().replace('_', " ");
                format!("{state:<8} {} more: {}", hidden(**count), escaped(reason.as_bytes()))
            })
            .collect();
        if lines.is_empty() {
            return;
        }
        lines.iter().for_each(|line| self.put_text(line));
        self.put_text("--verbose shows every file, and --manifest FILE keeps a line for each");
    }
}

/// The first reason without its numbers, so that files with the same fate are of one kind.
fn kind_of(reasons: &[String]) -> String {
    let reason = reasons.first().map_or("no reason is known", String::as_str);
    let mut kind = String::with_capacity(reason.len());
    for character in reason.chars().map(|character| if character.is_ascii_digit() { 'N' } else { character })
    {
        if !(character == 'N' && kind.ends_with('N')) {
            kind.push(character);
        }
    }
    kind
}

fn put_name_of(line: &mut Map<String, Value>, name: &str, path: &[u8]) {
    let path = JsonName::new(path);
    line.insert(name.to_owned(), path.text().into());
    if let Some(hex) = path.hex() {
        line.insert(format!("{name}_hex"), hex.into());
    }
}

fn document(record: &Record) -> Value {
    let mut line = Map::new();
    line.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
    line.insert("type".to_owned(), "entry".into());
    put_name_of(&mut line, "path", &[b"/", record.path.as_slice()].concat());
    line.insert("inode".to_owned(), record.inode.into());
    line.insert("kind".to_owned(), record.file_type.map(type_name).into());
    line.insert("state".to_owned(), record.verdict.state.name().into());
    line.insert("reasons".to_owned(), record.verdict.reasons.clone().into());
    match &record.output {
        Some(output) => put_name_of(&mut line, "output", if output.is_empty() { b"." } else { output }),
        None => drop(line.insert("output".to_owned(), Value::Null)),
    }
    if let Some(size_bytes) = record.size_bytes {
        line.insert("size_bytes".to_owned(), size_bytes.into());
    }
    if record.missing_bytes > 0 {
        let ranges = record
            .missing
            .iter()
            .map(|range| json!({ "offset_bytes": range.offset_bytes, "length_bytes": range.length_bytes }));
        line.insert("missing".to_owned(), ranges.collect());
        line.insert("missing_bytes".to_owned(), record.missing_bytes.into());
    }
    if record.hole_bytes > 0 {
        line.insert("hole_bytes".to_owned(), record.hole_bytes.into());
    }
    if let Some(first) = &record.hard_link_to {
        put_name_of(&mut line, "hard_link_to", first);
    }
    if record.is_kept {
        line.insert("kept".to_owned(), true.into());
    }
    if let Some(sha256) = &record.sha256 {
        line.insert("sha256".to_owned(), hexadecimal(sha256).into());
    }
    Value::Object(line)
}

/// A line for people.
fn describe(record: &Record) -> String {
    let mut text = format!("{:<8} /{}", record.verdict.state.name().replace('_', " "), escaped(&record.path));
    match &record.output {
        Some(output) if *output != record.path => text += &format!(" -> {}", escaped(output)),
        _ => {}
    }
    if record.missing_bytes > 0 {
        text += &format!(": {} of {} bytes missing", record.missing_bytes, record.size_bytes.unwrap_or(0));
        let range = |range: &FileRange| format!("{}+{}", range.offset_bytes, range.length_bytes);
        let shown: Vec<String> = record.missing.iter().take(SHOWN_RANGES).map(range).collect();
        let more = if record.missing.len() > SHOWN_RANGES { ", …" } else { "" };
        text += &format!(" (at {}{more})", shown.join(", "));
    }
    if !record.verdict.reasons.is_empty() {
        text += &format!(": {}", escaped(record.verdict.reasons.join("; ").as_bytes()));
    }
    text
}

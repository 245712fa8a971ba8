//! What is printed of names that differ: lines, or documents.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use uxfs_block::spill::map::SpillMap;

use super::{
    attributes::Change,
    both::{Both, Side},
    compare::{Difference, Kind, Told},
    document::document,
    facts::Facts,
    field::{Field, Fields},
    host::spilled,
    links::LinkUse,
    unified::{Unified, quoted},
};
use crate::{
    document::type_name,
    failure::{Complaints, Failure},
    output::{Output, put_name},
    text::{escaped, full_time},
};

/// Memory for files with several names that differ.
const MEMORY_BYTES: usize = 4 << 20;

/// How differences are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A letter, the path, and how it differs.
    Full,
    /// A letter and the path.
    Brief,
    /// As [`Brief`](Self::Brief), with a zero byte behind it.
    Null,
    /// Documents.
    Json,
    /// Nothing: the first difference ends the comparison.
    Silent,
}

/// Prints differences.
#[derive(Debug)]
pub(super) struct Printer<'t> {
    pub form: Form,
    /// Tells the text that differs, too.
    unified: Option<Unified<'t>>,
    pub output: Output,
    pub complaints: Complaints,
    /// How files with several names differ.
    outcomes: SpillMap,
    pub is_different: bool,
}

impl Kind {
    /// The letter in front of the path.
    fn letter(self) -> char {
        match self {
            Self::Single(Side::First) => 'D',
            Self::Single(Side::Second) => 'A',
            Self::Type => 'T',
            Self::Fields(fields) if fields.is_of_contents() => 'C',
            Self::Fields(_) => 'M',
        }
    }

    /// The word for it in documents.
    pub fn word(self) -> &'static str {
        match self.letter() {
            'D' => "removed",
            'A' => "added",
            'T' => "type",
            'C' => "contents",
            _ => "metadata",
        }
    }
}

impl<'t> Printer<'t> {
    pub fn new(form: Form, unified: Option<Unified<'t>>) -> Self {
        Self {
            form,
            unified,
            output: Output::new(),
            complaints: Complaints::default(),
            outcomes: SpillMap::new(MEMORY_BYTES),
            is_different: false,
        }
    }

    /// Prints what was told; whether more is wanted.
    ///
    /// # Errors
    /// The output; a temporary file.
    pub fn take(&mut self, told: Told) -> Result<bool, Failure> {
        let difference = match told {
            Told::Problem(failure) => {
                self.complaints.tell(&failure);
                return Ok(true);
            }
            Told::Difference(difference) => {
                if let (LinkUse::First(key), Kind::Fields(fields)) = (difference.link, difference.kind) {
                    self.outcomes.insert(key, (fields.bits(), 0)).map_err(spilled)?;
                }
                difference
            }
            Told::Again(key, mut difference) => {
                let Some((bits, _)) = self.outcomes.get(key).map_err(spilled)? else { return Ok(true) };
                difference.kind = Kind::Fields(Fields::from_bits(bits));
                difference
            }
        };
        self.is_different = true;
        match self.form {
            Form::Silent => return Ok(false),
            Form::Json => self.print_document(&difference)?,
            Form::Null => {
                write!(self.output, "{} ", difference.kind.letter())?;
                self.output.write_all(&difference.path)?;
                self.output.write_all(b"\0")?;
            }
            Form::Brief | Form::Full => {
                write!(self.output, "{} ", difference.kind.letter())?;
                match self.unified {
                    // A path with a newline in it could look like a header.
                    Some(_) => self.output.write_all(quoted("", &difference.path).as_bytes())?,
                    None => self.output.name(&difference.path)?,
                }
                if self.form == Form::Full {
                    self.output.write_all(details(&difference).as_bytes())?;
                }
                self.output.write_all(b"\n")?;
                self.print_text(&difference)?;
            }
        }
        Ok(true)
    }

    /// Prints the text that differs.
    fn print_text(&mut self, difference: &Difference) -> io::Result<()> {
        let Some(unified) = &self.unified else { return Ok(()) };
        let complaints = &mut self.complaints;
        let mut output = Shown(&mut self.output);
        let omitted = unified.write(difference, &mut output, &mut |failure| complaints.tell(&failure))?;
        omitted.map_or(Ok(()), |(sentence, _)| writeln!(self.output, "{sentence}"))
    }

    fn print_document(&mut self, difference: &Difference) -> io::Result<()> {
        let mut document = document(difference);
        if let Some(unified) = &self.unified {
            let (complaints, mut text) = (&mut self.complaints, Vec::new());
            let omitted = unified.write(difference, &mut text, &mut |failure| complaints.tell(&failure))?;
            if !text.is_empty() {
                put_name(&mut document, "unified", &text);
            }
            if let Some((_, reason)) = omitted {
                document["unified_omitted"] = reason.word().into();
            }
        }
        self.output.json(&document)
    }
}

/// Contents of files as they are shown.
struct Shown<'o>(&'o mut Output);

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(text) => {
                    self.0.contents(text)?;
                    self.0.write_all(b"\n")?;
                }
                None => self.0.contents(part)?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// How it differs, in words.
fn details(difference: &Difference) -> String {
    let mut words = String::new();
    // Writing to memory cannot fail.
    match (difference.kind, &difference.facts) {
        (Kind::Type, Both { first: Some(first), second: Some(second) }) => {
            let _ = write!(words, ": type {} -> {}", type_word(first), type_word(second));
        }
        (Kind::Fields(fields), Both { first: Some(first), second: Some(second) }) => {
            let facts = Both { first, second };
            for (index, field) in fields.iter().enumerate() {
                let sign = if index == 0 { ": " } else { ", " };
                let _ = write!(words, "{sign}{}", field.word());
                field_details(&mut words, field, &facts, difference);
            }
        }
        (Kind::Single(side), facts) => {
            let file_type = facts.at(side).as_ref().map_or("", type_word);
            let _ = write!(words, ": {file_type}");
        }
        _ => {}
    }
    words
}

fn type_word(facts: &Facts) -> &'static str {
    facts.file_type.map_or("unknown", type_name)
}

fn field_details(words: &mut String, field: Field, facts: &Both<&Facts>, difference: &Difference) {
    let Both { first, second } = facts;
    let time = |facts: &Facts| {
        let time = match field {
            Field::Atime => facts.access_time,
            Field::Ctime => facts.change_time,
            Field::Btime => facts.in_image.map(|more| more.creation_time).unwrap_or_default(),
            _ => facts.modification_time,
        };
        full_time(time.seconds, time.nanoseconds).trim_end_matches(" +0000").to_owned()
    };
    let value = |facts: &Facts, side: Side| match field {
        Field::Size => facts.size_bytes.to_string(),
        Field::Mode => format!("{:04o}", facts.permissions),
        Field::Owner => facts.uid.to_string(),
        Field::Group => facts.gid.to_string(),
        Field::Device => format!("{},{}", facts.device.0, facts.device.1),
        Field::Project => facts.in_image.map(|more| more.project_id).unwrap_or_default().to_string(),
        Field::Flags => match facts.flag_names() {
            names if names.is_empty() => "none".to_owned(),
            names => names.join("+"),
        },
        Field::Target => difference.targets.at(side).as_deref().map(escaped).unwrap_or_default(),
        _ => time(facts),
    };
    // Writing to memory cannot fail.
    let _ = match field {
        Field::Contents | Field::Links | Field::Acl => Ok(()),
        Field::Xattr => attribute_details(words, difference),
        // Of a further name they are not at hand.
        Field::Target if difference.targets.first.is_none() => Ok(()),
        _ => write!(words, " {} -> {}", value(first, Side::First), value(second, Side::Second)),
    };
}

fn attribute_details(words: &mut String, difference: &Difference) -> std::fmt::Result {
    let (told, others) = &difference.attributes;
    for (name, change) in told.iter().filter(|(name, _)| !name.starts_with(b"system.posix_acl_")) {
        let sign = match change {
            Change::Removed => '-',
            Change::Added => '+',
            Change::Changed => '~',
        };
        write!(words, " {sign}{}", escaped(name))?;
    }
    match others {
        0 => Ok(()),
        others => write!(words, " and {others} more"),
    }
}

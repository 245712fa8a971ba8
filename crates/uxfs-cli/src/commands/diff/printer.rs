//! What is printed of names that differ: lines, or documents.

use std::{fmt::Write as _, io::Write};

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
};
use crate::{
    document::type_name,
    failure::{Complaints, Failure},
    output::Output,
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
pub(super) struct Printer {
    pub form: Form,
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

impl Printer {
    pub fn new(form: Form) -> Self {
        Self {
            form,
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
            Form::Json => self.output.json(&document(&difference))?,
            Form::Null => {
                write!(self.output, "{} ", difference.kind.letter())?;
                self.output.write_all(&difference.path)?;
                self.output.write_all(b"\0")?;
            }
            Form::Brief | Form::Full => {
                write!(self.output, "{} ", difference.kind.letter())?;
                self.output.name(&difference.path)?;
                if self.form == Form::Full {
                    self.output.write_all(details(&difference).as_bytes())?;
                }
                self.output.write_all(b"\n")?;
            }
        }
        Ok(true)
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

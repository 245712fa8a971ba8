//! The lines that differ, as patch(1) and `git apply` take them.
//!
//! The format is that of git: it tells of new and removed files, of permissions and of symbolic links, whose target is the text. Everything
//! here is done by the thread that prints, so that the text of one pair at a time is in memory.
//!
//! | module | holds |
//! |---|---|
//! | `lines` | a file as lines, and the limits |
//! | `changes` | which lines differ |
//! | `slide` | where changes lie best |
//! | `hunks` | changes with the lines around them |
//! | `quote` | names in headers |

mod changes;
mod hunks;
mod lines;
mod quote;
mod slide;

use std::io::{self, Write};

use uxfs_volume::inode::FileType;

pub(super) use self::quote::quoted;
use self::{
    changes::Changes,
    hunks::write_hunks,
    lines::{Contents, Lines},
};
use super::{
    both::{Both, Side},
    compare::{Difference, Kind},
    facts::Facts,
    field::{Field, Fields},
    tree::{File, Trees},
};
use crate::failure::Failure;

/// Tells the lines that differ.
#[derive(Debug)]
pub(super) struct Unified<'t> {
    pub trees: Trees<'t>,
    /// Equal lines around those that differ.
    pub context_lines: usize,
    /// The fields that are compared.
    pub wanted: Fields,
    /// Files that only one side has are told as well.
    pub tells_single: bool,
}

/// Why the lines of a file are not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Omitted {
    /// It has a zero byte.
    Binary,
    /// It has too many bytes or lines.
    TooLarge,
}

/// A file that one side has, or both.
struct Pair<'d> {
    path: &'d [u8],
    versions: Both<Option<Version<'d>>>,
}

#[derive(Clone, Copy)]
struct Version<'d> {
    file: &'d File,
    facts: &'d Facts,
}

/// Why nothing more was written.
enum Trouble {
    Output(io::Error),
    Side(Side, Failure),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Omitted {
    /// The word for it in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::TooLarge => "too_large",
        }
    }
}

impl Version<'_> {
    fn is_link(&self) -> bool {
        self.facts.file_type == Some(FileType::SymbolicLink)
    }

    /// What it has lines of, if anything.
    fn field(&self) -> Option<Field> {
        match self.facts.file_type? {
            FileType::Regular => Some(Field::Contents),
            FileType::SymbolicLink => Some(Field::Target),
            _ => None,
        }
    }

    /// Type and permissions, as git writes them.
    fn mode(&self) -> String {
        if self.is_link() { "120000".to_owned() } else { format!("10{:04o}", self.facts.permissions) }
    }
}

impl Unified<'_> {
    /// Writes the lines in which a name differs. What cannot be read is told.
    ///
    /// # Errors
    /// The output.
    pub fn write(
        &self,
        difference: &Difference,
        output: &mut dyn Write,
        tell: &mut dyn FnMut(Failure),
    ) -> io::Result<Option<(String, Omitted)>> {
        let version = |side| {
            let (file, facts) = (difference.files.at(side).as_ref()?, difference.facts.at(side).as_ref()?);
            Some(Version { file, facts })
        };
        let versions = Both::of(version);
        let has_lines = |version: &Option<Version<'_>>| version.is_none_or(|version| self.has_lines(version));
        if !has_lines(&versions.first) || !has_lines(&versions.second) {
            return Ok(None);
        }
        let told = match difference.kind {
            Kind::Single(_) if !self.tells_single => return Ok(None),
            Kind::Type if !self.tells_single => return Ok(None),
            Kind::Fields(fields) => fields,
            _ => Fields::default(),
        };
        let pair = Pair { path: &difference.path, versions };
        match self.write_pair(&pair, told, output) {
            Ok(reason) => Ok(reason.map(|reason| (pair.sentence(reason), reason))),
            Err(Trouble::Output(error)) => Err(error),
            Err(Trouble::Side(side, failure)) => {
                tell(self.trees.at(side).failure(&difference.path, failure));
                Ok(None)
            }
        }
    }

    fn has_lines(&self, version: Version<'_>) -> bool {
        version.field().is_some_and(|field| self.wanted.has(field))
    }

    fn write_pair(
        &self,
        pair: &Pair<'_>,
        fields: Fields,
        output: &mut dyn Write,
    ) -> Result<Option<Omitted>, Trouble> {
        let mut lines = Both::<Lines>::default();
        let is_of_two_types = pair.is_of_two_types();
        let is_whole = is_of_two_types || pair.is_single();
        if is_whole || fields.has(Field::Contents) || fields.has(Field::Target) {
            for side in [Side::First, Side::Second] {
                let Some(version) = pair.versions.at(side) else { continue };
                match self.contents(side, *version).map_err(|failure| Trouble::Side(side, failure))? {
                    Contents::Lines(found) => *lines.at_mut(side) = found,
                    Contents::Binary => return Ok(Some(Omitted::Binary)),
                    Contents::TooLarge => return Ok(Some(Omitted::TooLarge)),
                }
            }
        }
        // patch(1) takes the removal of an empty file for one that was made already, and asks.
        let is_removed = is_of_two_types || pair.versions.second.is_none();
        if is_removed && lines.first.is_empty() {
            return Ok(None);
        }
        if !is_of_two_types {
            self.write_lines(pair, fields, &lines, output)?;
            return Ok(None);
        }
        // One is removed, another one is made.
        let Both { first, second } = lines;
        let Both { first: before, second: after } = pair.versions;
        let removed = Pair { path: pair.path, versions: Both { first: before, second: None } };
        let made = Pair { path: pair.path, versions: Both { first: None, second: after } };
        self.write_lines(&removed, fields, &Both { first, second: Lines::default() }, output)?;
        self.write_lines(&made, fields, &Both { first: Lines::default(), second }, output)?;
        Ok(None)
    }

    fn write_lines(
        &self,
        pair: &Pair<'_>,
        fields: Fields,
        lines: &Both<Lines>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let changes = Changes::between(lines);
        let has_changes = changes.iter().next().is_some();
        let has_modes = pair.has_modes(fields);
        if has_changes || has_modes || pair.is_single() {
            pair.write_header(output, has_modes, has_changes)?;
            write_hunks(output, lines, &changes, self.context_lines)?;
        }
        Ok(())
    }

    fn contents(&self, side: Side, version: Version<'_>) -> Result<Contents, Failure> {
        let tree = self.trees.at(side);
        match version.is_link() {
            true => Ok(Contents::of(tree.target(version.file)?)),
            false => Contents::read(&mut *tree.contents(version.file)?),
        }
    }
}

impl Pair<'_> {
    fn name(&self, side: Side) -> String {
        let prefix = if side == Side::First { "a/" } else { "b/" };
        quoted(prefix, self.path)
    }

    fn name_or_nothing(&self, side: Side) -> String {
        match self.versions.at(side) {
            Some(_) => self.name(side),
            None => "/dev/null".to_owned(),
        }
    }

    fn is_single(&self) -> bool {
        self.versions.first.is_none() || self.versions.second.is_none()
    }

    fn is_of_two_types(&self) -> bool {
        let Both { first, second } = &self.versions;
        first.zip(*second).is_some_and(|(first, second)| first.facts.file_type != second.facts.file_type)
    }

    /// Whether permissions differ that are compared.
    fn has_modes(&self, fields: Fields) -> bool {
        let is_regular = |version: &Option<Version<'_>>| {
            version.is_some_and(|version| version.field() == Some(Field::Contents))
        };
        fields.has(Field::Mode) && is_regular(&self.versions.first)
    }

    /// Says that both differ, and why no lines follow.
    fn sentence(&self, reason: Omitted) -> String {
        let names = format!(
            "{} and {} differ",
            self.name_or_nothing(Side::First),
            self.name_or_nothing(Side::Second)
        );
        match reason {
            Omitted::Binary => format!("Binary files {names}"),
            Omitted::TooLarge => format!("Files {names}: too large to compare as text"),
        }
    }

    fn write_header(&self, output: &mut dyn Write, has_modes: bool, has_changes: bool) -> io::Result<()> {
        writeln!(output, "diff --git {} {}", self.name(Side::First), self.name(Side::Second))?;
        match (&self.versions.first, &self.versions.second) {
            (None, Some(second)) => writeln!(output, "new file mode {}", second.mode())?,
            (Some(first), None) => writeln!(output, "deleted file mode {}", first.mode())?,
            // It is a link: without a mode it would be taken for a regular file.
            (Some(first), Some(second)) if has_modes || first.is_link() => {
                writeln!(output, "old mode {}\nnew mode {}", first.mode(), second.mode())?;
            }
            _ => {}
        }
        if has_changes {
            writeln!(output, "--- {}", self.name_or_nothing(Side::First))?;
            writeln!(output, "+++ {}", self.name_or_nothing(Side::Second))?;
        }
        Ok(())
    }
}

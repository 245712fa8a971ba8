//! What is printed of one file, in the form of grep.

use std::{
    cell::RefCell,
    fmt::Display,
    io::{self, Write},
    rc::Rc,
};

use grep_matcher::{Match, Matcher};
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkError, SinkMatch};
use serde::Serialize;

use super::contents::LeftOut;
use crate::output::{JsonName, Output};

/// Colours of grep.
const MATCH: &[u8] = b"\x1b[01;31m\x1b[K";
const PATH: &[u8] = b"\x1b[35m\x1b[K";
const NUMBER: &[u8] = b"\x1b[32m\x1b[K";
const SIGN: &[u8] = b"\x1b[36m\x1b[K";
const RESET: &[u8] = b"\x1b[m\x1b[K";

/// How lines are printed.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Nothing but a number, a path or an exit code comes of lines.
    pub is_silent: bool,
    /// Only parts that match.
    pub only_matching: bool,
    /// Selected lines do not match.
    pub is_inverted: bool,
    /// Line numbers.
    pub line_number: bool,
    /// Paths.
    pub path: bool,
    /// A zero byte behind paths.
    pub null: bool,
    /// Colours.
    pub color: bool,
    /// Groups of lines are divided.
    pub has_context: bool,
    /// The byte at the end of lines.
    pub line_end: u8,
    /// Documents.
    pub json: bool,
    /// Selected lines are counted; else the first is enough where nothing is printed.
    pub counts: bool,
    /// Lines of binary files are printed.
    pub text: bool,
    /// Binary files have no selected lines.
    pub without_binary: bool,
    /// Selected lines at which a file is left.
    pub count_max: u64,
    /// Lines that are printed behind selected ones.
    pub after_lines: usize,
}

/// Why a search ended.
#[derive(Debug)]
pub enum SearchError {
    /// The file could not be read.
    Read(io::Error),
    /// The output could not be written.
    Write(io::Error),
    /// Something else.
    Other(String),
}

impl SinkError for SearchError {
    fn error_message<T: Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn error_io(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for SearchError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Prints what is found in one file.
pub struct Printer<'a> {
    /// How.
    pub style: Style,
    /// What lines are compared with.
    pub matcher: &'a RegexMatcher,
    /// Where to.
    pub output: &'a mut Output,
    /// The file.
    pub path: &'a [u8],
    /// What the stream leaves out.
    pub left_out: Rc<RefCell<LeftOut>>,
    /// Lines have been printed, of this file or one before.
    pub has_printed: &'a mut bool,
    /// Selected lines.
    pub count: u64,
    /// A zero byte was met.
    pub is_binary: bool,
    /// Lines of this file have been printed.
    pub is_begun: bool,
    /// A line was selected behind the zero byte, and not printed.
    pub is_binary_match: bool,
    /// Lines that are still printed behind the last one that was to be selected.
    pub last_lines: Option<usize>,
}

/// A line that matches, as a document. `docs/json.md` describes it; change both together.
#[derive(Serialize)]
struct JsonMatch<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<&'a str>,
    line_number: u64,
    offset_bytes: u64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<&'a str>,
    submatches: Vec<JsonPart>,
}

#[derive(Serialize)]
struct JsonPart {
    start: usize,
    end: usize,
}

impl Sink for Printer<'_> {
    type Error = SearchError;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, SearchError> {
        let number = |printer: &Self| printer.number(found.line_number(), found.absolute_byte_offset());
        if self.last_lines.is_some() {
            return self.print_last(found.bytes(), number(self));
        }
        self.count += 1;
        let is_last = self.count >= self.style.count_max;
        if self.is_hidden_binary() {
            self.is_binary_match = !self.style.is_silent;
            return Ok(self.style.counts && !is_last);
        }
        if self.style.is_silent {
            return Ok(self.style.counts && !is_last);
        }
        if self.style.json {
            self.print_document(found)?;
            return Ok(!is_last);
        }
        self.begin()?;
        let number = number(self);
        self.print_line(found.bytes(), number, b':')?;
        self.last_lines = is_last.then_some(self.style.after_lines);
        Ok(!is_last || self.style.after_lines > 0)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, SearchError> {
        if self.style.is_silent || self.style.json {
            return Ok(true);
        }
        if self.is_hidden_binary() {
            return Ok(true);
        }
        let number = self.number(line.line_number(), line.absolute_byte_offset());
        match (self.last_lines, line.kind()) {
            (None, _) => {
                self.begin()?;
                self.print_line(line.bytes(), number, b'-')?;
                Ok(true)
            }
            (Some(_), SinkContextKind::After) => self.print_last(line.bytes(), number),
            // They lead to a line that is not selected any more.
            (Some(_), _) => Ok(false),
        }
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, SearchError> {
        if self.last_lines.is_some() {
            return Ok(false);
        }
        if !self.style.is_silent && !self.style.json && self.is_begun && !self.is_hidden_binary() {
            self.print_break()?;
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, SearchError> {
        self.is_binary = true;
        Ok(!self.style.without_binary)
    }
}

impl Printer<'_> {
    /// Whether selected lines are no longer printed.
    fn is_hidden_binary(&self) -> bool {
        self.is_binary && !self.style.text
    }

    /// Prints a line behind the last selected one; whether more follow.
    fn print_last(&mut self, line: &[u8], number: Option<u64>) -> Result<bool, SearchError> {
        let rest = self.last_lines.unwrap_or(0);
        if rest > 0 {
            self.print_line(line, number, b'-')?;
            self.last_lines = Some(rest - 1);
        }
        Ok(rest > 1)
    }

    /// Divides the lines of this file from those of another.
    fn begin(&mut self) -> Result<(), SearchError> {
        if !self.is_begun && *self.has_printed && self.style.has_context {
            self.print_break()?;
        }
        (self.is_begun, *self.has_printed) = (true, true);
        Ok(())
    }

    fn print_break(&mut self) -> io::Result<()> {
        match self.style.color {
            true => self.output.write_all(&[SIGN, b"--", RESET, b"\n"].concat()),
            false => self.output.write_all(b"--\n"),
        }
    }

    fn number(&self, line_number: Option<u64>, stream_bytes: u64) -> Option<u64> {
        let left_out = match self.style.line_end {
            0 => self.left_out.borrow_mut().before(stream_bytes),
            _ => 0,
        };
        line_number.filter(|_| self.style.line_number).map(|number| number.saturating_add(left_out))
    }

    fn print_line(&mut self, line: &[u8], number: Option<u64>, sign: u8) -> io::Result<()> {
        let line = line.strip_suffix(&[self.style.line_end]).unwrap_or(line);
        let is_selected = sign == b':';
        let has_matches = is_selected != self.style.is_inverted;
        if self.style.only_matching {
            if !is_selected || self.style.is_inverted {
                return Ok(());
            }
            return self.print_parts(line, number, sign);
        }
        self.print_front(number, sign)?;
        let mut end = 0;
        if self.style.color && has_matches {
            for part in self.parts(line) {
                self.output.contents(&line[end..part.start()])?;
                self.write_colored(MATCH, &line[part.start()..part.end()])?;
                end = part.end();
            }
        }
        self.output.contents(&line[end..])?;
        self.output.write_all(&[self.style.line_end])
    }

    fn print_parts(&mut self, line: &[u8], number: Option<u64>, sign: u8) -> io::Result<()> {
        for part in self.parts(line) {
            self.print_front(number, sign)?;
            let text = &line[part.start()..part.end()];
            match self.style.color {
                true => self.write_colored(MATCH, text)?,
                false => self.output.contents(text)?,
            }
            self.output.write_all(&[self.style.line_end])?;
        }
        Ok(())
    }

    /// The parts of a line that match, but for empty ones.
    fn parts(&self, line: &[u8]) -> Vec<Match> {
        let mut parts = Vec::new();
        // What ends a search early is an error of the pattern, which it has been found without.
        let _ = self.matcher.find_iter(line, |part| {
            if !part.is_empty() {
                parts.push(part);
            }
            true
        });
        parts
    }

    fn print_front(&mut self, number: Option<u64>, sign: u8) -> io::Result<()> {
        if self.style.path {
            self.print_path()?;
            match self.style.null {
                true => self.output.write_all(b"\0")?,
                false => self.print_sign(sign)?,
            }
        }
        if let Some(number) = number {
            match self.style.color {
                true => self.write_colored(NUMBER, number.to_string().as_bytes())?,
                false => write!(self.output, "{number}")?,
            }
            self.print_sign(sign)?;
        }
        Ok(())
    }

    /// The path of the file.
    ///
    /// # Errors
    /// The output.
    pub fn print_path(&mut self) -> io::Result<()> {
        match self.style.color {
            true => {
                self.output.write_all(PATH)?;
                self.output.name(self.path)?;
                self.output.write_all(RESET)
            }
            false => self.output.name(self.path),
        }
    }

    /// A sign between fields.
    ///
    /// # Errors
    /// The output.
    pub fn print_sign(&mut self, sign: u8) -> io::Result<()> {
        match self.style.color {
            true => self.write_colored(SIGN, &[sign]),
            false => self.output.write_all(&[sign]),
        }
    }

    fn write_colored(&mut self, color: &[u8], text: &[u8]) -> io::Result<()> {
        self.output.write_all(color)?;
        self.output.contents(text)?;
        self.output.write_all(RESET)
    }

    fn print_document(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        let line = found.bytes().strip_suffix(&[self.style.line_end]).unwrap_or(found.bytes());
        let left_out = self.left_out.borrow_mut().before(found.absolute_byte_offset());
        let lines = if self.style.line_end == 0 { left_out } else { 0 };
        let parts = if self.style.is_inverted { Vec::new() } else { self.parts(line) };
        let (path, text) = (JsonName::new(self.path), JsonName::new(line));
        self.output.json(&JsonMatch {
            path: path.text(),
            path_hex: path.hex(),
            line_number: found.line_number().unwrap_or(0).saturating_add(lines),
            offset_bytes: found.absolute_byte_offset().saturating_add(left_out),
            text: text.text(),
            text_hex: text.hex(),
            submatches: parts.iter().map(|part| JsonPart { start: part.start(), end: part.end() }).collect(),
        })
    }
}

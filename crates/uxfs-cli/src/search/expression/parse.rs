//! From words to an expression.
//!
//! ```text
//! list    = or { "," or }
//! or      = and { ( "-o" | "-or" ) and }
//! and     = not { [ "-a" | "-and" ] not }
//! not     = { "!" | "-not" } primary
//! primary = "(" list ")" | test | action | option
//! ```

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use super::{
    Node,
    action::Action,
    lookup::Lookup,
    number::{DAY, nanoseconds_of},
    primary,
};
use crate::search::regular::Syntax;

/// Parentheses within each other.
pub const NESTING_MAX: usize = 256;

/// How deep a walk goes, and when a directory's turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Levels below the start that are descended into.
    pub most_levels: usize,
    /// Levels above this one are passed through in silence.
    pub least_levels: usize,
    /// What a directory holds comes before the directory.
    pub is_depth_first: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { most_levels: usize::MAX, least_levels: 0, is_depth_first: false }
    }
}

/// A command line of find, behind the image.
#[derive(Debug)]
pub struct Parsed {
    /// The expression, with the action that is implied.
    pub expression: Node,
    /// What holds for the whole walk.
    pub settings: Settings,
}

/// The words that are paths: those before the first that begins an expression.
pub fn split(words: &[OsString]) -> (&[OsString], &[OsString]) {
    let is_expression = |word: &OsString| {
        let bytes = word.as_bytes();
        bytes.starts_with(b"-") || matches!(bytes, b"(" | b")" | b"!" | b",")
    };
    let paths = words.iter().position(is_expression).unwrap_or(words.len());
    words.split_at(paths)
}

/// Reads an expression.
///
/// # Errors
/// A message that names the word that is wrong.
pub fn parse(words: &[OsString], lookup: &Lookup<'_>) -> Result<Parsed, String> {
    let mut parser = Parser {
        words,
        next: 0,
        depth: 0,
        lookup,
        settings: Settings::default(),
        syntax: Syntax::default(),
        now: nanoseconds_of(lookup.now),
        prints: false,
    };
    let expression = match words.is_empty() {
        true => None,
        false => Some(parser.list()?),
    };
    if let Some(word) = parser.peek() {
        return Err(format!("`{}` closes nothing", shown(word)));
    }
    let expression = match (expression, parser.prints) {
        (None, _) => Node::Action(Action::Print),
        (Some(expression), true) => expression,
        (Some(expression), false) => Node::And(vec![expression, Node::Action(Action::Print)]),
    };
    Ok(Parsed { expression, settings: parser.settings })
}

/// Where the reading of words stands.
pub struct Parser<'w, 'v> {
    words: &'w [OsString],
    next: usize,
    depth: usize,
    /// What words name.
    pub lookup: &'w Lookup<'v>,
    /// What holds for the whole walk.
    pub settings: Settings,
    /// The syntax of the regular expressions that follow.
    pub syntax: Syntax,
    /// The moment that the ages that follow count from.
    pub now: i128,
    /// Some action prints, or ends the walk: then none is implied.
    pub prints: bool,
}

fn shown(word: &[u8]) -> String {
    crate::text::escaped(word)
}

impl<'w> Parser<'w, '_> {
    fn peek(&self) -> Option<&'w [u8]> {
        self.words.get(self.next).map(|word| word.as_bytes())
    }

    fn list(&mut self) -> Result<Node, String> {
        let mut parts = vec![self.or()?];
        while self.peek() == Some(b",") {
            self.next += 1;
            parts.push(self.or()?);
        }
        Ok(if parts.len() == 1 { Node::all(parts) } else { Node::List(parts) })
    }

    fn or(&mut self) -> Result<Node, String> {
        let mut parts = vec![self.and()?];
        while matches!(self.peek(), Some(b"-o" | b"-or")) {
            self.next += 1;
            parts.push(self.and()?);
        }
        Ok(Node::any(parts))
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut parts = vec![self.not()?];
        loop {
            match self.peek() {
                Some(b"-a" | b"-and") => self.next += 1,
                None | Some(b"-o" | b"-or" | b"," | b")") => return Ok(Node::all(parts)),
                Some(_) => {}
            }
            parts.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Node, String> {
        let mut is_negated = false;
        while matches!(self.peek(), Some(b"!" | b"-not")) {
            self.next += 1;
            is_negated = !is_negated;
        }
        let node = self.primary()?;
        Ok(if is_negated { Node::Not(Box::new(node)) } else { node })
    }

    fn primary(&mut self) -> Result<Node, String> {
        let before = self.next.checked_sub(1).and_then(|before| self.words.get(before));
        let Some(word) = self.peek() else {
            return Err(match before {
                Some(before) => format!("a test is missing behind `{}`", shown(before.as_bytes())),
                None => "a test is missing".to_owned(),
            });
        };
        self.next += 1;
        match word {
            b"(" => self.parenthesis(),
            b")" | b"," | b"-o" | b"-or" | b"-a" | b"-and" => {
                let word = shown(word);
                Err(match before {
                    Some(before) => {
                        format!("a test is missing between `{}` and `{word}`", shown(before.as_bytes()))
                    }
                    None => format!("a test is missing before `{word}`"),
                })
            }
            _ => primary::parse(self, word),
        }
    }

    fn parenthesis(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(format!("`(`: more than {NESTING_MAX} parentheses within each other"));
        }
        let node = self.list()?;
        self.depth -= 1;
        if self.peek() != Some(b")") {
            return Err("`(` is not closed by `)`".to_owned());
        }
        self.next += 1;
        Ok(node)
    }

    /// The argument of a test.
    ///
    /// # Errors
    /// There is none.
    pub fn argument(&mut self, test: &str) -> Result<&'w [u8], String> {
        let word = self.peek().ok_or_else(|| format!("`{test}` needs an argument"))?;
        self.next += 1;
        Ok(word)
    }

    /// As [`argument`](Self::argument), of text.
    ///
    /// # Errors
    /// There is none, or it is not UTF-8.
    pub fn text(&mut self, test: &str) -> Result<&'w str, String> {
        let word = self.argument(test)?;
        std::str::from_utf8(word).map_err(|_| format!("`{test}`: `{}` is not text", shown(word)))
    }

    /// Ages that follow count from the end of this day, so that a day is one of the calendar.
    pub fn count_from_end_of_day(&mut self) {
        self.now = (nanoseconds_of(self.lookup.now).div_euclid(DAY) + 1) * DAY;
    }
}

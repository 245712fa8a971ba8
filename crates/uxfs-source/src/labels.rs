//! SELinux labels from `file_contexts` files: `REGEX [-TYPE] LABEL` on each line.
//!
//! As with libselinux, a line without any special character goes before all others, and otherwise the last line that fits
//! holds; `<<none>>` means no label. Expressions match whole paths, which begin with a slash. They are grouped by the first
//! component of what they match, so that few are tried on a path, and compiled when the first path of a group comes.

use std::{collections::HashMap, path::Path, sync::OnceLock};

use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::{
    entry::{Kind, Metadata, SELINUX_LABEL},
    error::{Shown, SourceError, TextFault},
    lines::{Lines, unexpected},
};

/// Lines of all files: more than ten times those of the largest policies.
const MAX_RULES: usize = 200_000;
/// Expressions in one automaton.
const SET_RULES: usize = 400;
/// Memory for one automaton.
const SET_BYTES: usize = 64 << 20;

/// Labels by path.
#[derive(Debug, Default)]
pub struct Labels {
    rules: Vec<Rule>,
    /// Lines that are paths.
    exact: HashMap<Box<[u8]>, Vec<u32>>,
    /// By first component, with the slash before it.
    groups: HashMap<Box<[u8]>, Group>,
    /// Those that may match anywhere.
    anywhere: Group,
}

#[derive(Debug)]
struct Rule {
    pattern: Box<str>,
    /// The letter of the kind that it is for.
    kind: Option<u8>,
    label: Option<Box<[u8]>>,
}

/// Rules in order, compiled when needed.
#[derive(Debug, Default)]
struct Group {
    rules: Vec<u32>,
    sets: OnceLock<Vec<RegexSet>>,
}

impl Labels {
    /// Reads files in order: `file_contexts`, then `file_contexts.homedirs`, then `file_contexts.local`, say.
    ///
    /// # Errors
    /// One cannot be read, or a line means nothing.
    pub fn open(paths: &[&Path]) -> Result<Self, SourceError> {
        let mut labels = Self::default();
        for path in paths {
            labels.add(&mut Lines::open(path)?)?;
        }
        Ok(labels)
    }

    /// Reads one text.
    ///
    /// # Errors
    /// A line means nothing.
    pub fn from_text(name: &str, text: &str) -> Result<Self, SourceError> {
        let mut labels = Self::default();
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        labels.add(&mut Lines::new(Shown::from(name.as_bytes()), Box::new(bytes)))?;
        Ok(labels)
    }

    fn add(&mut self, lines: &mut Lines) -> Result<(), SourceError> {
        loop {
            let Some(line) = lines.next()? else { return Ok(()) };
            let rule = parse(line);
            match rule {
                Ok(None) => {}
                Ok(Some(rule)) => self.add_rule(rule).map_err(|fault| lines.error(fault))?,
                Err(fault) => return Err(lines.error(fault)),
            }
        }
    }

    fn add_rule(&mut self, rule: Rule) -> Result<(), TextFault> {
        if self.rules.len() >= MAX_RULES {
            return Err(TextFault::TooMuch("rules"));
        }
        let index = self.rules.len() as u32;
        match (literal(&rule.pattern), stem(&rule.pattern)) {
            (Some(path), _) => self.exact.entry(path).or_default().push(index),
            (None, Some(stem)) => self.groups.entry(stem).or_default().rules.push(index),
            (None, None) => self.anywhere.rules.push(index),
        }
        // What cannot be compiled is told with its line.
        if literal(&rule.pattern).is_none() {
            build(&[&rule.pattern]).map_err(TextFault::Pattern)?;
        }
        self.rules.push(rule);
        Ok(())
    }

    /// The label of a file, by its path below the root and its kind.
    ///
    /// # Errors
    /// The expressions together need more memory than they may take.
    pub fn label(&self, path: &[u8], kind: &Kind) -> Result<Option<&[u8]>, SourceError> {
        let path = [b"/", path].concat();
        let letter = letter(kind);
        let fits = |index: u32| {
            let rule = self.rules.get(index as usize)?;
            rule.kind.is_none_or(|kind| kind == letter).then_some((index, rule))
        };
        let exact =
            self.exact.get(path.as_slice()).into_iter().flatten().rev().find_map(|index| fits(*index));
        if let Some((_, rule)) = exact {
            return Ok(rule.label.as_deref());
        }
        let end = path.iter().skip(1).position(|byte| *byte == b'/').map_or(path.len(), |slash| slash + 1);
        let group = self.groups.get(path.get(..end).unwrap_or_default());
        let mut best: Option<(u32, &Rule)> = None;
        for group in group.into_iter().chain([&self.anywhere]) {
            let last =
                group.matches(&path, &self.rules)?.into_iter().filter_map(fits).max_by_key(|found| found.0);
            best = best.into_iter().chain(last).max_by_key(|found| found.0);
        }
        Ok(best.and_then(|(_, rule)| rule.label.as_deref()))
    }

    /// Gives a file its label, where there is one for it.
    ///
    /// # Errors
    /// As [`Labels::label`].
    pub fn apply(&self, path: &[u8], kind: &Kind, metadata: &mut Metadata) -> Result<(), SourceError> {
        if let Some(label) = self.label(path, kind)? {
            metadata.set_attribute(SELINUX_LABEL, &[label, b"\0"].concat());
        }
        Ok(())
    }
}

impl Group {
    /// Which rules match.
    fn matches(&self, path: &[u8], rules: &[Rule]) -> Result<Vec<u32>, SourceError> {
        let sets = match self.sets.get() {
            Some(sets) => sets,
            None => {
                let compiled = self.compile(rules)?;
                self.sets.get_or_init(|| compiled)
            }
        };
        let mut found = Vec::new();
        for (set, indices) in sets.iter().zip(self.rules.chunks(SET_RULES)) {
            found.extend(set.matches(path).into_iter().filter_map(|place| indices.get(place)));
        }
        Ok(found)
    }

    fn compile(&self, rules: &[Rule]) -> Result<Vec<RegexSet>, SourceError> {
        let sets = self.rules.chunks(SET_RULES).map(|indices| {
            let patterns: Vec<&str> = indices
                .iter()
                .filter_map(|index| rules.get(*index as usize))
                .map(|rule| &*rule.pattern)
                .collect();
            build(&patterns).map_err(|error| SourceError::Text {
                file: Shown::from(b"file contexts".as_slice()),
                line: 0,
                fault: TextFault::Pattern(error),
            })
        });
        sets.collect()
    }
}

fn build(patterns: &[&str]) -> Result<RegexSet, String> {
    let anchored = patterns.iter().map(|pattern| format!("^(?:{pattern})$"));
    let built = RegexSetBuilder::new(anchored)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(SET_BYTES)
        .dfa_size_limit(SET_BYTES)
        .build();
    built.map_err(|error| error.to_string())
}

fn parse(line: &[u8]) -> Result<Option<Rule>, TextFault> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let pattern = words.next().unwrap_or_default();
    let pattern = std::str::from_utf8(pattern).map_err(|_| unexpected(pattern, "regular expression"))?;
    let second = words.next().ok_or(TextFault::Missing("a label"))?;
    let (kind, label) = match second {
        [b'-', letter] => (Some(*letter), words.next().ok_or(TextFault::Missing("a label"))?),
        label => (None, label),
    };
    if kind.is_some_and(|letter| !b"-dcblps".contains(&letter)) {
        return Err(unexpected(second, "type of file"));
    }
    if let Some(more) = words.next() {
        return Err(unexpected(more, "end of the line"));
    }
    let label = (label != b"<<none>>").then(|| label.into());
    Ok(Some(Rule { pattern: pattern.into(), kind, label }))
}

const SPECIAL: &[char] = &['.', '^', '$', '?', '*', '+', '|', '[', ']', '(', ')', '{', '}'];

/// The path that an expression is, without its backslashes, if it matches no other.
fn literal(pattern: &str) -> Option<Box<[u8]>> {
    let mut path = Vec::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let character = match character {
            // Behind a backslash a letter is a class, anything else itself.
            '\\' => rest.next().filter(|next| !next.is_alphanumeric())?,
            special if SPECIAL.contains(&special) => return None,
            plain => plain,
        };
        path.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(path.into())
}

/// `/usr` of `/usr/.*`, if all that matches begins so.
fn stem(pattern: &str) -> Option<Box<[u8]>> {
    let rest = pattern.strip_prefix('/')?;
    let (first, behind) = rest.split_once('/')?;
    let is_plain = |part: &str| !part.contains(SPECIAL) && !part.contains('\\');
    // An alternative outside of brackets would begin anew, and a slash may be optional.
    let may_differ = behind.starts_with(['?', '*', '{']) || has_outer_alternative(behind);
    (is_plain(first) && !may_differ && !first.is_empty()).then(|| format!("/{first}").into_bytes().into())
}

fn has_outer_alternative(pattern: &str) -> bool {
    let mut depth = 0_i32;
    pattern.chars().any(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == '|' && depth <= 0
    })
}

fn letter(kind: &Kind) -> u8 {
    match kind {
        Kind::Directory(_) => b'd',
        Kind::Regular { .. } | Kind::HardLink { .. } => b'-',
        Kind::Symlink { .. } => b'l',
        Kind::CharacterDevice(_) => b'c',
        Kind::BlockDevice(_) => b'b',
        Kind::Fifo => b'p',
        Kind::Socket => b's',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content::Content, entry::DirectoryId};

    const FILE: Kind = Kind::Regular { size_bytes: 0, content: Content::Hole };
    const DIRECTORY: Kind = Kind::Directory(DirectoryId::ROOT);

    #[test]
    fn the_last_that_fits_and_paths_before_all() {
        let labels = Labels::from_text(
            "contexts",
            "# a comment\n\n\
             /.*\tu:r:default_t:s0\n\
             /etc/passwd -- u:r:passwd_t:s0\n\
             /usr/.*  u:r:usr_t:s0\n\
             /usr/bin(/.*)? u:r:bin_t:s0\n\
             /usr/(.*/)?lib(/.*)?  -d u:r:lib_t:s0\n\
             /etc(/.*)? u:r:etc_t:s0\n\
             /usr/share/a\\.b u:r:dot_t:s0\n\
             /(proc|sys)/.* <<none>>\n\
             / -d u:r:root_t:s0\n\
             /[^/]+\\.log u:r:log_t:s0\n",
        )
        .unwrap();
        for (path, kind, expected) in [
            ("", DIRECTORY, Some("root_t")),
            ("", FILE, Some("default_t")),
            ("any", FILE, Some("default_t")),
            ("etc/passwd", FILE, Some("passwd_t")),
            ("etc/passwd", DIRECTORY, Some("etc_t")),
            ("usr/bin", DIRECTORY, Some("bin_t")),
            ("usr/bin/x", FILE, Some("bin_t")),
            ("usr/bing", FILE, Some("usr_t")),
            ("usr/a/lib", DIRECTORY, Some("lib_t")),
            ("usr/a/lib/x", FILE, Some("usr_t")),
            ("usr/share/a.b", FILE, Some("dot_t")),
            ("usr/share/axb", FILE, Some("usr_t")),
            ("proc/1", FILE, None),
            ("x.log", FILE, Some("log_t")),
            ("x/y.log", FILE, Some("default_t")),
        ] {
            let label = labels.label(path.as_bytes(), &kind).unwrap();
            let expected = expected.map(|kind| format!("u:r:{kind}:s0"));
            assert_eq!(label.map(|l| l.escape_ascii().to_string()), expected, "{path} {}", kind.word());
        }
        let mut metadata = Metadata::default();
        labels.apply(b"any", &FILE, &mut metadata).unwrap();
        assert_eq!(metadata.attribute(SELINUX_LABEL), Some(b"u:r:default_t:s0\0".as_slice()));
    }

    #[test]
    fn lines_that_mean_nothing() {
        for text in ["/a", "/a -x l", "/a -- ", "/a l m", "/( l", "/\\pq l"] {
            let read = Labels::from_text("contexts", text);
            assert!(matches!(read, Err(SourceError::Text { line: 1, .. })), "{text}");
        }
    }
}

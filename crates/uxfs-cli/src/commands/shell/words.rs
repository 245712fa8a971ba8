//! From lines to commands: words, quotes, `;` and `#`, as shells have them, and no more.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use crate::glob::pattern;

/// The kind of a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Commands, each with its words.
    Commands(Vec<Vec<Word>>),
    /// A quote is open, or a backslash is last: more lines belong to it.
    Unfinished,
}

/// A word without its quotes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Word {
    text: Vec<u8>,
    /// The same, with what was quoted escaped.
    pattern: Vec<u8>,
}

impl Word {
    fn push(&mut self, byte: u8) {
        self.text.push(byte);
        self.pattern.push(byte);
    }

    fn push_quoted(&mut self, byte: u8) {
        self.text.push(byte);
        self.pattern.extend(pattern::escaped(&[byte]));
    }

    /// The text.
    pub fn into_text(self) -> OsString {
        OsString::from_vec(self.text)
    }

    /// The pattern that it is, where a sign of one is not quoted.
    pub fn pattern(&self) -> Option<&[u8]> {
        pattern::is_pattern(&self.pattern).then_some(&self.pattern)
    }
}

/// Divides a text into commands.
///
/// Words are divided by blanks, commands by `;` and ends of lines. `'…'` takes everything as it is; in `"…"` a backslash
/// makes `"` and itself plain; elsewhere it makes any character plain, and takes an end of line away. A word that begins
/// with `#` begins a comment.
pub fn parse(text: &[u8]) -> Parsed {
    let mut commands = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut word: Option<Word> = None;
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.extend(word.take()),
            b'\n' | b';' => {
                words.extend(word.take());
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            b'#' if word.is_none() => {
                if rest.by_ref().any(|byte| byte == b'\n') && !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            b'\'' => {
                let quoted = word.get_or_insert_default();
                let mut is_closed = false;
                for byte in rest.by_ref() {
                    if byte == b'\'' {
                        is_closed = true;
                        break;
                    }
                    quoted.push_quoted(byte);
                }
                if !is_closed {
                    return Parsed::Unfinished;
                }
            }
            b'"' => {
                if !read_quoted(&mut rest, word.get_or_insert_default()) {
                    return Parsed::Unfinished;
                }
            }
            b'\\' => match rest.next() {
                None => return Parsed::Unfinished,
                Some(b'\n') => {}
                Some(byte) => word.get_or_insert_default().push_quoted(byte),
            },
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(words);
    }
    Parsed::Commands(commands)
}

/// The text between double quotes; `false` if they are not closed.
fn read_quoted(rest: &mut impl Iterator<Item = u8>, word: &mut Word) -> bool {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return true,
            b'\\' => match rest.next() {
                None => return false,
                Some(byte @ (b'"' | b'\\')) => word.push_quoted(byte),
                Some(b'\n') => {}
                Some(byte) => [b'\\', byte].into_iter().for_each(|byte| word.push_quoted(byte)),
            },
            byte => word.push_quoted(byte),
        }
    }
    false
}

/// A name as a word that stands for it.
pub fn quoted(name: &str) -> String {
    let is_plain = |character: char| !" \t\r\n;#'\"\\*?[]".contains(character);
    name.chars()
        .flat_map(|character| (!is_plain(character)).then_some('\\').into_iter().chain([character]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        match parse(text.as_bytes()) {
            Parsed::Commands(commands) => commands
                .into_iter()
                .map(|words| words.into_iter().map(|word| word.into_text().into_string().unwrap()).collect())
                .collect(),
            Parsed::Unfinished => panic!("unfinished: {text}"),
        }
    }

    #[test]
    fn commands_and_words() {
        assert_eq!(words("ls -l /etc; cd a\n"), [vec!["ls", "-l", "/etc"], vec!["cd", "a"]]);
        assert_eq!(
            words("rm 'a b' \"c\\\"d\" e\\ f # gone\npwd"),
            [vec!["rm", "a b", "c\"d", "e f"], vec!["pwd"]]
        );
        assert_eq!(words("touch a#b '' \\#c"), [vec!["touch", "a#b", "", "#c"]]);
        assert_eq!(words(";;\n # only this"), Vec::<Vec<String>>::new());
        assert_eq!(words("mkdir a\\\nb"), [vec!["mkdir", "ab"]]);
    }

    #[test]
    fn quotes_protect_patterns() {
        let Parsed::Commands(commands) = parse(b"rm a* 'b*' \"c*\"? d\\* [e]") else { panic!() };
        let patterns: Vec<Option<&[u8]>> = commands[0].iter().map(Word::pattern).collect();
        assert_eq!(patterns, [None, Some(&b"a*"[..]), None, Some(b"c\\*?"), None, Some(b"[e]")]);
    }

    #[test]
    fn what_goes_on_in_the_next_line() {
        for text in ["rm 'a", "rm \"a", "rm a\\", "rm \"a\\"] {
            assert_eq!(parse(text.as_bytes()), Parsed::Unfinished, "{text}");
        }
    }

    #[test]
    fn names_come_back() {
        for name in ["plain", "*?[a]", "with blank", "#x", "a;b'c\"d\\e"] {
            assert_eq!(words(&format!("rm {}", quoted(name))), [vec!["rm".to_owned(), name.to_owned()]]);
        }
    }
}

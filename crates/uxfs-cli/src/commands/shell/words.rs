//! From lines to commands: words, quotes, `;` and `#`, as shells have them, and no more.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

/// The kind of a text.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Commands, each with its words.
    Commands(Vec<Vec<OsString>>),
    /// A quote is open, or a backslash is last: more lines belong to it.
    Unfinished,
}

/// Divides a text into commands.
///
/// Words are divided by blanks, commands by `;` and ends of lines. `'…'` takes everything as it is; in `"…"` a backslash
/// makes `"` and itself plain; elsewhere it makes any character plain, and takes an end of line away. A word that begins
/// with `#` begins a comment.
pub fn parse(text: &[u8]) -> Parsed {
    let mut commands = Vec::new();
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.extend(word.take().map(OsString::from_vec)),
            b'\n' | b';' => {
                words.extend(word.take().map(OsString::from_vec));
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
                    quoted.push(byte);
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
                Some(byte) => word.get_or_insert_default().push(byte),
            },
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    if !words.is_empty() {
        commands.push(words);
    }
    Parsed::Commands(commands)
}

/// The text between double quotes; `false` if they are not closed.
fn read_quoted(rest: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> bool {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return true,
            b'\\' => match rest.next() {
                None => return false,
                Some(byte @ (b'"' | b'\\')) => word.push(byte),
                Some(b'\n') => {}
                Some(byte) => word.extend([b'\\', byte]),
            },
            byte => word.push(byte),
        }
    }
    false
}

/// A name as a word that stands for it.
pub fn quoted(name: &str) -> String {
    let is_plain = |character: char| !" \t\r\n;#'\"\\".contains(character);
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
                .map(|words| words.into_iter().map(|word| word.into_string().unwrap()).collect())
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
    fn what_goes_on_in_the_next_line() {
        for text in ["rm 'a", "rm \"a", "rm a\\", "rm \"a\\"] {
            assert_eq!(parse(text.as_bytes()), Parsed::Unfinished, "{text}");
        }
    }

    #[test]
    fn names_come_back() {
        for name in ["plain", "with blank", "#x", "a;b'c\"d\\e"] {
            assert_eq!(words(&format!("rm {}", quoted(name))), [vec!["rm".to_owned(), name.to_owned()]]);
        }
    }
}

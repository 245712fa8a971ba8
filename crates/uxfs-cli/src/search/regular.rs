//! Regular expressions in the syntaxes that find knows, as programs of the crate `regex`. They are about bytes, must match the whole path, and
//! never take exponential time. Back-references are refused: that crate has none.

use regex::bytes::{Regex, RegexBuilder};

use crate::glob::pattern::{class, named};

/// Longest program of one expression.
const PROGRAM_BYTES_MAX: usize = 4 << 20;

/// A syntax of regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// As Emacs has it; a dot also matches a line break.
    #[default]
    Find,
    /// As Emacs has it: `\(…\)`, `\|`, `*`, `+`, `?`.
    Emacs,
    /// `\(…\)`, `\{…\}`, `\|`, `\+`, `\?`, `*`.
    Basic,
    /// `(…)`, `{…}`, `|`, `*`, `+`, `?`.
    Extended,
}

impl Syntax {
    /// The syntax of this name.
    ///
    /// # Errors
    /// No such name.
    pub fn parse(name: &[u8]) -> Result<Self, String> {
        match name {
            b"findutils-default" => Ok(Self::Find),
            b"emacs" => Ok(Self::Emacs),
            b"posix-basic" | b"grep" | b"ed" | b"sed" => Ok(Self::Basic),
            b"posix-extended" | b"egrep" | b"posix-egrep" => Ok(Self::Extended),
            _ => Err(format!(
                "-regextype: `{}` is none of findutils-default, emacs, posix-basic, posix-extended, grep, egrep, posix-egrep, ed, sed",
                crate::text::escaped(name)
            )),
        }
    }

    /// The sign that a byte is, bare or behind a backslash.
    fn sign(self, byte: u8, is_escaped: bool) -> bool {
        match self {
            Self::Find | Self::Emacs => match byte {
                b'(' | b')' | b'|' => is_escaped,
                b'+' | b'?' => !is_escaped,
                _ => false,
            },
            Self::Basic => is_escaped,
            Self::Extended => !is_escaped,
        }
    }
}

/// Compiles an expression that is to match all of a text.
///
/// # Errors
/// It is not one, or has back-references.
pub fn compile(pattern: &[u8], syntax: Syntax, folds_case: bool) -> Result<Regex, String> {
    let wrong = |why: &str| {
        format!(
            "`{}` is not a regular expression that can be used here: {why}",
            crate::text::escaped(pattern)
        )
    };
    let text = translated(pattern, syntax).map_err(wrong)?;
    RegexBuilder::new(&format!("^(?:{text})$"))
        .unicode(false)
        .case_insensitive(folds_case)
        .dot_matches_new_line(syntax != Syntax::Emacs)
        .size_limit(PROGRAM_BYTES_MAX)
        .nest_limit(200)
        .build()
        .map_err(|error| wrong(error.to_string().lines().last().unwrap_or_default()))
}

/// Where a `*` stands for itself, and `^` for the beginning: at the beginning of a branch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Something,
}

fn translated(pattern: &[u8], syntax: Syntax) -> Result<String, &'static str> {
    let (mut text, mut rest, mut before) = (String::new(), pattern, Before::Nothing);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let (byte, is_escaped) = match (byte, after.split_first()) {
            (b'\\', None) => return Err("it ends with a backslash"),
            (b'\\', Some((byte, after))) => {
                rest = after;
                (*byte, true)
            }
            (byte, _) => (*byte, false),
        };
        before = match byte {
            b'(' | b'|' if syntax.sign(byte, is_escaped) => {
                text.push(char::from(byte));
                Before::Nothing
            }
            b')' if syntax.sign(byte, is_escaped) => {
                text.push(')');
                Before::Something
            }
            b'+' | b'?' if syntax.sign(byte, is_escaped) && before == Before::Something => {
                text.push(char::from(byte));
                Before::Something
            }
            b'*' if !is_escaped && before == Before::Something => {
                text.push('*');
                Before::Something
            }
            b'{' if syntax.sign(byte, is_escaped) && before == Before::Something => {
                rest = interval(rest, syntax, &mut text)?;
                Before::Something
            }
            b'^' if !is_escaped && (before == Before::Nothing || syntax == Syntax::Extended) => {
                text.push('^');
                Before::Nothing
            }
            b'$' if !is_escaped && (is_end(rest, syntax) || syntax == Syntax::Extended) => {
                text.push('$');
                Before::Something
            }
            b'.' if !is_escaped => {
                text.push('.');
                Before::Something
            }
            b'[' if !is_escaped => {
                rest = bracket(rest, &mut text)?;
                Before::Something
            }
            byte if is_escaped => {
                escape(byte, &mut text)?;
                Before::Something
            }
            byte => {
                literal(byte, &mut text);
                Before::Something
            }
        };
    }
    Ok(text)
}

/// Whether a branch ends here.
fn is_end(rest: &[u8], syntax: Syntax) -> bool {
    match rest {
        [] => true,
        [b'\\', byte @ (b')' | b'|'), ..] => syntax.sign(*byte, true),
        [byte @ (b')' | b'|'), ..] => syntax.sign(*byte, false),
        _ => false,
    }
}

fn literal(byte: u8, text: &mut String) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'_' => text.push(char::from(byte)),
        byte => text.push_str(&format!("(?-u:\\x{byte:02x})")),
    }
}

fn escape(byte: u8, text: &mut String) -> Result<(), &'static str> {
    match byte {
        b'1'..=b'9' => return Err("back-references are not supported"),
        b'w' => text.push_str("[0-9A-Za-z_]"),
        b'W' => text.push_str("[^0-9A-Za-z_]"),
        b's' => text.push_str("[[:space:]]"),
        b'S' => text.push_str("[^[:space:]]"),
        b'b' => text.push_str("\\b"),
        b'B' => text.push_str("\\B"),
        b'<' => text.push_str("\\b{start}"),
        b'>' => text.push_str("\\b{end}"),
        b'`' => text.push_str("\\A"),
        b'\'' => text.push_str("\\z"),
        byte => literal(byte, text),
    }
    Ok(())
}

/// What follows `{`: `2}`, `2,}`, `,3}` or `2,3}`.
fn interval<'p>(rest: &'p [u8], syntax: Syntax, text: &mut String) -> Result<&'p [u8], &'static str> {
    const WRONG: &str = "an interval such as {2,3} is not closed";
    let close: &[u8] = if syntax == Syntax::Basic { b"\\}" } else { b"}" };
    let end = rest.windows(close.len()).position(|window| window == close).ok_or(WRONG)?;
    let inner = rest.get(..end).and_then(|inner| std::str::from_utf8(inner).ok()).ok_or(WRONG)?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let is_number = |text: &str| text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(least) || !is_number(most) || inner.is_empty() {
        return Err("an interval is not of the form {2}, {2,} or {2,3}");
    }
    let least = if least.is_empty() { "0" } else { least };
    match inner.contains(',') {
        true => text.push_str(&format!("{{{least},{most}}}")),
        false => text.push_str(&format!("{{{least}}}")),
    }
    rest.get(end + close.len()..).ok_or(WRONG)
}

/// What follows `[`. A backslash is a byte like others in it.
fn bracket<'p>(rest: &'p [u8], text: &mut String) -> Result<&'p [u8], &'static str> {
    const WRONG: &str = "a bracket is not closed";
    let (sign, mut rest) = match rest.split_first() {
        Some((b'^', rest)) => ("[^", rest),
        _ => ("[", rest),
    };
    text.push_str(sign);
    let mut is_first = true;
    loop {
        match rest {
            [] => return Err(WRONG),
            [b']', after @ ..] if !is_first => {
                text.push(']');
                return Ok(after);
            }
            [b'[', b':', ..] => {
                let (name, after) = named(rest, b':').ok_or(WRONG)?;
                class(name).ok_or("a class in brackets is unknown")?;
                text.push_str(&format!("[:{}:]", String::from_utf8_lossy(name)));
                rest = after;
            }
            _ => {
                let (first, after) = element(rest)?;
                rest = after;
                let mut last = first;
                if let [b'-', behind, ..] = rest
                    && *behind != b']'
                {
                    (last, rest) = element(rest.get(1..).ok_or(WRONG)?)?;
                }
                if first > last {
                    return Err("a range in brackets ends before it begins");
                }
                text.push_str(&format!("\\x{first:02x}-\\x{last:02x}"));
            }
        }
        is_first = false;
    }
}

fn element(text: &[u8]) -> Result<(u8, &[u8]), &'static str> {
    match text {
        [b'[', kind @ (b'.' | b'='), ..] => match named(text, *kind) {
            Some(([byte], rest)) => Ok((*byte, rest)),
            _ => Err("a name of several characters in brackets is unknown"),
        },
        [byte, rest @ ..] => Ok((*byte, rest)),
        [] => Err("a bracket is not closed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(syntax: Syntax, pattern: &str, text: &[u8]) -> bool {
        compile(pattern.as_bytes(), syntax, false).unwrap().is_match(text)
    }

    #[test]
    fn signs_depend_on_the_syntax() {
        assert!(is_match(Syntax::Find, "\\./\\(a\\|b\\)+", b"./aba"));
        assert!(is_match(Syntax::Find, "a{2}(b)", b"a{2}(b)"));
        assert!(is_match(Syntax::Extended, "(a|b){2}", b"ab"));
        assert!(is_match(Syntax::Extended, "a\\{2\\(", b"a{2("));
        assert!(is_match(Syntax::Basic, "\\(a\\)\\{2,\\}b*", b"aaabb"));
        assert!(is_match(Syntax::Basic, "a+(b)", b"a+(b)"));
        assert!(is_match(Syntax::Extended, "[]a\\&&]+", b"]a\\&"));
        assert!(is_match(Syntax::Find, ".*", b"\xff\n\xfe") && !is_match(Syntax::Emacs, ".", b"\n"));
        assert!(!is_match(Syntax::Extended, "a", b"ab") && !is_match(Syntax::Extended, "a|ab", b"abc"));
        assert!(is_match(Syntax::Extended, "a|ab", b"ab"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for pattern in ["(a)\\1", "[a", "a\\", "[[:none:]]", "a{x}"] {
            assert!(compile(pattern.as_bytes(), Syntax::Extended, false).is_err(), "{pattern}");
        }
    }
}

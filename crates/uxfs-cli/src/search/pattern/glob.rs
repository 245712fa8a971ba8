//! Shell patterns: `*`, `?`, brackets, and a backslash before any of them. A slash and a leading dot are bytes like others.

/// A shell pattern.
#[derive(Debug, Clone)]
pub struct Glob {
    parts: Vec<Part>,
    folds_case: bool,
    /// A pattern that ends with a single backslash matches nothing.
    is_impossible: bool,
}

#[derive(Debug, Clone)]
enum Part {
    Byte(u8),
    Any,
    Run,
    /// One bit for each byte value.
    Set(Box<[bool; 256]>),
}

impl Glob {
    /// Compiles a pattern. Every pattern has a meaning: a bracket that is not closed stands for itself.
    pub fn new(pattern: &[u8], folds_case: bool) -> Self {
        let (mut parts, mut rest, mut is_impossible) = (Vec::new(), pattern, false);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            let part = match byte {
                b'*' if matches!(parts.last(), Some(Part::Run)) => continue,
                b'*' => Part::Run,
                b'?' => Part::Any,
                b'[' => match bracket(after, folds_case) {
                    Some((set, after)) => {
                        rest = after;
                        Part::Set(Box::new(set))
                    }
                    None => Part::Byte(b'['),
                },
                b'\\' => match after.split_first() {
                    Some((byte, after)) => {
                        rest = after;
                        Part::Byte(*byte)
                    }
                    None => {
                        is_impossible = true;
                        continue;
                    }
                },
                byte => Part::Byte(*byte),
            };
            parts.push(part);
        }
        Self { parts, folds_case, is_impossible }
    }

    /// Whether the whole text matches. Takes at most as many steps as the pattern and the text have bytes, multiplied.
    pub fn matches(&self, text: &[u8]) -> bool {
        if self.is_impossible {
            return false;
        }
        let (mut part, mut at) = (0, 0);
        // Behind the last `*`, and where its run ends so far: a mismatch makes the run longer by one.
        let mut last_run = None;
        loop {
            match (self.parts.get(part), text.get(at)) {
                (None, None) => return true,
                (Some(Part::Run), _) => {
                    part += 1;
                    last_run = Some((part, at));
                }
                (Some(wanted), Some(byte)) if self.is_match(wanted, *byte) => {
                    part += 1;
                    at += 1;
                }
                _ => {
                    let Some((behind, end)) = last_run.filter(|(_, end)| *end < text.len()) else {
                        return false;
                    };
                    last_run = Some((behind, end + 1));
                    (part, at) = (behind, end + 1);
                }
            }
        }
    }

    fn is_match(&self, part: &Part, byte: u8) -> bool {
        match part {
            Part::Any => true,
            Part::Set(set) => set.get(usize::from(byte)).is_some_and(|is_in| *is_in),
            Part::Byte(wanted) if self.folds_case => wanted.eq_ignore_ascii_case(&byte),
            Part::Byte(wanted) => *wanted == byte,
            Part::Run => false,
        }
    }
}

/// Reads what follows `[`; gives the set and the text behind `]`. `None` where the bracket is not closed or names an unknown class.
fn bracket(text: &[u8], folds_case: bool) -> Option<([bool; 256], &[u8])> {
    let (is_negated, mut rest) = match text.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut set = [false; 256];
    let mut is_first = true;
    loop {
        let (byte, after) = rest.split_first()?;
        if *byte == b']' && !is_first {
            rest = after;
            break;
        }
        is_first = false;
        if *byte == b'[' && after.first() == Some(&b':') {
            let (class, after) = named(after, b':')?;
            let holds = class_of(class)?;
            set.iter_mut().enumerate().for_each(|(index, is_in)| *is_in |= holds(index as u8));
            rest = after;
            continue;
        }
        let (first, after) = element(rest)?;
        rest = after;
        let mut last = first;
        if let [b'-', behind, ..] = rest
            && *behind != b']'
        {
            (last, rest) = element(rest.get(1..)?)?;
        }
        // Classes are of the byte as it is; ends of ranges are folded, and so is the byte that is compared with them.
        let fold = |byte: u8| if folds_case { byte.to_ascii_lowercase() } else { byte };
        let range = fold(first)..=fold(last);
        set.iter_mut().enumerate().for_each(|(index, is_in)| *is_in |= range.contains(&fold(index as u8)));
    }
    if is_negated {
        set.iter_mut().for_each(|is_in| *is_in = !*is_in);
    }
    Some((set, rest))
}

/// One byte of a bracket: itself, behind a backslash, or as `[.x.]` or `[=x=]`.
fn element(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'[', kind @ (b'.' | b'='), ..] => {
            let (name, rest) = named(text.get(1..)?, *kind)?;
            match name {
                [byte] => Some((*byte, rest)),
                _ => None,
            }
        }
        [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

/// The name between `:` and `:]`, and the like; `text` begins with the sign.
pub(super) fn named(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let inner = text.get(1..)?;
    let end = inner.windows(2).position(|pair| pair == [sign, b']'])?;
    Some((inner.get(..end)?, inner.get(end + 2..)?))
}

/// The bytes of a class, by its name in POSIX.
pub(super) fn class_of(name: &[u8]) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_as_the_shell_knows_them() {
        let yes = [
            ("*", ""),
            ("*", ".hidden"),
            ("et\\c", "etc"),
            ("[[]x", "[x"),
            ("[x", "[x"),
            ("a[]]b", "a]b"),
            ("a\\\\b", "a\\b"),
            ("[+--]x", "-x"),
            ("[a-]", "-"),
            ("[[.a.]]", "a"),
            ("[![:digit:]]", "x"),
            ("[^b]", "a"),
            ("a*b*c", "aXbXbXc"),
            ("./d*x", "./d/e/x"),
        ];
        for (pattern, text) in yes {
            assert!(Glob::new(pattern.as_bytes(), false).matches(text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [("etc\\", "etc\\"), ("?", ""), ("[!a]", "a"), ("a*b", "abc"), ("A", "a")] {
            assert!(!Glob::new(pattern.as_bytes(), false).matches(text.as_bytes()), "{pattern} {text}");
        }
        assert!(Glob::new(b"A[B-C]", true).matches(b"ab"));
        assert!(!Glob::new(b"[!a]", true).matches(b"A"));
        assert!(Glob::new(b"[![:upper:]]", true).matches(b"a"));
        assert!(Glob::new(b"\xff?", false).matches(b"\xff\xfe"));
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(100);
        assert!(!Glob::new(pattern.as_bytes(), false).matches(&[b'a'; 99]));
    }
}

//! One name against one pattern: `*`, `?`, `[…]`, and `\` in front of what is meant as it is. Names are bytes, as in the C locale.

/// A pattern for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    folds_case: bool,
    /// It ends with a single backslash, and fits nothing.
    is_impossible: bool,
}

/// Where shells and fnmatch(3) differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// A last backslash stands for itself, and an unknown class has no byte.
    Shell,
    /// A pattern with a last backslash fits nothing, and a bracket with an unknown class stands for itself.
    Fnmatch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// This byte.
    Byte(u8),
    /// Any byte.
    One,
    /// Any bytes.
    Many,
    /// A byte of a set.
    Set(Box<ByteSet>),
}

/// A bit for each byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    fn contains(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte >> 6)).is_some_and(|word| word >> (byte & 63) & 1 == 1)
    }

    fn insert_if(&mut self, is_in: impl Fn(u8) -> bool) {
        (0..=u8::MAX).filter(|byte| is_in(*byte)).for_each(|byte| self.insert(byte));
    }
}

impl Pattern {
    /// As a shell knows it. Any text is a pattern: a bracket that is not closed stands for itself.
    pub fn parse(text: &[u8]) -> Self {
        Self::parse_as(text, Dialect::Shell, false)
    }

    /// As fnmatch(3) knows it; with `folds_case` ASCII letters fit both cases.
    pub fn parse_fnmatch(text: &[u8], folds_case: bool) -> Self {
        Self::parse_as(text, Dialect::Fnmatch, folds_case)
    }

    fn parse_as(text: &[u8], dialect: Dialect, folds_case: bool) -> Self {
        let (mut tokens, mut rest, mut is_impossible) = (Vec::new(), text, false);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            let token = match byte {
                b'*' if tokens.last() == Some(&Token::Many) => continue,
                b'*' => Token::Many,
                b'?' => Token::One,
                b'[' => match parse_set(after, dialect, folds_case) {
                    Some((set, after)) => {
                        rest = after;
                        Token::Set(Box::new(set))
                    }
                    None => Token::Byte(b'['),
                },
                b'\\' => match after.split_first() {
                    Some((escaped, after)) => {
                        rest = after;
                        Token::Byte(*escaped)
                    }
                    None => {
                        is_impossible = dialect == Dialect::Fnmatch;
                        Token::Byte(b'\\')
                    }
                },
                byte => Token::Byte(*byte),
            };
            tokens.push(token);
        }
        Self { tokens, folds_case, is_impossible }
    }

    /// The only name that it fits; `None` where there may be several.
    pub fn literal(&self) -> Option<Vec<u8>> {
        let byte = |token: &Token| match token {
            Token::Byte(byte) => Some(*byte),
            Token::One | Token::Many | Token::Set(_) => None,
        };
        self.tokens.iter().map(byte).collect()
    }

    /// Whether it fits a name as in a shell: the dot of a hidden name must be in the pattern.
    pub fn fits_shown(&self, name: &[u8]) -> bool {
        let is_hidden = name.first() == Some(&b'.');
        (!is_hidden || self.tokens.first() == Some(&Token::Byte(b'.'))) && self.fits(name)
    }

    /// Whether it fits a name, hidden or not. Takes at most as many steps as the product of both lengths.
    pub fn fits(&self, name: &[u8]) -> bool {
        if self.is_impossible {
            return false;
        }
        let (mut token_index, mut name_index) = (0, 0);
        // The last `*`, and where the name went on behind what it took: an earlier one need not be tried again.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let token = self.tokens.get(token_index);
            let byte = name.get(name_index);
            let fits = match (token, byte) {
                (None, None) => return true,
                (Some(Token::Many), _) => {
                    retry = Some((token_index + 1, name_index));
                    token_index += 1;
                    continue;
                }
                (Some(Token::Byte(wanted)), Some(byte)) if self.folds_case => {
                    wanted.eq_ignore_ascii_case(byte)
                }
                (Some(Token::Byte(wanted)), Some(byte)) => wanted == byte,
                (Some(Token::One), Some(_)) => true,
                (Some(Token::Set(set)), Some(byte)) => set.contains(*byte),
                (None, Some(_)) | (Some(_), None) => false,
            };
            if fits {
                token_index += 1;
                name_index += 1;
                continue;
            }
            match &mut retry {
                Some((token, at)) if *at < name.len() => {
                    *at += 1;
                    (token_index, name_index) = (*token, *at);
                }
                _ => return false,
            }
        }
    }
}

/// Parses what follows `[`; `None` where it is not closed, or stands for itself.
fn parse_set(text: &[u8], dialect: Dialect, folds_case: bool) -> Option<(ByteSet, &[u8])> {
    let (is_negated, mut rest) = match text.split_first() {
        Some((b'!' | b'^', after)) => (true, after),
        _ => (false, text),
    };
    let mut set = ByteSet::default();
    let mut is_first = true;
    loop {
        if let (Some(after), false) = (rest.strip_prefix(b"]"), is_first) {
            rest = after;
            break;
        }
        is_first = false;
        if let Some((name, after)) = named(rest, b':') {
            match (class(name), dialect) {
                (Some(is_in), _) => set.insert_if(is_in),
                (None, Dialect::Shell) => {}
                (None, Dialect::Fnmatch) => return None,
            }
            rest = after;
            continue;
        }
        let (begin, after) = member(rest, dialect)?;
        rest = after;
        let end = match rest.strip_prefix(b"-") {
            Some(after) if after.first().is_some_and(|byte| *byte != b']') => {
                let (end, after) = member(after, dialect)?;
                rest = after;
                end
            }
            _ => begin,
        };
        // Classes are of the byte as it is; ends of ranges are folded, and so is the byte that is compared with them.
        let fold = |byte: u8| if folds_case { byte.to_ascii_lowercase() } else { byte };
        set.insert_if(|byte| (fold(begin)..=fold(end)).contains(&fold(byte)));
    }
    if is_negated {
        set.0.iter_mut().for_each(|word| *word = !*word);
    }
    Some((set, rest))
}

/// One byte of a set: plain, escaped, or as `[.x.]` or `[=x=]`.
fn member(text: &[u8], dialect: Dialect) -> Option<(u8, &[u8])> {
    for sign in [b'.', b'='] {
        match named(text, sign) {
            Some(([byte], after)) => return Some((*byte, after)),
            Some(_) if dialect == Dialect::Fnmatch => return None,
            _ => {}
        }
    }
    match text.split_first()? {
        (b'\\', after) => after.split_first().map(|(byte, after)| (*byte, after)),
        (byte, after) => Some((*byte, after)),
    }
}

/// The name in `[:name:]`, for any sign in place of the colon, and what follows.
pub fn named(text: &[u8], sign: u8) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(&[b'[', sign])?;
    let end = inside.windows(2).position(|pair| pair == [sign, b']'])?;
    Some((inside.get(..end)?, inside.get(end + 2..)?))
}

/// The bytes of a class in the C locale, by its name in POSIX or `word`; `None` for an unknown one.
pub fn class(name: &[u8]) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        b"word" => |byte| byte.is_ascii_alphanumeric() || byte == b'_',
        _ => return None,
    })
}

/// Whether a text has a sign of a pattern that is not escaped.
pub fn is_pattern(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'/').any(|part| Pattern::parse(part).literal().is_none())
}

/// A text in which each sign of a pattern stands for itself.
pub fn escaped(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len());
    for byte in text {
        if b"*?[]\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit() {
        let fits = |pattern: &str, name: &str| Pattern::parse(pattern.as_bytes()).fits(name.as_bytes());
        for (pattern, name) in [
            ("*", ""),
            ("a*b*c", "aXbbYc"),
            ("?", "x"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]_]*", "7up"),
            ("\\*", "*"),
            ("[", "["),
            ("[a", "[a"),
            ("[\\]]", "]"),
            ("**", "any"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("?", ""), ("[a-c]", "d"), ("[^a]", "a"), ("a*b", "ac"), ("\\*", "x"), ("[z-a]", "m")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn fnmatch_differs_from_shells() {
        let both = |pattern: &[u8], name: &[u8]| {
            (Pattern::parse(pattern).fits(name), Pattern::parse_fnmatch(pattern, false).fits(name))
        };
        assert_eq!(both(b"etc\\", b"etc\\"), (true, false));
        assert_eq!(both(b"[[:none:]]", b"[:]"), (false, true));
        for (pattern, name) in
            [(&b"[+--]x"[..], &b"-x"[..]), (b"[[.a.]]", b"a"), (b"./d*x", b"./d/e/x"), (b"*", b".a")]
        {
            assert_eq!(both(pattern, name), (true, true));
        }
        let folded = |pattern: &[u8], name: &[u8]| Pattern::parse_fnmatch(pattern, true).fits(name);
        assert!(folded(b"A[B-C]", b"ab") && folded(b"[![:upper:]]", b"a") && folded(b"\xff?", b"\xff\xfe"));
        assert!(!folded(b"[!a]", b"A"));
    }

    #[test]
    fn hidden_names_need_their_dot() {
        assert!(!Pattern::parse(b"*").fits_shown(b".a"));
        assert!(!Pattern::parse(b"[.]a").fits_shown(b".a"));
        assert!(Pattern::parse(b".*").fits_shown(b".a"));
    }

    #[test]
    fn a_hostile_pattern_ends() {
        assert!(!Pattern::parse(&[b"a*".repeat(100).as_slice(), b"c"].concat()).fits(&[b'a'; 255]));
    }

    #[test]
    fn escapes_lead_back() {
        let name = b"a*[?]\\b";
        assert_eq!(Pattern::parse(&escaped(name)).literal().as_deref(), Some(name.as_slice()));
        assert!(!is_pattern(&escaped(name)) && is_pattern(b"a/b*") && !is_pattern(b"a["));
    }
}

//! Which paths are wanted.

/// Patterns of paths, as shells have them: `*` and `?` match anything but a slash, `[a-z]` and `[!a-z]` one of a set, `\` takes the next
/// byte as it is. A pattern without a slash is compared with names at any depth, another with paths from the root. What matches is
/// wanted with everything below it.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    components: Vec<Vec<u8>>,
    is_name: bool,
}

impl Choice {
    /// Of patterns; everything is wanted where there are none.
    pub fn new<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>) -> Self {
        let pattern = |text: P| {
            let text = text.as_ref();
            let components: Vec<Vec<u8>> =
                components(text).filter(|part| *part != b".").map(<[u8]>::to_vec).collect();
            let is_name = !text.contains(&b'/');
            Pattern { components, is_name }
        };
        Self { patterns: patterns.into_iter().map(pattern).collect() }
    }

    /// Whether everything is wanted.
    pub fn is_all(&self) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.components.is_empty())
    }

    /// Whether this path is wanted.
    pub fn has(&self, path: &[u8]) -> bool {
        self.is_all() || self.patterns.iter().any(|pattern| pattern.has(path))
    }

    /// Whether something below this directory may be wanted.
    pub fn may_lie_below(&self, directory: &[u8]) -> bool {
        self.is_all() || self.patterns.iter().any(|pattern| pattern.may_lie_below(directory))
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

impl Pattern {
    fn has(&self, path: &[u8]) -> bool {
        let mut path = components(path);
        match self.components.as_slice() {
            [name] if self.is_name => path.any(|component| matches(name, component)),
            wanted => wanted.iter().all(|wanted| path.next().is_some_and(|found| matches(wanted, found))),
        }
    }

    fn may_lie_below(&self, directory: &[u8]) -> bool {
        self.is_name
            || self.components.iter().zip(components(directory)).all(|(wanted, found)| matches(wanted, found))
    }
}

/// Whether a name matches a pattern. Takes at most as many steps as the product of both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // Where to go on if the star that was met last takes one byte more.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, name));
            continue;
        }
        let next = match (pattern, name) {
            ([], []) => return true,
            (_, [first, rest @ ..]) => one(pattern, *first).map(|after| (after, rest)),
            _ => None,
        };
        match (next, retry) {
            (Some(next), _) => (pattern, name) = next,
            (None, Some((after_star, [_, longer @ ..]))) => {
                (pattern, name) = (after_star, longer);
                retry = Some((after_star, longer));
            }
            (None, _) => return false,
        }
    }
}

/// What of the pattern is left behind the part that matches one byte; `None` where it does not.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((is_in, after)) => is_in.then_some(after),
            // No set: an ordinary byte.
            None => (byte == b'[').then_some(rest),
        },
        [first, rest @ ..] => (*first == byte).then_some(rest),
        [] => None,
    }
}

/// Whether a byte is in the set that begins here, and what follows the set.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (is_negated, mut rest) = match pattern {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let (mut is_in, mut is_first) = (false, true);
    loop {
        match rest {
            [b']', after @ ..] if !is_first => return Some((is_in != is_negated, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                is_in |= (*low..=*high).contains(&byte);
                rest = after;
            }
            [single, after @ ..] => {
                is_in |= *single == byte;
                rest = after;
            }
            [] => return None,
        }
        is_first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_shells() {
        let yes = [
            ("*", ""),
            ("*.jpg", "a.jpg"),
            ("a*b*c", "aXbYc"),
            ("?", "x"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("\\*", "*"),
            ("[", "["),
            ("a[b", "a[b"),
            ("*a*a*b", "aaaab"),
            ("[a-]", "-"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        let no =
            [("", "a"), ("a", ""), ("*.jpg", "jpg"), ("[a-c]", "d"), ("[!a]", "a"), ("?", ""), ("a*b", "ac")];
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        // Many stars take no longer than they must.
        assert!(!matches("*a".repeat(100).as_bytes(), "a".repeat(99).as_bytes()));
    }

    #[test]
    fn what_matches_is_wanted_with_all_below() {
        let choice = Choice::new(["/data/*/Documents", "*.jpg"]);
        for path in ["data/a/Documents", "data/b/Documents/x/y", "x/y.jpg", "x.jpg/z"] {
            assert!(choice.has(path.as_bytes()), "{path}");
        }
        for path in ["data", "data/a", "data/a/b/Documents", "x/y.png", ""] {
            assert!(!choice.has(path.as_bytes()), "{path}");
        }
        let paths = Choice::new(["/data/a/b"]);
        assert!(
            ["", "data", "data/a", "data/a/b", "data/a/b/c"]
                .iter()
                .all(|path| paths.may_lie_below(path.as_bytes()))
        );
        assert!(!paths.may_lie_below(b"usr") && !paths.may_lie_below(b"data/b"));
        for all in [Choice::default(), Choice::new(["/"]), Choice::new([""])] {
            assert!(all.has(b"") && all.has(b"x"));
        }
    }
}

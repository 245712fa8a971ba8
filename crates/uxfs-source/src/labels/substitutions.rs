//! Files of substitutions: directories whose contents are labelled as if they were elsewhere.

use crate::{
    error::{SourceError, TextFault},
    lines::Lines,
};

/// Lines of one file; policies have some ten.
const MAX_SUBSTITUTIONS: usize = 10_000;

/// The lines of one file.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    /// In the order of the file.
    lines: Vec<Substitution>,
}

#[derive(Debug)]
struct Substitution {
    from: Box<[u8]>,
    to: Box<[u8]>,
}

impl Substitutions {
    /// Reads `FROM TO` on each line. As in libselinux a line with one word says nothing, and what follows two is not looked at.
    pub(super) fn read(lines: &mut Lines) -> Result<Self, SourceError> {
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let Some((from, to)) = words.next().zip(words.next()).filter(|(from, _)| !from.starts_with(b"#"))
            else {
                continue;
            };
            found.push(Substitution { from: from.into(), to: to.into() });
            if found.len() > MAX_SUBSTITUTIONS {
                return Err(lines.error(TextFault::TooMuch("substitutions")));
            }
        }
        Ok(Self { lines: found })
    }

    /// The path under which a path, which begins with a slash, is looked up.
    pub(super) fn apply(&self, path: Vec<u8>) -> Vec<u8> {
        for Substitution { from, to } in self.lines.iter().rev() {
            let Some(rest) = path.strip_prefix(&**from) else { continue };
            return match (&**to, rest) {
                (to, []) => to.to_vec(),
                // What is below the root needs no second slash.
                (b"/", [b'/', ..]) => rest.to_vec(),
                (to, [b'/', ..]) => [to, rest].concat(),
                _ => continue,
            };
        }
        path
    }
}

//! Paths of archives and manifests, which may say anything.

use crate::stream::MAX_PATH_BYTES;

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// It has `..` in it.
    Escapes,
    TooLong,
    /// It holds a NUL.
    Nul,
}

/// The path without slashes at its ends, empty components and `.`; absolute paths are taken to begin at the root of the
/// tree. Empty for the root.
pub(crate) fn clean(path: &[u8]) -> Result<Box<[u8]>, BadPath> {
    if path.contains(&0) {
        return Err(BadPath::Nul);
    }
    let mut clean = Vec::with_capacity(path.len().min(MAX_PATH_BYTES));
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err(BadPath::Escapes),
            _ => {}
        }
        if !clean.is_empty() {
            clean.push(b'/');
        }
        if clean.len() + component.len() > MAX_PATH_BYTES {
            return Err(BadPath::TooLong);
        }
        clean.extend_from_slice(component);
    }
    Ok(clean.into())
}

/// Splits a clean path into that of its directory and its own name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (path.get(..slash).unwrap_or_default(), path.get(slash + 1..).unwrap_or_default()),
        None => (b"", path),
    }
}

/// A path in a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Box<[u8]> {
    match directory {
        b"" => name.into(),
        _ => [directory, b"/", name].concat().into(),
    }
}

/// A name in a layer that removes something from the layers below, in the words of OCI images.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whiteout {
    /// The file or tree of this path.
    Path(Box<[u8]>),
    /// The entries of this directory.
    Below(Box<[u8]>),
    /// Nothing: left by aufs, for itself.
    Nothing,
    /// No name follows.
    Malformed,
}

impl Whiteout {
    /// `None` for names that are names.
    pub(crate) fn of(path: &[u8]) -> Option<Self> {
        let (directory, name) = split(path);
        if directory.split(|byte| *byte == b'/').any(|name| name.starts_with(b".wh.")) {
            return Some(Self::Nothing);
        }
        Some(match name.strip_prefix(b".wh.")? {
            b".wh..opq" => Self::Below(directory.into()),
            name if name.starts_with(b".wh.") => Self::Nothing,
            b"" | b"." | b".." => Self::Malformed,
            name => Self::Path(join(directory, name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_or_refused() {
        for (path, expected) in [
            ("", ""),
            (".", ""),
            ("./", ""),
            ("/", ""),
            ("./a", "a"),
            ("/a//b/./c/", "a/b/c"),
            ("a/..b/...", "a/..b/..."),
        ] {
            assert_eq!(clean(path.as_bytes()).unwrap(), expected.as_bytes().into(), "{path}");
        }
        for path in ["..", "../a", "a/..", "a/../b"] {
            assert_eq!(clean(path.as_bytes()), Err(BadPath::Escapes), "{path}");
        }
        assert_eq!(clean(b"a\0b"), Err(BadPath::Nul));
        assert_eq!(clean(&[b'a'; MAX_PATH_BYTES + 1]), Err(BadPath::TooLong));
        assert!(clean(&[b'a'; MAX_PATH_BYTES]).is_ok());
        assert_eq!(split(b"a/b/c"), (b"a/b".as_slice(), b"c".as_slice()));
        assert_eq!(split(b"c"), (b"".as_slice(), b"c".as_slice()));
    }

    #[test]
    fn names_that_say_what_is_gone() {
        for (path, expected) in [
            ("a/b", None),
            ("a.wh./.whb", None),
            ("a/.wh.b", Some(Whiteout::Path(b"a/b".as_slice().into()))),
            (".wh.b", Some(Whiteout::Path(b"b".as_slice().into()))),
            ("a/.wh..wh..opq", Some(Whiteout::Below(b"a".as_slice().into()))),
            (".wh..wh..opq", Some(Whiteout::Below(b"".as_slice().into()))),
            (".wh..wh.plnk", Some(Whiteout::Nothing)),
            (".wh..wh.plnk/12.34", Some(Whiteout::Nothing)),
            ("a/.wh.", Some(Whiteout::Malformed)),
            ("a/.wh...", Some(Whiteout::Malformed)),
        ] {
            assert_eq!(Whiteout::of(path.as_bytes()), expected, "{path}");
        }
    }
}

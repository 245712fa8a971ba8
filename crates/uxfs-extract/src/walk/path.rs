//! The path of a walk, and what names of an image may be part of one.

use crate::entry::is_safe_component;

/// Longest path. A tree can be deeper than any path that the kernel takes; an image can ask for more than memory holds.
const MAX_PATH_BYTES: usize = 64 << 10;

/// Memory for files that have several names; records of more of them go to temporary files.
pub const LINKS_BYTES: usize = 8 << 20;

/// Why nothing can be written under a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// The name has a slash or a zero byte, is empty, or is `.` or `..`.
    ImpossibleName,
    /// All names together are too long.
    TooLong,
}

impl PathFault {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ImpossibleName => "no file can have this name",
            Self::TooLong => "the path is too long",
        }
    }
}

/// Adds a component to a path; gives the length of the path above.
pub fn push(path: &mut Vec<u8>, name: &[u8]) -> usize {
    let above_bytes = path.len();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    above_bytes
}

/// Why nothing can be written under a path whose last component is `name`.
pub fn fault(path: &[u8], name: &[u8]) -> Option<PathFault> {
    match () {
        () if !is_safe_component(name) => Some(PathFault::ImpossibleName),
        () if path.len() > MAX_PATH_BYTES => Some(PathFault::TooLong),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_no_part_of_a_path() {
        let mut path = Vec::new();
        assert_eq!(push(&mut path, b"folder"), 0);
        assert_eq!((push(&mut path, b"file"), path.as_slice()), (6, b"folder/file".as_slice()));
        assert_eq!(fault(&path, b"file"), None);
        for name in [b"".as_slice(), b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(fault(&path, name), Some(PathFault::ImpossibleName));
        }
        assert_eq!(fault(&[b'x'; MAX_PATH_BYTES + 1], b"x"), Some(PathFault::TooLong));
    }
}

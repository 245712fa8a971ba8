//! The first paths of files with several names: the others are hard links to them.

use super::{
    SpillError,
    map::{Key, SpillMap},
    records::Records,
};

/// Files whose further names are still to come.
#[derive(Debug)]
pub struct FirstPaths {
    /// By file: where the first path is kept, and how many names are still to come if the link count is right.
    known: SpillMap,
    paths: Records,
}

impl FirstPaths {
    /// No files, of which about `memory_bytes` will be kept in memory.
    pub fn new(memory_bytes: usize) -> Self {
        let half = memory_bytes / 2;
        Self { known: SpillMap::new(half), paths: Records::new(half) }
    }

    /// A name of a file with `link_count` of them. Puts the first path into `first` where it is known; otherwise `path` is
    /// the first, and the outcome is `false`. A file is forgotten with its last name.
    ///
    /// # Errors
    /// The temporary file.
    pub fn meet(
        &mut self,
        file: Key,
        link_count: u32,
        path: &[u8],
        first: &mut Vec<u8>,
    ) -> Result<bool, SpillError> {
        let Some((place, names_left)) = self.known.get(file)? else {
            let place = self.paths.append(path)?;
            self.known.insert(file, (place, link_count.saturating_sub(1).into()))?;
            return Ok(false);
        };
        match names_left {
            0 | 1 => drop(self.known.remove(file)?),
            _ => self.known.insert(file, (place, names_left - 1))?,
        }
        let mut scratch = Vec::new();
        let found = self.paths.read(place, &mut scratch)?;
        first.clear();
        first.extend_from_slice(found);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_forgotten_with_its_last_name() {
        for memory_bytes in [1 << 20, 0] {
            let mut paths = FirstPaths::new(memory_bytes);
            let mut first = Vec::new();
            assert!(!paths.meet((7, 0), 3, b"a/b", &mut first).unwrap());
            assert!(!paths.meet((8, 0), 2, b"c", &mut first).unwrap());
            for _ in 0..2 {
                assert!(paths.meet((7, 0), 3, b"other", &mut first).unwrap());
                assert_eq!(first, b"a/b");
            }
            assert!(!paths.meet((7, 0), 3, b"new", &mut first).unwrap());
            assert!(paths.meet((8, 0), 2, b"other", &mut first).unwrap());
            assert_eq!(first, b"c");
        }
    }
}

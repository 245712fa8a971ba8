//! The first names of files that have several: what a walk must remember of them.

use uxfs_block::spill::{SpillError, map::SpillMap, records::Records};

/// First paths of files that have several names. What does not fit the memory goes to temporary files.
#[derive(Debug)]
pub struct FirstNames {
    /// By inode: where the first path is kept, and how many names are still to come if the link count is right.
    known: SpillMap,
    paths: Records,
}

impl FirstNames {
    /// No files; takes about `memory_bytes` at most.
    pub fn new(memory_bytes: usize) -> Self {
        let half = memory_bytes / 2;
        Self { known: SpillMap::new(half), paths: Records::new(half) }
    }

    /// Puts the first path of a file into `path`; `false` if the file has not been seen. Forgotten with the last of its
    /// names.
    ///
    /// # Errors
    /// The temporary file.
    pub fn seen(&mut self, inode: u64, path: &mut Vec<u8>) -> Result<bool, SpillError> {
        let key = (inode, 0);
        let Some((place, remaining)) = self.known.get(key)? else { return Ok(false) };
        match remaining {
            0 | 1 => drop(self.known.remove(key)?),
            _ => self.known.insert(key, (place, remaining - 1))?,
        }
        let mut scratch = Vec::new();
        let first = self.paths.read(place, &mut scratch)?;
        path.clear();
        path.extend_from_slice(first);
        Ok(true)
    }

    /// Remembers the path of the first of `link_count` names.
    ///
    /// # Errors
    /// The temporary file.
    pub fn remember(&mut self, inode: u64, link_count: u32, path: &[u8]) -> Result<(), SpillError> {
        let place = self.paths.append(path)?;
        self.known.insert((inode, 0), (place, link_count.saturating_sub(1).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_names_are_forgotten_with_the_last() {
        for memory_bytes in [1 << 20, 0] {
            let mut first = FirstNames::new(memory_bytes);
            let mut path = Vec::new();
            assert!(!first.seen(7, &mut path).unwrap());
            first.remember(7, 3, b"a/b").unwrap();
            first.remember(8, 2, b"c").unwrap();
            for _ in 0..2 {
                assert!(first.seen(7, &mut path).unwrap());
                assert_eq!(path, b"a/b");
            }
            assert!(!first.seen(7, &mut path).unwrap());
            assert!(first.seen(8, &mut path).unwrap());
            assert_eq!(path, b"c");
        }
    }
}

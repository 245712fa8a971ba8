//! Parent pointers beside directory entries: each entry has a parent pointer in its inode, and each parent pointer an entry.
//!
//! | module | holds |
//! |---|---|
//! | here | sums of both sides |
//! | [`compare`] | what exactly is wrong where the sums differ |

use uxfs_format::units::InodeNumber;

use crate::sum::{Keys, Sum};

pub(crate) mod compare;

/// Parts into which directories are divided: where one directory disagrees, only those of its part are compared.
const PARTS: usize = 4096;

/// Entries less parent pointers, for each part of the directories.
#[derive(Debug)]
pub(crate) struct ParentSums {
    sums: Box<[Sum]>,
}

impl Default for ParentSums {
    fn default() -> Self {
        Self { sums: vec![Sum::default(); PARTS].into() }
    }
}

/// A name of an inode: what an entry and a parent pointer both say.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Link<'n> {
    pub directory: InodeNumber,
    pub generation: u32,
    pub inode: InodeNumber,
    pub name: &'n [u8],
}

/// The part that a directory is in. Neighbours are in different parts.
fn part_of(directory: InodeNumber) -> usize {
    let number = directory.get();
    ((number ^ (number >> 12) ^ (number >> 24) ^ (number >> 36)) as usize) % PARTS
}

impl ParentSums {
    pub fn add_entry(&mut self, keys: &Keys, link: &Link<'_>) {
        if let Some(sum) = self.sums.get_mut(part_of(link.directory)) {
            sum.add(keys.of(link));
        }
    }

    pub fn add_pointer(&mut self, keys: &Keys, link: &Link<'_>) {
        if let Some(sum) = self.sums.get_mut(part_of(link.directory)) {
            sum.subtract(keys.of(link));
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| sum.add(*other));
    }

    /// Whether entries and parent pointers of a directory, or of one in the same part, differ.
    pub fn differs(&self, directory: InodeNumber) -> bool {
        self.sums.get(part_of(directory)).is_some_and(|sum| !sum.is_zero())
    }

    pub fn are_zero(&self) -> bool {
        self.sums.iter().all(|sum| sum.is_zero())
    }
}

//! Parent pointers beside directory entries: each entry has a parent pointer in its inode, and each parent pointer an entry.
//!
//! | module | holds |
//! |---|---|
//! | here | sums of both sides |
//! | [`compare`] | what exactly is wrong where the sums differ |
//! | [`recent`] | inodes that it has looked at last |

use uxfs_format::units::InodeNumber;

use crate::sum::{Keys, Sum};

pub(crate) mod compare;
mod recent;

/// Parts into which directories are divided: where one directory disagrees, only those of its part are compared.
const PARTS: usize = 4096;
/// Parts into which names are divided, by their hash: of the names of a large directory only those in a part that disagrees are looked up.
const PARTS_OF_NAMES: usize = 16384;

/// Entries less parent pointers, for each part of the directories, and for each part of the names.
#[derive(Debug)]
pub(crate) struct ParentSums {
    sums: Box<[Sum]>,
    of_names: Box<[Sum]>,
}

impl Default for ParentSums {
    fn default() -> Self {
        Self {
            sums: vec![Sum::default(); PARTS].into(),
            of_names: vec![Sum::default(); PARTS_OF_NAMES].into(),
        }
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
        let hash = keys.of(link);
        self.parts_mut(link.directory, hash).for_each(|sum| sum.add(hash));
    }

    pub fn add_pointer(&mut self, keys: &Keys, link: &Link<'_>) {
        let hash = keys.of(link);
        self.parts_mut(link.directory, hash).for_each(|sum| sum.subtract(hash));
    }

    fn parts_mut(&mut self, directory: InodeNumber, hash: Sum) -> impl Iterator<Item = &mut Sum> {
        let of_name = self.of_names.get_mut(hash.part_of(PARTS_OF_NAMES));
        self.sums.get_mut(part_of(directory)).into_iter().chain(of_name)
    }

    pub fn merge(&mut self, other: &Self) {
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, other)| sum.add(*other));
        self.of_names.iter_mut().zip(&other.of_names).for_each(|(sum, other)| sum.add(*other));
    }

    /// Whether entries and parent pointers of a directory, or of one in the same part, differ.
    pub fn differs(&self, directory: InodeNumber) -> bool {
        self.sums.get(part_of(directory)).is_some_and(|sum| !sum.is_zero())
    }

    /// Whether one side may say this and the other not. Where it gives false, both do.
    pub fn differs_by(&self, keys: &Keys, link: &Link<'_>) -> bool {
        self.differs(link.directory)
            && self.of_names.get(keys.of(link).part_of(PARTS_OF_NAMES)).is_some_and(|sum| !sum.is_zero())
    }

    pub fn are_zero(&self) -> bool {
        self.sums.iter().all(|sum| sum.is_zero())
    }
}

//! Names that a directory of the image has, so that a file of which something is missing gets none of them.

use std::{cell::OnceCell, collections::HashSet, ops::ControlFlow};

use uxfs_volume::{inode::Inode, volume::Volume};

use crate::deliver::PARTIAL;

/// Names that are kept, at most.
const MOST_NAMES: usize = 1 << 16;

/// Names of one directory that a file may get of which something is missing.
#[derive(Debug, Default)]
pub struct TakenNames {
    /// Where the index of the directory is damaged: read once, since a search for each name would read the directory for each.
    read: OnceCell<HashSet<Vec<u8>>>,
}

impl TakenNames {
    /// Whether the directory has a name that contains [`PARTIAL`].
    pub fn contain(&self, volume: &Volume, directory: &Inode, name: &[u8]) -> bool {
        match volume.lookup_by_hash(directory, name) {
            Ok(found) => found.is_some(),
            Err(_) => self.read.get_or_init(|| read(volume, directory)).contains(name),
        }
    }
}

fn read(volume: &Volume, directory: &Inode) -> HashSet<Vec<u8>> {
    let mut names = HashSet::new();
    // What cannot be read takes no name.
    let _ = volume.read_directory(directory, 0, |entry| {
        if entry.name.windows(PARTIAL.len()).any(|part| part == PARTIAL) {
            names.insert(entry.name.to_vec());
        }
        if names.len() < MOST_NAMES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    names
}

//! Copies of files with several names: a further name of the original becomes a further name of the copy.
//!
//! 1. A copy is remembered by inode number and generation, not by a handle, so that memory does not grow with the number
//!    of such files: behind [`MEMORY_BYTES`] they lie in a temporary file.
//! 2. A copy that has lost all its names meanwhile is forgotten: the next name gets a copy of its own.

use uxfs_block::spill::{SpillError, map::SpillMap};
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_format::units::InodeNumber;
use uxfs_volume::error::{Error, OperationError};

use crate::failure::Failure;

/// Some 100,000 files.
const MEMORY_BYTES: usize = 8 << 20;

/// Which file a name belongs to: device and inode on the host, or an inode of the image and 0.
pub type Original = (u64, u64);

/// Copies by their originals.
#[derive(Debug)]
pub struct Copies {
    /// Number and generation of each copy.
    known: SpillMap,
}

impl Default for Copies {
    fn default() -> Self {
        Self { known: SpillMap::new(MEMORY_BYTES) }
    }
}

impl Copies {
    /// The copy of a file.
    ///
    /// # Errors
    /// The temporary file; damage; the device.
    pub fn find(&self, filesystem: &FileSystem, original: Original) -> Result<Option<InodeHandle>, Failure> {
        let Some((number, generation)) = self.known.get(original).map_err(failed)? else { return Ok(None) };
        let generation = u32::try_from(generation).unwrap_or_default();
        match filesystem.open_handle(InodeNumber::new(number), generation) {
            Ok(copy) if copy.read().link_count() > 0 => Ok(Some(copy)),
            Ok(_) | Err(Error::Operation(OperationError::Stale)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers the copy of a file.
    ///
    /// # Errors
    /// The temporary file.
    pub fn add(&mut self, original: Original, copy: &InodeHandle) -> Result<(), Failure> {
        let generation = copy.read().generation();
        self.known.insert(original, (copy.number().get(), generation.into())).map_err(failed)
    }
}

fn failed(error: SpillError) -> Failure {
    Failure::caused_by(&error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
    use uxfs_engine::{
        bulk::create::NewKind,
        options::{Generations, MountOptions},
    };
    use uxfs_filesystem::operations::create::NewFile;
    use uxfs_testkit::{
        image::{TestImage, mount_options},
        judges::Judge,
        require,
    };

    use super::*;

    #[test]
    fn copies_are_found_in_memory_and_in_a_file_until_their_last_name_goes() {
        require!(Judge::Mkfs);
        let image = TestImage::new("copies", 300, &[], 0);
        // Generations tell files apart that had one number, as in every edit.
        let options = MountOptions { generations: Generations::Random, ..mount_options(64 << 20) };
        let writable = OpenOptions { writable: true, ..OpenOptions::default() };
        let device = Arc::new(SyncDevice::open(&image.path, &writable).unwrap());
        let file_system = FileSystem::mount_logged(device, &options).unwrap();
        let root = file_system.open_root().unwrap();
        let name = |number: u64| format!("copy-{number}").into_bytes();
        for memory_bytes in [0, 1 << 20] {
            let mut copies = Copies { known: SpillMap::new(memory_bytes) };
            let new = NewFile::new(NewKind::Regular, 0o644);
            let mut numbers = Vec::new();
            for number in 0..300 {
                let copy = file_system.create(&root, &name(number), &new).unwrap();
                copies.add((1, number), &copy).unwrap();
                numbers.push(copy.number());
            }
            // No handle keeps these inodes: their numbers are given to other files.
            for number in (0..300).step_by(3) {
                file_system.unlink(&root, &name(number)).unwrap();
            }
            let held = file_system.open(numbers[1]).unwrap();
            file_system.unlink(&root, &name(1)).unwrap();
            for number in (0..300).step_by(3) {
                file_system.create(&root, &name(number + 1000), &new).unwrap();
            }
            for (number, inode) in (0..300).zip(&numbers) {
                let found = copies.find(&file_system, (1, number)).unwrap();
                let expected = (number % 3 != 0 && number != 1).then_some(*inode);
                assert_eq!(found.map(|copy| copy.number()), expected, "{number}");
            }
            assert!(copies.find(&file_system, (2, 5)).unwrap().is_none());
            drop(held);
            for number in (0..300).filter(|number| number % 3 != 0 && *number != 1) {
                file_system.unlink(&root, &name(number)).unwrap();
            }
            (0..300).step_by(3).for_each(|number| file_system.unlink(&root, &name(number + 1000)).unwrap());
        }
    }
}

//! Which inode a file with several names has become.

use uxfs_block::spill::{SpillError, map::SpillMap};
use uxfs_format::units::InodeNumber;
use uxfs_source::entry::LinkIdentity;

/// Inodes of the files whose further names are still to come.
#[derive(Debug)]
pub struct Links {
    /// By device and inode of the source: the inode of the image, and how many names may still come. Where some lie outside
    /// the tree, the file stays.
    known: SpillMap,
}

impl Links {
    /// No files. What takes more than `memory_bytes` goes to a temporary file.
    pub fn new(memory_bytes: usize) -> Self {
        Self { known: SpillMap::new(memory_bytes) }
    }

    /// The inode of a file that has been met under another name. Forgets it with its last name, so that memory is
    /// taken only for files with names that are missing.
    ///
    /// # Errors
    /// The temporary file.
    pub fn find(&mut self, identity: &LinkIdentity) -> Result<Option<InodeNumber>, SpillError> {
        let key = (identity.device, identity.inode);
        let Some((inode, names_left)) = self.known.get(key)? else { return Ok(None) };
        match names_left {
            0 | 1 => drop(self.known.remove(key)?),
            _ => self.known.insert(key, (inode, names_left - 1))?,
        }
        Ok(Some(InodeNumber::new(inode)))
    }

    /// Remembers the inode of a file with its first name.
    ///
    /// # Errors
    /// The temporary file.
    pub fn add(&mut self, identity: &LinkIdentity, inode: InodeNumber) -> Result<(), SpillError> {
        if identity.links <= 1 {
            return Ok(());
        }
        let names_left = u64::from(identity.links - 1);
        self.known.insert((identity.device, identity.inode), (inode.get(), names_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_forgotten_with_its_last_name() {
        for memory_bytes in [1 << 20, 0] {
            let mut links = Links::new(memory_bytes);
            let identity = LinkIdentity { device: 1, inode: 7, links: 3 };
            assert_eq!(links.find(&identity).unwrap(), None);
            links.add(&identity, InodeNumber::new(131)).unwrap();
            assert_eq!(links.find(&identity).unwrap(), Some(InodeNumber::new(131)));
            assert_eq!(links.find(&identity).unwrap(), Some(InodeNumber::new(131)));
            assert_eq!(links.find(&identity).unwrap(), None);
            assert!(links.known.is_empty());
        }
    }
}

//! Which inode a file with several names has become.

use hashbrown::HashMap;
use uxfs_format::units::InodeNumber;
use uxfs_source::entry::LinkIdentity;

/// Inodes of the files whose further names are still to come.
#[derive(Debug, Default)]
pub struct Links {
    known: HashMap<(u64, u64), Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    inode: InodeNumber,
    /// Names that may still come: some lie outside the tree, then the entry stays.
    names_left: u32,
}

impl Links {
    /// The inode of a file that has been met under another name. Forgets it with its last name, so that memory is
    /// taken only for files with names that are missing.
    pub fn find(&mut self, identity: &LinkIdentity) -> Option<InodeNumber> {
        let key = (identity.device, identity.inode);
        let known = self.known.get_mut(&key)?;
        let inode = known.inode;
        known.names_left = known.names_left.saturating_sub(1);
        if known.names_left == 0 {
            self.known.remove(&key);
        }
        Some(inode)
    }

    /// Remembers the inode of a file with its first name.
    pub fn add(&mut self, identity: &LinkIdentity, inode: InodeNumber) {
        if identity.links > 1 {
            let known = Known { inode, names_left: identity.links - 1 };
            self.known.insert((identity.device, identity.inode), known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_forgotten_with_its_last_name() {
        let mut links = Links::default();
        let identity = LinkIdentity { device: 1, inode: 7, links: 3 };
        assert_eq!(links.find(&identity), None);
        links.add(&identity, InodeNumber::new(131));
        assert_eq!(links.find(&identity), Some(InodeNumber::new(131)));
        assert_eq!(links.find(&identity), Some(InodeNumber::new(131)));
        assert_eq!(links.find(&identity), None);
        assert!(links.known.is_empty());
    }
}

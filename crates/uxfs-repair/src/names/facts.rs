//! What entries, parent pointers and inodes say about names.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{inode::FileType, units::InodeNumber};

use super::{strays::Stray, table::Table};
use crate::finding::Name;

/// What files are called of which something is missing.
const PARTIAL: &[u8] = b".partial";
const MAX_NAME_BYTES: usize = 255;

/// An inode in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InodeFact {
    pub file_type: FileType,
    pub generation: u32,
    pub link_count: u32,
    /// Of a directory: the inode that `..` names.
    pub dot_dot: Option<InodeNumber>,
    /// Of a directory: entries of it could not be read.
    pub has_unread_entries: bool,
    /// Of a directory: an index has the hashes of its names. A list in the inode has none.
    pub has_hashed_entries: bool,
    /// Parent pointers have hashes of their names and directories. In the inode they have none.
    pub has_hashed_pointers: bool,
    /// The superblock names it, or it belongs to the metadata directory: it needs no name.
    pub is_internal: bool,
}

/// A name of an inode in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Link {
    pub directory: InodeNumber,
    pub name: Name,
    pub inode: InodeNumber,
}

/// What says that there is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Witnesses {
    /// An entry of the directory.
    pub has_entry: bool,
    /// The entry's file type.
    pub entry_type: Option<FileType>,
    /// A parent pointer of the inode, with this generation of the directory.
    pub pointer_generation: Option<u32>,
}

impl Witnesses {
    /// Adds what others say of the same link; where both say something, they count.
    pub fn add(&mut self, others: &Self) {
        if others.has_entry {
            (self.has_entry, self.entry_type) = (true, others.entry_type);
        }
        self.pointer_generation = others.pointer_generation.or(self.pointer_generation);
    }
}

/// All facts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub root: InodeNumber,
    /// Root of the metadata directory tree.
    pub metadata_root: Option<InodeNumber>,
    /// The file system keeps parent pointers.
    pub has_parent_pointers: bool,
    pub inodes: Table<InodeNumber, InodeFact>,
    pub links: Table<Link, Witnesses>,
    /// Entries in blocks that no map leads to, of inodes that lack names. Each is among the links, with no other witness or an old one.
    pub strays: BTreeMap<Link, Stray>,
    /// Directories whose entries and index contradict each other.
    pub damaged_directories: BTreeSet<InodeNumber>,
    /// Inodes that were made again from what names them: how many links they had is not known.
    pub uncounted: BTreeSet<InodeNumber>,
    /// Inodes that were kept with a wrong checksum: names and parent pointers in them are believed last.
    pub unproved: BTreeSet<InodeNumber>,
    /// Inodes with a leaf of attributes that was kept with a wrong checksum: the same of their parent pointers.
    pub unproved_leaves: BTreeSet<InodeNumber>,
    /// Regular files of which something is missing.
    pub partial: BTreeSet<InodeNumber>,
    /// Inodes that are free or lost, and have a place: a directory can be made there again.
    pub places: BTreeSet<InodeNumber>,
}

impl Facts {
    /// A file that was unlinked while it was open, and that nothing names.
    pub fn is_unlinked(&self, inode: InodeNumber) -> bool {
        self.inodes
            .get(&inode)
            .is_some_and(|fact| fact.link_count == 0 && fact.file_type != FileType::Directory)
    }

    /// An inode in use that belongs to the metadata directory tree.
    pub fn is_metadata(&self, inode: InodeNumber) -> bool {
        self.metadata_root.is_some() && self.inodes.get(&inode).is_some_and(|fact| fact.is_internal)
    }

    /// Links in a directory, with their indices.
    pub fn links_in(&self, directory: InodeNumber) -> impl Iterator<Item = (usize, &Link, &Witnesses)> {
        let from = Link { directory, name: Name::default(), inode: InodeNumber::default() };
        let first = self.links.first_from(&from);
        let entries = self.links.entries().iter().enumerate().skip(first);
        let entries = entries.take_while(move |(_, (link, _))| link.directory == directory);
        entries.map(|(index, (link, witnesses))| (index, link, witnesses))
    }

    /// An inode in use that is a directory.
    pub fn directory(&self, inode: InodeNumber) -> Option<&InodeFact> {
        self.inodes.get(&inode).filter(|fact| fact.file_type == FileType::Directory)
    }

    /// What an inode is called in `lost+found` that had this name: a file of which something is missing must not pass for whole.
    pub fn lost_name(&self, inode: InodeNumber, name: &[u8]) -> Name {
        if !self.partial.contains(&inode) {
            return name.into();
        }
        let kept = name.get(..MAX_NAME_BYTES - PARTIAL.len()).unwrap_or(name);
        [kept, PARTIAL].concat().into()
    }

    /// The same where no name is known.
    pub fn plain_name(&self, inode: InodeNumber) -> Name {
        self.lost_name(inode, inode.get().to_string().as_bytes())
    }
}

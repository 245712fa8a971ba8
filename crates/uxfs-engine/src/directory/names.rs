//! What callers say about names.

use uxfs_format::{
    directory::{DataPointer, data_edit::NewEntry},
    units::{FileBlock, InodeNumber},
};

use uxfs_volume::{directory::FoundEntry, volume::Volume};

use crate::inode::edit::EditInode;
use uxfs_volume::{error::Result, inode::FileType};

/// Where the last name was found or found room: the next change begins there. Any value is right for any directory, only slower: what a
/// hint leads to is looked at before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryHint {
    /// The data block that was used last.
    pub(super) data_block: u32,
    /// Its longest free region then.
    pub(super) best_bytes: u16,
    /// The leaf of a tree that was used last, by a lookup or a change: names that are numbered have hashes near each other.
    pub(super) leaf: FileBlock,
    /// The name that was looked up last; null where there was none.
    pub(super) entry: DataPointer,
}

impl DirectoryHint {
    /// Notes where a lookup ended.
    #[inline]
    pub fn note_lookup(&mut self, leaf: Option<FileBlock>, entry: Option<DataPointer>) {
        self.leaf = leaf.unwrap_or(self.leaf);
        self.entry = entry.unwrap_or(DataPointer::NULL);
    }
}

impl Default for DirectoryHint {
    fn default() -> Self {
        Self { data_block: 0, best_bytes: 0, leaf: FileBlock::new(0), entry: DataPointer::NULL }
    }
}

/// One of many names to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewName<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode.
    pub inode: InodeNumber,
    /// What the inode is.
    pub file_type: FileType,
}

/// Whether a name may be in the directory already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCheck {
    /// It may: look first.
    Check,
    /// The caller knows that it is not.
    KnownToBeNew,
}

/// What a name led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameTarget {
    /// The inode.
    pub inode: InodeNumber,
    /// What the inode is, if the entry says so.
    pub file_type: Option<FileType>,
}

impl<'a> NewName<'a> {
    pub(super) fn entry(&self) -> NewEntry<'a> {
        NewEntry { name: self.name, inode: self.inode, file_type_code: self.file_type.directory_code() }
    }
}

/// Finds a name that is about to be added or removed: the directory remembers where the search ended.
///
/// # Errors
/// As for [`Volume::lookup`].
pub fn lookup_to_change(
    volume: &Volume,
    directory: &mut EditInode,
    name: &[u8],
) -> Result<Option<FoundEntry>> {
    let (found, leaf) = volume.lookup_with_hint(&*directory, name)?;
    let entry = found.as_ref().and_then(|found| u32::try_from(found.cookie).ok()).map(DataPointer::new);
    directory.directory_hint.note_lookup(leaf, entry);
    Ok(found)
}

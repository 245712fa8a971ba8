//! Where the next change of a directory begins to look.

use uxfs_format::{directory::DataPointer, units::FileBlock};

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
    /// The name that was looked up last, or that is looked up next; null where there was none.
    pub(super) entry: DataPointer,
    /// The hash of that name.
    hash: u32,
}

impl DirectoryHint {
    /// Notes where a lookup ended.
    #[inline]
    pub fn note_lookup(&mut self, hash: u32, leaf: Option<FileBlock>, entry: Option<DataPointer>) {
        self.leaf = leaf.unwrap_or(self.leaf);
        self.entry = entry.unwrap_or(DataPointer::NULL);
        self.hash = hash;
    }

    /// Where a name with this hash may lie, and the leaf near which its index entry may be.
    #[inline]
    pub fn expected(&self, hash: u32) -> Option<(DataPointer, FileBlock)> {
        (self.hash == hash && self.entry != DataPointer::NULL).then_some((self.entry, self.leaf))
    }
}

impl Default for DirectoryHint {
    fn default() -> Self {
        Self { data_block: 0, best_bytes: 0, leaf: FileBlock::new(0), entry: DataPointer::NULL, hash: 0 }
    }
}

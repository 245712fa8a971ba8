//! Where a name lies in a directory that is being changed.

use uxfs_format::{
    directory::{
        DataPointer, block::SingleBlock, data::DataBlock, data::DataEntry, leaf::LeafBlock, leaf_edit,
        name_hash::NameRule, shortform::Shortform,
    },
    fault::Structure,
    name_tree::{header::magic_of, node},
    units::{FileBlock, InodeNumber},
};

use super::{DIRECTORY_CODE, DOTS, Directory, DirectoryStore, Form, names::NameTarget};
use crate::name_tree::{BlockBuffer, path::TreePath};
use uxfs_volume::{error::Result, inode::FileType};

/// A name that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredName {
    pub inode: InodeNumber,
    /// 0 where the file system keeps none.
    pub file_type_code: u8,
    pub(super) place: EntryPosition,
}

impl StoredName {
    /// The inode of the name.
    pub(super) fn target(&self) -> NameTarget {
        NameTarget { inode: self.inode, file_type: FileType::from_directory_code(self.file_type_code) }
    }
}

/// Where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPosition {
    /// Not stored: "." in an inode.
    Own,
    /// The directory above, in the inode.
    Parent,
    /// The entry with this index in the inode.
    Shortform(u8),
    /// In the one block.
    Block { index: usize, offset_bytes: u32 },
    /// In a data block, and in the one leaf.
    Leaf { index: usize, pointer: DataPointer },
    /// In a data block, and in a leaf of the tree.
    Node { path: TreePath, index: usize, pointer: DataPointer },
}

/// The name that is looked for, and the best match so far.
struct Wanted<'n> {
    name: &'n [u8],
    hash: u32,
    rule: NameRule,
    /// The first entry that differs in case only.
    folded: Option<StoredName>,
}

impl Wanted<'_> {
    /// Compares an entry. Gives it only if the name is exactly the same.
    fn consider(&mut self, name: &[u8], found: StoredName) -> Option<StoredName> {
        if name == self.name {
            return Some(found);
        }
        if self.folded.is_none() && self.rule.matches(name, self.name) {
            self.folded = Some(found);
        }
        None
    }

    fn consider_entry(&mut self, entry: &DataEntry<'_>, place: EntryPosition) -> Option<StoredName> {
        let (inode, file_type_code) = (entry.inode, entry.file_type_code);
        self.consider(entry.name, StoredName { inode, file_type_code, place })
    }
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Finds a name, "." and ".." included. An entry with exactly this name goes before one that differs in case.
    pub fn find(&mut self, name: &[u8]) -> Result<Option<StoredName>> {
        let mut wanted = Wanted { name, hash: self.rule.hash(name), rule: self.rule, folded: None };
        let found = match self.form()? {
            Form::Shortform => self.find_shortform(&mut wanted)?,
            Form::Block => self.find_block(&mut wanted)?,
            Form::Leaf => self.find_leaf(&mut wanted)?,
            Form::Node => self.find_node(&mut wanted)?,
        };
        Ok(found.or(wanted.folded))
    }

    /// Whether there are no names but "." and "..".
    pub fn is_empty(&mut self) -> Result<bool> {
        let live = match self.form()? {
            Form::Shortform => {
                let bytes = self.store.local().map(|bytes| bytes.as_slice()).unwrap_or_default();
                return Ok(bytes.first() == Some(&0));
            }
            Form::Block => {
                let (structure, place) = (Structure::DirectoryBlock, FileBlock::new(0));
                let buffer = self.store.edit(structure, place)?;
                let block = SingleBlock::parse(&buffer, self.geometry())
                    .map_err(|fault| self.store.corruption(structure, place, fault))?;
                block.tail.count.get().saturating_sub(block.tail.stale.get()) as usize
            }
            // A tree of several leaves has more than two entries that are not removed.
            Form::Leaf | Form::Node => {
                let root = self.store.edit(Structure::DirectoryAnyIndex, self.leaf_start())?;
                if magic_of(&root) == Some(node::MAGIC) { usize::MAX } else { leaf_edit::fill(&root).0 }
            }
        };
        Ok(live <= DOTS.len())
    }

    fn find_shortform(&mut self, wanted: &mut Wanted<'_>) -> Result<Option<StoredName>> {
        let (geometry, own) = (self.geometry(), self.store.owner());
        let bytes = self.store.local().map(|bytes| bytes.as_slice()).unwrap_or_default();
        let view = match Shortform::parse(bytes, geometry) {
            Ok(view) => view,
            Err(fault) => return Err(self.damaged_shortform(fault)),
        };
        let dots = [(own, EntryPosition::Own), (view.parent, EntryPosition::Parent)];
        for (dot, (inode, place)) in DOTS.into_iter().zip(dots) {
            if wanted.name == dot {
                return Ok(Some(StoredName { inode, file_type_code: DIRECTORY_CODE, place }));
            }
        }
        let mut fault = None;
        for (index, entry) in (0..=u8::MAX).zip(view.entries()) {
            match entry {
                Ok(entry) => {
                    let place = EntryPosition::Shortform(index);
                    let found =
                        StoredName { inode: entry.inode, file_type_code: entry.file_type_code, place };
                    if let Some(found) = wanted.consider(entry.name, found) {
                        return Ok(Some(found));
                    }
                }
                Err(found) => fault = Some(found),
            }
        }
        match fault {
            Some(fault) => Err(self.damaged_shortform(fault)),
            None => Ok(None),
        }
    }

    fn find_block(&mut self, wanted: &mut Wanted<'_>) -> Result<Option<StoredName>> {
        let (structure, place) = (Structure::DirectoryBlock, FileBlock::new(0));
        let buffer = self.store.edit(structure, place)?;
        let block = SingleBlock::parse(&buffer, self.geometry())
            .map_err(|fault| self.store.corruption(structure, place, fault))?;
        let first = block.entries.partition_point(|entry| entry.hash.get() < wanted.hash);
        let from = block.entries.get(first..).unwrap_or_default();
        for (index, leaf) in (first..).zip(from) {
            if leaf.hash.get() != wanted.hash {
                break;
            }
            let Some(pointer) = leaf.pointer() else { continue };
            let (_, offset_bytes) = pointer.split(self.geometry());
            let entry = block
                .entry_at(offset_bytes)
                .map_err(|fault| self.store.corruption(structure, place, fault))?;
            let found = wanted.consider_entry(&entry, EntryPosition::Block { index, offset_bytes });
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn find_leaf(&mut self, wanted: &mut Wanted<'_>) -> Result<Option<StoredName>> {
        let leaf = self.edit_leaf()?;
        self.search_leaf(&leaf, wanted, |index, pointer| EntryPosition::Leaf { index, pointer })
    }

    fn find_node(&mut self, wanted: &mut Wanted<'_>) -> Result<Option<StoredName>> {
        let hash = wanted.hash;
        let mut path = self.tree().find(hash)?;
        let most = self.store.extents().blocks();
        // A chain cannot have more leaves than the fork has blocks.
        for _ in 0..=most {
            let leaf = self.store.edit(Structure::DirectoryAnyIndex, path.leaf)?;
            let found = self.search_leaf(&leaf, wanted, |index, pointer| EntryPosition::Node {
                path,
                index,
                pointer,
            })?;
            let last = leaf_edit::last_hash(&leaf);
            drop(leaf);
            // Equal hashes may go on in the next leaf.
            if found.is_some() || last.is_some_and(|last| last > hash) || !self.tree().advance(&mut path)? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Compares the entries of a leaf that have the hash.
    fn search_leaf(
        &mut self,
        buffer: &S::Buffer,
        wanted: &mut Wanted<'_>,
        place_of: impl Fn(usize, DataPointer) -> EntryPosition,
    ) -> Result<Option<StoredName>> {
        let (leaf, held) = (LeafBlock::parse(buffer, self.geometry()), buffer.sector());
        let leaf = leaf.map_err(|fault| self.damaged_index(fault))?;
        for (index, pointer) in leaf.matches(wanted.hash) {
            let (data_block, offset_bytes) = pointer.split(self.geometry());
            let place = self.data_start(data_block);
            let buffer = self.store.edit_beside(&[held], Structure::DirectoryData, place)?;
            let entry = DataBlock::parse(&buffer, self.geometry())
                .and_then(|data| data.entry_at(offset_bytes))
                .map_err(|fault| self.damaged_data(data_block, fault))?;
            let found = wanted.consider_entry(&entry, place_of(index, pointer));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

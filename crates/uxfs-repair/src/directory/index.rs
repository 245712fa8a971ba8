//! The index of a directory: one entry with hash and place for each name.
//!
//! Both sides are compared by a sum; where it differs, each is looked up on the other side. Names that are there twice have one hash,
//! so only runs of equal hashes are looked at for them.

use uxfs_format::{
    directory::{
        DataPointer,
        block::SingleBlock,
        data::{DataBlock, DataEntry},
        data_block_start,
        leaf::{LeafBlock, LeafEntry, SINGLE_MAGIC},
        name_hash::NameRule,
    },
    fault::Structure,
    name_tree::{TreeKind, header::magic_of},
    units::FileBlock,
};
use uxfs_volume::{inode::Inode, name_tree::ForkBlocks, volume::MetadataBuffer};

use super::check::EntriesFound;
use crate::{check::Context, finding::Finding, name_tree, sum::Sum};

/// Names of one hash that are compared with each other.
const MOST_OF_ONE_HASH: usize = 1 << 16;

/// Compares the index of a directory that does not lie in its inode.
pub(super) fn check(context: &Context<'_>, directory: &Inode, entries: &EntriesFound) {
    let Some(blocks) = context.read(ForkBlocks::new(context.volume, directory, TreeKind::Directory)) else {
        return;
    };
    let index = Index { context, directory, blocks: &blocks };
    let mut runs = Runs { index: &index, hash: None, places: Vec::new() };
    let mut sum = Sum::default();
    let is_complete = index.walk(&mut |entry| {
        if let Some(place) = entry.pointer() {
            sum.add(context.keys.of((entry.hash.get(), u64::from(place.get()))));
            runs.add(entry.hash.get(), place);
        }
    });
    runs.end();
    if is_complete && entries.is_complete && sum != entries.sum {
        index.compare();
    }
}

/// Finds names that are twice in a directory that lies in its inode. It has no index.
pub(super) fn check_local(context: &Context<'_>, directory: &Inode) {
    let mut names: Vec<Box<[u8]>> = Vec::new();
    // Errors were reported when the entries were read.
    let _ = context.volume.read_directory(directory, 0, |entry| {
        names.push(entry.name.into());
        context.sink.flow()
    });
    report_twice(context, directory, names);
}

fn report_twice(context: &Context<'_>, directory: &Inode, mut names: Vec<Box<[u8]>>) {
    names.sort_unstable();
    for equal in names.chunk_by(|one, next| one == next) {
        if let [name, _, ..] = equal {
            context.sink.add(Finding::NameTwice { directory: directory.number, name: name.clone() });
        }
    }
}

struct Index<'w, 'c, 'fs> {
    context: &'w Context<'c>,
    directory: &'w Inode,
    blocks: &'w ForkBlocks<'fs>,
}

impl Index<'_, '_, '_> {
    /// Whether there are a leaf or nodes: else entries and index lie in one block.
    fn is_apart(&self) -> bool {
        let start = self.blocks.geometry().directory_leaf_start();
        self.blocks.map.next_at_or_after(start).is_some()
    }

    /// Visits all entries of the index, removed ones included. Gives whether none was left out.
    fn walk(&self, visit: &mut dyn FnMut(&LeafEntry)) -> bool {
        let geometry = self.blocks.geometry();
        if !self.is_apart() {
            let Some(buffer) = self.data_block(Structure::DirectoryBlock, FileBlock::new(0)) else {
                return false;
            };
            let Ok(block) = SingleBlock::parse(&buffer, geometry) else { return false };
            block.entries.iter().for_each(visit);
            return true;
        }
        let root = match self.blocks.read_tree_block(geometry.directory_leaf_start()) {
            Ok(root) => root,
            Err(error) => {
                self.context.sink.add_error(error);
                return false;
            }
        };
        if magic_of(&root) == Some(SINGLE_MAGIC) {
            visit_leaf(&root, self, visit);
            return true;
        }
        name_tree::walk(self.context, self.blocks, self.directory.number, &mut |_, leaf| {
            visit_leaf(leaf, self, visit);
        })
    }

    /// A data block. Errors were reported when the entries were read.
    fn data_block(&self, structure: Structure, place: FileBlock) -> Option<MetadataBuffer> {
        self.blocks.read_directory_block(structure, place).ok()
    }

    /// Calls `visit` with the entry at a place, if there is one.
    fn with_entry<R>(&self, place: DataPointer, visit: impl FnOnce(&DataEntry<'_>) -> R) -> Option<R> {
        let geometry = self.blocks.geometry();
        let (data_block, offset_bytes) = place.split(geometry);
        let start = data_block_start(geometry, data_block);
        if self.is_apart() {
            self.blocks.map.lookup(start)?;
            let buffer = self.data_block(Structure::DirectoryData, start)?;
            let entry = DataBlock::parse(&buffer, geometry).ok()?.entry_at(offset_bytes).ok()?;
            return Some(visit(&entry));
        }
        let buffer =
            self.data_block(Structure::DirectoryBlock, FileBlock::new(0)).filter(|_| data_block == 0)?;
        let entry = SingleBlock::parse(&buffer, geometry).ok()?.entry_at(offset_bytes).ok()?;
        Some(visit(&entry))
    }

    /// Looks up each entry in the index, and each index entry among the entries.
    fn compare(&self) {
        let (context, directory) = (self.context, self.directory.number);
        let _ = context.volume.read_directory(self.directory, 0, |entry| {
            if let Ok(None) = context.volume.lookup_by_hash(self.directory, entry.name) {
                context.sink.add(Finding::EntryNotIndexed { directory, name: entry.name.into() });
            }
            context.sink.flow()
        });
        let rule = NameRule::of(self.blocks.geometry());
        self.walk(&mut |entry| {
            let Some(place) = entry.pointer() else { return };
            let hash = entry.hash.get();
            let is_right = self.with_entry(place, |found| rule.hash(found.name) == hash);
            if is_right != Some(true) {
                context.sink.add(Finding::IndexEntry { directory, hash, address: place.get() });
            }
        });
    }
}

fn visit_leaf(leaf: &MetadataBuffer, index: &Index<'_, '_, '_>, visit: &mut dyn FnMut(&LeafEntry)) {
    if let Ok(leaf) = LeafBlock::parse(leaf, index.blocks.geometry()) {
        leaf.entries.iter().for_each(visit);
    }
}

/// Runs of index entries with one hash.
struct Runs<'w, 'c, 'fs> {
    index: &'w Index<'w, 'c, 'fs>,
    hash: Option<u32>,
    places: Vec<DataPointer>,
}

impl Runs<'_, '_, '_> {
    fn add(&mut self, hash: u32, place: DataPointer) {
        if self.hash != Some(hash) {
            self.end();
            self.hash = Some(hash);
        }
        if self.places.len() < MOST_OF_ONE_HASH {
            self.places.push(place);
        }
    }

    fn end(&mut self) {
        if self.places.len() > 1 {
            let names = self
                .places
                .iter()
                .filter_map(|place| self.index.with_entry(*place, |entry| Box::<[u8]>::from(entry.name)));
            report_twice(self.index.context, self.index.directory, names.collect());
        }
        self.places.clear();
    }
}

//! From a larger form of a directory to the one before it, as soon as it fits.

use uxfs_format::{
    directory::{
        block::SingleBlock,
        block_edit::{BlockEdit, IndexEntry},
        data::DataRecord,
        free_index::FreeIndexBlock,
        leaf::{LeafBlock, NODE_MAGIC},
        leaf_edit::LeafEdit,
        shortform_edit,
    },
    fault::Structure,
    name_tree::header::magic_of,
    units::FileBlock,
};

use super::{DOTS, Directory, DirectoryStore};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::Result;

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// The directory goes into the inode, if it fits. Entries keep their places.
    pub(super) fn block_to_shortform(&mut self) -> Result<()> {
        let (structure, place) = (Structure::DirectoryBlock, FileBlock::new(0));
        let room_bytes = self.store.room_bytes();
        let buffer = self.store.edit(structure, place)?;
        let damaged = |fault| self.store.corruption(structure, place, fault);
        let block = SingleBlock::parse(&buffer, self.geometry()).map_err(damaged)?;
        let live = block.tail.count.get().saturating_sub(block.tail.stale.get());
        // Without the names of "." and ".."; each other has one byte at least.
        let count = live.saturating_sub(2);
        if shortform_edit::size_bytes(self.format, count, count, false) > room_bytes {
            return Ok(());
        }
        let [dot, dot_dot] = DOTS;
        let (mut names, mut parent, mut has_large) = (0_u32, self.store.owner(), false);
        let mut entries = Vec::with_capacity(count as usize);
        for record in block.records() {
            let DataRecord::Entry(entry) = record.map_err(|fault| damaged(fault.into()))? else { continue };
            if entry.name == dot {
                continue;
            }
            has_large |= shortform_edit::is_large(entry.inode);
            if entry.name == dot_dot {
                parent = entry.inode;
                continue;
            }
            names = names.saturating_add(u32::try_from(entry.name.len()).unwrap_or(u32::MAX));
            entries.push(entry);
        }
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let size_bytes = shortform_edit::size_bytes(self.format, count, names, has_large);
        if size_bytes > room_bytes || count > u8::MAX.into() {
            return Ok(());
        }
        let bytes = shortform_edit::from_entries(parent, &entries, self.format);
        drop(entries);
        drop(buffer);
        self.store.free(place)?;
        self.store.set_size_bytes(bytes.len() as u64);
        self.store.set_local(Some(bytes));
        Ok(())
    }

    /// The one leaf goes to the end of the only data block, if it fits; the directory perhaps into the inode then.
    pub(super) fn leaf_to_block(&mut self) -> Result<()> {
        if self.store.size_bytes() != self.block_bytes() {
            return Ok(());
        }
        let leaf_start = self.leaf_start();
        let leaf = self.edit_leaf()?;
        let view = LeafBlock::parse(&leaf, self.geometry()).map_err(|fault| self.damaged_index(fault))?;
        let live = view.entries.iter().filter_map(|entry| Some((entry.hash.get(), entry.pointer()?)));
        let index: Vec<IndexEntry> = live.collect();
        drop(leaf);
        let mut buffer = self.store.edit(Structure::DirectoryData, FileBlock::new(0))?;
        if !BlockEdit::from_data(buffer.edit(), self.format, &index) {
            return Ok(());
        }
        self.store.convert(&mut buffer, Structure::DirectoryBlock);
        drop(buffer);
        self.store.free(leaf_start)?;
        self.block_to_shortform()
    }

    /// The only free index block becomes the bests of the only leaf, if they fit; then further down if possible.
    pub(super) fn node_to_leaf(&mut self) -> Result<()> {
        let leaf_start = self.leaf_start();
        let (place, _) = self.free_index_of(0);
        let length = self.store.blocks_per_block();
        // The free index space is the last.
        let is_only = self
            .store
            .extents()
            .last()
            .is_some_and(|extent| extent.end().get() == place.get().saturating_add(length));
        if !is_only {
            return Ok(());
        }
        let mut leaf = self.store.edit(Structure::DirectoryAnyIndex, leaf_start)?;
        if magic_of(&leaf) != Some(NODE_MAGIC) {
            return Ok(());
        }
        let structure = Structure::DirectoryFreeIndex;
        let buffer = self.store.edit_beside(&[leaf.sector()], structure, place)?;
        let view = FreeIndexBlock::parse(&buffer, self.geometry())
            .map_err(|fault| self.store.corruption(structure, place, fault))?;
        if !LeafEdit::new(leaf.edit()).become_single(view.bests) {
            return Ok(());
        }
        drop((leaf, buffer));
        self.store.free(place)?;
        self.leaf_to_block()
    }
}

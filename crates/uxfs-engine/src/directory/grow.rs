//! From a smaller form of a directory to the next larger one.

use uxfs_format::{
    directory::{
        DATA_HEADER_BYTES, DataPointer,
        block::SingleBlock,
        block_edit::{BlockEdit, IndexEntry},
        data_edit::{NewEntry, longest_free_bytes},
        free_index_edit::FreeIndexEdit,
        leaf::LeafBlock,
        leaf_edit::LeafEdit,
        shortform::Shortform,
    },
    fault::Structure,
    units::FileBlock,
};

use super::{DOTS, Directory, DirectoryStore, dot_entry};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Entries get the places that they have had all along.
    pub(super) fn shortform_to_block(&mut self) -> Result<()> {
        let (geometry, own, rule, format) = (self.geometry(), self.store.owner(), self.rule, self.format);
        let bytes = std::mem::take(self.store.local().ok_or(OperationError::NotADirectory)?);
        Shortform::verify(&bytes, geometry).map_err(|fault| self.damaged_shortform(fault))?;
        let view = Shortform::parse(&bytes, geometry).map_err(|fault| self.damaged_shortform(fault))?;
        self.store.set_local(None);
        let [dot, dot_dot] = DOTS;
        let second = DATA_HEADER_BYTES + format.entry_size_bytes(1);
        let dots = [(DATA_HEADER_BYTES, dot_entry(dot, own)), (second, dot_entry(dot_dot, view.parent))];
        let stored = view.entries().flatten().map(|entry| {
            let new = NewEntry { name: entry.name, inode: entry.inode, file_type_code: entry.file_type_code };
            (u32::from(entry.data_offset), new)
        });
        let entries = dots.into_iter().chain(stored);
        let mut index: Vec<IndexEntry> = Vec::with_capacity(usize::from(view.count) + 2);
        for (offset_bytes, entry) in entries.clone() {
            let pointer = DataPointer::of_byte(offset_bytes.into()).unwrap_or_default();
            index.push((rule.hash(entry.name), pointer));
        }
        index.sort_unstable();
        let mut buffer = self.store.create(Structure::DirectoryBlock, FileBlock::new(0))?;
        let identity = self.store.identity(buffer.sector());
        BlockEdit::init(buffer.edit(), &identity, format, entries, &index);
        drop(buffer);
        self.update_size();
        Ok(())
    }

    /// The block becomes the first data block, its index the one leaf.
    pub(super) fn block_to_leaf(&mut self) -> Result<()> {
        let (structure, place) = (Structure::DirectoryBlock, FileBlock::new(0));
        let mut buffer = self.store.edit(structure, place)?;
        let block = SingleBlock::parse(&buffer, self.geometry())
            .map_err(|fault| self.store.corruption(structure, place, fault))?;
        let live = block.entries.iter().filter_map(|entry| Some((entry.hash.get(), entry.pointer()?)));
        let index: Vec<IndexEntry> = live.collect();
        BlockEdit::new(buffer.edit(), self.format).become_data();
        self.store.convert(&mut buffer, Structure::DirectoryData);
        let best = longest_free_bytes(&buffer);
        drop(buffer);
        let mut buffer = self.store.create(Structure::DirectoryAnyIndex, self.leaf_start())?;
        let identity = self.store.identity(buffer.sector());
        let mut leaf = LeafEdit::init_single(buffer.edit(), &identity);
        leaf.push_best(best);
        for (hash, pointer) in index {
            if !leaf.push(hash, pointer) {
                return Err(OperationError::NoSpace.into());
            }
        }
        Ok(())
    }

    /// The one leaf becomes the root of a tree, its bests the first free index block.
    pub(super) fn leaf_to_node(&mut self) -> Result<()> {
        let mut buffer = self.edit_leaf()?;
        let view = LeafBlock::parse(&buffer, self.geometry()).map_err(|fault| self.damaged_index(fault))?;
        let bests = view.bests().map_err(|fault| self.damaged_index(fault))?.to_vec();
        LeafEdit::new(buffer.edit()).become_node();
        drop(buffer);
        let (place, _) = self.free_index_of(0);
        let mut buffer = self.store.create(Structure::DirectoryFreeIndex, place)?;
        let identity = self.store.identity(buffer.sector());
        let mut free = FreeIndexEdit::init(buffer.edit(), &identity, 0);
        for (index, best) in bests.iter().enumerate() {
            free.set_best(index, best.get());
        }
        Ok(())
    }
}

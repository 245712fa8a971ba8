//! A new directory from all its names at once.
//!
//! Names go into the data blocks in the given order, without gaps; the index is sorted once and cut into leaves, nodes
//! and free index blocks, each of which is written once. What adding one after the other would give differs in how
//! full leaves are, and in nothing that a reader sees.

use uxfs_format::{
    directory::{
        DATA_HEADER_BYTES, DataPointer,
        block_edit::{BlockEdit, IndexEntry, index_bytes},
        data_edit::{DataEdit, NewEntry},
        free_index_edit::FreeIndexEdit,
        leaf::most_entries,
        leaf_edit::LeafEdit,
        shortform::Shortform,
        shortform_edit,
    },
    fault::Structure,
    name_tree::{
        MAX_LEVEL,
        header_edit::{BlockIdentity, set_next, set_previous},
        node,
        node_edit::NodeEdit,
    },
    units::{FileBlock, InodeNumber},
};

use super::{DOTS, Directory, DirectoryStore, NewName, check_data_block, dot_entry};
use crate::{
    error::{OperationError, Result},
    name_tree::edit::BlockBuffer,
};

/// A sixteenth of each leaf stays free for what comes later.
const SLACK_SHIFT: u32 = 4;

/// Where data blocks begin among the entries, ".", ".." and names.
struct Layout {
    /// Index of the first entry of each data block, and behind the last one the number of entries.
    starts: Vec<usize>,
    /// Where the last entry ends in its block.
    end_bytes: u32,
}

impl<'fs, S: DirectoryStore<'fs>> Directory<'_, S> {
    /// Adds all names to the directory.
    pub(crate) fn fill(&mut self, names: &[NewName<'_>]) -> Result<()> {
        let Some(parent) = self.parent_of_empty()? else { return self.insert_all(names) };
        let bytes = names.iter().fold(0, |sum: u32, new| sum.saturating_add(new.name.len() as u32));
        let count = u32::try_from(names.len()).map_err(|_| OperationError::NoSpace)?;
        let large = names.iter().any(|new| shortform_edit::is_large(new.inode));
        let has_large = large || shortform_edit::is_large(parent);
        if shortform_edit::size_bytes(self.format, count, bytes, has_large) <= self.store.room_bytes() {
            return self.insert_all(names);
        }
        let layout = self.lay_out(names);
        let block_bytes = self.geometry().directory_block_size_bytes;
        self.store.set_local(None);
        let fits = layout.end_bytes.saturating_add(index_bytes(names.len().saturating_add(2))) <= block_bytes;
        if layout.starts.len() == 2 && fits {
            return self.fill_block(parent, names);
        }
        let (mut index, bests) = self.fill_data(parent, names, &layout)?;
        index.sort_unstable();
        self.update_size();
        let bests_bytes = bests.len().saturating_mul(2).saturating_add(4);
        let most = most_entries(block_bytes.saturating_sub(u32::try_from(bests_bytes).unwrap_or(u32::MAX)));
        if index.len() <= most as usize {
            return self.fill_leaf(&index, &bests);
        }
        self.fill_tree(&index)?;
        self.fill_free_index(&bests)
    }

    fn insert_all(&mut self, names: &[NewName<'_>]) -> Result<()> {
        names.iter().try_for_each(|new| self.insert(&new.entry()))
    }

    /// The directory above one that has no names yet.
    fn parent_of_empty(&mut self) -> Result<Option<InodeNumber>> {
        let geometry = self.geometry();
        let Some(bytes) = self.store.local() else { return Ok(None) };
        let view = Shortform::parse(bytes, geometry).map(|view| (view.count, view.parent));
        let (count, parent) = view.map_err(|fault| self.damaged_shortform(fault))?;
        Ok((count == 0).then_some(parent))
    }

    fn lay_out(&self, names: &[NewName<'_>]) -> Layout {
        let block_bytes = self.geometry().directory_block_size_bytes;
        let mut starts = vec![0];
        let mut end_bytes = self.format.first_offset_bytes();
        for (index, new) in names.iter().enumerate() {
            let size_bytes = self.size_of(&new.entry());
            if end_bytes + size_bytes > block_bytes {
                starts.push(index + 2);
                end_bytes = DATA_HEADER_BYTES;
            }
            end_bytes += size_bytes;
        }
        starts.push(names.len() + 2);
        Layout { starts, end_bytes }
    }

    /// Entries from the first on, with their places in a block.
    fn placed<'n>(
        &self,
        parent: InodeNumber,
        names: &'n [NewName<'n>],
        from: usize,
    ) -> impl Iterator<Item = (u32, NewEntry<'n>)> + use<'n, 'fs, S> {
        let [dot, dot_dot] = DOTS;
        let format = self.format;
        let dots = [dot_entry(dot, self.store.owner()), dot_entry(dot_dot, parent)];
        let rest = names.get(from.saturating_sub(2)..).unwrap_or_default().iter().map(NewName::entry);
        dots.into_iter().skip(from).chain(rest).scan(DATA_HEADER_BYTES, move |next, entry| {
            let offset_bytes = *next;
            *next += format.entry_size_bytes(u8::try_from(entry.name.len()).unwrap_or(u8::MAX));
            Some((offset_bytes, entry))
        })
    }

    fn fill_block(&mut self, parent: InodeNumber, names: &[NewName<'_>]) -> Result<()> {
        let (rule, format) = (self.rule, self.format);
        let mut index: Vec<IndexEntry> = Vec::with_capacity(names.len() + 2);
        for (offset_bytes, entry) in self.placed(parent, names, 0) {
            let pointer = DataPointer::of_byte(offset_bytes.into()).unwrap_or_default();
            index.push((rule.hash(entry.name), pointer));
        }
        index.sort_unstable();
        let mut buffer = self.store.create(Structure::DirectoryBlock, FileBlock::new(0))?;
        let identity = self.store.identity(buffer.sector());
        BlockEdit::init(buffer.edit(), &identity, format, self.placed(parent, names, 0), &index);
        drop(buffer);
        self.update_size();
        Ok(())
    }

    /// Writes the data blocks. Gives index entries and bests.
    fn fill_data(
        &mut self,
        parent: InodeNumber,
        names: &[NewName<'_>],
        layout: &Layout,
    ) -> Result<(Vec<IndexEntry>, Vec<u16>)> {
        let blocks = u32::try_from(layout.starts.len() - 1).map_err(|_| OperationError::NoSpace)?;
        check_data_block(self.geometry(), blocks.saturating_sub(1))?;
        self.store.reserve(FileBlock::new(0), blocks.into())?;
        let (rule, format, block_bytes) = (self.rule, self.format, self.block_bytes());
        let mut index: Vec<IndexEntry> = Vec::with_capacity(names.len() + 2);
        let mut bests = Vec::with_capacity(blocks as usize);
        for (data_block, range) in (0_u32..).zip(layout.starts.windows(2)) {
            let [from, to] = *range else { break };
            let base_bytes = u64::from(data_block) * block_bytes;
            let mut buffer =
                self.store.create_reserved(Structure::DirectoryData, self.data_start(data_block))?;
            let identity = self.store.identity(buffer.sector());
            let entries =
                self.placed(parent, names, from).take(to - from).inspect(|(offset_bytes, entry)| {
                    let pointer = DataPointer::of_byte(base_bytes + u64::from(*offset_bytes));
                    index.push((rule.hash(entry.name), pointer.unwrap_or_default()));
                });
            let data = DataEdit::init_with(buffer.edit(), &identity, format, entries);
            bests.push(data.longest_bytes());
        }
        Ok((index, bests))
    }

    fn fill_leaf(&mut self, index: &[IndexEntry], bests: &[u16]) -> Result<()> {
        let mut buffer = self.store.create(Structure::DirectoryAnyIndex, self.leaf_start())?;
        let identity = self.store.identity(buffer.sector());
        let mut leaf = LeafEdit::init_single(buffer.edit(), &identity);
        bests.iter().for_each(|best| leaf.push_best(*best));
        if leaf.extend(index) { Ok(()) } else { Err(OperationError::NoSpace.into()) }
    }

    fn fill_free_index(&mut self, bests: &[u16]) -> Result<()> {
        let per_block = self.bests_per_block() as usize;
        let (first, _) = self.free_index_of(0);
        self.store.reserve(first, bests.len().div_ceil(per_block) as u64)?;
        let mut data_block = 0_u32;
        for bests in bests.chunks(per_block) {
            let (place, _) = self.free_index_of(data_block);
            let mut buffer = self.store.create_reserved(Structure::DirectoryFreeIndex, place)?;
            let identity = self.store.identity(buffer.sector());
            FreeIndexEdit::init(buffer.edit(), &identity, data_block).extend(bests);
            data_block = data_block.saturating_add(bests.len() as u32);
        }
        Ok(())
    }

    /// Writes leaves, and nodes up to the root.
    fn fill_tree(&mut self, index: &[IndexEntry]) -> Result<()> {
        let block_bytes = self.geometry().directory_block_size_bytes;
        let most = |entries: u32| (entries - (entries >> SLACK_SHIFT)).max(2) as usize;
        let (per_leaf, per_node) = (most(most_entries(block_bytes)), most(node::most_entries(block_bytes)));
        // Blocks of each level from the leaves up, down to one.
        let mut counts = vec![index.len().div_ceil(per_leaf)];
        while let Some(count) = counts.last().copied().filter(|count| *count > 1) {
            counts.push(count.div_ceil(per_node));
        }
        if counts.len() > usize::from(MAX_LEVEL) + 1 {
            return Err(OperationError::NoSpace.into());
        }
        let total: usize = counts.iter().sum();
        self.store.reserve(self.leaf_start(), total as u64)?;
        let mut next = 1;
        let mut children: Vec<(u32, FileBlock)> = Vec::new();
        for (level, count) in (0_u16..).zip(counts) {
            let entries = if level == 0 { index.len() } else { children.len() };
            let mut parents = Vec::with_capacity(count);
            for number in 0..count {
                let range = number * entries / count..(number + 1) * entries / count;
                // The only block of the last level is the root.
                let (at, level_start) = if count == 1 { (0, 0) } else { (next + number, next) };
                let places = [at.checked_sub(1).filter(|before| *before >= level_start), Some(at + 1)]
                    .map(|place| place.map(|place| self.tree_block(place)));
                let [previous, following] = places;
                let following = following.filter(|_| number + 1 < count);
                let place = self.tree_block(at);
                let mut buffer = self.store.create_reserved(Structure::DirectoryAnyIndex, place)?;
                let identity = self.store.identity(buffer.sector());
                let hash = if level == 0 {
                    fill_one_leaf(&mut buffer, &identity, index.get(range).unwrap_or_default())?
                } else {
                    fill_one_node(&mut buffer, &identity, level, children.get(range).unwrap_or_default())
                };
                set_next(&mut buffer.edit(), following);
                set_previous(&mut buffer.edit(), previous);
                parents.push((hash, place));
            }
            next += count;
            children = parents;
        }
        Ok(())
    }

    /// The block of the tree with this number, the root's is 0.
    fn tree_block(&self, number: usize) -> FileBlock {
        let blocks = (number as u64).saturating_mul(self.store.blocks_per_block());
        FileBlock::new(self.leaf_start().get().saturating_add(blocks))
    }
}

/// Gives the largest hash.
fn fill_one_leaf(
    buffer: &mut impl BlockBuffer,
    identity: &BlockIdentity,
    index: &[IndexEntry],
) -> Result<u32> {
    if !LeafEdit::init_node(buffer.edit(), identity).extend(index) {
        return Err(OperationError::NoSpace.into());
    }
    Ok(index.last().map_or(0, |(hash, _)| *hash))
}

/// Gives the largest hash.
fn fill_one_node(
    buffer: &mut impl BlockBuffer,
    identity: &BlockIdentity,
    level: u16,
    children: &[(u32, FileBlock)],
) -> u32 {
    let mut node = NodeEdit::init(buffer.edit(), identity, level);
    for (at, (hash, child)) in children.iter().enumerate() {
        node.insert(at, *hash, *child);
    }
    children.last().map_or(0, |(hash, _)| *hash)
}

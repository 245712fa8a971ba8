//! Many names at once: a new directory from all its names, or a batch more for one that has some.
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
        name_hash::NameRule,
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

use super::{DOTS, Directory, DirectoryStore, Form, NewName, check_data_block, dot_entry};
use crate::name_tree::BlockBuffer;
use uxfs_volume::error::{OperationError, Result};

/// A sixteenth of each leaf stays free for what comes later.
const SLACK_SHIFT: u32 = 4;
/// Names whose index entries are sorted together: bounds what that takes.
const MOST_AT_ONCE: usize = 1 << 16;

/// Where data blocks begin among names.
struct Layout {
    /// Index of the first name of each data block, and behind the last one the number of names.
    starts: Vec<usize>,
    /// Where the last entry ends in its block.
    end_bytes: u32,
}

impl Layout {
    fn blocks(&self) -> Result<u32> {
        u32::try_from(self.starts.len() - 1).map_err(|_| OperationError::NoSpace.into())
    }

    /// The names of each block.
    fn parts<'a, 'n>(
        &'a self,
        names: &'n [NewName<'n>],
    ) -> impl Iterator<Item = &'n [NewName<'n>]> + use<'a, 'n> {
        self.starts.windows(2).map(|range| match range {
            [from, to] => names.get(*from..*to).unwrap_or_default(),
            _ => &[],
        })
    }
}

/// Adds many names to a directory at once.
pub(super) struct DirectoryFiller<'d, 'a, S> {
    directory: &'d mut Directory<'a, S>,
}

impl<'a, S> Directory<'a, S> {
    /// To add many names.
    pub(super) fn filler(&mut self) -> DirectoryFiller<'_, 'a, S> {
        DirectoryFiller { directory: self }
    }
}

impl<'fs, S: DirectoryStore<'fs>> DirectoryFiller<'_, '_, S> {
    /// Adds all names to the directory.
    pub fn fill(&mut self, names: &[NewName<'_>]) -> Result<()> {
        let Some(parent) = self.parent_of_empty()? else { return self.insert_many(names) };
        let bytes = names.iter().fold(0, |sum: u32, new| sum.saturating_add(new.name.len() as u32));
        let count = u32::try_from(names.len()).map_err(|_| OperationError::NoSpace)?;
        let large = names.iter().any(|new| shortform_edit::is_large(new.inode));
        let has_large = large || shortform_edit::is_large(parent);
        if shortform_edit::size_bytes(self.directory.format, count, bytes, has_large)
            <= self.directory.store.room_bytes()
        {
            return names.iter().try_for_each(|new| self.directory.insert(&new.entry()));
        }
        let layout = self.lay_out(names, self.directory.format.first_offset_bytes());
        let block_bytes = self.directory.geometry().directory_block_size_bytes;
        self.directory.store.set_local(None);
        let index_bytes = index_bytes(names.len().saturating_add(DOTS.len()));
        if layout.blocks()? == 1 && layout.end_bytes.saturating_add(index_bytes) <= block_bytes {
            return self.fill_block(parent, names);
        }
        let (mut index, bests) = self.fill_data(parent, names, &layout)?;
        index.sort_unstable();
        self.directory.update_size();
        let bests_bytes = bests.len().saturating_mul(2).saturating_add(4);
        let most = most_entries(block_bytes.saturating_sub(u32::try_from(bests_bytes).unwrap_or(u32::MAX)));
        if index.len() <= most as usize {
            return self.fill_leaf(&index, &bests);
        }
        self.fill_tree(&index)?;
        self.fill_free_index(&bests)
    }

    /// Adds names to a directory that has some. Each data block and each leaf is changed once for all its names.
    fn insert_many(&mut self, names: &[NewName<'_>]) -> Result<()> {
        let mut rest = names;
        while let Some((new, others)) = rest.split_first() {
            if self.directory.form()? == Form::Node {
                break;
            }
            self.directory.insert(&new.entry())?;
            rest = others;
        }
        for names in rest.chunks(MOST_AT_ONCE) {
            let mut index = Vec::with_capacity(names.len());
            self.store_many(names, &mut index)?;
            index.sort_unstable();
            self.index_many(&index)?;
        }
        Ok(())
    }

    /// Puts names into data blocks of a node directory: where there is room, then into new ones.
    fn store_many(&mut self, names: &[NewName<'_>], index: &mut Vec<IndexEntry>) -> Result<()> {
        let mut rest = names;
        while let Some((new, others)) = rest.split_first() {
            let size_bytes = self.directory.size_of(&new.entry());
            let Some((data_block, best_bytes)) = self.directory.find_room(size_bytes)? else {
                let Some(hole) = self.first_data_hole()? else {
                    return self.store_in_new_blocks(rest, index);
                };
                let stored = self.directory.store_in_new_block(hole, &new.entry())?;
                index.push((self.directory.rule.hash(new.name), stored.pointer));
                self.directory.set_free_index(hole, stored.best_bytes)?;
                rest = others;
                continue;
            };
            let before = rest.len();
            let best = self.store_in(data_block, &mut rest, index)?;
            if rest.len() == before {
                return Err(self.directory.wrong_best(data_block, best_bytes));
            }
            self.directory.set_free_index(data_block, best)?;
        }
        Ok(())
    }

    /// The first data block that does not exist, if others lie behind it.
    fn first_data_hole(&self) -> Result<Option<u32>> {
        let hole = self.directory.store.first_hole(FileBlock::new(0)).get();
        let is_between = hole < self.directory.store.size_bytes() >> self.directory.geometry().block_log;
        let number = u32::try_from(hole >> self.directory.geometry().directory_block_log);
        let number = number.map_err(|_| OperationError::NoSpace)?;
        Ok(is_between.then_some(number))
    }

    /// Puts as many names into a data block as fit. Gives its best.
    fn store_in(
        &mut self,
        data_block: u32,
        names: &mut &[NewName<'_>],
        index: &mut Vec<IndexEntry>,
    ) -> Result<u16> {
        let (rule, format) = (self.directory.rule, self.directory.format);
        let base_bytes = u64::from(data_block) * self.directory.block_bytes();
        let mut buffer =
            self.directory.store.edit(Structure::DirectoryData, self.directory.data_start(data_block))?;
        let mut data = DataEdit::new(buffer.edit(), format);
        while let Some((new, others)) = names.split_first()
            && let Some(region) = data.room_for(self.directory.size_of(&new.entry()))
        {
            let offset_bytes = data.insert(region, &new.entry());
            index.push(index_entry(rule, base_bytes, offset_bytes, new.name));
            *names = others;
        }
        Ok(data.longest_bytes())
    }

    /// Puts names into data blocks that do not exist yet, behind all others.
    fn store_in_new_blocks(&mut self, names: &[NewName<'_>], index: &mut Vec<IndexEntry>) -> Result<()> {
        let layout = self.lay_out(names, DATA_HEADER_BYTES);
        let first = u32::try_from(self.directory.store.size_bytes() / self.directory.block_bytes());
        let first = first.map_err(|_| OperationError::NoSpace)?;
        let last = first.saturating_add(layout.blocks()?.saturating_sub(1));
        check_data_block(self.directory.geometry(), last)?;
        self.directory.store.reserve(self.directory.data_start(first), layout.blocks()?.into())?;
        for (data_block, names) in (first..).zip(layout.parts(names)) {
            let entries = self.placed(names, DATA_HEADER_BYTES);
            let best = self.fill_one(data_block, entries, index)?;
            self.directory.set_free_index(data_block, best)?;
            self.directory.hint.data_block = data_block;
            self.directory.hint.best_bytes = best;
        }
        self.directory.update_size();
        Ok(())
    }

    /// Adds index entries, which are sorted: after each leaf that is looked for, as many as belong there.
    fn index_many(&mut self, index: &[IndexEntry]) -> Result<()> {
        let mut rest = index;
        while let Some(((hash, pointer), others)) = rest.split_first() {
            self.directory.insert_index(*hash, *pointer)?;
            rest = others;
            let mut buffer =
                self.directory.store.edit(Structure::DirectoryAnyIndex, self.directory.hint.leaf)?;
            let mut leaf = LeafEdit::new(buffer.edit());
            while let Some(((hash, pointer), others)) = rest.split_first()
                && leaf.insert_between(*hash, *pointer)
            {
                rest = others;
            }
        }
        Ok(())
    }

    /// The directory above one that has no names yet.
    fn parent_of_empty(&mut self) -> Result<Option<InodeNumber>> {
        let geometry = self.directory.geometry();
        let Some(bytes) = self.directory.store.local() else { return Ok(None) };
        let view = Shortform::parse(bytes, geometry).map(|view| (view.count, view.parent));
        let (count, parent) = view.map_err(|fault| self.directory.damaged_shortform(fault))?;
        Ok((count == 0).then_some(parent))
    }

    /// CheckpointSwitches names into data blocks, the first of which has room from `end_bytes` on.
    fn lay_out(&self, names: &[NewName<'_>], mut end_bytes: u32) -> Layout {
        let block_bytes = self.directory.geometry().directory_block_size_bytes;
        let mut starts = vec![0];
        for (index, new) in names.iter().enumerate() {
            let size_bytes = self.directory.size_of(&new.entry());
            if end_bytes + size_bytes > block_bytes {
                starts.push(index);
                end_bytes = DATA_HEADER_BYTES;
            }
            end_bytes += size_bytes;
        }
        starts.push(names.len());
        Layout { starts, end_bytes }
    }

    /// Names as entries one behind the other.
    fn placed<'n>(
        &self,
        names: &'n [NewName<'n>],
        offset_bytes: u32,
    ) -> impl Iterator<Item = (u32, NewEntry<'n>)> + use<'n, 'fs, S> {
        let format = self.directory.format;
        names.iter().map(NewName::entry).scan(offset_bytes, move |next, entry| {
            let offset_bytes = *next;
            *next += format.entry_size_bytes(u8::try_from(entry.name.len()).unwrap_or(u8::MAX));
            Some((offset_bytes, entry))
        })
    }

    /// The same in the first block, behind "." and "..".
    fn placed_first<'n>(
        &self,
        parent: InodeNumber,
        names: &'n [NewName<'n>],
    ) -> impl Iterator<Item = (u32, NewEntry<'n>)> + use<'n, 'fs, S> {
        let [dot, dot_dot] = DOTS;
        let second = DATA_HEADER_BYTES + self.directory.format.entry_size_bytes(1);
        let dots = [
            (DATA_HEADER_BYTES, dot_entry(dot, self.directory.store.owner())),
            (second, dot_entry(dot_dot, parent)),
        ];
        dots.into_iter().chain(self.placed(names, self.directory.format.first_offset_bytes()))
    }

    fn fill_block(&mut self, parent: InodeNumber, names: &[NewName<'_>]) -> Result<()> {
        let (rule, format) = (self.directory.rule, self.directory.format);
        let entries = self.placed_first(parent, names);
        let index = entries.map(|(offset_bytes, entry)| index_entry(rule, 0, offset_bytes, entry.name));
        let mut index: Vec<IndexEntry> = index.collect();
        index.sort_unstable();
        let mut buffer = self.directory.store.create(Structure::DirectoryBlock, FileBlock::new(0))?;
        let identity = self.directory.store.identity(buffer.sector());
        BlockEdit::init(buffer.edit(), &identity, format, self.placed_first(parent, names), &index);
        drop(buffer);
        self.directory.update_size();
        Ok(())
    }

    /// Writes all data blocks. Gives index entries and bests.
    fn fill_data(
        &mut self,
        parent: InodeNumber,
        names: &[NewName<'_>],
        layout: &Layout,
    ) -> Result<(Vec<IndexEntry>, Vec<u16>)> {
        let blocks = layout.blocks()?;
        check_data_block(self.directory.geometry(), blocks.saturating_sub(1))?;
        self.directory.store.reserve(FileBlock::new(0), blocks.into())?;
        let mut index: Vec<IndexEntry> = Vec::with_capacity(names.len().saturating_add(DOTS.len()));
        let mut bests = Vec::with_capacity(blocks as usize);
        for (data_block, names) in (0_u32..).zip(layout.parts(names)) {
            let best = if data_block == 0 {
                let entries = self.placed_first(parent, names);
                self.fill_one(data_block, entries, &mut index)
            } else {
                let entries = self.placed(names, DATA_HEADER_BYTES);
                self.fill_one(data_block, entries, &mut index)
            };
            bests.push(best?);
        }
        Ok((index, bests))
    }

    /// Writes a data block for which there is room. Gives its best.
    fn fill_one<'n>(
        &mut self,
        data_block: u32,
        entries: impl Iterator<Item = (u32, NewEntry<'n>)>,
        index: &mut Vec<IndexEntry>,
    ) -> Result<u16> {
        let (rule, format) = (self.directory.rule, self.directory.format);
        let base_bytes = u64::from(data_block) * self.directory.block_bytes();
        let mut buffer = self
            .directory
            .store
            .create_reserved(Structure::DirectoryData, self.directory.data_start(data_block))?;
        let identity = self.directory.store.identity(buffer.sector());
        let entries = entries.inspect(|(offset_bytes, entry)| {
            index.push(index_entry(rule, base_bytes, *offset_bytes, entry.name));
        });
        Ok(DataEdit::init_with(buffer.edit(), &identity, format, entries).longest_bytes())
    }

    fn fill_leaf(&mut self, index: &[IndexEntry], bests: &[u16]) -> Result<()> {
        let mut buffer =
            self.directory.store.create(Structure::DirectoryAnyIndex, self.directory.leaf_start())?;
        let identity = self.directory.store.identity(buffer.sector());
        let mut leaf = LeafEdit::init_single(buffer.edit(), &identity);
        bests.iter().for_each(|best| leaf.push_best(*best));
        if leaf.extend(index) { Ok(()) } else { Err(OperationError::NoSpace.into()) }
    }

    fn fill_free_index(&mut self, bests: &[u16]) -> Result<()> {
        let per_block = self.directory.bests_per_block() as usize;
        let (first, _) = self.directory.free_index_of(0);
        self.directory.store.reserve(first, bests.len().div_ceil(per_block) as u64)?;
        let mut data_block = 0_u32;
        for bests in bests.chunks(per_block) {
            let (place, _) = self.directory.free_index_of(data_block);
            let mut buffer = self.directory.store.create_reserved(Structure::DirectoryFreeIndex, place)?;
            let identity = self.directory.store.identity(buffer.sector());
            FreeIndexEdit::init(buffer.edit(), &identity, data_block).extend(bests);
            data_block = data_block.saturating_add(bests.len() as u32);
        }
        Ok(())
    }

    /// Writes leaves, and nodes up to the root.
    fn fill_tree(&mut self, index: &[IndexEntry]) -> Result<()> {
        let block_bytes = self.directory.geometry().directory_block_size_bytes;
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
        self.directory.store.reserve(self.directory.leaf_start(), total as u64)?;
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
                let mut buffer = self.directory.store.create_reserved(Structure::DirectoryAnyIndex, place)?;
                let identity = self.directory.store.identity(buffer.sector());
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
        let blocks = (number as u64).saturating_mul(self.directory.store.blocks_per_block());
        FileBlock::new(self.directory.leaf_start().get().saturating_add(blocks))
    }
}

fn index_entry(rule: NameRule, base_bytes: u64, offset_bytes: u32, name: &[u8]) -> IndexEntry {
    let pointer = DataPointer::of_byte(base_bytes.saturating_add(offset_bytes.into()));
    (rule.hash(name), pointer.unwrap_or_default())
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

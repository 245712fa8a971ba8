//! Making room: shifting, splitting, growing the root.

use uxfs_block::cache::EditBuffer;
use uxfs_format::btree::{BlockPointer, BtreeKind, block::Pointer, check::BtreeFault};

use super::{
    blocks::{edit_of, key_of, level_number, view_of},
    cursor::EditCursor,
    path::PathLevel,
    storage::{BtreeStorage, InlineRoot},
};
use uxfs_volume::error::Result;

/// An addition to a node.
#[derive(Clone, Copy)]
enum Item<K: BtreeKind> {
    Record(K::Record),
    Entry(K::Key, Pointer<K>),
}

impl<K: BtreeKind> Item<K> {
    fn key(&self) -> K::Key {
        match self {
            Self::Record(record) => K::key_of_record(record),
            Self::Entry(key, _) => *key,
        }
    }

    fn put(&self, buffer: &mut EditBuffer, index: usize) {
        let mut edit = edit_of::<K>(buffer);
        match self {
            Self::Record(record) => edit.insert_record(index, record),
            Self::Entry(key, pointer) => edit.insert_entry(index, key, pointer),
        }
    }
}

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> EditCursor<'fs, K, H> {
    /// Adds a record to the leaf, before that at its index.
    pub(super) fn insert_record(&mut self, record: &K::Record) -> Result<()> {
        self.insert_at(0, Item::Record(*record))
    }

    /// Adds something to the node of a level, before what is at its index.
    fn insert_at(&mut self, level: usize, item: Item<K>) -> Result<()> {
        if self.blocks.is_inline(level) && self.blocks.is_full(level)? {
            self.push_root_down()?;
        }
        // A block into which the largest root has moved may be full.
        if self.blocks.is_full(level)? && !self.shift(level)? {
            return self.split(level, item);
        }
        let index = self.blocks.path.index(level);
        match &item {
            Item::Record(record) => self.blocks.edit(level)?.insert_record(index, record),
            Item::Entry(key, pointer) => self.blocks.insert_entry(level, index, key, pointer)?,
        }
        self.raise_keys(level, &item.key(), index == 0)
    }

    /// Moves entries of a full block to a neighbour that has room, and the path with them.
    fn shift(&mut self, level: usize) -> Result<bool> {
        let parent = level + 1;
        if parent >= self.blocks.path.levels() {
            return Ok(false);
        }
        let (position, siblings) = (self.blocks.path.index(parent), self.blocks.len(parent)?);
        if position > 0 && self.shift_left(level, position)? {
            return Ok(true);
        }
        Ok(position + 1 < siblings && self.shift_right(level, position)?)
    }

    fn shift_left(&mut self, level: usize, position: usize) -> Result<bool> {
        let (left_pointer, mut left) = self.neighbour(level, position - 1)?;
        let before = view_of::<K>(&left)?.len();
        let room = self.blocks.capacity_of_block(level).saturating_sub(before);
        if room == 0 {
            return Ok(false);
        }
        let (pointer, index) = (self.blocks.path.pointer(level), self.blocks.path.index(level));
        let mut here = self.take(level)?;
        self.blocks.check_neighbours((left_pointer, &left), (pointer, &here))?;
        let view = view_of::<K>(&here)?;
        // An append at the end of the level leaves full blocks behind; any other insertion shares evenly.
        let is_append = index == view.len() && view.right_sibling().is_none();
        let moved = match is_append {
            true => room.min(view.len().saturating_sub(self.blocks.fewest(level))),
            false => room.div_ceil(2),
        };
        // The item may have to go to the other block, which then needs room for it.
        let moved = if index < moved && moved == room { room - 1 } else { moved };
        let goes_left = index < moved || (index == moved && moved < room);
        edit_of::<K>(&mut left).append(&view, 0, moved);
        edit_of::<K>(&mut here).drop_front(moved);
        let keys = (key_of::<K>(&left)?, key_of::<K>(&here)?);
        if goes_left {
            self.blocks.path.set_index(level, before + index);
            self.blocks.path.set_index(level + 1, position - 1);
            self.blocks.path.set(level, left_pointer, Some(left));
        } else {
            self.blocks.path.set_index(level, index - moved);
            self.blocks.path.set(level, pointer, Some(here));
        }
        self.blocks.set_key(level + 1, position - 1, &keys.0)?;
        self.blocks.set_key(level + 1, position, &keys.1)?;
        Ok(true)
    }

    fn shift_right(&mut self, level: usize, position: usize) -> Result<bool> {
        let (right_pointer, mut right) = self.neighbour(level, position + 1)?;
        let room = self.blocks.capacity_of_block(level).saturating_sub(view_of::<K>(&right)?.len());
        if room == 0 {
            return Ok(false);
        }
        let (pointer, index) = (self.blocks.path.pointer(level), self.blocks.path.index(level));
        let mut here = self.take(level)?;
        self.blocks.check_neighbours((pointer, &here), (right_pointer, &right))?;
        let view = view_of::<K>(&here)?;
        let length = view.len();
        let moved = room.div_ceil(2).min(length.saturating_sub(1));
        let moved = if index + moved > length && moved == room { room - 1 } else { moved };
        let kept = length - moved;
        let goes_right = index > kept || (index == kept && moved == 0);
        edit_of::<K>(&mut right).prepend(&view, kept, moved);
        edit_of::<K>(&mut here).truncate(kept);
        let keys = (key_of::<K>(&here)?, key_of::<K>(&right)?);
        if goes_right {
            self.blocks.path.set_index(level, index - kept);
            self.blocks.path.set_index(level + 1, position + 1);
            self.blocks.path.set(level, right_pointer, Some(right));
        } else {
            self.blocks.path.set(level, pointer, Some(here));
        }
        self.blocks.set_key(level + 1, position, &keys.0)?;
        self.blocks.set_key(level + 1, position + 1, &keys.1)?;
        Ok(true)
    }

    /// Divides a full block, adds the item to one of the halves and the new half to the parent.
    fn split(&mut self, level: usize, item: Item<K>) -> Result<()> {
        self.blocks.load(level)?;
        let is_root = level + 1 == self.blocks.path.levels();
        if is_root {
            self.check_height()?;
        }
        let left_pointer = self.blocks.path.pointer(level);
        let (right_pointer, mut right) = self.blocks.create(level, Some(left_pointer))?;
        let mut left = self.take(level)?;
        let (length, index) = (view_of::<K>(&left)?.len(), self.blocks.path.index(level));
        let kept = length.div_ceil(2);
        let behind = view_of::<K>(&left)?.right_sibling().map(Pointer::<K>::from_address);
        if let Some(behind) = behind {
            if behind == right_pointer || behind == left_pointer {
                return Err(self.blocks.wrong_sibling(left_pointer, "right", Some(behind.address()), None));
            }
            let mut next = self.blocks.read(behind, level)?;
            self.blocks.check_neighbours((left_pointer, &left), (behind, &next))?;
            edit_of::<K>(&mut next).set_left_sibling(right_pointer);
        }
        {
            let mut edit = edit_of::<K>(&mut right);
            edit.append(&view_of(&left)?, kept, length - kept);
            edit.set_left_sibling(left_pointer);
            edit.set_right_sibling(behind.unwrap_or(Pointer::<K>::NULL));
            let mut edit = edit_of::<K>(&mut left);
            edit.truncate(kept);
            edit.set_right_sibling(right_pointer);
        }
        let goes_right = index > kept;
        if goes_right {
            item.put(&mut right, index - kept);
        } else {
            item.put(&mut left, index);
        }
        let (left_key, right_key) = (key_of::<K>(&left)?, key_of::<K>(&right)?);
        let (pointer, here) = if goes_right { (right_pointer, right) } else { (left_pointer, left) };
        self.blocks.path.set(level, pointer, Some(here));
        self.blocks.path.set_index(level, if goes_right { index - kept } else { index });
        if is_root {
            let entries = [(left_key, left_pointer), (right_key, right_pointer)];
            return self.grow_root(entries, usize::from(goes_right));
        }
        // Below the parent only the item is new: nothing else can change its key.
        let (parent, position) = (level + 1, self.blocks.path.index(level + 1));
        self.blocks.set_key(parent, position, &left_key)?;
        if !goes_right {
            self.raise_keys(parent, &left_key, position == 0)?;
            // The way now leads to the other half.
            self.is_way_lost = true;
        }
        self.blocks.path.set_index(parent, position + 1);
        self.insert_at(parent, Item::Entry(right_key, right_pointer))
    }

    /// Puts a root above two blocks.
    fn grow_root(&mut self, entries: [(K::Key, Pointer<K>); 2], index: usize) -> Result<()> {
        let level = self.blocks.path.levels();
        let (pointer, mut buffer) =
            self.blocks.create(level, Some(self.blocks.path.pointer(level.saturating_sub(1))))?;
        let mut edit = edit_of::<K>(&mut buffer);
        for (index, (key, child)) in entries.iter().enumerate() {
            edit.insert_entry(index, key, child);
        }
        if !self.blocks.path.grow(PathLevel { pointer, index, buffer: Some(buffer) }) {
            return Err(self.blocks.lost());
        }
        self.blocks.home.set_root(pointer.address(), u32::from(level_number(level + 1)))
    }

    /// Moves the entries of a root in an inode into a block, so that the root has one entry.
    pub fn push_root_down(&mut self) -> Result<()> {
        self.check_height()?;
        let level = self.blocks.path.levels().saturating_sub(1);
        let near = self.blocks.entry(level, 0)?.map(|(_, pointer)| pointer);
        let (pointer, mut buffer) = self.blocks.create(level, near)?;
        let Some(root) = self.blocks.home.inline_root() else { return Err(self.blocks.lost()) };
        let mut edit = edit_of::<K>(&mut buffer);
        while let Some((key, child)) = root.entry(0) {
            edit.insert_entry(edit.len(), &key, &child);
            root.remove(0);
        }
        root.insert(0, &key_of::<K>(&buffer)?, &pointer);
        root.set_level(level_number(level + 1));
        self.blocks.path.set(level, pointer, Some(buffer));
        let step = PathLevel { pointer: Pointer::<K>::NULL, index: 0, buffer: None };
        if self.blocks.path.grow(step) { Ok(()) } else { Err(self.blocks.lost()) }
    }

    /// Makes a root in an inode fit its room after that has changed: moves it into a block, or takes the entries of its only
    /// child back. Does nothing where the root is a block. The cursor is nowhere afterwards.
    ///
    /// # Errors
    /// No space; damage; the device.
    pub fn fit_root(&mut self) -> Result<()> {
        if !self.blocks.has_inline_root {
            return Ok(());
        }
        self.guarded(|cursor| {
            cursor.is_at_record = false;
            let level = cursor.restart()?.saturating_sub(1);
            if cursor.blocks.len(level)? > cursor.blocks.home.inline_capacity() {
                cursor.push_root_down()?;
            }
            cursor.is_way_lost = true;
            cursor.pull_root_up()
        })
    }

    /// Whether the tree may become one level higher.
    fn check_height(&self) -> Result<()> {
        let (levels, max_levels) = (self.blocks.path.levels(), K::max_levels(self.blocks.geometry));
        if levels >= max_levels as usize {
            let fault = BtreeFault::Level { level: level_number(levels), max_levels };
            return Err(self.blocks.damaged(None, fault));
        }
        Ok(())
    }

    /// Another child of the node above a level.
    pub(super) fn neighbour(&mut self, level: usize, position: usize) -> Result<(Pointer<K>, EditBuffer)> {
        let (_, pointer) = self.blocks.expect_entry(level + 1, position)?;
        if pointer == self.blocks.path.pointer(level) {
            // Held already: asking for it again would wait for ever.
            return Err(self.blocks.damaged(Some(pointer), BtreeFault::BlockOrder));
        }
        Ok((pointer, self.blocks.read(pointer, level)?))
    }

    /// Takes the buffer of a level out of the path; the caller puts one back.
    pub(super) fn take(&mut self, level: usize) -> Result<EditBuffer> {
        self.blocks.load(level)?;
        let buffer = self.blocks.path.step_mut(level).and_then(|step| step.buffer.take());
        buffer.ok_or_else(|| self.blocks.lost())
    }
}

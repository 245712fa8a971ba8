//! Filling up: borrowing, joining, shrinking the root.

use uxfs_block::cache::EditBuffer;
use uxfs_format::btree::{BlockPointer, BtreeKind, block::Pointer};

use super::{
    blocks::{edit_of, key_of, level_number, view_of},
    cursor::EditCursor,
    storage::{BtreeStorage, InlineRoot},
};
use uxfs_volume::error::Result;

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> EditCursor<'fs, K, H> {
    /// Takes the record at the index of the leaf out.
    pub(super) fn delete_record(&mut self) -> Result<()> {
        self.remove_at(0)
    }

    /// Takes what is at the index of the node of a level out.
    fn remove_at(&mut self, level: usize) -> Result<()> {
        let index = self.blocks.path.index(level);
        let key = self.blocks.key_at(level, index)?;
        self.blocks.take_out(level, index)?;
        if level + 1 == self.blocks.path.levels() {
            return if self.blocks.is_inline(level) { self.pull_root_up() } else { self.collapse_root() };
        }
        self.lower_keys(level, &key, index)?;
        if self.blocks.len(level)? < self.blocks.fewest(level) { self.refill(level) } else { Ok(()) }
    }

    /// A block has fewer entries than it must: takes some from a neighbour, or joins one.
    fn refill(&mut self, level: usize) -> Result<()> {
        let parent = level + 1;
        let (position, siblings) = (self.blocks.path.index(parent), self.blocks.len(parent)?);
        if siblings < 2 {
            // The only child of a root in an inode counts as a root.
            return if self.blocks.is_inline(parent) { self.pull_root_up() } else { Ok(()) };
        }
        let fewest = self.blocks.fewest(level);
        if position + 1 < siblings {
            let (pointer, right) = self.neighbour(level, position + 1)?;
            if view_of::<K>(&right)?.len() > fewest {
                return self.borrow_from_right(level, position, (pointer, right));
            }
            if position == 0 {
                return self.join_right(level, (pointer, right));
            }
        }
        let (pointer, left) = self.neighbour(level, position.saturating_sub(1))?;
        if view_of::<K>(&left)?.len() > fewest {
            return self.borrow_from_left(level, position, (pointer, left));
        }
        self.join_left(level, position, (pointer, left))
    }

    fn borrow_from_right(
        &mut self,
        level: usize,
        position: usize,
        (pointer, mut right): (Pointer<K>, EditBuffer),
    ) -> Result<()> {
        let mut here = self.take(level)?;
        self.blocks.check_neighbours((self.blocks.path.pointer(level), &here), (pointer, &right))?;
        let moved = half_the_difference(view_of::<K>(&right)?.len(), view_of::<K>(&here)?.len());
        edit_of::<K>(&mut here).append(&view_of(&right)?, 0, moved);
        edit_of::<K>(&mut right).drop_front(moved);
        let keys = (key_of::<K>(&here)?, key_of::<K>(&right)?);
        self.blocks.path.set(level, self.blocks.path.pointer(level), Some(here));
        self.blocks.set_key(level + 1, position, &keys.0)?;
        self.blocks.set_key(level + 1, position + 1, &keys.1)
    }

    fn borrow_from_left(
        &mut self,
        level: usize,
        position: usize,
        (pointer, mut left): (Pointer<K>, EditBuffer),
    ) -> Result<()> {
        let mut here = self.take(level)?;
        self.blocks.check_neighbours((pointer, &left), (self.blocks.path.pointer(level), &here))?;
        let length = view_of::<K>(&left)?.len();
        let moved = half_the_difference(length, view_of::<K>(&here)?.len());
        edit_of::<K>(&mut here).prepend(&view_of(&left)?, length - moved, moved);
        edit_of::<K>(&mut left).truncate(length - moved);
        let keys = (key_of::<K>(&left)?, key_of::<K>(&here)?);
        self.blocks.path.set(level, self.blocks.path.pointer(level), Some(here));
        self.blocks.path.set_index(level, self.blocks.path.index(level) + moved);
        self.blocks.set_key(level + 1, position - 1, &keys.0)?;
        self.blocks.set_key(level + 1, position, &keys.1)
    }

    fn join_right(&mut self, level: usize, right: (Pointer<K>, EditBuffer)) -> Result<()> {
        let here = (self.blocks.path.pointer(level), self.take(level)?);
        self.join(level, 0, here, right)
    }

    fn join_left(&mut self, level: usize, position: usize, left: (Pointer<K>, EditBuffer)) -> Result<()> {
        let here = (self.blocks.path.pointer(level), self.take(level)?);
        self.join(level, position.saturating_sub(1), left, here)
    }

    /// Moves all of the right block into the left one, whose entry in the parent is at `position`, and gives it back.
    fn join(
        &mut self,
        level: usize,
        position: usize,
        (left_pointer, mut left): (Pointer<K>, EditBuffer),
        (right_pointer, right): (Pointer<K>, EditBuffer),
    ) -> Result<()> {
        self.blocks.check_neighbours((left_pointer, &left), (right_pointer, &right))?;
        let view = view_of::<K>(&right)?;
        let behind = view.right_sibling().map(Pointer::<K>::from_address);
        let mut edit = edit_of::<K>(&mut left);
        edit.append(&view, 0, view.len());
        edit.set_right_sibling(behind.unwrap_or(Pointer::<K>::NULL));
        if let Some(behind) = behind {
            if behind == right_pointer || behind == left_pointer {
                return Err(self.blocks.wrong_sibling(right_pointer, "right", Some(behind.address()), None));
            }
            let mut next = self.blocks.read(behind, level)?;
            self.blocks.check_neighbours((right_pointer, &right), (behind, &next))?;
            edit_of::<K>(&mut next).set_left_sibling(left_pointer);
        }
        let key = key_of::<K>(&left)?;
        // The way led to one of both; now it leads to what is left of them, and so does the parent's first entry.
        self.blocks.path.set(level, left_pointer, Some(left));
        self.is_way_lost = true;
        drop(right);
        self.blocks.discard(right_pointer)?;
        self.blocks.set_key(level + 1, position, &key)?;
        self.blocks.path.set_index(level + 1, position + 1);
        self.remove_at(level + 1)
    }

    /// A root with a single child is not needed.
    fn collapse_root(&mut self) -> Result<()> {
        loop {
            let level = self.blocks.path.levels().saturating_sub(1);
            if level == 0 || self.blocks.len(level)? != 1 {
                return Ok(());
            }
            let (_, child) = self.blocks.expect_entry(level, 0)?;
            let root = self.blocks.path.pointer(level);
            self.blocks.path.shrink();
            self.is_way_lost = true;
            self.blocks.discard(root)?;
            self.blocks.home.set_root(child.address(), u32::from(level_number(level)))?;
            // The way may lead to another child; the only one that is left is the root now.
            if self.blocks.path.pointer(level - 1) != child {
                self.blocks.path.set(level - 1, child, None);
            }
        }
    }

    /// Takes the entries of the only child of a root in an inode into the root, where they have room there.
    pub(super) fn pull_root_up(&mut self) -> Result<()> {
        loop {
            let level = self.blocks.path.levels().saturating_sub(1);
            if level < 2 || self.blocks.len(level)? != 1 {
                return Ok(());
            }
            let (_, child) = self.blocks.expect_entry(level, 0)?;
            if self.blocks.path.pointer(level - 1) != child {
                self.blocks.path.set(level - 1, child, None);
            }
            let capacity = self.blocks.inline_capacity(level);
            if self.blocks.view(level - 1)?.len() > capacity {
                return Ok(());
            }
            let buffer = self.take(level - 1)?;
            let view = view_of::<K>(&buffer)?;
            let Some(root) = self.blocks.home.inline_root() else { return Err(self.blocks.lost()) };
            root.remove(0);
            for (index, (key, pointer)) in view.keys().iter().zip(view.pointers()).enumerate() {
                root.insert(index, key, pointer);
            }
            root.set_level(level_number(level - 1));
            drop(buffer);
            self.blocks.path.shrink();
            self.is_way_lost = true;
            self.blocks.discard(child)?;
        }
    }
}

/// How many entries make two blocks equal, at least one.
fn half_the_difference(more: usize, fewer: usize) -> usize {
    (more.saturating_sub(fewer) / 2).max(1)
}

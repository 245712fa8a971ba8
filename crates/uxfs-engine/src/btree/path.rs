//! The way from the root to a leaf.

use uxfs_block::cache::EditBuffer;
use uxfs_format::btree::{BlockPointer, BtreeKind, block::Pointer, levels::MAX_LEVELS};

use super::storage::InlineRoot;

/// Room on the way for the highest tree of any kind.
const LEVELS: usize = MAX_LEVELS as usize;

/// A block on the way, and which record or entry of it.
pub(super) struct PathLevel<K: BtreeKind> {
    /// Null for a root that is not a block.
    pub pointer: Pointer<K>,
    pub index: usize,
    /// Held while the cursor lives, once it has been needed.
    pub buffer: Option<EditBuffer>,
}

/// Steps by level: the leaf is the first.
pub(super) struct Path<K: BtreeKind> {
    steps: [PathLevel<K>; LEVELS],
    levels: usize,
}

/// The way that a cursor went last, without the blocks: the next cursor need not go down from the root where what it
/// looks for lies in the same leaf.
#[derive(Debug, Clone, Copy)]
pub struct CursorHint<K: BtreeKind> {
    steps: [(Pointer<K>, u16); LEVELS],
    levels: u8,
}

impl<K: BtreeKind> Default for CursorHint<K> {
    fn default() -> Self {
        Self { steps: [(Pointer::<K>::NULL, 0); LEVELS], levels: 0 }
    }
}

impl<K: BtreeKind> PathLevel<K> {
    const fn nowhere() -> Self {
        Self { pointer: Pointer::<K>::NULL, index: 0, buffer: None }
    }
}

impl<K: BtreeKind> Path<K> {
    pub fn nowhere() -> Self {
        Self { steps: [const { PathLevel::nowhere() }; LEVELS], levels: 0 }
    }

    /// Levels of the tree; 0 where the path is nowhere.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Lets go of all blocks.
    pub fn clear(&mut self) {
        self.release();
        self.levels = 0;
    }

    /// Lets go of all blocks, but remembers which they are.
    pub fn release(&mut self) {
        for step in self.steps.iter_mut().take(self.levels) {
            step.buffer = None;
        }
    }

    /// Whether the block is held.
    #[inline]
    pub fn holds(&self, pointer: Pointer<K>) -> bool {
        let mut steps = self.steps.iter().take(self.levels);
        steps.any(|step| step.pointer == pointer && step.buffer.is_some())
    }

    /// Whether the way leads through the block.
    pub fn leads_through(&self, pointer: Pointer<K>) -> bool {
        self.steps.iter().take(self.levels).any(|step| step.pointer == pointer)
    }

    /// Begins at the root of a tree of so many levels. False where no tree is that high.
    pub fn restart(&mut self, levels: usize, root: Pointer<K>) -> bool {
        self.clear();
        let Some(step) = levels.checked_sub(1).and_then(|top| self.steps.get_mut(top)) else { return false };
        *step = PathLevel { pointer: root, index: 0, buffer: None };
        self.levels = levels;
        true
    }

    /// Puts a new root above the present one. False where no tree is that high.
    pub fn grow(&mut self, step: PathLevel<K>) -> bool {
        let Some(slot) = self.steps.get_mut(self.levels) else { return false };
        *slot = step;
        self.levels += 1;
        true
    }

    /// Takes the root off.
    pub fn shrink(&mut self) {
        if let Some(top) = self.levels.checked_sub(1) {
            if let Some(step) = self.steps.get_mut(top) {
                step.buffer = None;
            }
            self.levels = top;
        }
    }

    #[inline]
    pub fn step(&self, level: usize) -> Option<&PathLevel<K>> {
        self.steps.get(level)
    }

    #[inline]
    pub fn step_mut(&mut self, level: usize) -> Option<&mut PathLevel<K>> {
        self.steps.get_mut(level)
    }

    /// Goes on at another block of a level.
    pub fn set(&mut self, level: usize, pointer: Pointer<K>, buffer: Option<EditBuffer>) {
        if let Some(step) = self.steps.get_mut(level) {
            step.pointer = pointer;
            step.buffer = buffer;
        }
    }

    #[inline]
    pub fn index(&self, level: usize) -> usize {
        self.steps.get(level).map_or(0, |step| step.index)
    }

    #[inline]
    pub fn set_index(&mut self, level: usize, index: usize) {
        if let Some(step) = self.steps.get_mut(level) {
            step.index = index;
        }
    }

    #[inline]
    pub fn pointer(&self, level: usize) -> Pointer<K> {
        self.steps.get(level).map_or(Pointer::<K>::NULL, |step| step.pointer)
    }

    pub fn resume(&mut self, hint: &CursorHint<K>) {
        self.levels = usize::from(hint.levels);
        for (step, (pointer, index)) in self.steps.iter_mut().zip(&hint.steps).take(self.levels) {
            *step = PathLevel { pointer: *pointer, index: usize::from(*index), buffer: None };
        }
    }

    pub fn remember(&self, hint: &mut CursorHint<K>) {
        hint.levels = u8::try_from(self.levels).unwrap_or(0);
        for (slot, step) in hint.steps.iter_mut().zip(&self.steps).take(self.levels) {
            *slot = (step.pointer, u16::try_from(step.index).unwrap_or(0));
        }
    }
}

impl<K: BtreeKind> CursorHint<K> {
    /// Remembers nothing: the tree has been changed by other means.
    pub fn forget(&mut self) {
        self.levels = 0;
    }
}

/// Levels of a tree whose root is not a block.
pub(super) fn levels_of<K: BtreeKind>(root: &impl InlineRoot<K>) -> usize {
    usize::from(root.level()) + 1
}

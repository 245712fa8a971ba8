//! A place in a tree that is being changed.

use uxfs_format::{
    btree::{BlockPointer, BtreeKind, block::Pointer, check::BtreeFault},
    fault::Fault,
};

use super::{
    blocks::{TreeBlocks, level_number},
    path::{Path, levels_of},
    storage::{BtreeStorage, TreeRoot},
};
use uxfs_volume::error::{Error, Result};

/// A place in a tree: one of its records, or nowhere. It holds the blocks on its way from the root.
///
/// Lookups that stay within one leaf do not go down from the root again, whether one cursor makes them or, where the home
/// keeps a hint, one after the other.
pub struct EditCursor<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> {
    pub(super) blocks: TreeBlocks<'fs, K, H>,
    /// The way no longer leads to the leaf in which the last change was made.
    pub(super) is_way_lost: bool,
    pub(super) is_at_record: bool,
}

/// The direction of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Left,
    Right,
}

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> EditCursor<'fs, K, H> {
    /// A cursor that is nowhere yet.
    #[inline]
    pub fn new(mut home: H) -> Self {
        let (geometry, owner) = (home.buffers().geometry(), home.owner());
        let has_inline_root = home.inline_root().is_some();
        let mut path = Path::nowhere();
        if let Some(hint) = home.hint() {
            path.resume(hint);
            // Until this cursor has ended without an error nothing is known.
            hint.forget();
        }
        let blocks = TreeBlocks { home, geometry, owner, path, has_inline_root };
        Self { blocks, is_way_lost: false, is_at_record: false }
    }

    /// A fault of the tree as a whole.
    #[cold]
    pub fn damaged_tree(&self, fault: impl Into<Fault>) -> Error {
        self.blocks.damaged(None, fault)
    }

    /// Where the tree lies.
    pub fn home(&self) -> &H {
        &self.blocks.home
    }

    /// The record at the cursor.
    #[inline]
    pub fn record(&self) -> Option<K::Record> {
        if !self.is_at_record {
            return None;
        }
        self.blocks.loaded(0)?.records().get(self.blocks.path.index(0)).copied()
    }

    /// Goes to the record at `position`. `None`, and nowhere, where there is none.
    ///
    /// # Errors
    /// Damage on the way; the device. The cursor is then nowhere.
    pub fn seek_exact(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        self.guarded(|cursor| {
            cursor.is_at_record = cursor.locate(position)?;
            Ok(cursor.record())
        })
    }

    /// Goes to the last record at or before `position`. `None`, and nowhere, where there is none.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    #[doc(alias = "xfs_btree_lookup")]
    pub fn seek_at_or_before(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        self.guarded(|cursor| {
            let is_exact = cursor.locate(position)?;
            cursor.is_at_record = true;
            if is_exact { Ok(cursor.record()) } else { cursor.step(Direction::Left) }
        })
    }

    /// Goes to the first record at or behind `position`. `None`, and nowhere, where there is none.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    #[doc(alias = "xfs_btree_lookup")]
    pub fn seek_at_or_after(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        self.guarded(|cursor| {
            cursor.locate(position)?;
            cursor.is_at_record = true;
            cursor.settle()
        })
    }

    /// Goes to the first record. `None` where the tree is empty.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    pub fn seek_first(&mut self) -> Result<Option<K::Record>> {
        self.seek_edge(Direction::Left)
    }

    /// Goes to the last record. `None` where the tree is empty.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    pub fn seek_last(&mut self) -> Result<Option<K::Record>> {
        self.seek_edge(Direction::Right)
    }

    /// Goes to the next record. `None`, and nowhere, behind the last.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    #[allow(clippy::should_implement_trait)] // It is a cursor, not an iterator.
    #[doc(alias = "xfs_btree_increment")]
    pub fn next(&mut self) -> Result<Option<K::Record>> {
        self.guarded(|cursor| cursor.step(Direction::Right))
    }

    /// Goes to the previous record. `None`, and nowhere, before the first.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    #[doc(alias = "xfs_btree_decrement")]
    pub fn previous(&mut self) -> Result<Option<K::Record>> {
        self.guarded(|cursor| cursor.step(Direction::Left))
    }

    /// Adds a record where it belongs.
    ///
    /// # Errors
    /// There is one at its place or over it; no space; damage; the device.
    #[doc(alias = "xfs_btree_insert")]
    pub fn insert(&mut self, record: &K::Record) -> Result<()> {
        self.guarded(|cursor| {
            let is_taken = cursor.locate(K::position_of_record(record))?;
            let index = cursor.blocks.path.index(0);
            if is_taken || !cursor.fits_between(record, index.checked_sub(1), index)? {
                return Err(cursor
                    .blocks
                    .damaged(Some(cursor.blocks.path.pointer(0)), BtreeFault::RecordExists));
            }
            cursor.insert_record(record)?;
            cursor.is_at_record = false;
            Ok(())
        })
    }

    /// Replaces the record at the cursor by another that belongs to the same place between its neighbours.
    ///
    /// # Errors
    /// The cursor is nowhere; the record belongs elsewhere; damage; the device.
    #[doc(alias = "xfs_btree_update")]
    pub fn update(&mut self, record: &K::Record) -> Result<()> {
        self.guarded(|cursor| {
            let Some(old) = cursor.record() else { return Err(cursor.blocks.lost()) };
            let index = cursor.blocks.path.index(0);
            if !cursor.fits_between(record, index.checked_sub(1), index + 1)? {
                return Err(cursor
                    .blocks
                    .damaged(Some(cursor.blocks.path.pointer(0)), BtreeFault::RecordExists));
            }
            cursor.replace_record(&old, record)
        })
    }

    /// Replaces the record at the cursor by another wherever that belongs; the cursor is nowhere afterwards.
    ///
    /// # Errors
    /// As [`update`](Self::update) and [`insert`](Self::insert).
    pub fn replace(&mut self, record: &K::Record) -> Result<()> {
        self.guarded(|cursor| {
            let Some(old) = cursor.record() else { return Err(cursor.blocks.lost()) };
            cursor.is_at_record = false;
            if cursor.belongs_here(record)? {
                return cursor.replace_record(&old, record);
            }
            cursor.delete_record()?;
            if std::mem::take(&mut cursor.is_way_lost) {
                cursor.blocks.path.clear();
            }
            cursor.insert(record)
        })
    }

    /// Takes the record at the cursor out; the cursor is nowhere afterwards.
    ///
    /// # Errors
    /// The cursor is nowhere; damage; the device.
    #[doc(alias = "xfs_btree_delete")]
    pub fn delete(&mut self) -> Result<()> {
        self.guarded(|cursor| {
            if cursor.record().is_none() {
                return Err(cursor.blocks.lost());
            }
            cursor.is_at_record = false;
            cursor.delete_record()
        })
    }

    /// Runs an operation; after an error the cursor is nowhere.
    pub(super) fn guarded<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = operation(self);
        if result.is_err() || self.is_way_lost {
            self.is_way_lost = false;
            self.is_at_record = false;
            self.blocks.path.clear();
        }
        result
    }

    /// Goes to the leaf that `position` belongs into, with the index of the first record at or behind it. True where there
    /// is one at it.
    fn locate(&mut self, position: K::Position) -> Result<bool> {
        self.is_at_record = false;
        if self.blocks.path.levels() == 0 || !self.covers(position)? {
            self.descend(|cursor, level| {
                Ok(cursor.blocks.entries_up_to(level, position)?.saturating_sub(1))
            })?;
        }
        let records = self.blocks.view(0)?.records();
        let index = records.partition_point(|record| K::position_of_record(record) < position);
        let is_exact = records.get(index).is_some_and(|found| K::position_of_record(found) == position);
        self.blocks.path.set_index(0, index);
        Ok(is_exact)
    }

    fn seek_edge(&mut self, edge: Direction) -> Result<Option<K::Record>> {
        self.guarded(|cursor| {
            cursor.is_at_record = false;
            let is_there = cursor.blocks.path.levels() > 0 && {
                let view = cursor.blocks.view(0)?;
                let sibling =
                    if edge == Direction::Left { view.left_sibling() } else { view.right_sibling() };
                sibling.is_none()
            };
            if !is_there {
                cursor.descend(|cursor, level| match edge {
                    Direction::Left => Ok(0),
                    Direction::Right => Ok(cursor.blocks.len(level)?.saturating_sub(1)),
                })?;
            }
            let last = cursor.blocks.len(0)?.saturating_sub(1);
            cursor.blocks.path.set_index(0, if edge == Direction::Left { 0 } else { last });
            cursor.is_at_record = true;
            Ok(cursor.record())
        })
    }

    /// Whether `position` belongs into the leaf in which the cursor is.
    fn covers(&mut self, position: K::Position) -> Result<bool> {
        let view = self.blocks.view(0)?;
        let (left, right) = (view.left_sibling(), view.right_sibling());
        let edges = view.records().first().zip(view.records().last());
        let Some((first, last)) = edges else { return Ok(self.blocks.path.levels() == 1) };
        if position < K::position_of_record(first) {
            return Ok(left.is_none());
        }
        if position <= K::position_of_record(last) || right.is_none() {
            return Ok(true);
        }
        // Between this leaf and the next: their parent says where that one begins.
        if self.blocks.path.levels() < 2 {
            return Ok(false);
        }
        let next = self.blocks.entry(1, self.blocks.path.index(1) + 1)?;
        Ok(next.is_some_and(|(key, _)| position < K::position_of_key(&key)))
    }

    /// Goes down from the root, choosing an entry in each node.
    fn descend(&mut self, choose: impl Fn(&mut Self, usize) -> Result<usize>) -> Result<()> {
        for level in (1..self.restart()?).rev() {
            let index = choose(self, level)?;
            self.blocks.path.set_index(level, index);
            self.go_down(level)?;
        }
        Ok(())
    }

    /// Goes to the first entry of the root; gives the number of levels.
    pub(super) fn restart(&mut self) -> Result<usize> {
        let (levels, root) = match self.blocks.home.root()? {
            TreeRoot::Block { address, levels } => (levels as usize, Pointer::<K>::from_address(address)),
            TreeRoot::Inline => {
                let levels = self.blocks.home.inline_root().map_or(0, |root| levels_of(root));
                (levels, Pointer::<K>::NULL)
            }
        };
        // The number of levels was compared with the most of this kind when it was read, and trees grow no higher.
        if !self.blocks.path.restart(levels, root) {
            let max_levels = K::max_levels(self.blocks.geometry);
            let fault = BtreeFault::Level { level: level_number(levels.saturating_sub(1)), max_levels };
            return Err(self.blocks.damaged(Some(root), fault));
        }
        if !self.blocks.is_inline(levels - 1) {
            let view = self.blocks.view(levels - 1)?;
            let siblings = [("left", view.left_sibling()), ("right", view.right_sibling())];
            for (side, sibling) in siblings {
                if sibling.is_some() {
                    return Err(self.blocks.wrong_sibling(root, side, sibling, None));
                }
            }
        }
        Ok(levels)
    }

    /// From the entry at which the node of a level is to its child.
    pub(super) fn go_down(&mut self, level: usize) -> Result<()> {
        let (key, pointer) = self.blocks.expect_entry(level, self.blocks.path.index(level))?;
        let child = level.saturating_sub(1);
        let buffer = self.blocks.read(pointer, child)?;
        self.blocks.path.set(child, pointer, Some(buffer));
        let view = self.blocks.view(child)?;
        let record = view.records().first().map(K::position_of_record);
        let first = record.or_else(|| view.keys().first().map(K::position_of_key));
        match first {
            Some(first) if first < K::position_of_key(&key) => {
                Err(self.blocks.damaged(Some(pointer), BtreeFault::BlockOrder))
            }
            // Only the single leaf of an empty tree holds nothing.
            None if !self.is_only_leaf(child)? => {
                Err(self.blocks.damaged(Some(pointer), BtreeFault::Empty { level: level_number(child) }))
            }
            _ => Ok(()),
        }
    }

    /// Whether the level is that of a leaf which is the only child of a root in an inode.
    fn is_only_leaf(&mut self, level: usize) -> Result<bool> {
        Ok(level == 0 && self.blocks.is_inline(1) && self.blocks.len(1)? == 1)
    }

    /// From an index that may be behind the last record of the leaf to a record.
    fn settle(&mut self) -> Result<Option<K::Record>> {
        match self.record() {
            Some(record) => Ok(Some(record)),
            None => {
                let last = self.blocks.len(0)?.saturating_sub(1);
                self.blocks.path.set_index(0, last);
                self.step(Direction::Right)
            }
        }
    }

    fn step(&mut self, direction: Direction) -> Result<Option<K::Record>> {
        if !self.is_at_record || self.blocks.path.levels() == 0 {
            return Ok(None);
        }
        let (index, length) = (self.blocks.path.index(0), self.blocks.len(0)?);
        let next = match direction {
            Direction::Left => index.checked_sub(1),
            Direction::Right => Some(index + 1).filter(|next| *next < length),
        };
        match next {
            Some(next) => self.blocks.path.set_index(0, next),
            None => self.is_at_record = self.step_leaf(direction)?,
        }
        Ok(self.record())
    }

    /// Goes to the leaf next to this one, if there is one; the index is at its near end.
    fn step_leaf(&mut self, direction: Direction) -> Result<bool> {
        let left_behind = self.blocks.path.pointer(0);
        let view = self.blocks.view(0)?;
        let (sibling, edge, side) = match direction {
            Direction::Left => (view.left_sibling(), view.records().first().copied(), "left"),
            Direction::Right => (view.right_sibling(), view.records().last().copied(), "right"),
        };
        let Some(turn) = self.turn(direction)? else {
            return match sibling {
                None => Ok(false),
                Some(_) => Err(self.blocks.wrong_sibling(left_behind, side, sibling, None)),
            };
        };
        for level in (1..=turn).rev() {
            self.go_down(level)?;
            let last = self.blocks.len(level - 1)?.saturating_sub(1);
            self.blocks.path.set_index(level - 1, if direction == Direction::Left { last } else { 0 });
        }
        let found = self.blocks.path.pointer(0);
        if sibling.map(Pointer::<K>::from_address) != Some(found) {
            return Err(self.blocks.wrong_sibling(left_behind, side, sibling, Some(found)));
        }
        let index = self.blocks.path.index(0);
        let reached = self.blocks.view(0)?.records().get(index).copied();
        let follows = match (direction, edge, reached) {
            (Direction::Right, Some(edge), Some(reached)) => K::may_follow(&edge, &reached),
            (Direction::Left, Some(edge), Some(reached)) => K::may_follow(&reached, &edge),
            _ => false,
        };
        if !follows {
            return Err(self.blocks.damaged(Some(found), BtreeFault::BlockOrder));
        }
        Ok(true)
    }

    /// Moves the index of the lowest node that has an entry in that direction, and gives its level.
    fn turn(&mut self, direction: Direction) -> Result<Option<usize>> {
        for level in 1..self.blocks.path.levels() {
            let (index, length) = (self.blocks.path.index(level), self.blocks.len(level)?);
            let next = match direction {
                Direction::Left => index.checked_sub(1),
                Direction::Right => Some(index + 1).filter(|next| *next < length),
            };
            if let Some(next) = next {
                self.blocks.path.set_index(level, next);
                return Ok(Some(level));
            }
        }
        Ok(None)
    }

    /// Whether a record may stand between two others of the leaf, either of which may not exist.
    fn fits_between(&mut self, record: &K::Record, before: Option<usize>, behind: usize) -> Result<bool> {
        let records = self.blocks.view(0)?.records();
        let previous = before.and_then(|index| records.get(index));
        let next = records.get(behind);
        Ok(previous.is_none_or(|previous| K::may_follow(previous, record))
            && next.is_none_or(|next| K::may_follow(record, next)))
    }

    /// Whether a record may take the place of that at the cursor, as far as the leaf can say.
    fn belongs_here(&mut self, record: &K::Record) -> Result<bool> {
        let index = self.blocks.path.index(0);
        if !self.fits_between(record, index.checked_sub(1), index + 1)? {
            return Ok(false);
        }
        let view = self.blocks.view(0)?;
        let is_inside = (index > 0 || view.left_sibling().is_none())
            && (index + 1 < view.len() || view.right_sibling().is_none());
        Ok(is_inside)
    }

    fn replace_record(&mut self, old: &K::Record, new: &K::Record) -> Result<()> {
        let index = self.blocks.path.index(0);
        self.blocks.edit(0)?.set_record(index, new);
        let (old_key, new_key) = (K::key_of_record(old), K::key_of_record(new));
        if old_key == new_key || (index > 0 && !K::HAS_HIGH_KEYS) {
            return Ok(());
        }
        if index > 0 && K::reaches_only_to(&old_key, &new_key) {
            return self.raise_keys(0, &new_key, false);
        }
        self.recompute_keys(0)
    }
}

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> Drop for EditCursor<'fs, K, H> {
    fn drop(&mut self) {
        if let Some(hint) = self.blocks.home.hint() {
            self.blocks.path.remember(hint);
        }
    }
}

impl<'fs, K: BtreeKind, H: BtreeStorage<'fs, K>> std::fmt::Debug for EditCursor<'fs, K, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EditCursor")
            .field("owner", &self.blocks.owner)
            .field("record", &self.record())
            .finish_non_exhaustive()
    }
}

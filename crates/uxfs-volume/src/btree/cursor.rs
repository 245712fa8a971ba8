//! A place in a tree.

use uxfs_format::btree::BtreeKind;

use super::{
    path::{Direction, Path},
    tree::Tree,
};
use crate::error::Result;

/// A place in a tree: one of its records, or nowhere. It keeps the blocks on the way from the root in memory.
#[derive(Debug, Clone)]
pub struct Cursor<'fs, K: BtreeKind> {
    tree: Tree<'fs, K>,
    pub(super) path: Path<K>,
}

impl<'fs, K: BtreeKind> Cursor<'fs, K> {
    pub(super) fn new(tree: Tree<'fs, K>) -> Self {
        Self { tree, path: Path::new() }
    }

    /// The tree.
    pub fn tree(&self) -> &Tree<'fs, K> {
        &self.tree
    }

    /// Reads the children of each node ahead, for callers that will read most of them.
    #[must_use]
    pub fn with_readahead(mut self) -> Self {
        self.path.reads_ahead = true;
        self
    }

    /// The record at the cursor.
    pub fn record(&self) -> Option<K::Record> {
        let leaf = self.path.leaf()?;
        leaf.block.records().get(leaf.index).copied()
    }

    /// The records from the cursor to the end of its leaf.
    pub fn rest_of_leaf(&self) -> &[K::Record] {
        let Some(leaf) = self.path.leaf() else { return &[] };
        leaf.block.records().get(leaf.index..).unwrap_or_default()
    }

    /// Goes to the first record. `None` where the tree is empty.
    ///
    /// # Errors
    /// Damage on the way; the device. The cursor is then nowhere.
    pub fn first(&mut self) -> Result<Option<K::Record>> {
        self.seek(|cursor| {
            cursor.path.restart(&cursor.tree)?;
            cursor.path.descend(&cursor.tree, |_| 0)
        })
    }

    /// Goes to the last record. `None` where the tree is empty.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn last(&mut self) -> Result<Option<K::Record>> {
        self.seek(|cursor| {
            cursor.path.restart(&cursor.tree)?;
            cursor.path.descend(&cursor.tree, |block| block.len().saturating_sub(1))
        })
    }

    /// Goes to the last record at or before `position`. `None` where there is none.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    #[doc(alias = "xfs_btree_lookup")]
    pub fn at_or_before(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        let found = self.seek(|cursor| cursor.descend_to(&position))?;
        match found {
            Some(record) if K::position_of_record(&record) > position => self.previous(),
            found => Ok(found),
        }
    }

    /// Goes to the first record at or behind `position`. `None` where there is none.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    #[doc(alias = "xfs_btree_lookup")]
    pub fn at_or_after(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        let found = self.seek(|cursor| cursor.descend_to(&position))?;
        match found {
            Some(record) if K::position_of_record(&record) < position => self.next(),
            found => Ok(found),
        }
    }

    /// Goes to the next record. `None`, and nowhere, behind the last.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    #[allow(clippy::should_implement_trait)] // An iterator would stop being a cursor: see `Records`.
    #[doc(alias = "xfs_btree_increment")]
    pub fn next(&mut self) -> Result<Option<K::Record>> {
        let Some(leaf) = self.path.leaf_mut() else { return Ok(None) };
        if leaf.index.saturating_add(1) < leaf.block.len() {
            leaf.index = leaf.index.saturating_add(1);
            return Ok(self.record());
        }
        self.step(Direction::Right)
    }

    /// Goes to the first record of the next leaf. `None`, and nowhere, in the last.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    pub fn next_leaf(&mut self) -> Result<Option<K::Record>> {
        self.step(Direction::Right)
    }

    /// Goes to the previous record. `None`, and nowhere, before the first.
    ///
    /// # Errors
    /// As [`first`](Self::first).
    #[doc(alias = "xfs_btree_decrement")]
    pub fn previous(&mut self) -> Result<Option<K::Record>> {
        let Some(leaf) = self.path.leaf_mut() else { return Ok(None) };
        if let Some(index) = leaf.index.checked_sub(1) {
            leaf.index = index;
            return Ok(self.record());
        }
        self.step(Direction::Left)
    }

    /// Goes to the leaf in which `position` would lie: to the last record at or before it, or the first of all.
    fn descend_to(&mut self, position: &K::Position) -> Result<()> {
        self.path.restart(&self.tree)?;
        self.path.descend(&self.tree, |block| block.count_up_to(position).saturating_sub(1))
    }

    fn step(&mut self, direction: Direction) -> Result<Option<K::Record>> {
        self.seek(|cursor| {
            if !cursor.path.step_leaf(&cursor.tree, direction)? {
                cursor.path.clear();
            }
            Ok(())
        })
    }

    fn seek(&mut self, go: impl FnOnce(&mut Self) -> Result<()>) -> Result<Option<K::Record>> {
        if let Err(error) = go(self) {
            self.path.clear();
            return Err(error);
        }
        Ok(self.record())
    }
}

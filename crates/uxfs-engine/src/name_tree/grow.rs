//! Splitting blocks of a name tree, from the top down.

use uxfs_format::{
    name_tree::{
        MAX_LEVEL,
        header_edit::{copy_block, neighbours, set_next, set_previous},
        node_edit::NodeEdit,
    },
    units::FileBlock,
};

use super::{
    BlockBuffer, ForkStore, NameTree, Side, TreeLeaf,
    path::{PathLevel, TreePath},
};
use uxfs_volume::error::{OperationError, Result};

impl<'fs, S: ForkStore<'fs>, L: TreeLeaf> NameTree<'_, S, L> {
    /// Splits the leaf at the end of the way, which has no room for an entry with `hash`. The way leads to the half
    /// where the entry belongs then.
    pub fn split_leaf(&mut self, path: &mut TreePath, hash: u32) -> Result<()> {
        match path.depth().checked_sub(1) {
            None => self.grow_root(path, Some(hash))?,
            Some(last) => {
                self.make_room(path, last)?;
            }
        }
        let place = path.leaf;
        let (right_place, mut right) = self.create()?;
        let mut left = self.edit_beside(&[right.sector()], place)?;
        let identity = self.store.identity(right.sector());
        let side = self.leaf.split(left.edit(), right.edit(), &identity, hash)?;
        let hashes = [&left, &right].map(|leaf| self.leaf.last_hash(leaf).unwrap_or(hash));
        self.link_behind(place, &mut left, right_place, &mut right)?;
        drop((left, right));
        let depth = path.depth().saturating_sub(1);
        self.add_child(path, depth, hashes, right_place)?;
        let mut right = *path;
        right.leaf = right_place;
        right.step_mut(depth).ok_or_else(|| self.missing(place))?.index += 1;
        // Removed entries at the end may be gone, or the right half begins with the entry to come.
        let [_, last] = hashes;
        self.update_hash(&right, last)?;
        if side == Side::Right {
            *path = right;
        }
        Ok(())
    }

    /// Makes sure that the node at `depth` can take one more child. Gives its depth afterwards.
    fn make_room(&mut self, path: &mut TreePath, depth: usize) -> Result<usize> {
        let block = path.block_at(depth);
        let mut buffer = self.edit(block)?;
        let is_full = NodeEdit::new(buffer.edit()).is_full();
        drop(buffer);
        if !is_full {
            return Ok(depth);
        }
        let parent = match depth.checked_sub(1) {
            None => {
                self.grow_root(path, None)?;
                0
            }
            Some(above) => self.make_room(path, above)?,
        };
        self.split_node(path, parent)?;
        Ok(parent + 1)
    }

    /// Splits the node below the one at depth `parent`, which has room.
    fn split_node(&mut self, path: &mut TreePath, parent: usize) -> Result<()> {
        let depth = parent + 1;
        let place = path.block_at(depth);
        let (right_place, mut right) = self.create()?;
        let mut left = self.edit_beside(&[right.sector()], place)?;
        let level = self.level_of(place, &left)?;
        let identity = self.store.identity(right.sector());
        let mut left_node = NodeEdit::new(left.edit());
        let middle = left_node.count() / 2;
        left_node.split_off(middle, &mut NodeEdit::init(right.edit(), &identity, level));
        let hashes = [
            self.last_hash_of(place, &left)?.unwrap_or(0),
            self.last_hash_of(right_place, &right)?.unwrap_or(0),
        ];
        self.link_behind(place, &mut left, right_place, &mut right)?;
        drop((left, right));
        self.add_child(path, parent, hashes, right_place)?;
        let step = path.step_mut(depth).ok_or(OperationError::NoSpace)?;
        if let Some(index) = step.index.checked_sub(middle) {
            *step = PathLevel { block: right_place, index };
            path.step_mut(parent).ok_or(OperationError::NoSpace)?.index += 1;
        }
        Ok(())
    }

    /// Puts the second half of a child that was split behind the first: `hashes` are the largest of both.
    fn add_child(
        &mut self,
        path: &TreePath,
        depth: usize,
        [left, right]: [u32; 2],
        child: FileBlock,
    ) -> Result<()> {
        let step = path.step(depth).ok_or_else(|| self.missing(child))?;
        let mut buffer = self.edit(step.block)?;
        let mut node = NodeEdit::new(buffer.edit());
        node.set_hash(step.index, left);
        node.insert(step.index + 1, right, child);
        Ok(())
    }

    /// Puts a new block into the chain of its level, behind `left`.
    fn link_behind(
        &mut self,
        left_place: FileBlock,
        left: &mut S::Buffer,
        right_place: FileBlock,
        right: &mut S::Buffer,
    ) -> Result<()> {
        let (next, _) = neighbours(left);
        set_next(&mut right.edit(), next);
        set_previous(&mut right.edit(), Some(left_place));
        set_next(&mut left.edit(), Some(right_place));
        if let Some(next) = next {
            let mut buffer = self.edit_beside(&[left.sector(), right.sector()], next)?;
            set_previous(&mut buffer.edit(), Some(right_place));
        }
        Ok(())
    }

    /// Moves the root's contents into a new block and makes the root the node above it. `hash` is the largest where
    /// the root is a leaf without entries.
    fn grow_root(&mut self, path: &mut TreePath, hash: Option<u32>) -> Result<()> {
        let root_place = self.root();
        let (place, mut child) = self.create()?;
        let mut root = self.edit_beside(&[child.sector()], root_place)?;
        let level = self.level_of(root_place, &root)?;
        if level >= MAX_LEVEL {
            return Err(OperationError::NoSpace.into());
        }
        let sector = child.sector();
        copy_block(&mut child.edit(), &root, sector);
        let last = self.last_hash_of(root_place, &root)?.or(hash).unwrap_or(0);
        let identity = self.store.identity(root.sector());
        let mut edit = root.edit();
        edit.all().fill(0);
        NodeEdit::init(edit, &identity, level + 1).insert(0, last, place);
        let step = PathLevel { block: root_place, index: 0 };
        match path.step_mut(0) {
            Some(first) => first.block = place,
            None => path.leaf = place,
        }
        path.push_front(step).ok_or_else(|| self.missing(root_place))
    }
}

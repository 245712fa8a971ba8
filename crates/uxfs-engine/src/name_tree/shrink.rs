//! Removing and joining blocks of a name tree, from the leaf up.

use uxfs_format::{
    name_tree::{
        entry_array::MoveSide,
        fault::NameTreeFault,
        header_edit::{copy_block, neighbours, set_next, set_previous},
        node,
        node_edit::{NodeEdit, may_join, wants_join},
    },
    units::FileBlock,
};

use super::{
    BlockBuffer, ForkStore, NameTree, TreeLeaf,
    path::{Direction, TreePath},
};
use uxfs_volume::error::Result;

impl<'fs, S: ForkStore<'fs>, L: TreeLeaf> NameTree<'_, S, L> {
    /// Sets the tree right after something was removed from the leaf at the end of the way: hashes above follow, an
    /// empty leaf goes, a nearly empty one joins a neighbour, and so on up to the root.
    pub fn settle(&mut self, path: &TreePath) -> Result<()> {
        let depth = path.depth();
        if depth == 0 {
            return Ok(());
        }
        let leaf = self.edit(path.leaf)?;
        let last = self.leaf.last_hash(&leaf);
        drop(leaf);
        if let Some(last) = last {
            self.update_hash(path, last)?;
        }
        self.settle_at(path, depth)
    }

    fn settle_at(&mut self, path: &TreePath, depth: usize) -> Result<()> {
        if depth == 0 {
            return self.collapse_root();
        }
        let place = path.block_at(depth);
        let buffer = self.edit(place)?;
        let (used, most) = self.fill_of(place, &buffer)?;
        let (next, previous) = neighbours(&buffer);
        drop(buffer);
        if next.is_none() && previous.is_none() {
            // The only block of its level: it can only move up into the root.
            return self.collapse_root();
        }
        if used == 0 {
            return self.drop_block(path, depth);
        }
        if !wants_join(used, most) {
            return Ok(());
        }
        let sides = [(next, Direction::Next), (previous, Direction::Previous)];
        for (neighbour, direction) in sides {
            let Some(neighbour) = neighbour else { continue };
            let buffer = self.edit(neighbour)?;
            let (other, _) = self.fill_of(neighbour, &buffer)?;
            drop(buffer);
            if may_join(used, other, most) {
                self.join(path, depth, neighbour, direction)?;
                return self.drop_block(path, depth);
            }
        }
        match previous {
            Some(previous) if next.is_none() && used == 1 => self.borrow_child(path, depth, previous),
            _ => Ok(()),
        }
    }

    /// Moves the last child of the node before it into the last node of a level, which has one only. Such a tree is sound, and
    /// Linux leaves it, but `xfs_repair` does not come to the node when it follows the leaves, and would take the tree away.
    fn borrow_child(&mut self, path: &TreePath, depth: usize, previous: FileBlock) -> Result<()> {
        let place = path.block_at(depth);
        let target = self.edit(place)?;
        if self.level_of(place, &target)? == 0 {
            return Ok(());
        }
        drop(target);
        let beside = self.way_beside(path, depth, previous, Direction::Previous)?;
        let mut target = self.edit(place)?;
        let mut source = self.edit_beside(&[target.sector()], previous)?;
        let node = self.parse_node(previous, &source)?;
        let index = node.entries.len().saturating_sub(1);
        let (Some(entry), Some(child)) = (node.entries.get(index), node.child(index)) else { return Ok(()) };
        NodeEdit::new(target.edit()).insert(0, entry.hash.get(), child);
        NodeEdit::new(source.edit()).remove(index);
        let last = self.last_hash_of(previous, &source)?;
        drop((source, target));
        match last {
            Some(last) => self.update_hash_at(&beside, depth, last),
            None => Ok(()),
        }
    }

    /// The way to the neighbour that the block at `depth` names.
    fn way_beside(
        &mut self,
        path: &TreePath,
        depth: usize,
        neighbour: FileBlock,
        direction: Direction,
    ) -> Result<TreePath> {
        let place = path.block_at(depth);
        let beside = self.beside(path, depth, direction)?;
        let found = beside.as_ref().map_or(FileBlock::new(0), |beside| beside.leaf);
        beside
            .filter(|beside| beside.leaf == neighbour && neighbour != place)
            .ok_or_else(|| self.corruption(place, NameTreeFault::Neighbour { found, expected: neighbour }))
    }

    /// Moves everything of the block at `depth` into its neighbour.
    fn join(
        &mut self,
        path: &TreePath,
        depth: usize,
        neighbour: FileBlock,
        direction: Direction,
    ) -> Result<()> {
        let place = path.block_at(depth);
        let beside = self.way_beside(path, depth, neighbour, direction)?;
        let source = self.edit(place)?;
        let mut target = self.edit_beside(&[source.sector()], neighbour)?;
        let levels = [self.level_of(place, &source)?, self.level_of(neighbour, &target)?];
        if let [expected, found] = levels
            && expected != found
        {
            return Err(self.corruption(neighbour, NameTreeFault::ChildLevel { found, expected }));
        }
        let side = match direction {
            Direction::Next => MoveSide::Front,
            Direction::Previous => MoveSide::Back,
        };
        if levels == [0, 0] {
            self.leaf.take_all(target.edit(), &source, side)?;
        } else {
            NodeEdit::new(target.edit()).take_all(&source, side);
        }
        let last = self.last_hash_of(neighbour, &target)?;
        drop((source, target));
        match last {
            Some(last) => self.update_hash_at(&beside, depth, last),
            None => Ok(()),
        }
    }

    /// Gives back the block at `depth`, which holds nothing any more, and takes it out of its parent.
    fn drop_block(&mut self, path: &TreePath, depth: usize) -> Result<()> {
        let place = path.block_at(depth);
        let buffer = self.edit(place)?;
        let (next, previous) = neighbours(&buffer);
        drop(buffer);
        if let Some(next) = next {
            set_previous(&mut self.edit(next)?.edit(), previous);
        }
        if let Some(previous) = previous {
            set_next(&mut self.edit(previous)?.edit(), next);
        }
        self.store.free(place)?;
        let above = depth.saturating_sub(1);
        let step = path.step(above).ok_or_else(|| self.missing(place))?;
        let mut buffer = self.edit(step.block)?;
        let mut node = NodeEdit::new(buffer.edit());
        node.remove(step.index);
        let (count, last) = (node.count(), self.last_hash_of(step.block, &buffer)?);
        drop(buffer);
        if let Some(last) = last
            && step.index == count
        {
            self.update_hash_at(path, above, last)?;
        }
        self.settle_at(path, above)
    }

    /// As long as the root has one child only, takes that in its place.
    fn collapse_root(&mut self) -> Result<()> {
        let root_place = self.root();
        // Each round takes away a level.
        loop {
            let mut root = self.edit(root_place)?;
            if self.level_of(root_place, &root)? == 0 {
                return Ok(());
            }
            let node = self.parse_node(root_place, &root)?;
            let (1, Some(place)) = (node.entries.len(), node.child(0)) else { return Ok(()) };
            let level = node.header.level.get();
            let child = self.edit_beside(&[root.sector()], place)?;
            let (found, expected) = (self.level_of(place, &child)?, level.saturating_sub(1));
            if found != expected {
                return Err(self.corruption(place, NameTreeFault::ChildLevel { found, expected }));
            }
            let sector = root.sector();
            copy_block(&mut root.edit(), &child, sector);
            drop((root, child));
            self.store.free(place)?;
        }
    }

    fn fill_of(&self, place: FileBlock, bytes: &[u8]) -> Result<(usize, usize)> {
        if self.level_of(place, bytes)? == 0 {
            return Ok(self.leaf.fill(bytes));
        }
        let count = self.parse_node(place, bytes)?.entries.len();
        let most = node::most_entries(self.store.kind().block_size_bytes(self.store.geometry()));
        Ok((count, most as usize))
    }
}

//! Attributes in leaves: one leaf, or a tree of them.

use uxfs_format::{
    attribute::{
        flags::Namespace,
        leaf::{LeafBlock, LeafValue},
        leaf_edit::{LeafEdit, NewAttribute, is_local},
    },
    name_tree::{fault::NameTreeFault, node_edit::wants_join},
    units::FileBlock,
};

use super::{
    SetMode, Target,
    hint::AttributeHint,
    leaves::{AttributeLeaves, index_of},
};
use crate::name_tree::{
    BlockBuffer, ForkStore, NameTree, TreeLeaf,
    path::{Direction, TreePath},
};
use uxfs_volume::error::{OperationError, Result};

/// The first block of every attribute fork: the only leaf, or the root of the tree.
pub(super) const ROOT: FileBlock = FileBlock::new(0);
/// A leaf is split at most so often for one attribute: in the worst case it gets a leaf of its own between two others.
const MAX_SPLITS: u32 = 3;

/// A fork that also has room for values too large for leaves.
pub(super) trait ValueStore<'fs>: ForkStore<'fs> {
    /// Writes a value into blocks of its own and gives the first.
    fn write_value(&mut self, value: &[u8]) -> Result<FileBlock>;

    /// Reads a value from its blocks.
    fn read_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<Vec<u8>>;

    /// Gives the blocks of a value back.
    fn free_value(&mut self, first_block: FileBlock, length_bytes: u32) -> Result<()>;

    /// The way to the leaf that was used last. Creating and freeing blocks forgets it.
    fn hint(&mut self) -> &mut AttributeHint;
}

/// The attributes of a fork, in leaves.
#[derive(Debug)]
pub(super) struct AttributeTree<'a, S> {
    pub store: &'a mut S,
    leaves: AttributeLeaves,
}

/// An attribute that was found.
#[derive(Debug, Clone, Copy)]
struct Hit {
    index: u32,
    /// Blocks and bytes of its value, where it has its own.
    remote: Option<(FileBlock, u32)>,
}

/// The result of a search for an attribute.
struct LookUp<B> {
    /// To its leaf, or to the first one where it could be.
    path: TreePath,
    /// That leaf, where it is at hand: always that of an attribute that was found.
    leaf: Option<B>,
    hit: Option<Hit>,
}

/// The attributes of one hash that a search looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EqualHashes {
    All,
    /// Those in the leaf where a new one belongs.
    FirstLeaf,
}

impl<'a, 'fs, S: ValueStore<'fs>> AttributeTree<'a, S> {
    pub(super) fn new(store: &'a mut S) -> Self {
        let leaves = AttributeLeaves::new(store.geometry().block_size_bytes);
        Self { store, leaves }
    }

    fn tree(&mut self) -> NameTree<'_, S, AttributeLeaves> {
        NameTree::new(self.store, &self.leaves)
    }

    fn edit(&mut self, block: FileBlock) -> Result<S::Buffer> {
        let structure = self.store.index_structure();
        self.store.edit(structure, block)
    }

    /// Makes the first leaf, without attributes.
    pub(super) fn make_root(&mut self) -> Result<()> {
        let structure = self.store.index_structure();
        let mut root = self.store.create(structure, ROOT)?;
        let identity = self.store.identity(root.sector());
        LeafEdit::init(root.edit(), &identity);
        Ok(())
    }

    /// Makes the first block a leaf without attributes, whatever it was.
    pub(super) fn clear_root(&mut self) -> Result<()> {
        self.store.hint().forget();
        let mut root = self.edit(ROOT)?;
        let identity = self.store.identity(root.sector());
        let length_bytes = root.len();
        root.edit().clear(0, length_bytes);
        LeafEdit::init(root.edit(), &identity);
        Ok(())
    }

    /// Moves to the next leaf; `false` behind the last.
    fn advance(&mut self, path: &mut TreePath, left: &mut Option<u64>) -> Result<bool> {
        self.go_beside(path, Direction::Next, left)
    }

    /// Moves to the leaf beside; `false` where there is none. Damaged nodes can lead to one leaf many times, so a walk takes at
    /// most as many steps as the fork has blocks. `left` counts them down; `None` before the first.
    fn go_beside(
        &mut self,
        path: &mut TreePath,
        direction: Direction,
        left: &mut Option<u64>,
    ) -> Result<bool> {
        let blocks = |store: &S| store.extents().blocks();
        let Some(now_left) = left.unwrap_or_else(|| blocks(self.store)).checked_sub(1) else {
            let fault = NameTreeFault::TooManyBlocks { most: blocks(self.store) };
            return Err(self.store.corruption(self.store.index_structure(), path.leaf, fault));
        };
        *left = Some(now_left);
        let beside = self.tree().beside(path, path.depth(), direction)?;
        let is_there = beside.is_some();
        *path = beside.unwrap_or(*path);
        Ok(is_there)
    }

    /// The way to the first leaf that can hold `hash`, or else to the last leaf, and that leaf.
    fn find_leaf(&mut self, hash: u32) -> Result<(TreePath, S::Buffer)> {
        if let Some(path) = self.store.hint().way_for(hash) {
            let leaf = self.edit(path.leaf)?;
            if AttributeHint::leads_to(&leaf, hash) {
                return Ok((path, leaf));
            }
        }
        let (path, leaf) = self.tree().find_leaf(hash)?;
        self.store.hint().note(&path, &leaf);
        Ok((path, leaf))
    }

    /// Finds an attribute, or where it belongs.
    fn look_up(&mut self, target: &Target<'_>) -> Result<LookUp<S::Buffer>> {
        self.look_up_in(target, EqualHashes::All)
    }

    /// Finds an attribute among those of its hash that `equals` names, or where it belongs: before all of them.
    fn look_up_in(&mut self, target: &Target<'_>, equals: EqualHashes) -> Result<LookUp<S::Buffer>> {
        let (first, mut buffer) = self.find_leaf(target.hash)?;
        let (mut path, mut left) = (first, None);
        loop {
            let (found, last_hash) = match LeafBlock::of_block(&buffer) {
                Some(leaf) => (find_in(&leaf, target), leaf.last_hash()),
                None => (None, None),
            };
            if let Some((index, remote)) = found {
                return Ok(LookUp { path, leaf: Some(buffer), hit: Some(Hit { index, remote }) });
            }
            if last_hash != Some(target.hash) || equals == EqualHashes::FirstLeaf {
                let leaf = (path == first).then_some(buffer);
                return Ok(LookUp { path: first, leaf, hit: None });
            }
            drop(buffer);
            if target.namespace == Namespace::Parent && target.hash < u32::MAX {
                return self.look_up_from_both_ends(target, first);
            }
            if !self.advance(&mut path, &mut left)? {
                return Ok(LookUp { path: first, leaf: None, hit: None });
            }
            buffer = self.edit(path.leaf)?;
        }
    }

    /// Finds a parent pointer behind the first leaf of its hash. Many can have one hash; those that uxfs adds lie before the
    /// older ones. Links are mostly removed in the order in which they were made, or in the opposite one: a search from both
    /// ends finds the next one soon.
    fn look_up_from_both_ends(&mut self, target: &Target<'_>, first: TreePath) -> Result<LookUp<S::Buffer>> {
        let (mut front, mut left) = (first, None);
        let mut back = self.tree().find(target.hash.saturating_add(1))?;
        while back.leaf != front.leaf {
            if let Some(found) = self.look_into(target, back)? {
                return Ok(found);
            }
            if !self.advance(&mut front, &mut left)? || front.leaf == back.leaf {
                break;
            }
            if let Some(found) = self.look_into(target, front)? {
                return Ok(found);
            }
            if !self.go_beside(&mut back, Direction::Previous, &mut left)? {
                break;
            }
        }
        Ok(LookUp { path: first, leaf: None, hit: None })
    }

    fn look_into(&mut self, target: &Target<'_>, path: TreePath) -> Result<Option<LookUp<S::Buffer>>> {
        let buffer = self.edit(path.leaf)?;
        let found = LeafBlock::of_block(&buffer).and_then(|leaf| find_in(&leaf, target));
        Ok(found.map(|(index, remote)| LookUp { path, leaf: Some(buffer), hit: Some(Hit { index, remote }) }))
    }

    /// The value of an attribute.
    pub(super) fn get(&mut self, target: &Target<'_>) -> Result<Option<Vec<u8>>> {
        let LookUp { leaf: Some(buffer), hit: Some(hit), .. } = self.look_up(target)? else {
            return Ok(None);
        };
        if let Some((first_block, length_bytes)) = hit.remote {
            drop(buffer);
            return self.store.read_value(first_block, length_bytes).map(Some);
        }
        let attribute = LeafBlock::of_block(&buffer).and_then(|leaf| leaf.attribute(hit.index));
        Ok(attribute.and_then(|attribute| match attribute.value {
            LeafValue::Local(value) => Some(value.to_vec()),
            LeafValue::Remote { .. } => None,
        }))
    }

    /// Sets an attribute. Gives whether there was one before.
    pub(super) fn set(&mut self, target: &Target<'_>, value: &[u8], mode: SetMode) -> Result<bool> {
        // The directory has refused a name that it has, so its parent pointer is new. A comparison with all of one hash would
        // take time with the square of their number.
        let is_known_to_be_new = target.namespace == Namespace::Parent && matches!(mode, SetMode::Create);
        let equals = if is_known_to_be_new { EqualHashes::FirstLeaf } else { EqualHashes::All };
        let LookUp { path, mut leaf, hit } = self.look_up_in(target, equals)?;
        mode.check(hit.is_some())?;
        if let Some(value) = hit.and_then(|hit| hit.remote) {
            leaf = None;
            self.verify_value(value)?;
        }
        let block_size_bytes = self.store.geometry().block_size_bytes;
        // Names are shorter than 256 bytes, values not longer than 64 KiB.
        let (name_length, length_bytes) = (target.name.len() as u32, value.len() as u32);
        // On the disk before anything leads to it.
        let value = if is_local(block_size_bytes, name_length, length_bytes) {
            LeafValue::Local(value)
        } else {
            // The allocation of blocks may need this buffer: it is not held meanwhile.
            leaf = None;
            LeafValue::Remote { first_block: self.store.write_value(value)?, length_bytes }
        };
        let Target { namespace, name, hash, .. } = *target;
        let new = NewAttribute { hash, flags: namespace.flags(), name, value };
        match hit {
            Some(hit) => self.replace(path, leaf, &hit, &new)?,
            None => {
                self.insert(path, leaf, &new)?;
            }
        }
        Ok(hit.is_some())
    }

    /// Whether [`set`](Self::set) would split no leaf for an attribute that is not there and whose value lies in one.
    pub(super) fn has_room(&mut self, target: &Target<'_>, value: &[u8]) -> Result<bool> {
        let LookUp { path, leaf, .. } = self.look_up_in(target, EqualHashes::FirstLeaf)?;
        let buffer = self.leaf_at(&path, leaf)?;
        let Target { namespace, name, hash, .. } = *target;
        let new = NewAttribute { hash, flags: namespace.flags(), name, value: LeafValue::Local(value) };
        let block_size_bytes = self.store.geometry().block_size_bytes;
        let fill = LeafBlock::of_block(&buffer).map(|leaf| LeafEdit::fill_bytes(&leaf, block_size_bytes));
        Ok(fill.is_some_and(|(used, most)| used.saturating_add(new.whole_bytes()) <= most))
    }

    fn replace(
        &mut self,
        path: TreePath,
        buffer: Option<S::Buffer>,
        hit: &Hit,
        new: &NewAttribute<'_>,
    ) -> Result<()> {
        let mut buffer = self.leaf_at(&path, buffer)?;
        let mut leaf = LeafEdit::new(buffer.edit());
        let is_done = leaf.replace_in_place(hit.index, new);
        if !is_done {
            leaf.remove(hit.index);
            // A leaf that was not split may have become nearly empty.
            if let Some(path) = self.insert(path, Some(buffer), new)? {
                self.tree().settle(&path)?;
            }
        }
        self.free(hit.remote)
    }

    /// The leaf at the end of the way, if it is not at hand.
    fn leaf_at(&mut self, path: &TreePath, buffer: Option<S::Buffer>) -> Result<S::Buffer> {
        buffer.map_or_else(|| self.edit(path.leaf), Ok)
    }

    /// Puts a new attribute into the leaf at the end of the way, or where splitting that leads. Gives the way if
    /// nothing was split.
    fn insert(
        &mut self,
        path: TreePath,
        buffer: Option<S::Buffer>,
        new: &NewAttribute<'_>,
    ) -> Result<Option<TreePath>> {
        let whole_bytes = new.whole_bytes();
        let (mut path, mut buffer) = (path, buffer);
        for splits in 0..=MAX_SPLITS {
            let mut at_hand = self.leaf_at(&path, buffer.take())?;
            let mut leaf = LeafEdit::new(at_hand.edit());
            if leaf.has_room(whole_bytes) {
                let (index, count) =
                    leaf.view().map_or((0, 0), |leaf| (index_of(&leaf, new.hash), leaf.entries.len() as u32));
                leaf.insert(index, new);
                drop(at_hand);
                if index == count {
                    self.tree().update_hash(&path, new.hash)?;
                }
                return Ok((splits == 0).then_some(path));
            }
            drop(at_hand);
            self.leaves.pending_bytes.set(whole_bytes);
            self.tree().split_leaf(&mut path, new.hash)?;
        }
        // Nothing that may lie in a leaf is larger than an empty one.
        Err(OperationError::NoSpace.into())
    }

    /// Puts an attribute in that is known not to be there.
    pub(super) fn add(&mut self, new: &NewAttribute<'_>) -> Result<()> {
        let (path, leaf) = self.tree().find_leaf(new.hash)?;
        self.insert(path, Some(leaf), new)?;
        Ok(())
    }

    /// Removes an attribute. Gives whether there was one.
    pub(super) fn remove(&mut self, target: &Target<'_>) -> Result<bool> {
        let LookUp { path, leaf: Some(mut buffer), hit: Some(hit) } = self.look_up(target)? else {
            return Ok(false);
        };
        if let Some(value) = hit.remote {
            drop(buffer);
            self.verify_value(value)?;
            buffer = self.edit(path.leaf)?;
        }
        let mut leaf = LeafEdit::new(buffer.edit());
        leaf.remove(hit.index);
        let was_last = hit.index == leaf.count();
        let (used, most) = self.leaves.fill(&buffer);
        drop(buffer);
        // Mostly neither the nodes above nor the neighbours care.
        if was_last || wants_join(used, most) {
            self.tree().settle(&path)?;
        }
        self.free(hit.remote)?;
        Ok(true)
    }

    /// Calls `visit` with the fork and the values that have blocks of their own, leaf by leaf.
    pub(super) fn each_value(
        &mut self,
        mut visit: impl FnMut(&mut S, FileBlock, u32) -> Result<()>,
    ) -> Result<()> {
        let (mut path, mut left) = (self.tree().find(0)?, None);
        loop {
            let buffer = self.edit(path.leaf)?;
            let mut values = Vec::new();
            if let Some(leaf) = LeafBlock::of_block(&buffer) {
                for attribute in leaf.attributes().map_while(std::result::Result::ok) {
                    if let LeafValue::Remote { first_block, length_bytes } = attribute.value {
                        values.push((first_block, length_bytes));
                    }
                }
            }
            drop(buffer);
            for (first_block, length_bytes) in values {
                visit(self.store, first_block, length_bytes)?;
            }
            if !self.advance(&mut path, &mut left)? {
                return Ok(());
            }
        }
    }

    /// Verifies that the blocks that a removal is going to free hold this value: an entry that lies would free a leaf, or the
    /// value of another attribute. The caller holds no buffer: the entry may name any block of the fork.
    fn verify_value(&mut self, (first_block, length_bytes): (FileBlock, u32)) -> Result<()> {
        self.store.read_value(first_block, length_bytes).map(drop)
    }

    fn free(&mut self, remote: Option<(FileBlock, u32)>) -> Result<()> {
        match remote {
            Some((first_block, length_bytes)) => self.store.free_value(first_block, length_bytes),
            None => Ok(()),
        }
    }
}

/// Looks at all attributes of a leaf with the right hash.
fn find_in(leaf: &LeafBlock<'_>, target: &Target<'_>) -> Option<(u32, Option<(FileBlock, u32)>)> {
    let first = index_of(leaf, target.hash);
    let entries = leaf.entries.get(first as usize..)?;
    let equal = entries.iter().take_while(|entry| entry.hash.get() == target.hash);
    for (index, _) in (first..).zip(equal) {
        let attribute = leaf.attribute(index)?;
        let is_it = attribute.is_complete() != target.is_half_made
            && attribute.flags.namespace() == Some(target.namespace)
            && attribute.name == target.name;
        match attribute.value {
            LeafValue::Local(value) if is_it && target.value.is_none_or(|wanted| wanted == value) => {
                return Some((index, None));
            }
            LeafValue::Remote { first_block, length_bytes }
                if is_it && target.namespace != Namespace::Parent =>
            {
                return Some((index, (!target.is_half_made).then_some((first_block, length_bytes))));
            }
            _ => {}
        }
    }
    None
}

//! The way to the leaf that was looked at last.
//!
//! Names that are made one after the other often have hashes near each other. A hash between those of the leaf that was
//! used last is found without the nodes above it.
//!
//! Invariant: as long as a way is remembered, no block of the tree has come, gone or moved since it was found: adding or
//! freeing a block of the tree forgets it. Hashes may have changed, so the leaf is compared before the way is used.

use uxfs_format::{
    attribute::leaf::{self, LeafBlock},
    name_tree::header::magic_of,
};

use crate::name_tree::path::TreePath;

/// A way through a tree of attributes, kept with the inode.
#[derive(Debug, Clone, Default)]
pub struct AttributeHint {
    /// Made once, and only for inodes with so many attributes that there are nodes.
    way: Option<Box<Way>>,
}

#[derive(Debug, Clone)]
struct Way {
    path: TreePath,
    /// The smallest and the largest hash of the leaf when it was seen; the wrong way round where nothing is remembered.
    bounds: [u32; 2],
}

/// Whether a leaf with these hashes, smallest and largest, is the only one that may hold `hash`: what equals the smallest may
/// lie in the one before.
fn may_hold([first, last]: [u32; 2], hash: u32) -> bool {
    first < hash && hash <= last
}

fn bounds_of(leaf: &[u8]) -> Option<[u32; 2]> {
    if magic_of(leaf) != Some(leaf::MAGIC) {
        return None;
    }
    let leaf = LeafBlock::of_block(leaf)?;
    Some([leaf.entries.first()?.hash.get(), leaf.last_hash()?])
}

impl AttributeHint {
    /// The way to the leaf where `hash` may belong.
    pub(super) fn way_for(&self, hash: u32) -> Option<TreePath> {
        let way = self.way.as_ref()?;
        may_hold(way.bounds, hash).then_some(way.path)
    }

    /// Whether the leaf at the end of that way is the one where `hash` belongs.
    pub(super) fn leads_to(leaf: &[u8], hash: u32) -> bool {
        bounds_of(leaf).is_some_and(|bounds| may_hold(bounds, hash))
    }

    /// Remembers the way to a leaf.
    pub(super) fn note(&mut self, path: &TreePath, leaf: &[u8]) {
        let Some(bounds) = bounds_of(leaf).filter(|_| path.depth() > 0) else { return self.forget() };
        match &mut self.way {
            Some(way) => **way = Way { path: *path, bounds },
            None => self.way = Some(Box::new(Way { path: *path, bounds })),
        }
    }

    /// The tree has changed.
    pub fn forget(&mut self) {
        if let Some(way) = &mut self.way {
            way.bounds = [u32::MAX, 0];
        }
    }
}

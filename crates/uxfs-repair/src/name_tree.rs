//! The btree of name hashes of a directory or of attributes: all of its leaves, and whether nodes and neighbours agree with them.

use std::collections::HashSet;

use uxfs_format::{
    attribute, directory,
    fault::Fault,
    field_table::OnDisk,
    name_tree::{
        TreeKind,
        fault::NameTreeFault,
        header::{BlockHeader, magic_of},
        node::{self, NodeBlock},
    },
    units::{FileBlock, InodeNumber},
};
use uxfs_volume::{error::Error, name_tree::ForkBlocks, volume::MetadataBuffer};

use crate::{check::Context, finding::Finding};

/// Visits all leaves in the order of their hashes. Gives whether none was left out.
pub(crate) fn walk(
    context: &Context<'_>,
    blocks: &ForkBlocks<'_>,
    inode: InodeNumber,
    on_leaf: &mut dyn FnMut(FileBlock, &MetadataBuffer),
) -> bool {
    let mut walk = NameTreeWalk {
        context,
        blocks,
        inode,
        on_leaf,
        seen: HashSet::new(),
        before: Vec::new(),
        is_complete: true,
    };
    walk.visit(blocks.kind.root(blocks.geometry()), None);
    walk.check_ends();
    walk.is_complete
}

/// The last block of a level so far, and the one that it names behind itself.
#[derive(Debug, Clone, Copy)]
struct Before {
    block: FileBlock,
    next: Option<FileBlock>,
}

struct NameTreeWalk<'w, 'c, 'fs> {
    context: &'w Context<'c>,
    blocks: &'w ForkBlocks<'fs>,
    inode: InodeNumber,
    on_leaf: &'w mut dyn FnMut(FileBlock, &MetadataBuffer),
    /// Blocks of the tree: pointers of a damaged one may lead to a block many times.
    seen: HashSet<u64>,
    /// By level.
    before: Vec<Option<Before>>,
    is_complete: bool,
}

impl NameTreeWalk<'_, '_, '_> {
    /// Visits a block and all below it; `child` is the level that it must have and the hash that its parent says. Recursion ends
    /// since levels fall, and the verifier of nodes allows 5.
    fn visit(&mut self, block: FileBlock, child: Option<(u16, u32)>) {
        if self.context.sink.is_stopped() {
            return;
        }
        if !self.seen.insert(block.get()) {
            let most = self.seen.len() as u64;
            return self.damaged(self.corruption(block, NameTreeFault::TooManyBlocks { most }));
        }
        let buffer = match self.blocks.read_tree_block(block) {
            Ok(buffer) => buffer,
            Err(error) => return self.damaged(error),
        };
        let Some((level, last_hash)) = self.level_and_hash(&buffer) else {
            let magic = magic_of(&buffer).unwrap_or(0);
            return self.damaged(self.corruption(block, NameTreeFault::Root { magic }));
        };
        if let Some((expected, hash)) = child {
            if level != expected {
                return self
                    .damaged(self.corruption(block, NameTreeFault::ChildLevel { found: level, expected }));
            }
            if last_hash.is_some_and(|last| last != hash) {
                let (inode, structure) = (self.inode, self.blocks.index_structure());
                let expected = last_hash.unwrap_or_default();
                self.context.sink.add(Finding::NodeHash { inode, structure, block, found: hash, expected });
            }
        }
        self.check_neighbours(level, block, &buffer);
        if level == 0 {
            return (self.on_leaf)(block, &buffer);
        }
        let Ok(node) = NodeBlock::parse(&buffer) else { return };
        for entry in node.entries {
            let child = FileBlock::new(entry.child.get().into());
            self.visit(child, Some((level.saturating_sub(1), entry.hash.get())));
        }
    }

    /// The level of a block and its last hash; `None` for a block that has no place in a tree.
    fn level_and_hash(&self, buffer: &MetadataBuffer) -> Option<(u16, Option<u32>)> {
        let geometry = self.blocks.geometry();
        match (self.blocks.kind, magic_of(buffer)?) {
            (_, node::MAGIC) => {
                let node = NodeBlock::parse(buffer).ok()?;
                Some((node.header.level.get(), node.entries.last().map(|entry| entry.hash.get())))
            }
            (TreeKind::Directory, directory::leaf::NODE_MAGIC) => {
                let leaf = directory::leaf::LeafBlock::parse(buffer, geometry).ok()?;
                Some((0, leaf.last_hash()))
            }
            (TreeKind::Attribute, attribute::leaf::MAGIC) => {
                let leaf = attribute::leaf::LeafBlock::parse(buffer, geometry).ok()?;
                Some((0, leaf.last_hash()))
            }
            _ => None,
        }
    }

    fn check_neighbours(&mut self, level: u16, block: FileBlock, buffer: &MetadataBuffer) {
        let Some(header) = BlockHeader::prefix_of(buffer) else { return };
        let level = usize::from(level);
        if self.before.len() <= level {
            self.before.resize(level.saturating_add(1), None);
        }
        let now = Before { block, next: header.next() };
        let Some(place) = self.before.get_mut(level) else { return };
        let before = place.replace(now);
        // After damage it is not known what lies between the two.
        if !self.is_complete {
            return;
        }
        let expected = before.map_or(FileBlock::new(0), |before| before.block);
        if header.previous().unwrap_or_default() != expected {
            let fault = NameTreeFault::NeighbourBack { found: header.backward.get(), expected };
            self.report(self.corruption(block, fault));
        }
        if let Some(before) = before
            && before.next != Some(block)
        {
            let fault = NameTreeFault::Neighbour { found: block, expected: before.next.unwrap_or_default() };
            self.report(self.corruption(before.block, fault));
        }
    }

    /// The last block of each level has no neighbour behind it.
    fn check_ends(&mut self) {
        for before in std::mem::take(&mut self.before).into_iter().flatten() {
            if let (Some(next), true) = (before.next, self.is_complete) {
                let fault = NameTreeFault::Neighbour { found: FileBlock::new(0), expected: next };
                self.report(self.corruption(before.block, fault));
            }
        }
    }

    fn corruption(&self, block: FileBlock, fault: impl Into<Fault>) -> Error {
        self.blocks.corruption(self.blocks.index_structure(), block, None, fault)
    }

    fn damaged(&mut self, error: Error) {
        self.is_complete = false;
        self.report(error);
    }

    fn report(&self, error: Error) {
        self.context.sink.add_error(error);
    }
}

//! Which leaves a walk over a whole tree comes to next, so that they are read in batches.
//!
//! The nodes above the leaves say it. This is only a hint: the walk itself follows the leaves from neighbour to neighbour and
//! checks them, whatever a damaged node says.

use uxfs_format::{
    field_table::OnDisk,
    name_tree::{header::BlockHeader, node::NodeBlock},
    units::FileBlock,
};

use super::ForkBlocks;

/// Leaves that are asked for at once.
const WINDOW: usize = 32;

/// The leaves below one node, and the way to the next node.
#[derive(Debug, Default)]
pub(super) struct LeavesAhead {
    leaves: Vec<FileBlock>,
    /// Leaves of the node that the walk has passed.
    passed: usize,
    /// Leaves of the node that have been asked for.
    asked: usize,
    /// The neighbour of the node.
    next_node: Option<FileBlock>,
    /// Nodes that may still be read.
    remaining_nodes: u64,
}

impl LeavesAhead {
    /// Of a walk that begins with the first leaf below `node`.
    pub fn below(blocks: &ForkBlocks<'_>, node: &NodeBlock<'_>, bytes: &[u8]) -> Self {
        let mut ahead = Self { remaining_nodes: blocks.most_blocks(), ..Self::default() };
        ahead.take(node, bytes);
        // The first leaf is read at once by the walk, the others while it works on the first.
        ahead.ask(blocks);
        ahead
    }

    fn take(&mut self, node: &NodeBlock<'_>, bytes: &[u8]) {
        self.leaves.clear();
        self.leaves.extend(node.entries.iter().map(|entry| FileBlock::new(entry.child.get().into())));
        (self.passed, self.asked) = (0, 0);
        self.next_node = BlockHeader::prefix_of(bytes).and_then(BlockHeader::next);
    }

    /// The walk goes on to the next leaf.
    pub fn step(&mut self, blocks: &ForkBlocks<'_>) {
        if self.leaves.is_empty() {
            return;
        }
        self.passed += 1;
        if self.passed >= self.leaves.len() {
            self.next_node(blocks);
        }
        if self.passed + WINDOW / 2 >= self.asked {
            self.ask(blocks);
        }
    }

    fn next_node(&mut self, blocks: &ForkBlocks<'_>) {
        self.leaves.clear();
        self.remaining_nodes = self.remaining_nodes.saturating_sub(1);
        let next = self.next_node.filter(|_| self.remaining_nodes > 0);
        let Some(buffer) = next.and_then(|next| blocks.read_tree_block(next).ok()) else { return };
        if let Ok(node) = NodeBlock::parse(&buffer)
            && node.header.level.get() == 1
        {
            self.take(&node, &buffer);
        }
    }

    fn ask(&mut self, blocks: &ForkBlocks<'_>) {
        let end = self.leaves.len().min(self.passed + WINDOW);
        let wanted = self.leaves.get(self.asked..end).unwrap_or_default();
        blocks.prefetch(wanted);
        self.asked = self.asked.max(end);
    }
}

//! The longest free region of each data block, as the one leaf or the free index says, beside the block itself.

use uxfs_format::{
    directory::{
        NO_DATA_BLOCK,
        data::DataBlock,
        data_block_start,
        free_index::FreeIndexBlock,
        leaf::{LeafBlock, SINGLE_MAGIC},
    },
    fault::Structure,
    name_tree::{TreeKind, header::magic_of},
    units::FileBlock,
};
use uxfs_volume::{inode::Inode, name_tree::ForkBlocks};
use zerocopy::big_endian::U16;

use crate::{check::Context, finding::Finding};

/// Compares the free index of a directory that does not lie in its inode.
pub(super) fn check(context: &Context<'_>, directory: &Inode) {
    let Ok(blocks) = ForkBlocks::new(context.volume, directory, TreeKind::Directory) else { return };
    let leaf_start = blocks.geometry().directory_leaf_start();
    if blocks.map.next_at_or_after(leaf_start).is_none() {
        return;
    }
    // An error was reported when the index was read.
    let Ok(root) = blocks.read_tree_block(leaf_start) else { return };
    let mut bests = Bests { context, directory, blocks: &blocks, next: 0 };
    if magic_of(&root) != Some(SINGLE_MAGIC) {
        bests.free_index();
        return;
    }
    let leaf = LeafBlock::parse(&root, blocks.geometry());
    if let Ok(leaf) = leaf.and_then(|leaf| leaf.bests()) {
        bests.add(0, leaf);
        bests.end();
    }
}

struct Bests<'w, 'c, 'fs> {
    context: &'w Context<'c>,
    directory: &'w Inode,
    blocks: &'w ForkBlocks<'fs>,
    /// The first data block about which nothing was said yet.
    next: u32,
}

impl Bests<'_, '_, '_> {
    fn free_index(&mut self) {
        let (blocks, geometry) = (self.blocks, self.blocks.geometry());
        let per_block = u64::from(geometry.blocks_per_directory_block());
        let mut place = geometry.directory_free_start();
        while let Some(extent) = blocks.map.next_at_or_after(place) {
            let first = extent.file_block.max(place).get();
            let block = FileBlock::new(first / per_block * per_block);
            let Some(next) = block.checked_add(per_block) else { break };
            place = next;
            let buffer = match blocks.read_directory_block(Structure::DirectoryFreeIndex, block) {
                Ok(buffer) => buffer,
                Err(error) => return self.context.sink.add_error(error),
            };
            let Ok(index) = FreeIndexBlock::parse(&buffer, geometry) else { return };
            self.add(index.header.first_data_block.get(), index.bests);
            if self.context.sink.is_stopped() {
                return;
            }
        }
        self.end();
    }

    /// Adds a block of the index, which describes the data blocks from `first` on.
    fn add(&mut self, first: u32, bests: &[U16]) {
        self.missing_until(first);
        for (data_block, best) in (first..).zip(bests) {
            let found = Some(best.get()).filter(|best| *best != NO_DATA_BLOCK);
            self.compare(data_block, found);
            self.next = self.next.max(data_block.saturating_add(1));
        }
    }

    fn end(&mut self) {
        self.missing_until(u32::MAX);
    }

    /// Data blocks that exist, from the next one until `end`: the index does not have them.
    fn missing_until(&mut self, end: u32) {
        let geometry = self.blocks.geometry();
        let per_block = u64::from(geometry.blocks_per_directory_block());
        while self.next < end {
            let place = data_block_start(geometry, self.next);
            let extent = self.blocks.map.next_at_or_after(place);
            let Some(extent) = extent.filter(|extent| extent.file_block < geometry.directory_leaf_start())
            else {
                return;
            };
            let Ok(data_block) = u32::try_from(extent.file_block.max(place).get() / per_block) else {
                return;
            };
            if data_block >= end {
                return;
            }
            self.compare(data_block, None);
            self.next = data_block.saturating_add(1);
            if self.context.sink.is_stopped() {
                return;
            }
        }
    }

    fn compare(&self, data_block: u32, found: Option<u16>) {
        let geometry = self.blocks.geometry();
        let place = data_block_start(geometry, data_block);
        let expected = match self.blocks.map.lookup(place) {
            None => None,
            Some(_) => {
                // An error was reported when the entries were read.
                let buffer = self.blocks.read_directory_block(Structure::DirectoryData, place);
                let Ok(buffer) = buffer else { return };
                let Ok(block) = DataBlock::parse(&buffer, geometry) else { return };
                block.header.best_free.first().map(|best| best.length_bytes.get())
            }
        };
        if found != expected {
            let directory = self.directory.number;
            self.context.sink.add(Finding::FreeIndex { directory, data_block, found, expected });
        }
    }
}

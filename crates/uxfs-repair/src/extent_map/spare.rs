//! Free blocks for extent map btrees whose own blocks are not known any more.

use std::{cell::RefCell, collections::VecDeque};

use uxfs_format::units::{AgBlock, AgNumber, FsBlock};
use uxfs_volume::volume::Volume;

/// Free blocks of one group that are kept in memory.
const MOST_BLOCKS: usize = 4096;

/// Returns each free block once, from the free space btrees. The groups are rebuilt afterwards.
pub(crate) struct SpareBlocks<'v> {
    volume: &'v Volume,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    next_group: u32,
    blocks: VecDeque<FsBlock>,
}

impl<'v> SpareBlocks<'v> {
    /// Of a file system.
    pub fn new(volume: &'v Volume) -> Self {
        Self { volume, state: RefCell::default() }
    }

    /// The file system.
    pub fn volume(&self) -> &'v Volume {
        self.volume
    }

    /// The next one.
    pub fn take(&self) -> Option<FsBlock> {
        let mut state = self.state.borrow_mut();
        while state.blocks.is_empty() {
            let group = AgNumber::new(state.next_group);
            if group.get() >= self.volume.geometry().ag_count {
                return None;
            }
            state.next_group += 1;
            state.blocks = self.of_group(group);
        }
        state.blocks.pop_front()
    }

    /// None where the btree cannot be read to its end: a part of it proves less.
    fn of_group(&self, group: AgNumber) -> VecDeque<FsBlock> {
        let geometry = self.volume.geometry();
        let Ok(extents) = self.volume.group(group).free_extents() else { return VecDeque::new() };
        let mut blocks = VecDeque::new();
        for extent in extents {
            let Ok(extent) = extent else { return VecDeque::new() };
            let room = MOST_BLOCKS.saturating_sub(blocks.len());
            let starts = (extent.start.get()..extent.end().get()).take(room);
            blocks.extend(starts.filter_map(|block| geometry.fs_block(group, AgBlock::new(block))));
        }
        blocks
    }
}

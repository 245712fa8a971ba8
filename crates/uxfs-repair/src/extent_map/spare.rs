//! Free blocks for extent map btrees whose own blocks are not known any more.

use std::{cell::RefCell, collections::VecDeque};

use uxfs_format::{
    seal::own_sector,
    units::{AgBlock, AgNumber, FsBlock},
};
use uxfs_volume::volume::Volume;

use crate::{
    repair::{identity::is_sound_at, stage::Stage},
    reverse_map::read::visit_group,
};

/// Free blocks of one group that are kept in memory.
const MOST_BLOCKS: usize = 4096;

/// Returns free blocks from the free space btrees: none that the stage has given to an extent map before, that the reverse map gives to an
/// owner, or that holds metadata. The groups are rebuilt afterwards.
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
    pub fn take(&self, stage: &Stage) -> Option<FsBlock> {
        let mut state = self.state.borrow_mut();
        loop {
            if let Some(block) = state.blocks.pop_front() {
                if !holds_metadata(stage, block) && stage.take_for_map(block) {
                    return Some(block);
                }
                continue;
            }
            let group = AgNumber::new(state.next_group);
            if group.get() >= self.volume.geometry().ag_count {
                return None;
            }
            state.next_group += 1;
            state.blocks = self.of_group(group);
        }
    }

    /// None where the btree cannot be read to its end: a part of it proves less. What the reverse map gives to an owner may be in use.
    fn of_group(&self, group: AgNumber) -> VecDeque<FsBlock> {
        let geometry = self.volume.geometry();
        let Ok(extents) = self.volume.group(group).free_extents() else { return VecDeque::new() };
        let mut blocks: VecDeque<u32> = VecDeque::new();
        for extent in extents {
            let Ok(extent) = extent else { return VecDeque::new() };
            let room = MOST_BLOCKS.saturating_sub(blocks.len());
            let starts = (extent.start.get()..extent.end().get()).take(room);
            blocks.extend(starts);
        }
        visit_group(self.volume, group, &mut |mapping| {
            let first = blocks.partition_point(|block| *block < mapping.start.get());
            let behind = mapping.start.get().saturating_add(mapping.length_blocks);
            let end = blocks.partition_point(|block| *block < behind);
            blocks.drain(first..end.max(first));
        });
        blocks.into_iter().filter_map(|block| geometry.fs_block(group, AgBlock::new(block))).collect()
    }
}

/// Whether a block holds a sound structure of this place: free space and reverse map that are older than the rest do not know it.
fn holds_metadata(stage: &Stage, block: FsBlock) -> bool {
    let geometry = stage.geometry();
    let Some(sector) = geometry.sector_of_block(block) else { return true };
    let mut bytes = vec![0; geometry.block_size()];
    if stage.read_at(sector, &mut bytes).is_err() {
        return true;
    }
    own_sector(&bytes, geometry) == Some(sector) && is_sound_at(&bytes, sector, geometry)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use uxfs_block::{
        device::BlockDevice,
        engine::{overlay::OverlayDevice, sync::SyncDevice},
    };
    use uxfs_testkit::golden::GoldenImage;
    use uxfs_volume::volume::VolumeOptions;

    use super::*;

    #[test]
    fn no_block_is_taken_twice_nor_from_an_owner() {
        let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
        let device: Arc<dyn BlockDevice> = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
        let volume = Volume::open(Arc::clone(&device), &VolumeOptions::default()).unwrap();
        let stage =
            Stage::new(Arc::new(OverlayDevice::new(device)), volume.geometry().clone(), Arc::default());
        let mut taken = BTreeSet::new();
        for _ in 0..3 {
            // Each pass of a repair has its own.
            let spare = SpareBlocks::new(&volume);
            taken.extend((0..20).filter_map(|_| spare.take(&stage)));
        }
        assert_eq!(taken.len(), 60);
        for block in taken {
            let (group, block) = volume.geometry().split_fs_block(block).unwrap();
            visit_group(&volume, group, &mut |mapping| {
                let end = mapping.start.get() + mapping.length_blocks;
                assert!(block < mapping.start || block.get() >= end, "{group} {block}: {mapping:?}");
            });
        }
    }
}

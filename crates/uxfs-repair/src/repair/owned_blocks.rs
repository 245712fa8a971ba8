//! Which blocks an inode has: asked for the owners that blocks name.

use std::ops::Range;

use uxfs_format::{
    inode::Fork,
    units::{InodeNumber, Sector},
};
use uxfs_volume::volume::Volume;

/// Extents that are read for all owners together. Blocks of a damaged image may name any two large files in turn.
const MOST_EXTENTS: usize = 1 << 22;

/// The blocks of the inode that was asked for last.
pub(super) struct OwnedBlocks<'v> {
    volume: &'v Volume,
    last: Option<InodeNumber>,
    /// Sectors of both forks, in order, none in two.
    runs: Vec<Range<u64>>,
    extents_left: usize,
}

impl<'v> OwnedBlocks<'v> {
    pub(super) fn new(volume: &'v Volume) -> Self {
        Self { volume, last: None, runs: Vec::new(), extents_left: MOST_EXTENTS }
    }

    /// Whether an inode in use has the block at this sector; also where too many extents were read to tell.
    pub(super) fn has(&mut self, inode: InodeNumber, sector: Sector) -> bool {
        if self.last != Some(inode) {
            self.read(inode);
            self.last = Some(inode);
        }
        let next = self.runs.partition_point(|run| run.end <= sector.get());
        self.extents_left == 0 || self.runs.get(next).is_some_and(|run| run.start <= sector.get())
    }

    fn read(&mut self, inode: InodeNumber) {
        let geometry = self.volume.geometry();
        self.runs.clear();
        self.extents_left = self.extents_left.saturating_sub(1);
        let Ok(inode) = self.volume.inode(inode) else { return };
        let maps = [Fork::Data, Fork::Attribute].map(|fork| self.volume.extent_map(&inode, fork));
        let sectors_per_block = u64::from(geometry.sectors_per_block());
        let extents = maps.iter().flatten().flat_map(|map| map.iter());
        let runs = extents.filter_map(|extent| {
            let start = geometry.sector_of_block(extent.start)?.get();
            Some(start..start.saturating_add(extent.length_blocks.saturating_mul(sectors_per_block)))
        });
        self.runs.extend(runs.take(self.extents_left));
        self.extents_left = self.extents_left.saturating_sub(self.runs.len());
        self.runs.sort_unstable_by_key(|run| run.start);
        self.runs.dedup_by(|next, last| {
            let is_one = next.start <= last.end;
            if is_one {
                last.end = last.end.max(next.end);
            }
            is_one
        });
    }
}

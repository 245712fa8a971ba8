//! How many owners blocks have in the reverse map, beside how many they should have: none if they are free, else as many as their
//! reference count says.
//!
//! Where both agree, a third structure says what the reverse map says. Where they differ by the one owner about whom extent map and
//! reverse map disagree, it says what the extent map says.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber, FsBlock},
};
use uxfs_volume::volume::Volume;

use super::{Question, Side, blocks_without, merge, only_one};
use crate::reverse_map::read::visit_group;

/// Places at which a number changes that are remembered: some 64 MiB.
const MOST_PLACES: usize = 1 << 20;

/// The counts of the blocks about which questions are.
#[derive(Debug, Default)]
pub(super) struct BlockCounts {
    /// From a block on, to the next one here.
    counts: BTreeMap<u64, Count>,
    unknown_groups: BTreeSet<AgNumber>,
}

/// Of one block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    /// Owners in the reverse map, less those that there should be.
    surplus: i64,
    /// Questions that are about it.
    questions: i64,
}

impl BlockCounts {
    /// Of the blocks that one side of these questions has alone.
    pub fn of(volume: &Volume, questions: &[Question]) -> Self {
        let geometry = volume.geometry();
        let mut counts = Self::default();
        let mut asked: BTreeMap<AgNumber, Vec<Range<u64>>> = BTreeMap::new();
        for question in questions {
            let runs = blocks_without(&question.mapped, &question.told).into_iter();
            for run in runs.chain(blocks_without(&question.told, &question.mapped)) {
                if let Some((group, _)) = geometry.split_fs_block(FsBlock::new(run.start)) {
                    counts.add(&run, Count { surplus: 0, questions: 1 });
                    asked.entry(group).or_default().push(run);
                }
            }
        }
        for (group, mut runs) in asked {
            merge(&mut runs);
            // A block that is not free has one owner, if nothing says that it has more.
            runs.iter().for_each(|run| counts.add(run, Count { surplus: -1, questions: 0 }));
            if counts.add_group(volume, group, &runs).is_none() || counts.counts.len() > MOST_PLACES {
                counts.unknown_groups.insert(group);
            }
        }
        counts.sum();
        counts
    }

    /// Adds what a group says of these runs. `None` where it cannot be read.
    fn add_group(&mut self, volume: &Volume, group: AgNumber, runs: &[Range<u64>]) -> Option<()> {
        let geometry = volume.geometry();
        let is_whole = visit_group(volume, group, &mut |mapping| {
            self.add_within(geometry, group, (mapping.start, mapping.length_blocks), runs, 1);
        });
        for extent in volume.group(group).free_extents().ok()? {
            let extent = extent.ok()?;
            self.add_within(geometry, group, (extent.start, extent.length_blocks), runs, 1);
        }
        for extent in volume.group(group).shared_extents().ok()? {
            let extent = extent.ok()?;
            if extent.is_cow_staging {
                continue;
            }
            let others = i64::from(extent.count).saturating_sub(1);
            self.add_within(geometry, group, (extent.start, extent.length_blocks), runs, -others);
        }
        is_whole.then_some(())
    }

    /// Adds to the surplus of the blocks of an extent that lie in these runs.
    fn add_within(
        &mut self,
        geometry: &Geometry,
        group: AgNumber,
        (start, length_blocks): (AgBlock, u32),
        runs: &[Range<u64>],
        surplus: i64,
    ) {
        let Some(start) = geometry.fs_block(group, start) else { return };
        let (start, end) = (start.get(), start.get().saturating_add(length_blocks.into()));
        let first = runs.partition_point(|run| run.end <= start);
        for run in runs.iter().skip(first).take_while(|run| run.start < end) {
            if self.counts.len() <= MOST_PLACES {
                self.add(&(run.start.max(start)..run.end.min(end)), Count { surplus, questions: 0 });
            }
        }
    }

    /// Adds to a run, as differences to the block before.
    fn add(&mut self, run: &Range<u64>, count: Count) {
        for (block, sign) in [(run.start, 1), (run.end, -1)] {
            let difference = self.counts.entry(block).or_default();
            difference.surplus = difference.surplus.saturating_add(sign * count.surplus);
            difference.questions = difference.questions.saturating_add(sign * count.questions);
        }
    }

    /// Makes counts of the differences.
    fn sum(&mut self) {
        let mut sum = Count::default();
        for count in self.counts.values_mut() {
            sum.surplus = sum.surplus.saturating_add(count.surplus);
            sum.questions = sum.questions.saturating_add(count.questions);
            *count = sum;
        }
    }

    /// Whether the blocks that the reverse map has alone have as many owners there as they should have, and no other question is about
    /// them.
    pub fn agree(&self, question: &Question, geometry: &Geometry) -> bool {
        let mapped = blocks_without(&question.mapped, &question.told);
        let told = blocks_without(&question.told, &question.mapped);
        mapped.iter().chain(&told).all(|run| self.is_known(run, geometry))
            && told.iter().all(|run| self.is_everywhere(run, 0))
    }

    /// Whether the group of a run could be read.
    fn is_known(&self, run: &Range<u64>, geometry: &Geometry) -> bool {
        let group = geometry.split_fs_block(FsBlock::new(run.start)).map(|(group, _)| group);
        group.is_some_and(|group| !self.unknown_groups.contains(&group))
    }

    /// The side that the counts speak for. Blocks about which there are several questions tell nothing.
    pub fn decide(&self, question: &Question, geometry: &Geometry) -> Option<Side> {
        let mapped = blocks_without(&question.mapped, &question.told);
        let told = blocks_without(&question.told, &question.mapped);
        let is_known = |run: &Range<u64>| self.is_known(run, geometry);
        if !mapped.iter().chain(&told).all(is_known) || mapped.is_empty() && told.is_empty() {
            return None;
        }
        let have =
            |runs: &[Range<u64>], surplus: i64| runs.iter().all(|run| self.is_everywhere(run, surplus));
        only_one(have(&mapped, -1) && have(&told, 1), have(&mapped, 0) && have(&told, 0))
    }

    /// Whether all blocks of a run have this surplus, and belong to one question.
    fn is_everywhere(&self, run: &Range<u64>, surplus: i64) -> bool {
        let wanted = Count { surplus, questions: 1 };
        let at_start = self.counts.range(..=run.start).next_back();
        at_start.is_some_and(|(_, count)| *count == wanted)
            && self.counts.range(run.start..run.end).all(|(_, count)| *count == wanted)
    }
}

//! Whether an inode missed a write. It is sound then and agrees with itself, but says what was true before: the blocks that it has alone
//! are free, those that the reverse map has alone are not and no other inode has them, and all leaves to which the change must have
//! gone are newer than the inode.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::block_header::BlockHeader,
    geometry::Geometry,
    units::{AgNumber, FsBlock, InodeNumber, Lsn},
};
use uxfs_volume::volume::Volume;

use super::{FreeBlocks, Question, block_counts::BlockCounts, blocks_without};
use crate::btree::visit_sound_blocks;

/// When the leaves of reverse maps were written in which contested blocks have their records, or would have them.
#[derive(Debug)]
pub(super) struct LeafAges<'a> {
    /// Of each group whose reverse map is whole: from a block of the file system on, to the next one here.
    groups: BTreeMap<AgNumber, BTreeMap<u64, Lsn>>,
    /// Inodes that are as old as the repair.
    rebuilt: &'a BTreeSet<InodeNumber>,
}

impl<'a> LeafAges<'a> {
    /// Of the groups that these questions are about; of `older_groups`, and of inodes that this repair has set, nothing is
    /// known.
    pub fn of(
        volume: &Volume,
        questions: &[Question],
        (rebuilt, older_groups): (&'a BTreeSet<InodeNumber>, &BTreeSet<AgNumber>),
    ) -> Self {
        let geometry = volume.geometry();
        let mut ages = Self { groups: BTreeMap::new(), rebuilt };
        for question in questions.iter().filter(|question| !rebuilt.contains(&question.inode.number)) {
            for run in question.contested() {
                let Some((group, _)) = geometry.split_fs_block(FsBlock::new(run.start)) else { continue };
                if !ages.groups.contains_key(&group) && !older_groups.contains(&group) {
                    ages.groups.insert(group, leaves_of(volume, group));
                }
            }
        }
        ages
    }

    /// Whether the inode is older than the reverse map, and everything else says what the reverse map says.
    pub fn is_inode_older(
        &self,
        question: &Question,
        (free, counts): (&FreeBlocks, &BlockCounts),
        geometry: &Geometry,
    ) -> bool {
        let inode = Lsn::new(question.inode.core.lsn.get());
        // Offline tools leave 0.
        inode != Lsn::new(0)
            && !self.rebuilt.contains(&question.inode.number)
            && blocks_without(&question.mapped, &question.told).iter().all(|run| free.has_all_of(run))
            && counts.agree(question, geometry)
            && question.contested().all(|run| {
                let group = geometry.split_fs_block(FsBlock::new(run.start)).map(|(group, _)| group);
                let leaves = group.and_then(|group| self.groups.get(&group));
                leaves.is_some_and(|leaves| {
                    let first = leaves.range(..=run.start).next_back();
                    first.is_some()
                        && first
                            .into_iter()
                            .chain(leaves.range(run.start..run.end))
                            .all(|(_, lsn)| *lsn > inode)
                })
            })
    }
}

impl Question {
    /// The blocks that one side has alone.
    fn contested(&self) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let mapped = blocks_without(&self.mapped, &self.told).into_iter();
        mapped.chain(blocks_without(&self.told, &self.mapped))
    }
}

/// The first block of each leaf of a group's reverse map, and when it was written; empty where not all can be read.
fn leaves_of(volume: &Volume, group: AgNumber) -> BTreeMap<u64, Lsn> {
    let geometry = volume.geometry();
    let mut leaves = BTreeMap::new();
    let Ok(Some(tree)) = volume.group(group).reverse_map() else { return leaves };
    let is_whole = visit_sound_blocks(&tree, &mut |view| {
        if let (0, Some(first)) = (view.level(), view.records().first())
            && let Some(start) = geometry.fs_block(group, first.get().start)
        {
            let written = Some(view.header().lsn()).filter(|lsn| *lsn != Lsn::NULL).unwrap_or_default();
            leaves.insert(start.get(), written);
        }
    });
    if !is_whole {
        leaves.clear();
    }
    leaves
}

//! Blocks that two have and may not share: the reverse map tells whose they are.
//!
//! Blocks may be shared by the data forks of regular files whose inodes say so, and by nothing else. Of several that have the same blocks,
//! those lose whom the reverse map does not name there, if it names another, or if a structure of the group lies there. The maps of the
//! losers are made anew from the reverse map. Where it names none or all of them, the conflict stays a finding.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{ControlFlow, Range},
};

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    inode::{FileType, Fork},
    units::{AgBlock, AgNumber, InodeNumber},
};
use uxfs_volume::{btree::BlockEvent, error::Result, volume::Volume};

use super::{action::Action, stage::Stage};
use crate::{
    extent_map::{
        rebuild::{gather, staged_inode, write_fork},
        spare::SpareBlocks,
    },
    reference_count::rebuild::{Shared, is_shareable},
};

/// A fork: an inode, and whether it is the attribute fork.
pub(super) type ForkOf = (InodeNumber, bool);

/// Blocks that a fork has and gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contested {
    group: AgNumber,
    start: AgBlock,
    /// In all.
    blocks: u64,
    /// The inode that keeps the first of them.
    kept_by: Option<InodeNumber>,
}

/// The conflicts of a group.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// Forks that have blocks of others.
    pub losers: BTreeMap<ForkOf, Contested>,
    /// There are blocks of which nothing tells whose they are.
    pub is_open: bool,
}

/// Finds blocks that several of these mappings have. `fixed`: structures of the group. `sharing`: inodes whose data may be shared.
pub(super) fn find(
    volume: &Volume,
    group: AgNumber,
    files: &[Mapping],
    fixed: &[Mapping],
    sharing: &BTreeSet<InodeNumber>,
) -> Conflicts {
    let has_reflink = volume.geometry().features.has_reflink();
    let may_share = |mapping: &Mapping| {
        let is_said = inode_of(mapping).is_some_and(|inode| sharing.contains(&inode));
        has_reflink && is_shareable(mapping) && is_said
    };
    let all: Vec<Mapping> = files.iter().chain(fixed).copied().collect();
    let ranges = Shared::with(&all, &may_share).conflicts;
    if ranges.is_empty() {
        return Conflicts::default();
    }
    let known = reverse_map_of(volume, group, &ranges);
    let mut conflicts = Conflicts::default();
    for range in &ranges {
        let is_of = |mapping: &&Mapping| mapping.overlaps(AgBlock::new(range.start), AgBlock::new(range.end));
        let claims: Vec<&Mapping> = files.iter().filter(is_of).collect();
        let (backed, others): (Vec<&Mapping>, Vec<&Mapping>) =
            claims.into_iter().partition(|claim| is_backed(claim, range, &known));
        let has_winner = !backed.is_empty() || fixed.iter().any(|mapping| is_of(&mapping));
        if !has_winner || others.is_empty() {
            conflicts.is_open = true;
            continue;
        }
        let kept_by = backed.iter().find_map(|claim| inode_of(claim));
        for claim in others {
            let Some(inode) = inode_of(claim) else { continue };
            let start = AgBlock::new(range.start);
            let contested = Contested { group, start, blocks: 0, kept_by };
            let contested = conflicts.losers.entry((inode, claim.is_attribute_fork)).or_insert(contested);
            contested.blocks = contested.blocks.saturating_add(range.len() as u64);
        }
    }
    conflicts
}

fn inode_of(mapping: &Mapping) -> Option<InodeNumber> {
    match mapping.owner {
        Owner::Inode(inode) => Some(inode),
        _ => None,
    }
}

/// The records of a reverse map that lie in these blocks.
fn reverse_map_of(volume: &Volume, group: AgNumber, ranges: &[Range<u32>]) -> Vec<Mapping> {
    let mut known = Vec::new();
    let Ok(Some(tree)) = volume.group(group).reverse_map() else { return known };
    let _ = tree.visit_blocks(&mut |event| {
        if let BlockEvent::Block { view, .. } = event {
            let mappings = view.records().iter().map(|record| record.get());
            known.extend(mappings.filter(|mapping| {
                let index = ranges.partition_point(|range| range.end <= mapping.start.get());
                ranges.get(index).is_some_and(|range| range.start < mapping.end().get())
            }));
        }
        ControlFlow::Continue(())
    });
    known
}

/// Whether the reverse map gives blocks of this range to the same file block of the same fork.
fn is_backed(claim: &Mapping, range: &Range<u32>, known: &[Mapping]) -> bool {
    let start = claim.start.max(AgBlock::new(range.start));
    let end = claim.end().min(AgBlock::new(range.end));
    let shift = |mapping: &Mapping| mapping.file_block.get().wrapping_sub(mapping.start.get().into());
    known.iter().any(|mapping| {
        mapping.owner == claim.owner
            && mapping.is_attribute_fork == claim.is_attribute_fork
            && mapping.is_extent_map_block == claim.is_extent_map_block
            && mapping.start <= start
            && end <= mapping.end()
            && (claim.is_extent_map_block || shift(mapping) == shift(claim))
    })
}

/// Makes the maps of the losers anew from the reverse map alone. Gives the regular files of which something is missing.
///
/// # Errors
/// The device.
pub(super) fn resolve(
    volume: &Volume,
    stage: &Stage,
    losers: &BTreeMap<ForkOf, Contested>,
    actions: &mut Vec<Action>,
) -> Result<BTreeSet<InodeNumber>> {
    let inodes: BTreeSet<InodeNumber> = losers.keys().map(|(inode, _)| *inode).collect();
    let owned = gather(volume, &inodes);
    let mut forks: BTreeMap<ForkOf, _> = owned.forks;
    let (spare, mut partial) = (SpareBlocks::new(volume), BTreeSet::new());
    for ((number, is_attribute_fork), contested) in losers {
        let fork = if *is_attribute_fork { Fork::Attribute } else { Fork::Data };
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        let owned_fork = forks.remove(&(*number, *is_attribute_fork)).unwrap_or_default();
        let Some(written) = write_fork(&spare, stage, &inode, fork, owned_fork, owned.is_complete)? else {
            continue;
        };
        let Contested { group, start, blocks, kept_by } = *contested;
        actions.push(Action::BlocksGivenUp { inode: *number, fork, group, start, blocks, kept_by });
        actions.push(Action::ExtentMap { inode: *number, fork, extents: written.extents });
        if fork == Fork::Data && inode.file_type() == Some(FileType::Regular) && !written.is_whole {
            partial.insert(*number);
        }
    }
    Ok(partial)
}

//! Blocks that two have and may not share: the reverse map tells whose they are.
//!
//! Blocks may be shared by the data forks of regular files whose inodes say so, and by nothing else. Of several forks that have the same
//! blocks, one loses them if the reverse map names another there, or if a structure of the group lies there. The maps of the losers are
//! made anew from the reverse map. Where it names none or all of them, the conflict stays a finding.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use uxfs_format::{
    btree::reverse_map::{Mapping, Owner},
    inode::{FileType, Fork},
    units::{AgBlock, AgNumber, InodeNumber},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{action::Action, stage::Stage};
use crate::{
    extent_map::{
        rebuild::{gather, staged_inode, write_fork},
        spare::SpareBlocks,
    },
    reference_count::rebuild::{Shared, is_shareable},
    reverse_map::read::visit_group,
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
    let known = Known::of(volume, group, &ranges);
    let mut claims = in_ranges(files, &ranges);
    let fixed = in_ranges(fixed, &ranges);
    let mut conflicts = Conflicts::default();
    for (number, range) in ranges.iter().enumerate() {
        let claims = claims.get_mut(number).map(std::mem::take).unwrap_or_default();
        let (backed, others): (Vec<&Mapping>, Vec<&Mapping>) =
            claims.into_iter().partition(|claim| known.backs(claim, range));
        let has_winner = !backed.is_empty() || fixed.get(number).is_some_and(|fixed| !fixed.is_empty());
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

/// The mappings that have blocks of each range. Between two ranges no block has two mappings: so few have blocks of several.
fn in_ranges<'m>(mappings: &'m [Mapping], ranges: &[Range<u32>]) -> Vec<Vec<&'m Mapping>> {
    let mut found = vec![Vec::new(); ranges.len()];
    for mapping in mappings {
        let first = ranges.partition_point(|range| range.end <= mapping.start.get());
        let overlapping = ranges.iter().skip(first).take_while(|range| range.start < mapping.end().get());
        let count = overlapping.count();
        found.iter_mut().skip(first).take(count).for_each(|of_range| of_range.push(mapping));
    }
    found
}

fn inode_of(mapping: &Mapping) -> Option<InodeNumber> {
    match mapping.owner {
        Owner::Inode(inode) => Some(inode),
        _ => None,
    }
}

/// Which file block of which fork a block is: owner, attribute fork, extent map block, and file block less block.
type Place = (u64, bool, bool, u64);

fn place(mapping: &Mapping) -> Place {
    let shift = mapping.file_block.get().wrapping_sub(mapping.start.get().into());
    let shift = if mapping.is_extent_map_block { 0 } else { shift };
    (mapping.owner.raw(), mapping.is_attribute_fork, mapping.is_extent_map_block, shift)
}

/// What the reverse map says of some blocks.
struct Known {
    /// Starts and ends, in order; ends ascend, since what another one covers is left out.
    runs: HashMap<Place, Vec<(AgBlock, AgBlock)>>,
}

impl Known {
    /// The records that lie in these blocks.
    fn of(volume: &Volume, group: AgNumber, ranges: &[Range<u32>]) -> Self {
        let mut known = Self { runs: HashMap::new() };
        visit_group(volume, group, &mut |mapping| {
            let index = ranges.partition_point(|range| range.end <= mapping.start.get());
            if ranges.get(index).is_some_and(|range| range.start < mapping.end().get()) {
                known.runs.entry(place(&mapping)).or_default().push((mapping.start, mapping.end()));
            }
        });
        for runs in known.runs.values_mut() {
            // Of several that begin at one block the longest comes first.
            runs.sort_unstable_by_key(|(start, end)| (*start, Reverse(*end)));
            runs.dedup_by(|next, last| next.1 <= last.1);
        }
        known
    }

    /// Whether the reverse map gives blocks of this range to the same file block of the same fork.
    fn backs(&self, claim: &Mapping, range: &Range<u32>) -> bool {
        let start = claim.start.max(AgBlock::new(range.start));
        let end = claim.end().min(AgBlock::new(range.end));
        let Some(runs) = self.runs.get(&place(claim)) else { return false };
        let next = runs.partition_point(|(run_start, _)| *run_start <= start);
        next.checked_sub(1).and_then(|last| runs.get(last)).is_some_and(|(_, run_end)| end <= *run_end)
    }
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

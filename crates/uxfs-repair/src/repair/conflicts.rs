//! Blocks that two have and may not share: the reverse map tells whose they are; else their contents, where these name an owner.
//!
//! Blocks may be shared by the data forks of regular files whose inodes say so, and by nothing else. Of several forks that have the same
//! blocks, one loses them if the reverse map names another there, or if a structure of the group lies there. The maps of the losers are
//! rebuilt from the reverse map. Where nothing tells, the fork with the lowest inode number keeps the blocks, the report says that it is
//! a guess, and the others keep all else of their maps.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use uxfs_format::{
    btree::{
        extent_map::Extent,
        reverse_map::{Mapping, Owner},
    },
    checksum,
    geometry::Geometry,
    inode::{FileType, Fork},
    seal::{checksum_offset_of, structure_of},
    units::{AgBlock, AgNumber, FileBlock, FsBlock, InodeNumber},
};
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::{action::Action, identity::owner_of, stage::Stage};
use crate::{
    extent_map::{
        rebuild::{Owned, gather, staged_inode, write_fork},
        spare::SpareBlocks,
        subtract::subtract,
    },
    reference_count::rebuild::{Shared, is_shareable},
    reverse_map::read::visit_group,
};

/// A fork: an inode, and whether it is the attribute fork.
pub(super) type ForkOf = (InodeNumber, bool);

/// Blocks that a fork has and gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contested {
    group: AgNumber,
    /// Those that the fork gives up, in order.
    ranges: Vec<Range<u32>>,
    /// Those that this fork alone has, and more than once: it keeps them where they come first in the file.
    repeated: Vec<Range<u32>>,
    /// Those that the fork keeps at the place in the file where the reverse map has them, and gives up at another.
    own: Vec<Range<u32>>,
    /// The inode that keeps the first of them.
    kept_by: Option<InodeNumber>,
    /// The reverse map does not tell of some of them that they are another one's.
    is_chosen: bool,
}

/// The conflicts of a group.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// Forks that have blocks of others.
    pub losers: BTreeMap<ForkOf, Contested>,
    /// There are blocks that no file has, and several structures of the group.
    pub is_open: bool,
}

/// Finds blocks that several of these mappings have. `fixed`: structures of the group. `sharing`: inodes whose data may be shared.
/// `unproved`: inodes that were kept with a wrong checksum.
pub(super) fn find(
    volume: &Volume,
    group: AgNumber,
    files: &[Mapping],
    fixed: &[Mapping],
    (sharing, unproved): (&BTreeSet<InodeNumber>, &BTreeSet<InodeNumber>),
) -> Conflicts {
    let has_reverse_map = volume.geometry().features.has_reverse_map();
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
        let is_fixed = fixed.get(number).is_some_and(|fixed| !fixed.is_empty());
        let is_told = has_reverse_map && !others.is_empty() && (is_fixed || !backed.is_empty());
        let (winners, others) = match is_told {
            true => (backed, others),
            false if is_fixed => (Vec::new(), backed.into_iter().chain(others).collect()),
            false => {
                let named = owner_of_contents(volume, group, range.start);
                choose(named, backed.into_iter().chain(others).collect(), unproved)
            }
        };
        let kept_by = winners.iter().find_map(|claim| inode_of(claim));
        if others.is_empty() {
            match winners.first().and_then(|claim| conflicts.contested(group, claim, kept_by)) {
                Some(contested) => contested.add_repeated(range.clone()),
                None => conflicts.is_open = true,
            }
        }
        for claim in others {
            let is_own = winners.iter().any(|winner| fork_of(winner) == fork_of(claim));
            let Some(contested) = conflicts.contested(group, claim, kept_by) else { continue };
            let ranges = if is_own { &mut contested.own } else { &mut contested.ranges };
            ranges.push(range.clone());
            contested.is_chosen |= !is_told;
        }
    }
    conflicts
}

impl Conflicts {
    /// What the fork with this mapping loses; `None` where no inode has it.
    fn contested(
        &mut self,
        group: AgNumber,
        claim: &Mapping,
        kept_by: Option<InodeNumber>,
    ) -> Option<&mut Contested> {
        let (ranges, repeated, own) = (Vec::new(), Vec::new(), Vec::new());
        let contested = Contested { group, ranges, repeated, own, kept_by, is_chosen: false };
        Some(self.losers.entry((inode_of(claim)?, claim.is_attribute_fork)).or_insert(contested))
    }
}

impl Contested {
    fn add_repeated(&mut self, range: Range<u32>) {
        self.repeated.push(range);
        self.is_chosen = true;
    }

    /// These blocks in the whole file system.
    fn runs(&self, geometry: &Geometry, ranges: &[Range<u32>]) -> Vec<Range<u64>> {
        let runs = ranges.iter().filter_map(|range| {
            let start = geometry.fs_block(self.group, AgBlock::new(range.start))?.get();
            Some(start..start.saturating_add(range.len() as u64))
        });
        runs.collect()
    }
}

/// Winners and losers among forks of which the reverse map does not tell whose the blocks are: the one that the contents name wins, else
/// the lowest one of those whose checksum was right.
fn choose<'m>(
    named: Option<InodeNumber>,
    claims: Vec<&'m Mapping>,
    unproved: &BTreeSet<InodeNumber>,
) -> (Vec<&'m Mapping>, Vec<&'m Mapping>) {
    let is_proved = |claim: &Mapping| inode_of(claim).is_none_or(|inode| !unproved.contains(&inode));
    let winner = claims
        .iter()
        .map(|claim| (!(named.is_some() && inode_of(claim) == named), !is_proved(claim), fork_of(claim)))
        .min()
        .map(|(_, _, fork)| fork);
    claims.into_iter().partition(|claim| Some(fork_of(claim)) == winner)
}

/// The inode that the header of a block names, if it has one with a right checksum.
fn owner_of_contents(volume: &Volume, group: AgNumber, block: u32) -> Option<InodeNumber> {
    let geometry = volume.geometry();
    let sector = geometry.sector_of_group_block(group, AgBlock::new(block))?;
    let mut bytes = vec![0; geometry.block_size()];
    volume.device().read(Geometry::byte_of_sector(sector), &mut bytes).ok()?;
    let structure = structure_of(&bytes, geometry)?;
    checksum::check(&bytes, checksum_offset_of(structure)?).ok()?;
    owner_of(structure, &bytes).map(InodeNumber::new)
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

fn fork_of(mapping: &Mapping) -> (Option<InodeNumber>, bool) {
    (inode_of(mapping), mapping.is_attribute_fork)
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

/// Rebuilds the maps of the losers: from the reverse map alone where it tells, else without the contested blocks. Returns the regular files that lost blocks.
///
/// # Errors
/// The device.
pub(super) fn resolve(
    volume: &Volume,
    stage: &Stage,
    losers: &BTreeMap<ForkOf, Vec<Contested>>,
    actions: &mut Vec<Action>,
) -> Result<BTreeSet<InodeNumber>> {
    let inodes: BTreeSet<InodeNumber> = losers.keys().map(|(inode, _)| *inode).collect();
    let owned = gather(volume, &inodes);
    let mut forks: BTreeMap<ForkOf, _> = owned.forks;
    let (spare, mut partial) = (SpareBlocks::new(volume), BTreeSet::new());
    for ((number, is_attribute_fork), contested) in losers {
        let fork = if *is_attribute_fork { Fork::Attribute } else { Fork::Data };
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        let by_reverse_map = forks.remove(&(*number, *is_attribute_fork)).unwrap_or_default();
        let is_chosen = contested.iter().any(|contested| contested.is_chosen);
        let (owned_fork, is_complete) = match is_chosen {
            true => (without(volume, &inode, fork, contested), false),
            false => (by_reverse_map, owned.is_complete),
        };
        let Some(written) = write_fork(&spare, stage, &inode, fork, owned_fork, is_complete)? else {
            continue;
        };
        for Contested { group, kept_by, ranges, repeated, own, .. } in contested {
            let all = || ranges.iter().chain(repeated).chain(own);
            let start = AgBlock::new(all().map(|range| range.start).min().unwrap_or(0));
            let blocks = all().map(|range| range.len() as u64).sum();
            let (inode, group, kept_by) = (*number, *group, *kept_by);
            actions.push(Action::BlocksGivenUp { inode, fork, group, start, blocks, kept_by, is_chosen });
        }
        actions.push(Action::ExtentMap { inode: *number, fork, extents: written.extents });
        if fork == Fork::Data && inode.file_type() == Some(FileType::Regular) && !written.is_whole {
            partial.insert(*number);
        }
    }
    Ok(partial)
}

/// What a fork has, but for the contested blocks. A fork whose map lies in such blocks may have nothing.
fn without(volume: &Volume, inode: &Inode, fork: Fork, contested: &[Contested]) -> Owned {
    let geometry = volume.geometry();
    // By group, and so in order.
    let taken: Vec<_> =
        contested.iter().flat_map(|of_group| of_group.runs(geometry, &of_group.ranges)).collect();
    let runs = contested.iter().flat_map(|of_group| {
        let mut runs = of_group.runs(geometry, &of_group.repeated);
        runs.extend(of_group.runs(geometry, &of_group.own));
        runs.sort_unstable_by_key(|run| run.start);
        runs
    });
    let mut repeated = Repeated { runs: runs.collect(), kept: BTreeMap::new() };
    let mut owned = Owned::default();
    let Ok(map) = volume.extent_map(inode, fork) else { return owned };
    let mut parts = Vec::new();
    for extent in map.iter() {
        add_without(&extent, &taken, &mut parts);
        for part in parts.drain(..) {
            let taken = repeated.take(&part);
            add_without(&part, &taken, &mut owned.extents);
        }
    }
    owned
}

/// Blocks that one fork has more than once.
struct Repeated {
    /// In order.
    runs: Vec<Range<u64>>,
    /// Those that it keeps so far: start and end. They do not overlap.
    kept: BTreeMap<u64, u64>,
}

impl Repeated {
    /// What is kept before this extent, and lies in it, in order. The rest of it is kept from now on.
    fn take(&mut self, extent: &Extent) -> Vec<Range<u64>> {
        let (start, end) = (extent.start.get(), extent.start.get().saturating_add(extent.length_blocks));
        let first = self.runs.partition_point(|run| run.end <= start);
        let mut taken = Vec::new();
        for run in self.runs.iter().skip(first).take_while(|run| run.start < end) {
            let run = run.start.max(start)..run.end.min(end);
            let mut kept = run.clone();
            // From the end on: those that reach into the run, and then one that meets it from before.
            while let Some((&from, &to)) = self.kept.range(..=kept.end).next_back()
                && to >= run.start
            {
                self.kept.remove(&from);
                kept = kept.start.min(from)..kept.end.max(to);
                if from < run.end && run.start < to {
                    taken.push(from.max(run.start)..to.min(run.end));
                }
            }
            self.kept.insert(kept.start, kept.end);
        }
        taken.sort_unstable_by_key(|run: &Range<u64>| run.start);
        taken
    }
}

/// The parts of an extent outside of these blocks, which are in order.
fn add_without(extent: &Extent, taken: &[Range<u64>], parts: &mut Vec<Extent>) {
    let first = extent.start.get();
    subtract(first..first.saturating_add(extent.length_blocks), taken, |part| {
        parts.push(Extent {
            file_block: FileBlock::new(extent.file_block.get().saturating_add(part.start - first)),
            start: FsBlock::new(part.start),
            length_blocks: part.end - part.start,
            is_unwritten: extent.is_unwritten,
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_blocks_are_kept_once() {
        let mut repeated = Repeated { runs: vec![100..104, 110..112], kept: BTreeMap::new() };
        let mut kept = |file_block, start, length_blocks| {
            let extent = Extent {
                file_block: FileBlock::new(file_block),
                start: FsBlock::new(start),
                length_blocks,
                is_unwritten: false,
            };
            let mut parts = Vec::new();
            add_without(&extent, &repeated.take(&extent), &mut parts);
            let part = |part: &Extent| (part.file_block.get(), part.start.get(), part.length_blocks);
            parts.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(kept(0, 102, 5), [(0, 102, 5)]);
        assert_eq!(kept(10, 98, 5), [(10, 98, 4)]);
        assert_eq!(kept(20, 100, 12), [(24, 104, 8)]);
        assert_eq!(kept(40, 111, 1), []);
    }

    #[test]
    fn of_two_inodes_the_one_with_a_right_checksum_keeps_blocks() {
        let of = |inode: u64| Mapping {
            start: AgBlock::new(10),
            length_blocks: 4,
            owner: Owner::Inode(InodeNumber::new(inode)),
            file_block: FileBlock::new(0),
            is_attribute_fork: false,
            is_extent_map_block: false,
            is_unwritten: false,
        };
        let (low, high) = (of(131), of(200));
        let winner = |named: Option<u64>, unproved: &[u64]| {
            let unproved = unproved.iter().copied().map(InodeNumber::new).collect();
            let (winners, _) = choose(named.map(InodeNumber::new), vec![&low, &high], &unproved);
            winners.first().and_then(|winner| inode_of(winner)).map(InodeNumber::get)
        };
        assert_eq!(winner(None, &[]), Some(131));
        assert_eq!(winner(None, &[131]), Some(200));
        assert_eq!(winner(None, &[131, 200]), Some(131));
        // The blocks themselves say more.
        assert_eq!(winner(Some(131), &[131]), Some(131));
    }

    #[test]
    fn what_is_left_of_an_extent() {
        let extent = Extent {
            file_block: FileBlock::new(7),
            start: FsBlock::new(100),
            length_blocks: 10,
            is_unwritten: false,
        };
        let left = |taken: &[Range<u64>]| {
            let mut parts = Vec::new();
            add_without(&extent, taken, &mut parts);
            let part = |part: &Extent| (part.file_block.get(), part.start.get(), part.length_blocks);
            parts.iter().map(part).collect::<Vec<_>>()
        };
        assert_eq!(left(&[0..100, 103..105]), [(7, 100, 3), (12, 105, 5)]);
    }
}

//! Extent maps that are sound, and that the reverse map contradicts: which of the two more of the others agree with.
//!
//! In this order, and the first that agrees with one of them alone decides: the copy of the inode in the log, where it is as new as the
//! inode; the block count of the inode, unless the inode is older than all that says the contrary; the free space, which no file may have; blocks with headers, which say whose they are; how many
//! owners the free space and the reference counts give to blocks; the size of a file, below which its blocks should lie. The extent map is
//! believed where none does.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use uxfs_block::device::BlockDevice;
use uxfs_format::{
    btree::extent_map::Extent,
    geometry::Geometry,
    inode::{FileType, Fork, ForkFormat},
    units::{AgNumber, FsBlock, InodeNumber, Lsn},
};
use uxfs_journal::copies::{InodeCopy, LogCopies, Wanted};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use self::{ages::LeafAges, block_counts::BlockCounts};
use super::{
    check::{blocks_or_fault, count_blocks},
    rebuild::{Owned, gather, staged_inode, write_fork},
    spare::SpareBlocks,
    subtract::subtract,
};
use crate::{
    inode::{gather::change_core, rebuild::end_of_contents},
    repair::{
        action::{Action, MapWitness},
        stage::Stage,
    },
};

/// Rebuilds the extent maps of `inodes` for which the reverse map is believed. Returns whether there were any.
///
/// - `log`: the device with the log as it was found, if copies in it may be used
/// - `unproved`: inodes that were kept with a wrong checksum
/// - `rebuilt`: inodes that this repair has written; their age is no evidence
/// - `older_groups`: groups whose reverse maps are incomplete
/// - `undecided` receives the forks that no witness decides
///
/// # Errors
/// The device.
pub(crate) fn follow_reverse_map(
    volume: &Volume,
    stage: &Stage,
    log: Option<&dyn BlockDevice>,
    (inodes, unproved, rebuilt, older_groups): Asked<'_>,
    actions: &mut Vec<Action>,
    undecided: &mut Undecided,
) -> Result<bool> {
    if !volume.geometry().features.has_reverse_map() {
        return Ok(false);
    }
    if older_groups.is_empty() && unproved::follow(volume, stage, unproved, actions)? {
        return Ok(true);
    }
    if inodes.is_empty() {
        return Ok(false);
    }
    let (before, spare) = (actions.len(), SpareBlocks::new(volume));
    let questions = find_questions(volume, stage, inodes, older_groups.is_empty())?;
    let copies = find_copies(&questions, log, volume.geometry());
    let free = FreeBlocks::of(volume, &questions);
    let counts = BlockCounts::of(volume, &questions);
    let ages = LeafAges::of(volume, &questions, (rebuilt, older_groups));
    for question in questions {
        let copy = copies.inode(question.inode.number);
        let by = match question.decide(volume, stage, copy, (&free, &counts, &ages)) {
            Some((by, Side::ReverseMap)) => by,
            Some((_, Side::ExtentMap)) => continue,
            None if question.is_told_in_part => continue,
            None => {
                undecided.insert((question.inode.number, question.fork == Fork::Attribute));
                continue;
            }
        };
        let Question { inode, fork, owned, .. } = question;
        // The other fork may have been changed in the stage.
        let Some(inode) = staged_inode(stage, inode.number)? else { continue };
        if let Some(written) = write_fork(&spare, stage, &inode, fork, owned, true)? {
            undecided.remove(&(inode.number, fork == Fork::Attribute));
            let (inode, extents) = (inode.number, written.extents);
            actions.push(Action::ExtentMapOverruled { inode, fork, extents, by });
            if by == MapWitness::Age && fork == Fork::Data {
                follow_contents(volume, stage, inode)?;
            }
        }
    }
    Ok(actions.len() > before)
}

/// Inodes that are asked about, that were kept with a wrong checksum, that were set by this repair; groups.
type Asked<'a> =
    (&'a BTreeSet<InodeNumber>, &'a BTreeSet<InodeNumber>, &'a BTreeSet<InodeNumber>, &'a BTreeSet<AgNumber>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    ExtentMap,
    ReverseMap,
}

/// Forks whose extent maps stay although the reverse map contradicts them, and no witness says which is right.
pub(crate) type Undecided = BTreeSet<(InodeNumber, bool)>;

/// Of two answers the one that a witness agrees with, where it is one alone.
fn only_one(extent_map: bool, reverse_map: bool) -> Option<Side> {
    match (extent_map, reverse_map) {
        (true, false) => Some(Side::ExtentMap),
        (false, true) => Some(Side::ReverseMap),
        _ => None,
    }
}

/// A fork of which the two say different things.
struct Question {
    inode: Inode,
    fork: Fork,
    /// What the reverse map says.
    owned: Owned,
    /// The extents of both, in order. Whether they were written is another question.
    mapped: Vec<Extent>,
    told: Vec<Extent>,
    /// Damaged or older blocks of the reverse map may have had more.
    is_told_in_part: bool,
    /// Blocks of the fork that the extent map shows, those of its btree included, and that the inode counts.
    mapped_blocks: u64,
    counted_blocks: u64,
}

fn find_questions(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    is_reverse_map_recent: bool,
) -> Result<Vec<Question>> {
    let mut gathered = gather(volume, inodes);
    let mut questions = Vec::new();
    for number in inodes {
        let Some(inode) = staged_inode(stage, *number)? else { continue };
        for fork in [Fork::Data, Fork::Attribute] {
            let owned = gathered.forks.remove(&(*number, fork == Fork::Attribute)).unwrap_or_default();
            let Some(mut question) = Question::of(volume, &inode, fork, owned) else { continue };
            // With a damaged block the reverse map is believed where it has all that the inode counts.
            let is_told = gathered.is_complete || question.is_told_whole();
            question.is_told_in_part = !is_told || !is_reverse_map_recent;
            questions.push(question);
        }
    }
    Ok(questions)
}

/// What the log still has of these inodes.
fn find_copies(questions: &[Question], log: Option<&dyn BlockDevice>, geometry: &Geometry) -> LogCopies {
    let mut wanted = Wanted::default();
    questions.iter().for_each(|question| wanted.add_inode(question.inode.number));
    let log = log.filter(|_| !wanted.is_empty());
    log.and_then(|log| LogCopies::gather(log, geometry, &wanted).ok()).unwrap_or_default()
}

impl Question {
    /// `None` where both say the same, or where one of them cannot be believed at all.
    fn of(volume: &Volume, inode: &Inode, fork: Fork, owned: Owned) -> Option<Self> {
        let is_mapped = matches!(inode.fork_format(fork)?, ForkFormat::Extents | ForkFormat::Btree);
        let is_elsewhere = fork == Fork::Data && inode.is_realtime();
        if !is_mapped || is_elsewhere {
            return None;
        }
        let mapped_blocks = blocks_or_fault(volume, inode, fork, ScanOptions::in_order())?;
        let mapped: Vec<Extent> = volume.extent_map(inode, fork).ok()?.iter().collect();
        let (mapped, told) = (in_order(&mapped)?, in_order(&owned.extents)?);
        let other = if fork == Fork::Data { Fork::Attribute } else { Fork::Data };
        let counted_blocks = inode.blocks().saturating_sub(count_blocks(volume, inode, other));
        let question = Self {
            inode: inode.clone(),
            fork,
            owned,
            mapped,
            told,
            is_told_in_part: false,
            mapped_blocks,
            counted_blocks,
        };
        (question.mapped != question.told).then_some(question)
    }

    /// The reverse map has as many blocks as the inode counts.
    fn is_told_whole(&self) -> bool {
        self.owned.blocks() == self.counted_blocks
    }

    fn decide(
        &self,
        volume: &Volume,
        stage: &Stage,
        copy: Option<&InodeCopy>,
        (free, counts, ages): (&FreeBlocks, &BlockCounts, &LeafAges<'_>),
    ) -> Option<(MapWitness, Side)> {
        let is_counted = only_one(self.mapped_blocks == self.counted_blocks, self.is_told_whole());
        let is_older = || ages.is_inode_older(self, (free, counts), volume.geometry());
        let by = |witness: MapWitness| move |side: Side| (witness, side);
        let logged = copy.and_then(|copy| self.decide_by_copy(volume, copy)).map(by(MapWitness::Log));
        if self.is_told_in_part {
            return is_older().then_some((MapWitness::Age, Side::ReverseMap));
        }
        let aged = || (is_counted == Some(Side::ExtentMap) && is_older()).then_some(Side::ReverseMap);
        logged
            .or_else(|| aged().map(by(MapWitness::Age)))
            .or_else(|| is_counted.map(by(MapWitness::BlockCount)))
            .or_else(|| self.decide_by_free_space(free).map(by(MapWitness::FreeSpace)))
            .or_else(|| contents::decide(self, stage).map(by(MapWitness::Contents)))
            .or_else(|| counts.decide(self, volume.geometry()).map(by(MapWitness::BlockOwners)))
            .or_else(|| self.decide_by_size(volume.geometry()).map(by(MapWitness::Size)))
    }

    fn decide_by_copy(&self, volume: &Volume, copy: &InodeCopy) -> Option<Side> {
        let logged = in_order(&extents_of_copy(volume, &self.inode, self.fork, copy)?)?;
        only_one(logged == self.mapped, logged == self.told)
    }

    /// Blocks that one side has alone, and that are free, speak against it.
    fn decide_by_free_space(&self, free: &FreeBlocks) -> Option<Side> {
        let is_free = |these: &[Extent], others: &[Extent]| {
            blocks_without(these, others).iter().any(|run| free.has_any_of(run))
        };
        only_one(!is_free(&self.mapped, &self.told), !is_free(&self.told, &self.mapped))
    }

    /// A file has its blocks below its size, some that were reserved aside.
    fn decide_by_size(&self, geometry: &Geometry) -> Option<Side> {
        if self.fork != Fork::Data || self.inode.file_type() != Some(FileType::Regular) {
            return None;
        }
        let end = self.inode.size_bytes().div_ceil(geometry.block_size() as u64);
        let below = |extents: &[Extent]| -> u64 {
            let length =
                |extent: &Extent| extent.end().get().min(end).saturating_sub(extent.file_block.get());
            extents.iter().map(length).fold(0, u64::saturating_add)
        };
        let (mapped, told) = (below(&self.mapped), below(&self.told));
        only_one(mapped > told, told > mapped)
    }
}

/// A file whose extent map was older has a size of that time: where it ends in another block than the last one, it ends with the contents.
fn follow_contents(volume: &Volume, stage: &Stage, number: InodeNumber) -> Result<()> {
    let Some(inode) = staged_inode(stage, number)? else { return Ok(()) };
    if inode.file_type() != Some(FileType::Regular) {
        return Ok(());
    }
    let Ok(map) = volume.extent_map(&inode, Fork::Data) else { return Ok(()) };
    let extents: Vec<Extent> = map.iter().collect();
    let end = extents.iter().map(|extent| extent.end().get()).max().unwrap_or(0);
    if inode.size_bytes().div_ceil(volume.geometry().block_size() as u64) != end {
        let size_bytes = end_of_contents(volume, &extents);
        change_core(stage, number, |core, _| core.size_bytes.set(size_bytes))?;
    }
    Ok(())
}

/// The extents of a fork that the log's copy of an inode has in the inode, where it is as new as the inode.
pub(super) fn extents_of_copy(
    volume: &Volume,
    inode: &Inode,
    fork: Fork,
    copy: &InodeCopy,
) -> Option<Vec<Extent>> {
    let has_fork = if fork == Fork::Data { copy.has_data_fork } else { copy.has_attribute_fork };
    let core = copy.core().filter(|_| has_fork && copy.lsn == Lsn::new(inode.core.lsn.get()))?;
    let logged = Inode::decode(&copy.bytes, core, volume.geometry())?;
    if logged.fork_format(fork) != Some(ForkFormat::Extents) {
        return None;
    }
    Some(volume.extent_map(&logged, fork).ok()?.iter().collect())
}

/// The extents by their place in the file, adjoining ones as one, without regard to what was written. `None` where two contradict each
/// other.
fn in_order(extents: &[Extent]) -> Option<Vec<Extent>> {
    let extents = extents.iter().map(|extent| Extent { is_unwritten: false, ..*extent }).collect();
    let (extents, is_consistent) = Owned { extents, btree_runs: Vec::new() }.union();
    is_consistent.then_some(extents)
}

fn blocks_of(extent: &Extent) -> Range<u64> {
    let start = extent.start.get();
    start..start.saturating_add(extent.length_blocks)
}

/// Blocks in order that the first extents have, and the others do not.
fn blocks_without(these: &[Extent], others: &[Extent]) -> Vec<Range<u64>> {
    // A damaged fork may have blocks several times: what overlaps is one run.
    let runs_of = |extents: &[Extent]| {
        let mut runs: Vec<Range<u64>> = extents.iter().map(blocks_of).collect();
        merge(&mut runs);
        runs
    };
    let (these, others, mut left) = (runs_of(these), runs_of(others), Vec::new());
    these.into_iter().for_each(|run| subtract(run, &others, |run| left.push(run)));
    left
}

/// Runs of free blocks, in order.
#[derive(Debug, Default)]
struct FreeBlocks(Vec<Range<u64>>);

impl FreeBlocks {
    /// Those that one side of these questions has alone. A group whose free space cannot be read has none.
    fn of(volume: &Volume, questions: &[Question]) -> Self {
        let geometry = volume.geometry();
        let mut asked: BTreeMap<AgNumber, Vec<Range<u64>>> = BTreeMap::new();
        for question in questions {
            let runs = blocks_without(&question.mapped, &question.told).into_iter();
            for run in runs.chain(blocks_without(&question.told, &question.mapped)) {
                if let Some((group, _)) = geometry.split_fs_block(FsBlock::new(run.start)) {
                    asked.entry(group).or_default().push(run);
                }
            }
        }
        let mut free = Vec::new();
        for (group, mut runs) in asked {
            merge(&mut runs);
            let Ok(extents) = volume.group(group).free_extents() else { continue };
            for extent in extents.map_while(std::result::Result::ok) {
                let Some(start) = geometry.fs_block(group, extent.start) else { break };
                let end = start.get().saturating_add(extent.length_blocks.into());
                let first = runs.partition_point(|run| run.end <= start.get());
                let is_asked = runs.get(first).is_some_and(|run| run.start < end);
                free.extend(is_asked.then_some(start.get()..end));
            }
        }
        Self(free)
    }

    fn has_all_of(&self, run: &Range<u64>) -> bool {
        let first = self.0.partition_point(|free| free.end <= run.start);
        self.0.get(first).is_some_and(|free| free.start <= run.start && run.end <= free.end)
    }

    fn has_any_of(&self, run: &Range<u64>) -> bool {
        let first = self.0.partition_point(|free| free.end <= run.start);
        self.0.get(first).is_some_and(|free| free.start < run.end)
    }
}

/// Makes runs that meet or overlap one, in order.
fn merge(runs: &mut Vec<Range<u64>>) {
    runs.sort_unstable_by_key(|run| (run.start, run.end));
    runs.dedup_by(|next, last| {
        let is_one = next.start <= last.end;
        if is_one {
            last.end = last.end.max(next.end);
        }
        is_one
    });
}

mod ages;
mod block_counts;
mod contents;
mod unproved;

#[cfg(test)]
mod tests {
    use uxfs_format::units::FileBlock;

    use super::*;

    fn extent(file_block: u64, start: u64, length_blocks: u64) -> Extent {
        Extent {
            file_block: FileBlock::new(file_block),
            start: FsBlock::new(start),
            length_blocks,
            is_unwritten: false,
        }
    }

    #[test]
    fn what_one_side_has_alone() {
        let these = [extent(0, 10, 10), extent(10, 100, 5)];
        let others = [extent(0, 12, 3), extent(20, 17, 1), extent(30, 104, 9)];
        assert_eq!(blocks_without(&these, &others), [10..12, 15..17, 18..20, 100..104]);
        assert_eq!(blocks_without(&these, &[]), [10..20, 100..105]);
        let last = blocks_without(&others, &these);
        assert_eq!((last.len(), last.first()), (1, Some(&(105..113))));
    }

    #[test]
    fn runs_become_one() {
        let mut runs = vec![5..7, 1..3, 3..4, 6..20, 8..9];
        merge(&mut runs);
        assert_eq!(runs, [1..4, 5..20]);
    }

    #[test]
    fn one_witness_decides_only_for_one() {
        assert_eq!(only_one(true, false), Some(Side::ExtentMap));
        assert_eq!(only_one(false, true), Some(Side::ReverseMap));
        assert_eq!((only_one(true, true), only_one(false, false)), (None, None));
    }
}

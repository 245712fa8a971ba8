//! The extents of one group against each other.

use std::{collections::BTreeMap, ops::Range};

use uxfs_block::spill::SpillError;
use uxfs_format::{
    btree::reverse_map::Owner,
    units::{AgBlock, AgNumber},
};

use super::{
    edges::{EdgeReader, OwnerEdge, SpaceEdge},
    list::{UseKind, UseOwner},
};
use crate::{finding::Finding, sink::Sink};

/// Which sources of the list were read to their end: blocks of the others are missing from it, and that proves nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub group: AgNumber,
    /// All structures of the group could be read.
    pub are_structures_complete: bool,
    /// All files could.
    pub are_files_complete: bool,
    /// The reverse mapping btree could.
    pub is_reverse_map_complete: bool,
    pub has_reference_counts: bool,
}

/// A fault of a run of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpaceFault {
    FreeInUse(u64),
    UsedTwice(u64, u64),
    Unused,
    Count { found: u32, expected: u32 },
}

/// Owners of one block whose uses are told apart; of more, only the number is kept.
const MOST_OWNERS: usize = 1 << 16;

/// Free and used blocks of the group that `known` is about.
pub(crate) fn compare_space(
    sink: &Sink<'_>,
    known: &Known,
    edges: &mut EdgeReader<SpaceEdge>,
    length_blocks: u32,
) -> Result<(), SpillError> {
    let mut state = SpaceState::default();
    let mut run: Option<(SpaceFault, Range<u32>)> = None;
    let mut at = 0;
    loop {
        let next = edges.peek(known.group.get())?.map_or(length_blocks, |edge| edge.block.min(length_blocks));
        if next > at {
            run = extend(sink, known.group, run, state.judge(known), at..next);
            at = next;
        }
        let Some(edge) = edges.next(known.group.get())? else { break };
        state.change(&edge);
        if sink.is_stopped() {
            return Ok(());
        }
    }
    extend(sink, known.group, run, None, at..at);
    Ok(())
}

/// Adds blocks to the run before them where they have the same fault, and reports that run where they have not.
fn extend(
    sink: &Sink<'_>,
    group: AgNumber,
    run: Option<(SpaceFault, Range<u32>)>,
    fault: Option<SpaceFault>,
    blocks: Range<u32>,
) -> Option<(SpaceFault, Range<u32>)> {
    match run {
        Some((before, range)) if Some(before) == fault && range.end == blocks.start => {
            return Some((before, range.start..blocks.end));
        }
        Some((before, range)) => sink.add(before.finding(group, &range)),
        None => {}
    }
    fault.map(|fault| (fault, blocks))
}

impl SpaceFault {
    fn finding(self, group: AgNumber, blocks: &Range<u32>) -> Finding {
        let (start, length_blocks) = (AgBlock::new(blocks.start), blocks.end.saturating_sub(blocks.start));
        match self {
            Self::FreeInUse(owner) => {
                let owner = Owner::from_raw(owner);
                Finding::FreeBlocksInUse { group, start, length_blocks, owner }
            }
            Self::UsedTwice(first, second) => {
                let (first, second) = (Owner::from_raw(first), Owner::from_raw(second));
                Finding::BlocksUsedTwice { group, start, length_blocks, first, second }
            }
            Self::Unused => Finding::BlocksUnused { group, start, length_blocks },
            Self::Count { found, expected } => {
                Finding::ReferenceCount { group, start, length_blocks, found, expected }
            }
        }
    }
}

/// Use of the block that a sweep has come to.
#[derive(Debug, Default)]
struct SpaceState {
    free: u32,
    /// How often each owner has it.
    owners: BTreeMap<u64, u32>,
    /// An owner that found no place there.
    further_owner: u64,
    /// All of them.
    uses: u32,
    /// Those that are files.
    files: u32,
    counted: Option<u32>,
}

impl SpaceState {
    fn change(&mut self, edge: &SpaceEdge) {
        let is_start = edge.is_start;
        match edge.kind {
            UseKind::Free => count(&mut self.free, is_start),
            UseKind::Counted(found) => self.counted = is_start.then_some(found),
            UseKind::Mapped => {}
            UseKind::Shown => {
                self.change_owner(edge.owner, is_start);
                count(&mut self.uses, is_start);
                if matches!(Owner::from_raw(edge.owner), Owner::Inode(_)) {
                    count(&mut self.files, is_start);
                }
            }
        }
    }

    fn change_owner(&mut self, owner: u64, is_start: bool) {
        let has_room = self.owners.len() < MOST_OWNERS;
        match self.owners.get_mut(&owner) {
            Some(times) => {
                count(times, is_start);
                if *times == 0 {
                    self.owners.remove(&owner);
                }
            }
            None if !is_start => {}
            None if has_room => {
                self.owners.insert(owner, 1);
            }
            None => self.further_owner = owner,
        }
    }

    fn judge(&self, known: &Known) -> Option<SpaceFault> {
        let mut owners = self.owners.keys().copied();
        let further = (self.uses > 0).then_some(self.further_owner);
        let (first, second) = (owners.next().or(further), owners.next());
        if let (Some(first), true) = (first, self.free > 0) {
            return Some(SpaceFault::FreeInUse(first));
        }
        if self.uses > 1 && (self.files < self.uses || !known.has_reference_counts) {
            let first = first.unwrap_or_default();
            return Some(SpaceFault::UsedTwice(first, second.unwrap_or(first)));
        }
        let is_all_known = known.are_structures_complete && known.are_files_complete;
        if self.uses == 0 && self.free == 0 {
            return is_all_known.then_some(SpaceFault::Unused);
        }
        let found = self.counted.unwrap_or(1);
        let expected = if self.counted.is_some() { self.files } else { self.files.max(1) };
        let is_proof = is_all_known || (known.are_structures_complete && found < expected);
        (found != expected && is_proof).then_some(SpaceFault::Count { found, expected })
    }
}

fn count(counter: &mut u32, is_start: bool) {
    *counter = if is_start { counter.saturating_add(1) } else { counter.saturating_sub(1) };
}

/// Compares the uses by structures and files with the records of the reverse mapping btree, in the group that `known` is about.
pub(crate) fn compare_owners(
    sink: &Sink<'_>,
    known: &Known,
    edges: &mut EdgeReader<OwnerEdge>,
) -> Result<(), SpillError> {
    let mut state: Option<OwnerState> = None;
    while let Some(edge) = edges.next(known.group.get())? {
        if state.as_ref().is_none_or(|state| state.owner != edge.owner) {
            state.replace(OwnerState::of(edge.owner)).into_iter().for_each(|state| state.finish(sink, known));
        }
        if let Some(state) = &mut state {
            state.change(sink, known, &edge);
        }
        if sink.is_stopped() {
            return Ok(());
        }
    }
    state.into_iter().for_each(|state| state.finish(sink, known));
    Ok(())
}

/// Blocks of one owner.
struct OwnerState {
    owner: UseOwner,
    shown: u32,
    mapped: u32,
    at: u32,
    /// Blocks that only one side has, and whether it is the structures and files.
    run: Option<(bool, Range<u32>)>,
}

impl OwnerState {
    fn of(owner: UseOwner) -> Self {
        Self { owner, shown: 0, mapped: 0, at: 0, run: None }
    }

    fn change(&mut self, sink: &Sink<'_>, known: &Known, edge: &OwnerEdge) {
        if edge.block > self.at {
            let blocks = self.at..edge.block;
            let fault = ((self.shown > 0) != (self.mapped > 0)).then_some(self.shown > 0);
            match (&mut self.run, fault) {
                (Some((before, run)), Some(now)) if *before == now && run.end == blocks.start => {
                    run.end = blocks.end;
                }
                _ => {
                    self.report(sink, known);
                    self.run = fault.map(|is_shown| (is_shown, blocks));
                }
            }
            self.at = edge.block;
        }
        count(if edge.is_mapped { &mut self.mapped } else { &mut self.shown }, edge.is_start);
    }

    fn report(&mut self, sink: &Sink<'_>, known: &Known) {
        if let Some((is_shown, blocks)) = self.run.take() {
            report_owner(sink, known, &self.owner, is_shown, &blocks);
        }
    }

    fn finish(mut self, sink: &Sink<'_>, known: &Known) {
        self.report(sink, known);
    }
}

fn report_owner(sink: &Sink<'_>, known: &Known, owner: &UseOwner, is_shown: bool, blocks: &Range<u32>) {
    let group = known.group;
    let mapping = owner.mapping(blocks.start, blocks.end.saturating_sub(blocks.start));
    let is_complete = match owner.owner() {
        Owner::Inode(_) => known.are_files_complete,
        _ => known.are_structures_complete,
    };
    if is_shown && known.is_reverse_map_complete {
        sink.add(Finding::MappingMissing { group, mapping });
    } else if !is_shown && is_complete {
        sink.add(Finding::MappingWithoutOwner { group, mapping });
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;

//! The extents of one group against each other.

use std::{collections::BTreeMap, ops::Range};

use uxfs_format::{
    btree::reverse_map::Owner,
    units::{AgBlock, AgNumber},
};

use super::list::{BlockUse, UseKind, UseOwner};
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

/// Free and used blocks: `uses` are those of one group.
pub(crate) fn compare_space(sink: &Sink<'_>, known: &Known, uses: &[BlockUse], length_blocks: u32) {
    let mut edges: Vec<(u32, bool, usize)> = Vec::new();
    for (index, one) in uses.iter().enumerate().filter(|(_, one)| one.kind != UseKind::Mapped) {
        edges.push((one.start, true, index));
        edges.push((one.end, false, index));
    }
    edges.sort_unstable();
    let mut state = SpaceState::default();
    let mut run: Option<(SpaceFault, Range<u32>)> = None;
    let mut edges = edges.into_iter().peekable();
    let mut at = 0;
    loop {
        let next = edges.peek().map_or(length_blocks, |(block, ..)| (*block).min(length_blocks));
        if next > at {
            run = extend(sink, known.group, run, state.judge(known), at..next);
            at = next;
        }
        let Some((_, is_start, index)) = edges.next() else { break };
        if let Some(one) = uses.get(index) {
            state.change(one, is_start);
        }
        if sink.is_stopped() {
            return;
        }
    }
    extend(sink, known.group, run, None, at..at);
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
    /// All of them.
    uses: u32,
    /// Those that are files.
    files: u32,
    counted: Option<u32>,
}

impl SpaceState {
    fn change(&mut self, one: &BlockUse, is_start: bool) {
        match one.kind {
            UseKind::Free => count(&mut self.free, is_start),
            UseKind::Counted(found) => self.counted = is_start.then_some(found),
            UseKind::Mapped => {}
            UseKind::Shown => {
                let owner = one.owner.owner().raw();
                let times = self.owners.entry(owner).or_default();
                count(times, is_start);
                if *times == 0 {
                    self.owners.remove(&owner);
                }
                count(&mut self.uses, is_start);
                if matches!(one.owner.owner(), Owner::Inode(_)) {
                    count(&mut self.files, is_start);
                }
            }
        }
    }

    fn judge(&self, known: &Known) -> Option<SpaceFault> {
        let mut owners = self.owners.keys().copied();
        let (first, second) = (owners.next(), owners.next());
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

/// Compares the uses by structures and files with the records of the reverse mapping btree; sorts `uses`, those of one group.
pub(crate) fn compare_owners(sink: &Sink<'_>, known: &Known, uses: &mut [BlockUse]) {
    uses.sort_unstable_by_key(|one| (one.owner, one.start, one.kind));
    for of_owner in uses.chunk_by(|one, next| one.owner == next.owner) {
        let Some(first) = of_owner.first() else { continue };
        compare_owner(sink, known, &first.owner, of_owner);
        if sink.is_stopped() {
            return;
        }
    }
}

fn compare_owner(sink: &Sink<'_>, known: &Known, owner: &UseOwner, uses: &[BlockUse]) {
    let mut edges: Vec<(u32, i32, i32)> = Vec::new();
    for one in uses {
        let (shown, mapped) = match one.kind {
            UseKind::Shown => (1, 0),
            UseKind::Mapped => (0, 1),
            UseKind::Free | UseKind::Counted(_) => continue,
        };
        edges.push((one.start, shown, mapped));
        edges.push((one.end, -shown, -mapped));
    }
    edges.sort_unstable();
    let (mut shown, mut mapped, mut at) = (0_i32, 0_i32, 0);
    let mut run: Option<(bool, Range<u32>)> = None;
    let report = |run: Option<(bool, Range<u32>)>| {
        if let Some((is_shown, blocks)) = run {
            report_owner(sink, known, owner, is_shown, &blocks);
        }
    };
    for (block, of_shown, of_mapped) in edges {
        if block > at {
            let fault = ((shown > 0) != (mapped > 0)).then_some(shown > 0);
            run = match (run, fault) {
                (Some((before, range)), Some(now)) if before == now && range.end == at => {
                    Some((before, range.start..block))
                }
                (run, fault) => {
                    report(run);
                    fault.map(|is_shown| (is_shown, at..block))
                }
            };
            at = block;
        }
        (shown, mapped) = (shown.saturating_add(of_shown), mapped.saturating_add(of_mapped));
    }
    report(run);
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

//! How long allocation groups are, and how many there are.

use std::cmp::Reverse;

use uxfs_format::superblock::{MAX_AG_BYTES, MIN_AG_BYTES, MIN_LAST_AG_BLOCKS};

use super::evidence::{Evidence, GroupEvidence};

/// Votes of a header that says how long its group is: the last group may be shorter.
const LENGTH_WEIGHT: u64 = 16;
/// Lengths that are compared with the places of blocks.
const MOST_CANDIDATES: usize = 64;

/// The groups of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Groups {
    /// Blocks of a full one.
    pub blocks: u32,
    pub count: u32,
    pub data_blocks: u64,
}

/// From all that is known; `None` where nothing tells their length.
pub(super) fn groups(device_bytes: u64, evidence: &Evidence, block_bytes: u64) -> Option<Groups> {
    let group_bytes = group_bytes(evidence, block_bytes)?;
    let blocks = u32::try_from(group_bytes / block_bytes).ok()?;
    let count = count(device_bytes, evidence, group_bytes, block_bytes);
    let last = count.checked_sub(1)?;
    let start = u64::from(last) * group_bytes;
    let on_device = device_bytes.saturating_sub(start) / block_bytes;
    let on_device = u32::try_from(on_device).unwrap_or(u32::MAX).min(blocks);
    let known = evidence.groups.get(&last).copied().unwrap_or_default();
    let may_be_last = |length: &u32| (MIN_LAST_AG_BLOCKS..=blocks.into()).contains(&(*length).into());
    let by_records = if evidence.features.has_reverse_map() {
        Some(known.end_block).filter(may_be_last)
    } else {
        // Without owners, space at the end that is in use is in no record.
        Some(known.end_block.max(on_device)).filter(may_be_last)
    };
    let length = known.length_blocks.filter(may_be_last).or(by_records).unwrap_or(on_device);
    Some(Groups { blocks, count, data_blocks: u64::from(last) * u64::from(blocks) + u64::from(length) })
}

/// The length that contradicts the fewest places of btree blocks, and of those the one with the most votes.
fn group_bytes(evidence: &Evidence, block_bytes: u64) -> Option<u64> {
    let mut votes = evidence.group_bytes.clone();
    let mut longest = 0;
    for group in evidence.groups.values() {
        if let Some(length) = group.length_blocks {
            votes.add(u64::from(length) * block_bytes, LENGTH_WEIGHT);
        }
        longest = longest.max(group.end_block);
    }
    let longest = u64::from(longest) * block_bytes;
    // Free space alone need not reach the end of any group.
    if evidence.features.has_reverse_map() || has_root_behind_headers(evidence, longest, block_bytes) {
        votes.add(longest, 1);
    }
    let is_possible =
        |bytes: u64| (MIN_AG_BYTES..MAX_AG_BYTES).contains(&bytes) && bytes.is_multiple_of(block_bytes);
    let mut candidates: Vec<_> = votes.iter().filter(|(bytes, _)| is_possible(*bytes)).collect();
    candidates.sort_by_key(|(bytes, votes)| (Reverse(*votes), *bytes));
    candidates.truncate(MOST_CANDIDATES);
    let contradictions = |bytes: u64| {
        let groups = evidence.groups.iter();
        groups.filter(|(number, group)| !is_within(**number, group, bytes)).count()
    };
    candidates
        .into_iter()
        .min_by_key(|(bytes, votes)| (contradictions(*bytes), Reverse(*votes), *bytes))
        .map(|(bytes, _)| bytes)
}

/// Whether in some group but the first the first btree block is where roots are made, if groups have so many bytes.
fn has_root_behind_headers(evidence: &Evidence, group_bytes: u64, block_bytes: u64) -> bool {
    const MOST_HEADER_BLOCKS: u64 = 16;
    evidence.groups.iter().filter(|(number, _)| **number > 0).any(|(number, group)| {
        let start = u64::from(*number).saturating_mul(group_bytes);
        let first = group.blocks.and_then(|(first, _)| first.checked_sub(start));
        first.is_some_and(|first| first <= MOST_HEADER_BLOCKS * block_bytes)
    })
}

/// Whether the blocks of a group lie in it, if groups have so many bytes.
fn is_within(number: u32, group: &GroupEvidence, group_bytes: u64) -> bool {
    let start = u64::from(number).saturating_mul(group_bytes);
    group.blocks.is_none_or(|(first, last)| first >= start && last < start.saturating_add(group_bytes))
}

/// A group exists where something of it lies, or an extent names it.
fn count(device_bytes: u64, evidence: &Evidence, group_bytes: u64, block_bytes: u64) -> u32 {
    let is_on_device =
        |group: &u32| u64::from(*group).checked_mul(group_bytes).is_some_and(|start| start < device_bytes);
    let known = evidence.groups.iter().filter(|(number, group)| is_within(**number, group, group_bytes));
    let known = known.map(|(number, _)| *number).filter(is_on_device).max();
    let block_log = (group_bytes / block_bytes).next_power_of_two().ilog2();
    let named = u32::try_from(evidence.last_fs_block >> block_log).ok().filter(is_on_device);
    known.max(named).map_or(1, |last| last.saturating_add(1))
}

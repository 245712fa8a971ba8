//! Entries of sound leaves that contradict what they lead to: the place of a value where none of its length begins, and the mark of a
//! parent pointer on a name with the hash of another attribute.
//!
//! They are corrected where they lie, before blocks are looked at: the block to which a wrong entry leads is not a damaged one.

use std::{cmp::Ordering, collections::BTreeSet};

use uxfs_format::{
    attribute::{
        flags::AttributeFlags,
        leaf::{LeafAttribute, LeafBlock, LeafEntry, LeafValue},
        parent_pointer::ParentRecord,
    },
    checksum,
    directory::name_hash,
    fault::Structure,
    geometry::Geometry,
    inode::{Fork, ForkFormat},
    name_tree::header::CHECKSUM_OFFSET_BYTES,
    units::{FileBlock, InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::entry::{clear_flags, set_remote_length, set_value_place};
use crate::{
    attribute::stored_values::{SearchBudget, StoredValues},
    repair::{action::Action, stage::Stage},
};

/// Corrects entries of these inodes. Gives whether there were any.
///
/// # Errors
/// The device.
pub(crate) fn mend(
    volume: &Volume,
    stage: &Stage,
    inodes: &BTreeSet<InodeNumber>,
    budget: &SearchBudget,
    actions: &mut Vec<Action>,
) -> Result<bool> {
    let before = actions.len();
    for inode in inodes {
        let Ok(found) = volume.inode(*inode) else { continue };
        let format = found.fork_format(Fork::Attribute);
        if !matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree)) {
            continue;
        }
        let Some(values) = StoredValues::new(volume, stage, *inode, budget) else { continue };
        for sector in values.leaves() {
            let mut bytes = vec![0; stage.geometry().block_size()];
            stage.read_at(*sector, &mut bytes)?;
            if let Some(guessed) = mend_leaf(&mut bytes, *sector, &values, stage.geometry()) {
                stage.write_at(*sector, &bytes)?;
                let (structure, inode, sector) = (Structure::AttributeLeaf, *inode, *sector);
                actions.push(Action::BlockField { structure, inode, sector, removed: 0, guessed });
            }
        }
    }
    Ok(actions.len() > before)
}

/// The right value of a field of an entry.
#[derive(Clone, Copy)]
enum Change {
    Place(FileBlock),
    /// Whether it is a guess.
    Length(u32, bool),
    NoParent,
}

/// Corrects one entry. Gives how many guesses that was; `None` where nothing was done.
fn mend_leaf(
    bytes: &mut [u8],
    sector: Sector,
    values: &StoredValues<'_>,
    geometry: &Geometry,
) -> Option<u32> {
    let leaf = LeafBlock::parse(bytes, geometry).ok()?;
    verify(Structure::AttributeLeaf, bytes, &VerifyContext::new(geometry, sector)).ok()?;
    let wrong =
        leaf.entries.iter().zip(leaf.attributes()).enumerate().filter_map(|(index, (entry, attribute))| {
            Some((index, change_of(entry, &attribute.ok()?, values, geometry)?))
        });
    let wrong: Vec<_> = wrong.collect();
    let (index, change, guessed) = match wrong[..] {
        [] => {
            let (index, first_block) = one_of_two(&leaf, values)?;
            (index, Change::Place(first_block), 1)
        }
        [(index, change)] => (index, change, u32::from(matches!(change, Change::Length(_, true)))),
        // Two that lack a value may lack that of the other.
        _ => return None,
    };
    let is_changed = match change {
        Change::Place(first_block) => set_value_place(bytes, index, first_block),
        Change::Length(length_bytes, _) => set_remote_length(bytes, index, length_bytes),
        Change::NoParent => clear_flags(bytes, index, AttributeFlags::PARENT),
    };
    checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
    is_changed.then_some(guessed)
}

/// Of two entries that lead to one value, where one value is lost: the one to which it belongs, and its place. Names are put into a leaf
/// from its end on, and values into the fork from its start: the order of the others tells, where nothing was removed.
fn one_of_two(leaf: &LeafBlock<'_>, values: &StoredValues<'_>) -> Option<(usize, FileBlock)> {
    let mut remote = remote_entries(leaf);
    remote.sort_unstable();
    let mut pairs = remote.windows(2).filter_map(|pair| match pair {
        [one, other] if one.value() == other.value() => Some((*one, *other)),
        _ => None,
    });
    let (one, other) = pairs.next()?;
    if pairs.next().is_some() {
        return None;
    }
    let lost = values.lost_value_of_two(one.length_bytes)?;
    // How many pairs lie in another order by name than by value.
    let contradictions = |pair: [RemoteEntry; 2]| {
        let others = remote.iter().filter(|third| pair.iter().all(|one| one.index != third.index));
        let of_others = others.map(|third| pair.iter().filter(|one| one.contradicts(third)).count());
        let [first, second] = &pair;
        of_others.sum::<usize>() + usize::from(first.contradicts(second))
    };
    let of_one = contradictions([RemoteEntry { first_block: lost, ..one }, other]);
    let of_other = contradictions([one, RemoteEntry { first_block: lost, ..other }]);
    match of_one.cmp(&of_other) {
        Ordering::Less => Some((one.index, lost)),
        Ordering::Greater => Some((other.index, lost)),
        Ordering::Equal => None,
    }
}

/// An entry whose value lies in blocks of its own, in the order of values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RemoteEntry {
    first_block: FileBlock,
    /// Among the entries of the leaf.
    index: usize,
    /// Where the name lies in the leaf.
    name_offset_bytes: u16,
    length_bytes: u32,
}

impl RemoteEntry {
    fn value(&self) -> (FileBlock, u32) {
        (self.first_block, self.length_bytes)
    }

    /// Whether the order of names in the leaf is not the reverse of that of values in the fork.
    fn contradicts(&self, other: &Self) -> bool {
        (other.name_offset_bytes > self.name_offset_bytes) == (other.first_block > self.first_block)
    }
}

fn remote_entries(leaf: &LeafBlock<'_>) -> Vec<RemoteEntry> {
    let entries = leaf.entries.iter().zip(leaf.attributes()).enumerate();
    let remote = entries.filter_map(|(index, (entry, attribute))| match attribute.ok()?.value {
        LeafValue::Remote { first_block, length_bytes } => {
            let name_offset_bytes = entry.name_offset.get();
            Some(RemoteEntry { first_block, index, name_offset_bytes, length_bytes })
        }
        LeafValue::Local(_) => None,
    });
    remote.collect()
}

fn change_of(
    entry: &LeafEntry,
    attribute: &LeafAttribute<'_>,
    values: &StoredValues<'_>,
    geometry: &Geometry,
) -> Option<Change> {
    match attribute.value {
        LeafValue::Local(value) => {
            let can_be_pointer =
                geometry.features.has_parent_pointers() && ParentRecord::verify(value, geometry).is_ok();
            let is_lie = attribute.flags.contains(AttributeFlags::PARENT)
                && !can_be_pointer
                && name_hash::hash(attribute.name) == entry.hash.get();
            is_lie.then_some(Change::NoParent)
        }
        LeafValue::Remote { .. } if attribute.flags.contains(AttributeFlags::INCOMPLETE) => None,
        // Parent pointers lie in leaves.
        LeafValue::Remote { .. } if attribute.flags.contains(AttributeFlags::PARENT) => {
            (name_hash::hash(attribute.name) == entry.hash.get()).then_some(Change::NoParent)
        }
        LeafValue::Remote { first_block, length_bytes } => match values.known_length(first_block) {
            Some(told) => length_change(values, first_block, [length_bytes, told]),
            None if values.is_no_start(first_block) => values.lost_value(length_bytes).map(Change::Place),
            None => None,
        },
    }
}

/// Where the blocks of a value say another length than the entry, what lies between the two ends tells: more than zeros are part of the
/// value. Where the blocks are wrong, they are corrected as blocks.
fn length_change(values: &StoredValues<'_>, first_block: FileBlock, [own, told]: [u32; 2]) -> Option<Change> {
    if own == told {
        return None;
    }
    let has_data = values.has_data_between(first_block, [own, told])?;
    let right = if has_data { own.max(told) } else { own.min(told) };
    (right == told).then_some(Change::Length(told, !has_data))
}

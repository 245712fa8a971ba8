//! The records of a reverse mapping btree, from the extents that structures and files have.

use std::collections::{HashMap, hash_map::Entry};

use uxfs_format::{
    btree::{
        BtreeKind,
        reverse_map::{Mapping, ReverseMap, ReverseMapRecord},
    },
    units::AgBlock,
};

/// Puts mappings in order, and joins those that Linux would have joined: neighbours with owner and flags in common, whose file blocks
/// count on.
pub(crate) fn records(mut mappings: Vec<Mapping>) -> Vec<ReverseMapRecord> {
    let record = |mapping: &Mapping| ReverseMapRecord::from(*mapping);
    mappings.sort_unstable_by_key(|mapping| ReverseMap::position_of_record(&record(mapping)));
    // A shared block has several mappings, so that the neighbour of a mapping need not be the one before it; of a block that very many
    // files share, all may be open.
    let mut joined: Vec<Mapping> = Vec::with_capacity(mappings.len());
    // By what would continue it: where a mapping that may be continued stands in the list.
    let mut open: HashMap<Continuation, usize> = HashMap::new();
    let mut most_open = MOST_OPEN;
    for mapping in mappings {
        if open.len() > most_open {
            // What ends before this block cannot be continued any more.
            open.retain(|continuation, _| continuation.start >= mapping.start);
            most_open = MOST_OPEN.max(open.len().saturating_mul(2));
        }
        let index = open.remove(&Continuation::that_is(&mapping)).unwrap_or(joined.len());
        match joined.get_mut(index) {
            Some(before) => before.length_blocks = before.length_blocks.saturating_add(mapping.length_blocks),
            None => joined.push(mapping),
        }
        if let Some(last) = joined.get(index)
            && let Entry::Vacant(place) = open.entry(Continuation::of(last))
        {
            place.insert(index);
        }
    }
    joined.iter().map(record).collect()
}

/// Mappings that may be continued before those that cannot be any more are thrown out.
const MOST_OPEN: usize = 1 << 12;

/// What a mapping must be to be the rest of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Continuation {
    start: AgBlock,
    owner: u64,
    file_block: Option<u64>,
    flags: [bool; 3],
}

impl Continuation {
    /// What continues this one.
    fn of(before: &Mapping) -> Self {
        let file_block = before.file_block.get().wrapping_add(before.length_blocks.into());
        Self::new(before, before.end(), file_block)
    }

    /// What this one is.
    fn that_is(mapping: &Mapping) -> Self {
        Self::new(mapping, mapping.start, mapping.file_block.get())
    }

    fn new(mapping: &Mapping, start: AgBlock, file_block: u64) -> Self {
        let file_block = mapping.has_file_blocks().then_some(file_block);
        let flags = [mapping.is_attribute_fork, mapping.is_extent_map_block, mapping.is_unwritten];
        Self { start, owner: mapping.owner.raw(), file_block, flags }
    }
}

#[cfg(test)]
mod tests {
    use uxfs_format::{
        btree::reverse_map::Owner,
        units::{AgBlock, FileBlock, InodeNumber},
    };

    use super::*;

    fn of_file(start: u32, length_blocks: u32, file_block: u64) -> Mapping {
        let owner = Owner::Inode(InodeNumber::new(131));
        let mapping = Mapping::of_group(AgBlock::new(start), length_blocks, owner);
        Mapping { file_block: FileBlock::new(file_block), ..mapping }
    }

    #[test]
    fn neighbours_are_joined_where_linux_joins_them() {
        let other = Mapping { owner: Owner::Inode(InodeNumber::new(132)), ..of_file(12, 4, 0) };
        let unwritten = Mapping { is_unwritten: true, ..of_file(20, 2, 10) };
        let chunks = |start| Mapping::of_group(AgBlock::new(start), 8, Owner::InodeChunks);
        let all = vec![
            of_file(14, 6, 4),
            chunks(48),
            other,
            of_file(10, 4, 0),
            unwritten,
            chunks(40),
            of_file(30, 1, 11),
        ];
        let joined: Vec<Mapping> = records(all).iter().map(ReverseMapRecord::get).collect();
        let whole = Mapping { length_blocks: 10, ..of_file(10, 4, 0) };
        let both = Mapping { length_blocks: 16, ..chunks(40) };
        assert_eq!(joined, [whole, other, unwritten, of_file(30, 1, 11), both]);
    }
}

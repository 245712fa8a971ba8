//! The records of a reverse mapping btree, from the extents that structures and files have.

use uxfs_format::btree::{
    BtreeKind,
    reverse_map::{Mapping, ReverseMap, ReverseMapRecord},
};

/// Puts mappings in order, and joins those that Linux would have joined: neighbours with owner and flags in common, whose file blocks
/// count on.
pub(crate) fn records(mut mappings: Vec<Mapping>) -> Vec<ReverseMapRecord> {
    let record = |mapping: &Mapping| ReverseMapRecord::from(*mapping);
    mappings.sort_unstable_by_key(|mapping| ReverseMap::position_of_record(&record(mapping)));
    // A shared block has several mappings, so that the neighbour of a mapping need not be the one before it.
    let mut joined: Vec<Mapping> = Vec::with_capacity(mappings.len());
    let mut open: Vec<usize> = Vec::new();
    for mapping in mappings {
        open.retain(|index| joined.get(*index).is_some_and(|before| before.end() >= mapping.start));
        let neighbour =
            open.iter().find(|index| joined.get(**index).is_some_and(|before| continues(before, &mapping)));
        match neighbour.and_then(|index| joined.get_mut(*index)) {
            Some(before) => before.length_blocks = before.length_blocks.saturating_add(mapping.length_blocks),
            None => {
                open.push(joined.len());
                joined.push(mapping);
            }
        }
    }
    joined.iter().map(record).collect()
}

/// Whether `next` is the rest of what `before` is the beginning of.
fn continues(before: &Mapping, next: &Mapping) -> bool {
    let continues_in_file = !before.has_file_blocks()
        || before.file_block.get().checked_add(before.length_blocks.into()) == Some(next.file_block.get());
    before.end() == next.start
        && before.owner == next.owner
        && before.is_attribute_fork == next.is_attribute_fork
        && before.is_extent_map_block == next.is_extent_map_block
        && before.is_unwritten == next.is_unwritten
        && continues_in_file
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

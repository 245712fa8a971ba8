//! The records of a reference count btree, from the extents that files have; and what no reference count can allow.

use std::ops::Range;

use uxfs_format::{
    btree::{
        reference_count::{ReferenceCountRecord, SharedExtent},
        reverse_map::{Mapping, Owner},
    },
    units::AgBlock,
};

/// Blocks that several have: files that share them, or a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shared {
    /// In order, neighbours with one count joined.
    pub extents: Vec<SharedExtent>,
    /// Blocks that not all of their owners may share, in order.
    pub conflicts: Vec<Range<u32>>,
    /// All blocks that anything has, in order, neighbours joined.
    pub in_use: Vec<Range<u32>>,
}

impl Shared {
    /// Of all mappings of a group. `may_share`: the file system has reference counts.
    pub fn of(mappings: &[Mapping], may_share: bool) -> Self {
        Self::with(mappings, &|mapping| may_share && is_shareable(mapping))
    }

    /// Of all mappings of a group, of which some may be shared.
    pub fn with(mappings: &[Mapping], may_share: &dyn Fn(&Mapping) -> bool) -> Self {
        let mut edges: Vec<(u32, bool, bool)> = Vec::with_capacity(mappings.len() * 2);
        for mapping in mappings {
            let is_shareable = may_share(mapping);
            edges.push((mapping.start.get(), true, is_shareable));
            edges.push((mapping.end().get(), false, is_shareable));
        }
        edges.sort_unstable();
        let mut shared = Self::default();
        let (mut uses, mut files, mut at) = (0_u32, 0_u32, 0_u32);
        for (block, is_start, is_shareable) in edges {
            if block > at {
                shared.add(at..block, uses, files);
                at = block;
            }
            let change =
                |count: u32| if is_start { count.saturating_add(1) } else { count.saturating_sub(1) };
            uses = change(uses);
            if is_shareable {
                files = change(files);
            }
        }
        shared
    }

    fn add(&mut self, blocks: Range<u32>, uses: u32, files: u32) {
        if uses > 0 {
            join(&mut self.in_use, &blocks);
        }
        if uses > 1 && files < uses {
            join(&mut self.conflicts, &blocks);
        } else if uses > 1 {
            let (start, length_blocks) =
                (AgBlock::new(blocks.start), blocks.end.saturating_sub(blocks.start));
            match self.extents.last_mut() {
                Some(last) if last.count == files && end(last) == blocks.start => {
                    last.length_blocks = last.length_blocks.saturating_add(length_blocks);
                }
                _ => self.extents.push(SharedExtent {
                    start,
                    length_blocks,
                    count: files,
                    is_cow_staging: false,
                }),
            }
        }
    }

    /// The records.
    pub fn records(&self) -> Vec<ReferenceCountRecord> {
        self.extents.iter().map(|extent| (*extent).into()).collect()
    }
}

fn end(extent: &SharedExtent) -> u32 {
    extent.start.get().saturating_add(extent.length_blocks)
}

fn join(ranges: &mut Vec<Range<u32>>, blocks: &Range<u32>) {
    match ranges.last_mut() {
        Some(last) if last.end == blocks.start => last.end = blocks.end,
        _ => ranges.push(blocks.clone()),
    }
}

/// Contents of a file can be shared; btree blocks and attributes cannot.
pub(crate) fn is_shareable(mapping: &Mapping) -> bool {
    matches!(mapping.owner, Owner::Inode(_)) && mapping.has_file_blocks() && !mapping.is_attribute_fork
}

#[cfg(test)]
mod tests {
    use uxfs_format::units::{FileBlock, InodeNumber};

    use super::*;

    fn of_file(inode: u64, start: u32, length_blocks: u32) -> Mapping {
        let mapping =
            Mapping::of_group(AgBlock::new(start), length_blocks, Owner::Inode(InodeNumber::new(inode)));
        Mapping { file_block: FileBlock::new(7), ..mapping }
    }

    fn extent(start: u32, length_blocks: u32, count: u32) -> SharedExtent {
        SharedExtent { start: AgBlock::new(start), length_blocks, count, is_cow_staging: false }
    }

    #[test]
    fn blocks_of_several_files_are_counted() {
        let all =
            [of_file(1, 10, 10), of_file(2, 15, 10), of_file(3, 18, 2), of_file(4, 40, 1), of_file(1, 25, 3)];
        let shared = Shared::of(&all, true);
        assert_eq!(shared.extents, [extent(15, 3, 2), extent(18, 2, 3)]);
        assert_eq!((shared.conflicts, shared.in_use), (Vec::new(), vec![10..28, 40..41]));
        let refused = Shared::of(&all, false);
        let blocks = |range: &Range<u32>| (range.start, range.end);
        let conflicts: Vec<_> = refused.conflicts.iter().map(blocks).collect();
        assert_eq!((refused.extents, conflicts), (Vec::new(), vec![(15, 20)]));
    }

    #[test]
    fn what_is_no_contents_is_not_shared() {
        let chunks = Mapping::of_group(AgBlock::new(8), 8, Owner::InodeChunks);
        let attribute = Mapping { is_attribute_fork: true, ..of_file(5, 30, 2) };
        let shared = Shared::of(&[of_file(1, 4, 6), chunks, attribute, of_file(2, 31, 4)], true);
        assert_eq!((shared.extents, shared.conflicts), (Vec::new(), vec![8..10, 31..32]));
    }
}

//! Which blocks of a group files have: asked for each inode chunk.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_format::{
    btree::{
        inode_index::InodeChunk,
        reverse_map::{Mapping, Owner},
    },
    geometry::{Geometry, INODES_PER_CHUNK},
    units::{AgBlock, AgNumber, FileBlock, InodeNumber},
};

/// Blocks of a group that files have: runs in order, neighbours joined.
#[derive(Debug, Default)]
pub(super) struct Taken {
    runs: Vec<(AgBlock, AgBlock)>,
}

impl Taken {
    /// By these mappings.
    pub fn by(files: &[Mapping]) -> Self {
        let mut all: Vec<(AgBlock, AgBlock)> = files.iter().map(|file| (file.start, file.end())).collect();
        all.sort_unstable();
        let mut runs: Vec<(AgBlock, AgBlock)> = Vec::new();
        for (start, end) in all {
            match runs.last_mut() {
                Some((_, last)) if start <= *last => *last = end.max(*last),
                _ => runs.push((start, end)),
            }
        }
        Self { runs }
    }

    /// Whether a file has some of these blocks.
    fn overlaps(&self, start: AgBlock, end: AgBlock) -> bool {
        let next = self.runs.partition_point(|(_, run_end)| *run_end <= start);
        self.runs.get(next).is_some_and(|(run_start, _)| *run_start < end)
    }

    /// Whether some of these blocks are headers, log, or a file's.
    pub fn is_taken(&self, geometry: &Geometry, group: AgNumber, (start, end): (AgBlock, AgBlock)) -> bool {
        let log = geometry.log_start.and_then(|log| geometry.split_fs_block(log));
        let is_log = log.is_some_and(|(of_log, log)| {
            of_log == group && start.get() < log.get().saturating_add(geometry.log_blocks) && log < end
        });
        is_log || start.get() < geometry.group_header_blocks() || self.overlaps(start, end)
    }

    /// Takes from the chunks what has no inode in use and whose blocks a file has: whole chunks, all those of a block that holds several,
    /// or parts of sparse chunks, which are holes then.
    pub fn take_from(&self, geometry: &Geometry, chunks: &mut Vec<InodeChunk>) {
        let block_of = |chunk: &InodeChunk| chunk.start.get() >> geometry.inodes_per_block_log;
        if geometry.has_several_chunks_in_block() {
            let in_use: BTreeSet<u32> =
                chunks.iter().filter(|chunk| !chunk.is_unused()).map(block_of).collect();
            chunks.retain(|chunk| in_use.contains(&block_of(chunk)) || !self.has_blocks_of(geometry, chunk));
        } else if geometry.features.has_sparse_inodes() {
            chunks.iter_mut().for_each(|chunk| self.punch_holes(geometry, chunk));
            chunks.retain(|chunk| chunk.count > 0);
        } else {
            chunks.retain(|chunk| !chunk.is_unused() || !self.has_blocks_of(geometry, chunk));
        }
    }

    /// Whether a file has blocks of a chunk.
    fn has_blocks_of(&self, geometry: &Geometry, chunk: &InodeChunk) -> bool {
        let mut blocks = chunk.blocks(geometry).into_iter();
        blocks.any(|(start, length_blocks)| {
            self.overlaps(start, AgBlock::new(start.get().saturating_add(length_blocks)))
        })
    }

    fn punch_holes(&self, geometry: &Geometry, chunk: &mut InodeChunk) {
        let unit = geometry.inodes_per_sparse_unit();
        for first in (0..INODES_PER_CHUNK).step_by(unit as usize) {
            let of_unit = (u64::MAX >> (64 - unit)) << first;
            let start = chunk.inode(first).get() >> geometry.inodes_per_block_log;
            let end =
                (chunk.inode(first).get().saturating_add(unit)).div_ceil(1 << geometry.inodes_per_block_log);
            let is_taken = self.overlaps(AgBlock::new(start), AgBlock::new(end));
            if is_taken && chunk.free & of_unit == of_unit {
                let holes = (0..16).filter(|bit| of_unit & 0b1111 << (bit * 4) != 0);
                chunk.hole_mask |= holes.fold(0, |mask, bit| mask | 1 << bit);
            }
        }
        chunk.count = chunk.existing().count_ones();
        chunk.free_count = (chunk.free & chunk.existing()).count_ones();
    }
}

/// A fork's extents, or the blocks of its btree.
type Kind = (u64, bool, bool);

fn kind(mapping: &Mapping) -> Kind {
    (mapping.owner.raw(), mapping.is_attribute_fork, mapping.is_extent_map_block)
}

/// The parts of `owned` that `files` do not have of the same inode and fork; of `files`, only inodes that are asked for count.
pub(super) fn uncovered(
    owned: &[Mapping],
    files: &[Mapping],
    is_asked_for: &dyn Fn(InodeNumber) -> bool,
) -> Vec<Mapping> {
    let mut found: BTreeMap<Kind, Vec<(AgBlock, AgBlock)>> = BTreeMap::new();
    for file in files {
        if matches!(file.owner, Owner::Inode(inode) if is_asked_for(inode)) {
            found.entry(kind(file)).or_default().push((file.start, file.end()));
        }
    }
    for runs in found.values_mut() {
        runs.sort_unstable();
        // Joined, so that the ends ascend as well.
        runs.dedup_by(|next, last| {
            let is_joined = next.0 <= last.1;
            if is_joined {
                last.1 = last.1.max(next.1);
            }
            is_joined
        });
    }
    let mut parts = Vec::new();
    for mapping in owned {
        let runs = found.get(&kind(mapping)).map(Vec::as_slice).unwrap_or_default();
        let first = runs.partition_point(|(_, end)| *end <= mapping.start);
        let mut at = mapping.start;
        let overlapping = runs.iter().skip(first).take_while(|(start, _)| *start < mapping.end());
        for (start, end) in overlapping.copied().chain([(mapping.end(), mapping.end())]) {
            if at < start {
                parts.push(part(mapping, at, start));
            }
            at = at.max(end);
        }
    }
    parts
}

fn part(mapping: &Mapping, start: AgBlock, end: AgBlock) -> Mapping {
    let done = u64::from(start.get().saturating_sub(mapping.start.get()));
    let file_block =
        if mapping.has_file_blocks() { mapping.file_block.get().saturating_add(done) } else { 0 };
    Mapping {
        start,
        length_blocks: end.get().saturating_sub(start.get()),
        file_block: FileBlock::new(file_block),
        ..*mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(inode: u64, start: u32, length_blocks: u32) -> Mapping {
        let owner = Owner::Inode(InodeNumber::new(inode));
        let mapping = Mapping::of_group(AgBlock::new(start), length_blocks, owner);
        Mapping { file_block: FileBlock::new(1000 + u64::from(start)), ..mapping }
    }

    #[test]
    fn what_files_have_is_taken() {
        let taken = Taken::by(&[of_file(1, 30, 5), of_file(2, 10, 4), of_file(3, 14, 2), of_file(4, 11, 1)]);
        let overlaps = |start, end| taken.overlaps(AgBlock::new(start), AgBlock::new(end));
        assert!(overlaps(0, 11) && overlaps(15, 20) && overlaps(34, 35) && overlaps(0, 100));
        assert!(!overlaps(0, 10) && !overlaps(16, 30) && !overlaps(35, 100));
    }

    #[test]
    fn what_no_file_shows_is_left() {
        let files = [of_file(1, 12, 2), of_file(2, 10, 10), of_file(1, 13, 4)];
        let owned = [of_file(1, 10, 10), of_file(1, 30, 2)];
        let left = [of_file(1, 10, 2), of_file(1, 17, 3), of_file(1, 30, 2)];
        assert_eq!(uncovered(&owned, &files, &|inode| inode == InodeNumber::new(1)), left);
    }
}

//! The space of one allocation group: the owner of each block, and the free extents.

use uxfs_format::btree::reverse_map::Owner;

use super::Layout;

/// Neighbouring blocks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First.
    pub start: u32,
    /// How many.
    pub length: u32,
}

impl Run {
    /// First block behind it.
    pub fn end(self) -> u32 {
        self.start + self.length
    }
}

/// The space of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpace {
    /// Used extents in order of blocks; neighbours of one owner are merged.
    pub used: Vec<(Run, Owner)>,
    /// Free extents in order of blocks.
    pub free: Vec<Run>,
    /// The blocks of the free list, in its order.
    pub free_list: Vec<u32>,
}

impl GroupSpace {
    /// The space of `group` in an empty image, or nothing where it is too small for all that must be in it.
    pub(super) fn new(layout: &Layout, group: u32) -> Option<Self> {
        let mut space = Self { used: Vec::new(), free: Vec::new(), free_list: Vec::new() };
        space.take_tables(layout);
        let behind = layout.tables.first_free_block;
        let length = layout.group_blocks(group).checked_sub(behind)?;
        space.free.push(Run { start: behind, length });
        if group == layout.log.group {
            let log = Run { start: layout.log.start_block, length: layout.log.blocks };
            space.take(log, Owner::Log)?;
        }
        space.take_free_list(layout.free_list_blocks)?;
        if group == 0 {
            let chunk = Run { start: layout.root_chunk_block, length: layout.sizes.chunk_blocks() };
            space.take(chunk, Owner::InodeChunks)?;
        }
        space.join_neighbours();
        Some(space)
    }

    /// Free blocks of the trees, the free list left out.
    pub fn free_blocks(&self) -> u32 {
        self.free.iter().map(|run| run.length).sum()
    }

    fn take_tables(&mut self, layout: &Layout) {
        let tables = &layout.tables;
        let headers = Run { start: 0, length: layout.sizes.group_header_blocks() };
        self.used.push((headers, Owner::GroupHeaders));
        let roots = [
            (Some(tables.by_block), Owner::GroupBtrees),
            (Some(tables.by_length), Owner::GroupBtrees),
            (Some(tables.inode_index), Owner::InodeBtrees),
            (tables.free_inode_index, Owner::InodeBtrees),
            (tables.reverse_map, Owner::GroupBtrees),
            (tables.reference_count, Owner::ReferenceCountBtree),
        ];
        for (root, owner) in roots {
            if let Some(start) = root {
                self.used.push((Run { start, length: 1 }, owner));
            }
        }
    }

    /// Takes a run that lies within one free run.
    fn take(&mut self, run: Run, owner: Owner) -> Option<()> {
        let fits = |free: &Run| free.start <= run.start && run.end() <= free.end();
        let index = self.free.iter().position(fits)?;
        let around = self.free.remove(index);
        let parts = [
            Run { start: around.start, length: run.start - around.start },
            Run { start: run.end(), length: around.end() - run.end() },
        ];
        for part in parts.into_iter().rev().filter(|part| part.length > 0) {
            self.free.insert(index, part);
        }
        self.used.push((run, owner));
        Some(())
    }

    /// The free list is taken from the first run that is long enough, else piece by piece from the longest ones, as mkfs.xfs allocates it.
    /// Where the log leaves too little, the group begins without a list.
    fn take_free_list(&mut self, length: u32) -> Option<()> {
        if self.free_blocks() < length {
            return Some(());
        }
        while let missing @ 1.. = length - self.free_list.len() as u32 {
            let enough = self.free.iter().find(|run| run.length >= missing);
            let Some(run) = enough.or_else(|| self.free.iter().max_by_key(|run| run.length)) else { break };
            let run = Run { start: run.start, length: missing.min(run.length) };
            self.take(run, Owner::GroupBtrees)?;
            self.free_list.extend(run.start..run.end());
        }
        Some(())
    }

    fn join_neighbours(&mut self) {
        self.used.sort_by_key(|(run, _)| run.start);
        self.used.dedup_by(|(next, owner), (run, run_owner)| {
            let joins = run.end() == next.start && run_owner == owner;
            if joins {
                run.length += next.length;
            }
            joins
        });
    }
}

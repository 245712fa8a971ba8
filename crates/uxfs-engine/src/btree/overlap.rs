//! Lookups in the tree whose records overlap.

use uxfs_format::{
    btree::{
        check::BtreeFault,
        reverse_map::{Mapping, ReverseMap, ReverseMapRecord},
    },
    units::AgBlock,
};

use super::{cursor::EditCursor, storage::BtreeStorage};
use uxfs_volume::error::Result;

impl<'fs, H: BtreeStorage<'fs, ReverseMap>> EditCursor<'fs, ReverseMap, H> {
    /// Goes to the first mapping that covers `block` and that `accept` wants. `None`, and nowhere, where there is none.
    /// Enters only the parts of the tree that reach so far.
    ///
    /// # Errors
    /// As [`seek_exact`](Self::seek_exact).
    #[doc(alias = "xfs_btree_query_range")]
    pub fn seek_covering(
        &mut self,
        block: AgBlock,
        accept: &dyn Fn(&Mapping) -> bool,
    ) -> Result<Option<ReverseMapRecord>> {
        self.guarded(|cursor| {
            cursor.is_at_record = cursor.search_covering(block, accept)?;
            if !cursor.is_at_record {
                // The search went past the end of each node: this is no way to a leaf.
                cursor.blocks.path.clear();
            }
            Ok(cursor.record())
        })
    }

    fn search_covering(&mut self, block: AgBlock, accept: &dyn Fn(&Mapping) -> bool) -> Result<bool> {
        let levels = self.restart()?;
        let budget = u64::from(self.blocks.geometry.ag_blocks);
        let (mut level, mut entered) = (levels.saturating_sub(1), 0);
        self.blocks.load(level)?;
        loop {
            if level == 0 {
                let covers = |record: &ReverseMapRecord| {
                    let mapping = record.get();
                    mapping.start <= block && block < mapping.end() && accept(&mapping)
                };
                if let Some(index) = self.blocks.view(0)?.records().iter().position(covers) {
                    self.blocks.path.set_index(0, index);
                    return Ok(true);
                }
            } else if let Some(index) = self.next_reaching(level, block)? {
                entered += 1;
                if entered > budget {
                    return Err(self.blocks.damaged(None, BtreeFault::TooManyBlocks { budget }));
                }
                self.blocks.path.set_index(level, index);
                self.go_down(level)?;
                level -= 1;
                self.blocks.path.set_index(level, 0);
                continue;
            }
            level += 1;
            if level >= levels {
                return Ok(false);
            }
            self.blocks.path.set_index(level, self.blocks.path.index(level) + 1);
        }
    }

    /// The next entry of a node, from its index on, below which something may cover `block`.
    fn next_reaching(&mut self, level: usize, block: AgBlock) -> Result<Option<usize>> {
        let first = self.blocks.path.index(level);
        let keys = self.blocks.view(level)?.keys().get(first..).unwrap_or_default();
        let mut reachable = keys.iter().take_while(|key| key.low_start.get() <= block.get());
        let found = reachable.position(|key| key.high_start.get() >= block.get());
        Ok(found.map(|distance| first + distance))
    }
}

//! Reference counts of a group that is being changed.

use uxfs_format::{
    btree::reference_count::ReferenceCount, log::reference_count::ReferenceCountOperation, units::AgBlock,
};

use super::edit::{self, Change};
use crate::{
    allocation_group::{group_edit::GroupEdit, trees::GroupCursor},
    transaction::deferred::queue::{FreedOwner, Work},
};
use uxfs_volume::error::Result;

/// Most records that one step changes. A logged transaction has room for so many changes; the rest becomes another
/// step, before all other deferred work.
const MOST_CHANGES: u32 = 256;

impl<'fs> GroupEdit<'_, 'fs> {
    /// A cursor in the tree of shared extents; `None` in a file system without one.
    fn reference_count_cursor(&mut self) -> Option<GroupCursor<'_, 'fs, ReferenceCount>> {
        let has_sharing = self.volume.geometry().features.has_reflink();
        has_sharing.then(|| self.tree())
    }

    /// The first blocks of a range that several files share: where they begin and how many there are.
    ///
    /// # Errors
    /// Damage; the device.
    #[doc(alias = "xfs_refcount_find_shared")]
    pub fn find_shared(&mut self, start: AgBlock, length_blocks: u32) -> Result<Option<(AgBlock, u32)>> {
        match self.reference_count_cursor() {
            Some(mut cursor) => edit::find_shared(&mut cursor, start, length_blocks),
            None => Ok(None),
        }
    }

    /// Does what an intent or deferred work says. Blocks that have no owner any more become free by deferred work.
    pub fn change_references(
        &mut self,
        operation: ReferenceCountOperation,
        start: AgBlock,
        length_blocks: u32,
    ) -> Result<()> {
        self.ready_free_list()?;
        let change = match operation {
            ReferenceCountOperation::Increase => Change::Increase,
            ReferenceCountOperation::Decrease => Change::Decrease,
            ReferenceCountOperation::AllocateCow | ReferenceCountOperation::FreeCow => {
                return self.change_staging(operation, start, length_blocks);
            }
        };
        let mut unowned = std::mem::take(&mut self.deferred.unowned);
        unowned.clear();
        let done = match self.reference_count_cursor() {
            Some(mut cursor) => {
                let collect = |start, length_blocks| unowned.push((start, length_blocks));
                edit::adjust(&mut cursor, start, length_blocks, change, MOST_CHANGES, collect)?
            }
            None => length_blocks,
        };
        for (start, length_blocks) in unowned.drain(..) {
            self.defer_free(start, length_blocks, FreedOwner::NoOwner);
        }
        self.deferred.unowned = unowned;
        let rest = length_blocks.saturating_sub(done);
        if rest > 0 {
            let start = AgBlock::new(start.get().saturating_add(done));
            let group = self.state.group();
            self.deferred.push(Work::References { operation, group, start, length_blocks: rest });
        }
        Ok(())
    }

    fn change_staging(
        &mut self,
        operation: ReferenceCountOperation,
        start: AgBlock,
        length_blocks: u32,
    ) -> Result<()> {
        let Some(mut cursor) = self.reference_count_cursor() else { return Ok(()) };
        match operation {
            ReferenceCountOperation::FreeCow => edit::unstage(&mut cursor, start, length_blocks),
            _ => edit::stage(&mut cursor, start, length_blocks),
        }
    }
}

//! Shared extents of a group.

use uxfs_format::{
    allocation_group::free_space_header::FreeSpaceHeader,
    btree::reference_count::{ReferenceCount, ReferenceCountPosition, SharedExtent},
    units::AgBlock,
};

use super::reader::GroupReader;
use crate::{btree::Tree, error::Result};

impl<'v> GroupReader<'v> {
    /// The tree of a group's shared extents; `None` where the file system has none.
    ///
    /// # Errors
    /// [`OperationError::NoSuchGroup`](crate::error::OperationError::NoSuchGroup); damage of the header; the device.
    pub fn reference_counts(self) -> Result<Option<Tree<'v, ReferenceCount>>> {
        let header = self.free_space_header()?;
        Ok(self.reference_counts_of(&header))
    }

    /// The tree that `header` names: the current header of a group that is being changed may be in memory only.
    fn reference_counts_of(self, header: &FreeSpaceHeader) -> Option<Tree<'v, ReferenceCount>> {
        let root = AgBlock::new(header.reference_count_root.get());
        let levels = header.reference_count_levels.get();
        self.volume
            .geometry()
            .features
            .has_reflink()
            .then(|| Tree::of_group(self.volume, self.group, root, levels))
    }

    /// All shared extents of a group in order, behind them those set aside for a copy-on-write; none where the file
    /// system has no such trees.
    ///
    /// # Errors
    /// As [`reference_counts`](Self::reference_counts).
    pub fn shared_extents(self) -> Result<impl Iterator<Item = Result<SharedExtent>> + use<'v>> {
        let header = self.free_space_header()?;
        Ok(self.shared_extents_of(&header))
    }

    /// The extents of a group that are set aside for a copy-on-write, from the tree that `header` names. The caller sees to it that the tree does not change meanwhile.
    pub fn staging_extents_of(
        self,
        header: &FreeSpaceHeader,
    ) -> impl Iterator<Item = Result<SharedExtent>> + use<'v> {
        let first = ReferenceCountPosition { is_cow_staging: true, start: AgBlock::new(0) };
        let mut cursor = self.reference_counts_of(header).map(|tree| tree.cursor());
        let mut is_begun = false;
        std::iter::from_fn(move || {
            let at = cursor.as_mut()?;
            let record =
                if std::mem::replace(&mut is_begun, true) { at.next() } else { at.at_or_after(first) };
            let record = record.transpose().map(|record| record.map(|record| record.get()));
            // Behind an error there is nothing.
            if record.as_ref().is_none_or(Result::is_err) {
                cursor = None;
            }
            record
        })
    }

    /// All extents in the tree of reference counts, where `header` says that it lies. The caller sees to it that the tree does not change meanwhile.
    pub fn shared_extents_of(
        self,
        header: &FreeSpaceHeader,
    ) -> impl Iterator<Item = Result<SharedExtent>> + use<'v> {
        let records = self.reference_counts_of(header).map(|tree| tree.records());
        records.into_iter().flatten().map(|record| record.map(|record| record.get()))
    }
}
